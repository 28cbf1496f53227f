"""Waits for a process that has a session of its own, and ends what it leaves behind."""

import contextlib
import os
import signal
import subprocess
import time

# How long what is told to end may take, before it is killed. `with-triton` stops its server meanwhile.
PATIENCE_SECONDS = 10


def wait(process, limit):
    """The process's exit code, and whether it had to be ended because it took longer than the limit, in seconds."""
    try:
        return process.wait(limit), False
    except subprocess.TimeoutExpired:
        end(process)
        return process.returncode, True
    except BaseException:  # An interrupt, above all.
        end(process)
        raise


def end(process):
    """Ends the process and its group."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
            wait_for_group(process)


def wait_for_group(process):
    """Waits until the group is empty, for a limited time; raises `ProcessLookupError` when it is."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        process.poll()
        os.killpg(process.pid, 0)
        time.sleep(0.02)
