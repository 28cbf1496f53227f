"""Writes the model repository that a real tritonserver serves: the table of models, and their configurations as text."""

import ast
import dataclasses
import shutil
import struct

from . import native
from .install import ROOT

ACCUMULATOR = ROOT / "models/accumulator.py"
PYTHON = "python"
WIDTH = 120
RUNNING_SUM = "running-sum"
PLUS_CORRID_AT_END = "running-sum-plus-corrid-at-end"
STATELESS = "ready-times-input-plus-start"
STATELESS_PLUS_CORRID_AT_END = "ready-times-input-plus-start-plus-corrid-at-end"
BY_SLOT = ("START", "READY")
BY_ID = ("START", "END", "READY", "CORRID")
# What the state of models begins with that have an initial state other than 0, where the type has that number.
INITIAL = 1000
INITIAL_FILE = "thousand"
# The answers to each request of the decoupled models, and the executions of each request of the iterative ones.
RESPONSES = 3
ITERATIONS = 3


@dataclasses.dataclass(frozen=True)
class Dtype:
    """A data type as models' names have it: the one of their tensors, and the field of the controls that are true or false."""

    data_type: str
    # How Python packs an element; None of a text.
    packed: str
    control: str = "int32_false_true"
    initial: int = INITIAL

    def element(self, number):
        """The bytes of an element."""
        if self.packed is None:
            text = str(number).encode()
            return struct.pack("<I", len(text)) + text
        return struct.pack(f"<{self.packed}", number)


DTYPES = {
    "int8": Dtype("INT8", "b", initial=100),
    "int16": Dtype("INT16", "h"),
    "int32": Dtype("INT32", "i"),
    "int64": Dtype("INT64", "q"),
    "uint8": Dtype("UINT8", "B", initial=100),
    "uint16": Dtype("UINT16", "H"),
    "uint32": Dtype("UINT32", "I"),
    "uint64": Dtype("UINT64", "Q"),
    "float16": Dtype("FP16", "e"),
    "float32": Dtype("FP32", "f"),
    "float64": Dtype("FP64", "d"),
    "object": Dtype("STRING", None),
    "bool": Dtype("INT32", "i", "bool_false_true"),
}
DEFAULT_DTYPE = "int32"
# What echo models answer besides the sum: the controls that they saw, and the slot and the instance that they ran in.
ECHOED = {"SAW_START": "INT32", "SAW_END": "INT32", "SAW_READY": "INT32", "SAW_CORRID": "UINT64", "SLOT": "INT32", "INSTANCE": "INT32"}
# What all models say of what they saw, where a client asks for it: START, END, READY, CORRID and the slot.
SEEN = "SEEN"
SEEN_ELEMENTS = 5


class RepositoryError(Exception):
    """Why no repository was written, on one line."""


class Word(str):
    """A name of an enumeration, which stands in a configuration without quotes."""


def data_type(name):
    return Word(f"TYPE_{name}")


@dataclasses.dataclass(frozen=True)
class Model:
    """What sets one model apart from the others."""

    name: str
    # The Python backend can serve it too.
    python: bool = False
    # The first release whose server knows all the fields of its configuration.
    since: str = "23.04"
    dtype: Dtype = DTYPES[DEFAULT_DTYPE]
    dims: int = -1
    # Requests have a batch dimension.
    batches: bool = True
    oldest: bool = False
    controls: tuple = BY_SLOT
    formula: str = RUNNING_SUM
    # Fields of a state that the server keeps, besides its names, type and shape.
    state: dict = None
    ragged: bool = False
    decoupled: bool = False
    iterative: bool = False
    outputs: dict = dataclasses.field(default_factory=dict)
    parameters: dict = dataclasses.field(default_factory=dict)
    # The files of initial states: their names and contents.
    files: dict = dataclasses.field(default_factory=dict)


def by_id(name, **more):
    return Model(name, oldest=True, controls=BY_ID, **more)


def implicit(name, state=(), **more):
    return Model(name, dims=1, state=dict(state), **more)


def initial(name, dtype, **data):
    """The field of a state that is there when a sequence begins."""
    return {"initial_state": {"name": name, "data_type": data_type(dtype.data_type), "dims": [1], **data}}


def families(name):
    """The models of the data type of this name."""
    dtype = DTYPES[name]
    of_parameter = {"sequence_stress_initial_state": dtype.initial}
    several = {"sequence_stress_responses": RESPONSES}
    again = {"sequence_stress_iterations": ITERATIONS}
    models = [
        Model("custom_sequence", python=True),
        by_id("oldest_sequence", python=True),
        by_id("custom_dyna_sequence", python=True, formula=PLUS_CORRID_AT_END),
        Model("custom_nobatch_sequence", python=True, batches=False),
        by_id("custom_nobatch_dyna_sequence", python=True, batches=False, formula=PLUS_CORRID_AT_END),
        Model("custom_initial_sequence", python=True, parameters=of_parameter),
        implicit("implicit_sequence"),
        implicit("implicit_nobatch_sequence", batches=False),
        implicit("implicit_initial_sequence", initial("zero", dtype, zero_data=True)),
        implicit("implicit_initial_file_sequence", initial(INITIAL_FILE, dtype, data_file=INITIAL_FILE), parameters=of_parameter, files={INITIAL_FILE: dtype.element(dtype.initial)}),
        implicit("implicit_single_buffer_sequence", {"use_same_buffer_for_input_output": True}, since="24.01"),
        implicit("implicit_dyna_sequence", oldest=True),
        Model("stateless_sequence", python=True, dims=1, formula=STATELESS),
        by_id("stateless_dyna_sequence", python=True, dims=1, formula=STATELESS_PLUS_CORRID_AT_END),
        by_id("ragged_sequence", python=True, ragged=True),
        Model("echo_sequence", controls=BY_ID, outputs=ECHOED, parameters={"state_key": "slot"}),
        by_id("echo_dyna_sequence", outputs=ECHOED),
        Model("decoupled_sequence", decoupled=True, parameters=several),
        by_id("decoupled_oldest_sequence", decoupled=True, parameters=several),
        Model("iterative_sequence", decoupled=True, iterative=True, since="24.01", parameters=again),
    ]
    if dtype.packed is None:
        # Where the bytes of the file are a multiple of four, the server sets texts to zeros when a sequence begins.
        models = [model for model in models if not model.files]
    return [dataclasses.replace(model, name=f"{model.name}_{name}", dtype=dtype) for model in models]


def literal(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not isinstance(value, Word):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return str(value)


def text(message, indent=""):
    """A message as protobuf text: dicts are messages, a list of dicts is a field that is repeated."""
    lines = []
    for name, value in message.items():
        if isinstance(value, dict):
            value = [value]
        if not isinstance(value, list):
            lines.append(f"{name}: {literal(value)}")
        elif isinstance(value[0], dict):
            lines += [nested(name, each, indent) for each in value]
        else:
            lines.append(f"{name}: [ {', '.join(map(literal, value))} ]")
    return "".join(f"{indent}{line}\n" for line in lines)


def nested(name, message, indent):
    """A message within another, on one line where it fits."""
    within = " ".join(line.strip() for line in text(message).splitlines())
    line = f"{name} {{ {within} }}"
    return line if len(indent + line) <= WIDTH else f"{name} {{\n{text(message, indent + '  ')}{indent}}}"


def control(name, dtype):
    kind = {"kind": Word(f"CONTROL_SEQUENCE_{name}")}
    false_true = [False, True] if dtype.control == "bool_false_true" else [0, 1]
    kind.update({"data_type": data_type("UINT64")} if name == "CORRID" else {dtype.control: false_true})
    return {"name": name, "control": kind}


def state(model):
    names = {"input_name": "INPUT_STATE", "output_name": "OUTPUT_STATE", "data_type": data_type(model.dtype.data_type), "dims": [model.dims]}
    return {**names, **model.state}


def sequence_batching(model, batch, idle_limit_ms):
    fields = {"max_sequence_idle_microseconds": idle_limit_ms * 1000}
    if model.iterative:
        fields["iterative_sequence"] = True
    if model.oldest:
        fields["oldest"] = {"max_candidate_sequences": batch}
    fields["control_input"] = [control(name, model.dtype) for name in model.controls]
    if model.state is not None:
        fields["state"] = state(model)
    return fields


def configuration(model, backend, instances, batch, idle_limit_ms, parameters):
    """The configuration of `model` as nested dicts."""
    parameters = {"sequence_stress_formula": model.formula, "sequence_stress_controls": SEEN, **model.parameters, **parameters}
    tensor = {"data_type": data_type(model.dtype.data_type), "dims": [model.dims]}
    outputs = [{"name": "OUTPUT", **tensor}]
    outputs.append({"name": SEEN, "data_type": data_type("INT64"), "dims": [SEEN_ELEMENTS]})
    outputs += [{"name": name, "data_type": data_type(its), "dims": [1]} for name, its in model.outputs.items()]
    fields = {
        "name": model.name,
        "backend": backend,
        "max_batch_size": batch if model.batches else 0,
        "input": {"name": "INPUT", **tensor, **({"allow_ragged_batch": True} if model.ragged else {})},
        "output": outputs,
        "sequence_batching": sequence_batching(model, batch, idle_limit_ms),
        "instance_group": {"kind": Word("KIND_CPU"), "count": instances},
        "parameters": [{"key": key, "value": {"string_value": str(value)}} for key, value in parameters.items()],
    }
    if model.decoupled:
        fields["model_transaction_policy"] = {"decoupled": True}
    return fields


def models(python, release, dtypes=None):
    """The models of these data types that the server of `release` can serve with the Python backend, or else with the native
    one. Without data types those of INT32, and of the others the plainest; with the Python backend, of which each instance is a
    process, the three that Triton's own tests have."""
    chosen = [model for name in dtypes or [DEFAULT_DTYPE] for model in families(name)]
    if not dtypes:
        chosen = chosen[:3] if python else chosen + [families(name)[0] for name in DTYPES if name != DEFAULT_DTYPE]
    # Releases are YEAR.MONTH with two digits each, so that their order is that of their texts.
    return [model for model in chosen if (model.python or not python) and release >= model.since]


def fault_names(python):
    """The names of the faults that can be planted in the models."""
    if not python:
        return native.fault_names()
    module = ast.parse(ACCUMULATOR.read_text())
    (faults,) = (node.value for node in module.body if isinstance(node, ast.Assign) and node.targets[0].id == "FAULTS")
    return list(ast.literal_eval(faults))


def write(folder, python, release, dtypes=None, **options):
    """Writes the models into `folder`, and returns how many there are; `options` are those of `configuration`."""
    chosen = models(python, release, dtypes)
    for model in chosen:
        version = folder / model.name / "1"
        version.mkdir(parents=True)
        config = configuration(model, PYTHON if python else native.NAME, **options)
        (version.parent / "config.pbtxt").write_text(text(config))
        for name, content in model.files.items():
            file = version.parent / "initial_state" / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        if python:
            shutil.copy(ACCUMULATOR, version / "model.py")
    return len(chosen)


def write_new(folder, *arguments, **options):
    """As `write`, into a folder of the user's, which has to be empty or not there yet."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RepositoryError(f"'{folder}' exists and is not an empty folder: name another one")
        folder.mkdir(parents=True, exist_ok=True)
        return write(folder, *arguments, **options)
    except OSError as problem:
        raise RepositoryError(f"cannot write the models into '{folder}': {problem.strerror}")
