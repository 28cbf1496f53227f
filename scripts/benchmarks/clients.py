"""Measures the tool beside a bare client and NVIDIA's perf_analyzer, against one real tritonserver.

In each round every program sends the same number of requests of the same kind to the same server, one program after the other.
CPU time is the system's count for the process, from its start to its end. It is divided by the number of requests, on which the
client and the server have to agree. The tool does not count the model's slots here, because the other programs cannot.

perf_analyzer sometimes does not come to its end. A run over --time-limit is killed and its round repeated, at most twice.
"""

import re
import time

from triton import install, repository, server
from triton.arguments import add_program, not_negative, program, shape

from .measuring import IDLE_LIMIT_MS, LENGTH, MODEL, OUTPUTS, BenchError, Load, Overdue, Sent, bare_client, counted, last_line, native_backend, run, tool
from .rounds import CLIENT_COLUMNS, Pair, Stuck, measured, report
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import add_options as add_round_options

QUICK = QUICK_ROUNDS
OURS, BARE, ANALYZER = "sequence-stress", "bare client", "perf_analyzer"
# Far from the correlation IDs of the scenario, which begin at 1. Where the range has no end, perf_analyzer 2.50 uses a random end and
# often rejects the range.
ANALYZER_IDS = "1000000000:2000000000"


def add_options(parser):
    add_round_options(parser, rounds=7, iterations=250)
    parser.add_argument("--model", default=MODEL, help="the model (default: %(default)s)")
    parser.add_argument(
        "--python", action="store_true", help="serve the model on Triton's Python backend; the native backend takes less CPU time from the clients"
    )
    parser.add_argument("--shape", type=shape, default=(1, 4), metavar="NxB", help="instances x max_batch_size of the model (default: 1x4)")
    parser.add_argument("--execute-delay-ms", type=not_negative, default=0, metavar="MS", help="additional duration of each execution (default: %(default)s)")
    parser.add_argument("--skip-perf-analyzer", action="store_true", help="compare with the bare client alone")
    add_program(parser)


class Analyzer:
    """Runs perf_analyzer with the load of the other programs."""

    def __init__(self, options, scratch, binary, libraries):
        self.options = options
        self.log = scratch / "output.log"
        self.binary = binary
        self.environment = {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}

    def send(self, endpoint):
        options = self.options
        command = [self.binary, "-m", options.model, "-u", endpoint, "-i", "grpc", "--streaming"]
        command += ["--sequence-length", LENGTH, "--sequence-length-variation", "0", "--shape", "INPUT:1"]
        command += ["--input-data", "zero", "--concurrency-range", options.concurrency]
        # With a count in place of its measurement windows, perf_analyzer does not wait for stability.
        command += ["--request-count", options.concurrency * options.iterations * LENGTH]
        command += ["--sequence-id-range", ANALYZER_IDS]
        try:
            ran = run(ANALYZER, command, self.log, options.time_limit, self.environment)
        except Overdue as problem:
            raise Stuck(str(problem), "pass --skip-perf-analyzer, or a longer --time-limit") from problem
        count = re.search(r"Request count: (\d+)", ran.output)
        throughput = re.search(r"Throughput: ([\d.]+) infer/sec", ran.output)
        if not count or not throughput:
            raise BenchError(f"{ANALYZER} printed no count or throughput; its last output: {last_line(self.log)}")
        return Sent(int(count[1]), float(throughput[1]), ran)


def bench(options, scratch):
    binary, bare, _ = tool(), bare_client(), native_backend()
    models = repository.names(options.python, program(options).release)
    if options.model not in models:
        raise BenchError(f"--model '{options.model}' is none of {', '.join(sorted(models))}")
    load = Load(options, scratch, OUTPUTS)
    senders = {
        OURS: lambda endpoint, seed: load.run_tool(OURS, binary, endpoint, options.model, seed),
        BARE: lambda endpoint, seed: load.run_bare(BARE, bare, endpoint, options.model, seed),
    }
    if not options.skip_perf_analyzer:
        analyzer = Analyzer(options, scratch, *install.perf_analyzer())
        senders[ANALYZER] = lambda endpoint, _seed: analyzer.send(endpoint)
    instances, batch = options.shape
    parameters = {"execute_delay_ms": options.execute_delay_ms}
    served = dict(instances=instances, batch=batch, idle_limit_ms=IDLE_LIMIT_MS, parameters=parameters)
    with server.Server(program(options), served, python=options.python) as triton:

        def measure(name, seed):
            # The server frees the slots of the program before in this time.
            time.sleep(IDLE_LIMIT_MS / 1000)
            endpoint = f"127.0.0.1:{triton.grpc_port}"
            return counted(name, triton, options.model, lambda: senders[name](endpoint, seed))[0].row()

        group = [(name, lambda seed, name=name: measure(name, seed)) for name in senders]
        rounds = measured(options, [group])
    pairs = [Pair(f"CPU, {OURS} / {name}", OURS, name) for name in senders if name != OURS]
    what = f"to the {'Python' if options.python else 'native'} model"
    return report(options, scratch, what, rounds, CLIENT_COLUMNS, pairs)
