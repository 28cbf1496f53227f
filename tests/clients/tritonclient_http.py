"""NVIDIA's Python client against a server over HTTP: `tritonclient_http.py HOST:PORT`. Prints OK, or ends with what was wrong.

The server has the models custom_sequence_int32 and oldest_sequence_int32 with batches of 4, and lets models be loaded.
"""

import json
import sys

import numpy
import tritonclient.http as triton

DIRECT, OLDEST = "custom_sequence_int32", "oldest_sequence_int32"


def tensors(value, binary):
    tensor = triton.InferInput("INPUT", [1, 1], "INT32")
    tensor.set_data_from_numpy(numpy.full([1, 1], value, numpy.int32), binary_data=binary)
    return [tensor]


def equal(seen, expected):
    assert seen == expected, f"{seen!r}, not {expected!r}"


def rejected(text, call, *arguments, code, **keywords):
    """Calls what has to be rejected with an error that contains `text`."""
    try:
        answer = call(*arguments, **keywords)
    except triton.InferenceServerException as error:
        assert text in error.message(), f"{error.message()!r} has no {text!r}"
        assert error.status() == str(code), f"{error.status()} is not {code}"
        return
    raise AssertionError(f"{text!r} was expected, not {answer}")


def metadata(client):
    assert client.is_server_live() and client.is_server_ready()
    assert {"sequence", "model_repository", "statistics", "binary_tensor_data"} <= set(client.get_server_metadata()["extensions"])
    for model in DIRECT, OLDEST:
        assert client.is_model_ready(model) and client.is_model_ready(model, "1")
        told = client.get_model_metadata(model)
        equal((told["name"], told["versions"]), (model, ["1"]))
        equal(told["inputs"], [{"name": "INPUT", "datatype": "INT32", "shape": [-1, -1]}])
        config = client.get_model_config(model)
        equal((config["name"], config["max_batch_size"], "oldest" in config["sequence_batching"]), (model, 4, model == OLDEST))
    assert not client.is_model_ready("nobody")
    rejected("Request for unknown model: 'nobody' is not found", client.get_model_metadata, "nobody", code=404)
    rejected("Request for unknown model: 'nobody' is not found", client.get_model_config, "nobody", code=404)


def successes(client, model):
    (counts,) = client.get_inference_statistics(model)["model_stats"]
    equal((counts["name"], counts["version"]), (model, "1"))
    return counts["inference_stats"]["success"]["count"]


def infer(client, model, value, sequence, binary=True, **keywords):
    answer = client.infer(model, tensors(value, binary), sequence_id=sequence, **keywords)
    equal((answer.get_response()["model_name"], answer.get_response()["model_version"]), (model, "1"))
    return answer.as_numpy("OUTPUT").tolist()


def sequences(client, model, sequence):
    before = successes(client, model)
    equal(infer(client, model, 5, sequence, sequence_start=True), [[5]])
    equal(infer(client, model, 6, sequence, request_id="a name", binary=False), [[11]])
    outputs = [triton.InferRequestedOutput("OUTPUT", binary_data=False)]
    equal(infer(client, model, 7, sequence, outputs=outputs, request_compression_algorithm="gzip"), [[18]])
    compressed = {"request_compression_algorithm": "deflate", "response_compression_algorithm": "gzip"}
    equal(infer(client, model, 1, sequence, **compressed), [[19]])
    equal(infer(client, model, -20, sequence, sequence_end=True, timeout=10_000_000, priority=1), [[-1]])
    equal(successes(client, model), before + 5)
    rejected("must specify the START flag", infer, client, model, 1, sequence, code=400)
    equal(successes(client, model), before + 5)


def side_by_side(client, model, ids):
    for step, (value, total) in enumerate([(1, 1), (2, 3), (3, 6)]):
        flags = {"sequence_start": step == 0, "sequence_end": step == 2}
        asked = [client.async_infer(model, tensors(value, step != 1), sequence_id=each, **flags) for each in ids]
        equal([each.get_result().as_numpy("OUTPUT").tolist() for each in asked], [[[total]]] * len(ids))


def wrong_requests(client):
    rejected("must specify a non-zero or non-empty correlation ID", client.infer, DIRECT, tensors(1, True), code=400)
    rejected("Request for unknown model: 'nobody' is not found", client.infer, "nobody", tensors(1, True), code=404)
    wrong = triton.InferInput("INPUT", [1, 1], "FP32")
    wrong.set_data_from_numpy(numpy.zeros([1, 1], numpy.float32))
    rejected("inference input 'INPUT' data-type is 'FP32', but model", client.infer, DIRECT, [wrong], sequence_id=1, code=400)


def states(client):
    return {model["name"]: model.get("state") for model in client.get_model_repository_index()}


def repository(client):
    equal(states(client)[DIRECT], "READY")
    client.unload_model(DIRECT)
    assert not client.is_model_ready(DIRECT)
    rejected("has no available versions", infer, client, DIRECT, 1, 1, sequence_start=True, code=404)
    client.load_model(DIRECT)
    sequences(client, DIRECT, 31)
    # The same model with another configuration.
    config = client.get_model_config(DIRECT)
    config["max_batch_size"] = 2
    client.load_model(DIRECT, config=json.dumps(config))
    equal(client.get_model_config(DIRECT)["max_batch_size"], 2)
    sequences(client, DIRECT, 32)
    rejected("failed to load 'nobody', failed to poll from model repository", client.load_model, "nobody", code=500)
    equal(states(client)[DIRECT], "READY")


def main():
    with triton.InferenceServerClient(sys.argv[1], concurrency=4) as client:
        metadata(client)
        for model in DIRECT, OLDEST:
            for sequence in 11, 2**64 - 1:
                sequences(client, model, sequence)
            side_by_side(client, model, [21, 22, 23])
        sequences(client, DIRECT, "a name of a sequence")
        wrong_requests(client)
        repository(client)
    print("OK")


main()
