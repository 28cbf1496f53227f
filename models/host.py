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

Configuration parameters:
  execute_delay_ms            how long one execution takes besides the graph's own time, in ms (default 0)
  sequence_stress_batch_axes  the batch axis of the graph's tensors whose batch axis is not the first, as JSON: {"state": 1}. The graph's
                              state of 8 rows is [2, 8, 128] then, where the configuration has dims: [ 2, 128 ]
  sequence_stress_constants   inputs of which the graph takes one value for all rows, as JSON: {"sr": 16000}. The graph always gets this
                              value. A request that sends another one is rejected, so the input can be optional
"""

import collections
import json
import os
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


def settings(parameters, name):
    """The JSON object in one of the configuration's parameters; an empty one where the configuration has not this parameter."""
    text = parameters.get(name, "{}")
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ValueError(f"the parameter {name} is '{text}', which is no JSON object with the names of tensors, such as {{\"INPUT\": 1}}")
    return told


def position(name):
    """The place among the arguments or results that a tensor's name has at its end, as in INPUT__0."""
    match = re.search(r"__(\d+)$", name)
    if not match:
        raise ValueError(f"tensor '{name}': the name does not end in its position, as in {name}__0")
    return int(match[1])


# Each runtime has `inputs` and `outputs`, the names of each tensor of the graph, and `run(arrays by name, names of outputs)`.
class Onnxruntime:
    def __init__(self, file, inputs, outputs):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.inputs = [{tensor.name} for tensor in self.session.get_inputs()]
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
        self.shape = [1] * has_batch + [max(1, size) for size in declared["dims"]]
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

    def undefined(self):
        count = int(np.prod(self.shape))
        return self.array([str(UNDEFINED).encode()] * count if self.dtype == np.object_ else [UNDEFINED] * count)

    def keep(self, row, values):
        self.kept[row.key] = values
        self.kept.move_to_end(row.key)
        if len(self.kept) > ENTRIES_MAX:
            self.kept.popitem(last=False)


class Constant:
    """An input of which the graph gets the same value in each execution."""

    def __init__(self, name, value, tensors):
        declared = next((tensor for tensor in tensors if tensor["name"] == name), None)
        if not declared:
            raise ValueError(f"the parameter sequence_stress_constants has '{name}', which is no input of the configuration")
        self.name, self.value = name, np.array(value, dtype=numpy_type(declared["data_type"]))

    def problem(self, request):
        """Why a request is rejected; None where it is not."""
        sent = pb_utils.get_input_tensor_by_name(request, self.name)
        # What the row of an idle slot holds was sent by nobody.
        if sent is None or request.correlation_id() in NO_IDS or np.array_equal(sent.as_numpy().reshape(-1), self.value.reshape(-1)):
            return None
        return f"input '{self.name}' is {sent.as_numpy().tolist()}, and this model takes {self.value.tolist()} only: send that, or leave '{self.name}' out"


class Row:
    """One request of an execution: its tensors, and what the batcher says of it."""

    def __init__(self, index, request, model):
        correlation_id = request.correlation_id()
        self.is_idle = correlation_id in NO_IDS
        self.is_start = bool(request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START)
        self.key = index if model.is_direct else correlation_id
        self.asked = request.requested_output_names()
        self.tensors = {name: pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in model.names}
        self.problem = next(filter(None, (constant.problem(request) for constant in model.constants)), None)
        if model.corrid:
            self.tensors[model.corrid] = texts([[correlation_id or ""]] if model.has_batch else [correlation_id or ""])


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
        self.constants = [Constant(name, value, config["input"]) for name, value in settings(parameters, "sequence_stress_constants").items()]
        constants = [constant.name for constant in self.constants]
        self.names = [tensor["name"] for tensor in config["input"] if tensor["name"] not in constants]
        self.outputs = {tensor["name"]: numpy_type(tensor["data_type"]) for tensor in config["output"]}
        folder = Path(args["model_repository"])
        self.states = [State(declared, self.has_batch, folder / "initial_state") for declared in hosted["states"]]
        self.corrid = hosted["corrid"]
        controls = [tensor["name"] for tensor in batching.get("control_input", [])]
        self.batch_axes = settings(parameters, "sequence_stress_batch_axes") if self.has_batch else {}
        self.load(RUNTIMES[hosted["runtime"]], folder / args["model_version"] / hosted["file"], controls)

    def load(self, runtime, file, controls):
        """Loads the graph, which has to have the tensors of the configuration."""
        inputs = [*self.names, *(constant.name for constant in self.constants), *(state.input for state in self.states)]
        self.results = [*self.outputs, *(state.output for state in self.states)]
        self.graph = runtime(file, [*inputs, *controls, *filter(None, [self.corrid])], self.results)
        # A control may be there for those who read the configuration.
        self.names += [name for name in controls if any(name in names for names in self.graph.inputs)]
        self.check("inputs", inputs, self.graph.inputs)
        # Some runtimes take whatever nobody reads for an output, too.
        self.check("outputs", self.results, self.graph.outputs)
        unknown = set(self.batch_axes).difference(inputs, self.results)
        if unknown:
            raise ValueError(f"the parameter sequence_stress_batch_axes has '{min(unknown)}', which is no tensor of the configuration")

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
            results = self.run(rows)
            return [self.answer(index, row, results) for index, row in enumerate(rows)]
        except Exception as problem:  # Whatever a runtime raises is the answer.
            error = pb_utils.TritonError(f"{type(problem).__name__}: {problem}")
            return [pb_utils.InferenceResponse(error=error) for _ in requests]

    def run(self, rows):
        """The graph's results by name; what it says of states is kept."""
        tensors = {name: padded(rows, name) if self.has_batch else rows[0].tensors[name] for name in rows[0].tensors}
        for state in self.states:
            tensors[state.input] = np.concatenate([state.before(row) for row in rows])
        tensors.update((constant.name, constant.value) for constant in self.constants)
        for name in set(self.batch_axes).intersection(tensors):
            tensors[name] = np.ascontiguousarray(np.moveaxis(tensors[name], 0, self.batch_axes[name]))
        results = dict(zip(self.results, self.graph.run(tensors, self.results)))
        for name in set(self.batch_axes).intersection(results):
            results[name] = np.moveaxis(results[name], self.batch_axes[name], 0)
        for state in self.states:
            after = self.of_type(state.output, state.dtype, results[state.output])
            for index, row in enumerate(rows):
                if not row.is_idle and not row.problem:
                    state.keep(row, self.of_row(index, after))
        return results

    def of_row(self, index, values):
        return values[index : index + 1] if self.has_batch else values

    def of_type(self, name, dtype, values):
        """A result in the type that its tensor is of."""
        if dtype == np.object_:
            return texts(values)
        if values.dtype != dtype:
            raise TypeError(f"the model's file gives '{name}' as {values.dtype}, the configuration as {dtype}")
        return values

    def answer(self, index, row, results):
        if row.is_idle:
            return pb_utils.InferenceResponse(output_tensors=[])
        if row.problem:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(row.problem))
        # Rows that are shorter than others were padded: so were their results.
        shape = row.tensors[self.names[0]].shape
        tensors = []
        for name, dtype in self.outputs.items():
            if name in row.asked:
                values = self.of_row(index, self.of_type(name, dtype, results[name]))
                own = values[tuple(slice(size) for size in shape)] if values.ndim == len(shape) else values
                tensors.append(pb_utils.Tensor(name, np.ascontiguousarray(own)))
        return pb_utils.InferenceResponse(output_tensors=tensors)
