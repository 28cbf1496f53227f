"""The command line of `scripts/bench`."""

import argparse
import signal
import tempfile
import time
from pathlib import Path

from triton import install, repository
from triton.arguments import check_program
from triton.server import ServerError

from . import clients, compare, contexts, golden, history, limit, load, models, mutations, pacing, page, ranks, server, shrink, simulate, transports, tui
from .measuring import BenchError, say

DESCRIPTION = """\
Measures this project: the tool beside other clients, its servers and models beside each other, and what its parts cost.

Each benchmark prints a summary, and those that run in rounds write their results to bench-results/. `--quick` runs a benchmark in a
few seconds, with one round and few requests: it checks that every program runs, and its figures mean nothing.
"""
MODULES = (clients, compare, contexts, golden, history, limit, load, models, mutations, pacing, page, ranks, server, shrink, simulate, transports, tui)
BENCHMARKS = {module.__name__.rpartition(".")[2]: module for module in MODULES}
QUICK = "quick"
FAILED, INTERRUPTED = 1, 130
EPILOG = """\
A benchmark builds what it needs in the Cargo profile `dist`. These variables name binaries to use instead:
  SEQUENCE_STRESS_TOOL         the tool, sequence-stress
  SEQUENCE_STRESS_BARE_CLIENT  the bare client, examples/bare_client
  SEQUENCE_STRESS_BACKEND      the native backend, libtriton_sequence_stress.so

The exit code is 0 after a measurement, 1 where it failed, 2 for a wrong command line, and 3 where a limit is missed.
"""


def parsed(words=None):
    layout = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(prog="bench", description=DESCRIPTION, epilog=EPILOG, **layout)
    commands = parser.add_subparsers(dest="benchmark", metavar="BENCHMARK", required=True)
    for name, module in BENCHMARKS.items():
        summary = module.__doc__.splitlines()[0]
        command = commands.add_parser(name, help=summary[0].lower() + summary[1:].rstrip("."), description=module.__doc__, epilog=EPILOG, **layout)
        module.add_options(command)
        few = ", ".join(f"--{option.replace('_', '-')}" for option in module.QUICK)
        command.add_argument("--quick", action="store_true", help=f"check that every program runs, in a few seconds; takes the place of {few}")
    what = "runs the quick form of every benchmark, one after the other"
    commands.add_parser(QUICK, help=what, description=f"{what.capitalize()}.", epilog=EPILOG, **layout)
    options = parser.parse_args(words)
    if hasattr(options, "release"):
        check_program(parser, options)
    if options.benchmark != QUICK and options.quick:
        vars(options).update(BENCHMARKS[options.benchmark].QUICK)
    return options


def bench(options):
    """Runs one benchmark; returns the exit code."""
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            return BENCHMARKS[options.benchmark].bench(options, Path(scratch))
    except (BenchError, install.InstallError, repository.RepositoryError, ServerError) as problem:
        say(f"{options.benchmark}: {problem}")
        return FAILED


def bench_all_quickly():
    """Runs the quick form of every benchmark; returns the exit code."""
    failed, began = [], time.monotonic()
    for name in BENCHMARKS:
        start = time.monotonic()
        print(f"== {name} --quick", flush=True)
        if bench(parsed([name, "--quick"])):
            failed.append(name)
        print(f"== {name}: {'FAILED' if name in failed else 'ran'} in {time.monotonic() - start:.1f} s\n", flush=True)
    verdict = f"failed: {', '.join(failed)}" if failed else "every benchmark ran; the figures mean nothing"
    print(f"{verdict} ({time.monotonic() - began:.0f} s)")
    return FAILED if failed else 0


def interrupted(_number, _frame):
    raise KeyboardInterrupt


def main():
    options = parsed()
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    try:
        return bench_all_quickly() if options.benchmark == QUICK else bench(options)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
