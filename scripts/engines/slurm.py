"""Runs a Slurm cluster on this machine: slurmctld, a slurmd for each node, and munged, which authenticates them to each other.

Everything that the cluster writes is in one temporary folder, and its daemons listen at 127.0.0.1 alone.
"""

import ctypes
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from running import Ports, ServerError, prepare_child, undisturbed

from . import processes

PACKAGE = "slurm-wlm"
PROGRAMS = ["munged", "slurmctld", "slurmd", "sinfo", "srun"]
# Debian keeps daemons where the PATH of a user who is not root does not look.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
CPUS_PER_NODE = 16
# A machine that is very busy is no reason to give up: a daemon that ends is seen at once.
READY_SECONDS = 120
QUESTION_SECONDS = 30
POLL_SECONDS = 0.02
START_ATTEMPTS = 3
LOG_LINES = 10
KEY_BYTES = 128
# Slurm's sockets are in this folder, and a path of a socket has at most 107 bytes.
FOLDER_CHARACTERS = 60
CLONE_NEWUTS, CLONE_NEWUSER = 0x04000000, 0x10000000
LOOPBACK, LOOPBACK_NAME = "127.0.0.1", "localhost"
# The names of Slurm's own processes. Among them is slurmstepd, which ends when the last task of its step has ended.
DAEMON = re.compile(r"munged|slurm")
# Variables of another Slurm or MPI job, in which this process may run.
FOREIGN = re.compile(r"(SLURM|SLURMD|SBATCH|SALLOC|SRUN|PMI|PMIX|OMPI)_")

CONFIGURATION = """\
ClusterName=stress
SlurmctldHost={host}({address})
SlurmctldPort={port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/%n
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs={cpus} State=UNKNOWN\n"


def programs():
    """The paths of Slurm's programs, by name."""
    found = {name: shutil.which(name, path=PATH) for name in PROGRAMS}
    lacking = [name for name, path in found.items() if not path]
    if lacking:
        names = ", ".join(f"'{name}'" for name in lacking)
        raise ServerError(f"{names} not found: install Slurm with 'apt-get install --no-install-recommends {PACKAGE}'")
    return found


def user():
    """The name of this process's user, as whom all daemons and all jobs run."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise ServerError(f"Slurm needs the name of its user, and user {os.getuid()} has none: run this as a user of /etc/passwd") from None


def is_loopback(name):
    try:
        return {address[0] for *_, address in socket.getaddrinfo(name, None, socket.AF_INET)} == {LOOPBACK}
    except OSError:
        return False


def loopback_host():
    """The name of this machine, which has the address 127.0.0.1. With NoInAddrAny, Slurm listens at the address that this name has.

    If the name has no address or another one, this process and all that it starts get a name of their own.
    """
    name = socket.gethostname()
    if not is_loopback(name):
        unshare_name(name)
        name = LOOPBACK_NAME
    return name.partition(".")[0]


def unshare_name(name):
    """Gives this process and all that it starts the name `localhost`, as which no other process knows the machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    ids = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUTS) != 0:
        # Who is not root may do so in a user namespace, in which the user remains the same.
        if libc.unshare(CLONE_NEWUTS | CLONE_NEWUSER) != 0:
            why = f"this machine's name '{name}' is not {LOOPBACK}, and this process may not have another name ({os.strerror(ctypes.get_errno())})"
            raise ServerError(f"{why}: add the line '{LOOPBACK} {name}' to /etc/hosts")
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        for kind, number in zip(("uid_map", "gid_map"), ids):
            (own / kind).write_text(f"{number} {number} 1")
    socket.sethostname(LOOPBACK_NAME)


def obstacle():
    """Why no cluster can start on this machine, on one line; None where one can. It changes nothing."""
    check = f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r}); from engines import slurm; slurm.programs(); slurm.loopback_host()"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1].partition(": ")[2] if done.returncode else None


class Cluster:
    """A running Slurm cluster; a context manager that stops it, and all that runs below this process, whatever happens."""

    def __init__(self, nodes):
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        self.programs, self.user, self.host = programs(), user(), loopback_host()
        self.daemons, self.ports, self.folder = {}, None, None
        self.reaper = processes.Reaper()

    def __enter__(self):
        for name in [name for name in os.environ if FOREIGN.match(name)]:
            del os.environ[name]
        processes.keep_orphans()
        try:
            self._start()
            # Each step leaves a slurmstepd on each of its nodes.
            self.reaper.spared.update(daemon.pid for daemon in self.daemons.values())
            self.reaper.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *_):
        if self.reaper.is_alive():
            self.reaper.stop()
        self.stop()

    def environment(self):
        """What a command needs to find the cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def stop(self):
        """Ends the daemons, the jobs, and all else below this process. The daemons' state is in the folder, and goes with it."""
        with undisturbed():
            remaining = processes.end_all(is_last=DAEMON.match)
            if remaining:
                print(f"with-slurm: the processes {', '.join(map(str, remaining))} do not end; end them with kill -9", file=sys.stderr)
            self.daemons = {}
            if self.ports:
                self.ports.release()
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self):
        for attempt in range(1, START_ATTEMPTS + 1):
            self.ports = Ports(1 + len(self.nodes))
            self._write()
            problem = self._spawn_all()
            if not problem:
                return
            logs = self._logs()
            self.stop()
            # Between finding a port free and the daemon's taking it somebody else may have.
            if "in use" not in logs or attempt == START_ATTEMPTS:
                raise ServerError(f"Slurm did not start: {problem}; the end of its logs:\n{logs}")

    def _write(self):
        self.folder = Path(tempfile.mkdtemp(prefix="with-slurm-"))
        if len(str(self.folder)) > FOLDER_CHARACTERS or not re.fullmatch(r"[\w./-]+", str(self.folder), re.ASCII):
            self.folder.rmdir()
            self.folder = Path(tempfile.mkdtemp(prefix="with-slurm-", dir="/tmp"))
        for name in ["state", "log", *(f"spool/{node}" for node in self.nodes)]:
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(KEY_BYTES))
        port, *node_ports = self.ports.numbers
        common = dict(host=self.host, address=LOOPBACK)
        lines = [NODE.format(name=node, port=its, cpus=CPUS_PER_NODE, **common) for node, its in zip(self.nodes, node_ports)]
        # A partition names nodes that are above it.
        head, partition, tail = CONFIGURATION.partition("PartitionName=")
        text = head.format(folder=self.folder, port=port, user=self.user, **common) + "".join(lines) + partition + tail
        (self.folder / "slurm.conf").write_text(text)

    def _spawn(self, name, *command):
        output = self.folder / "log" / f"{name}.output"
        with open(output, "wb") as log:
            self.daemons[name] = subprocess.Popen(
                [self.programs[command[0]], *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment()},
                preexec_fn=prepare_child,
            )

    def _spawn_all(self):
        """Starts the daemons; returns None when all nodes are idle, or else what went wrong."""
        until = time.monotonic() + READY_SECONDS
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed", "log-file": "log/munged"}
        # `--force`: munged warns of folders that others cannot enter, and nobody else shall.
        self._spawn("munged", "munged", "--foreground", "--force", *(f"--{option}={self.folder / file}" for option, file in files.items()))
        problem = self._wait((self.folder / "munge.socket").exists, "munged made no socket", until)
        if problem:
            return problem
        self._spawn("slurmctld", "slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
        problem = self._wait(self._answers, "slurmctld did not answer", until)
        if problem:
            return problem
        for node in self.nodes:
            self._spawn(node, "slurmd", "-D", "-f", str(self.folder / "slurm.conf"), "-N", node)
        return self._wait(self._is_idle, "a node was not idle", until)

    def _wait(self, is_so, otherwise, until):
        """Waits until `is_so()`; returns None then, and else what went wrong."""
        while not is_so():
            for name, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    return f"{name} {ended(daemon.returncode)}"
            if time.monotonic() > until:
                return f"{otherwise} after {READY_SECONDS} s"
            time.sleep(POLL_SECONDS)
        return None

    def _answers(self):
        with socket.socket() as attempt:
            return attempt.connect_ex((LOOPBACK, self.ports.numbers[0])) == 0

    def _is_idle(self):
        command = [self.programs["sinfo"], "-h", "-N", "-o", "%T"]
        try:
            done = subprocess.run(command, env={**os.environ, **self.environment()}, capture_output=True, text=True, timeout=QUESTION_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.stdout.split() == ["idle"] * len(self.nodes)

    def _logs(self):
        """The end of each log that is not empty."""
        lines = []
        for path in sorted((self.folder / "log").iterdir()):
            text = path.read_text(errors="replace").splitlines()
            lines += [f"  {path.name}: {line}" for line in text[-LOG_LINES:]]
        return "\n".join(lines) or "  they are empty"


def ended(code):
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
