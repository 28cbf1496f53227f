"""A model file of a backend that the server has not, behind the same tensors.

Served by Triton's Python backend: it runs the file by a runtime that can be had as a Python package. scripts/triton/hosting.py puts it
beside the file and tells it what to do, as JSON in the configuration's parameter sequence_stress_hosted:
  runtime   'onnxruntime', 'openvino', 'tensorflow' or 'torch'
  packages  the folder that Python finds the runtime in
  file      the name of the model's file
  states    the states that the server would keep, which the Python backend does not offer: a list of 'input', 'output', 'data_type',
            'dims', and 'initial', what a sequence begins with: 'undefined', 'zero', or 'file', the one that 'data_file' names
  corrid    the CORRID control that is a text, or null: the Python backend takes none such

All rows of an execution go through the graph at once, in their order, because a graph that keeps state keeps it by row: row n is
slot n. The rows of idle slots do, too; whatever they hold, nobody is answered with it, and no state is kept of them.

A graph may have the rows of a state along another axis than the first: the host finds it by the axes that are declared.

Configuration parameters:
  execute_delay_ms           how long one execution takes besides the graph's own time, in ms (default 0)
  fault                      a planted fault, NAME, NAME:PROBABILITY or NAME:once@N; see FAULTS. Most need states that the server would keep
  fault_seed                 the seed of the faults that are planted by probability
  sequence_stress_constants  inputs of which the graph takes one value for all rows, as JSON: {"sr": 16000}. The graph always gets this
                             value. A request that sends another one is rejected, so the input can be optional
"""

import collections
import json
import os
import random
import re
import struct
import sys
import time
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

# The server does not say when it reaps a sequence, so states by correlation ID go oldest first rather than at END.
ENTRIES_MAX = 100_000
# A sequence has an ID that is neither 0 nor empty; the row of a slot without one has not.
NO_IDS = (0, "", b"")
# What a state holds that nothing was ever said of: a model that takes it for a sum is seen.
UNDEFINED = 77
# What the host can do wrong; the words say what is a chance to do it.
FAULTS = {
    "keep-state": "START does not reset the state that the slot or the ID had before",
    "reset-state": "a step in the middle of a sequence finds its state reset",
    "swap-states": "two sequences of one batch exchange their states",
    "state-of-another-slot": "a step in the middle of a sequence gets the state of another sequence",
    "exchange-states": "a step in the middle of a sequence finds the first two of its states exchanged",
    "state-not-saved": "the state that a step without END gives back is not kept",
    "skip-step": "a step in the middle of a sequence is answered as the one before it, and not executed",
    "execute-twice": "a step is executed twice; the answer is that of the second time",
    "stale-state": "START takes over the last state of the ID's previous sequence",
    "start-missing": "START is not told: the sequence goes on from the state that the slot or the ID had before",
    "start-spurious": "START is told in the middle of a sequence",
    "ready-missing": "a request is taken for the row of an idle slot",
    "off-by-one": "a response is one too high, where it is a number; the state stays right",
    "misdeliver": "two requests of a batch get each other's outputs",
    "wrong-output-type": "the first output is FP32, or INT32 where that is its type",
    "wrong-output-shape": "the first output's shape has one dimension less",
    "empty-response": "a response has no output",
    "model-error": "a step that should be executed is answered with an error",
}
# How many states that the server keeps a fault needs, if not one.
STATES_NEEDED = {
    "exchange-states": 2,
    "ready-missing": 0,
    "off-by-one": 0,
    "misdeliver": 0,
    "wrong-output-type": 0,
    "wrong-output-shape": 0,
    "empty-response": 0,
    "model-error": 0,
}


class Fault:
    """Decides when the planted fault happens, and counts.

    models/accumulator.py has nearly the same class: each of the two programs is copied alone into a model's folder.
    """

    def __init__(self, text, seed, marker):
        self.name, _, when = text.partition(":")
        if self.name not in FAULTS:
            raise ValueError(f"parameter 'fault': unknown fault '{self.name}', known are {', '.join(FAULTS)}")
        self.chances = self.committed = 0
        self.once_at = int(when[len("once@") :]) if when.startswith("once@") else None
        self.probability = float(when) if when and self.once_at is None else 1.0
        self.random = random.Random(seed)
        self.marker = marker

    def happens(self, name):
        """Whether the fault happens at this chance to commit the fault `name`."""
        if name != self.name:
            return False
        self.chances += 1
        does = self.random.random() < self.probability if self.once_at is None else self.chances >= self.once_at and self._first_of_all_instances()
        self.committed += does
        return does

    def _first_of_all_instances(self):
        # Every instance is a process of its own: the one that creates the file commits the fault.
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            return False


class NoFault:
    name = None

    def happens(self, name):
        return False


def numpy_type(data_type):
    """The type of numpy's arrays of a configuration's data type."""
    return np.dtype(pb_utils.triton_string_to_numpy(data_type))


def texts(values):
    """An array of texts as the client sends them, from whatever a runtime has them in."""
    elements = [element if isinstance(element, bytes) else str(element).encode() for element in np.asarray(values, dtype=object).reshape(-1)]
    return np.array(elements, dtype=np.object_).reshape(np.shape(values))


def strings(values):
    """An array of texts as Python has them; bytes that are no text count as an empty one."""
    elements = [element.decode("utf-8", "ignore") if isinstance(element, bytes) else element for element in values.reshape(-1)]
    return np.array(elements, dtype=object).reshape(values.shape)


def is_text(values):
    return values.dtype == np.object_


def constants(parameters, tensors):
    """The inputs that have one value, by the configuration's parameter sequence_stress_constants; none without it."""
    text = parameters.get("sequence_stress_constants", "{}")
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ValueError(f"the parameter sequence_stress_constants is '{text}', which is no JSON object with the names of inputs, such as {{\"INPUT\": 1}}")
    return [Constant(name, value, tensors) for name, value in told.items()]


def batch_axis(shape, dims):
    """The axis of a graph's tensor along which the rows of a batch are: an open one, beside which the axes are those of a row. The first,
    where the graph says nothing of it."""

    def fits(axis):
        others = shape[:axis] + shape[axis + 1 :]
        return not isinstance(shape[axis], int) and all(size == of_row for size, of_row in zip(others, dims) if isinstance(size, int) and of_row > 0)

    if shape is None or len(shape) != len(dims) + 1:
        return 0
    return next((axis for axis in range(len(shape)) if fits(axis)), 0)


def position(name):
    """The place among the arguments or results that a tensor's name has at its end, as in INPUT__0."""
    match = re.search(r"__(\d+)$", name)
    if not match:
        raise ValueError(f"tensor '{name}': the name does not end in its position, as in {name}__0")
    return int(match[1])


# Each runtime has `inputs` and `outputs`, the names of each tensor of the graph, and `run(arrays by name, names of outputs)`; one that knows them
# has `shapes`, the axes of inputs by name: a number, or what an open one is called.
class Onnxruntime:
    def __init__(self, file, inputs, outputs):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.inputs = [{tensor.name} for tensor in self.session.get_inputs()]
        self.shapes = {tensor.name: list(tensor.shape) for tensor in self.session.get_inputs()}
        self.outputs = [{tensor.name} for tensor in self.session.get_outputs()]

    def run(self, given, outputs):
        given = {name: strings(values) if is_text(values) else values for name, values in given.items()}
        return self.session.run(outputs, given)


class OpenVino:
    """OpenVINO, which reads TensorFlow's files, too."""

    def __init__(self, file, inputs, outputs):
        import openvino

        core = openvino.Core()
        model = core.read_model(str(file))
        config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        self.request = core.compile_model(model, "CPU", config).create_infer_request()
        self.tensor = openvino.Tensor
        self.ports = {name: port for port in (*model.inputs, *model.outputs) for name in self.names(port)}
        self.inputs, self.outputs = ([self.names(port) for port in ports] for ports in (model.inputs, model.outputs))

    def names(self, port):
        """The names of a tensor, without the number of a node's output, which frozen graphs of TensorFlow have."""
        return {name.partition(":")[0] for name in port.get_names()}

    def run(self, given, outputs):
        # The tensors use the memory of the arrays.
        for name, values in given.items():
            self.request.set_tensor(self.ports[name], self.tensor(values))
        self.request.infer()
        return [self.request.get_tensor(self.ports[name]).data.copy() for name in outputs]


class TensorFlow:
    """TensorFlow as servers run it: a session, and of a SavedModel the signature."""

    def __init__(self, file, inputs, outputs):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow

        v1 = tensorflow.compat.v1
        graph = tensorflow.Graph()
        options = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with graph.as_default():
            session = v1.Session(graph=graph, config=options)
            if file.is_dir():
                signature = v1.saved_model.loader.load(session, ["serve"], str(file)).signature_def["serving_default"]
                fed, fetched = ({name: info.name for name, info in way.items()} for way in (signature.inputs, signature.outputs))
            else:
                tensorflow.import_graph_def(v1.GraphDef.FromString(file.read_bytes()), name="")
                fed, fetched = ({name: f"{name}:0" for name in names} for names in (inputs, outputs))
        self.inputs, self.outputs = ([{name} for name in names] for names in (fed, fetched))
        self.call = session.make_callable([fetched[name] for name in outputs if name in fetched], list(fed.values()))
        self.order = list(fed)

    def run(self, given, outputs):
        return self.call(*(given[name] for name in self.order))


class Torch:
    """torch, whose arguments and results have a position and no name."""

    def __init__(self, file, inputs, outputs):
        import torch

        torch.set_num_threads(1)
        self.torch = torch
        self.module = torch.jit.load(str(file))
        self.module.eval()
        self.order = sorted(inputs, key=position)
        self.inputs, self.outputs = ([{name} for name in names] for names in (inputs, outputs))

    def run(self, given, outputs):
        with self.torch.inference_mode():
            answers = self.module(*(self.argument(given[name]) for name in self.order))
        answers = answers if isinstance(answers, tuple) else (answers,)
        return [self.result(answers[position(name)]) for name in outputs]

    def argument(self, values):
        return strings(values).tolist() if is_text(values) else self.torch.from_numpy(np.array(values))

    def result(self, answer):
        return np.array(answer, dtype=object) if isinstance(answer, list) else answer.numpy()


RUNTIMES = {"onnxruntime": Onnxruntime, "openvino": OpenVino, "tensorflow": TensorFlow, "torch": Torch}


class State:
    """One of the states that the server would keep: by slot, or by correlation ID."""

    def __init__(self, declared, has_batch, folder):
        self.input, self.output = declared["input"], declared["output"]
        self.dtype = numpy_type(declared["data_type"])
        # A size that is open is 1 until a model says otherwise.
        self.dims = declared["dims"]
        self.shape = [1] * has_batch + [max(1, size) for size in self.dims]
        # Where the rows are in the graph's tensor.
        self.axis = 0
        self.initial = self.beginning(declared, folder)
        self.kept = collections.OrderedDict()

    def beginning(self, declared, folder):
        """What a sequence begins with, or None where that is not defined."""
        count = int(np.prod(self.shape))
        if declared["initial"] == "undefined":
            return None
        if declared["initial"] == "zero":
            # The server has zeros as bytes: texts of no length.
            return self.array([b""] * count if self.dtype == np.object_ else [0] * count)
        content = (folder / declared["data_file"]).read_bytes()
        elements = self.unpacked(content) if self.dtype == np.object_ else list(np.frombuffer(content, dtype=self.dtype))
        if len(elements) != count:
            raise ValueError(f"state '{self.input}': '{declared['data_file']}' has {len(elements)} elements, not {count}")
        return self.array(elements)

    def unpacked(self, content):
        """Texts, each behind its length."""
        elements = []
        while content:
            (length,) = struct.unpack_from("<I", content)
            elements.append(content[4 : 4 + length])
            content = content[4 + length :]
        return elements

    def array(self, elements):
        return np.array(elements, dtype=self.dtype).reshape(self.shape)

    def before(self, row):
        """What a row goes on from."""
        if row.is_start and self.initial is not None:
            return self.initial
        # A sequence without an initial state begins with what was there, which its model must not take for a sum.
        kept = self.kept.get(row.key)
        return self.undefined() if kept is None else kept

    def reset(self):
        """What a sequence begins with, or would if that were defined."""
        return self.undefined() if self.initial is None else self.initial

    def undefined(self):
        count = int(np.prod(self.shape))
        return self.array([str(UNDEFINED).encode()] * count if self.dtype == np.object_ else [UNDEFINED] * count)

    def together(self, values):
        """The rows' states as the graph takes them."""
        return np.ascontiguousarray(np.moveaxis(np.concatenate(values), 0, self.axis))

    def apart(self, values):
        """What the graph gives, with the rows along the first axis."""
        return np.moveaxis(values, self.axis, 0)

    def of_other(self, values):
        """What the memory of another state is as this one's: cut, or with zeros behind."""
        flat = np.zeros(int(np.prod(self.shape)), dtype=self.dtype)
        taken = values.reshape(-1)[: flat.size]
        flat[: taken.size] = taken
        return flat.reshape(self.shape)

    def keep(self, row, values):
        # A copy: the rows of a batch share their memory.
        self.kept[row.key] = values.copy()
        self.kept.move_to_end(row.key)
        if len(self.kept) > ENTRIES_MAX:
            self.kept.popitem(last=False)


class Constant:
    """An input of which the graph gets the same value in each execution."""

    def __init__(self, name, value, tensors):
        declared = next((tensor for tensor in tensors if tensor["name"] == name), None)
        if not declared:
            raise ValueError(f"the parameter sequence_stress_constants has '{name}', which is no input of the configuration")
        self.name, self.is_optional = name, declared.get("optional", False)
        dtype = numpy_type(declared["data_type"])
        try:
            self.value = texts(value) if dtype == np.object_ else np.array(value, dtype=dtype)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"the parameter sequence_stress_constants has {value!r} for '{name}', which is no {declared['data_type']}") from None

    def problem(self, request):
        """Why a request is rejected; None where it is not."""
        sent = pb_utils.get_input_tensor_by_name(request, self.name)
        # What the row of an idle slot holds was sent by nobody.
        if sent is None or request.correlation_id() in NO_IDS or np.array_equal(sent.as_numpy().reshape(-1), self.value.reshape(-1)):
            return None
        leave_out = f", or leave '{self.name}' out" if self.is_optional else ""
        return f"input '{self.name}' is {sent.as_numpy().tolist()}, and this model takes {self.value.tolist()} only: send that{leave_out}"


def sent(request, name):
    """What a request has as an input. An error where it has none, which an optional input allows and the graph does not."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        raise ValueError(f"a request of the batch has no input '{name}', and the model's file needs each of its inputs: send it")
    return tensor.as_numpy()


class Row:
    """One request of an execution: its tensors, and what the batcher says of it."""

    def __init__(self, index, request, model):
        self.id = correlation_id = request.correlation_id()
        self.is_idle = correlation_id in NO_IDS
        self.is_start = bool(request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START)
        self.is_end = bool(request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
        self.key = index if model.is_direct else correlation_id
        self.asked = request.requested_output_names()
        self.tensors = {name: sent(request, name) for name in model.names}
        self.problem = next(filter(None, (constant.problem(request) for constant in model.constants)), None)
        # Only these rows change states and take part in faults.
        self.is_answered = not self.is_idle and not self.problem
        self.shape = self.padded = self.tensors[model.names[0]].shape
        if model.corrid:
            self.tensors[model.corrid] = texts([[correlation_id or ""]] if model.has_batch else [correlation_id or ""])

    def cut(self, values):
        """A result without what comes of the row's padding: where it has as many elements as the padded row, it has as many as the row."""
        if values.ndim != len(self.shape):
            return values
        sizes = zip(self.shape, self.padded, values.shape)
        return values[tuple(slice(own if there == padded else there) for own, padded, there in sizes)]


def is_start(control_input):
    """Whether a control tells START."""
    return any(control.get("kind", "CONTROL_SEQUENCE_START") == "CONTROL_SEQUENCE_START" for control in control_input.get("control", []))


def padded(rows, name):
    """The tensors of all rows as one; those of a smaller shape have zeros behind them, which no sum counts."""
    arrays = [row.tensors[name] for row in rows]
    shape = np.max([array.shape for array in arrays], axis=0)
    if all(array.shape == tuple(shape) for array in arrays):
        return np.concatenate(arrays)
    together = np.full([len(rows), *shape[1:]], b"0" if is_text(arrays[0]) else 0, dtype=arrays[0].dtype)
    for place, array in zip(together, arrays):
        place[tuple(slice(size) for size in array.shape[1:])] = array[0]
    return together


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        hosted = json.loads(parameters["sequence_stress_hosted"])
        # Behind what the backend itself imports, such as its numpy.
        sys.path.append(hosted["packages"])
        batching = config["sequence_batching"]
        self.delay_s = int(parameters.get("execute_delay_ms", "0")) / 1000
        self.has_batch = config["max_batch_size"] > 0
        self.is_direct = "oldest" not in batching
        self.constants = constants(parameters, config["input"])
        fixed = {constant.name for constant in self.constants}
        self.names = [tensor["name"] for tensor in config["input"] if tensor["name"] not in fixed]
        self.outputs = {tensor["name"]: numpy_type(tensor["data_type"]) for tensor in config["output"]}
        folder = Path(args["model_repository"])
        self.states = [State(declared, self.has_batch, folder / "initial_state") for declared in hosted["states"]]
        self.name = args["model_name"]
        self.fault = self.planted(parameters, folder)
        # What a sequence came to last, where the fault is about that.
        self.last = collections.OrderedDict()
        self.corrid = hosted["corrid"]
        controls = [tensor["name"] for tensor in batching.get("control_input", [])]
        self.starts = [tensor["name"] for tensor in batching.get("control_input", []) if is_start(tensor)]
        self.load(RUNTIMES[hosted["runtime"]], folder / args["model_version"] / hosted["file"], controls)

    def planted(self, parameters, folder):
        """The fault that the configuration plants."""
        if not parameters.get("fault"):
            return NoFault()
        fault = Fault(parameters["fault"], parameters.get("fault_seed", "0"), str(folder / "fault-committed"))
        needed = STATES_NEEDED.get(fault.name, 1)
        if len(self.states) < needed:
            raise ValueError(f"parameter 'fault': '{fault.name}' needs {needed} of the states that the server keeps, and the model has {len(self.states)}")
        return fault

    def finalize(self):
        if self.fault.name:
            told = f"model '{self.name}': planted fault {self.fault.name}: committed {self.fault.committed} of {self.fault.chances} chances"
            print(told, file=sys.stderr, flush=True)

    def load(self, runtime, file, controls):
        """Loads the graph, which has to have the tensors of the configuration."""
        inputs = [*self.names, *(constant.name for constant in self.constants), *(state.input for state in self.states)]
        self.results = [*self.outputs, *(state.output for state in self.states)]
        self.graph = runtime(file, [*inputs, *controls, *filter(None, [self.corrid])], self.results)
        # A control may be there for those who read the configuration.
        self.names += [name for name in controls if any(name in names for names in self.graph.inputs)]
        self.check("inputs", inputs, self.graph.inputs)
        shapes = getattr(self.graph, "shapes", {})
        for state in self.states if self.has_batch else []:
            state.axis = batch_axis(shapes.get(state.input), state.dims)
        # Some runtimes take whatever nobody reads for an output, too.
        self.check("outputs", self.results, self.graph.outputs)

    def check(self, what, configured, found):
        """Each tensor that is configured has to be one of the graph's, by one of its names."""
        if set(configured) - set().union(*found):
            of_file = sorted(min(names) for names in found)
            raise ValueError(f"the configuration has the {what} {', '.join(sorted(configured))}, the model's file {', '.join(of_file)}")

    def execute(self, requests):
        if self.delay_s:
            time.sleep(self.delay_s)
        # Where there is no batch dimension, the graph takes one row.
        executions = [requests] if self.has_batch else [[request] for request in requests]
        return [response for execution in executions for response in self.answers(execution)]

    def answers(self, requests):
        """The response to each request of one execution of the graph."""
        try:
            rows = [Row(index, request, self) for index, request in enumerate(requests)]
            for row in rows:
                if row.is_answered and self.fault.happens("ready-missing"):
                    row.is_idle, row.is_answered = True, False
            results = self.run(rows)
            answered = [index for index, row in enumerate(rows) if row.is_answered]
            if len(answered) >= 2 and self.fault.happens("misdeliver"):
                one, other = answered[:2]
                results[one], results[other] = results[other], results[one]
            return [self.answer(row, of_row) for row, of_row in zip(rows, results)]
        except Exception as problem:  # Whatever a runtime raises is the answer.
            error = pb_utils.TritonError(f"{type(problem).__name__}: {problem}")
            return [pb_utils.InferenceResponse(error=error) for _ in requests]

    def run(self, rows):
        """The results of each row by name; what they say of states is kept."""
        before = [[state.before(row) for state in self.states] for row in rows]
        self.confuse(rows, before)
        results, after = self.step(rows, before)
        twice = {index for index, row in enumerate(rows) if row.is_answered and self.fault.happens("execute-twice")}
        if twice:
            # The other rows go through the graph beside them, and nothing is taken of that.
            for index in twice:
                self.tell_start(rows[index], False)
            again, last = self.step(rows, [after[index] if index in twice else states for index, states in enumerate(before)])
            for index in twice:
                results[index], after[index] = again[index], last[index]
        for index, row in enumerate(rows):
            if not row.is_answered:
                continue
            if self.goes_on(row) and row.key in self.last and self.fault.happens("skip-step"):
                results[index] = self.last[row.key]
            elif row.is_end or not self.fault.happens("state-not-saved"):
                for state, values in zip(self.states, after[index]):
                    state.keep(row, values)
            if self.fault.name == "skip-step":
                self.remember(row.key, results[index])
            elif self.fault.name == "stale-state":
                self.remember(row.id, after[index])
        return results

    def step(self, rows, before):
        """What the graph gives for the rows, each by name, and the states after it."""
        tensors = {name: padded(rows, name) if self.has_batch else rows[0].tensors[name] for name in rows[0].tensors}
        for row in rows:
            row.padded = row.shape[:1] + tensors[self.names[0]].shape[1:]
        for place, state in enumerate(self.states):
            tensors[state.input] = state.together([states[place] for states in before])
        tensors.update((constant.name, constant.value) for constant in self.constants)
        results = dict(zip(self.results, self.graph.run(tensors, self.results)))
        after = [state.apart(self.of_type(state.output, state.dtype, results[state.output])) for state in self.states]
        of_rows = [{name: self.of_row(index, results[name]) for name in self.outputs} for index in range(len(rows))]
        return of_rows, [[self.of_row(index, values) for values in after] for index in range(len(rows))]

    def goes_on(self, row):
        """Whether the row is a step in the middle of a sequence."""
        return bool(self.states) and row.is_answered and not row.is_start and row.key in self.states[0].kept

    def tell_start(self, row, is_told):
        """Has the graph see START, at which it forgets the state, or none."""
        row.tensors.update((name, np.full_like(row.tensors[name], is_told)) for name in self.starts if name in row.tensors)

    def confuse(self, rows, before):
        """Has a planted fault change what the rows go on from."""
        for index, row in enumerate(rows):
            if not (self.states and row.is_answered and row.is_start):
                continue
            kept = [state.kept.get(row.key) for state in self.states]
            if kept[0] is not None and (self.fault.happens("keep-state") or self.fault.happens("start-missing")):
                before[index] = kept
                self.tell_start(row, False)
            elif row.id in self.last and self.fault.happens("stale-state"):
                before[index] = self.last[row.id]
                self.tell_start(row, False)
        going_on = [index for index, row in enumerate(rows) if self.goes_on(row)]
        if len(going_on) >= 2 and self.fault.happens("swap-states"):
            one, other = going_on[:2]
            before[one], before[other] = before[other], before[one]
        for index in going_on:
            other = next((key for key in reversed(self.states[0].kept) if key != rows[index].key), None)
            if other is not None and self.fault.happens("state-of-another-slot"):
                before[index] = [state.kept[other] for state in self.states]
            if self.fault.happens("reset-state"):
                before[index] = [state.reset() for state in self.states]
            if self.fault.happens("start-spurious"):
                rows[index].is_start = True
                before[index] = [state.before(rows[index]) for state in self.states]
                self.tell_start(rows[index], True)
            if self.fault.happens("exchange-states"):
                first, second, *rest = before[index]
                before[index] = [self.states[0].of_other(second), self.states[1].of_other(first), *rest]

    def remember(self, key, last):
        self.last[key] = last
        self.last.move_to_end(key)
        if len(self.last) > ENTRIES_MAX:
            self.last.popitem(last=False)

    def of_row(self, index, values):
        return values[index : index + 1] if self.has_batch else values

    def of_type(self, name, dtype, values):
        """A result in the type that its tensor is of."""
        if dtype == np.object_:
            return texts(values)
        if values.dtype != dtype:
            raise TypeError(f"the model's file gives '{name}' as {values.dtype}, the configuration as {dtype}")
        return values

    def answer(self, row, results):
        if row.is_idle:
            return pb_utils.InferenceResponse(output_tensors=[])
        if row.problem:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(row.problem))
        if self.fault.happens("model-error"):
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("a planted fault: this step is answered with an error"))
        asked = [(name, dtype) for name, dtype in self.outputs.items() if name in row.asked]
        tensors = [(name, row.cut(self.of_type(name, dtype, results[name]))) for name, dtype in asked]
        if tensors:
            name, values = tensors[0]
            tensors[0] = name, self.spoiled(values)
        if self.fault.happens("empty-response"):
            tensors.clear()
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(name, np.ascontiguousarray(values)) for name, values in tensors])

    def spoiled(self, values):
        """An output with the faults of outputs. The Python backend leaves out one that has another name."""
        if np.issubdtype(values.dtype, np.number) and self.fault.happens("off-by-one"):
            values = values + values.dtype.type(1)
        if self.fault.happens("wrong-output-type"):
            values = np.zeros(values.shape, dtype=np.int32 if values.dtype == np.float32 else np.float32)
        if values.ndim > 1 and self.fault.happens("wrong-output-shape"):
            values = values.reshape(*values.shape[:-2], -1)
        return values
