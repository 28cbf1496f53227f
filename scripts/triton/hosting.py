"""Makes of a model repository the one that the server here can serve: models of backends that it has not run in the host model.

Native models and those of the Python backend stay as they are. Of the others, models/host.py runs the file by a runtime that can be had
as a Python package. What cannot be run is left out, and `Hosting.remarks` says why.
"""

import collections
import json
import shutil
import sys
from pathlib import Path

from verifying import install as runtimes

from . import install, native, repository

HOST = install.ROOT / "models/host.py"
PYTHON = "python"
# The platform of a model whose steps are other models of the repository.
ENSEMBLE = "ensemble"
PARAMETER = "sequence_stress_hosted"
STRATEGIES = ("direct", "oldest")
# Configurations of old name the backend so.
PLATFORMS = {
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
}
# The files that a backend's models are made of, and what runs each; of TensorFlow's the one that has no doubt about them.
FILES = {
    "onnxruntime": {"model.onnx": "onnxruntime"},
    "openvino": {"model.xml": "openvino"},
    "pytorch": {"model.pt": "torch"},
    "tensorflow": {"model.savedmodel": "tensorflow", "model.graphdef": "tensorflow"},
    "tensorrt": {"model.onnx": "onnxruntime"},
}
PLAN = "model.plan"
# OpenVINO is the smaller, but computes in 32 bits, reads no numbers from texts and takes TensorFlow's variables for constants.
NOT_FOR_OPENVINO = ("TYPE_INT64", "TYPE_UINT32", "TYPE_UINT64", "TYPE_FP64", "TYPE_STRING")
VARIABLE = b"VarHandleOp"
# Each instance of a model of the Python backend is a process.
MANY_PROCESSES = 32
# The Python backend has no tensors of these.
NO_TENSORS = ("TYPE_BF16",)


class HostingError(Exception):
    """Why a repository cannot be served, on one line."""


def fault_names():
    """The names of the faults that can be planted in the host, from its table of them."""
    return list(repository.constant(HOST, "FAULTS"))


def states_needed(fault):
    """How many states that the server keeps a fault of the host needs."""
    return repository.constant(HOST, "STATES_NEEDED").get(fault, 1)


class CannotHost(Exception):
    """Why a model is left out: the same words for every model of its kind."""


class Messages:
    """Configurations as NVIDIA's client has them, and protobuf's own text form of them."""

    def __init__(self):
        packages = str(install.client_packages())
        if packages not in sys.path:
            sys.path.insert(0, packages)
        from google.protobuf import text_format
        from tritonclient.grpc import model_config_pb2

        self.form, self.types = text_format, model_config_pb2

    def parsed(self, path):
        try:
            return self.form.Parse(path.read_text(), self.types.ModelConfig())
        except (OSError, UnicodeDecodeError, self.form.ParseError) as problem:
            raise HostingError(f"'{path}' is no model configuration: {getattr(problem, 'strerror', None) or problem}") from problem

    def text(self, config):
        return self.form.MessageToString(config)

    def data_type(self, number):
        return self.types.DataType.Name(number)


def backend(config):
    """The name of the backend that a configuration asks for."""
    return config.backend or PLATFORMS.get(config.platform, config.platform)


def versions(folder):
    """The folders of a model's versions."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.isdigit())


def holds_variables(path):
    """Whether a SavedModel keeps something from one execution to the next."""
    file = path / "saved_model.pb"
    return file.is_file() and VARIABLE in file.read_bytes()


class Hosted:
    """How the host runs a model."""

    def __init__(self, messages, config, folder):
        self.messages, self.config = messages, config
        self.check()
        self.file, self.runtime = self.file_and_runtime(folder)

    def check(self):
        name = backend(self.config)
        if name not in FILES:
            raise CannotHost(f"backend '{name}' is neither here nor known")
        if self.config.WhichOneof("scheduling_choice") != "sequence_batching":
            raise CannotHost("without sequence_batching nothing is hosted")
        if self.config.model_transaction_policy.decoupled:
            raise CannotHost("decoupled, and a model's file answers each request once")
        missing = set(self.data_types()).intersection(NO_TENSORS)
        if missing:
            raise CannotHost(f"the Python backend has no tensors of {', '.join(sorted(missing))}")

    def data_types(self):
        """The types of the tensors that sums are made of."""
        return [self.messages.data_type(tensor.data_type) for tensor in (*self.config.input, *self.config.output)]

    def file_and_runtime(self, folder):
        name = backend(self.config)
        of_versions = versions(folder)
        if name == "tensorrt" and any((version / PLAN).exists() for version in of_versions):
            raise CannotHost("a plan is built for TensorRT and its GPU, which are not here")
        named = self.config.default_model_filename
        known = {named: self.runtime_of(name, named)} if named else FILES[name]
        for file, runtime in known.items():
            if of_versions and all((version / file).exists() for version in of_versions):
                return file, self.for_tensorflow(of_versions, file) if runtime == "tensorflow" else runtime
        raise CannotHost(f"no {' or '.join(known)} in each version")

    def runtime_of(self, name, file):
        """What runs a file that has another name than such files have."""
        return FILES[name].get(file) or next(iter(FILES[name].values()))

    def for_tensorflow(self, of_versions, file):
        is_openvino = not set(self.data_types()).intersection(NOT_FOR_OPENVINO)
        has_variables = any(holds_variables(version / file) for version in of_versions)
        return "openvino" if is_openvino and not self.text_corrid() and not has_variables else "tensorflow"

    def text_corrid(self):
        """The control that is the correlation ID as a text, if there is one."""
        for tensor in self.config.sequence_batching.control_input:
            if any(self.messages.data_type(control.data_type) == "TYPE_STRING" for control in tensor.control):
                return tensor
        return None

    def states(self):
        """What the host has to keep, as it is told of it."""
        return [self.state(declared) for declared in self.config.sequence_batching.state]

    def state(self, declared):
        told = {"input": declared.input_name, "output": declared.output_name, "data_type": self.messages.data_type(declared.data_type)}
        told.update(dims=list(declared.dims), initial="undefined")
        for initial in declared.initial_state:
            told.update(dims=list(initial.dims), initial="zero")
            if initial.data_file:
                told.update(initial="file", data_file=initial.data_file)
        return told

    def can_commit(self, fault):
        """Whether the model keeps what a fault of the host is about."""
        return len(self.config.sequence_batching.state) >= states_needed(fault)

    def configuration(self, packages, planted):
        """The configuration with which the Python backend serves the model; `planted` are parameters for the host, by name."""
        config = self.messages.types.ModelConfig()
        config.CopyFrom(self.config)
        config.backend = PYTHON
        for field in ("platform", "default_model_filename", "runtime"):
            config.ClearField(field)
        config.sequence_batching.ClearField("state")
        corrid = self.text_corrid()
        if corrid:
            # The Python backend says 'unexpected number of string elements 2', or dies.
            config.sequence_batching.control_input.remove(corrid)
        if not config.instance_group:
            config.instance_group.add(count=1)
        for group in config.instance_group:
            group.kind = group.KIND_CPU
            group.ClearField("gpus")
        told = {"runtime": self.runtime, "packages": str(packages), "file": self.file, "states": self.states()}
        told["corrid"] = corrid.name if corrid else None
        config.parameters[PARAMETER].string_value = json.dumps(told)
        for name, value in planted.items():
            config.parameters[name].string_value = value
        return config


class Runtime:
    """A runtime that is installed: where Python finds it, and the libraries that it needs."""

    def __init__(self, name):
        command, environment = runtimes.python_of(name, is_older=False)
        if Path(command[0]) == runtimes.DEBIAN_PYTHON:
            # Its modules are built for that Python, and the models run in this one.
            version = runtimes.debian_python_version()
            if version != install.PYTHON_VERSION:
                raise install.InstallError(f"it comes from Debian for Python {version}, and with-triton runs with {install.PYTHON_VERSION}")
        self.packages = environment["PYTHONPATH"]
        self.libraries = [path for path in environment.get("LD_LIBRARY_PATH", "").split(":") if path]


class Hosting:
    """A model repository as the server here serves it; with a fault, NAME[:WHEN], in each model in the host that can have it."""

    def __init__(self, folder, fault=None, fault_seed=None, own=None):
        """`own` is the folder of the server's own backends, if it has some: what they can run stays as it is."""
        self.folder, self.own = folder, own
        self.fault = fault and fault.partition(":")[0]
        given = {"fault": fault, "fault_seed": fault_seed}
        self.planted = {name: str(value) for name, value in given.items() if fault and value is not None}
        models = self.models()
        self.messages = Messages()
        self.backends = set()
        self.processes = 0
        self.as_they_are, self.hosted, self.runtimes = [], {}, {}
        self.left_out = collections.defaultdict(list)
        for model in models:
            try:
                self.take(model, self.messages.parsed(self.configuration_of(model)))
            except CannotHost as problem:
                self.left_out[str(problem)].append(model.name)
        if not self.backends:
            raise HostingError("; ".join([f"there is nothing to serve in '{folder}'", *self.remarks()]))
        if self.fault and not any(hosted.can_commit(self.fault) for hosted in self.hosted.values()):
            raise HostingError(f"no model of '{folder}' can have the fault {self.fault}: {self.needed()}")

    def models(self):
        """The folders of the models."""
        try:
            folders = sorted(path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        except OSError as problem:
            raise HostingError(f"cannot read the models in '{self.folder}': {problem.strerror}") from problem
        if not folders:
            raise HostingError(f"'{self.folder}' is no model repository: it has no folders, each of a model")
        return folders

    def configuration_of(self, model):
        path = model / "config.pbtxt"
        if not path.is_file():
            raise CannotHost("no config.pbtxt")
        return path

    def take(self, model, config):
        name = backend(config)
        if name == ENSEMBLE:
            # It has no backend, and its steps are models of their own.
            self.as_they_are.append(model)
            return
        if name in (PYTHON, native.NAME) or (self.own and (self.own / name).is_dir()):
            self.as_they_are.append(model)
            self.backends.add(name)
        else:
            hosted = Hosted(self.messages, config, model)
            self.runtime(hosted.runtime)
            self.hosted[model] = hosted
            self.backends.add(PYTHON)
        if name != native.NAME:
            self.processes += sum(max(1, group.count) for group in config.instance_group) or 1

    def runtime(self, name):
        """The runtime of this name; the same words each time where it cannot be installed."""
        if name not in self.runtimes:
            try:
                self.runtimes[name] = Runtime(name)
            except install.InstallError as problem:
                self.runtimes[name] = problem
        if isinstance(self.runtimes[name], install.InstallError):
            raise CannotHost(f"{name} cannot be had: {self.runtimes[name]}")
        return self.runtimes[name]

    def libraries(self):
        """The folders of the libraries that the runtimes need."""
        installed = [runtime for runtime in self.runtimes.values() if isinstance(runtime, Runtime)]
        return [Path(path) for runtime in installed for path in runtime.libraries]

    def are_many(self):
        """Whether a machine may have too little for all of them at a time."""
        return self.processes > MANY_PROCESSES

    def without_fault(self):
        """The names of the models that the fault is not planted in."""
        return [model.name for model in self.as_they_are] + [model.name for model, hosted in self.hosted.items() if not hosted.can_commit(self.fault)]

    def needed(self):
        """What has to be so of a model for the fault."""
        count = states_needed(self.fault)
        states = {0: "", 1: " with state that the server keeps"}.get(count, f" with {count} states that the server keeps")
        return f"it is of models in the host{states}"

    def remarks(self):
        """What is left out, a line for each reason."""
        without = self.without_fault() if self.fault else []
        if without:
            yield f"fault {self.fault} is not planted in {self.shown(without)}: {self.needed()}"
        for reason, names in self.left_out.items():
            yield f"left out {self.shown(names)}: {reason}"

    def shown(self, names):
        return f"{len(names)} models, such as {names[0]}" if len(names) > 1 else names[0]

    def write(self, target):
        """Writes what is served into the folder `target`."""
        try:
            for model in (*self.as_they_are, *self.hosted):
                shutil.copytree(model, target / model.name)
            for model, hosted in self.hosted.items():
                planted = self.planted if hosted.can_commit(self.fault) else {}
                config = hosted.configuration(self.runtime(hosted.runtime).packages, planted)
                (target / model.name / "config.pbtxt").write_text(self.messages.text(config))
                for version in versions(target / model.name):
                    shutil.copy(HOST, version / "model.py")
        except (OSError, shutil.Error) as problem:
            raise HostingError(f"cannot copy the models of '{self.folder}': {getattr(problem, 'strerror', None) or problem}") from problem


def main():
    """`python3 -m triton.hosting RUNTIME ...` gets runtimes."""
    try:
        for name in sys.argv[1:]:
            Runtime(name)
    except install.InstallError as problem:
        sys.exit(f"hosting: {problem}")


if __name__ == "__main__":
    main()
