"""Runs a command beside servers of this machine: ports for the servers, signals for the command, and the end of both."""

import argparse
import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

TIME_LIMIT_PASSED, NOT_STARTED = 124, 125
KILL_AFTER_SECONDS = 15
PR_SET_PDEATHSIG = 1
# The signals that go on to the command.
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Linux gives ports from 32768 on to clients.
PORTS = range(20000, 32768)


class ServerError(Exception):
    """Why a server did not start, on one line."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Leaves names with hyphens whole."""

    def _split_lines(self, text, width):
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Ports:
    """Different ports of the loopback address, which no other server of these scripts takes as long as this object lives.

    They are below those that the system gives to clients, any of whose connections could else take one before the server does.
    """

    def __init__(self, count):
        self.numbers, self._claims = [], []
        candidates = list(PORTS)
        random.shuffle(candidates)
        while len(self.numbers) < count:
            if not candidates:
                raise ServerError(f"no {count} ports of 127.0.0.1 from {PORTS.start} to {PORTS.stop - 1} are free")
            self._try(candidates.pop())

    def _try(self, number):
        # A name that lives as long as the process at most.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0sequence-stress port {number}")
            with socket.socket() as port:
                port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                port.bind(("127.0.0.1", number))
        except OSError:
            claim.close()
            return
        self._claims.append(claim)
        self.numbers.append(number)

    def release(self):
        for claim in self._claims:
            claim.close()


class Running:
    """Servers that run within a block, with a folder of their own, `scratch`; `__exit__` ends them, also where they do not start."""

    # What the name of the folder begins with.
    PREFIX = None

    def __enter__(self):
        self.scratch = Path(tempfile.mkdtemp(prefix=self.PREFIX))
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self


def prepare_child():
    """Runs in the server's process: it dies with its parent, and a Ctrl-C at the terminal does not reach it."""
    os.setsid()
    end_with_parent(signal.SIGKILL)


def end_with_parent(number=signal.SIGTERM):
    """Has this process get a signal when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def heed_interrupts():
    """What a shell runs in the background ignores interrupts, and so would the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)


def run(command, environment, time_limit, say, started=lambda pid: None):
    """Runs `command` to its end and returns its exit code; signals sent to this script go on to it.

    `say` prints a line. `started` gets the pid of the command.
    """
    # At a terminal the command stays in the foreground group, where Ctrl-C reaches it by itself.
    at_terminal = os.isatty(0)
    # A signal that comes while the command starts waits until there is a command to get it.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    try:
        child = subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=not at_terminal, preexec_fn=heed_interrupts)
    except OSError as problem:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        say(f"cannot run '{command[0]}': {problem.strerror}")
        return 127
    started(child.pid)

    def pass_on(number, _frame):
        if not (at_terminal and number == signal.SIGINT):
            signal_child(child, number, whole_group=not at_terminal)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    try:
        code = child.wait(time_limit)
        return 128 - code if code < 0 else code
    except subprocess.TimeoutExpired:
        say(f"'{command[0]}' ran for over {time_limit} s: ending it")
        end(child, whole_group=not at_terminal)
        return TIME_LIMIT_PASSED


def signal_child(child, number, whole_group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number) if whole_group else child.send_signal(number)


def end(child, whole_group):
    """Ends the command, or after KILL_AFTER_SECONDS the hard way."""
    signal_child(child, signal.SIGTERM, whole_group)
    try:
        child.wait(KILL_AFTER_SECONDS)
    except subprocess.TimeoutExpired:
        signal_child(child, signal.SIGKILL, whole_group)
        child.wait()


def interrupt_on_signals():
    """Has SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does, until there is a command that gets them."""

    def interrupted(_number, _frame):
        raise KeyboardInterrupt

    for number in PASSED_ON:
        signal.signal(number, interrupted)


@contextlib.contextmanager
def undisturbed():
    """Has the signals that end this process wait until the block is over."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
