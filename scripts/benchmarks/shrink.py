"""Measures how often failures show again, and how long shrinking them takes, against the embedded reference server.

Each of the first rows plants a fault that happens once, late, or that only a rare pattern of the scenario meets. Runs go on, seed
after seed, until one sends --requests requests before it fails. The benchmark replays that run's failure file at its original
timing and at once, shrinks the file, and replays the result. The output is a table in Markdown with a row for each fault.

The exit code is 3 where a shrink takes longer than --allowed or does not come to its end.
"""

import re
import time

from triton.arguments import positive

from .measuring import LENGTH, BenchError, run, say, tool
from .rounds import LIMIT_MISSED

TRIES = 20
# The fault; the pattern that meets it, which comes about once in as many requests as the failure has to need; or, where the
# violation is reported after the run, its weight beside valid's 1. A fault that happens once does so at about that many requests.
ROWS = [
    ("leak-slot-at-end:once@300", None, 0),
    ("leak-slot-at-idle", "no-end", 0.005),
    ("leak-slot-at-cancel", "cancel-queued", 0.005),
    ("leak-slot-at-disconnect", "reset", 0.003),
    ("orphan-at-cancel", "cancel-restart", 0.005),
    ("drop-response:once@9950", None, None),
    ("lose-final-responses", "half-close", None),
    ("keep-state:once@620", None, None),
    ("accept-no-start", "no-start", None),
    ("wrong-error-text", "no-start", None),
    ("reap-early", "pause", None),
    ("count-twice", None, 0),
]
ALWAYS = ["off-by-one", "reset-state", "keep-state", "swap-states", "execute-twice", "reject-mid-sequence", "out-of-order", "close-stream"]
QUICK = {"runs": 1, "fault": ["off-by-one"], "time_limit": 60}


def add_options(parser):
    parser.add_argument("--requests", type=positive, default=10_000, metavar="N", help="requests before a failure of the first rows (default: %(default)s)")
    parser.add_argument("--runs", type=positive, default=10, metavar="K", help="replays of each failure (default: %(default)s)")
    parser.add_argument("--allowed", type=positive, default=120, metavar="SECONDS", help="limit of one shrink (default: %(default)s)")
    parser.add_argument("--fault", action="append", metavar="NAME", help="only this fault, named as in the table (repeatable)")
    parser.add_argument(
        "--time-limit", type=positive, default=900, metavar="SECONDS", help="for each run of the tool; then the tool is killed (default: %(default)s)"
    )


class Shrinking:
    """Runs the tool for one row after the other."""

    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.binary = tool()

    def tool(self, *words, codes=(0, 1)):
        name = f"'sequence-stress {' '.join(map(str, words))}'"
        return run(name, [self.binary, *words], self.scratch / "output.log", self.options.time_limit, codes=codes).output

    def find(self, fault, pattern, at_end, requests):
        """The failure file of a run that sent so many requests before it failed."""
        weight = at_end if at_end is not None else LENGTH / requests / 2
        rare = f", {pattern} = {weight}" if pattern else ""
        scenario, path = self.scratch / "scenario.toml", self.scratch / "failure.toml"
        scenario.write_text(f"patterns.common = {{ valid = 1{rare} }}\ncontexts = {{ common = 4, rare = 0, rare_probability = 0 }}\n")
        iterations = 1 + requests * 11 // 10 // LENGTH // 8 * (1 if at_end is not None else 10)
        for seed in range(1, TRIES + 1):
            path.unlink(missing_ok=True)
            flags = ["--embedded", "--execution-time", "1ms", "--idle-limit", "300ms", "--fault", fault]
            size = ["--scenario", scenario, "-r", seed, "-i", iterations, "-q", "--fail-fast", "--failure", path]
            self.tool(*flags, *size, codes=(0, 1, 3))
            if path.exists() and messages(path) >= 0.99 * requests:
                return path
        raise BenchError(f"no seed up to {TRIES} needs {requests} requests")

    def rate(self, path, *flags):
        runs = self.options.runs
        found = re.search(r"failed in (\d+) of|did not fail in", self.tool("replay", path, "-n", runs, "-q", *flags))
        if not found:
            raise BenchError(f"'replay {path.name}' printed no verdict")
        return f"{found[1] or 0} of {runs}"

    def row(self, fault, pattern, at_end, requests):
        """The cells of a fault's row, and how long the shrink took in s: `None` where it did not come to its end."""
        path = self.find(fault, pattern, at_end, requests)
        kind = re.search(r'^kind = "(.*)"', path.read_text(), re.MULTILINE)[1]
        say(f"{fault}: {kind}, {messages(path)} messages")
        timed, at_once = self.rate(path), self.rate(path, "--at-once")
        small = self.scratch / "small.toml"
        began = time.monotonic()
        output = self.tool("replay", path, "--shrink", "-o", small)
        took = time.monotonic() - began
        before = [f"`{kind}`", messages(path), timed, at_once]
        trials = re.search(r"after (\d+) trials?: each is needed", output)
        if not trials:
            return [*before, f"not shrunk: {output.strip().splitlines()[-1]}", "", f"{took:.1f}", ""], None
        return [*before, messages(small), trials[1], f"{took:.1f}", self.rate(small)], took


def messages(path):
    return path.read_text().count('"send ')


def bench(options, scratch):
    rows = [*((*row, options.requests) for row in ROWS), *((fault, None, None, 1) for fault in ALWAYS)]
    rows = [row for row in rows if not options.fault or row[0] in options.fault]
    if not rows:
        raise BenchError(f"--fault: no row is named {' or '.join(options.fault)}")
    shrinking = Shrinking(options, scratch)
    slowest, unfinished = 0, 0
    print("| fault | violation | messages | failed again, original timing | at once | messages left | trials | s | failed again |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for given in rows:
        try:
            cells, took = shrinking.row(*given)
        except BenchError as problem:
            cells, took = [f"not measured: {problem}", *[""] * 7], None
        slowest, unfinished = max(slowest, took or 0), unfinished + (took is None)
        print(f"| `{given[0]}` | {' | '.join(map(str, cells))} |", flush=True)
    if unfinished:
        say(f"{unfinished} of {len(rows)} rows did not come to their end")
    if options.quick and not unfinished:
        print("quick form: every program ran; the figures mean nothing, and no limit is judged")
        return 0
    if slowest > options.allowed:
        say(f"the slowest shrink took {slowest:.0f} s, and the limit is {options.allowed} s")
    return LIMIT_MISSED if unfinished or slowest > options.allowed else 0
