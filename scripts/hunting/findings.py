"""What a hunt found: cases, of which those that are alike are one finding, and what is written of them."""

import collections
import dataclasses

from triton import programs

from .fingerprint import fingerprint
from .tool import TIME_UP

# What no failure file tells of: the server's process ended, or the tool did not come to its end.
SERVER_DIED, DID_NOT_END = "server-died", "did-not-end"


@dataclasses.dataclass(frozen=True)
class Case:
    """One run in which something was wrong."""

    turn: object
    kind: str
    cause: str
    words: str
    # The failure file; none where the run left none.
    failure: object = None
    # How the server died, with the end of its log.
    death: str = ""
    log: tuple = ()
    # How the run can be had again.
    command: str = ""
    # Where the files of the run are, without their endings; None where the run left no result.
    run: object = None

    def key(self):
        """Cases that agree in this are taken for the same until one of them turns out not to be."""
        return self.turn.model, self.turn.scenario, self.kind, self.cause


@dataclasses.dataclass
class Finding:
    """Cases whose shrunk conversations are alike."""

    kind: str
    cause: str
    # The lines of the shrunk conversation's shape; none where it was not made small.
    shape: list
    case: Case
    # What there is to tell of making it small.
    shrunk: str
    is_small: bool = False
    messages: int = 0
    chart: str = ""
    # The failure file and the script, as texts.
    failure: str = ""
    script: str = ""
    # Release -> what the replays there came to.
    releases: dict = dataclasses.field(default_factory=dict)
    # Release -> in how many runs of the hunt it was met.
    met: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # The models and scenarios that it was met with.
    models: set = dataclasses.field(default_factory=set)
    scenarios: set = dataclasses.field(default_factory=set)

    def fingerprint(self):
        return fingerprint(self.kind, self.cause, self.shape)

    def is_the_same(self, other):
        """Whether another finding is this one: one that was not made small goes by its kind and cause alone."""
        if not other.is_small:
            return self.is_like(other)
        return self.is_small and self.fingerprint() == other.fingerprint()

    def is_like(self, other):
        return (self.kind, self.cause) == (other.kind, other.cause)

    def is_smaller_than(self, other):
        """Whether this one tells more of the same: the other was not made as small."""
        return not other.is_small and bool(self.shape) and (self.is_small or not other.shape or self.messages < other.messages)

    def take_in(self, other):
        """What was met as another finding."""
        self.met.update(other.met)
        self.models |= other.models
        self.scenarios |= other.scenarios

    def is_traced(self, release):
        """Whether it is known how often it fails in a release, or why that cannot be known."""
        replayed = self.releases.get(release)
        return replayed is not None and (replayed.runs > 0 or replayed.problem != TIME_UP)

    def meet(self, case):
        self.met[case.turn.release] += 1
        self.models.add(case.turn.model)
        self.scenarios.add(case.turn.scenario)

    def failed_in(self):
        """The releases in which a replay, or a run of the hunt, had it."""
        return {release for release, replayed in self.releases.items() if replayed.failed} | set(self.met)


class Book:
    """The findings of a hunt, in the order in which they were made."""

    def __init__(self):
        self.findings = []
        self.known = collections.defaultdict(list)

    def known_as(self, case):
        """The finding that a case will be, going by a case before it; none where that one was in releases that are not this one."""
        for finding in self.known[case.key()]:
            replayed = finding.releases.get(case.turn.release)
            if replayed is None or replayed.failed or case.turn.release in finding.met:
                return finding
        return None

    def add(self, finding):
        """Takes a finding in, or adds its case to the one that it is; returns that, and whether it is new."""
        same = next((its for its in self.findings if its.is_the_same(finding)), None)
        is_new = same is None or finding.is_smaller_than(same)
        kept = finding if is_new else same
        if is_new:
            self.findings.append(finding)
            if finding.shape:
                self.absorb(finding)
        kept.meet(finding.case)
        self.known[finding.case.key()].append(kept)
        return kept, is_new

    def absorb(self, finding):
        """A finding that was not made small is taken for this one of its kind and cause."""
        for other in [its for its in self.findings if finding.is_like(its) and finding.is_smaller_than(its)]:
            self.findings.remove(other)
            finding.take_in(other)
            for findings in self.known.values():
                findings[:] = [finding if its is other else its for its in findings]


def span(names, failed):
    """Where something failed, as far as it was tried: from and until which release, and on which servers that are no release."""
    others = [name for name in names if not programs.is_release(name)]
    releases = [name for name in names if name not in others]
    bad = [name for name in releases if name in failed]
    places = [between(releases, bad)] if bad else []
    places += [name for name in others if name in failed]
    if not places:
        return "in none that was tried"
    good = [name for name in others if name not in failed]
    return ", ".join(places) + (f", not in {', '.join(good)}" if good else "")


def between(releases, bad):
    """From and until which of the releases something is bad, and in which between it is not: the releases are in their order."""
    first, last = bad[0], bad[-1]
    gaps = [release for release in releases[releases.index(first) : releases.index(last)] if release not in bad]
    text = first if first == last else f"{first} to {last}"
    return f"{text}, not in {', '.join(gaps)}" if gaps else text


def rate(replayed):
    """How often a replay failed, in words."""
    if replayed is None:
        return "not tried"
    if not replayed.runs:
        return f"not known: {replayed.problem}"
    text = f"{replayed.failed} of {replayed.runs}"
    return f"{text} ({', '.join(replayed.otherwise)} besides)" if replayed.otherwise else text
