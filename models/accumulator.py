"""The accumulator that the stress test drives: OUTPUT is the running sum of a sequence's INPUTs.

Served by Triton's Python backend. START sets the sum to the initial state and the step's input, every later step adds its own;
with several elements their sum is added and every element of OUTPUT holds the accumulator. The tensors are INT8 to INT64 or
UINT8 to UINT64, which wrap, FP16, FP32 or FP64, which add in their own type, or texts, each of which is an INT32 in decimal.

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
                           CORRID, the sum that is kept is not: by all of its bits where the numbers have 64, else by its low
                           32 as INT32 (a string counts as its decimal number, or 0 where it is none).
                           'ready-times-input-plus-start' and 'ready-times-input-plus-start-plus-corrid-at-end': nothing is
                           kept, and START counts as 1
  sequence_stress_initial_state  what the state of a new sequence begins with (default 0)
  error_on_value           a step whose INPUT sums to this number is answered with an error and changes nothing
  fault                    a planted fault, NAME, NAME:PROBABILITY or NAME:once@N; see FAULTS
  fault_hold_ms            how long 'slow-execution' holds a batch back, in ms (default 10000)
  fault_seed               the seed of the faults that are planted by probability
"""

import collections
import json
import os
import random
import re
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
STATELESS = "ready-times-input-plus-start"
PLUS_CORRID_AT_END = "-plus-corrid-at-end"
FORMULAS = [RUNNING_SUM, RUNNING_SUM + PLUS_CORRID_AT_END, STATELESS, STATELESS + PLUS_CORRID_AT_END]

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
        self.once_at = int(when[len("once@") :]) if when.startswith("once@") else None
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


class Integers:
    """Numbers of so many bits, which wrap."""

    def __init__(self, bits, signed, dtype):
        self.bits, self.dtype = bits, dtype
        self.least = -(2 ** (bits - 1)) if signed else 0

    def wrapped(self, number):
        return (number - self.least) % 2**self.bits + self.least

    def number(self, element):
        return int(element)

    def parsed(self, text):
        """The number that is written down; an error where the type has none such."""
        number = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
        if number is None or number != self.wrapped(number):
            raise ValueError(f"'{text}' is no whole number of this type")
        return number

    def add(self, one, other):
        return self.wrapped(one + other)

    def of_id(self, number):
        # The low 32 bits are taken as INT32.
        return self.wrapped(number if self.bits == 64 else INT32.wrapped(number))

    def elements(self, shape, number):
        return np.full(shape, number, dtype=self.dtype)


class Texts(Integers):
    """INT32 in decimal."""

    def __init__(self):
        super().__init__(32, True, np.object_)

    def number(self, element):
        if isinstance(element, int):
            return element
        text = element.decode("utf-8", "replace") if isinstance(element, bytes) else str(element)
        try:
            return self.parsed(text)
        except ValueError:
            raise ValueError(f"tensor 'INPUT': '{text}' is no INT32 in decimal") from None

    def elements(self, shape, number):
        return np.full(shape, str(number).encode(), dtype=np.object_)


class Floats:
    """Numbers of a floating-point type, which add in that type."""

    def __init__(self, dtype):
        self.dtype = dtype

    def number(self, element):
        return self.dtype(element)

    def parsed(self, text):
        number = self.dtype(text)
        if not np.isfinite(number):
            raise ValueError(f"'{text}' is no finite number")
        return number

    def add(self, one, other):
        with np.errstate(over="ignore", invalid="ignore"):
            return self.dtype(self.dtype(one) + self.dtype(other))

    def of_id(self, number):
        return self.dtype(INT32.wrapped(number))

    def elements(self, shape, number):
        return np.full(shape, number, dtype=self.dtype)


INT32 = Integers(32, True, np.int32)
ARITHMETIC = {
    "TYPE_INT8": Integers(8, True, np.int8),
    "TYPE_INT16": Integers(16, True, np.int16),
    "TYPE_INT32": INT32,
    "TYPE_INT64": Integers(64, True, np.int64),
    "TYPE_UINT8": Integers(8, False, np.uint8),
    "TYPE_UINT16": Integers(16, False, np.uint16),
    "TYPE_UINT32": Integers(32, False, np.uint32),
    "TYPE_UINT64": Integers(64, False, np.uint64),
    "TYPE_FP16": Floats(np.float16),
    "TYPE_FP32": Floats(np.float32),
    "TYPE_FP64": Floats(np.float64),
    "TYPE_STRING": Texts(),
}


def scalar(request, name, default=None):
    """The one element of the tensor `name`; `default` where there is no such tensor and there is a default."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None and default is not None else tensor.as_numpy().reshape(-1)[0]


def true_values(control_inputs):
    """What each control that is true or false is where it is true, by its name."""
    values = {}
    for control_input in control_inputs:
        for control in control_input["control"]:
            for kind in ("int32_false_true", "fp32_false_true", "bool_false_true"):
                if control.get(kind):
                    values[control_input["name"]] = control[kind][1]
    return values


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
        formula = parameters.get("sequence_stress_formula", RUNNING_SUM)
        if formula not in FORMULAS:
            raise ValueError(f"parameter 'sequence_stress_formula': unknown formula '{formula}'")
        self.is_stateless = formula.startswith(STATELESS)
        self.adds_corrid = formula.endswith(PLUS_CORRID_AT_END)
        data_type = config["input"][0]["data_type"]
        if data_type not in ARITHMETIC:
            why = "has sums that are exact up to 256 alone" if data_type == "TYPE_BF16" else "has no sum"
            raise ValueError(f"input 'INPUT': {data_type} {why}, known are {', '.join(ARITHMETIC)}")
        self.arithmetic = ARITHMETIC[data_type]
        self.initial = self.parsed(parameters, "sequence_stress_initial_state", "0")
        self.error_on_value = self.parsed(parameters, "error_on_value", None)
        controls = config["sequence_batching"]["control_input"]
        self.by_correlation_id = "CORRID" in {control["name"] for control in controls}
        self.true_values = true_values(controls)
        self.sums = collections.OrderedDict()

    def parsed(self, parameters, name, default):
        """The number that a parameter is."""
        text = parameters.get(name, default)
        try:
            return None if text is None else self.arithmetic.parsed(text)
        except ValueError as problem:
            raise ValueError(f"parameter '{name}': {problem}") from problem

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
        return key, self.is_true(request, "READY", True), self.is_true(request, "START", False)

    def is_true(self, request, name, default):
        """Whether a control is true; `default` where the configuration does not declare it."""
        if name not in self.true_values:
            return default
        return bool(scalar(request, name) == self.true_values[name])

    def seen(self, index, request):
        """What the model saw of a row, as the output that tells it; nothing where nobody asks for it."""
        if SEEN not in request.requested_output_names():
            return []
        flags = [int(self.is_true(request, name, -1)) for name in ("START", "END", "READY")]
        corrid = scalar(request, "CORRID", -1)
        corrid = np.uint64(number(corrid) % 2**64).astype(np.int64)
        slot = -1 if self.first_slot is None else self.first_slot + index
        elements = np.array([*flags, corrid, slot], dtype=np.int64)
        return [pb_utils.Tensor(SEEN, elements.reshape(self.seen_shape))]

    def step(self, request, seen, key, ready, start):
        if not ready:
            return pb_utils.InferenceResponse(output_tensors=seen)
        arithmetic = self.arithmetic
        values = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        added = arithmetic.number(0)
        try:
            for element in values.reshape(-1):
                added = arithmetic.add(added, arithmetic.number(element))
        except ValueError as problem:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(problem)))
        if self.error_on_value is not None and added == self.error_on_value:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"the model takes no {added}"))
        total = arithmetic.add(self.before(key, start), added)
        if not self.is_stateless:
            self.remember(key, total)
        if self.adds_corrid and self.is_true(request, "END", False):
            total = arithmetic.add(total, arithmetic.of_id(number(scalar(request, "CORRID"))))
        if self.fault.happens("off-by-one"):
            total = arithmetic.add(total, 1)
        output = pb_utils.Tensor("OUTPUT", arithmetic.elements(values.shape, total))
        return pb_utils.InferenceResponse(output_tensors=[output, *seen])

    def before(self, key, start):
        """What a step adds to."""
        if self.is_stateless:
            return self.arithmetic.number(int(start))
        before = self.sums.get(key, self.initial)
        if start and before != self.initial and not self.fault.happens("keep-state"):
            return self.initial
        return before

    def remember(self, key, total):
        self.sums[key] = total
        self.sums.move_to_end(key)
        if len(self.sums) > ENTRIES_MAX:
            self.sums.popitem(last=False)
