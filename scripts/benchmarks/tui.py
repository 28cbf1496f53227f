"""Measures what the view of `--tui` costs: CPU time of runs with it and without, on a terminal of 80x24, in turn.

Both runs send the same load at a rate to one reference server, so that both have as many requests. The terminal is that of `script`, whose
CPU time is part of both. The exit code is 3 where the view costs more than 1 % of a core.
"""

import json
import shlex
import statistics

from triton.arguments import positive

from .measuring import MODEL, Reference, run, say, scenario, tool
from .rounds import LIMIT_MISSED

PERCENT_MAX = 1.0
QUICK = {"rounds": 1, "seconds": 1}
LENGTH = "normal = { mean = 16.0, stdev = 0.0 }"


def add_options(parser):
    parser.add_argument("--rounds", type=positive, default=7, metavar="N", help="number of rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=positive, default=20, metavar="N", help="length of each run (default: %(default)s)")
    parser.add_argument("--rate", default="50/s", metavar="RATE", help="sequences that begin (default: %(default)s)")
    parser.add_argument("--time-limit", type=positive, default=120, metavar="SECONDS", help="for each run; then it is killed (default: %(default)s)")


def bench(options, scratch):
    binary = tool()
    log, file, result = scratch / "output.log", scratch / "scenario.toml", scratch / "result.json"
    file.write_text(scenario(LENGTH))
    with Reference(binary, "--instances", "1", "--max-batch-size", "16") as reference:

        def cpu_s(flag, seed):
            load = ["--rate", options.rate, "--duration", f"{options.seconds}s", "-t", "32", "--scenario", str(file), "-r", str(seed)]
            command = shlex.join([binary, "-u", reference.endpoint, "-m", MODEL, *load, "--json", str(result), *flag])
            on_terminal = ["script", "-qec", f"stty rows 24 cols 80; exec {command}", "/dev/null"]
            ran = run("the run", on_terminal, log, options.time_limit, {"TERM": "xterm-256color"})
            return ran.cpu_s, json.loads(result.read_text())["outcomes"]["completed"]

        percents = []
        for number in range(options.rounds):
            seed = number + 1
            order = [(), ("--tui",)] if number % 2 else [("--tui",), ()]
            both = {flag: cpu_s(flag, seed) for flag in order}
            (without, answered), (with_view, seen) = both[()], both[("--tui",)]
            percents.append(100 * (with_view - without) / options.seconds)
            say(f"round {seed}: {without:.2f} s without ({answered} responses), {with_view:.2f} s with ({seen}): {percents[-1]:+.2f} % of a core")
    median = statistics.median(percents)
    print(f"--tui: {median:+.2f} % of a core ({min(percents):+.2f} to {max(percents):+.2f}), {options.seconds} s at {options.rate}, 80x24")
    return LIMIT_MISSED if not options.quick and median > PERCENT_MAX else 0
