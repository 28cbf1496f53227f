"""Measures a model on the native backend beside the same model on Triton's Python backend.

Two real tritonservers run side by side. In each round both get the same load from the tool, one after the other. The times in the
server, the queue and the backend are those of the server's own statistics, where a request counts the whole time of its batch.
CPU time is the system's count for the server and its child processes.
"""

import contextlib

from triton import repository, server
from triton.arguments import add_program, program, shape

from .measuring import IDLE_LIMIT_MS, MODEL, BenchError, Load, counted, cpu_seconds, native_backend, tool
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import Pair, measured, report
from .rounds import add_options as add_round_options

QUICK = QUICK_ROUNDS
NATIVE, PYTHON = "native", "Python"
COLUMNS = {
    "requests_per_second": ("requests/s", 0),
    "cpu_us_per_request": ("CPU us/request", 1),
    "server_us_per_request": ("in the server, us", 1),
    "queue_us_per_request": ("in the queue, us", 1),
    "backend_us_per_request": ("in the backend, us", 1),
}
# The statistics that are the backend's own time.
IN_BACKEND = ("compute_input", "compute_infer", "compute_output")


def add_options(parser):
    add_round_options(parser, rounds=5, iterations=250, time_limit=180)
    parser.add_argument("--model", default=MODEL, help="the model (default: %(default)s)")
    parser.add_argument("--shape", type=shape, default=(1, 4), metavar="NxB", help="instances x max_batch_size of the model (default: 1x4)")
    add_program(parser)


def bench(options, scratch):
    binary, _ = tool(), native_backend()
    models = repository.names(True, program(options).release)
    if options.model not in models:
        raise BenchError(f"--model '{options.model}' is none of {', '.join(sorted(models))}")
    load = Load(options, scratch)
    instances, batch = options.shape
    served = dict(instances=instances, batch=batch, idle_limit_ms=IDLE_LIMIT_MS, parameters={"execute_delay_ms": 0})

    def measure(name, triton, seed):
        endpoint, pid = f"127.0.0.1:{triton.grpc_port}", triton.process.pid
        cpu_before = cpu_seconds(pid)
        label = f"the load of the {name} model"
        sent, before, after = counted(label, triton, options.model, lambda: load.run_tool(label, binary, endpoint, options.model, seed))
        cpu_s = cpu_seconds(pid) - cpu_before

        def us_per_request(*parts):
            return sum(after[part]["ns"] - before[part]["ns"] for part in parts) / 1e3 / sent.responses

        return {
            "requests": sent.responses,
            "requests_per_second": sent.requests_per_second,
            "cpu_us_per_request": cpu_s * 1e6 / sent.responses,
            "server_us_per_request": us_per_request("success"),
            "queue_us_per_request": us_per_request("queue"),
            "backend_us_per_request": us_per_request(*IN_BACKEND),
        }

    with contextlib.ExitStack() as stack:
        group = []
        for name in (NATIVE, PYTHON):
            triton = stack.enter_context(server.Server(program(options), served, python=name == PYTHON))
            group.append((name, lambda seed, name=name, triton=triton: measure(name, triton, seed)))
        rounds = measured(options, [group])
    pairs = [Pair(f"requests/s, {NATIVE} / {PYTHON}", NATIVE, PYTHON, "requests_per_second")]
    return report(options, scratch, f"to {options.model}", rounds, COLUMNS, pairs)
