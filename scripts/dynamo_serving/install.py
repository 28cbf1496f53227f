"""Gets NVIDIA Dynamo's runtime, a Python package, into the ignored folder of the servers, once."""

import downloads
from downloads import PYTHON_VERSION
from triton.install import HOME, once

# The set of wheels.txt, and what pip needs for it.
SET = "dynamo"
VERSION = "1.6.1"
SPECIFIERS = [f"ai-dynamo-runtime=={VERSION}"]
PYTHONS = ("3.10", "3.11", "3.12")


def runtime():
    """The folder of the package and of what it needs."""
    if PYTHON_VERSION not in PYTHONS:
        raise downloads.InstallError(f"Dynamo's runtime {VERSION} is for Python {PYTHONS[0]} to {PYTHONS[-1]}, and this is {PYTHON_VERSION}")
    return once(f"{SET}-{VERSION}-python-{PYTHON_VERSION}", lambda folder: downloads.install(SET, SPECIFIERS, folder, HOME))
