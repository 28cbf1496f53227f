"""Tests of what is made of a given repository, and of the host model; `python3 -m unittest triton.hosting_tests` within scripts/ runs them."""

import hashlib
import importlib.util
import json
import struct
import sys
import tempfile
import types
import unittest
from pathlib import Path
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

    def __init__(self, value, corrid=0, start=False):
        import numpy

        elements = value if isinstance(value, list) else [value]
        of_type = numpy.object_ if isinstance(elements[0], bytes) else numpy.int32
        self.tensors = {"INPUT": numpy.array([elements], dtype=of_type)}
        self.tensors.update((name, numpy.array([[int(on)]], dtype=numpy.int32)) for name, on in (("START", start), ("READY", corrid != 0)))
        self.corrid, self.start = corrid, start

    def correlation_id(self):
        return self.corrid

    def flags(self):
        return int(self.start)

    def requested_output_names(self):
        return ["OUTPUT"]


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


class SecondAxis(Sum):
    """The same, and the rows of its states are along their second axis; it takes one RATE, which multiplies its inputs."""

    def run(self, given, outputs):
        import numpy

        self.shapes = {name: values.shape for name, values in given.items()}
        inputs = {"INPUT": given["INPUT"] * given["RATE"], "START": given["START"]}
        (states,) = given["INPUT_STATE"]
        answers = super().run({**inputs, "INPUT_STATE": states}, outputs)
        return [values[numpy.newaxis] if name == "OUTPUT_STATE" else values for name, values in zip(outputs, answers)]


def host_module():
    """models/host.py, with as much of the Python backend as it uses."""
    hosting.Messages()  # NVIDIA's client comes with numpy.
    import numpy

    backend = types.ModuleType("triton_python_backend_utils")
    backend.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
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
    def host(self, states=(), oldest=False, data_type="TYPE_INT32", folder="/nowhere", corrid=None, inputs=(), **parameters):
        controls = [{"name": name} for name in ("START", "READY")]
        told = {"runtime": "sum", "packages": "/nowhere", "file": "model.sum", "states": list(states), "corrid": corrid}
        tensor = {"data_type": data_type, "dims": [-1]}
        config = {
            "max_batch_size": 4,
            "input": [{"name": "INPUT", **tensor}, *({"name": name, "data_type": "TYPE_INT32", "dims": [1]} for name in inputs)],
            "output": [{"name": "OUTPUT", **tensor}],
            "sequence_batching": {"control_input": controls, **({"oldest": {}} if oldest else {})},
            "parameters": {
                "sequence_stress_hosted": {"string_value": json.dumps(told)},
                **{f"sequence_stress_{name}": {"string_value": text} for name, text in parameters.items()},
            },
        }
        self.module = host_module()
        host = self.module.TritonPythonModel()
        self.addCleanup(sys.path.remove, "/nowhere")
        host.initialize({"model_config": json.dumps(config), "model_repository": str(folder), "model_version": "1"})
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

    def second_axis(self, **changed):
        """A host of SecondAxis, whose configuration has the state of a row as [1, 1]."""
        parameters = {"batch_axes": '{"INPUT_STATE": 1, "OUTPUT_STATE": 1}', "constants": '{"RATE": 2}', **changed}
        with mock.patch.dict(globals(), {"Sum": SecondAxis}):
            return self.host([self.state(dims=[1, 1], initial="zero")], inputs=["RATE"], **parameters)

    def test_rows_lie_along_the_axis_that_is_declared(self):
        host = self.second_axis()
        self.assertEqual(self.answers(host, Request(1, 7, True), Request(10, 8, True), Request(100, 9, True)), [[2], [20], [200]])
        self.assertEqual(self.answers(host, Request(2, 7), Request(20, 8), Request(200, 9)), [[6], [60], [600]])
        self.assertEqual(host.graph.shapes["INPUT_STATE"], (1, 3, 1))

    def test_a_constant_is_given_to_the_graph_as_it_is(self):
        host = self.second_axis(constants='{"RATE": 3}')
        self.assertEqual(self.answers(host, Request(1, 7, True)), [[3]])
        self.assertEqual(host.graph.shapes["RATE"], ())

    def test_a_request_with_another_value_is_rejected_and_keeps_its_state(self):
        import numpy

        def rated(rate, *arguments):
            request = Request(*arguments)
            request.tensors["RATE"] = numpy.array([[rate]], dtype=numpy.int32)
            return request

        host = self.second_axis()
        self.assertEqual(self.answers(host, rated(2, 1, 7, True), rated(2, 10, 8, True)), [[2], [20]])
        rejected, accepted, idle = host.execute([rated(5, 1, 7), rated(2, 10, 8), rated(0, 99)])
        self.assertEqual((accepted.error, accepted.outputs, idle.error), (None, {"OUTPUT": [[40]]}, None))
        self.assertEqual(rejected.error, "input 'RATE' is [[5]], and this model takes 2 only: send that, or leave 'RATE' out")
        self.assertEqual(self.answers(host, Request(1, 7), Request(10, 8)), [[4], [60]])

    def test_parameters_that_mean_nothing_are_rejected(self):
        for changed, words in [
            (dict(constants="16000"), "sequence_stress_constants is '16000', which is no JSON object"),
            (dict(batch_axes="{"), "sequence_stress_batch_axes is '{', which is no JSON object"),
            (dict(constants='{"SR": 1}'), "sequence_stress_constants has 'SR', which is no input"),
            (dict(batch_axes='{"STATE": 1}'), "sequence_stress_batch_axes has 'STATE', which is no tensor"),
        ]:
            with self.assertRaisesRegex(ValueError, words):
                self.second_axis(**changed)

    def test_an_execution_takes_its_time(self):
        host = self.host()
        host.delay_s = 0.25
        with mock.patch.object(self.module.time, "sleep") as sleep:
            self.answers(host, Request(1, 7, True), Request(2, 8, True))
        sleep.assert_called_once_with(0.25)


if __name__ == "__main__":
    unittest.main()
