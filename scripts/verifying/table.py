"""Has every runtime run its models, and prints what came of it."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

from . import install, runtimes

SCRIPTS = Path(__file__).resolve().parents[1]
SECONDS = 1800
SHOWN = 300


def verify(matrix, only, details):
    """Prints a table of formats and types; the exit code."""
    models = [model for model in json.loads((matrix / "manifest.json").read_text()) if only in model["name"]]
    if not models:
        raise install.InstallError(f"no model of {matrix} has '{only}' in its name")
    outcomes, skipped = {}, {}
    for name, runtime in runtimes.RUNTIMES.items():
        formats = ", ".join(runtime.formats)
        try:
            command, environment = install.torch() if name == "torch" else install.from_pypi()
            versions, of_runtime = run_worker(name, command, environment, matrix, only)
            outcomes.update(of_runtime)
            print(f"{formats}: run by {versions}")
        except install.InstallError as problem:
            print(f"{formats}: SKIPPED, {problem}")
            skipped.update(dict.fromkeys(runtime.formats, str(problem)))
    return print_table(models, outcomes, skipped, details)


def run_worker(name, command, environment, matrix, only):
    """What a runtime said of each model; a model at which its process ended has that as its outcome."""
    environment = {**os.environ, **environment, "PYTHONPATH": f"{SCRIPTS}:{environment['PYTHONPATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*command, "-m", "verifying.worker", name, str(matrix), only]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise install.InstallError(f"{name} was not done in {SECONDS} s")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise install.InstallError(f"{name} does not start: {last}")
    return lines[0]["versions"], {line["name"]: line["wrong"] for line in lines[1:]}


def kind(model, outcomes, skipped):
    """What came of a model, and why."""
    if model["refused"]:
        return "refused", model["refused"]
    if model["format"] in skipped:
        return "skipped", skipped[model["format"]]
    # A model of which nothing was said is one at which the process ended.
    wrong = outcomes.get(model["name"], "the runtime's process ended before it was done with this model")
    return ("failed", wrong) if wrong else ("passed", None)


def print_table(models, outcomes, skipped, details):
    counts, reasons = collections.defaultdict(collections.Counter), collections.defaultdict(list)
    for model in models:
        what, why = kind(model, outcomes, skipped)
        counts[model["format"], model["element"]][what] += 1
        if why:
            reasons[model["format"], what, model["element"] if what == "failed" else "", why if what != "failed" else ""].append((model, why))
    columns = ["passed", "failed", "skipped", "refused"]
    print(f"\n{'format':<12} {'type':<8}" + "".join(f"{column:>9}" for column in columns))
    for (format_, element), count in counts.items():
        print(f"{format_:<12} {element:<8}" + "".join(f"{count[column] or '':>9}" for column in columns))
    for (format_, what, element, _), all_of_it in reasons.items():
        for model, why in all_of_it if details and what == "failed" else all_of_it[:1]:
            print(f"{what}, {format_} {element} ({len(all_of_it)} models): {model['name']}: {why[:SHOWN]}")
    total = sum(counts.values(), collections.Counter())
    print("\n" + ", ".join(f"{total[column]} {column}" for column in columns))
    return 1 if total["failed"] else 0
