"""Measures what it costs that several ranks hold a run, and how long the files of many ranks take to be put together.

One process and several ranks send the same sequences to one reference server on the same machine, in turn, round by round. The CPU time
is that of all ranks together. Then the file of one rank is copied for each of many ranks, and `report --merge` reads the copies. At last
rank 0 meets as many ranks that send nothing.
"""

import asyncio
import contextlib
import json
import resource
import socket
import subprocess
import time

from triton.arguments import positive
from triton.server import prepare_child

from .many_ranks import Ranks, emptied
from .measuring import MODEL, BenchError, Load, Reference, run, say, tool
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import Pair, check_requests, measured, report
from .rounds import add_options as add_round_options

ONE, SEVERAL = "one process", "several ranks"
COLUMNS = {"cpu_us_per_request": ("CPU us/request", 2), "requests_per_second": ("requests/s", 0)}
QUICK = {**QUICK_ROUNDS, "ranks": 2, "files": 10}


def add_options(parser):
    add_round_options(parser, rounds=7, iterations=1000)
    parser.add_argument("--ranks", type=positive, default=4, metavar="N", help="ranks of the run (default: %(default)s)")
    parser.add_argument("--files", type=positive, default=1000, metavar="N", help="files that are put together, and ranks that meet (default: %(default)s)")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def others(binary, options, flags):
    """The ranks from 1 on; whoever is left in the end is killed."""
    processes = []
    try:
        for rank in range(1, options.ranks):
            command = [binary, "--rank", str(rank), *flags]
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=prepare_child))
        yield
        for process in processes:
            process.wait(options.time_limit)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def bench(options, scratch):
    binary = tool()
    load = Load(options, scratch)
    results = scratch / "results"
    with Reference(binary, "--instances", "1", "--max-batch-size", "16") as reference:

        def measure(kind, seed):
            if kind == ONE:
                document = load.run_tool("one process", binary, reference.endpoint, MODEL, seed).document
            else:
                flags = ["--of", str(options.ranks), "--rendezvous", f"127.0.0.1:{free_port()}", "--results", str(results)]
                with others(binary, options, flags):
                    document = load.run_tool("rank 0", binary, reference.endpoint, MODEL, seed, "--rank", "0", *flags).document
            row = {"requests": document["outcomes"]["completed"], "cpu_us_per_request": document["client_cpu_us_per_request"]}
            return row | {"requests_per_second": document["requests_per_second"]}

        rounds = measured(options, [[(kind, lambda seed, kind=kind: measure(kind, seed)) for kind in (ONE, SEVERAL)]])
        file = json.loads((results / "rank-1.json").read_text())
        meet(options, scratch, binary, reference.endpoint, file)
    merge(options, scratch, binary, file)
    check_requests(rounds)
    pairs = [Pair(f"{column}, {SEVERAL} / {ONE}", SEVERAL, ONE, column=column) for column in COLUMNS]
    return report(options, scratch, "to the reference server", rounds, COLUMNS, pairs)


def merge(options, scratch, binary, file):
    """Puts copies of a rank's file together, and says how long that took."""
    folder = scratch / "many"
    folder.mkdir()
    for rank in range(options.files):
        file["share"] = {"rank": rank, "of": options.files}
        (folder / f"rank-{rank}.json").write_text(json.dumps(file))
    began = time.monotonic()
    ran = run("the merge", [binary, "report", "--merge", folder, "--json", scratch / "merged.json"], scratch / "merge.log", options.time_limit)
    seconds = time.monotonic() - began
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    say(f"{options.files} files of {size:.1f} MB together: {seconds:.2f} s, {ran.cpu_s:.2f} s of CPU, peak {ran.peak_mib:.0f} MiB")


def meet(options, scratch, binary, endpoint, file):
    """Has rank 0 meet ranks that send nothing, and says how long each part of the run took."""
    count = options.files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, count + 100), hard), hard))
    part = {**emptied(file["part"]), "elapsed": {"secs": 0, "nanos": 0}}
    port, log = free_port(), scratch / "meeting.log"
    ranks = Ranks(count, port, f"{file['tool_version']}/1", part)
    flags = ["--rank", "0", "--of", count, "--rendezvous", f"127.0.0.1:{port}", "--results", scratch / "meeting", "--rendezvous-limit", "60s"]
    command = [binary, "-u", endpoint, "-m", MODEL, "-i", "1", "-r", "1", "-q", *flags]
    began = time.monotonic()
    with open(log, "wb") as out:
        rank_0 = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=prepare_child)
    try:
        asyncio.run(asyncio.wait_for(ranks.hold(), options.time_limit))
        code = rank_0.wait(options.time_limit)
    except (OSError, asyncio.IncompleteReadError, TimeoutError, subprocess.TimeoutExpired) as problem:
        raise BenchError(f"{count} ranks did not hold a run: {problem!r}; {log.read_text(errors='replace')[-300:]}") from problem
    finally:
        rank_0.kill()
        rank_0.wait()
    if code not in (0, 3):
        raise BenchError(f"rank 0 of {count} exited with {code}: {log.read_text(errors='replace')[-300:]}")
    # Those that send nothing keep the run from being valid, and none of them may be lost.
    held = json.loads((scratch / "meeting/rank-0.json").read_text())["end"]["ranks"]["ranks"]
    lost = [f"rank {number}: {rank['lost']}" for number, rank in enumerate(held) if rank.get("lost")]
    if lost:
        raise BenchError(f"{len(lost)} of {count} ranks were lost, the first: {lost[0]}")
    ended = time.monotonic()
    welcome, ready, start, done = (ranks.heard[what] for what in ("welcome", "run", "start", "done"))
    say(
        f"{count} ranks: all have met after {max(welcome) - began:.2f} s, heard of the run within {max(ready) - min(ready):.2f} s, "
        f"began within {max(start) - min(start):.2f} s, and were let go {max(done) - max(start):.2f} s later; {ended - began:.2f} s in all"
    )
