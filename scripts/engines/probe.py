"""What one rank sees of its engine, as one line of JSON: rank, size, variables, and what PMI answers.

python3 probe.py [--exit CODE] [--without-finalize] [--into FOLDER]

PMI is a protocol of lines over the socket PMI_FD, which srun --mpi=pmi2 and MPICH's mpiexec give to each rank. Each request begins with
`cmd=`, and the engine answers each with one line. The words of a line are NAME=VALUE, and their order is not fixed.
"""

import argparse
import json
import os
import re
import sys

VARIABLES = re.compile(
    r"(SLURM_(PROCID|NTASKS|STEP_\w+|STEPID|LOCALID|NODEID|JOB_ID)|PMI_(RANK|SIZE|FD|JOBID)|OMPI_COMM_WORLD_(RANK|SIZE)|PMIX_NAMESPACE|JOB_COMPLETION_INDEX|SEQUENCE_STRESS_RANKS|SEQUENCE_STRESS_RENDEZVOUS)$"
)
# Rank and number of ranks, by engine. The first that is there counts: mpiexec within an allocation of Slurm starts helpers by srun, whose
# variables the ranks inherit.
PLACES = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("JOB_COMPLETION_INDEX", "SEQUENCE_STRESS_RANKS"),
]
VALUE_BYTES = 512


class Pmi:
    """The socket PMI_FD, and all that was sent and received on it."""

    def __init__(self, number):
        self.number, self.said = number, []

    def ask(self, line):
        """Sends a line and returns the words of the answer."""
        os.write(self.number, f"{line}\n".encode())
        answer = b""
        while not answer.endswith(b"\n"):
            byte = os.read(self.number, 1)
            if not byte:
                sys.exit(f"probe: PMI was closed behind '{line}', before it answered")
            answer += byte
        self.said.append([line, answer.decode().removesuffix("\n")])
        return dict(word.split("=", 1) for word in answer.decode().split())

    def exchange(self, rank, size):
        """Begins, has each rank put a value, and gets the values of all ranks after a barrier."""
        self.ask("cmd=init pmi_version=1 pmi_subversion=1")
        self.ask("cmd=get_maxes")
        name = self.ask("cmd=get_my_kvsname")["kvsname"]
        self.ask(f"cmd=put kvsname={name} key=rank-{rank} value={str(rank) * VALUE_BYTES}")
        self.ask("cmd=barrier_in")
        got = [self.ask(f"cmd=get kvsname={name} key=rank-{number}").get("value") for number in range(size)]
        self.ask(f"cmd=get kvsname={name} key=nobody-put-it")
        return got


def place():
    """Rank and number of ranks, and the variable that has the rank."""
    for rank, size in PLACES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size]), rank
    return None, None, None


def main():
    parser = argparse.ArgumentParser(prog="probe", description=__doc__)
    parser.add_argument("--exit", type=int, default=0, metavar="CODE")
    parser.add_argument("--without-finalize", action="store_true")
    parser.add_argument("--into", metavar="FOLDER", help="write the line into a file of its own in FOLDER; engines mix what ranks print")
    options = parser.parse_args()
    rank, size, variable = place()
    seen = {"rank": rank, "size": size, "variable": variable}
    seen["variables"] = {name: value for name, value in sorted(os.environ.items()) if VARIABLES.match(name)}
    if "PMI_FD" in os.environ:
        pmi = Pmi(int(os.environ["PMI_FD"]))
        seen["values"] = pmi.exchange(rank, size)
        if not options.without_finalize:
            pmi.ask("cmd=finalize")
        seen["pmi"] = pmi.said
    if options.into:
        with open(f"{options.into}/{os.getpid()}.json", "w") as file:
            file.write(json.dumps(seen))
    else:
        print(json.dumps(seen), flush=True)
    return options.exit


if __name__ == "__main__":
    sys.exit(main())
