"""Runs a command as ranks under an engine: Slurm, MPICH, Open MPI, or processes like the pods of an Indexed Job of Kubernetes.

Whatever happens, no process remains: `with-slurm` or `enclosed.py` runs the engine, and ends all that is below it.
"""

import collections
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from running import end_with_parent

from . import processes, slurm

HERE = Path(__file__).resolve().parent
WITH_SLURM = HERE.parent / "with-slurm"
PYTHON = [sys.executable, "-S"]
NODES = 4
# How long the engine and its processes may take beyond the limit, before they are killed.
GRACE_SECONDS = 120
POLL_SECONDS = 0.02

# An engine: the package that has its program, that program, and the words that start N ranks.
Engine = collections.namedtuple("Engine", "package program words")

ENGINES = {
    "srun": Engine(slurm.PACKAGE, "srun", "srun --mpi=none --kill-on-bad-exit=0 -n {count}"),
    "srun-pmi2": Engine(slurm.PACKAGE, "srun", "srun --mpi=pmi2 --kill-on-bad-exit=0 -n {count}"),
    "mpich": Engine("mpich", "mpiexec.hydra", "mpiexec.hydra -n {count}"),
    "openmpi": Engine("openmpi-bin", "mpirun.openmpi", "mpirun.openmpi --oversubscribe -n {count}"),
    "indexed": Engine(None, sys.executable, None),
}
# What the engines need besides on a test machine: to listen at the loopback address alone, and for Open MPI to run as root.
EXTRA = {
    "mpich": ["-localhost", slurm.LOOPBACK, "-iface", "lo"],
    "openmpi": ["--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo", "--mca", "orte_tmpdir_base", "{folder}"],
}
AS_ROOT = {"openmpi": ["--allow-run-as-root"]}


class LaunchError(Exception):
    """Why the ranks could not be started, on one line."""


class Rank(collections.namedtuple("Rank", "code output errors")):
    """One rank: its exit code, or minus the number of the signal that ended it; None if the engine killed it or never started it."""


class Ran(collections.namedtuple("Ran", "code output ranks in_time")):
    """What came of a launch: the engine's exit code, the engine's own output, the ranks, and whether the time limit was not reached."""


def is_here(name):
    """Whether this machine has the engine."""
    engine = ENGINES[name]
    return bool(shutil.which(engine.program)) and (engine.package != slurm.PACKAGE or all(shutil.which(program, path=slurm.PATH) for program in slurm.PROGRAMS))


def engine_words(name, count, folder):
    """The command that starts `count` ranks of the command behind it. `folder` is for files of the engine."""
    if name == "indexed":
        return [*PYTHON, str(HERE / "indexed.py"), str(count)]
    first, *rest = ENGINES[name].words.format(count=count).split()
    extra = [word.format(folder=folder) for word in EXTRA.get(name, []) + (AS_ROOT.get(name, []) if os.geteuid() == 0 else [])]
    # Slurm spreads the ranks over the nodes.
    nodes = [f"-N{min(NODES, count)}"] if first == "srun" else []
    return [first, *extra, *nodes, *rest]


class Launch:
    """Ranks that run; a context manager that ends them.

    `with Launch("mpich", 4, command, 60) as launch: ran = launch.wait()`
    """

    def __init__(self, name, count, command, limit, variables=None):
        if not is_here(name):
            engine = ENGINES[name]
            raise LaunchError(f"'{engine.program}' is missing: install it with 'apt-get install --no-install-recommends {engine.package}'")
        self.count, self.limit = count, limit
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-"))
        around = [str(WITH_SLURM), f"-N{NODES}"] if ENGINES[name].package == slurm.PACKAGE else [*PYTHON, str(HERE / "enclosed.py")]
        rank = [*PYTHON, str(HERE / "rank.py"), str(self.folder)]
        words = [sys.executable, *around] if around[0] == str(WITH_SLURM) else around
        words += ["--time-limit", str(limit), "--", *engine_words(name, count, self.folder), *rank, *map(str, command)]
        own = {name: value for name, value in os.environ.items() if not slurm.FOREIGN.match(name)}
        self.log = open(self.folder / "engine.log", "wb")  # noqa: SIM115 (it is closed at the end of the launch)
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env={**own, **(variables or {})},
            start_new_session=True,
            preexec_fn=end_with_parent,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pid(self, rank):
        """Waits until a rank runs; returns its pid."""
        path = self.folder / f"{rank}.pid"
        self.until(path.exists, f"rank {rank} did not start")
        return int(path.read_text())

    def until(self, is_so, otherwise):
        """Waits until `is_so()`, for as long as the ranks run."""
        deadline = time.monotonic() + self.limit + GRACE_SECONDS
        while not is_so():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise LaunchError(f"{otherwise}: {self.engine_output().strip() or 'the engine printed nothing'}")
            time.sleep(POLL_SECONDS)

    def printed(self, rank):
        """What a rank has printed up to now, and its errors."""
        return self._text(f"{rank}.out") + self._text(f"{rank}.err")

    def signal(self, number):
        """Sends a signal to the engine, as a scheduler or Ctrl-C would."""
        self.process.send_signal(number)

    def signal_ranks(self, number):
        """Sends a signal to each rank, as Kubernetes does, and as Slurm does for `scancel --signal`."""
        for rank in range(self.count):
            os.kill(self.pid(rank), number)

    def wait(self):
        """Waits for the end of all ranks."""
        try:
            code = self.process.wait(self.limit + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            raise LaunchError(f"the engine did not end {GRACE_SECONDS} s after the limit of {self.limit} s: {self.engine_output()}") from None
        ranks = [Rank(self._code(rank), self._text(f"{rank}.out"), self._text(f"{rank}.err")) for rank in range(self.count)]
        is_ended = f"ran for over {self.limit} s: ending it" in self.engine_output()
        return Ran(code, self.engine_output(), ranks, not is_ended)

    def end(self):
        """Kills the ranks and the engine; what encloses them then ends the rest."""
        until = time.monotonic() + GRACE_SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            processes.signal_all((pid for pid, name in processes.below(self.process.pid).items() if not slurm.DAEMON.match(name)), signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_SECONDS)
        self.process.kill()
        self.process.wait()

    def engine_output(self):
        return self._text("engine.log")

    def _code(self, rank):
        text = self._text(f"{rank}.code")
        return int(text) if text else None

    def _text(self, name):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""


def run(name, count, command, limit, variables=None):
    """Runs `command` as `count` ranks to its end, or ends it after `limit` seconds."""
    with Launch(name, count, command, limit, variables) as launch:
        return launch.wait()
