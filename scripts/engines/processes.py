"""The processes below this one: which there are, and how all of them are ended."""

import contextlib
import ctypes
import os
import signal
import threading
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
# How long a process may take to end after SIGTERM, before SIGKILL.
PATIENCE_SECONDS = 5
# SIGKILL ends a process at once, unless the kernel is busy with it.
KILLED_SECONDS = 60
POLL_SECONDS = 0.01
REAP_SECONDS = 1


def keep_orphans():
    """From now on this process is the parent of each process below it whose own parent ends; so none is lost."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def running(has_ended=False):
    """The name and the parent's pid of each process of this machine, by pid: of those that run, or else of those that have ended."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name may have blanks and parentheses.
            before, _, after = stat.read_text(errors="replace").rpartition(")")
            state, parent = after.split()[:2]
            if (state in "ZX") == has_ended:
                found[int(stat.parent.name)] = before.partition("(")[2], int(parent)
    return found


def below(pid):
    """The names of the processes below a process, by pid."""
    everything = running()
    children = {}
    for child, (_, parent) in everything.items():
        children.setdefault(parent, []).append(child)
    found, rest = {}, [pid]
    while rest:
        mine = children.get(rest.pop(), [])
        found.update((child, everything[child][0]) for child in mine)
        rest += mine
    return found


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def reap():
    """Takes note of children that have ended; returns whether there are others."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
    return False


class Reaper(threading.Thread):
    """Takes note of orphans that have ended, each second. Until then, the kernel keeps an entry for each.

    `spared` has the pids of children whose exit codes somebody waits for. The pid of a child that has just been started may not be there
    yet, so the thread acts when it sees an orphan for the second time.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.spared, self.is_over = set(), threading.Event()

    def run(self):
        mine, before = os.getpid(), set()
        while not self.is_over.wait(REAP_SECONDS):
            ended = {pid for pid, (_, parent) in running(has_ended=True).items() if parent == mine} - self.spared
            for pid in ended & before:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            before = ended

    def stop(self):
        self.is_over.set()
        self.join()


def end_all(is_last=lambda name: False):
    """Ends all processes below this one: first, with SIGTERM, those whose name is not one of the last ones. Returns the pids that remain."""
    mine = os.getpid()

    def first():
        return [pid for pid, name in below(mine).items() if not is_last(name)]

    signal_all(first(), signal.SIGTERM)
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until and first():
        time.sleep(POLL_SECONDS)
    until = time.monotonic() + KILLED_SECONDS
    while time.monotonic() < until:
        # A process that is killed may have started another one meanwhile.
        signal_all(below(mine), signal.SIGKILL)
        if not reap():
            return []
        time.sleep(POLL_SECONDS)
    return list(below(mine))
