import collections
import importlib
import math
import os
import queue
import random
import sys
import threading
import time

import numpy

# What each transport of the conversations is spoken with: the first is what most steps go over.
PROTOCOLS = ["http" if name.startswith("http") else "grpc" for name in TRANSPORTS]
CLIENTS = {protocol: importlib.import_module(f"tritonclient.{protocol}") for protocol in PROTOCOLS}
ENDPOINTS = {"grpc": "localhost:8001", "http": "localhost:8000"}
GIVEN = dict(enumerate(sys.argv[1:]))
ENDPOINTS[PROTOCOLS[0]] = GIVEN.get(0, ENDPOINTS[PROTOCOLS[0]])
MODEL = GIVEN.get(1, FOUND_IN)
ENDPOINTS["grpc" if PROTOCOLS[0] == "http" else "http"] = GIVEN.get(2, ENDPOINTS["grpc" if PROTOCOLS[0] == "http" else "http"])
REFUSED = "refused for want of START"
ACCEPTED = "accepted"

# What the model takes, and how its sequence batcher is set up.
asked = CLIENTS[PROTOCOLS[0]].InferenceServerClient(ENDPOINTS[PROTOCOLS[0]])
AS_JSON = {"as_json": True} if PROTOCOLS[0] == "grpc" else {}
METADATA = asked.get_model_metadata(MODEL, **AS_JSON)
INPUT, TYPE = METADATA["inputs"][0]["name"], METADATA["inputs"][0]["datatype"]
OUTPUTS = [each["name"] for each in METADATA["outputs"]]
SIZES = [int(size) for size in METADATA["inputs"][0]["shape"]]
CONFIG = asked.get_model_config(MODEL, **AS_JSON)
CONFIG = CONFIG.get("config", CONFIG)
BATCHES = int(CONFIG.get("max_batch_size", 0)) > 0
# The dimension whose size each step has of its own.
OPEN = max((place for place, size in enumerate(SIZES) if size < 0 and (place or not BATCHES)), default=None)
BATCHING = CONFIG.get("sequence_batching", {})
IDLE_LIMIT_S = int(BATCHING.get("max_sequence_idle_microseconds", 0) or 1_000_000) / 1e6
INSTANCES = sum(int(group.get("count", 1)) for group in CONFIG.get("instance_group", [])) or 1
CANDIDATES = int(BATCHING.get("oldest", {}).get("max_candidate_sequences", 0))
SLOTS = (CANDIDATES or max(1, int(CONFIG.get("max_batch_size", 0)))) * INSTANCES
# An answer that takes longer is taken for lost.
LIMIT_S = 10 + 4 * IDLE_LIMIT_S

# An earlier run's sequences may still live: this one has correlation IDs of its own.
ID = random.randrange(1, 2**48)
BEGAN = time.monotonic()
wrong = []


def say(text):
    # In one piece, because several threads write.
    print(f"{(time.monotonic() - BEGAN) * 1000:9.1f} ms  {text}\n", end="", flush=True)


def tell_wrong(text):
    wrong.append(text)
    say(f"WRONG: {text}")


class Lost(Exception):
    """An answer did not come: nothing more can be done on its stream."""


# What is wrong with a request by its flaw; what is wrong with the tensor is below.
OF_THE_REQUEST = {
    "other-version": {"model_version": "999"},
    "id-0": {"sequence_id": 0},
    "id-empty": {"sequence_id": ""},
    "id-129-bytes": {"sequence_id": "x" * 129},
}


NUMPY_TYPES = {
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BYTES": "object",
}
# What is sent in place of the model's type where a flaw is another one.
OTHER_TYPES = {
    "INT8": "UINT8",
    "UINT8": "INT8",
    "INT16": "UINT16",
    "UINT16": "INT16",
    "FP16": "INT16",
    "FP32": "INT32",
    "FP64": "INT64",
    "INT64": "FP64",
    "UINT64": "FP64",
}


def width(datatype):
    """The bits of a type's numbers; texts are of 32."""
    return next((bits for bits in (64, 32, 16, 8) if datatype.endswith(str(bits))), 32)


def wrapped(value, datatype):
    """A whole number as a type has it."""
    bits = width(datatype)
    if datatype.startswith("FP"):
        return value
    value %= 2**bits
    return value - 2**bits if value >= 2 ** (bits - 1) and not datatype.startswith("UINT") else value


def shape_of(size):
    """The shape of a tensor whose open dimension has this size."""
    return [size if place == OPEN else max(1, its) for place, its in enumerate(SIZES)]


def part(value, index, datatype):
    """One of the elements that a value is spread over, before it is wrapped."""
    bits = (value + index * 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    drawn = bits ^ bits >> 31
    drawn -= 2**64 if drawn >= 2**63 else 0
    if datatype == "FP16":
        return drawn % 2 * (-1 if index % 2 else 1)
    if datatype.startswith("FP"):
        return abs(drawn) % 1024 * (-1 if drawn < 0 else 1)
    return drawn >> 64 - width(datatype) + bits % width(datatype)


def short(content):
    """Fewer bytes than an element has."""
    return content[: min(3, len(content) - 1)]


def inputs(by, value, size, flaw):
    """The input tensor of a step; of one with a flaw as it must not be."""
    triton = CLIENTS["http" if by.startswith("http") else "grpc"]
    if flaw == "no-input":
        return []
    name = "NO_SUCH_INPUT" if flaw == "other-input" else INPUT
    right = shape_of(size)
    shape = [2, *right[1:]] if flaw == "batch-2" else [*right, 1] if flaw == "other-shape" else right
    datatype = OTHER_TYPES.get(TYPE, "FP32") if flaw == "other-type" else TYPE
    tensor = triton.InferInput(name, shape, datatype)
    # Elements that add up to the value, in the type's own arithmetic.
    parts = [part(value, index, datatype) for index in range(1, math.prod(shape))]
    kind = NUMPY_TYPES[datatype]
    elements = [wrapped(each, datatype) for each in [*parts, value - sum(parts)]]
    elements = [str(each).encode() for each in elements] if datatype == "BYTES" else elements
    how = {"binary_data": by == "http-binary"} if by.startswith("http") else {}
    tensor.set_data_from_numpy(numpy.array(elements, kind).reshape(shape), **how)
    if flaw == "short-data":
        # There is no other way to have tritonclient send less than the shape says.
        if by == "http":
            tensor._data = []
        elif by == "http-binary":
            tensor._raw_data = short(tensor._raw_data)
            tensor._parameters["binary_data_size"] = len(tensor._raw_data)
        else:
            tensor._raw_content = short(tensor._raw_content)
    return [tensor]


def of_the_request(by, flaw):
    """What a request says besides its input; of one with a flaw as it must not."""
    triton = CLIENTS["http" if by.startswith("http") else "grpc"]
    request = dict(OF_THE_REQUEST.get(flaw, {}))
    # Over HTTP what is not asked for comes as bytes.
    how = {"binary_data": by == "http-binary"} if by.startswith("http") else {}
    names = OUTPUTS[:] if by == "http" else []
    if flaw == "other-output":
        names.append("NO_SUCH_OUTPUT")
    if names:
        request["outputs"] = [triton.InferRequestedOutput(name, **how) for name in names]
    return request


class Stream:
    """A gRPC stream. Those that name one connection share it, because channels with other arguments have other connections."""

    def __init__(self, sequence, connection, by="grpc-stream", may_go_idle=False):
        self.sequence, self.connection, self.by = sequence, connection, by
        self.may_go_idle, self.went_idle = may_go_idle, False
        self.waiting, self.changed = collections.deque(), threading.Condition()
        self.sent, self.ended, self.closing = 0, False, None
        self.begin()

    def begin(self):
        self.client = CLIENTS["grpc"].InferenceServerClient(ENDPOINTS["grpc"], channel_args=[("connection", self.connection)])
        self.client.start_stream(self.answered)
        self.say("opens the stream")

    def say(self, text):
        say(f"ID+{self.sequence - ID}: {text}")

    def send(self, value, start=False, end=False, expect=None, size=1, flaw=None, timeout=None):
        """Sends a step; `expect` is what it has to be answered with, where that is determined, `size` that of the tensor's open
        dimension, and `timeout` for how many microseconds its sequence may wait for a slot."""
        request = {"sequence_id": self.sequence, "timeout": timeout, **of_the_request(self.by, flaw)}
        self.sent += 1
        name = f"{self.sequence - ID}-{self.connection}-{self.sent}"
        words = f"{'START ' * start}{'END ' * end}{value}{' with ' + flaw if flaw else ''}"
        self.say(f"{words} ->")
        with self.changed:
            self.waiting.append((name, words, expect, shape_of(size)))
        request.update(request_id=name, sequence_start=start, sequence_end=end)
        self.submit(inputs(self.by, value, size, flaw), request)

    def submit(self, tensors, request):
        self.client.async_stream_infer(MODEL, tensors, **request)

    def answered(self, result, error):
        # An error with a status is the stream's own.
        self.take(result, error, error and error.status() is not None)

    def take(self, result, error, is_the_end):
        with self.changed:
            if self.ended:
                return
            if is_the_end or not self.waiting:
                self.ended = True
                tell_wrong(f"ID+{self.sequence - ID}: the stream ended: {error}" if error else "an answer too many")
            else:
                self.judge(*self.waiting.popleft(), result, error)
            self.changed.notify_all()

    def judge(self, name, words, expect, shape, result, error):
        """Compares an answer with what it has to be."""
        if error:
            refused = "must specify the START flag" in error.message()
            self.went_idle |= refused
            right = refused and (self.may_go_idle or expect in (None, REFUSED))
            # A time limit may pass where nothing else is determined either; what a flaw is refused with stands in `expect`.
            right |= expect is None and "has been expired" in error.message()
            right |= expect not in (None, REFUSED, ACCEPTED) and str(expect) in error.message()
            # Where a model takes one element that is looked at first.
            right |= "with short-data" in words and "incomplete string length indicator" in error.message()
            right |= "with short-data" in words and "string elements for inference input" in error.message()
            right |= "with short-data" in words and "Unable to parse 'data'" in error.message()
            right |= "with batch-2" in words and "batch-size must be <= 1 for" in error.message()
            seen = error.message()
            return self.conclude(words, expect, seen, right)
        response = result.get_response() if self.by.startswith("http") else result.get_response(as_json=True)
        if response.get("id", "") != name:
            seen, right = f"an answer to request '{response.get('id', '')}'", False
        else:
            its = response.get("outputs", [])[:1]
            outputs = [(each["datatype"], [int(size) for size in each["shape"]]) for each in its]
            sums = result.as_numpy(its[0]["name"]).flatten().tolist() if its else []
            sums = [int(each) if isinstance(each, (bytes, str)) else each for each in sums]
            whole = outputs == [(TYPE, shape)] and len(sums) == math.prod(shape) and len(set(sums)) == 1
            seen, right = sums[0] if whole else f"{outputs} {sums}", whole and expect in (None, ACCEPTED, *sums)
            # What was cancelled with another stream of its sequence is answered without an output.
            right |= expect is None and not outputs
        return self.conclude(words, expect, seen, right)

    def conclude(self, words, expect, seen, right):
        self.say(f"{words} <- {seen}")
        if not right:
            tell_wrong(f"ID+{self.sequence - ID}: {words}: expected {'an answer' if expect is None else expect}, not {seen}")

    def wait(self, unanswered=0):
        """Waits until at most so many requests are unanswered."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.ended or len(self.waiting) <= unanswered, LIMIT_S):
                self.ended = True
                tell_wrong(f"ID+{self.sequence - ID}: {self.waiting[0][1]}: no answer for {LIMIT_S:.0f} s")
            if self.ended:
                raise Lost

    def disconnect(self):
        """Ends the connection that was made for it."""
        self.client.close()

    def half_close(self):
        """Says that nothing more is sent; stop_stream does, and waits for the stream's end."""
        self.closing = threading.Thread(target=self.client.stop_stream, daemon=True)
        self.closing.start()
        self.say("half-closes the stream")

    def close(self):
        """Ends the stream in good order, once all is answered."""
        self.wait()
        if self.closing is None:
            self.half_close()
        self.closing.join(LIMIT_S)
        if self.closing.is_alive():
            tell_wrong(f"ID+{self.sequence - ID}: the stream stays open after half-close")
        self.ended = True

    def cancel(self):
        """Cancels the stream, whatever is under way."""
        self.ended = True
        self.client.stop_stream(cancel_requests=True)
        self.say("cancels the stream")

    def reset(self):
        """tritonclient cannot reset a TCP connection: the stream is cancelled, and its connection closed."""
        self.cancel()
        self.disconnect()


class Calls(Stream):
    """Calls in the place of a stream: one after the other, each when the one before it is answered."""

    def begin(self):
        self.steps = queue.Queue()
        self.call = None
        self.closing = threading.Thread(target=self.make_calls, daemon=True)
        self.closing.start()

    def submit(self, tensors, request):
        self.steps.put((tensors, request))

    def make_calls(self):
        """tritonclient.http is for one thread, so that each of these has a client of its own."""
        protocol = "http" if self.by.startswith("http") else "grpc"
        how = {"channel_args": [("connection", self.connection)]} if protocol == "grpc" else {"network_timeout": LIMIT_S * 2}
        client = CLIENTS[protocol].InferenceServerClient(ENDPOINTS[protocol], **how)
        for tensors, request in iter(self.steps.get, None):
            try:
                if protocol == "http":
                    answer = client.infer(MODEL, tensors, **request), None
                else:
                    answers = queue.Queue()
                    self.call = client.async_infer(MODEL, tensors, lambda result, error, answers=answers: answers.put((result, error)), **request)
                    answer = answers.get()
            except CLIENTS[protocol].InferenceServerException as error:
                answer = None, error
            except Exception as error:
                self.take(None, f"{type(error).__name__}: {error}", True)
                break
            self.take(*answer, False)
        client.close()

    def half_close(self):
        """There is nothing to be closed."""
        self.steps.put(None)

    def close(self):
        """Ends the calls, once all are answered."""
        self.wait()
        self.half_close()
        self.closing.join(LIMIT_S)
        self.ended = True

    def cancel(self):
        """Cancels the call that is under way; over HTTP, where a server does not heed that, its answer is not read."""
        self.ended = True
        self.steps.put(None)
        if self.call is not None:
            self.call.cancel()
        self.say("cancels the call")

    def disconnect(self):
        """Each has a connection of its own, which ends with it."""


def kind_of(by):
    return Stream if by == "grpc-stream" else Calls


def at(seconds):
    """What follows does not begin earlier than this."""
    time.sleep(max(0, BEGAN + seconds - time.monotonic()))


def count_slots(number):
    """How many sequences can be open at a time: one more than there are slots are begun, and those that got one are kept open. None
    where one of these went idle, because this process was too slow."""
    time.sleep(IDLE_LIMIT_S * 1.5)
    by = TRANSPORTS[0]
    streams = [kind_of(by)(ID + 1_000_000 * number + n, "slots", by, may_go_idle=True) for n in range(SLOTS + 1)]
    for stream in streams:
        stream.send(1, start=True, expect=1 if FROM_ZERO else ACCEPTED)
    sums = dict.fromkeys(streams, 1)
    until = time.monotonic() + IDLE_LIMIT_S + 1
    while time.monotonic() < until:
        for stream in (each for each in streams if not each.waiting):
            sums[stream] += 1
            stream.send(1, expect=sums[stream] if FROM_ZERO else ACCEPTED)
        time.sleep(IDLE_LIMIT_S / 10)
    have = sum(sums[stream] > 1 for stream in streams)
    for stream in streams:
        stream.cancel()
    return None if any(stream.went_idle for stream in streams) else have


def slots():
    """Says how many slots can be taken, as soon as none of those that were taken went idle."""
    counts = (count_slots(number) for number in (1, 2, 3))
    have = next((have for have in counts if have is not None), None)
    if have is None:
        say("the slots could not be counted: sequences that were to be kept open went idle")
        return
    say(f"{have} of {SLOTS} slots can be taken")
    if have != SLOTS:
        tell_wrong(f"{have} sequences can be open at a time, and the model has {SLOTS} slots")


def run(*workers):
    """Has the workers do what they do at the same time, and ends the process."""

    def work(worker):
        try:
            worker()
        except Lost:
            pass
        except CLIENTS[PROTOCOLS[0]].InferenceServerException as error:
            tell_wrong(f"{worker.__name__}: {error}")

    threads = [threading.Thread(target=work, args=[worker], daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if COUNT_SLOTS:
        slots()
    print(f"{len(wrong)} wrong" if wrong else "nothing wrong", flush=True)
    sys.stdout.flush()
    # Streams that nobody ended would keep the process.
    os._exit(1 if wrong else 0)
