"""A worker of Dynamo that serves a stateful model: the running sum of each sequence, by its ID.

It is run as a program with Dynamo's runtime on PYTHONPATH: `worker.py ENDPOINT IDLE-LIMIT-MS [FAULT]`. What it keeps is in its own memory, as
a model of any framework would keep it.
"""

import asyncio
import collections
import sys
import time

from dynamo._core import DistributedRuntime

# How often a fault (words.py) is committed.
EVERY = 20
# Dynamo's names of data types.
INT32 = "Int32"


class Sums:
    """The sums of the sequences that live."""

    def __init__(self, idle_limit_s, fault=None, now=time.monotonic):
        self.idle_limit_s, self.fault, self.now = idle_limit_s, fault, now
        # Sequence ID -> (sum, when it was used); the one that was used last comes last.
        self.live = collections.OrderedDict()
        self.steps = 0

    def step(self, request):
        """The response to a request, as Dynamo's front end hands both over."""
        model, told = request["model"], {name: plain(value) for name, value in (request.get("parameters") or {}).items()}
        sequence = told.get("sequence_id")
        if sequence in (None, 0, ""):
            raise ValueError(f"inference request to model '{model}' must specify a non-zero or non-empty correlation ID")
        tensor = next((tensor for tensor in request["tensors"] if tensor["metadata"]["name"] == "INPUT"), None)
        if tensor is None or len(tensor["data"]["values"]) != 1 or tensor["metadata"]["data_type"] != INT32:
            raise ValueError(f"model '{model}' takes one number of INT32 as INPUT")
        starts = bool(told.get("sequence_start"))
        total = self.sum_before(model, sequence, starts)
        excess = 1 if self.fault == "add-one" and not starts and self.steps % EVERY == 0 else 0
        total = wrapped(total + tensor["data"]["values"][0] + excess)
        if told.get("sequence_end"):
            self.live.pop(sequence, None)
        else:
            self.live[sequence] = total, self.now()
            self.live.move_to_end(sequence)
        metadata = {"name": "OUTPUT", "shape": tensor["metadata"]["shape"], "data_type": INT32}
        return {"model": model, "id": request.get("id"), "tensors": [{"metadata": metadata, "data": {"data_type": INT32, "values": [total]}}]}

    def sum_before(self, model, sequence, starts):
        self.reap()
        if starts:
            return 0
        self.steps += 1
        if self.fault == "forget" and self.steps % EVERY == 0:
            self.live.pop(sequence, None)
        if sequence not in self.live:
            raise ValueError(f"inference request for sequence {sequence} to model '{model}' must specify the START flag on the first request of the sequence")
        return self.live[sequence][0]

    def reap(self):
        """Forgets the sequences that were idle for too long."""
        while self.live:
            sequence, (_, used) = next(iter(self.live.items()))
            if self.now() - used <= self.idle_limit_s:
                return
            del self.live[sequence]


def plain(value):
    """A parameter's value: Dynamo wraps it into an object that names its type."""
    return next(iter(value.values())) if isinstance(value, dict) else value


def wrapped(number):
    """A sum as 32 bits keep it."""
    return (number + 2**31) % 2**32 - 2**31


async def main():
    endpoint, idle_limit_ms, *fault = sys.argv[1:]
    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp")
    sums = Sums(int(idle_limit_ms) / 1000, *fault)

    async def generate(request, context=None):
        yield sums.step(request)

    await runtime.endpoint(endpoint).serve_endpoint(generate)


if __name__ == "__main__":
    asyncio.run(main())
