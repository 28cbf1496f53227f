"""Runs a command as one rank, and writes what became of the rank: python3 rank.py FOLDER COMMAND [ARGUMENT ...]

FOLDER gets RANK.pid when the command runs, RANK.out and RANK.err with what it prints, and RANK.code with its exit code at its end. Each
file appears whole, but for the output. Engines signal each process of a rank, so this one only waits.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

# An engine's own variables come before those of an engine around it: within an allocation of Slurm, mpiexec starts its helpers by srun.
RANK_VARIABLES = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"]
FIRST_INHERITED = 3
NO_RANK, NOT_STARTED = 97, 127


def heard(_number, _frame):
    """Unlike an ignored signal, a handled one is not inherited by the command."""


def write(path, text):
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def main():
    folder, command = Path(sys.argv[1]), sys.argv[2:]
    number = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), None)
    if number is None:
        print(f"rank: none of {', '.join(RANK_VARIABLES)} is set", file=sys.stderr)
        return NO_RANK
    for heeded in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(heeded, heard)
    with open(folder / f"{number}.out", "wb") as out, open(folder / f"{number}.err", "wb") as err:
        # The engine's own descriptors, PMI_FD among them, are the command's.
        try:
            child = subprocess.Popen(command, stdout=out, stderr=err, close_fds=False)
        except OSError as problem:
            print(f"rank: cannot run '{command[0]}': {problem.strerror}", file=sys.stderr)
            return NOT_STARTED
    os.closerange(FIRST_INHERITED, os.sysconf("SC_OPEN_MAX"))
    write(folder / f"{number}.pid", str(child.pid))
    code = child.wait()
    write(folder / f"{number}.code", str(code))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
