"""Skips the tests of an engine that this machine does not have, and says so."""

import sys
import unittest

from . import slurm
from .launch import ENGINES, is_here


def skip_without(name):
    """Raises `SkipTest`, after a line that says what is missing, if the engine is not here or cannot start."""
    engine = ENGINES[name]
    why = None if is_here(name) else f"'{engine.program}' is missing (Debian package {engine.package})"
    if not why and engine.package == slurm.PACKAGE:
        why = slurm.obstacle()
    if why:
        print(f"skipping the tests of {name}: {why}", file=sys.stderr, flush=True)
        raise unittest.SkipTest(why)
