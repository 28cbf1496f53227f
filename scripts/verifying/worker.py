"""Runs the models of one runtime, in the process that has it: `python -m verifying.worker RUNTIME`, with the models as JSON to read.

Prints one line of JSON for the versions, and one for each model: its name, what is wrong or null, and why the
runtime cannot run it or null.
"""

import json
import sys
from pathlib import Path

from . import formulas, networks, runs, runtimes


def outcome(runtime, model, folder):
    """What is wrong with a model; None where nothing is."""
    try:
        execute = runtime.load(model, folder)
        if model["formula"] == formulas.NO_FORMULA:
            networks.run(model, *runtime.network(folder), execute)
        else:
            runs.run(model, execute)
    except runs.Difference as difference:
        return str(difference)
    except Exception as problem:  # Whatever a runtime raises is what is wrong.
        return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    return None


def main():
    runtime = runtimes.RUNTIMES[sys.argv[1]]()
    print(json.dumps({"versions": runtime.versions}), flush=True)
    for model in json.load(sys.stdin):
        cannot = runtime.cannot(model)
        exact = {f"exact_{of}": runtime.exact.get(model[of], model[of]) for of in ("element", "corrid")}
        wrong = None if cannot else outcome(runtime, {**model, **exact}, Path(model["folder"]))
        print(json.dumps({"name": model["name"], "wrong": wrong, "cannot": cannot}), flush=True)


if __name__ == "__main__":
    main()
