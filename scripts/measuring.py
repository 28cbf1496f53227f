"""What the benchmarks share: building and running programs, counting what they cost, and showing it."""

import datetime
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

from triton import install

RESULTS = install.ROOT / "bench-results"
BUILD_SECONDS = 1800
STOP_SECONDS = 20
POLL_SECONDS = 0.05
SETTLE_SECONDS = 10
LENGTH = 16

# A load that perf_analyzer can send too: whole sequences, all of one length, and nothing that waits for the idle limit.
SCENARIO = f"""\
[contexts]
common = 2
rare = 0
rare_probability = 0.0

[patterns]
common = {{ valid = 1.0 }}

[length]
normal = {{ mean = {LENGTH}.0, stdev = 0.0 }}

[limits]
quiet_ms = 50
"""


class BenchError(Exception):
    """What failed, on one line."""


def build(name, *target):
    """Builds a release binary and returns its path."""
    command = ["cargo", "build", "--release", "--message-format=json-render-diagnostics", *target]
    try:
        done = subprocess.run(command, cwd=install.ROOT, stdout=subprocess.PIPE, text=True, timeout=BUILD_SECONDS)
    except OSError as problem:
        raise BenchError(f"cannot run cargo: {problem.strerror}")
    except subprocess.TimeoutExpired:
        raise BenchError(f"'{' '.join(command)}' took over {BUILD_SECONDS} s")
    if done.returncode:
        raise BenchError(f"'{' '.join(command)}' failed")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    paths = [message["executable"] for message in messages if message.get("executable") and message["target"]["name"] == name]
    if not paths:
        raise BenchError(f"'{' '.join(command)}' built no '{name}'")
    return paths[-1]


def run(name, command, log, time_limit, environment=None):
    """Runs `command` to its end; returns its CPU time in s, its peak memory in MiB and what it printed."""
    with open(log, "wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(environment or {})}
        )
    deadline = time.monotonic() + time_limit
    peak_kib = 0
    reaped = False
    try:
        while True:
            peak_kib = max(peak_kib, peak_memory_kib(child.pid))
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                reaped = True
                break
            if time.monotonic() > deadline:
                raise BenchError(f"{name} ran for over {time_limit} s; its last output: {last_line(log)}")
            time.sleep(POLL_SECONDS)
    finally:
        if not reaped:
            os.kill(child.pid, signal.SIGKILL)
            _, status, _ = os.wait4(child.pid, 0)
        child.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if child.returncode:
        how = f"was ended by {signal.Signals(-child.returncode).name}" if child.returncode < 0 else f"exited with code {child.returncode}"
        raise BenchError(f"{name} {how}; its last output: {last_line(log)}")
    return usage.ru_utime + usage.ru_stime, peak_kib / 1024, log.read_text(errors="replace")


class Reference:
    """A running reference server that takes no time to execute; a context manager that stops it."""

    def __init__(self, tool, *options):
        ports = ["--grpc-port", "0", "--http-port", "0", "--metrics-port", "0"]
        self.command = [tool, "serve", *ports, "--execution-time", "0ms", *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        # Its first lines come when it listens; it ends by itself where it cannot.
        lines = self.process.stdout.readline() + self.process.stdout.readline()
        match = re.match(r"serving gRPC at (\S+)\nserving HTTP at (\S+)\n", lines)
        if not match:
            self.__exit__()
            raise BenchError("the reference server did not start")
        self.endpoint, self.http = match.groups()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def pid(self):
        return self.process.pid


def load(name, tool, scratch, options, endpoint, model, seed):
    """Sends one round's requests of this tool to `endpoint`, and returns the result that it wrote."""
    result, scenario = scratch / "result.json", scratch / "scenario.toml"
    scenario.write_text(SCENARIO)
    size = ["-t", str(options.concurrency), "-i", str(options.iterations), "-r", str(seed)]
    command = [tool, *size, "-u", endpoint, "-m", model, "--scenario", str(scenario), "--json", str(result), "-q"]
    run(f"the load of the {name}", command, scratch / "output.log", options.time_limit)
    return json.loads(result.read_text())


def peak_memory_kib(pid):
    """The most memory that a running process has had since it was started, 0 when it has ended."""
    # The peak in the child's resource usage would not do: it counts this interpreter's memory before the exec.
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
    """The CPU time that a process and those below it have had, without those that have ended."""
    ticks = 0
    for pid in process_tree(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            raise BenchError(f"process {pid} ended while it was measured")
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
        raise BenchError(f"cannot read the statistics of '{model}': {problem}")
    return version["inference_stats"]


def settled_statistics_of(triton, model, successes):
    """The same when the count has reached `successes`, or does not get there."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while statistics_of(triton, model)["success"]["count"] < successes and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return statistics_of(triton, model)


def last_line(log):
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "none"


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(values, digits):
    return f"{values['median']:.{digits}f} ({values['min']:.{digits}f}..{values['max']:.{digits}f})"


def commit():
    """What the tree was when it was measured; none where git does not tell."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=install.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def write_results(options, rounds, summary):
    now = datetime.datetime.now()
    document = {
        "date": now.isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
        "triton": install.DEFAULT_RELEASE,
        "options": vars(options),
        "summary": summary,
        "rounds": rounds,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path
