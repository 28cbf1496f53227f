"""Runs sequence-stress, each time with a limit."""

import dataclasses
import json
import re
import signal
import subprocess
import tempfile

# What was told to end gets so long, and is then killed.
GRACE_SECONDS = 20
# A page has a bound, and so have the histories that it is made from.
REPORT_SECONDS = 600
OUTPUT_MAX = 200_000
WRONG_INPUT = 2
# What stands behind a scenario that takes too long for a suite.
OUTSIDE = "(not in the suite)"
TIME_UP = "the time was up"


class ToolError(Exception):
    """Why the tool could not be used, on one line."""


@dataclasses.dataclass(frozen=True)
class Ran:
    """What came of one command."""

    code: int
    output: str
    # Whether it came to its end by itself.
    in_time: bool
    # Whether it had to be killed: it did not end when it was told to.
    hung: bool = False

    def last_line(self):
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing"


@dataclasses.dataclass(frozen=True)
class Replayed:
    """In how many of so many runs a failure showed again."""

    failed: int
    runs: int
    # Other kinds that showed in place of it.
    otherwise: tuple = ()
    # Why there are fewer runs than were asked for.
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Violation:
    """The first violation of a run."""

    kind: str
    cause: str
    words: str


class Tool:
    def __init__(self, binary):
        self.binary = str(binary)

    def run(self, *words, limit):
        """Runs it to its end, or tells it to end when the limit has passed."""
        with tempfile.TemporaryFile() as out:
            try:
                child = subprocess.Popen(
                    [self.binary, *map(str, words)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=heed_interrupts,
                )
            except OSError as problem:
                raise ToolError(f"cannot run '{self.binary}': {problem.strerror}") from problem
            in_time, hung = True, False
            try:
                child.wait(limit)
            except subprocess.TimeoutExpired:
                in_time = False
                hung = not ended(child)
            finally:
                if child.poll() is None:
                    ended(child)
            size = out.seek(0, 2)
            out.seek(max(0, size - OUTPUT_MAX))
            return Ran(child.returncode, out.read().decode(errors="replace"), in_time, hung)

    def scenarios(self):
        """The names of the suite's scenarios."""
        said = self.run("scenarios", limit=GRACE_SECONDS)
        if said.code:
            raise ToolError(f"'{self.binary} scenarios': {said.last_line()}")
        return [line.split()[0] for line in said.output.splitlines() if not line.endswith(OUTSIDE)]

    def version(self):
        """The tool's version; empty where the tool does not say it."""
        said = self.run("--version", limit=GRACE_SECONDS)
        return "" if said.code else said.last_line().rpartition(" ")[2]

    def report(self, results, *words):
        """Writes results in other forms; returns None, or on one line why that failed."""
        said = self.run("report", results, *words, limit=REPORT_SECONDS)
        if said.code == 0:
            return None
        return said.last_line() if said.in_time else f"it took more than {REPORT_SECONDS} s"

    def script(self, failure):
        """A failure as a script for NVIDIA's client."""
        said = self.run("export", failure, limit=GRACE_SECONDS)
        if said.code:
            raise ToolError(f"'{self.binary} export {failure}': {said.last_line()}")
        return said.output


def heed_interrupts():
    """What a shell runs in the background ignores interrupts, and so does all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended(child):
    """Tells a process to end; whether it did, or had to be killed."""
    for number in (signal.SIGINT, signal.SIGKILL):
        child.send_signal(number)
        try:
            child.wait(GRACE_SECONDS)
            return number == signal.SIGINT
        except subprocess.TimeoutExpired:
            pass
    return False


def result(path):
    """The result of a run, as a dict; None where the file has none."""
    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return written if isinstance(written, dict) and "violations" in written else None


def lawful_wait(written):
    """How many seconds a run may wait for what a correct server still does, by its result; 0 where there is no result."""
    return written["limits_us"]["longest_lawful_wait"] / 1e6 if written else 0


def violation(written):
    """The first violation in a run's result; None where it has none, or there is no result."""
    if not written or not written["violations"]:
        return None
    first = written["violations"][0]
    causes = [explanation["cause"] for explanation in first.get("explanations", [])]
    words = f"sent {first['sent']}; expected {first['expected']}; saw {first['seen']}"
    return Violation(first["kind"], causes[0] if causes else "", words)


def cause(output):
    """The likeliest cause that the tool has named, or nothing."""
    found = re.search(r"^\s+cause ([a-z-]+):", output, re.MULTILINE)
    return found[1] if found else ""


def chart(output):
    """The chart in what `replay` printed, with the violation below it; nothing where there is none."""
    lines = output.splitlines()
    begins = [place for place, line in enumerate(lines) if line.startswith("-> is sent by the client")]
    if not begins:
        return ""
    ends = (place for place in range(begins[-1], len(lines)) if re.match(r"[a-z-]+: (failed|did not fail) in ", lines[place]))
    others = (place for place in range(begins[-1], len(lines)) if re.match(r"\d+ messages? (left|in) ", lines[place]))
    return "\n".join(lines[begins[-1] : min(next(ends, len(lines)), next(others, len(lines)))])


def replayed(ran, kind, asked):
    """What `replay` says of how often a failure showed."""
    otherwise = tuple(re.findall(r"^([a-z-]+) instead in \d+ run", ran.output, re.MULTILINE))
    failed = re.search(rf"^{kind}: failed in (\d+) of (\d+) run", ran.output, re.MULTILINE)
    if failed:
        return Replayed(int(failed[1]), int(failed[2]), otherwise, "" if int(failed[2]) == asked else TIME_UP)
    none = re.search(rf"^{kind}: did not fail in (\d+) run", ran.output, re.MULTILINE)
    if none:
        return Replayed(0, int(none[1]), otherwise, "" if int(none[1]) == asked else TIME_UP)
    return Replayed(0, 0, otherwise, ran.last_line() if ran.in_time else TIME_UP)
