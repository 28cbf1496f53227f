"""Writes the model repository that a real tritonserver serves: the table of models, and their configurations as text."""

import ast
import dataclasses
import shutil

from . import native
from .install import ROOT

ACCUMULATOR = ROOT / "models/accumulator.py"
PYTHON = "python"
WIDTH = 120
RUNNING_SUM = "running-sum"
PLUS_CORRID_AT_END = "running-sum-plus-corrid-at-end"
BY_SLOT = ("START", "READY")
BY_ID = ("START", "END", "READY", "CORRID")
# What echo models answer besides the sum: the controls that they saw, and the slot and the instance that they ran in.
# What all models say of what they saw, where a client asks for it: START, END, READY, CORRID and the slot.
SEEN = "SEEN"
SEEN_ELEMENTS = 5
ECHOED = {"SAW_START": "INT32", "SAW_END": "INT32", "SAW_READY": "INT32", "SAW_CORRID": "UINT64", "SLOT": "INT32", "INSTANCE": "INT32"}


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
    data_type: str = "INT32"
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


def by_id(name, **more):
    return Model(name, oldest=True, controls=BY_ID, **more)


def implicit(name, state=(), **more):
    return Model(name, dims=1, state=dict(state), **more)


MODELS = [
    Model("custom_sequence_int32", python=True),
    by_id("oldest_sequence_int32", python=True),
    by_id("custom_dyna_sequence_int32", python=True, formula=PLUS_CORRID_AT_END),
    Model("custom_nobatch_sequence_int32", batches=False),
    by_id("custom_nobatch_dyna_sequence_int32", batches=False, formula=PLUS_CORRID_AT_END),
    *(Model(f"custom_sequence_{name}", data_type=name.upper()) for name in ("int64", "uint32", "uint64")),
    Model("custom_sequence_float32", data_type="FP32"),
    Model("custom_sequence_float64", data_type="FP64"),
    Model("custom_sequence_object", data_type="STRING"),
    implicit("implicit_sequence_int32"),
    implicit("implicit_nobatch_sequence_int32", batches=False),
    implicit("implicit_initial_sequence_int32", {"initial_state": {"name": "zero", "data_type": data_type("INT32"), "dims": [1], "zero_data": True}}),
    implicit("implicit_single_buffer_sequence_int32", {"use_same_buffer_for_input_output": True}, since="24.01"),
    implicit("implicit_dyna_sequence_int32", oldest=True),
    by_id("ragged_sequence_int32", ragged=True),
    Model("echo_sequence_int32", controls=BY_ID, outputs=ECHOED, parameters={"state_key": "slot"}),
    by_id("echo_dyna_sequence_int32", outputs=ECHOED),
    Model("decoupled_sequence_int32", decoupled=True),
    Model("iterative_sequence_int32", decoupled=True, iterative=True, since="24.01"),
]


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


def control(name):
    kind = {"kind": Word(f"CONTROL_SEQUENCE_{name}")}
    kind.update({"data_type": data_type("UINT64")} if name == "CORRID" else {"int32_false_true": [0, 1]})
    return {"name": name, "control": kind}


def state(model):
    names = {"input_name": "INPUT_STATE", "output_name": "OUTPUT_STATE", "data_type": data_type(model.data_type), "dims": [model.dims]}
    return {**names, **model.state}


def sequence_batching(model, batch, idle_limit_ms):
    fields = {"max_sequence_idle_microseconds": idle_limit_ms * 1000}
    if model.iterative:
        fields["iterative_sequence"] = True
    if model.oldest:
        fields["oldest"] = {"max_candidate_sequences": batch}
    fields["control_input"] = [control(name) for name in model.controls]
    if model.state is not None:
        fields["state"] = state(model)
    return fields


def configuration(model, backend, instances, batch, idle_limit_ms, parameters):
    """The configuration of `model` as nested dicts."""
    parameters = {"sequence_stress_formula": model.formula, "sequence_stress_controls": SEEN, **model.parameters, **parameters}
    tensor = {"data_type": data_type(model.data_type), "dims": [model.dims]}
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


def models(python, release):
    """The models that the server of `release` can serve with the Python backend, or else with the native one."""
    # Releases are YEAR.MONTH with two digits each, so that their order is that of their texts.
    return [model for model in MODELS if (model.python or not python) and release >= model.since]


def fault_names(python):
    """The names of the faults that can be planted in the models."""
    if not python:
        return native.fault_names()
    module = ast.parse(ACCUMULATOR.read_text())
    (faults,) = (node.value for node in module.body if isinstance(node, ast.Assign) and node.targets[0].id == "FAULTS")
    return list(ast.literal_eval(faults))


def write(folder, python, release, **options):
    """Writes all models into `folder`; `options` are those of `configuration`."""
    for model in models(python, release):
        version = folder / model.name / "1"
        version.mkdir(parents=True)
        config = configuration(model, PYTHON if python else native.NAME, **options)
        (version.parent / "config.pbtxt").write_text(text(config))
        if python:
            shutil.copy(ACCUMULATOR, version / "model.py")


def write_new(folder, *arguments, **options):
    """As `write`, into a folder of the user's, which has to be empty or not there yet; returns how many models there are."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RepositoryError(f"'{folder}' exists and is not an empty folder: name another one")
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, *arguments, **options)
        return len(models(*arguments))
    except OSError as problem:
        raise RepositoryError(f"cannot write the models into '{folder}': {problem.strerror}")
