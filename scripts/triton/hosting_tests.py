"""Tests of what is made of a given repository, and of the host model; `python3 -m unittest triton.hosting_tests` within scripts/ runs them."""

import hashlib
import importlib.util
import io
import json
import shutil
import struct
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import ClassVar
from unittest import mock

from . import hosting, install

CONFIG = """
name: "NAME"
backend: "onnxruntime"
max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }
sequence_batching {
  max_sequence_idle_microseconds: 200000
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
}
instance_group { count: 2 kind: KIND_GPU gpus: [ 0 ] }
parameters { key: "sequence_stress_formula" value { string_value: "running-sum" } }
"""
STATE = 'state { input_name: "INPUT_STATE" output_name: "OUTPUT_STATE" data_type: TYPE_INT32 dims: 1 INITIAL }'


def model(repository, name, backend="onnxruntime", file="model.onnx", content=b"graph", initial=None, **replaced):
    """Writes a model; of a SavedModel, which is a folder, the file in it."""
    config = CONFIG.replace("NAME", name).replace('"onnxruntime"', f'"{backend}"')
    if initial is not None:
        config = config.replace("sequence_batching {", f"sequence_batching {{ {STATE.replace('INITIAL', initial)}")
    for old, new in replaced.items():
        config = config.replace(old, new)
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    if file == "model.savedmodel":
        (version / file).mkdir()
        (version / file / "saved_model.pb").write_bytes(content)
    elif file:
        (version / file).write_bytes(content)


class FakeRuntime:
    """A runtime that is not installed for the test."""

    def __init__(self, name):
        if name == "torch":
            raise install.InstallError("no torch today")
        self.packages, self.libraries = f"/packages/{name}", [f"/libraries/{name}"] if name == "tensorflow" else []


class Repository(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.given, self.served = Path(scratch.name) / "given", Path(scratch.name) / "served"
        self.given.mkdir()
        patched = mock.patch.object(hosting, "Runtime", FakeRuntime)
        patched.start()
        self.addCleanup(patched.stop)

    def model(self, name, *arguments, **options):
        model(self.given, name, *arguments, **options)

    def host(self):
        served = hosting.Hosting(self.given)
        served.write(self.served)
        return served

    def config(self, name):
        """What is served of a model: its configuration, and what the host is told."""
        config = hosting.Messages().parsed(self.served / name / "config.pbtxt")
        return config, json.loads(config.parameters[hosting.PARAMETER].string_value)


class Rewriting(Repository):
    def test_what_the_python_backend_has_not_is_dropped_and_the_host_is_told(self):
        self.model("m", initial="")
        served = self.host()
        config, told = self.config("m")
        self.assertEqual((config.backend, config.platform, len(config.sequence_batching.state)), ("python", "", 0))
        state = {"input": "INPUT_STATE", "output": "OUTPUT_STATE", "data_type": "TYPE_INT32", "dims": [1], "initial": "undefined"}
        self.assertEqual(told, {"runtime": "onnxruntime", "packages": "/packages/onnxruntime", "file": "model.onnx", "states": [state], "corrid": None})
        self.assertEqual((served.backends, served.processes), ({"python"}, 2))

    def test_all_else_is_kept(self):
        self.model("m")
        self.host()
        config, _ = self.config("m")
        given = hosting.Messages().parsed(self.given / "m/config.pbtxt")
        self.assertEqual(config.parameters["sequence_stress_formula"].string_value, "running-sum")
        (group,) = config.instance_group
        self.assertEqual((group.count, group.kind, list(group.gpus)), (2, group.KIND_CPU, []))
        for changed in (config, given):
            for field in ("backend", "instance_group", "parameters"):
                changed.ClearField(field)
        self.assertEqual(config, given)

    def test_what_a_sequence_begins_with_is_told(self):
        initial = 'initial_state { name: "x" data_type: TYPE_INT32 dims: 1 DATA }'
        self.model("zero", initial=initial.replace("DATA", "zero_data: true"))
        self.model("file", initial=initial.replace("DATA", 'data_file: "ten"'))
        self.host()
        (state,) = self.config("zero")[1]["states"]
        self.assertEqual(state["initial"], "zero")
        (state,) = self.config("file")[1]["states"]
        self.assertEqual((state["initial"], state["data_file"]), ("file", "ten"))

    def test_a_correlation_id_that_is_a_text_is_given_by_the_host(self):
        control = 'control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }'
        self.model("m", backend="tensorflow", file="model.graphdef", **{"sequence_batching {": f"sequence_batching {{ {control}"})
        self.host()
        config, told = self.config("m")
        self.assertEqual(([tensor.name for tensor in config.sequence_batching.control_input], told["corrid"]), (["START", "READY"], "ID"))
        self.assertEqual(told["runtime"], "tensorflow")

    def test_the_host_lies_beside_the_file_and_the_given_folder_is_as_it_was(self):
        self.model("m")
        self.model("native", backend="sequence_stress", file=None)
        before = digest(self.given)
        self.host()
        self.assertEqual(digest(self.given), before)
        self.assertEqual((self.served / "m/1/model.py").read_bytes(), hosting.HOST.read_bytes())
        self.assertEqual((self.served / "m/1/model.onnx").read_bytes(), b"graph")

    def test_native_and_python_models_stay_as_they_are(self):
        self.model("native", backend="sequence_stress", file=None)
        self.model("python", backend="python", file="model.py", content=b"mine")
        served = self.host()
        self.assertEqual(digest(self.served), digest(self.given))
        self.assertEqual((served.backends, served.processes), ({"python", "sequence_stress"}, 2))

    def test_each_instance_of_the_python_backend_counts(self):
        self.model("hosted", **{"count: 2": "count: 30"})
        self.model("native", backend="sequence_stress", file=None, **{"count: 2": "count: 30"})
        self.model("python", backend="python", file="model.py")
        self.assertFalse(self.host().are_many())
        self.model("one more", **{"count: 2": ""})
        served = hosting.Hosting(self.given)
        self.assertEqual((served.processes, served.are_many()), (33, True))

    def test_tensorflow_runs_what_openvino_cannot(self):
        graphdef, saved = dict(backend="tensorflow", file="model.graphdef"), dict(backend="tensorflow", file="model.savedmodel")
        self.model("plain", **graphdef)
        self.model("small", **saved)
        self.model("variables", content=b"..VarHandleOp..", **saved)
        self.model("text", **graphdef, TYPE_INT32="TYPE_STRING")
        self.model("wide", **graphdef, TYPE_INT32="TYPE_INT64")
        served = self.host()
        runtimes = {name: self.config(name)[1]["runtime"] for name in ("plain", "small", "variables", "text", "wide")}
        self.assertEqual(runtimes, {"plain": "openvino", "small": "openvino", "variables": "tensorflow", "text": "tensorflow", "wide": "tensorflow"})
        self.assertEqual(served.libraries(), [Path("/libraries/tensorflow")])

    def test_a_platform_names_the_backend_too(self):
        self.model("m", **{'backend: "onnxruntime"': 'platform: "onnxruntime_onnx"'})
        self.host()
        config, told = self.config("m")
        self.assertEqual((config.platform, told["runtime"]), ("", "onnxruntime"))


class LeftOut(Repository):
    def test_each_kind_is_one_line(self):
        self.model("good")
        self.model("built", backend="tensorrt", file="model.plan")
        self.model("waits", backend="tensorrt")
        self.model("torch-1", backend="pytorch", file="model.pt")
        self.model("torch-2", backend="pytorch", file="model.pt")
        self.model("unknown", backend="dali")
        self.model("empty", file=None)
        self.model("bf16", TYPE_INT32="TYPE_BF16")
        self.model("plain", sequence_batching="dynamic_batching", **{"max_sequence_idle_microseconds: 200000": "", "control_input {": "#"})
        (self.given / "no-config").mkdir()
        served = self.host()
        self.assertEqual(sorted(path.name for path in self.served.iterdir()), ["good", "waits"])
        self.assertEqual(
            sorted(served.remarks()),
            [
                "left out 2 models, such as torch-1: torch cannot be had: no torch today",
                "left out bf16: the Python backend has no tensors of TYPE_BF16",
                "left out built: a plan is built for TensorRT and its GPU, which are not here",
                "left out empty: no model.onnx in each version",
                "left out no-config: no config.pbtxt",
                "left out plain: without sequence_batching nothing is hosted",
                "left out unknown: backend 'dali' is neither here nor known",
            ],
        )

    def test_a_folder_that_is_no_repository_is_rejected(self):
        for folder, words in [(self.given / "no", "No such file"), (self.given, "it has no folders")]:
            with self.assertRaisesRegex(hosting.HostingError, words):
                hosting.Hosting(folder)
        self.model("m", max_batch_size="max_batch_sice")
        with self.assertRaisesRegex(hosting.HostingError, r"m/config.pbtxt' is no model configuration: 4:1 : .*max_batch_sice"):
            hosting.Hosting(self.given)

    def test_where_nothing_is_left_that_is_said(self):
        self.model("m", backend="dali")
        with self.assertRaisesRegex(hosting.HostingError, "there is nothing to serve in .*; left out m: backend 'dali'"):
            hosting.Hosting(self.given)


class Planting(Repository):
    def host(self, fault, seed=None):
        served = hosting.Hosting(self.given, fault, seed)
        served.write(self.served)
        return list(served.remarks())

    def test_a_fault_is_planted_in_the_models_that_can_have_it(self):
        self.model("one", initial="")
        self.model("two", initial="", **{"sequence_batching {": f"sequence_batching {{ {STATE.replace('INITIAL', '').replace('_STATE', '_OTHER')}"})
        self.model("none")
        self.model("native", backend="sequence_stress", file=None, initial="")
        remarks = self.host("exchange-states:once@5", 7)
        parameters = {name: self.config(name)[0].parameters for name in ("one", "two", "none")}
        self.assertEqual({name: "fault" in given for name, given in parameters.items()}, {"one": False, "two": True, "none": False})
        told = [parameters["two"][name].string_value for name in ("fault", "fault_seed")]
        self.assertEqual(told, ["exchange-states:once@5", "7"])
        needed = "it is of models in the host with 2 states that the server keeps"
        self.assertEqual(remarks, [f"fault exchange-states is not planted in 3 models, such as native: {needed}"])

    def test_where_no_model_can_have_it_that_is_said(self):
        self.model("none")
        with self.assertRaisesRegex(hosting.HostingError, "no model of .* can have the fault keep-state: it is of models in the host with state"):
            self.host("keep-state")

    def test_the_faults_are_those_of_the_table(self):
        self.assertEqual(hosting.fault_names(), list(host_module().FAULTS))
        self.assertLessEqual(set(host_module().STATES_NEEDED), set(hosting.fault_names()))
        self.assertEqual([hosting.states_needed(fault) for fault in ("exchange-states", "keep-state", "off-by-one")], [2, 1, 0])


class Runtimes(unittest.TestCase):
    def test_one_of_another_python_is_rejected(self):
        python = ([str(hosting.runtimes.DEBIAN_PYTHON)], {"PYTHONPATH": "/a", "LD_LIBRARY_PATH": "/b:/c"})
        with mock.patch.object(hosting.runtimes, "python_of", lambda *_, **__: python):
            rejected = self.assertRaisesRegex(install.InstallError, "it comes from Debian for Python 2.7, and with-triton runs with 3")
            with mock.patch.object(hosting.runtimes, "debian_python_version", lambda: "2.7"), rejected:
                hosting.Runtime("torch")
            with mock.patch.object(hosting.runtimes, "debian_python_version", lambda: install.PYTHON_VERSION):
                runtime = hosting.Runtime("torch")
        self.assertEqual((runtime.packages, runtime.libraries), ("/a", ["/b", "/c"]))


def digest(folder):
    """The files of a folder, by their paths within it."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


class Tensor:
    def __init__(self, name, values):
        self.name, self.values = name, values

    def as_numpy(self):
        return self.values


class Response:
    def __init__(self, output_tensors=None, error=None):
        self.outputs, self.error = {tensor.name: tensor.values.tolist() for tensor in output_tensors or []}, error


class Request:
    """A step of a sequence; without an ID the row of an idle slot."""

    def __init__(self, value, corrid=0, start=False, end=False):
        import numpy

        elements = value if isinstance(value, list) else [value]
        of_type = numpy.object_ if isinstance(elements[0], bytes) else numpy.int32
        self.tensors = {"INPUT": numpy.array([elements], dtype=of_type)}
        self.tensors.update((name, numpy.array([[int(on)]], dtype=numpy.int32)) for name, on in (("START", start), ("READY", corrid != 0)))
        self.corrid, self.start, self.end = corrid, start, end

    def correlation_id(self):
        return self.corrid

    def flags(self):
        return int(self.start) | 2 * int(self.end)

    def requested_output_names(self):
        return ["OUTPUT"]


def with_rate(rate, *arguments):
    """A request that sends RATE, too."""
    import numpy

    request = Request(*arguments)
    request.tensors["RATE"] = numpy.array([[rate]], dtype=numpy.int32)
    return request


class Sum:
    """A graph: OUTPUT and OUTPUT_STATE are INPUT's sum and INPUT_STATE, the latter not at START unless the graph is told to."""

    takes_state_at_start = False

    def __init__(self, file, inputs, outputs):
        self.inputs, self.outputs = ([{name} for name in names] for names in (inputs, outputs))

    def run(self, given, outputs):
        import numpy

        self.seen = {name: values.tolist() for name, values in given.items()}
        if given["INPUT"].dtype == numpy.object_:
            sums = numpy.array([[sum(map(int, row))] for row in given["INPUT"]])
            return [numpy.broadcast_to(sums, given["INPUT"].shape).astype(str).astype(object)]
        before = given.get("INPUT_STATE", 0) * (1 if self.takes_state_at_start else 1 - given["START"])
        after = (given["INPUT"].sum(axis=1, keepdims=True) + before).astype(numpy.int32)
        results = {"OUTPUT": numpy.broadcast_to(after, given["INPUT"].shape), "OUTPUT_STATE": after}
        return [results[name] for name in outputs]


class Rated(Sum):
    """The same of inputs that are multiplied by one RATE."""

    def run(self, given, outputs):
        self.rate = given["RATE"]
        return super().run({**given, "INPUT": given["INPUT"] * self.rate}, outputs)


class TwoStates(Sum):
    """OUTPUT is the digits that came so far, of which Z has the last one and A, whose second element stays 0, those before."""

    def run(self, given, outputs):
        self.seen = {name: values.tolist() for name, values in given.items()}
        older = given["A"] * 10 + given["Z"] * [1, 0]
        output = older[:, :1] * 10 + given["INPUT"]
        results = {"OUTPUT": output, "Z_OUT": given["INPUT"], "A_OUT": older}
        return [results[name].astype("int32") for name in outputs]


class RowsBehind(Sum):
    """A graph whose state has the rows along its second axis: [2, rows, 3]."""

    def __init__(self, file, inputs, outputs):
        super().__init__(file, inputs, outputs)
        self.shapes = {"INPUT": ["batch", 1], "INPUT_STATE": [2, "batch", 3]}

    def run(self, given, outputs):
        import numpy

        self.seen = {name: values.tolist() for name, values in given.items()}
        state = given["INPUT_STATE"]
        assert state.shape == (2, given["INPUT"].size, 3) and state.flags.c_contiguous, state.shape
        after = (state + given["INPUT"].reshape(1, -1, 1)).astype(numpy.int32)
        results = {"OUTPUT": after[0, :, 0].reshape(given["INPUT"].shape), "OUTPUT_STATE": after}
        return [results[name] for name in outputs]


class Longer(Sum):
    """A graph with five elements of OUTPUT, however many INPUT has."""

    def run(self, given, outputs):
        import numpy

        return [numpy.repeat(given["INPUT"].sum(axis=1, keepdims=True), 5, axis=1).astype(numpy.int32)]


def host_module():
    """models/host.py, with as much of the Python backend as it uses."""
    hosting.Messages()  # NVIDIA's client comes with numpy.
    import numpy

    backend = types.ModuleType("triton_python_backend_utils")
    backend.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
    backend.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
    backend.get_input_tensor_by_name = lambda request, name: Tensor(name, request.tensors[name]) if name in request.tensors else None
    backend.triton_string_to_numpy = lambda name: {"TYPE_INT32": numpy.int32, "TYPE_STRING": numpy.object_}[name]
    backend.Tensor, backend.InferenceResponse, backend.TritonError = Tensor, Response, str
    with mock.patch.dict(sys.modules, {"triton_python_backend_utils": backend}):
        spec = importlib.util.spec_from_file_location("host", hosting.HOST)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    module.RUNTIMES = {"sum": Sum}
    return module


class Host(unittest.TestCase):
    def host(self, states=(), oldest=False, data_type="TYPE_INT32", folder="/nowhere", corrid=None, batch=4, inputs=(), **parameters):
        controls = [{"name": name, "control": [{"kind": f"CONTROL_SEQUENCE_{name}"}]} for name in ("START", "READY")]
        told = {"runtime": "sum", "packages": "/nowhere", "file": "model.sum", "states": list(states), "corrid": corrid}
        tensor = {"data_type": data_type, "dims": [-1]}
        parameters["sequence_stress_hosted"] = json.dumps(told)
        config = {
            "max_batch_size": batch,
            "input": [{"name": "INPUT", **tensor}, *({"data_type": "TYPE_INT32", "dims": [1], **given} for given in inputs)],
            "output": [{"name": "OUTPUT", **tensor}],
            "sequence_batching": {"control_input": controls, **({"oldest": {}} if oldest else {})},
            "parameters": {name: {"string_value": text} for name, text in parameters.items() if text},
        }
        self.module = host_module()
        host = self.module.TritonPythonModel()
        self.addCleanup(sys.path.remove, "/nowhere")
        host.initialize({"model_config": json.dumps(config), "model_name": "m", "model_repository": str(folder), "model_version": "1"})
        return host

    def state(self, **more):
        return {"input": "INPUT_STATE", "output": "OUTPUT_STATE", "data_type": "TYPE_INT32", "dims": [1], "initial": "undefined", **more}

    def answers(self, host, *requests):
        responses = host.execute(list(requests))
        self.assertEqual([response.error for response in responses], [None] * len(requests))
        return [response.outputs.get("OUTPUT", [None])[0] for response in responses]

    def test_states_are_of_slots_and_idle_ones_keep_theirs(self):
        host = self.host([self.state()])
        self.assertEqual(self.answers(host, Request(1, 7, True), Request(10, 8, True)), [[1], [10]])
        self.assertEqual(self.answers(host, Request(999), Request(20, 8)), [None, [30]])
        self.assertEqual(self.answers(host, Request(2, 7)), [[3]])
        self.assertEqual(self.answers(host, Request(5, 9, True), Request(3, 8)), [[5], [33]])

    def test_states_are_of_ids_where_places_vary(self):
        host = self.host([self.state()], oldest=True)
        self.assertEqual(self.answers(host, Request(1, 7, True), Request(10, 8, True)), [[1], [10]])
        self.assertEqual(self.answers(host, Request(20, 8), Request(2, 7)), [[30], [3]])

    def test_states_of_ids_do_not_grow_without_a_bound(self):
        host = self.host([self.state()], oldest=True)
        self.module.ENTRIES_MAX = 2
        for corrid in (1, 2, 1, 3):
            self.answers(host, Request(corrid, corrid, True))
        self.assertEqual(list(host.states[0].kept), [1, 3])

    def test_a_sequence_begins_with_what_is_declared(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "initial_state").mkdir()
            (Path(folder) / "initial_state/ten").write_bytes(struct.pack("<i", 10))
            for declared, begins in [(dict(initial="zero"), 0), (dict(initial="file", data_file="ten"), 10), ({}, 77)]:
                host = self.host([self.state(**declared)], folder=folder)
                host.graph.takes_state_at_start = True
                self.assertEqual(self.answers(host, Request(1, 7, True), Request(2, 8, True)), [[begins + 1], [begins + 2]])
                self.assertEqual(self.answers(host, Request(1, 7)), [[begins + 2]])
            with self.assertRaisesRegex(ValueError, "'ten' has 1 elements, not 2"):
                self.host([self.state(initial="file", data_file="ten", dims=[2])], folder=folder)

    def test_rows_of_different_widths_are_answered_with_their_own(self):
        host = self.host()
        self.assertEqual(self.answers(host, Request([1, 2, 3], 7), Request([5], 8), Request([9, 9])), [[6, 6, 6], [5], None])
        self.assertEqual(host.graph.seen["INPUT"], [[1, 2, 3], [5, 0, 0], [9, 9, 0]])
        texts = self.host(data_type="TYPE_STRING")
        self.assertEqual(self.answers(texts, Request([b"1", b"2"], 7), Request([b"5"], 8)), [[b"3", b"3"], [b"5"]])

    def faulty(self, fault, **options):
        """A host of one state that begins with 0, whose graph leaves that to the host, as those of networks do."""
        host = self.host([self.state(initial="zero")], fault=fault, **options)
        host.graph.takes_state_at_start = True
        return host

    def sequences(self, host):
        """The answers to three steps of two sequences in one batch: 1, 2, 3 and 10, 20, 30; and to one of another on the first slot."""
        first = self.answers(host, Request(1, 7, True), Request(10, 8, True))
        more = [self.answers(host, Request(2 + more, 7), Request(20 + 10 * more, 8)) for more in range(2)]
        return [answer for answers in (first, *more, self.answers(host, Request(5, 9, True))) for (answer,) in answers]

    def test_each_fault_does_what_it_says(self):
        expected = {
            None: [1, 10, 3, 30, 6, 60, 5],
            "keep-state": [1, 10, 3, 30, 6, 60, 11],
            # The second sequence keeps what it got.
            "swap-states:once@1": [1, 10, 12, 21, 15, 51, 5],
            "state-of-another-slot:once@1": [1, 10, 12, 30, 15, 60, 5],
            "reset-state:once@2": [1, 10, 3, 20, 6, 50, 5],
            # At once@3 the first sequence's second step: the third goes on from the first.
            "state-not-saved:once@3": [1, 10, 3, 30, 4, 60, 5],
            "skip-step:once@1": [1, 10, 1, 30, 4, 60, 5],
            "execute-twice:once@3": [1, 10, 5, 30, 8, 60, 5],
            "execute-twice:0.0": [1, 10, 3, 30, 6, 60, 5],
            "start-missing": [1, 10, 3, 30, 6, 60, 11],
            "start-spurious:once@2": [1, 10, 3, 20, 6, 50, 5],
            "off-by-one:once@3": [1, 10, 4, 30, 6, 60, 5],
            "misdeliver:once@2": [1, 10, 30, 3, 6, 60, 5],
        }
        for fault, answers in expected.items():
            with self.subTest(fault=fault), tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.sequences(self.faulty(fault, folder=folder)), answers)
        others = {"exchange-states", "stale-state", *self.OF_FORM}
        self.assertEqual({fault.partition(":")[0] for fault in expected if fault} | others, set(self.module.FAULTS))

    def test_a_state_is_not_kept_where_a_step_may_miss_it(self):
        # At END no step shows that, so this is no chance. The second START is one, and the slot goes on from what was there.
        with tempfile.TemporaryDirectory() as folder:
            host = self.faulty("state-not-saved:once@1", folder=folder)
            requests = [Request(1, 7, True, True), Request(10, 8, True), Request(20, 8), Request(30, 8)]
            self.assertEqual([self.answers(host, request) for request in requests], [[[1]], [[10]], [[21]], [[51]]])

    # What each fault of a response's form makes of [[3]], as INT32.
    OF_FORM: ClassVar = {
        "ready-missing": (None, {}),
        "wrong-output-type": (None, {"OUTPUT": [[0.0]]}),
        "wrong-output-shape": (None, {"OUTPUT": [3]}),
        "empty-response": (None, {}),
        "model-error": ("a planted fault: this step is answered with an error", {}),
    }

    def test_a_fault_of_a_response_changes_its_form(self):
        for fault, (error, outputs) in self.OF_FORM.items():
            with self.subTest(fault=fault), tempfile.TemporaryDirectory() as folder:
                host = self.host(fault=f"{fault}:once@2", folder=folder)
                first, second, third = (host.execute([Request(3, 7, True)])[0] for _ in range(3))
                self.assertEqual((second.error, second.outputs), (error, outputs))
                self.assertEqual([(right.error, right.outputs) for right in (first, third)], [(None, {"OUTPUT": [[3]]})] * 2)

    def test_a_request_that_is_taken_for_an_idle_row_is_not_executed(self):
        host = self.faulty("ready-missing:once@2", folder=self.enterContext(tempfile.TemporaryDirectory()))
        self.assertEqual([self.answers(host, Request(1, 7, start)) for start in (True, False, False)], [[[1]], [None], [[2]]])

    def test_a_stale_state_is_of_the_same_id(self):
        host = self.faulty("stale-state")
        self.assertEqual(self.answers(host, Request(1, 7, True), Request(10, 8, True)), [[1], [10]])
        self.assertEqual(self.answers(host, Request(2, 8, True), Request(3, 7, True)), [[12], [4]])

    def test_a_fault_that_happens_once_is_of_one_instance(self):
        with tempfile.TemporaryDirectory() as folder:
            one, other = (self.faulty("keep-state:once@1", folder=folder) for _ in range(2))
            self.assertEqual([self.sequences(host)[-1] for host in (one, other)], [11, 5])
            said = io.StringIO()
            with mock.patch.object(sys, "stderr", said):
                one.finalize()
                other.finalize()
        told = "model 'm': planted fault keep-state: committed"
        self.assertEqual(said.getvalue().splitlines(), [f"{told} 1 of 1 chances", f"{told} 0 of 1 chances"])

    def test_a_graph_that_resets_at_start_is_not_told_it(self):
        for fault, answer in [("keep-state", 11), ("execute-twice", 10)]:
            host = self.host([self.state(initial="zero")], fault=fault)
            self.assertEqual(self.sequences(host)[-1], answer)
            self.assertEqual(host.graph.seen["START"], [[0]])

    def test_states_of_ids_are_confused_with_those_of_other_ids(self):
        host = self.faulty("state-of-another-slot:once@1", oldest=True, folder=tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, host.fault.marker.rpartition("/")[0])
        self.answers(host, Request(1, 7, True))
        self.answers(host, Request(10, 8, True))
        self.assertEqual(self.answers(host, Request(2, 7)), [[12]])

    def test_idle_slots_are_no_chance(self):
        host = self.faulty("execute-twice")
        self.answers(host, Request(1, 7, True), Request(9))
        self.assertEqual((host.fault.chances, host.fault.committed), (1, 1))

    def test_two_states_of_different_sizes_are_exchanged(self):
        with mock.patch.dict(globals(), {"Sum": TwoStates}):
            states = [self.state(input="Z", output="Z_OUT", dims=[1], initial="zero"), self.state(input="A", output="A_OUT", dims=[2], initial="zero")]
            right, wrong = self.host(states), self.host(states, fault="exchange-states")
        for host, answers in [(right, [[1], [12], [123]]), (wrong, [[1], [102], [303]])]:
            begun = self.answers(host, Request(1, 7, True))
            self.assertEqual([*begun, *self.answers(host, Request(2, 7)), *self.answers(host, Request(3, 7))], answers)
        self.assertEqual(wrong.graph.seen["A"], [[2, 0]])

    def test_a_fault_of_no_state_is_rejected(self):
        for fault, states, words in [
            ("keep-state", [], "'keep-state' needs 1 of the states that the server keeps, and the model has 0"),
            ("exchange-states", [self.state()], "'exchange-states' needs 2 of the states that the server keeps, and the model has 1"),
            ("lose-state", [self.state()], "unknown fault 'lose-state', known are keep-state, "),
        ]:
            with self.assertRaisesRegex(ValueError, words):
                self.host(states, fault=fault)

    def test_the_rows_of_a_state_may_be_along_another_axis(self):
        with mock.patch.dict(globals(), {"Sum": RowsBehind}):
            host = self.host([self.state(dims=[2, 3], initial="zero")])
            alone = self.host([self.state(dims=[2, 1, 3], initial="zero")], batch=0)
        self.assertEqual(self.answers(host, Request(1, 7, True), Request(10, 8, True)), [[1], [10]])
        self.assertEqual(self.answers(host, Request(20, 8, True), Request(2, 9, True), Request(3, 6, True)), [[20], [2], [3]])
        self.assertEqual(self.answers(host, Request(1, 8), Request(1, 9), Request(1, 6)), [[21], [3], [4]])
        self.assertEqual(host.graph.seen["INPUT_STATE"], [[[20] * 3, [2] * 3, [3] * 3]] * 2)
        for expected in ([[1]], [[3]]):
            request = Request(sum(expected[0]) // 2 + 1, 7, expected == [[1]])
            request.tensors = {name: tensor[0] for name, tensor in request.tensors.items()}
            self.assertEqual([self.answers(alone, request)], expected)

    def test_the_axis_of_the_rows_is_the_open_one(self):
        axis = host_module().batch_axis
        for shape, dims, expected in [
            ([2, "batch", 128], [2, 128], 1),
            (["batch", 2, 128], [2, 128], 0),
            ([2, 128, None], [2, 128], 2),
            (["a", "b", 128], [-1, 128], 0),
            ([2, 1, 128], [2, 128], 0),
            ([2, 128], [2, 128], 0),
            (None, [1], 0),
        ]:
            self.assertEqual(axis(shape, dims), expected, (shape, dims))

    def test_results_that_are_smaller_or_larger_than_the_input_are_whole(self):
        with mock.patch.dict(globals(), {"Sum": Longer}):
            host = self.host()
        self.assertEqual(self.answers(host, Request([1, 2], 7, True)), [[3, 3, 3, 3, 3]])
        self.assertEqual(self.answers(host, Request([1, 2], 7), Request([4], 8)), [[3, 3, 3, 3, 3], [4, 4, 4, 4, 4]])

    def test_what_a_runtime_raises_is_the_answer(self):
        host = self.host()
        host.graph.run = mock.Mock(side_effect=RuntimeError("out of order"))
        self.assertEqual([response.error for response in host.execute([Request(1, 7), Request(2, 8)])], ["RuntimeError: out of order"] * 2)

    def test_a_file_with_other_tensors_is_rejected(self):
        class Other(Sum):
            def __init__(self, file, inputs, outputs):
                super().__init__(file, ["X"], outputs)

        rejected = self.assertRaisesRegex(ValueError, "the configuration has the inputs INPUT, the model's file X")
        with mock.patch.dict(globals(), {"Sum": Other}), rejected:
            self.host()

    def test_a_control_that_the_file_has_not_is_not_given_to_it(self):
        class WithoutReady(Sum):
            def __init__(self, file, inputs, outputs):
                super().__init__(file, [name for name in inputs if name != "READY"], outputs)

        with mock.patch.dict(globals(), {"Sum": WithoutReady}):
            host = self.host()
        self.assertEqual(self.answers(host, Request(1, 7, True)), [[1]])
        self.assertEqual(sorted(host.graph.seen), ["INPUT", "START"])

    def test_a_text_of_the_correlation_id_is_made_of_what_came(self):
        host = self.host(corrid="ID")
        self.answers(host, Request(1, "seven", True), Request(2), Request(3, 9, True))
        self.assertEqual(host.graph.seen["ID"], [[b"seven"], [b""], [b"9"]])

    def test_what_is_kept_of_a_row_is_not_the_whole_batch(self):
        host = self.host([self.state(initial="zero")])
        self.answers(host, Request(1, 7, True), Request(10, 8, True))
        self.assertEqual([values.base for values in host.states[0].kept.values()], [None, None])

    def rated(self, constants='{"RATE": 2}', is_optional=True, **parameters):
        """A host of Rated, whose sequences begin with 0."""
        rate = {"name": "RATE", "optional": is_optional}
        with mock.patch.dict(globals(), {"Sum": Rated}):
            return self.host([self.state(initial="zero")], inputs=[rate], sequence_stress_constants=constants, **parameters)

    def test_a_constant_is_given_to_the_graph_as_it_is(self):
        for constants, answer in [('{"RATE": 2}', [2]), ('{"RATE": 3}', [3])]:
            host = self.rated(constants)
            self.assertEqual(self.answers(host, Request(1, 7, True), Request(1, 8, True)), [answer, answer])
            self.assertEqual(host.graph.rate.shape, ())

    def test_a_request_with_another_value_is_rejected_and_keeps_its_state(self):
        host = self.rated()
        self.assertEqual(self.answers(host, with_rate(2, 1, 7, True), with_rate(2, 10, 8, True)), [[2], [20]])
        rejected, accepted, idle = host.execute([with_rate(5, 1, 7), with_rate(2, 10, 8), with_rate(0, 99)])
        self.assertEqual((accepted.error, accepted.outputs, idle.error), (None, {"OUTPUT": [[40]]}, None))
        self.assertEqual(rejected.error, "input 'RATE' is [[5]], and this model takes 2 only: send that, or leave 'RATE' out")
        self.assertEqual(self.answers(host, Request(1, 7), Request(10, 8)), [[4], [60]])
        (rejected,) = self.rated(is_optional=False).execute([with_rate(5, 1, 7, True)])
        self.assertEqual(rejected.error, "input 'RATE' is [[5]], and this model takes 2 only: send that")

    def test_an_optional_input_that_is_not_sent_is_named(self):
        host = self.rated(constants=None)
        (rejected,) = host.execute([Request(1, 7, True)])
        self.assertEqual(rejected.error, "ValueError: a request of the batch has no input 'RATE', and the model's file needs each of its inputs: send it")

    def test_a_constant_may_be_a_text(self):
        constant = host_module().Constant("INPUT", "en", [{"name": "INPUT", "data_type": "TYPE_STRING"}])
        self.assertIsNone(constant.problem(Request([b"en"], 7)))
        self.assertIn("is [[b'de']], and this model takes b'en' only", constant.problem(Request([b"de"], 7)))

    def test_a_rejected_request_takes_part_in_no_fault(self):
        faults = sorted(set(host_module().FAULTS) - {"exchange-states"})
        for fault in faults:
            with self.subTest(fault=fault):
                host = self.rated(fault=f"{fault}:0.0")
                self.answers(host, Request(1, 7, True), Request(10, 8, True))
                before = host.fault.chances
                responses = host.execute([with_rate(5, 1, 7), with_rate(5, 1, 8, True)])
                self.assertEqual([response.error is None for response in responses], [False, False])
                self.assertEqual(host.fault.chances, before)
                self.answers(host, Request(1, 7), Request(10, 8), Request(1, 9, True))
                self.answers(host, Request(1, 7), Request(10, 8), Request(1, 9, True))
                self.assertGreater(host.fault.chances, before)

    def test_a_fault_beside_a_rejected_request_is_of_the_others(self):
        for fault, answers in [("swap-states:once@1", [[202], [22]]), ("execute-twice:once@4", [[24], [202]])]:
            with self.subTest(fault=fault), tempfile.TemporaryDirectory() as folder:
                host = self.rated(fault=fault, folder=folder)
                self.answers(host, Request(1, 7, True), Request(10, 8, True), Request(100, 9, True))
                rejected, *accepted = host.execute([with_rate(5, 1, 7), Request(1, 8), Request(1, 9)])
                self.assertIn("this model takes 2 only", rejected.error)
                self.assertEqual([response.outputs["OUTPUT"][0] for response in accepted], answers)
                self.assertEqual(self.answers(host, Request(1, 7)), [[4]])

    def test_parameters_that_mean_nothing_are_rejected(self):
        for constants, words in [
            ("16000", "sequence_stress_constants is '16000', which is no JSON object"),
            ("{", "sequence_stress_constants is '{', which is no JSON object"),
            ('{"SR": 1}', "sequence_stress_constants has 'SR', which is no input"),
            ('{"RATE": "fast"}', "sequence_stress_constants has 'fast' for 'RATE', which is no TYPE_INT32"),
            ('{"RATE": null}', "sequence_stress_constants has None for 'RATE', which is no TYPE_INT32"),
        ]:
            with self.assertRaisesRegex(ValueError, words):
                self.rated(constants)

    def test_an_execution_takes_its_time(self):
        host = self.host()
        host.delay_s = 0.25
        with mock.patch.object(self.module.time, "sleep") as sleep:
            self.answers(host, Request(1, 7, True), Request(2, 8, True))
        sleep.assert_called_once_with(0.25)


if __name__ == "__main__":
    unittest.main()
