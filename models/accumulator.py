"""The accumulator that the stress test drives: OUTPUT is the running sum of a sequence's INPUTs.

Served by Triton's Python backend. START sets the sum to the step's input, every later step adds its own, in 32-bit
wrapping arithmetic; with several elements their sum is added and every element of OUTPUT holds the accumulator.

Where the configuration declares a CORRID control the state is kept by correlation ID (which the Oldest strategy needs,
because a sequence's place in the batch varies there), else by slot, which under the Direct strategy is the place in the
batch. Rows whose READY is 0 are idle slots: they are answered without OUTPUT. A control that is not declared counts as
1 for READY and as 0 for START and END.

A client that asks for the output SEEN, which parameter sequence_stress_controls names to it, is told what the model saw: START,
END, READY, CORRID and the number of the slot among those of all instances, as INT64; -1 is what the model does not know, such
as the slot under Oldest.

Configuration parameters:
  execute_delay_ms         how long one execution takes, in ms (default 0)
  sequence_stress_formula  'running-sum' (default), or 'running-sum-plus-corrid-at-end': the answer to END is higher by
                           the low 32 bits of CORRID (of a string its decimal number, or 0 where it is none); the sum
                           that is kept is not
  error_on_value           a step whose INPUT sums to this number is answered with an error and changes nothing
  fault                    a planted fault, NAME, NAME:PROBABILITY or NAME:once@N; see FAULTS
  fault_hold_ms            how long 'slow-execution' holds a batch back, in ms (default 10000)
  fault_seed               the seed of the faults that are planted by probability
"""

import collections
import json
import os
import random
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FAULTS = {
    "off-by-one": "the answer is one too high, the state stays right",
    "keep-state": "START does not reset the state that the slot or the ID had before",
    "swap-states": "two sequences of one batch exchange their states",
    "slow-execution": "a batch is answered only after fault_hold_ms",
}

RUNNING_SUM = "running-sum"
PLUS_CORRID_AT_END = "running-sum-plus-corrid-at-end"

# The server does not say when it reaps a sequence, so entries by correlation ID go oldest first rather than at END.
ENTRIES_MAX = 100_000

SEEN = "SEEN"


class Fault:
    """Decides when the planted fault happens."""

    def __init__(self, text, seed, marker):
        self.name, _, when = text.partition(":")
        if self.name not in FAULTS:
            raise ValueError(f"parameter 'fault': unknown fault '{self.name}', known are {', '.join(FAULTS)}")
        self.chances = 0
        self.once_at = int(when[len("once@"):]) if when.startswith("once@") else None
        self.probability = float(when) if when and self.once_at is None else 1.0
        self.random = random.Random(seed)
        self.marker = marker

    def happens(self, name):
        """Whether the fault happens at this chance to commit the fault `name`."""
        if name != self.name:
            return False
        self.chances += 1
        if self.once_at is None:
            return self.random.random() < self.probability
        return self.chances >= self.once_at and self._first_of_all_instances()

    def _first_of_all_instances(self):
        # Every instance is a process of its own: the one that creates the file commits the fault.
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            return False


class NoFault:
    def happens(self, name):
        return False


def wrapped(total):
    """`total` as a 32-bit two's-complement number."""
    return (total + 2**31) % 2**32 - 2**31


def scalar(request, name, default=None):
    """The one element of the tensor `name`; `default` where there is no such tensor and there is a default."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None and default is not None else tensor.as_numpy().reshape(-1)[0]


def number(correlation_id):
    """A correlation ID as a number."""
    if not isinstance(correlation_id, bytes):
        return int(correlation_id)
    return int(correlation_id) if correlation_id.isdigit() else 0


def trailing_number(name):
    """The number that `name` ends in, or 0: instances are named so where there are several."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits else 0


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        slots = max(1, config["max_batch_size"])
        is_direct = "oldest" not in config["sequence_batching"]
        self.first_slot = trailing_number(args["model_instance_name"]) * slots if is_direct else None
        self.seen_shape = [1, -1] if config["max_batch_size"] > 0 else [-1]
        parameters = {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
        self.delay_s = int(parameters.get("execute_delay_ms", "0")) / 1000
        self.hold_s = int(parameters.get("fault_hold_ms", "10000")) / 1000
        self.fault = NoFault()
        if parameters.get("fault"):
            marker = os.path.join(args["model_repository"], "fault-committed")
            self.fault = Fault(parameters["fault"], parameters.get("fault_seed", "0"), marker)
        self.formula = parameters.get("sequence_stress_formula", RUNNING_SUM)
        if self.formula not in (RUNNING_SUM, PLUS_CORRID_AT_END):
            raise ValueError(f"parameter 'sequence_stress_formula': unknown formula '{self.formula}'")
        self.error_on_value = int(parameters["error_on_value"]) if "error_on_value" in parameters else None
        controls = {control["name"] for control in config["sequence_batching"]["control_input"]}
        self.by_correlation_id = "CORRID" in controls
        self.sums = collections.OrderedDict()

    def execute(self, requests):
        if self.delay_s:
            time.sleep(self.delay_s)
        if self.fault.happens("slow-execution"):
            time.sleep(self.hold_s)
        rows = [self.row(index, request) for index, request in enumerate(requests)]
        going_on = [key for key, ready, start in rows if ready and not start and key in self.sums]
        if len(going_on) >= 2 and self.fault.happens("swap-states"):
            one, other = going_on[:2]
            self.sums[one], self.sums[other] = self.sums[other], self.sums[one]
        seen = [self.seen(index, request) for index, request in enumerate(requests)]
        return [self.step(request, its, *row) for request, its, row in zip(requests, seen, rows)]

    def row(self, index, request):
        """The key of the row's state, and its READY and START."""
        key = scalar(request, "CORRID") if self.by_correlation_id else index
        return key, scalar(request, "READY", 1) == 1, scalar(request, "START", 0) == 1

    def seen(self, index, request):
        """What the model saw of a row, as the output that tells it; nothing where nobody asks for it."""
        if SEEN not in request.requested_output_names():
            return []
        flags = [scalar(request, name, -1) for name in ("START", "END", "READY")]
        corrid = scalar(request, "CORRID", -1)
        corrid = np.uint64(number(corrid) % 2**64).astype(np.int64)
        slot = -1 if self.first_slot is None else self.first_slot + index
        elements = np.array([*flags, corrid, slot], dtype=np.int64)
        return [pb_utils.Tensor(SEEN, elements.reshape(self.seen_shape))]

    def step(self, request, seen, key, ready, start):
        if not ready:
            return pb_utils.InferenceResponse(output_tensors=seen)
        values = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        added = int(values.sum(dtype=np.int64))
        if added == self.error_on_value:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"the model takes no {added}"))
        before = self.sums.get(key, 0)
        if start and before and not self.fault.happens("keep-state"):
            before = 0
        total = wrapped(before + added)
        self.remember(key, total)
        if self.formula == PLUS_CORRID_AT_END and scalar(request, "END", 0) == 1:
            total = wrapped(total + number(scalar(request, "CORRID")))
        if self.fault.happens("off-by-one"):
            total = wrapped(total + 1)
        output = pb_utils.Tensor("OUTPUT", np.full(values.shape, total, dtype=np.int32))
        return pb_utils.InferenceResponse(output_tensors=[output, *seen])

    def remember(self, key, total):
        self.sums[key] = total
        self.sums.move_to_end(key)
        if len(self.sums) > ENTRIES_MAX:
            self.sums.popitem(last=False)
