"""Writes a model repository with Silero VAD in three forms."""

import shutil

from . import audio, streams, wheel

DIRECT, OLDEST, NOBATCH = "silero_vad", "silero_vad_oldest", "silero_vad_nobatch"
MODELS = (DIRECT, OLDEST, NOBATCH)
BATCH = 8
CANDIDATES = 32
INSTANCES = 4
IDLE_LIMIT_MS = 5000

HEAD = """\
# Silero VAD {version} (MIT, see LICENSE), the file silero_vad.onnx of the wheel silero-vad: {about}
# Each step is a frame of {frame} samples behind the last {context} samples of the frame before.
name: "{name}"
backend: "onnxruntime"
max_batch_size: {batch}
"""
# The graph has the tensors input [N, 576], state [2, N, 128], sr [], output [N, 1] and stateN [2, N, 128].
BATCHED = """\
input [
  {{ name: "input" data_type: TYPE_FP32 dims: [ {width} ] }},
  {{ name: "sr" data_type: TYPE_INT64 dims: [ 1 ] optional: true }}
]
output [ {{ name: "output" data_type: TYPE_FP32 dims: [ 1 ] }} ]
"""
# A server with ONNX Runtime's backend takes this form as it is: from release 23.10 on, this backend takes dims of 1 for a scalar.
ALONE = """\
input [
  {{ name: "input" data_type: TYPE_FP32 dims: [ {width} ] reshape {{ shape: [ 1, {width} ] }} }},
  {{ name: "sr" data_type: TYPE_INT64 dims: [ 1 ] }}
]
output [ {{ name: "output" data_type: TYPE_FP32 dims: [ 1 ] reshape {{ shape: [ 1, 1 ] }} }} ]
"""
BATCHING = """\
sequence_batching {{
  {strategy}
  max_sequence_idle_microseconds: {idle_us}
  state {{
    input_name: "state" output_name: "stateN" data_type: TYPE_FP32 dims: [ {dims} ]
    initial_state {{ name: "zeros" data_type: TYPE_FP32 dims: [ {dims} ] zero_data: true }}
  }}
}}
instance_group [ {{ count: {instances} kind: KIND_CPU }} ]
"""
PARAMETERS = """\
parameters [ {{ key: "sequence_stress_constants" value {{ string_value: "{{\\"sr\\": {rate}}}" }} }} ]
"""
# Of each model: what it is, its strategy, max_batch_size, instances, and the dims of its state.
FORMS = {
    DIRECT: ("Direct, with batches.", "direct {{ }}", BATCH, 1, "2, 128"),
    OLDEST: ("Oldest, with batches.", "oldest {{ max_candidate_sequences: {candidates} }}", BATCH, 1, "2, 128"),
    NOBATCH: ("Direct, one sequence for each instance.", "direct {{ }}", 0, INSTANCES, "2, 1, 128"),
}


class RepositoryError(Exception):
    """Why no repository was written, on one line."""


def configuration(name, idle_limit_ms):
    """The config.pbtxt of a model."""
    about, strategy, batch, instances, dims = FORMS[name]
    parts = [HEAD, *([BATCHED, BATCHING, PARAMETERS] if batch else [ALONE, BATCHING])]
    values = dict(name=name, about=about, strategy=strategy.format(candidates=CANDIDATES), batch=batch, instances=instances, dims=dims)
    values.update(version=wheel.VERSION, frame=audio.FRAME, context=streams.CONTEXT, width=streams.WIDTH, rate=audio.RATE, idle_us=idle_limit_ms * 1000)
    return "".join(parts).format(**values)


def write(folder, files, idle_limit_ms=IDLE_LIMIT_MS):
    """Writes the models into a folder that is empty or not there yet; `files` is the folder of the wheel's files."""
    try:
        if folder.exists() and any(folder.iterdir()):
            raise RepositoryError(f"'{folder}' exists and is not empty: name a folder that is empty or not there yet")
        for name in MODELS:
            (folder / name / "1").mkdir(parents=True)
            (folder / name / "config.pbtxt").write_text(configuration(name, idle_limit_ms))
            shutil.copy(files / wheel.STEP, folder / name / "1/model.onnx")
            shutil.copy(files / wheel.LICENSE, folder / name / wheel.LICENSE)
    except OSError as problem:
        raise RepositoryError(f"cannot write the models into '{folder}': {problem.strerror}") from problem
