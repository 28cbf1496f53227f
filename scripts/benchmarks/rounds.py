"""Interleaved rounds: their options, their order, their summary, and their limits.

A comparison is made round by round. What slows the machine down for a while then slows both sides.
"""

import dataclasses
import datetime
import json
import os
import platform
import statistics
import subprocess

from triton import install
from triton.arguments import positive, program

from .measuring import LENGTH, BenchError, say

RESULTS = install.ROOT / "bench-results"
LIMIT_MISSED = 3
# How often a round begins that a stuck program breaks off.
ATTEMPTS = 3
# What clients cost, by column: title and decimal places.
CLIENT_COLUMNS = {"cpu_us_per_request": ("CPU us/request", 2), "requests_per_second": ("requests/s", 0), "peak_mib": ("peak MiB", 1)}
# The smallest load of a quick form.
QUICK = {"rounds": 1, "concurrency": 4, "iterations": 2, "time_limit": 30}


class Stuck(BenchError):
    """Another project's program did not come to its end, and the round can be repeated. `remedy` is what the user can do."""

    def __init__(self, problem, remedy):
        super().__init__(problem)
        self.remedy = remedy


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two rows whose values in a column are compared round by round: by ratio, or by difference."""

    label: str
    of: str
    to: str
    column: str = "cpu_us_per_request"
    is_ratio: bool = True
    # Limits of the median.
    at_least: float | None = None
    at_most: float | None = None

    def compare(self, rows):
        of, to = rows[self.of][self.column], rows[self.to][self.column]
        return of / to if self.is_ratio else of - to

    def limit(self):
        """The limit in words; nothing where there is none."""
        bounds = [("at least", self.at_least), ("at most", self.at_most)]
        return ", ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)

    def is_kept(self, median):
        return (self.at_least is None or median >= self.at_least) and (self.at_most is None or median <= self.at_most)


def add_options(parser, rounds, iterations, time_limit=120):
    parser.add_argument("--rounds", type=positive, default=rounds, metavar="N", help="number of rounds (default: %(default)s)")
    parser.add_argument(
        "--concurrency", type=positive, default=16, metavar="N", help="number of workers, each with one sequence at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--iterations",
        type=positive,
        default=iterations,
        metavar="N",
        help=f"iterations of each worker in a round, each a sequence of {LENGTH} steps (default: %(default)s)",
    )
    parser.add_argument(
        "--time-limit",
        type=positive,
        default=time_limit,
        metavar="SECONDS",
        help="for each run of a program; then the program is killed (default: %(default)s)",
    )


def measured(options, groups):
    """The figures of all rounds: a dict for each round, from row to figures.

    `groups` are lists of (row, measure); `measure(seed)` returns the row's figures. A round takes one group after the other, and
    the next round begins each group with another row.
    """
    rounds = []
    for number in range(1, options.rounds + 1):
        rounds.append(one_round(number, options.rounds, groups))
        say(f"round {number} of {options.rounds} is done")
    return rounds


def one_round(number, of, groups):
    attempt = 1
    while True:
        try:
            rows = {}
            for group in groups:
                first = (number - 1) % len(group)
                for row, measure in group[first:] + group[:first]:
                    rows[row] = measure(number)
            # Every round in the same order of rows.
            return {row: rows[row] for group in groups for row, _ in group}
        except Stuck as problem:
            if attempt == ATTEMPTS:
                raise BenchError(f"round {number} of {of} did not end in {ATTEMPTS} attempts: {problem}; {problem.remedy}") from problem
            say(f"{problem}; repeating round {number} of {of} (attempt {attempt + 1} of {ATTEMPTS})")
            attempt += 1


def check_requests(rounds):
    """Raises where rows that are compared are of different numbers of requests."""
    if len({values["requests"] for rows in rounds for values in rows.values()}) > 1:
        counts = ", ".join(f"{row} {values['requests']}" for row, values in rounds[-1].items())
        raise BenchError(f"the rows have different numbers of responses: {counts}")


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(values, digits):
    return f"{values['median']:.{digits}f} ({values['min']:.{digits}f}..{values['max']:.{digits}f})"


def summarized(rounds, columns, pairs):
    rows = {row: {column: spread([each[row][column] for each in rounds]) for column in columns} for row in rounds[0]}
    return {"rows": rows, "compared": {pair.label: spread([pair.compare(each) for each in rounds]) for pair in pairs}}


def report(options, scratch, what, rounds, columns, pairs, more=()):
    """Prints the summary and writes the results; returns the exit code, which is 3 where a limit is missed.

    `what` names the requests. `more` are (sentence, whether a limit is kept, figures) of what is not measured in rounds.
    """
    summary = summarized(rounds, columns, pairs)
    summary["more"] = {sentence: figures for sentence, _, figures in more}
    limited = [pair for pair in pairs if pair.limit()]
    missed = [pair.label for pair in limited if not pair.is_kept(summary["compared"][pair.label]["median"])]
    missed += [sentence for sentence, is_kept, _ in more if not is_kept]
    if options.quick:
        print("quick form: every program ran; the figures mean nothing, and no limit is judged")
    elif missed:
        print("\n".join(f"limit missed: {each}" for each in missed))
    elif limited or more:
        print("every limit is kept")
    requests = next(iter(rounds[0].values()))["requests"]
    print(f"median (min..max) of {len(rounds)} round{'s' * (len(rounds) > 1)} of {requests} requests {what}")
    cells = [["", *(title for title, _ in columns.values())]]
    for row, values in summary["rows"].items():
        cells.append([row, *(shown(values[column], digits) for column, (_, digits) in columns.items())])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for pair in pairs:
        print(f"{pair.label}: {shown(summary['compared'][pair.label], 2)}" + f" (limit: {pair.limit()})" * bool(pair.limit()))
    for sentence, _, _ in more:
        print(sentence)
    path = written(options, scratch if options.quick else RESULTS, rounds, summary)
    print("results: not kept" if options.quick else f"results: {path}")
    return LIMIT_MISSED if missed and not options.quick else 0


def commit():
    """The commit of the measured tree; `None` where git cannot tell."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=install.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def written(options, folder, rounds, summary):
    now = datetime.datetime.now()
    document = {
        "date": now.isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
        "triton": program(options).name if hasattr(options, "release") else None,
        "options": vars(options),
        "summary": summary,
        "rounds": rounds,
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{options.benchmark}-{now:%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(document, indent=2, default=str) + "\n")
    return path
