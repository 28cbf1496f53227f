"""NVIDIA's Python client against a server: `tritonclient_grpc.py HOST:PORT`. Prints OK, or ends with what was wrong.

The server has the models custom_sequence_int32 and oldest_sequence_int32 with batches of 4, and lets models be loaded.
"""

import json
import queue
import sys
import time

import numpy
import tritonclient.grpc as triton

DIRECT, OLDEST = "custom_sequence_int32", "oldest_sequence_int32"
LIMIT_S = 20


def tensors(value):
    tensor = triton.InferInput("INPUT", [1, 1], "INT32")
    tensor.set_data_from_numpy(numpy.full([1, 1], value, numpy.int32))
    return [tensor]


def equal(seen, expected):
    assert seen == expected, f"{seen!r}, not {expected!r}"


def rejected(text, call, *arguments, code=None, **keywords):
    """Calls what has to be rejected with an error that contains `text`."""
    try:
        answer = call(*arguments, **keywords)
    except triton.InferenceServerException as error:
        assert text in error.message(), f"{error.message()!r} has no {text!r}"
        assert code is None or error.status() == f"StatusCode.{code}", f"{error.status()} is not {code}"
        return
    raise AssertionError(f"{text!r} was expected, not {answer}")


def metadata(client):
    assert client.is_server_live(client_timeout=LIMIT_S) and client.is_server_ready(client_timeout=LIMIT_S)
    server = client.get_server_metadata(as_json=True, client_timeout=LIMIT_S)
    assert {"sequence", "model_repository", "statistics"} <= set(server["extensions"]), server
    for model in DIRECT, OLDEST:
        assert client.is_model_ready(model, client_timeout=LIMIT_S)
        assert client.is_model_ready(model, "1", client_timeout=LIMIT_S)
        told = client.get_model_metadata(model, client_timeout=LIMIT_S)
        equal((told.name, list(told.versions)), (model, ["1"]))
        equal([(each.name, each.datatype, list(each.shape)) for each in told.inputs], [("INPUT", "INT32", [-1, -1])])
        equal([(each.name, each.datatype, list(each.shape)) for each in told.outputs], [("OUTPUT", "INT32", [-1, -1]), ("SEEN", "INT64", [-1, 5])])
        config = client.get_model_config(model, client_timeout=LIMIT_S).config
        equal((config.name, config.max_batch_size, config.HasField("sequence_batching")), (model, 4, True))
        equal(config.sequence_batching.HasField("oldest"), model == OLDEST)
        as_json = client.get_model_config(model, as_json=True, client_timeout=LIMIT_S)["config"]
        equal(as_json["input"][0]["data_type"], "TYPE_INT32")
    assert not client.is_model_ready("nobody", client_timeout=LIMIT_S)
    rejected("Request for unknown model: 'nobody' is not found", client.get_model_metadata, "nobody", code="NOT_FOUND")
    rejected("Request for unknown model: 'nobody' is not found", client.get_model_config, "nobody", code="NOT_FOUND")


def successes(client, model):
    (counts,) = client.get_inference_statistics(model, client_timeout=LIMIT_S).model_stats
    equal((counts.name, counts.version), (model, "1"))
    return counts.inference_stats.success.count


def infer(client, model, value, sequence, **keywords):
    answer = client.infer(model, tensors(value), sequence_id=sequence, client_timeout=LIMIT_S, **keywords)
    equal((answer.get_response().model_name, answer.get_response().model_version), (model, "1"))
    return answer.as_numpy("OUTPUT").tolist()


def unary(client, model, sequence):
    before = successes(client, model)
    equal(infer(client, model, 5, sequence, sequence_start=True), [[5]])
    equal(infer(client, model, 6, sequence, request_id="a name"), [[11]])
    outputs = [triton.InferRequestedOutput("OUTPUT")]
    equal(infer(client, model, -20, sequence, sequence_end=True, outputs=outputs), [[-9]])
    equal(successes(client, model), before + 3)
    no_start = f"inference request for sequence {sequence} to model '{model}' must specify the START flag on the first request of the sequence"
    rejected(no_start, infer, client, model, 1, sequence, code="INVALID_ARGUMENT")
    equal(successes(client, model), before + 3)


class Stream:
    """An open stream, whose answers come in their order."""

    def __init__(self, client):
        self.client = client
        self.answers = queue.Queue()
        client.start_stream(lambda result, error: self.answers.put((result, error)), stream_timeout=LIMIT_S)

    def send(self, model, value, sequence, start=False, end=False, **keywords):
        self.client.async_stream_infer(model, tensors(value), sequence_id=sequence, sequence_start=start, sequence_end=end, **keywords)

    def answer(self):
        result, error = self.answers.get(timeout=LIMIT_S)
        if error:
            return error.message()
        return result.as_numpy("OUTPUT").tolist()[0][0]


def streams(client, model, sequences):
    stream = Stream(client)
    for step, value in enumerate([1, 2, 3, 4]):
        for sequence in sequences:
            stream.send(model, value, sequence, start=step == 0, end=step == 3, request_id=f"{sequence}-{step}")
    equal([stream.answer() for _ in range(4 * len(sequences))], [total for total in (1, 3, 6, 10) for _ in sequences])
    # An error does not end the stream, and has its request's place in the order.
    first = sequences[0]
    stream.send(model, 7, first, start=True)
    stream.send(model, 7, 987654)
    stream.send(model, 8, first, end=True, enable_empty_final_response=True)
    equal(stream.answer(), 7)
    error = stream.answer()
    assert "inference request for sequence 987654 to model" in error and "must specify the START flag" in error, error
    equal(stream.answer(), 15)
    client.stop_stream()
    assert stream.answers.empty()


def wrong_requests(client):
    rejected("must specify a non-zero or non-empty correlation ID", client.infer, DIRECT, tensors(1), code="INVALID_ARGUMENT")
    rejected("Request for unknown model: 'nobody' is not found", client.infer, "nobody", tensors(1), code="NOT_FOUND")
    wrong = triton.InferInput("INPUT", [1, 1], "FP32")
    wrong.set_data_from_numpy(numpy.zeros([1, 1], numpy.float32))
    rejected("inference input 'INPUT' data-type is 'FP32', but model", client.infer, DIRECT, [wrong], sequence_id=1, sequence_start=True)
    two = triton.InferInput("INPUT", [2, 1], "INT32")
    two.set_data_from_numpy(numpy.zeros([2, 1], numpy.int32))
    rejected("must specify batch-size 1", client.infer, DIRECT, [two], sequence_id=1, sequence_start=True)
    five = triton.InferInput("INPUT", [5, 1], "INT32")
    five.set_data_from_numpy(numpy.zeros([5, 1], numpy.int32))
    rejected("inference request batch-size must be <= 4", client.infer, DIRECT, [five], sequence_id=1, sequence_start=True)
    other = [triton.InferRequestedOutput("OTHER")]
    rejected("unexpected inference output 'OTHER' for model", client.infer, DIRECT, tensors(1), outputs=other, sequence_id=1, sequence_start=True)
    rejected("expected 1 inputs but got 0 inputs for model", client.infer, DIRECT, [], sequence_id=1, sequence_start=True)
    rejected("string correlation ID cannot be longer than 128", client.infer, DIRECT, tensors(1), sequence_id="x" * 129, sequence_start=True)
    rejected("version 7 is not found", client.infer, DIRECT, tensors(1), model_version="7", code="NOT_FOUND")


def states(client):
    index = client.get_model_repository_index(as_json=True, client_timeout=LIMIT_S)
    return {model["name"]: model.get("state") for model in index["models"]}


def repository(client):
    equal(states(client)[DIRECT], "READY")
    client.unload_model(DIRECT, client_timeout=LIMIT_S)
    assert not client.is_model_ready(DIRECT, client_timeout=LIMIT_S)
    deadline = time.monotonic() + LIMIT_S
    while states(client)[DIRECT] == "UNLOADING" and time.monotonic() < deadline:
        time.sleep(0.01)
    equal(states(client)[DIRECT], "UNAVAILABLE")
    rejected("Request for unknown model: 'custom_sequence_int32'", infer, client, DIRECT, 1, 1, sequence_start=True)
    client.load_model(DIRECT, client_timeout=LIMIT_S)
    unary(client, DIRECT, 31)
    # The same model with another configuration.
    config = client.get_model_config(DIRECT, as_json=True, client_timeout=LIMIT_S)["config"]
    config["max_batch_size"] = 2
    config["sequence_batching"]["max_sequence_idle_microseconds"] = "5000000"
    client.load_model(DIRECT, config=json.dumps(config), client_timeout=LIMIT_S)
    config = client.get_model_config(DIRECT, client_timeout=LIMIT_S).config
    equal((config.max_batch_size, config.sequence_batching.max_sequence_idle_microseconds), (2, 5_000_000))
    unary(client, DIRECT, 32)
    rejected("failed to load 'nobody', failed to poll from model repository", client.load_model, "nobody", code="INTERNAL")
    rejected(f"failed to load '{DIRECT}', failed to poll from model repository", client.load_model, DIRECT, config="{", code="INTERNAL")
    equal(states(client)[DIRECT], "READY")


def main():
    with triton.InferenceServerClient(sys.argv[1]) as client:
        metadata(client)
        for model in DIRECT, OLDEST:
            unary(client, model, 11)
            unary(client, model, 2**63 - 1)
            streams(client, model, [21, 22, 23])
        unary(client, DIRECT, "a name of a sequence")
        streams(client, DIRECT, ["one", "two"])
        streams(client, DIRECT, ["x" * 128, 24])
        wrong_requests(client)
        repository(client)
    print("OK")


main()
