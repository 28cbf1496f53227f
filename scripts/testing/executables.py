"""The test executables that cargo builds, and how they run."""

import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

from triton.install import ROOT

from . import ending

# libtest's lines: for a test that is over, for how many there are, and for what they came to.
LINE = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<verdict>ok|FAILED|ignored)(?:, .*?)?(?: <(?P<seconds>[\d.]+)s>)?$")
RUNNING = re.compile(r"^running (?P<count>\d+) tests?$")
RESULT = re.compile(r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<ignored>\d+) ignored")
BACKEND = "libtriton_sequence_stress.so"
# The names of executables in filters and in the summary, and how many tests run at a time. Tests of `tool` and `real` mostly wait.
LIBRARIES = {"sequence_stress": "lib", "triton_sequence_stress": "backend"}
THREADS = {"tool": 6, "real": 6, "conformance": 4}
THREADS_OF_OTHERS = 3
CRATES = ["workload", "oracle", "wire", "models", "reference", "formats"]
BENCHES = ["golden_file", "judging"]
ORDER = ["lib", *CRATES, "backend", "tool", "conformance", "real"]
# Ten times what a build from nothing takes on two cores.
BUILD_SECONDS = 3600


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
BUILD = ["cargo", "build", "--locked", "--workspace", "--lib", "--tests", *(word for name in BENCHES for word in ("--bench", name)), "--example", "bare_client"]


def build():
    """Builds the tests, and all that they run."""
    # Incremental files take as much space as everything else, and a build from nothing does not read them.
    environment = {"CARGO_INCREMENTAL": "0", **os.environ}
    command = [*BUILD, "--message-format=json-render-diagnostics"]
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, timeout=BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BuildError(f"'{' '.join(BUILD)}' took over {BUILD_SECONDS} s: does another cargo hold the lock of target/?") from None
    except FileNotFoundError:
        raise BuildError("there is no cargo in PATH: install Rust, from https://rustup.rs for example") from None
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
        parts = [text.partition("::") for text in filters]
        own = [rest for executable, _, rest in parts if executable == self.name]
        if not own:
            return None
        return own if all(own) else []

    def run(self, filters, skips, is_exact, results, limit):
        """Runs the tests that are wanted, and takes down what each came to."""
        own = self.filters(filters)
        if own is None:
            return
        if not self.has_harness:
            words = []
        else:
            if is_exact and own:
                # libtest would compare what is to be skipped with the whole path, too.
                own = [text for text in own if text.rpartition("::")[2] not in skips]
                if not own:
                    return
            threads = str(THREADS.get(self.name, THREADS_OF_OTHERS))
            words = [*own, "--include-ignored", *(word for test in skips for word in ("--skip", test)), *(["--exact"] if is_exact else [])]
            words += ["-Zunstable-options", "--report-time", "--test-threads", threads]
        began = time.monotonic()
        # libtest's times are a flag of the nightly compiler's; the variable lets a stable one's executables take it.
        environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": str(self.folder)}
        # Processes that tests start write to stderr. On libtest's own pipe their text would cut libtest's lines.
        process = subprocess.Popen(
            [self.path, *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        lines = Lines(self.name, process.stdout, results)
        code, is_ended = ending.wait(process, limit)
        problem = f"was ended after {limit} s" if is_ended else lines.problem(code) if self.has_harness else None
        if problem:
            results.add(self.name, False, time.monotonic() - began, f"the executable {problem}")
        elif not self.has_harness:
            results.add(self.name, code == 0, time.monotonic() - began, f"exit code {code}")


class Lines(threading.Thread):
    """Passes on what an executable prints, and takes down what each of its tests came to."""

    def __init__(self, name, lines, results):
        super().__init__(daemon=True)
        self.name_of_executable, self.lines, self.results = name, lines, results
        self.count, self.told, self.seen = None, None, {"ok": 0, "FAILED": 0, "ignored": 0}
        self.start()

    def run(self):
        with self.lines:
            for line in self.lines:
                print(line, end="", flush=True)
                self.take_down(line.rstrip())

    def take_down(self, line):
        if over := LINE.match(line):
            self.seen[over["verdict"]] += 1
            if over["verdict"] != "ignored":
                self.results.add(f"{self.name_of_executable}::{over['name']}", over["verdict"] == "ok", float(over["seconds"] or 0))
        elif running := RUNNING.match(line):
            self.count = int(running["count"])
        elif told := RESULT.match(line):
            self.told = tuple(map(int, told.groups()))

    def problem(self, code):
        """Why the executable has failed, apart from tests that failed; None if it has not."""
        self.join(ending.PATIENCE_SECONDS)
        if self.is_alive():
            return "ended, and a process that it started still holds its output"
        if code not in (0, 101):
            return f"ended with code {code}; tests that were under way have no line above"
        seen = tuple(self.seen.values())
        if self.told is None or self.count != sum(seen) or self.told != seen:
            return f"ended with code {code}: (passed, failed, ignored) is {seen} by its lines and {self.told} by its sum, of {self.count} tests"
        if code == 101 and not self.seen["FAILED"]:
            return "ended with code 101, and no test failed"
        return None
