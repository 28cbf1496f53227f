"""Compares probabilities of speech that were computed in independent ways: a stream at once, step by step, and by a server.

The file silero_vad_16k_sequence.onnx computes all frames of a stream in one call, so no server and no loop keeps a state for it. What
it computes is compared with the step-by-step file, and with the responses of a server to streams that run alone and together.
"""

import itertools
import queue
import sys
import threading

from triton import install

from . import audio, graphs, repository, streams, wheel

RESPONSE_SECONDS = 60


class JudgeError(Exception):
    """Why nothing could be compared, on one line."""


class Sender:
    """Sends streams to a model over one gRPC stream, a step after the response to the step before."""

    def __init__(self, endpoint, model):
        import tritonclient.grpc as triton

        self.triton, self.model, self.responses = triton, model, queue.Queue()
        self.client = triton.InferenceServerClient(endpoint)
        self.client.start_stream(lambda result, error: self.responses.put((result, error)))

    def close(self):
        self.client.stop_stream(cancel_requests=True)
        self.client.close()

    def tensor(self, name, values, data_type):
        given = self.triton.InferInput(name, list(values.shape), data_type)
        given.set_data_from_numpy(values)
        return given

    def probabilities(self, samples, correlation_id, has_batch):
        """What the model answers to the steps of a stream."""
        import numpy

        lead = (1,) if has_batch else ()
        rate = self.tensor("sr", numpy.full((*lead, 1), audio.RATE, numpy.int64), "INT64")
        probabilities = []
        for place, step in enumerate(samples):
            inputs = [self.tensor("input", step.reshape(*lead, -1), "FP32"), rate]
            is_last = place + 1 == len(samples)
            self.client.async_stream_infer(self.model, inputs, sequence_id=correlation_id, sequence_start=place == 0, sequence_end=is_last)
            try:
                result, error = self.responses.get(timeout=RESPONSE_SECONDS)
            except queue.Empty:
                raise JudgeError(f"{self.model} did not answer step {place + 1} in {RESPONSE_SECONDS} s: see the server's log") from None
            if error:
                raise JudgeError(f"{self.model} answered step {place + 1} with an error: {error}")
            probabilities.append(result.as_numpy("output").item())
        return numpy.array(probabilities, numpy.float32)


def slots(config):
    """How many sequences a model serves at a time."""
    instances = sum(group.count for group in config.instance_group)
    batching = config.sequence_batching
    return instances * (batching.oldest.max_candidate_sequences if batching.HasField("oldest") else max(1, config.max_batch_size))


class Server:
    """A server that has models of scripts/silero. No call takes longer than RESPONSE_SECONDS."""

    def __init__(self, endpoint):
        import tritonclient.grpc as triton

        self.endpoint = endpoint
        self.client = triton.InferenceServerClient(endpoint)
        self.problem = triton.InferenceServerException
        self.models = [name for name in repository.MODELS if self.asked(self.client.is_model_ready, name)]
        if not self.models:
            raise JudgeError(f"the server at {endpoint} has none of {', '.join(repository.MODELS)}: serve a repository that scripts/silero wrote")

    def asked(self, call, model):
        """What the server answers to a call about a model."""
        try:
            return call(model, client_timeout=RESPONSE_SECONDS)
        except self.problem as problem:
            raise JudgeError(f"cannot ask the server at {self.endpoint} about {model}: {problem.message()}: is it a gRPC endpoint?") from problem

    def config(self, model):
        return self.asked(self.client.get_model_config, model).config

    def counts(self, model):
        """How many steps a model has answered, and in how many executions."""
        (counts,) = self.asked(self.client.get_inference_statistics, model).model_stats
        return counts.inference_count, counts.execution_count

    def probabilities(self, model, every, at_once):
        """The probabilities of all streams, `at_once` of them at a time, and how many steps an execution had on average."""
        has_batch = self.config(model).max_batch_size > 0
        waiting, found, problems = queue.Queue(), [None] * len(every), []
        for number, samples in enumerate(every):
            waiting.put((number, samples))

        def work():
            try:
                sender = Sender(self.endpoint, model)
                try:
                    while not problems:
                        number, samples = waiting.get_nowait()
                        found[number] = sender.probabilities(samples, number + 1, has_batch)
                finally:
                    sender.close()
            except queue.Empty:
                pass
            except (JudgeError, self.problem) as problem:
                problems.append(problem)

        before = self.counts(model)
        workers = [threading.Thread(target=work, daemon=True) for _ in range(at_once)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if problems:
            raise problems[0] if isinstance(problems[0], JudgeError) else JudgeError(f"{model}: {problems[0]}")
        steps, executions = (after - earlier for after, earlier in zip(self.counts(model), before, strict=True))
        return found, steps / executions


def compared(found, expected):
    """How far the probabilities of streams are from others at most, how many are bit-equal, and how many there are."""
    pairs = [(float(one), float(other)) for ours, others in zip(found, expected, strict=True) for one, other in zip(ours, others, strict=True)]
    return max(abs(one - other) for one, other in pairs), sum(one == other for one, other in pairs), len(pairs)


def nearest(probabilities, steps):
    """How far the two streams are apart that are nearest to each other at each of the first steps."""
    for place in range(steps):
        values = sorted(float(stream[place]) for stream in probabilities if len(stream) > place)
        yield min((after - before for before, after in itertools.pairwise(values)), default=None)


def groups(every, size):
    """Streams of the same length in groups of up to `size`, as lists of their numbers."""
    by_length = {}
    for number, samples in enumerate(every):
        by_length.setdefault(len(samples), []).append(number)
    for numbers in by_length.values():
        for start in range(0, len(numbers), size):
            yield numbers[start : start + size]


class Report:
    """Prints a line for each way, and keeps whether all were within the tolerance."""

    def __init__(self, expected, tolerance):
        self.expected, self.tolerance, self.is_right = expected, tolerance, True
        print(f"{'computed by':<52} {'largest difference':>18}  bit-equal")

    def line(self, what, found):
        largest, equal, count = compared(found, self.expected)
        is_right = largest <= self.tolerance
        self.is_right = self.is_right and is_right
        beyond = "" if is_right else f"  WRONG: beyond {self.tolerance:g}"
        print(f"{what:<52} {largest:>18.3g}  {equal} of {count}{beyond}", flush=True)


def judge(path, endpoint, at_once, tolerance):
    """Compares the streams of a file; returns whether all are right."""
    given = streams.read(path)
    own = graphs.Graphs(wheel.files())
    # Behind NumPy and onnxruntime, of which it has others.
    sys.path.append(str(install.client_packages()))
    every = [own.array(stream) for stream in given]
    print(f"silero-vad {wheel.VERSION}, onnxruntime {own.version}: {len(every)} streams, {sum(map(len, every))} steps; compared with {wheel.WHOLE}")
    expected = [own.at_once(samples) for samples in every]
    report = Report(expected, tolerance)
    report.line(f"{wheel.STEP}, each stream alone", [own.by_steps(samples[None])[0] for samples in every])
    together = [None] * len(every)
    for numbers in groups(every, at_once):
        for number, probabilities in zip(numbers, own.by_steps(own.numpy.stack([every[number] for number in numbers])), strict=True):
            together[number] = probabilities
    report.line(f"{wheel.STEP}, {at_once} streams in a batch", together)
    if endpoint:
        judge_server(Server(endpoint), every, at_once, report)
    apart = ", ".join("only one" if gap is None else f"{gap:.2g}" for gap in nearest(expected, streams.FIRST_STEPS))
    print(f"the two nearest streams differ at steps 1 to {streams.FIRST_STEPS} by {apart}")
    return report.is_right


def judge_server(server, every, at_once, report):
    for model in server.models:
        alone, _ = server.probabilities(model, every, 1)
        report.line(f"{model}, each stream alone", alone)
        # A stream that waits for a slot longer than the idle limit would lose its sequence.
        side_by_side = min(at_once, slots(server.config(model)))
        together, mean = server.probabilities(model, every, side_by_side)
        report.line(f"{model}, {side_by_side} streams at once", together)
        largest, equal, count = compared(together, alone)
        print(f"  alone and at once: {equal} of {count} bit-equal, largest difference {largest:.3g}; {mean:.2f} steps in an execution", flush=True)
