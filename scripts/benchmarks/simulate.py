"""Measures how much faster than real time the default scenario is simulated: simulated seconds in a second of CPU.

The exit code is 3 where that is less than 200. A build for distribution is meant (SEQUENCE_STRESS_TOOL).
"""

import json
import statistics

from triton.arguments import positive

from .measuring import run, say, tool
from .rounds import LIMIT_MISSED

SPEED_MIN = 200
QUICK = {"rounds": 1, "seeds": 1}


def add_options(parser):
    parser.add_argument("--rounds", type=positive, default=7, metavar="N", help="number of rounds (default: %(default)s)")
    parser.add_argument("--seeds", type=positive, default=40, metavar="N", help="runs in each round (default: %(default)s)")
    parser.add_argument("--time-limit", type=positive, default=120, metavar="SECONDS", help="for each round; then it is killed (default: %(default)s)")


def bench(options, scratch):
    binary, log, result = tool(), scratch / "output.log", scratch / "result.json"
    speeds, cost = [], []
    for number in range(options.rounds):
        first = number * options.seeds + 1
        command = [binary, "simulate", "--seeds", f"{first}..{first + options.seeds - 1}", "--jobs", "1", "--json", str(result)]
        run("the simulation", command, log, options.time_limit)
        document = json.loads(result.read_text())
        [scenario] = document["scenarios"]
        speeds.append(scenario["simulated_us"] / 1e6 / document["cpu_s"])
        cost.append(document["cpu_s"] * 1e6 / scenario["requests"])
        say(f"round {number + 1}: {speeds[-1]:.0f} simulated s in a second of CPU, {cost[-1]:.2f} us of CPU a request")
    median, of_request = statistics.median(speeds), statistics.median(cost)
    print(f"simulate: {median:.0f} simulated s in a second of CPU ({min(speeds):.0f} to {max(speeds):.0f}), {of_request:.2f} us of CPU a request")
    return LIMIT_MISSED if not options.quick and median < SPEED_MIN else 0
