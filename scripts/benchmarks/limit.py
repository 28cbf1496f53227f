"""Finds the highest load of a real tritonserver with the tool and with perf_analyzer, beside each other.

Both raise the number of sequences at a time, each of 16 steps and one step after the other, until the p99 of a step is above a limit.
perf_analyzer goes up by one: its binary search waits forever when it raises the number again that it had lowered (24.10, with
streams). They take turns, round by round. Then the model swaps the states of two sequences of a batch in
one of a hundred executions: a fault that shows only under load. A client that reads no values passes over it.
"""

import json
import re

from triton import install, server
from triton.arguments import add_program, positive, program, shape

from .clients import ANALYZER, ANALYZER_IDS, OURS
from .measuring import IDLE_LIMIT_MS, LENGTH, MODEL, BenchError, native_backend, run, scenario, tool

QUICK = {"rounds": 1, "highest": 2, "seconds": 4, "time_limit": 120}
FAULT = "swap-states:0.01"
# What the tool exits with where a violation ended its search.
VIOLATION = 1
SENDING = '[sending]\nwindow = 1\nreuse = "after-response"\n'


def add_options(parser):
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="number of rounds (default: %(default)s)")
    parser.add_argument("--highest", type=positive, default=32, metavar="N", help="the largest number of sequences at a time (default: %(default)s)")
    parser.add_argument("--limit-ms", type=positive, default=100, metavar="MS", help="the limit of the p99 of a step (default: %(default)s)")
    parser.add_argument("--seconds", type=positive, default=6, metavar="N", help="length of each trial of the tool (default: %(default)s)")
    parser.add_argument("--shape", type=shape, default=(1, 8), metavar="NxB", help="instances x max_batch_size of the model (default: 1x8)")
    parser.add_argument("--time-limit", type=positive, default=600, metavar="SECONDS", help="for each search; then it is killed (default: %(default)s)")
    add_program(parser)


class Tool:
    """Searches with the tool."""

    def __init__(self, options, scratch):
        self.options = options
        self.binary, self.log, self.result = tool(), scratch / "tool.log", scratch / "limit.json"
        self.scenario = scratch / "scenario.toml"
        self.scenario.write_text(scenario(f"constant = {LENGTH}", SENDING))

    def search(self, endpoint, seed):
        options = self.options
        command = [self.binary, endpoint, "-m", MODEL, "--scenario", self.scenario, "-r", seed, "-q", "--json", self.result]
        command += ["--find-limit", f"1..{options.highest}", "-d", f"{options.seconds}s", "--fail-if", f"step.p99 > {options.limit_ms}ms"]
        run(OURS, command, self.log, options.time_limit, codes=(0, VIOLATION, 3))
        return told(json.loads(self.result.read_text()))


def told(document):
    """The bracket of a search of the tool, or the violation that ended it."""
    if document["ended"] == "violation":
        kinds = ", ".join(document["violation"]["violations_by_kind"])
        return f"violation at {document['trials'][-1]['load']:.0f}: {kinds}"
    low, high = document["sustained"], document["overloaded"]
    if low is None:
        return f"below {high:.0f}"
    return f"{low:.0f} or more" if high is None else f"{low:.0f} to {high:.0f}"


class Analyzer:
    """Searches with perf_analyzer."""

    def __init__(self, options, scratch):
        self.options = options
        self.log = scratch / "analyzer.log"
        self.binary, libraries = install.perf_analyzer()
        self.environment = {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}

    def search(self, endpoint, _seed):
        options = self.options
        command = [self.binary, "-m", MODEL, "-u", endpoint, "-i", "grpc", "--streaming", "--shape", "INPUT:1", "--input-data", "zero"]
        command += ["--sequence-length", LENGTH, "--sequence-length-variation", "0", "--sequence-id-range", ANALYZER_IDS]
        command += ["--concurrency-range", f"1:{options.highest}:1", "-l", options.limit_ms, "--percentile", "99"]
        # A shared machine is never as stable as it wants by itself.
        command += ["--measurement-interval", "2000", "--stability-percentage", "50", "--max-trials", "10"]
        # It exits with an error where no number is within the limit.
        ran = run(ANALYZER, command, self.log, options.time_limit, self.environment, codes=(0, 1, 2, 99))
        return highest(ran.output)


def highest(output):
    """The highest number of sequences that perf_analyzer measured within the limit."""
    summary = output.partition("Inferences/Second vs.")[2]
    numbers = [int(number) for number in re.findall(r"^Concurrency: (\d+), throughput", summary, re.MULTILINE)]
    if not numbers and "Failed to obtain stable measurement" not in output and "over the set limit" not in output:
        raise BenchError(f"{ANALYZER} printed no result; its last output: {output.strip().splitlines()[-1:]}")
    return str(max(numbers)) if numbers else "none"


def bench(options, scratch):
    native_backend()
    searches = {OURS: Tool(options, scratch), ANALYZER: Analyzer(options, scratch)}
    instances, batch = options.shape
    print(f"highest number of sequences at a time with a p99 of steps below {options.limit_ms} ms, {instances}x{batch} slots", flush=True)
    print(f"{'':<26}{'no fault':<32}{FAULT}", flush=True)
    found = {}
    for seed in range(1, options.rounds + 1):
        for fault in (None, FAULT):
            parameters = {"execute_delay_ms": 3, **({"fault": fault} if fault else {})}
            served = dict(instances=instances, batch=batch, idle_limit_ms=IDLE_LIMIT_MS, parameters=parameters)
            with server.Server(program(options), served) as triton:
                for name, client in searches.items():
                    found[name, fault, seed] = client.search(f"127.0.0.1:{triton.grpc_port}", seed)
        for name in searches:
            print(f"{name + f', round {seed}':<26}{found[name, None, seed]:<32}{found[name, FAULT, seed]}", flush=True)
    return 0
