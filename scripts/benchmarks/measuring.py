"""What the benchmarks share: built programs, processes that are run and measured, and the load that they send."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from triton import native, server

# The release profile for figures: slow to build, as the published binary is.
PROFILE = "dist"
POLL_SECONDS = 0.05
# The requests of the sequence that the tool sends before a run.
SOLO = 3
SETTLE_SECONDS = 10
MODEL = "custom_sequence_int32"
# What the tool asks such a model for.
OUTPUTS = ("OUTPUT", "SEEN")
IDLE_LIMIT_MS = 1000
LENGTH = 16


def scenario(length, more=""):
    """A scenario file of whole sequences with this table `[length]`, and with more tables.

    There is no wait for the idle limit. The count of the slots is off: its requests are in no other client's count of responses.
    """
    return f"""\
[contexts]
common = 2
rare = 0
rare_probability = 0.0

[patterns]
common = {{ valid = 1.0 }}

[length]
{length}

[limits]
quiet_ms = 50

[slots]
check = false

{more}"""


# A load that perf_analyzer can send too.
SCENARIO = scenario(f"normal = {{ mean = {LENGTH}.0, stdev = 0.0 }}")


class BenchError(Exception):
    """What failed, on one line."""


class Overdue(BenchError):
    """A program ran for longer than its time limit, and was killed."""


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def tool():
    """The path of sequence-stress."""
    return program("SEQUENCE_STRESS_TOOL", native.TOOL, "-p", "sequence-stress")


def bare_client():
    """The path of the bare client, examples/bare_client."""
    return program("SEQUENCE_STRESS_BARE_CLIENT", "bare_client", "-p", "sequence-stress", "--example", "bare_client")


def native_backend():
    """The path of the native backend's library."""
    return program("SEQUENCE_STRESS_BACKEND", native.LIBRARY, "-p", "sequence-stress-backend")


def program(variable, file_name, *target):
    """The path that the environment variable names. Without the variable, builds the file and sets the variable to its path."""
    # Whatever starts a server afterwards reads these variables, and so uses the same build.
    if not os.environ.get(variable):
        os.environ[variable] = str(native.built(variable, file_name, file_name, *target, profile=PROFILE))
    return str(native.named(variable).resolve())


@dataclasses.dataclass(frozen=True)
class Ran:
    """A program that came to its end: its exit code, CPU time in s, peak memory in MiB, and what it printed."""

    code: int
    cpu_s: float
    peak_mib: float
    output: str


def run(name, command, log, time_limit, environment=None, codes=(0,)):
    """Runs `command` to its end, which has to be one of the exit codes in `codes`; `log` keeps what it prints.

    Kills the process and its group after `time_limit` seconds, and raises `Overdue`.
    """
    try:
        with open(log, "wb") as out:
            child = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **(environment or {})},
                preexec_fn=server.prepare_child,
            )
    except OSError as problem:
        raise BenchError(f"cannot run {name} ('{command[0]}'): {problem.strerror}") from problem
    deadline = time.monotonic() + time_limit
    peak_kib = 0
    pid = 0
    try:
        while True:
            peak_kib = max(peak_kib, peak_memory_kib(child.pid))
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                raise Overdue(f"{name} ran for over {time_limit} s and was killed; its last output: {last_line(log)}")
            time.sleep(POLL_SECONDS)
    finally:
        if not pid:
            os.killpg(child.pid, signal.SIGKILL)
            _, status, _ = os.wait4(child.pid, 0)
        # The process is reaped already, and Popen does not know.
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in codes:
        how = f"was ended by {signal.Signals(-child.returncode).name}" if child.returncode < 0 else f"exited with code {child.returncode}"
        raise BenchError(f"{name} {how}; its last output: {last_line(log)}")
    return Ran(child.returncode, usage.ru_utime + usage.ru_stime, peak_kib / 1024, log.read_text(errors="replace"))


def last_line(log):
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "none"


@dataclasses.dataclass(frozen=True)
class Sent:
    """A client's share of a round: its responses, their rate, the client's cost, and the result of the tool."""

    responses: int
    requests_per_second: float
    ran: Ran
    document: dict | None = None
    # The requests of the sequence that the tool sends before a run; they are in no count of the run.
    alone: int = 0

    def row(self):
        """The client's figures, by column."""
        return {
            "requests": self.responses,
            "cpu_us_per_request": self.ran.cpu_s * 1e6 / self.responses,
            "requests_per_second": self.requests_per_second,
            "peak_mib": self.ran.peak_mib,
        }


class Load:
    """Sends the requests of one round with the tool or with the bare client."""

    def __init__(self, options, scratch, outputs=()):
        """`outputs` are what the tool asks the model for, so that the bare client asks for the same."""
        self.options, self.outputs = options, outputs
        self.log, self.result = scratch / "output.log", scratch / "result.json"
        self.scenario = scratch / "scenario.toml"
        self.scenario.write_text(SCENARIO)

    def command(self, binary, endpoint, model, seed, iterations=None):
        size = ["-t", self.options.concurrency, "-i", iterations or self.options.iterations, "-r", seed]
        return [binary, *size, "-u", endpoint, "-m", model, "--scenario", self.scenario]

    def run_tool(self, name, binary, endpoint, model, seed, *flags, iterations=None):
        """With a rate, `iterations` are those of all workers together; without one, those of each."""
        command = [*self.command(binary, endpoint, model, seed, iterations), "--json", self.result, "-q", *flags]
        ran = run(name, command, self.log, self.options.time_limit)
        document = json.loads(self.result.read_text())
        return self.sent(name, document["outcomes"]["completed"], document["requests_per_second"], ran, document)

    def run_bare(self, name, binary, endpoint, model, seed, *flags):
        outputs = [word for output in self.outputs for word in ("--output", output)]
        ran = run(name, [*self.command(binary, endpoint, model, seed), *outputs, *flags], self.log, self.options.time_limit)
        counted = json.loads(ran.output.splitlines()[-1])
        return self.sent(name, counted["answered"], counted["answered"] / counted["elapsed_s"], ran)

    def sent(self, name, responses, requests_per_second, ran, document=None):
        if not responses:
            raise BenchError(f"{name} received no response; its last output: {last_line(self.log)}")
        return Sent(responses, requests_per_second, ran, document, alone=SOLO if document else 0)


class Reference:
    """A running reference server that takes no time to execute, with its own models or those of a repository; a context manager that kills it."""

    def __init__(self, binary, *options, repository=None):
        ports = ["--grpc-port", "0", "--http-port", "0", "--metrics-port", "0"]
        models = ["--model-repository", repository] if repository else ["--execution-time", "0ms"]
        self.command = [binary, "serve", *ports, *models, *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=server.prepare_child)
        # The server prints these lines when it listens, and ends by itself where it cannot.
        lines = self.process.stdout.readline() + self.process.stdout.readline()
        match = re.match(r"serving gRPC at (\S+)\nserving HTTP at (\S+)\n", lines)
        if not match:
            self.__exit__()
            raise BenchError("the reference server did not start")
        self.endpoint, self.http = match.groups()
        return self

    def __exit__(self, *_):
        # Told to end, the server would first wait for sequences that are still open.
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def pid(self):
        return self.process.pid


def peak_memory_kib(pid):
    """The peak memory of a running process since its start; 0 when the process has ended."""
    # The peak in the child's resource usage would not do: that one counts this interpreter's memory before the exec.
    try:
        match = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) if match else 0


def process_tree(root):
    """`root` and the processes below it."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    tree = [root]
    for pid in tree:
        tree.extend(children.get(pid, []))
    return tree


def cpu_seconds(root):
    """The CPU time of a process and of those below it, without those that have ended."""
    ticks = 0
    for pid in process_tree(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            raise BenchError(f"process {pid} ended while it was measured") from None
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    """The memory that a process has now."""
    match = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 / 1e6


def statistics_of(triton, model):
    """What a real server has counted of a model's inferences so far: {"success": {"count": …, "ns": …}, …}."""
    url = f"http://127.0.0.1:{triton.http_port}/v2/models/{model}/stats"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=SETTLE_SECONDS) as answer:
            (version,) = json.load(answer)["model_stats"]
    except OSError as problem:
        raise BenchError(f"cannot read the statistics of '{model}': {problem}") from problem
    return version["inference_stats"]


def counted(name, triton, model, send):
    """Calls `send`, which returns a `Sent`; returns that, and the server's statistics before and after.

    Raises `BenchError` where the server counted another number of successes than the client counted responses.
    """
    try:
        before = statistics_of(triton, model)
        sent = send()
        wanted = before["success"]["count"] + sent.responses + sent.alone
        deadline = time.monotonic() + SETTLE_SECONDS
        # The server counts a request a moment after its response.
        while (after := statistics_of(triton, model))["success"]["count"] < wanted and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    except BenchError:
        if triton.death():
            raise BenchError(f"{triton.label()} {triton.death()} while {name} ran") from None
        raise
    successes = after["success"]["count"] - before["success"]["count"] - sent.alone
    if successes != sent.responses:
        raise BenchError(f"{name} counted {sent.responses} responses and the server {successes} successes")
    return sent, before, after
