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
from pathlib import Path

from triton import install

RESULTS = install.ROOT / "bench-results"
BUILD_SECONDS = 1800
POLL_SECONDS = 0.05
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


def peak_memory_kib(pid):
    """The most memory that a running process has had since it was started, 0 when it has ended."""
    # The peak in the child's resource usage would not do: it counts this interpreter's memory before the exec.
    try:
        match = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) if match else 0


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
