"""The test executables that cargo builds, and how they run."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from triton.install import ROOT

# libtest's line for a test that is over.
LINE = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?:.*?)(?P<verdict>ok|FAILED|ignored)(?:, .*?)?(?: <(?P<seconds>[\d.]+)s>)?$")
# Tests in modules of this name run after the others, one at a time: real time is their subject.
QUIET = "quiet::"
BACKEND = "libtriton_sequence_stress.so"
# The names of executables in filters and in the summary, and how many tests run at a time. Tests of `tool` and `real` mostly wait.
LIBRARIES = {"sequence_stress": "lib", "triton_sequence_stress": "backend", "sequence_stress_formats": "formats"}
THREADS = {"tool": 6, "real": 6, "conformance": 4}
THREADS_OF_OTHERS = 3
ORDER = ["lib", "backend", "formats", "tool", "conformance", "real"]


class BuildError(Exception):
    """Why there is nothing to run, in one line."""


class Built:
    """What cargo built."""

    def __init__(self, artifacts):
        self.tests, self.files = [], {}
        for artifact in artifacts:
            target, executable = artifact["target"], artifact["executable"]
            if artifact["profile"]["test"] and executable:
                name = LIBRARIES.get(target["name"], target["name"]) if target["kind"] != ["bench"] else target["name"]
                folder = Path(artifact["manifest_path"]).parent
                self.tests.append(Executable(name, executable, folder, has_harness=target["kind"] != ["bench"]))
            elif executable:
                self.files[target["name"]] = executable
            else:
                self.files.update((Path(file).name, file) for file in artifact["filenames"])
        place = {name: index for index, name in enumerate(ORDER)}
        self.tests.sort(key=lambda test: (place.get(test.name, len(place) - 2), test.name))

    def environment(self):
        """The variables that name what tests and scripts would build otherwise."""
        return {
            "SEQUENCE_STRESS_TOOL": self.files["sequence-stress"],
            "SEQUENCE_STRESS_BARE_CLIENT": self.files["bare_client"],
            "SEQUENCE_STRESS_BACKEND": self.files[BACKEND],
        }


# One command builds everything that tests and quick benchmarks run. A command for a part would select other features of the
# dependencies, and build them again.
BUILD = ["cargo", "build", "--locked", "--workspace", "--lib", "--tests", "--bench", "oracle", "--example", "bare_client"]


def build():
    """Builds the tests, and all that they run."""
    # Incremental files take as much space as everything else, and a build from nothing does not read them.
    environment = {"CARGO_INCREMENTAL": "0", **os.environ}
    command = [*BUILD, "--message-format=json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise BuildError(f"'{' '.join(BUILD)}' failed; the compiler's messages stand above")
    messages = map(json.loads, done.stdout.splitlines())
    return Built([message for message in messages if message["reason"] == "compiler-artifact"])


class Executable:
    """A test executable."""

    def __init__(self, name, path, folder, has_harness=True):
        self.name, self.path, self.folder, self.has_harness = name, path, folder, has_harness

    def filters(self, filters):
        """What of these filters is for this executable: None where nothing is, and nothing where all of it is wanted."""
        if not filters:
            return []
        own = []
        for text in filters:
            executable, separator, rest = text.partition("::")
            if executable == self.name and not rest:
                return []
            if executable == self.name:
                own.append(rest)
            elif self.name.startswith(text):
                return []
        return own or None

    def run(self, filters, skips, is_exact, results, limit):
        """Runs the tests that are wanted; those of QUIET one at a time, after the others."""
        own = self.filters(filters)
        if own is None:
            return
        if not self.has_harness:
            self.pass_of([], results, limit)
            return
        flags = ["--include-ignored", *(word for test in skips for word in ("--skip", test)), *(["--exact"] if is_exact else [])]
        flags += ["-Zunstable-options", "--report-time"]
        threads = str(THREADS.get(self.name, THREADS_OF_OTHERS))
        self.pass_of([*own, *flags, "--skip", QUIET, "--test-threads", threads], results, limit)
        quiet = [text for text in own if QUIET in text] or ([QUIET] if not own else [])
        if quiet and self.has(quiet):
            self.pass_of([*quiet, *flags, "--test-threads", "1"], results, limit)

    def has(self, filters):
        """Whether the executable has tests that pass these filters."""
        listed = subprocess.run([self.path, "--list", "--format", "terse", *filters], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        return ": test" in listed.stdout

    def pass_of(self, words, results, limit):
        """Runs the executable once, and takes down what each test came to."""
        began = time.monotonic()
        # libtest's times are a flag of the nightly compiler's; the variable lets a stable one's executables take it.
        environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": str(self.folder)}
        process = subprocess.Popen(
            [self.path, *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        timer = threading.Timer(limit, os.killpg, [process.pid, signal.SIGKILL])
        timer.daemon = True
        timer.start()
        with process.stdout:
            for line in process.stdout:
                print(line, end="", flush=True)
                over = LINE.match(line.rstrip())
                if over and over["verdict"] != "ignored":
                    results.add(f"{self.name}::{over['name']}", over["verdict"] == "ok", float(over["seconds"] or 0))
        timer.cancel()
        code, seconds = process.wait(), time.monotonic() - began
        if not self.has_harness:
            results.add(self.name, code == 0, seconds, f"exit code {code}")
        elif code not in (0, 101):
            how = f"was ended after {limit} s" if seconds >= limit else f"ended with code {code}"
            results.add(self.name, False, seconds, f"the executable {how}; tests that were under way have no line above")
