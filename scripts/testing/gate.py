"""The gate: everything that the tests need, then the tests, then a summary."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import downloads
from speech import wheel
from triton import hosting, install, programs

from . import ending, executables, watchers
from .results import Results

ROOT = install.ROOT
PASSED, FAILED, COULD_NOT_RUN = 0, 1, 2
RELEASES = ["24.10", "24.03", "23.04"]
RUNTIMES = ["onnxruntime", "openvino"]
UNIT_TESTS = [
    "benchmarks.tests",
    "downloads_tests",
    "dynamo_serving.tests",
    "engines.kubernetes_tests",
    "engines.launch_tests",
    "engines.slurm_tests",
    "engines.tool_tests",
    "hunting.tests",
    "running_tests",
    "speech.tests",
    "testing.docs_tests",
    "testing.sources_tests",
    "testing.tests",
    "triton.tests",
    "triton.programs_tests",
    "triton.hosting_tests",
    "verifying.tests",
]
# What needs no real server.
WITHOUT_SERVER = {"lib", *executables.CRATES, "backend", "tool", *executables.BENCHES, "python", "page"}
# Tests that need the files of the wheel silero-vad.
NEED_SILERO = ["silero_vad_answers_what_one_call_computes"]
PYTHON, PAGE, BENCHMARKS, LONG = "python", "page", "benchmarks", "long"
# Tests that need Prometheus, a collector of OpenTelemetry, and Grafana's own description of dashboards.
NEED_PROMETHEUS = ["prometheus_reads_a_run_and_answers_the_queries_of_the_dashboard", "promtool_finds_nothing_wrong_with_the_metrics"]
NEED_ROTEL = ["a_collector_gets_the_metrics_and_a_trace_of_each_sequence_with_a_violation"]
NEED_HYBRID = [
    "newer_front_ends_before_an_older_core_are_valid",
    "newer_front_ends_survive_what_ends_older_ones_and_end_by_another_request",
    "the_same_ids_in_two_versions_are_valid_behind_newer_front_ends",
]
NEED_GRAFANA = ["the_dashboard_has_only_what_grafana_knows"]
# What a filter begins with.
NAMES = [*executables.ORDER, *executables.BENCHES, PYTHON, PAGE, BENCHMARKS, LONG]
# A step that takes longer is ended. Each of them takes a tenth of that on a quiet machine with two cores.
STEP_SECONDS = 1800
LONG_STEP_SECONDS = 4 * 3600
# What the long form measures besides the tests, each by a script of its own.
MEASUREMENTS = {
    "detection": ["scripts/detection"],
    "transports": ["scripts/transports", "--seeds", "1,2,3"],
    "shrinking": ["scripts/bench", "shrink"],
    "models": ["scripts/run-models"],
    "soak": ["scripts/soak", "10m", "-r", "42"],
}
# The tests of the feature `otlp`. The build has other features than that of the gate, so it takes minutes.
OTLP = ["cargo", "test", "--locked", "--features", "otlp", "--test", "tool", "--test", "real", "otlp::", "--", "--include-ignored"]

# What few tests need: the variable that names its folder for them, how it is fetched, what it is, and the tests.
OPTIONAL = [
    ("SEQUENCE_STRESS_SILERO", wheel.files, f"the Python package {wheel.SPECIFIERS[0]}", NEED_SILERO),
    ("SEQUENCE_STRESS_PROMETHEUS", watchers.prometheus, f"the Debian package {watchers.PROMETHEUS}", NEED_PROMETHEUS),
    ("SEQUENCE_STRESS_FRONT_ENDS", lambda: programs.hybrid("26.08").options[1], f"Python {programs.FRONTEND_PYTHON}", NEED_HYBRID),
    ("SEQUENCE_STRESS_GRAFANA", watchers.grafana, f"the Python package {watchers.GRAFANA_SPECIFIERS[0]}", NEED_GRAFANA),
]
# The same in the long form alone.
OPTIONAL_LONG = [("SEQUENCE_STRESS_ROTEL", watchers.rotel, f"the Python package {watchers.ROTEL_SPECIFIERS[0]}", NEED_ROTEL)]


class CannotRun(Exception):
    """Why the tests cannot run, in one line."""


def say(text):
    print(f"test: {text}", flush=True)


class Missing:
    """What is not here, and the tests that need it."""

    def __init__(self, lines):
        packages = [line.split() for line in lines.splitlines() if line.strip()]
        self.packages = [name for name, _ in packages]
        self.pairs = [(f"the Debian package {name}", test) for name, test in packages]

    def has(self, package):
        return any(name.startswith(package) for name in self.packages)

    def add(self, what, tests):
        self.pairs += [(what, test) for test in tests]

    def skips(self):
        return [test for _, test in self.pairs]


def missing_packages():
    done = subprocess.run([ROOT / "scripts/packages"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise CannotRun("Debian packages that the tests need could not be installed")
    return Missing(done.stdout)


def fetch(missing, environment, is_long=False):
    """Gets the servers and clients, so that no test's time limit has to allow for it; fills `environment`."""
    environment["SEQUENCE_STRESS_TRITONCLIENT"] = str(install.client_packages())
    for release in RELEASES:
        install.server(release)
    if not missing.has("libb64"):
        binary, libraries = install.perf_analyzer()
        environment["SEQUENCE_STRESS_PERF_ANALYZER"] = str(binary)
        environment["SEQUENCE_STRESS_PERF_ANALYZER_LIBRARIES"] = ":".join(map(str, libraries))
    if not missing.has("libpython"):
        install.model_python()
        install.python_library_folder()
        install.python_backend(RELEASES[0])
    for name in RUNTIMES:
        hosting.Runtime(name)
    for variable, get, what, tests in OPTIONAL + (OPTIONAL_LONG if is_long else []):
        try:
            path = get()
        except downloads.InstallError as problem:
            # An index may no longer have it one day, and few tests need it.
            say(problem)
            missing.add(what, tests)
        else:
            environment[variable] = str(path)


class Fetching(threading.Thread):
    """Fetches while something else is built."""

    def __init__(self, missing, is_long):
        super().__init__(daemon=True)
        self.missing, self.is_long, self.environment, self.problem = missing, is_long, {}, None
        self.start()

    def run(self):
        try:
            fetch(self.missing, self.environment, self.is_long)
        except Exception as problem:  # It is raised again where somebody waits.
            self.problem = problem

    def done(self):
        self.join()
        if isinstance(self.problem, (CannotRun, downloads.InstallError)):
            raise self.problem
        if self.problem:
            raise CannotRun(f"the servers could not be fetched: {type(self.problem).__name__}: {self.problem}") from self.problem
        return self.environment


@contextlib.contextmanager
def timed(what, times):
    began = time.monotonic()
    yield
    times.append((what, time.monotonic() - began))


def step(name, command, results, limit, environment=None, directory=ROOT):
    """Runs a command as one test."""
    say(f"{name}: {' '.join(map(str, command))}")
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=directory, env=environment or os.environ, start_new_session=True)
    code, is_ended = ending.wait(process, limit)
    seen = f"ended after {limit} s" if is_ended else f"exit code {code}"
    results.add(name, code == 0 and not is_ended, time.monotonic() - began, seen)


def takes(text, path):
    """Whether a filter takes the test of this path."""
    executable, _, part = text.partition("::")
    own, _, test = path.partition("::")
    return executable == own and part in test


def none_for(filters):
    return f"no test has '{filters[0]}' in its path, which begins with {', '.join(NAMES[:-1])} or {NAMES[-1]}"


def interrupted():
    print("test: interrupted; the running tests and their servers were ended", file=sys.stderr)
    return COULD_NOT_RUN


def run(filters, is_long=False, is_exact=False):
    """Runs the tests; returns the exit code."""
    os.chdir(ROOT)
    # A shell ignores interrupts in its background jobs, and processes inherit that. Some tests interrupt a process.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    times, results = [], Results("scripts/test --exact --long" if is_long else "scripts/test --exact")
    unknown = [text for text in filters if text.partition("::")[0] not in NAMES]
    if unknown:
        print(f"test: {none_for(unknown)}", file=sys.stderr)
        return COULD_NOT_RUN
    if not is_long and any(takes(LONG, text) for text in filters):
        print(f"test: '{LONG}' needs the long form: run scripts/test --long {' '.join(filters)}", file=sys.stderr)
        return COULD_NOT_RUN
    try:
        with timed("packages", times):
            missing = missing_packages()
        needs_real = not filters or any(text.partition("::")[0] not in WITHOUT_SERVER for text in filters)
        fetching = Fetching(missing, is_long) if needs_real else None
        with timed("build", times):
            built = executables.build()
        os.environ.update(built.environment())
        if fetching:
            with timed("downloads, behind the build", times):
                os.environ.update(fetching.done())
    except (CannotRun, executables.BuildError, downloads.InstallError) as problem:
        print(f"test: {problem}", file=sys.stderr)
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        return interrupted()
    limit = LONG_STEP_SECONDS if is_long else STEP_SECONDS
    if is_long:
        os.environ["SEQUENCE_STRESS_LONG"] = "1"

    def is_wanted(name):
        return not filters or any(takes(text, name) for text in filters)

    try:
        if is_wanted(PYTHON):
            with timed(PYTHON, times):
                step(PYTHON, [sys.executable, "-m", "unittest", "-q", *UNIT_TESTS], results, limit, directory=ROOT / "scripts")
        if is_wanted(PAGE):
            with timed(PAGE, times):
                step(PAGE, [sys.executable, "scripts/page", "test"], results, limit)
        for executable in built.tests:
            if executable.filters(filters) is not None:
                with timed(executable.name, times):
                    executable.run(filters, missing.skips(), is_exact, results, limit)
        if is_wanted(BENCHMARKS):
            with timed(BENCHMARKS, times):
                step(BENCHMARKS, ["scripts/bench", "quick"], results, limit)
        otlp = {"otlp": [*OTLP, *(word for test in missing.skips() for word in ("--skip", test))]}
        for name, command in {**otlp, **MEASUREMENTS}.items() if is_long else ():
            if is_wanted(f"{LONG}::{name}"):
                step(f"{LONG}::{name}", command, results, limit)
    except KeyboardInterrupt:
        return interrupted()
    results.skipped_for_missing(missing.pairs)
    results.print_summary(times)
    # The summary names the tests that are skipped.
    seen = [text for text in filters if text.rpartition("::")[2] not in missing.skips()]
    without_test = [text for text in seen if not any(takes(text, path) for path in results.seconds)]
    if without_test:
        print(f"test: {none_for(without_test)}", file=sys.stderr)
    if results.failed:
        return FAILED
    return COULD_NOT_RUN if without_test or not results.passed else PASSED
