"""Measures what a request costs the tool with few and with many live stream contexts.

Each context has a stream of its own, which stays open. 16 workers send sequences on their contexts in turn, over one connection for
each worker, to a reference server on the same machine. The rows take turns, round by round, and send the same number of requests. The
streams are opened in the measured time, which is most of the cost of the last row's first iterations.
"""

import json

from triton.arguments import positive

from .measuring import LENGTH, MODEL, Reference, run, scenario, tool
from .rounds import measured, report

COLUMNS = {
    "cpu_us_per_request": ("CPU us/request", 1),
    "peak_mib": ("peak MiB", 0),
    "requests_per_second": ("requests/s", 0),
}
WORKERS = 16
GROWTH_MAX = 1.5
MIB_MAX = 954
SENDING = '[sending]\nstream = "per-context"\nconnection = "per-worker"\n'
QUICK = {"rounds": 1, "contexts": [16, 64], "requests": 4096}


def add_options(parser):
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="number of rounds (default: %(default)s)")
    parser.add_argument(
        "--contexts",
        type=positive,
        nargs="+",
        default=[16, 256, 4096, 65536],
        metavar="N",
        help="numbers of contexts of all workers (default: 16 256 4096 65536)",
    )
    parser.add_argument("--requests", type=positive, default=4_194_304, metavar="N", help="requests of each run (default: %(default)s)")
    parser.add_argument("--time-limit", type=positive, default=600, metavar="SECONDS", help="for each run; then it is killed (default: %(default)s)")


def row_name(contexts):
    return f"{contexts:,} contexts"


def bench(options, scratch):
    binary = tool()
    file, result, log = scratch / "scenario.toml", scratch / "result.json", scratch / "output.log"
    with Reference(binary, "--instances", "2", "--max-batch-size", str(WORKERS)) as server:

        def measure(contexts, seed):
            each = max(1, contexts // WORKERS)
            text = scenario(f"constant = {LENGTH}", SENDING).replace("common = 2\n", f"common = {each}\n", 1)
            file.write_text(f"correlation_ids.block = {each}\n{text}")
            load = ["-t", WORKERS, "-i", max(1, options.requests // LENGTH // WORKERS), "-r", seed]
            command = [binary, server.endpoint, "-m", MODEL, *load, "--scenario", file, "--json", result, "-q"]
            ran = run(f"the load on {row_name(contexts)}", command, log, options.time_limit)
            document = json.loads(result.read_text())
            return {
                "requests": document["outcomes"]["completed"],
                "cpu_us_per_request": document["client_cpu_us_per_request"],
                "peak_mib": ran.peak_mib,
                "requests_per_second": document["requests_per_second"],
            }

        group = [(row_name(contexts), lambda seed, contexts=contexts: measure(contexts, seed)) for contexts in options.contexts]
        rounds = measured(options, [group])
    first, last = row_name(options.contexts[0]), row_name(options.contexts[-1])
    ratios = sorted(each[last]["cpu_us_per_request"] / each[first]["cpu_us_per_request"] for each in rounds)
    ratio = ratios[len(ratios) // 2]
    peak = max(each[last]["peak_mib"] for each in rounds)
    limits = [
        (f"a request on {last} costs {ratio:.2f} times one on {first} (limit: {GROWTH_MAX})", ratio <= GROWTH_MAX, {"ratio": ratio}),
        (f"{last} take {peak:.0f} MiB (limit: {MIB_MAX} MiB)", peak <= MIB_MAX, {"peak_mib": peak}),
    ]
    return report(options, scratch, "per request", rounds, COLUMNS, [], limits)
