"""A model repository that `sequence-stress repository` wrote, as a manifest such as the example 'matrix' writes of its models."""

import re

from triton import hosting

from .formulas import NO_FORMULA
from .install import InstallError

FORMATS = {"onnxruntime": "onnx", "openvino": "openvino", "pytorch": "torchscript", "tensorrt": "tensorrt"}
# What the backends name whose models are programs, which run in a server alone.
PROGRAMS = ("python", "sequence_stress")
FORMULAS = {"ready-times-input-plus-start": "stateless", "running-sum": "stateful", "running-sum-plus-corrid-at-end": "stateful"}
PLUS_CORRID = "-plus-corrid-at-end"
VERSION = "1"


def manifest(directory):
    """The models that have files, and how many there are of each backend that has programs."""
    messages = hosting.Messages()
    models, programs = [], {}
    try:
        for path in sorted(directory.glob("*/config.pbtxt")):
            config = messages.parsed(path)
            if config.backend in PROGRAMS:
                programs[config.backend] = programs.get(config.backend, 0) + 1
            else:
                models.append(described(messages, config, path.parent / VERSION))
    except (hosting.HostingError, KeyError) as problem:
        raise InstallError(f"{directory} is no repository that `sequence-stress repository` wrote: {problem}") from problem
    return models, programs


def described(messages, config, folder):
    batching = config.sequence_batching
    parameters = {name: parameter.string_value for name, parameter in config.parameters.items()}
    formula = parameters["sequence_stress_formula"]
    batch = config.max_batch_size or None
    element = element_of(messages, config.input[0].data_type)
    tensors = {config.input[0].name: (element, list(config.input[0].dims))}
    outputs = {output.name: (element_of(messages, output.data_type), list(output.dims)) for output in config.output}
    for state in batching.state:
        tensors[state.input_name] = outputs[state.output_name] = (element_of(messages, state.data_type), list(state.dims))
    controls = {control.name: of_control(messages, control.control[0]) for control in batching.control_input}
    tensors.update((name, (control, [1])) for name, control in controls.items())
    corrids = [control for name, control in controls.items() if plain(name) == "CORRID"]
    return {
        "name": config.name,
        "folder": str(folder),
        "format": FORMATS.get(config.backend) or config.platform.removeprefix("tensorflow_"),
        "formula": formula_of(formula, batching.state),
        "element": element,
        "batch": batch,
        "width": None if config.input[0].dims[0] < 0 else config.input[0].dims[0],
        "control": next(iter(controls.values()), None),
        "corrid": corrids[0] if corrids else None,
        "adds_corrid": formula.endswith(PLUS_CORRID),
        "initial": int(parameters.get("sequence_stress_initial_state", 0)) if formula_of(formula, batching.state) == "stateful" else None,
        # TorchScript knows its inputs by their places, which are in their names.
        "states": [{"input": plain(state.input_name), "output": plain(state.output_name)} for state in batching.state],
        "inputs": listed(sorted(tensors.items(), key=lambda tensor: place(tensor[0])), batch),
        "outputs": listed(outputs.items(), batch),
        "rejected": None,
    }


def formula_of(formula, states):
    if formula == NO_FORMULA:
        return NO_FORMULA
    if states:
        return "implicit-with-initial-state" if states[0].initial_state else "implicit"
    return FORMULAS[formula.removesuffix(PLUS_CORRID)]


def plain(name):
    """What a tensor is, where its name has its place, too."""
    return re.sub(r"__\d+$", "", name)


def place(name):
    match = re.search(r"__(\d+)$", name)
    return int(match[1]) if match else 0


def element_of(messages, data_type):
    name = messages.data_type(data_type).removeprefix("TYPE_")
    return "TEXT" if name == "STRING" else name


def of_control(messages, control):
    """The type of a control's tensor."""
    if control.data_type:
        return element_of(messages, control.data_type)
    return "FP32" if control.fp32_false_true else "BOOL" if control.bool_false_true else "INT32"


def listed(tensors, batch):
    return [{"name": plain(name), "element": element, "dims": [-1, *dims] if batch else dims} for name, (element, dims) in tensors]
