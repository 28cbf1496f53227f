"""Measures how late the tool sends steps that are due at times of their own.

The tool sends sequences at each rate to a reference server on the same machine, at equal intervals and as a Poisson process. A step is
late by the time from when it was due to when it is handed to the connection; only steps count for which the client waited, because the
server is not late with the others. The rates take turns, round by round. One row has a new stream for each sequence, which costs the
client more than the request; the others keep their streams.
"""

import json

from triton.arguments import positive

from .measuring import MODEL, Reference, run, scenario, tool
from .rounds import measured, report

COLUMNS = {
    "late_p50_us": ("late us p50", 0),
    "late_p99_us": ("p99", 0),
    "late_p999_us": ("p99.9", 0),
    "late_max_us": ("max", 0),
    "sequences_per_second": ("sequences/s", 0),
    "cpu_us_per_request": ("CPU us/request", 1),
}
KEPT, NEW = "per-context", "per-sequence"
ROWS = ((1_000, "constant", KEPT), (10_000, "constant", KEPT), (10_000, "poisson", KEPT), (10_000, "constant", NEW))
LIMITED = ROWS[1]
LATE_US_MAX = 100
QUICK = {"rounds": 1, "seconds": 1}
# One step is a whole sequence, so that the rate is that of requests, too.
LENGTH = "min = 1\nconstant = 1"


def add_options(parser):
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="number of rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=positive, default=5, metavar="N", help="length of each run (default: %(default)s)")
    parser.add_argument("--workers", type=positive, default=64, metavar="N", help="the largest number of sequences at a time (default: %(default)s)")
    parser.add_argument("--time-limit", type=positive, default=120, metavar="SECONDS", help="for each run; then it is killed (default: %(default)s)")


def row_name(rate, arrivals, stream):
    return f"{rate:,}/s, {arrivals}" + ", new streams" * (stream == NEW)


def figures(document):
    """The figures of a run, from its result."""
    late = document["pacing"]["late_us"]
    return {
        "requests": document["outcomes"]["completed"],
        "late_p50_us": late["p50"],
        "late_p99_us": late["p99"],
        "late_p999_us": late["p99_9"],
        "late_max_us": late["max"],
        "sequences_per_second": document["sequences_per_second"],
        "cpu_us_per_request": document["client_cpu_us_per_request"],
    }


def bench(options, scratch):
    binary = tool()
    file, result, log = scratch / "scenario.toml", scratch / "result.json", scratch / "output.log"
    slots = ["--instances", "2", "--max-batch-size", str(options.workers)]
    with Reference(binary, *slots) as server:

        def measure(rate, arrivals, stream, seed):
            file.write_text(scenario(LENGTH, f'[sending]\nstream = "{stream}"\n'))
            load = ["--rate", f"{rate}/s:{options.seconds}s", "--arrivals", arrivals, "-t", options.workers, "-r", seed]
            command = [binary, server.endpoint, "-m", MODEL, *load, "--scenario", file, "--json", result, "-q"]
            run(f"the load of {row_name(rate, arrivals, stream)}", command, log, options.time_limit)
            return figures(json.loads(result.read_text()))

        group = [(row_name(*each), lambda seed, each=each: measure(*each, seed)) for each in ROWS]
        rounds = measured(options, [group])
    lates = sorted(each[row_name(*LIMITED)]["late_p99_us"] for each in rounds)
    late = lates[len(lates) // 2]
    told = f"99 of 100 steps at {row_name(*LIMITED)} are late by at most {late} us (limit: {LATE_US_MAX} us)"
    return report(options, scratch, "at the first rate", rounds, COLUMNS, [], [(told, late <= LATE_US_MAX, {"late_p99_us": late})])
