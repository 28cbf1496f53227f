"""Measures the cost of a history: the same load with and without one, against one reference server.

CPU time is the system's count for the tool's process, from its start to its end. The collector's thread and the writing of the
file are in that count. With --before, another binary of the tool sends the same load without a history, so that a change can be
measured.
"""

from pathlib import Path

from .measuring import MODEL, BenchError, Load, Reference, tool
from .rounds import CLIENT_COLUMNS, Pair, measured, report
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import add_options as add_round_options

QUICK = QUICK_ROUNDS
OFF, PLAIN, COMPRESSED, BEFORE = "no history", "history", "history, .zst", "before"
COLUMNS = {**CLIENT_COLUMNS, "lost": ("events lost", 0)}
# The limits of the additional CPU time per request, in us.
OFF_MAX, ON_MAX = 0.5, 3.0


def add_options(parser):
    add_round_options(parser, rounds=9, iterations=500)
    parser.add_argument("--before", type=Path, metavar="BINARY", help="another binary of the tool, such as that of an earlier commit")


def bench(options, scratch):
    binary = tool()
    load = Load(options, scratch)
    kinds = {OFF: (binary, None), PLAIN: (binary, scratch / "history.jsonl"), COMPRESSED: (binary, scratch / "history.jsonl.zst")}
    if options.before:
        kinds[BEFORE] = (options.before, None)
    with Reference(binary, "--instances", "1", "--max-batch-size", "16") as reference:

        def measure(kind, seed):
            program, path = kinds[kind]
            flags = ["--history", path, "--history-keep", "all"] if path else []
            sent = load.run_tool(f"the tool ({kind})", program, reference.endpoint, MODEL, seed, *flags)
            history = sent.document.get("history") or {"lost": 0, "problem": None}
            if history["problem"]:
                raise BenchError(history["problem"])
            return {**sent.row(), "lost": history["lost"]}

        group = [(kind, lambda seed, kind=kind: measure(kind, seed)) for kind in kinds]
        rounds = measured(options, [group])
    more = [(PLAIN, OFF, ON_MAX), (COMPRESSED, OFF, ON_MAX)] + [(OFF, BEFORE, OFF_MAX)] * (BEFORE in kinds)
    pairs = [Pair(f"CPU us/request, {of} - {to}", of, to, is_ratio=False, at_most=limit) for of, to, limit in more]
    return report(options, scratch, "to the reference server", rounds, COLUMNS, pairs)
