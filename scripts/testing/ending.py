"""Waits for a process that has a session of its own; ends the process and its group at a limit or an interrupt."""

import contextlib
import os
import signal
import subprocess
import time

# How long a process may take after SIGTERM, before SIGKILL. `with-triton` stops its server meanwhile.
PATIENCE_SECONDS = 10


def wait(process, limit):
    """Returns the process's exit code, and whether the process ran longer than `limit` seconds and was ended."""
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
