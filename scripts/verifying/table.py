"""Has every runtime run its models, and prints what came of it."""

import collections
import concurrent.futures
import json
import os
import subprocess
from pathlib import Path

from . import install, runtimes

SCRIPTS = Path(__file__).resolve().parents[1]
SECONDS = 1800
SHOWN = 300
# What is skipped by all runtimes is not known to be right.
NOT_TRIED = 2
COLUMNS = ["passed", "failed", "skipped", "rejected"]


def verify(models, options):
    """Prints a table of formats, runtimes and types of these models; the exit code."""
    models = [model for model in models if options.only in model["name"]]
    if not models:
        raise install.InstallError(f"no model has '{options.only}' in its name")
    results = [(model, "none", "rejected", model["rejected"]) for model in models if model["rejected"]]
    # What is installed is installed by one after the other, what is run is run at once.
    tasks = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, runtime in runtimes.RUNTIMES.items():
            of_runtime = [model for model in models if model["format"] in runtime.formats and not model["rejected"]]
            if of_runtime:
                python = python_of(name, options)
                tasks.append(pool.submit(run, name, python, of_runtime))
    return print_table(models, results + [result for task in tasks for result in task.result()], options.details)


def manifest(matrix):
    """The models that the example wrote."""
    try:
        models = json.loads((matrix / "manifest.json").read_text())
        return [{**model, "folder": str(matrix / model["name"])} for model in models]
    except (OSError, ValueError) as problem:
        raise install.InstallError(f"{matrix} is no folder that the example 'matrix' wrote: {problem}") from problem


def python_of(name, options):
    """The command and the environment that run a runtime, or the error that says why there is none."""
    try:
        if options.runtime and name not in options.runtime:
            raise install.InstallError("it was not asked for")
        return install.python_of(name, options.older)
    except install.InstallError as problem:
        return problem


def run(name, python, models):
    """What came of each model: the model, the runtime, what, and why."""
    formats = ", ".join(runtimes.RUNTIMES[name].formats)
    try:
        if isinstance(python, install.InstallError):
            raise python
        versions, outcomes = run_worker(name, *python, models)
    except install.InstallError as problem:
        print(f"{name}, for {formats}: SKIPPED, {problem}", flush=True)
        return [(model, name, "skipped", str(problem)) for model in models]
    print(f"{name}, for {formats}: {versions}", flush=True)
    return [(model, name, *outcome(outcomes.get(model["name"]))) for model in models]


def outcome(said):
    if said is None:
        return "failed", "the runtime's process ended before it was done with this model"
    if said["cannot"]:
        return "skipped", said["cannot"]
    return ("failed", said["wrong"]) if said["wrong"] else ("passed", None)


def run_worker(name, command, environment, models):
    """The runtime's versions, and by name what it said of each model."""
    environment = {**os.environ, **environment, "PYTHONPATH": f"{SCRIPTS}:{environment['PYTHONPATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*command, "-m", "verifying.worker", name]
    try:
        done = subprocess.run(command, env=environment, input=json.dumps(models), capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise install.InstallError(f"{name} was not done in {SECONDS} s") from None
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise install.InstallError(f"{name} does not start: {last}")
    return lines[0]["versions"], {line["name"]: line for line in lines[1:]}


def print_table(models, results, details):
    counts = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(list)
    for model, runtime, what, why in results:
        counts[model["format"], runtime, model["element"]][what] += 1
        if why:
            about = (model["element"], "") if what == "failed" else ("", why)
            reasons[(what, model["format"], runtime, *about)].append((model["name"], why))
    # Types of which the same is to be said share a line.
    lines = collections.defaultdict(list)
    for (format_, runtime, element), count in counts.items():
        lines[(format_, runtime, *(count[column] for column in COLUMNS))].append(element)
    print(f"\n{'format':<12} {'run by':<12}" + "".join(f"{column:>9}" for column in COLUMNS) + "  of each of the types")
    for (format_, runtime, *numbers), elements in sorted(lines.items()):
        print(f"{format_:<12} {runtime:<12}" + "".join(f"{number or '':>9}" for number in numbers) + f"  {' '.join(elements)}")
    print()
    for (what, format_, runtime, element, _), cases in sorted(reasons.items()):
        for name, why in cases if details and what == "failed" else cases[:1]:
            print(f"{what}, {format_} {runtime} {element} ({len(cases)} models), such as {name}: {why[:SHOWN]}")
    return verdict(models, results)


def verdict(models, results):
    """The last lines, and the exit code."""
    total = collections.Counter(what for _, _, what, _ in results)
    settled = {model["name"] for model, _, what, _ in results if what in ("passed", "rejected")}
    unproven = [model["name"] for model in models if model["name"] not in settled]
    if unproven:
        print(f"passed by no runtime: {len(unproven)} models, such as {unproven[0]}")
    print(", ".join(f"{total[column]} {column}" for column in COLUMNS))
    return 1 if total["failed"] else NOT_TRIED if unproven else 0
