"""Measures how long a report page takes to make, and how large it is.

A run of many short sequences keeps its whole history. Then `report` makes a page of its result, with the slots as lanes, once for each
round. The exit code is 3 where a page takes longer than 3 s or has more than 10 MB.
"""

import json
import statistics
import time

from triton.arguments import positive

from .measuring import run, say, scenario, tool
from .rounds import LIMIT_MISSED

SECONDS_MAX, MB_MAX = 3.0, 10.0
QUICK = {"rounds": 1, "sequences": 200, "time_limit": 60}
WORKERS = 32
# Four steps a sequence: 100,000 sequences have as many steps as a page has room for.
LENGTH = "min = 4\nconstant = 4"


def add_options(parser):
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="pages that are made (default: %(default)s)")
    parser.add_argument("--sequences", type=positive, default=100_000, metavar="N", help="sequences of the run (default: %(default)s)")
    parser.add_argument("--time-limit", type=positive, default=600, metavar="SECONDS", help="for each command; then it is killed (default: %(default)s)")


def bench(options, scratch):
    binary = tool()
    log, file = scratch / "output.log", scratch / "scenario.toml"
    result, history, page = scratch / "run.json", scratch / "run.jsonl.zst", scratch / "run.html"
    file.write_text(scenario(LENGTH))
    embedded = ["--embedded", "--execution-time", "0ms", "--instances", "4", "--max-batch-size", "8"]
    size = ["-t", WORKERS, "-i", -(-options.sequences // WORKERS), "-r", 1, "--scenario", file]
    kept = ["--json", result, "--history", history, "--history-keep", "all"]
    run("the run", [binary, *embedded, *size, *kept, "-q"], log, options.time_limit)
    sequences = json.loads(result.read_text())["sequences"]
    took = []
    for _ in range(options.rounds):
        began = time.monotonic()
        ran = run("the report", [binary, "report", result, "--html", page], log, options.time_limit)
        took.append(time.monotonic() - began)
        say(f"{took[-1]:.2f} s, {ran.cpu_s:.2f} s of CPU, peak {ran.peak_mib:.0f} MiB")
    seconds, mb = statistics.median(took), page.stat().st_size / 1e6
    print(f"a page of {sequences:,} sequences: {seconds:.2f} s ({min(took):.2f} to {max(took):.2f}), {mb:.1f} MB")
    if options.quick:
        return 0
    return LIMIT_MISSED if seconds > SECONDS_MAX or mb > MB_MAX else 0
