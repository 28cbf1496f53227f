"""Runs a command as ranks the way an Indexed Job of Kubernetes does: python3 indexed.py RANKS COMMAND [ARGUMENT ...]

Each rank has JOB_COMPLETION_INDEX, which Kubernetes sets, and the two variables that examples/kubernetes sets. The exit code is the highest of
the ranks'; that of a rank which a signal ended is 128 and the signal's number.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from running import Ports, heed_interrupts


def main():
    count, command = int(sys.argv[1]), sys.argv[2:]
    ports = Ports(1)
    shared = {"SEQUENCE_STRESS_RANKS": str(count), "SEQUENCE_STRESS_RENDEZVOUS": f"127.0.0.1:{ports.numbers[0]}"}

    def start(index):
        environment = {**os.environ, **shared, "JOB_COMPLETION_INDEX": str(index)}
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, preexec_fn=heed)

    def heed():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        heed_interrupts()

    # What signals the group reaches each rank by itself.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ranks = [start(index) for index in range(count)]
    codes = [rank.wait() for rank in ranks]
    ports.release()
    return max(128 - code if code < 0 else code for code in codes)


if __name__ == "__main__":
    sys.exit(main())
