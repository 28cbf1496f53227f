"""Gets the programs that check the sources into the ignored folder `.tools/`, once."""

import downloads
from downloads import PYTHON_VERSION
from triton.install import ROOT, once

HOME = ROOT / ".tools"
# The set of wheels.txt, and what pip needs for it.
RUFF = "ruff"
RUFF_SPECIFIERS = ["ruff==0.17.6"]


def ruff():
    """The path of ruff, which checks and formats the Python files."""
    folder = f"{RUFF_SPECIFIERS[0].replace('==', '-')}-python-{PYTHON_VERSION}"
    return once(folder, lambda path: downloads.install(RUFF, RUFF_SPECIFIERS, path, HOME), HOME) / "bin/ruff"
