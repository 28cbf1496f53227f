"""Measures how often `sequence-stress compare` finds a slower server, and how often it finds a difference that is not there.

Each trial is two comparisons of interleaved runs (`compare --run`): of two equal servers, and of a server with one whose executions take
longer by some percent. The servers are real tritonservers with the native model, side by side, or with --embedded the reference server.
"""

import contextlib
import json

from triton import server
from triton.arguments import add_program, positive, program

from .measuring import IDLE_LIMIT_MS, MODEL, SCENARIO, native_backend, run, say, tool
from .rounds import LIMIT_MISSED, RESULTS, measured, shown, spread, written

QUICK = {"rounds": 1, "runs": 1, "seconds": 2, "embedded": True}
EQUAL, SLOWER = "equal servers", "a slower server"
# What `compare` exits with.
NO_REGRESSION, UNKNOWN, REGRESSION = 0, 3, 5
RIGHT_MIN = 0.95


def add_options(parser):
    parser.add_argument("--rounds", type=positive, default=20, metavar="N", help="number of trials (default: %(default)s)")
    parser.add_argument("--runs", type=positive, default=5, metavar="N", help="runs of each side in a comparison (default: %(default)s)")
    parser.add_argument("--seconds", type=positive, default=4, metavar="N", help="length of each run (default: %(default)s)")
    parser.add_argument("--concurrency", type=positive, default=4, metavar="N", help="number of workers (default: %(default)s)")
    parser.add_argument("--execution-ms", type=positive, default=20, metavar="MS", help="how long an execution takes (default: %(default)s)")
    parser.add_argument("--slower", type=positive, default=20, metavar="PERCENT", help="how much longer it takes in the slower server (default: %(default)s)")
    parser.add_argument("--embedded", action="store_true", help="compare reference servers within the tool, not real servers")
    parser.add_argument("--time-limit", type=positive, default=600, metavar="SECONDS", help="for each comparison; then it is killed (default: %(default)s)")
    add_program(parser)


def executions_ms(options):
    """How long an execution takes in each server, in whole ms: the old one, an equal one and a slower one."""
    slower = round(options.execution_ms * (100 + options.slower) / 100)
    return {"old": options.execution_ms, EQUAL: options.execution_ms, SLOWER: slower}


def figures(code, document):
    """The figures of a comparison, from its exit code and its result."""
    (comparison,) = document["comparisons"]
    # A run that is too short has no row of it.
    ratios = [measure["ratio"] for measure in comparison["measures"] if measure["name"] == "step.p50" and measure["ratio"] is not None]
    return {"exit_code": code, "step_p50_percent": (ratios[0] - 1) * 100 if ratios else None}


def told(rounds, name, wanted):
    """A sentence on how often a comparison came to which end, whether that was right often enough, and the counts."""
    codes = [each[name]["exit_code"] for each in rounds]
    right = sum(code in wanted for code in codes)
    counts = {"regression": codes.count(REGRESSION), "no regression": codes.count(NO_REGRESSION), "unknown": codes.count(UNKNOWN)}
    percents = [percent for each in rounds if (percent := each[name]["step_p50_percent"]) is not None]
    p50 = f"; step.p50 {shown(spread(percents), 1)} %" if percents else ""
    words = ", ".join(f"{what} {count}" for what, count in counts.items())
    return f"{name}: right in {right} of {len(codes)} trials ({words}){p50}", right >= RIGHT_MIN * len(codes), counts


@contextlib.contextmanager
def sides(options):
    """The arguments that lead to each server."""
    executions = executions_ms(options)
    if options.embedded:
        yield {name: ["--embedded", "--max-batch-size", "4", "--execution-time", f"{ms}ms"] for name, ms in executions.items()}
        return
    native_backend()
    with contextlib.ExitStack() as stack:
        arguments = {}
        for name, ms in executions.items():
            served = dict(instances=1, batch=4, idle_limit_ms=IDLE_LIMIT_MS, parameters={"execute_delay_ms": ms})
            triton = stack.enter_context(server.Server(program(options), served))
            arguments[name] = ["-u", f"127.0.0.1:{triton.grpc_port}", "-m", MODEL]
        yield arguments


def bench(options, scratch):
    binary = tool()
    scenario, result, log = scratch / "scenario.toml", scratch / "result.json", scratch / "output.log"
    scenario.write_text(SCENARIO)
    load = ["--scenario", scenario, "-t", options.concurrency, "-d", f"{options.seconds}s"]
    with sides(options) as arguments:

        def measure(name, seed):
            command = [binary, "compare", "--run", options.runs, "-r", 1000 * seed, "--warm-up", "1s", "-q", "--json", result, "--"]
            command += [*load, *arguments["old"], "vs", *load, *arguments[name]]
            ran = run(f"the comparison with {name}", command, log, options.time_limit, codes=(NO_REGRESSION, UNKNOWN, REGRESSION))
            say(f"{name}: {ran.output.splitlines()[0]}")
            return figures(ran.code, json.loads(result.read_text()))

        group = [(name, lambda seed, name=name: measure(name, seed)) for name in (EQUAL, SLOWER)]
        rounds = measured(options, [group])
    ends = [told(rounds, EQUAL, (NO_REGRESSION, UNKNOWN)), told(rounds, SLOWER, (REGRESSION,))]
    for sentence, _, _ in ends:
        print(sentence)
    missed = [sentence for sentence, is_kept, _ in ends if not is_kept]
    path = written(options, scratch if options.quick else RESULTS, rounds, {sentence: counts for sentence, _, counts in ends})
    print("results: not kept; the figures mean nothing" if options.quick else f"results: {path}")
    return LIMIT_MISSED if missed and not options.quick else 0
