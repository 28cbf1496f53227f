"""Dynamo's KServe front end before the workers of one endpoint: `front.py PORT ENDPOINT MODEL CONFIG ROUTING WORKERS`.

CONFIG is a file with the model's configuration, a ModelConfig of Triton in the form of protobuf. The service listens on the loopback
address; `dynamo.frontend --kserve-grpc-server` of the package ai-dynamo starts the same service on all addresses.
"""

import asyncio
import sys
from pathlib import Path

from dynamo._core import DistributedRuntime, KserveGrpcService, PythonAsyncEngine
from words import BY_SEQUENCE

LOOK_AGAIN_SECONDS = 0.05


async def main():
    port, endpoint, model, config, routing, workers = sys.argv[1:]
    loop = asyncio.get_running_loop()
    runtime = DistributedRuntime(loop, "file", "tcp")
    client = await runtime.endpoint(endpoint).client()
    await client.wait_for_instances()
    while len(client.instance_ids()) < int(workers):
        await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def generate(request, context=None):
        if routing == BY_SEQUENCE:
            instances = sorted(client.instance_ids())
            sequence = str((request.get("parameters") or {}).get("sequence_id"))
            responses = await client.direct(request, instances[sum(sequence.encode()) % len(instances)])
        else:
            responses = await client.round_robin(request)
        async for response in responses:
            yield response.data()

    told = {"name": "", "inputs": [], "outputs": [], "triton_model_config": Path(config).read_bytes()}
    service = KserveGrpcService(int(port), "127.0.0.1")
    service.add_tensor_model(model, "1", PythonAsyncEngine(generate, loop), tensor_model_config=told)
    print("ready", flush=True)
    await service.run(runtime)


if __name__ == "__main__":
    asyncio.run(main())
