"""Builds the native model backend of `backend/` and the tool, which writes models; knows what the backend can be told.

Run as a program (`PYTHONPATH=scripts python3 -m triton.native`) it prints the path of the library.
"""

import functools
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from .install import ROOT, InstallError

NAME = "sequence_stress"
LIBRARY = f"libtriton_{NAME}.so"
TOOL = "sequence-stress"
FAULTS = ROOT / "backend/src/fault.rs"
BUILD_SECONDS = 1800
# A build that takes no longer has nothing to do.
QUIET_SECONDS = 2


def library():
    """The path of the backend's library: the one that $SEQUENCE_STRESS_BACKEND names, or else one that is built now."""
    variable = "SEQUENCE_STRESS_BACKEND"
    return named(variable) or built(variable, LIBRARY, "the native model backend", "-p", "sequence-stress-backend")


def tool():
    """The path of the tool: the one that $SEQUENCE_STRESS_TOOL names, or else one that is built now."""
    variable = "SEQUENCE_STRESS_TOOL"
    return named(variable) or built(variable, TOOL, "sequence-stress", "-p", "sequence-stress")


def named(variable):
    """The file that a variable of the environment names; None where it is not there."""
    name = os.environ.get(variable)
    if name and not Path(name).is_file():
        raise InstallError(f"{variable} is '{name}', and there is no such file")
    return Path(name) if name else None


@functools.cache
def built(variable, file_name, what, *target, profile="release"):
    """Builds what the cargo flags in `target` select, and returns the path of the built file of this name; `variable` is the one that
    names such a file in place of that."""
    command = ["cargo", "build", "--profile", profile, "--locked", *target]
    shown = " ".join(command)
    words = f"with-triton: building {what}, which takes minutes ({variable}=FILE names a built one)"
    told = threading.Timer(QUIET_SECONDS, print, [words], {"file": sys.stderr, "flush": True})
    told.daemon = True
    told.start()
    try:
        done = subprocess.run([*command, "--message-format=json"], cwd=ROOT, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    except OSError as problem:
        raise InstallError(f"cannot run cargo, which builds {what} ({problem.strerror}): install Rust") from problem
    except subprocess.TimeoutExpired:
        raise InstallError(f"'{shown}' took over {BUILD_SECONDS} s") from None
    finally:
        told.cancel()
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        raise InstallError(f"'{shown}' failed: {first_error(messages, done.stderr)}")
    files = [Path(file) for message in messages if message["reason"] == "compiler-artifact" for file in message["filenames"]]
    for file in files:
        if file.name == file_name:
            return file
    raise InstallError(f"'{shown}' built no {file_name}")


def first_error(messages, stderr):
    """What the compiler, or else cargo, says first of what is wrong."""
    found = [message["message"] for message in messages if message["reason"] == "compiler-message"]
    for diagnostic in found:
        if diagnostic["level"] == "error":
            places = [f"{span['file_name']}:{span['line_start']}: " for span in diagnostic["spans"] if span["is_primary"]]
            return f"{places[0] if places else ''}{diagnostic['message']}"
    lines = [line for line in stderr.splitlines() if line.startswith("error")] or stderr.strip().splitlines() or ["it printed nothing"]
    return lines[0].removeprefix("error: ")


def fault_names():
    """The names of the faults that can be planted in the native models, from the backend's table of them."""
    try:
        source = FAULTS.read_text()
    except OSError as problem:
        raise InstallError(f"cannot read the table of faults in '{FAULTS}': {problem.strerror}") from problem
    table = re.search(r"^faults! \{\n(.*?)^\}", source, re.MULTILINE | re.DOTALL)
    names = re.findall(r'^    \w+ "([^"]+)" ".*";$', table[1], re.MULTILINE) if table else []
    if not names:
        raise InstallError(f"{FAULTS.relative_to(ROOT)} has no table of faults")
    return names


def main():
    try:
        print(library())
    except InstallError as problem:
        sys.exit(f"native: {problem}")


if __name__ == "__main__":
    main()
