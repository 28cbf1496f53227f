"""The hunt itself: turns, what is done about a violation, and what is left in the end."""

import collections
import dataclasses
import glob
import itertools
import shutil
import sys
import time
from pathlib import Path

from . import document, fingerprint, schedule, tool, writing
from .endpoints import EndpointError
from .findings import DID_NOT_END, SERVER_DIED, Book, Case, Finding

# A run's slots are counted after it, and what is under way is waited for; one that takes so much longer than was asked for does not end.
BESIDES_SECONDS = 90
# What is under way when the time is up may go on for so long.
REST_SECONDS = 30
# How often a case is looked into until what is left of it is told as it is.
LOOKS = 4
# The replays on one release get at least this.
LEAST_SECONDS = 5
LOG_LINES = 60
# A run of a hunt is short; one that is not gets the events around its violations, and before its end.
HISTORY_LIMIT = "64MiB"
FOUND, UNKNOWN, NOT_TESTED = 1, 3, 4


def say(text):
    print(f"hunt: {text}", file=sys.stderr, flush=True)


class Hunt:
    def __init__(self, endpoints, the_tool, folder, clock, run_seconds, runs, first_seed=None, has_histories=False, learning=None):
        self.endpoints, self.tool, self.folder, self.clock = endpoints, the_tool, folder, clock
        self.run_seconds, self.runs = run_seconds, runs
        # The first seed is None where nothing is looked for.
        self.first_seed, self.has_histories = first_seed, has_histories
        # What was learnt, where runs are drawn; else each run has a scenario.
        self.learning = learning
        self.version = the_tool.version()
        self.schema_version = document.schema_version()
        # Whether it came to its end.
        self.is_complete = False
        self.began, self.started_at = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.book = Book()
        self.cases = []
        # How often each case was looked into, and each kind and cause, and what is left so far of those that need more time.
        self.looks = collections.Counter()
        self.partly = {}
        self.names = []
        self.models = {}
        # (release, model, scenario) -> how many runs there were, by what came of them; and how many seconds these took.
        self.coverage = collections.defaultdict(collections.Counter)
        self.seconds = collections.Counter()
        # The runs of which files may be there, each without the endings of these files.
        self.held = set()
        # What was told once is not told again.
        self.notes = {}
        (folder / "runs").mkdir(parents=True, exist_ok=True)

    def run(self, sweeps):
        """Holds sweeps until there are no more, or the time is up; between two of them what was met is made small."""
        took = 0
        for sweep in sweeps:
            began = time.monotonic()
            for turns in sweep:
                self.models.update(dict.fromkeys(turn.model for turn in turns))
                if self.clock.left():
                    self.release(turns)
            took = max(took, time.monotonic() - began)
            self.look_into_cases(took)
            self.trace_more(took)
            if not self.clock.left():
                break
        self.look_into_cases(0)
        self.trace_more(0)

    def note(self, text):
        if text not in self.notes:
            say(text)
            self.notes[text] = True

    def release(self, turns):
        """The turns of one release; what a violation may have broken for good is not there for the next one."""
        left = list(turns)
        while left and self.clock.left():
            left_before = len(left)
            try:
                with self.endpoints.at(left[0].release, left[0].setting) as server:
                    before = None
                    while left and self.clock.left():
                        turn = left.pop(0)
                        case = self.turn(server, turn, before)
                        before = turn, self.command(turn)
                        if case:
                            self.meet(case)
                        self.forget_runs()
                        if case:
                            break
            except EndpointError as problem:
                self.note(f"{turns[0].release}: {problem}")
                if len(left) == left_before:
                    for turn in left:
                        self.count(turn, document.NOT_RUN)
                    return

    def turn(self, server, turn, before=None):
        """One run; what was wrong in it, or nothing. `before` is the turn that the server had before, and its command."""
        try:
            server.load(turn.model)
        except EndpointError as problem:
            self.count(turn, document.NOT_RUN)
            if not server.death():
                raise
            # Nobody was asked anything since the run before.
            behind, command = before or (turn, "")
            words = f"The server {server.death()} behind a run, or when the next model was loaded: {problem}"
            return Case(behind, SERVER_DIED, "", words, command=command, death=server.death(), log=tuple(server.log(LOG_LINES)))
        place = self.place(turn)
        failure, result, history = (document.file(place, ending) for ending in ("toml", document.RESULT, document.HISTORY))
        what = self.words(turn)
        most = self.run_seconds + BESIDES_SECONDS
        limit = min(most, self.clock.left() + REST_SECONDS)
        # A search restarts nothing.
        restart = ["--restart-command", server.restart_command] if server.restart_command and not self.learning else []
        # The runs of a search are small.
        bounds = [] if self.learning else ["--history-limit", HISTORY_LIMIT]
        kept = ["--history", history, *bounds] if self.has_histories else []
        began = time.monotonic()
        ran = self.tool.run(*what, *addresses(server), *restart, *kept, "-q", "--fail-fast", "--failure", failure, "--json", result, limit=limit)
        searched = self.learning.take_in(result, time.monotonic() - self.began) if self.learning else {}
        written = tool.result(result)
        first = tool.violation(written)
        self.schema_version = written["schema_version"] if written else self.schema_version
        told = {"command": self.command(turn), "failure": failure if failure.exists() else None}
        told["run"] = place if written else None
        if server.death():
            told.update(death=server.death(), log=tuple(server.log(LOG_LINES)))
        took = time.monotonic() - began
        for what, count in (searched or {verdict(ran): 1}).items():
            self.count(turn, what, took / (len(searched) or 1), count)
        if first:
            return Case(turn, first.kind, first.cause, first.words, **told)
        if server.death():
            return Case(turn, SERVER_DIED, "", f"The server {server.death()} before it answered.", **told)
        if not ran.in_time and limit == most and (ran.hung or tool.lawful_wait(written) < BESIDES_SECONDS):
            how = "and had to be killed" if ran.hung else "and ended when it was told to"
            return Case(turn, DID_NOT_END, "", f"The run went on for over {most} s, {how}: {ran.last_line()}", **told)
        if ran.code == tool.WRONG_INPUT or (ran.code not in document.VERDICTS and ran.in_time):
            how = "not run" if ran.code == NOT_TESTED else f"exit code {ran.code}"
            self.note(f"{turn.scenario} on {turn.release}, {turn.model}: {how}: {ran.last_line()}")
        return None

    def words(self, turn):
        """What the tool is told of a run."""
        if self.learning:
            return self.learning.words(turn, self.run_seconds)
        return ["--scenario", turn.scenario, "-m", turn.model, "-r", turn.seed, "--duration", f"{self.run_seconds}s"]

    def command(self, turn):
        """The command of a run, to be had again."""
        return " ".join(["sequence-stress", *map(str, self.words(turn))])

    def place(self, turn):
        """Where the files of a run go, without their endings. Files of different folders may have one name."""
        place = self.folder / "runs" / f"{turn.release}-{turn.model}-{Path(turn.scenario).stem}-{turn.seed}"
        places = (place.with_name(f"{place.name}-{number}") if number > 1 else place for number in itertools.count(1))
        place = next(its for its in places if its not in self.held)
        self.held.add(place)
        return place

    def count(self, turn, what, seconds=0.0, runs=1):
        """Counts what came of runs."""
        key = turn.release, turn.model, turn.scenario
        self.coverage[key][what] += runs
        self.seconds[key] += seconds

    def meet(self, case):
        """Keeps a case, or counts it where it is known what it is."""
        known = self.book.known_as(case)
        turn = case.turn
        say(f"{turn.release}, {turn.model}, {turn.scenario}, seed {turn.seed}: {case.kind} {case.cause}{' (known)' * bool(known)}")
        if known:
            known.meet(case)
        else:
            self.cases.append(case)

    def look_into_cases(self, sweep_took):
        """Makes small what was met, as far as there is time for it; in the end what there is no time for is told as it is."""
        while self.cases:
            # What was not looked into yet comes first, and what is likely to be something else.
            self.cases.sort(key=lambda case: self.looks[case.kind, case.cause] + self.looks[case])
            case = self.cases[0]
            limit = schedule.share(self.clock.left(), sweep_took, len(self.cases))
            if not limit and sweep_took:
                return
            known = self.book.known_as(case)
            if known:
                known.meet(case)
                self.cases.remove(case)
                continue
            self.look_into(case, limit)
            self.write()
            if sweep_took and self.looks[case] > 1:
                return

    def look_into(self, case, limit):
        """Makes a case small, if that takes no longer; a new finding is traced."""
        ends = time.monotonic() + limit
        self.looks.update([case, (case.kind, case.cause)])
        finding = self.shrunk(case, self.partly.get(case), schedule.SHRINKING * limit)
        wants_more = not finding.is_small and (finding.shape or finding.shrunk.endswith(tool.TIME_UP))
        if wants_more and limit and self.looks[case] < LOOKS:
            say(f"{writing.heading(finding)}: {finding.shrunk}; more of it later")
            self.partly[case] = finding
            return
        finding, is_new = self.book.add(finding)
        self.cases.remove(case)
        say(f"{'new' if is_new else 'the same as before'}: {writing.heading(finding)}: {finding.shrunk}")
        if is_new and finding.failure:
            self.trace(finding, ends)

    def take_up(self, path):
        """Traces a failure file that is there already, and is small."""
        failure = fingerprint.read(path)
        scenario = failure["scenario"]
        turn = schedule.Turn(self.endpoints.releases[0], scenario["target"]["model"], path.name, failure["seed"], self.endpoints.settings[0])
        case = Case(turn, failure["kind"], "", failure["found"], path, command=f"sequence-stress replay {path.name} --reload")
        finding = Finding(case.kind, "", fingerprint.shape(failure), case, f"{fingerprint.messages(failure)} messages", is_small=True)
        finding.messages, finding.failure, finding.script = fingerprint.messages(failure), path.read_text(), self.script(path)
        self.book.findings.append(finding)
        say(f"{path}: {finding.kind}, {finding.shrunk}")
        while self.clock.left() and not all(map(finding.is_traced, self.endpoints.releases)):
            self.trace(finding, time.monotonic() + self.clock.left())
        self.write()

    def end(self):
        """Keeps what is there as it is: nothing more is run."""
        self.clock.stop()
        self.look_into_cases(0)

    def shrunk(self, case, before, limit):
        """The finding that a case is, made small where that can be done; `before` is what was left of it the last time."""
        as_it_is = before or self.whole(case)
        if case.failure is None or case.death:
            return as_it_is
        if limit <= 0:
            return before or self.told(as_it_is, tool.TIME_UP)
        source, small = case.failure.with_suffix(".part.toml"), case.failure.with_suffix(".small.toml")
        source.write_text(as_it_is.failure)
        small.unlink(missing_ok=True)
        try:
            with self.endpoints.at(case.turn.release, case.turn.setting, case.turn.model) as server:
                ran = self.replay(source, server, "--shrink", "-o", small, limit=limit)
                death = server.death()
                if death:
                    self.keep_log(f"{case.kind} was made small", case.turn.release, server)
        except EndpointError as problem:
            return self.told(as_it_is, str(problem))
        finally:
            source.unlink()
        if not small.exists():
            why = f"the server {death}" if death else tool.TIME_UP if not ran.in_time else ran.last_line()
            return before or self.told(as_it_is, why)
        failure = fingerprint.read(small)
        messages, whole = fingerprint.messages(failure), self.whole(case).messages
        # A later round begins with what an earlier one left: its line has that number, not the one of the whole failure.
        line = ran.last_line().partition("; written to")[0]
        return Finding(
            kind=case.kind,
            cause=tool.cause(ran.output) or case.cause,
            shape=fingerprint.shape(failure),
            case=case,
            shrunk=f"{messages} {'message' if messages == 1 else 'messages'} left of {whole}: {line.partition(': ')[2] or line}",
            is_small="each is needed" in ran.output,
            messages=messages,
            chart=tool.chart(ran.output),
            failure=small.read_text(),
            script=self.script(small),
        )

    def script(self, failure):
        try:
            return self.tool.script(failure)
        except tool.ToolError as problem:
            self.note(str(problem))
            return ""

    def whole(self, case):
        """A case as it was met."""
        finding = Finding(case.kind, case.cause, [], case, "the run left no failure file")
        if case.failure:
            finding.failure = case.failure.read_text()
            finding.messages = fingerprint.messages(fingerprint.read(case.failure))
            finding.shrunk = "not made small, because the server dies of it" if case.death else "not made small"
        return finding

    def told(self, finding, why):
        finding.shrunk = f"not made small: {why}"
        return finding

    def replay(self, failure, server, *words, limit):
        reload = ["--reload"] if self.endpoints.can_reload else []
        return self.tool.run("replay", failure, *addresses(server), "-q", *reload, *words, limit=limit)

    def trace_more(self, sweep_took):
        """Replays findings where there was no time for it before, if there is some now."""
        for finding in self.book.findings if not self.cases else []:
            limit = schedule.share(self.clock.left(), sweep_took, 1)
            if limit and finding.failure:
                self.trace(finding, time.monotonic() + limit)

    def trace(self, finding, ends):
        """Replays a finding on every release on which that was not done."""
        path = self.folder / "runs" / "traced.toml"
        path.write_text(finding.failure)
        left_out = [release for release in self.endpoints.releases if not finding.is_traced(release)]
        for place, release in enumerate(left_out):
            left = min(ends - time.monotonic(), self.clock.left())
            limit = max(LEAST_SECONDS, left / (len(left_out) - place))
            finding.releases[release] = self.replayed(finding, path, release, limit) if left > 0 else tool.Replayed(0, 0, (), tool.TIME_UP)

    def replayed(self, finding, path, release, limit):
        """What replays of a finding come to on one release."""
        case = finding.case
        try:
            with self.endpoints.at(release, case.turn.setting, case.turn.model) as server:
                ran = self.replay(path, server, "--chart", "-n", self.runs, limit=limit)
                seen = tool.replayed(ran, finding.kind, self.runs)
                death = server.death()
                if death:
                    self.keep_log(f"{finding.kind} was replayed", release, server)
        except EndpointError as problem:
            return tool.Replayed(0, 0, (), str(problem))
        finding.chart = finding.chart or tool.chart(ran.output)
        finding.cause = finding.cause or tool.cause(ran.output)
        if death and case.death:
            return tool.Replayed(1, max(1, seen.runs))
        return dataclasses.replace(seen, runs=max(1, seen.runs), otherwise=(*seen.otherwise, SERVER_DIED)) if death else seen

    def keep_log(self, when, release, server):
        """Keeps the end of the log of a server that died otherwise than in a run."""
        path = self.folder / "runs" / f"death-{len(self.notes) + 1:02}-{release}.log"
        path.write_text("\n".join(server.log(LOG_LINES)) + "\n")
        self.note(f"{release}: the server {server.death()} while {when}; the end of its log is in runs/{path.name}")

    def write(self):
        """Writes all that is known so far."""
        releases, findings = self.endpoints.releases, self.book.findings
        for name in self.names:
            # A finding may have turned out to be another one since.
            shutil.rmtree(self.folder / name)
        names = [writing.write(self.folder, number, finding, releases, self.endpoints) for number, finding in enumerate(findings, 1)]
        self.names = names
        took = time.monotonic() - self.began
        reached = self.learning.reached if self.learning else []
        text = writing.summary(findings, names, releases, self.coverage, [*self.notes, *self.left_over()], took, reached)
        (self.folder / "summary.md").write_text(text)
        document.write(self.folder / document.NAME, document.of(self, took))
        self.forget_runs()
        return text

    def forget_runs(self):
        """Removes results and histories of runs that found nothing new."""
        needed = {case.run for case in [*self.cases, *(finding.case for finding in self.book.findings)]}
        for place in self.held - needed:
            self.held.remove(place)
            document.file(place, document.RESULT).unlink(missing_ok=True)
            # The tool joins the parts of a history, unless it was killed.
            for path in place.parent.glob(glob.escape(f"{place.name}.{document.HISTORY}") + "*"):
                path.unlink()

    def exit_code(self):
        """The process's exit code; as long as the hunt goes on, that of an interrupt."""
        findings = self.book.findings
        replays = [replayed for finding in findings for replayed in finding.releases.values()]
        # A replay in which something else was wrong is no good end, either.
        if self.cases or any(finding.failed_in() for finding in findings) or any(its.otherwise for its in replays):
            return FOUND
        if not self.is_complete:
            return UNKNOWN
        met = sum(self.coverage.values(), collections.Counter())
        if met[document.VALID] or met[document.TOO_SLOW] or any(its.runs for its in replays):
            return 0
        return UNKNOWN if met.total() - met[document.NOT_RUN] else NOT_TESTED

    def left_over(self):
        """What is waiting; in the end there is none."""
        return [f"not looked into yet: {case.turn.release}: {case.kind} {case.cause}: {case.command}" for case in self.cases]


def addresses(server):
    return ["-u", server.url, *(["--metrics-url", server.metrics] if server.metrics else [])]


def verdict(ran):
    if not ran.in_time:
        return document.ENDED_EARLY
    return document.VERDICTS.get(ran.code, document.NOT_RUN)
