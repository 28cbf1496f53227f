"""Cancels steps of a sequence, and sends further steps of the same correlation ID on other calls at that time.

pip install 'tritonclient[grpc]'; python3 step-beside-cancel.py [HOST:PORT [MODEL [SEQUENCES [PROCESSES]]]]
The model keeps a running sum. Each sequence begins with a multiple of 256 that no other one has, and each step adds a power of two below
that. So a response tells whose state the step was executed on. The exit code is 1 if it was not the step's own sequence.
"""

import contextlib
import queue
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy
import tritonclient.grpc as grpcclient

URL = sys.argv[1] if len(sys.argv) > 1 else "localhost:8001"
MODEL = sys.argv[2] if len(sys.argv) > 2 else "custom_sequence_int32"
SEQUENCES = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
PROCESSES = int(sys.argv[4]) if len(sys.argv) > 4 else 8
DEADLINE_S = 0.004
LIMIT_S = 20
CANCELLED, BEHIND = (1, 2, 4, 8), (16, 32, 64, 128)
UNIT = 256
WRONG = ("a step was executed on the state of ANOTHER sequence", "a step was executed on NO state", "a START failed")


def inputs(value):
    tensor = grpcclient.InferInput("INPUT", [1, 1], "INT32")
    tensor.set_data_from_numpy(numpy.full([1, 1], value, "int32"))
    return [tensor]


def what_became(result, error, begun):
    """What the server did with a step of the sequence that began with this."""
    if error is not None:
        is_rejected = "must specify the START flag" in str(error)
        return "a step was rejected" if is_rejected else f"a step had {error.status()} {error.message()!r}"
    output = result.as_numpy("OUTPUT")
    if output is None or not output.size:
        return "a step had a response without output"
    of = int(output.flat[0]) // UNIT * UNIT
    return "a step was executed on its own state" if of == begun else WRONG[of == 0]


def sequences(process):
    """Counts what became of the steps behind the cancelled ones."""
    client, other = (grpcclient.InferenceServerClient(URL, channel_args=[("connection", number)]) for number in (0, 1))
    counts, first, chance = Counter(), time.time_ns() // 1000 + process * 10**8, random.Random(process)
    share = SEQUENCES // PROCESSES
    for number in range(share):
        sequence_id, begun = first + number, (process * share + number + 1) * UNIT
        try:
            client.infer(MODEL, inputs(begun), sequence_id=sequence_id, sequence_start=True, client_timeout=LIMIT_S)
        except grpcclient.InferenceServerException as error:
            print(f"START had {error.status()} {error.message()!r}", flush=True)
            counts[WRONG[2]] += 1
            continue
        client.start_stream(lambda result, error: None, stream_timeout=DEADLINE_S)
        with contextlib.suppress(grpcclient.InferenceServerException):  # the deadline may have passed
            for value in CANCELLED:
                client.async_stream_infer(MODEL, inputs(value), sequence_id=sequence_id)
        time.sleep(DEADLINE_S * chance.uniform(0.5, 1.5))
        responses = queue.Queue()
        for value in BEHIND:
            end = value == BEHIND[-1]
            receive = lambda result, error, to=responses: to.put((result, error))  # noqa: E731
            other.async_infer(MODEL, inputs(value), receive, sequence_id=sequence_id, sequence_end=end, client_timeout=LIMIT_S)
        for _ in BEHIND:
            counts[what_became(*responses.get(timeout=2 * LIMIT_S), begun)] += 1
        client.stop_stream()
    return counts


if __name__ == "__main__":
    with ProcessPoolExecutor(PROCESSES) as pool:
        total = sum(pool.map(sequences, range(PROCESSES)), Counter())
    for what, count in total.most_common():
        print(f"{'WRONG' if what in WRONG else 'right'}: {count} times: {what}")
    sys.exit(any(what in WRONG for what in total))
