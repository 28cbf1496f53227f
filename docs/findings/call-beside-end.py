"""Sends END on one call and, at the same time, a step or the next START of the same correlation ID on another call.

pip install 'tritonclient[grpc]'; python3 call-beside-end.py [HOST:PORT [MODEL [start|step [PAIRS [PROCESSES]]]]]
It counts the pairs of responses. The exit code is 1 if one of them is wrong in each order of the two calls.
"""

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import Barrier

import numpy
import tritonclient.grpc as grpcclient

URL = sys.argv[1] if len(sys.argv) > 1 else "localhost:8001"
MODEL = sys.argv[2] if len(sys.argv) > 2 else "custom_sequence_int32"
BESIDE = sys.argv[3] if len(sys.argv) > 3 else "start"
PAIRS = int(sys.argv[4]) if len(sys.argv) > 4 else 3000
PROCESSES = int(sys.argv[5]) if len(sys.argv) > 5 else 6
LIMIT_S = 10
REJECTED = "rejected"
# The sequence has begun with 1. END has 2, and the other call has 10. Each pair: the response to END, and the other one.
RIGHT = {"start": {(3, 10), (12, 10)}, "step": {(3, REJECTED), (13, 11)}}[BESIDE]


def response(client, value, sequence_id, **flags):
    """The model's sum, or how the server rejected the step."""
    tensor = grpcclient.InferInput("INPUT", [1, 1], "INT32")
    tensor.set_data_from_numpy(numpy.full([1, 1], value, "int32"))
    try:
        result = client.infer(MODEL, [tensor], sequence_id=sequence_id, client_timeout=LIMIT_S, **flags)
        return int(result.as_numpy("OUTPUT").flat[0])
    except grpcclient.InferenceServerException as error:
        return REJECTED if "must specify the START flag" in str(error) else f"{error.status()} {error.message()!r}"


def added_at_end(client, sequence_id):
    """What the model adds to the sum at END: nothing, or the correlation ID, as some models of Triton's own tests do."""
    response(client, 1, sequence_id, sequence_start=True)
    return response(client, 2, sequence_id, sequence_end=True) - 3


def pairs(process):
    """Counts the pairs of responses to so many pairs of calls."""
    clients = [grpcclient.InferenceServerClient(URL, channel_args=[("connection", number)]) for number in (0, 1)]
    both = Barrier(2)

    def call(client, value, sequence_id, **flags):
        both.wait()
        return response(client, value, sequence_id, **flags)

    counts, first = Counter(), time.time_ns() // 1000 + process * 10**8
    adds_id = added_at_end(clients[0], first) != 0
    with ThreadPoolExecutor(2) as pool:
        for sequence_id in range(first + 1, first + 1 + PAIRS // PROCESSES):
            response(clients[0], 1, sequence_id, sequence_start=True)
            end = pool.submit(call, clients[0], 2, sequence_id, sequence_end=True)
            other = pool.submit(call, clients[1], 10, sequence_id, sequence_start=BESIDE == "start").result()
            sum_at_end = end.result()
            if adds_id and isinstance(sum_at_end, int):
                sum_at_end = int(numpy.int64(sum_at_end - sequence_id).astype("int32"))
            counts[sum_at_end, other] += 1
            if BESIDE == "start":
                response(clients[0], 0, sequence_id, sequence_end=True)
    return counts


if __name__ == "__main__":
    with ProcessPoolExecutor(PROCESSES) as pool:
        total = sum(pool.map(pairs, range(PROCESSES)), Counter())
    for pair, count in total.most_common():
        print(f"{'right' if pair in RIGHT else 'WRONG'}: {count} times: END had {pair[0]}, the {BESIDE} had {pair[1]}")
    sys.exit(any(pair not in RIGHT for pair in total))
