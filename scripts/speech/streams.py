"""Streams of frames as perf_analyzer's input JSON: an inner list of `data` is a stream, and each of its entries a step."""

import array
import base64
import json
import os
import sys
import tempfile

from . import audio

# What precedes the samples of each frame: the end of the frame before, or zeros. The graph needs it, and keeps it in no state.
CONTEXT = 64
WIDTH = CONTEXT + audio.FRAME
# The steps at which the outputs of any two streams are apart, by how much times the number of streams, and how many streams are tried for each.
FIRST_STEPS = 4
SPREAD = 0.05
TRIES = 100


class StreamsError(Exception):
    """Why streams cannot be written or read, on one line."""


def steps(frames):
    """What the model gets in each step: each frame behind its context."""
    context = [0.0] * CONTEXT
    for frame in frames:
        yield context + frame
        context = frame[-CONTEXT:]


def encoded(samples):
    """Samples as little-endian FP32 in Base64: exactly what is sent, and shorter than decimals."""
    values = array.array("f", samples)
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode()


def step(samples):
    return {"input": {"b64": encoded(samples), "shape": [WIDTH]}, "sr": [audio.RATE]}


def chosen(count, seed, probabilities):
    """The numbers of `count` streams whose outputs are apart at each of the first steps: by SPREAD / count at least. Outputs that are nearly
    the same could not show that a server exchanged the states of two streams. `probabilities(steps)` are a stream's outputs."""
    kept = {}
    for number in range(TRIES * count):
        first = probabilities(list(steps(audio.stream(seed, number, FIRST_STEPS))))
        if all(abs(one - other) >= SPREAD / count for others in kept.values() for one, other in zip(first, others, strict=True)):
            kept[number] = first
        if len(kept) == count:
            return list(kept)
    raise StreamsError(f"only {len(kept)} of {TRIES * count} streams with the seed {seed} differ clearly, not {count}: pick another seed")


def document(numbers, frames, seed):
    """The JSON of the streams with these numbers, of this many frames each."""
    return {"data": [[step(samples) for samples in steps(audio.stream(seed, number, frames))] for number in numbers]}


def write(path, content):
    """Writes the JSON into a file, whole or not at all."""
    text = json.dumps(content) + "\n"
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            try:
                file.write(text)
                file.close()
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as problem:
        raise StreamsError(f"cannot write the streams into '{path}': {problem.strerror}") from problem


def read(path):
    """The steps of each stream of such a file: for each step the samples, as an array of FP32."""
    try:
        streams = [[samples_of(step) for step in stream] for stream in json.loads(path.read_text())["data"]]
        if not streams or not all(streams):
            raise ValueError("a list is empty")
        return streams
    except OSError as problem:
        raise StreamsError(f"cannot read the streams in '{path}': {problem.strerror}") from problem
    except (KeyError, TypeError, ValueError) as problem:
        form = '{"data": [[{"input": {"b64": …}, "sr": [16000]}, …], …]}'
        raise StreamsError(f"'{path}' has no streams as 'scripts/silero --inputs' writes them, {form}: {type(problem).__name__}: {problem}") from problem


def samples_of(step):
    """The samples of a step, whichever way they are written."""
    if step["sr"] != [audio.RATE]:
        raise ValueError(f"'sr' is {step['sr']}, and the whole-stream model knows [{audio.RATE}] only")
    content = step["input"]
    content = content.get("content", content) if isinstance(content, dict) else content
    if isinstance(content, list):
        samples = array.array("f", content)
    else:
        samples = array.array("f")
        samples.frombytes(base64.b64decode(content["b64"], validate=True))
        if sys.byteorder == "big":
            samples.byteswap()
    if len(samples) != WIDTH:
        raise ValueError(f"a step has {len(samples)} samples, not {WIDTH}")
    return samples
