"""Starts sequences with the IDs from 1 on over a few streams, and ends when all are answered: starts.py ENDPOINT MODEL COUNT"""

import sys
import threading

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

STREAMS = 4
LIMIT_SECONDS = 120


def starts(model, first, count):
    for number in range(first, count, STREAMS):
        request = service_pb2.ModelInferRequest(model_name=model)
        request.parameters["sequence_id"].int64_param = number + 1
        request.parameters["sequence_start"].bool_param = True
        request.inputs.add(name="INPUT", datatype="INT32", shape=[1, 1])
        request.raw_input_contents.append(bytes(4))
        yield request


def main():
    endpoint, model, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(endpoint))
    answered = [0] * STREAMS

    def stream(first):
        for answer in stub.ModelStreamInfer(starts(model, first, count), timeout=LIMIT_SECONDS):
            assert not answer.error_message, answer.error_message
            answered[first] += 1

    threads = [threading.Thread(target=stream, args=[first]) for first in range(STREAMS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(answered) == count, answered


if __name__ == "__main__":
    main()
