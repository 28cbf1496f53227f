"""A sequence model that keeps nothing: it passes each request on to another sequence model, and returns what that one answers.

Served by Triton's Python backend, through its Business Logic Scripting (BLS). The other model gets the request's inputs, correlation ID,
START and END, and the request's time limit. The requests of one batch, each of another sequence, are passed on at the same time.

A slot of the batch that has no request (READY is 0) has no correlation ID: it is not passed on.

An error of the other model gets the name of this model in front, in the words in which the server does that for a step of an ensemble.

Configuration parameters:
  sequence_stress_calls  the name of the other model
  fault                  a planted fault, NAME or NAME:once@N, counted in each instance; see FAULTS
"""

import asyncio
import json

import triton_python_backend_utils as pb_utils

FAULTS = {
    "bls-loses-start": "a START is passed on without the flag",
    "bls-loses-end": "an END is passed on without the flag",
}
START = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
END = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END


class Fault:
    """Decides when the planted fault happens; without a name it never does."""

    def __init__(self, text):
        self.name, _, when = text.partition(":once@")
        if self.name and self.name not in FAULTS:
            raise ValueError(f"parameter 'fault': unknown fault '{self.name}', known are {', '.join(FAULTS)}")
        self.at = int(when) if when else None
        self.chances = 0

    def happens(self, name):
        """Whether the fault happens at this chance to commit the fault `name`."""
        if name != self.name:
            return False
        self.chances += 1
        return self.at is None or self.at == self.chances


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
        self.name = config["name"]
        self.calls = parameters["sequence_stress_calls"]
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.fault = Fault(parameters.get("fault", ""))

    async def execute(self, requests):
        return await asyncio.gather(*[self.passed_on(request) for request in requests])

    async def passed_on(self, request):
        """What the other model answers to a request."""
        if not request.correlation_id():
            return pb_utils.InferenceResponse(output_tensors=[])
        inputs = [pb_utils.get_input_tensor_by_name(request, name) for name in self.inputs]
        call = pb_utils.InferenceRequest(
            model_name=self.calls,
            request_id=request.request_id(),
            correlation_id=request.correlation_id(),
            flags=self.flags(request.flags()),
            timeout=request.timeout(),
            inputs=[tensor for tensor in inputs if tensor is not None],
            requested_output_names=list(request.requested_output_names()),
        )
        answer = await call.async_exec()
        if answer.has_error():
            why = f"in ensemble '{self.name}', {answer.error().message()}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(why, answer.error().code()))
        return pb_utils.InferenceResponse(output_tensors=answer.output_tensors())

    def flags(self, flags):
        """The flags that the other model gets."""
        if flags & START and self.fault.happens("bls-loses-start"):
            flags &= ~START
        if flags & END and self.fault.happens("bls-loses-end"):
            flags &= ~END
        return flags
