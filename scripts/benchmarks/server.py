"""Measures the reference server beside a real tritonserver with the same model on the native backend.

In each round both servers get the same load from the tool, one after the other. CPU time is the system's count for the server and
its child processes while the load runs. At the end another reference server receives the STARTs of many sequences that do not end,
and the memory of that server is measured.
"""

import sys
from pathlib import Path

from triton import install, server
from triton.arguments import add_program, positive, program, shape

from .measuring import IDLE_LIMIT_MS, MODEL, Load, Reference, cpu_seconds, native_backend, resident_mb, run, tool
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import Pair, measured, report
from .rounds import add_options as add_round_options

REFERENCE, REAL = "reference server", "tritonserver, native model"
COLUMNS = {
    "cpu_us_per_request": ("CPU us/request", 2),
    "requests_per_core_second": ("requests/s per core", 0),
    "requests_per_second": ("requests/s", 0),
    "resident_mb": ("MB", 1),
}
RATIO_MIN = 3.0
LIVE_MB_MAX = 200
STARTS = Path(__file__).with_name("starts.py")
QUICK = {**QUICK_ROUNDS, "live": 100}


def add_options(parser):
    add_round_options(parser, rounds=5, iterations=250, time_limit=180)
    parser.add_argument("--shape", type=shape, default=(1, 4), metavar="NxB", help="instances x max_batch_size of the model (default: 1x4)")
    parser.add_argument("--live", type=positive, default=10_000, metavar="N", help="number of sequences that do not end (default: %(default)s)")
    add_program(parser)


def memory(options, scratch, binary):
    """The memory of a reference server before and with many live sequences, in MB."""
    with Reference(binary, "--max-batch-size", "16384", "--idle-limit", "1h") as ours:
        empty = resident_mb(ours.pid())
        command = [sys.executable, STARTS, ours.endpoint, MODEL, options.live]
        environment = {"PYTHONPATH": str(install.client_packages())}
        run("the client that starts sequences", command, scratch / "output.log", options.time_limit, environment)
        return {"sequences": options.live, "empty_mb": empty, "resident_mb": resident_mb(ours.pid())}


def bench(options, scratch):
    binary, _ = tool(), native_backend()
    load = Load(options, scratch)
    instances, batch = options.shape
    served = dict(instances=instances, batch=batch, idle_limit_ms=IDLE_LIMIT_MS, parameters={"execute_delay_ms": 0})
    ours = Reference(binary, "--instances", str(instances), "--max-batch-size", str(batch), "--idle-limit", f"{IDLE_LIMIT_MS}ms")

    def measure(name, endpoint, pid, seed):
        before = cpu_seconds(pid)
        sent = load.run_tool(f"the load of the {name}", binary, endpoint, MODEL, seed)
        # The system counts in ticks: a quick form may see none.
        cpu_s = max(cpu_seconds(pid) - before, 1e-9)
        return {
            "requests": sent.responses,
            "cpu_us_per_request": cpu_s * 1e6 / sent.responses,
            "requests_per_core_second": sent.responses / cpu_s,
            "requests_per_second": sent.requests_per_second,
            "resident_mb": resident_mb(pid),
        }

    with server.Server(program(options), served) as triton, ours:
        servers = [(REFERENCE, ours.endpoint, ours.pid()), (REAL, f"127.0.0.1:{triton.grpc_port}", triton.process.pid)]
        group = [(each[0], lambda seed, each=each: measure(*each, seed)) for each in servers]
        rounds = measured(options, [group])
    live = memory(options, scratch, binary)
    label = f"requests/s per core, {REFERENCE} / {REAL}"
    pairs = [Pair(label, REFERENCE, REAL, "requests_per_core_second", at_least=RATIO_MIN)]
    told = (
        f"memory of the {REFERENCE}: {live['empty_mb']:.1f} MB when empty, "
        f"{live['resident_mb']:.1f} MB with {live['sequences']} live sequences (limit: {LIVE_MB_MAX} MB)"
    )
    more = [(told, live["resident_mb"] < LIVE_MB_MAX, live)]
    return report(options, scratch, "to each server", rounds, COLUMNS, pairs, more)
