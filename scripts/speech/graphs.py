"""The files of the wheel, run by onnxruntime."""

import sys

from verifying import install as runtimes

from . import audio, wheel

HIDDEN = (1, 1, 128)
LAYERS, WIDTH = 2, 128


class Graphs:
    """The whole-stream and the step-by-step graph; `folder` is that of the wheel's files."""

    def __init__(self, folder):
        _, environment = runtimes.python_of("onnxruntime", is_older=False)
        sys.path.insert(0, environment["PYTHONPATH"])
        import numpy
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        self.numpy, self.version = numpy, onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.whole, self.step = (
            onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"]) for name in (wheel.WHOLE, wheel.STEP)
        )

    def array(self, steps):
        """The samples of a stream's steps, as [steps, 576]."""
        return self.numpy.array(steps, self.numpy.float32)

    def at_once(self, samples):
        """The probabilities of a stream, computed in one call; `samples` is [steps, 576]."""
        zeros = self.numpy.zeros(HIDDEN, self.numpy.float32)
        return self.whole.run(["speech_probs"], {"input": samples, "h": zeros, "c": zeros})[0].reshape(-1)

    def by_steps(self, samples):
        """The probabilities of streams of the same length, side by side in each call; `samples` is [streams, steps, 576]."""
        state = self.numpy.zeros((LAYERS, len(samples), WIDTH), self.numpy.float32)
        rate = self.numpy.array(audio.RATE, self.numpy.int64)
        outputs = []
        for place in range(samples.shape[1]):
            given = {"input": self.numpy.ascontiguousarray(samples[:, place]), "state": state, "sr": rate}
            output, state = self.step.run(["output", "stateN"], given)
            outputs.append(output[:, 0])
        return self.numpy.stack(outputs, axis=1)
