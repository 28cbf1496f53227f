"""Measures what rates, the series and thresholds cost the tool for each request.

Each row sends the same sequences to a reference server on the same machine, and the rows take turns, round by round. The rate is far
above what the client can send, so that a worker always has the next iteration: what is left is the cost of rates, without that of
waking for each step. The series has no row without it. A threshold of a pattern counts a second time what the series counts for each
request, so the difference that it makes is the cost of both.
"""

from .measuring import MODEL, BenchError, Load, Reference, tool
from .rounds import CLIENT_COLUMNS, Pair, check_requests, measured, report
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import add_options as add_round_options

QUICK = QUICK_ROUNDS
PLAIN, RATE, RUN, PATTERN = "one after the other", "at a rate", "ten thresholds", "a threshold of a pattern"
OF_THE_RUN = (
    "step.p99 > 1h",
    "step.max > 1h",
    "good_step.p99 > 1h",
    "sequence.p99 > 1h",
    "wait_for_slot.max > 1h",
    "throughput < 1/h",
    "goodput < 1/h",
    "not_good > 100%",
    "sequences < 1/h",
    "step.mean > 1h",
)
# The limit of the additional CPU time per request, in us.
MORE_MAX = 0.3


def add_options(parser):
    add_round_options(parser, rounds=9, iterations=1000)


def thresholds(texts):
    return [word for text in texts for word in ("--fail-if", text)]


def bench(options, scratch):
    binary = tool()
    load = Load(options, scratch)
    flags = {
        PLAIN: [],
        RATE: ["--rate", "1000000/s"],
        RUN: thresholds(OF_THE_RUN),
        PATTERN: thresholds(["step.p99 of pattern valid > 1h"]),
    }
    with Reference(binary, "--instances", "1", "--max-batch-size", "16") as reference:

        def measure(kind, seed):
            iterations = options.iterations * options.concurrency if kind == RATE else None
            sent = load.run_tool(f"the tool ({kind})", binary, reference.endpoint, MODEL, seed, *flags[kind], iterations=iterations)
            judged = sent.document.get("thresholds", [])
            if len(judged) != len(flags[kind]) // 2 - (kind == RATE):
                raise BenchError(f"the tool judged {len(judged)} thresholds where it had {' '.join(flags[kind])}")
            return sent.row()

        group = [(kind, lambda seed, kind=kind: measure(kind, seed)) for kind in flags]
        rounds = measured(options, [group])
    check_requests(rounds)
    pairs = [Pair(f"CPU us/request, {kind} - {PLAIN}", kind, PLAIN, is_ratio=False, at_most=MORE_MAX) for kind in (RATE, RUN, PATTERN)]
    return report(options, scratch, "to the reference server", rounds, CLIENT_COLUMNS, pairs)
