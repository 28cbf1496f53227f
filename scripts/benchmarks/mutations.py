"""Shows which changes of messages the tool notices, and which perf_analyzer does.

Each run has a reference server of its own, and `sequence-stress proxy --mutate` in front of it. A mutation is tried at one chance alone
(`once`) and at each (`each`). perf_analyzer gets the expected outputs of all its sequences, so that it can compare them. The model has
fixed shapes, because perf_analyzer 2.50 compares no outputs of a shape that is not fixed.
"""

import collections
import json
import re
import subprocess
import textwrap
import time

from triton import install, server
from triton.arguments import positive

from .measuring import MODEL, BenchError, Overdue, Reference, run, say, tool

QUICK = {"runs": 1, "only": "change-output", "when": "once"}
SOURCE = install.ROOT / "crates/wire/src/mutation/mod.rs"
PAGE = install.ROOT / "docs/MUTATIONS.md"
OURS, ANALYZER = "sequence-stress", "perf_analyzer"
FIXED = "onnx_implicit_sequence_int32"
# A correct server, for false alarms.
NONE = "none"
ONCE, EACH = "once", "each"
GRPC, HTTP = "grpc", "http"
# How much of a message the table has, in characters.
WIDTH = 60
STREAMS, LENGTH, CONCURRENCY, SEQUENCES = 20, 16, 4, 6
SCENARIO = """\
limits = { lost_after_ms = 3000, quiet_ms = 20 }
patterns.common = { valid = 6, valid-valid = 2, no-end = 1, after-end = 1 }
"""
# The mutation of calls needs some, and streams beside them.
CALLS = "lose-calls"
SCENARIO_OVER_HTTP = f"""\
{SCENARIO}
sending.transport = "http"
"""
SCENARIO_WITH_CALLS = f"""\
{SCENARIO}
population = [
    {{ name = "streams", load = {{ workers = 2, iterations = 60 }} }},
    {{ name = "calls", load = {{ workers = 2, iterations = 15 }}, sending.transport = "grpc-unary" }},
]
"""
# How long a delayed message is held back. The tool waits for a response as long as a sequence with this load may have to wait for a slot,
# which is over 8 s.
HOLD_SECONDS = 20
# Which chance is taken in the first run: a message in the middle of the load; and how much later it is in each run after that. The first
# number is for the tool, which reads statistics more often.
MIDDLE = ((60, 60), 7)
CHANCES = {
    **dict.fromkeys(("lose-start", "lose-end"), ((9, 9), 1)),
    # Over HTTP the first error is the answer to what the tool asks before its run.
    **dict.fromkeys(("response-for-error", "other-error"), ((2, 1), 0)),
    **dict.fromkeys(("lose-half-close", "keep-open"), ((3, 1), 1)),
    **dict.fromkeys(("count-more", "count-less", "count-execution"), ((6, 2), 0)),
    **dict.fromkeys(("swap-requests", "swap-responses"), ((20, 20), 3)),
    **dict.fromkeys(("end-stream", "break-stream"), ((20, 20), 3)),
    "say-not-ready": ((1, 1), 0),
}
# Where a model of another kind shows the mutation: one that is told END, and one that answers as often as it likes.
MODELS = {"lose-end": "oldest_sequence_int32", "lose-final-mark": "decoupled_sequence_int32"}

# The tool asks each second whether the model is ready, so its run has to last.
ITERATIONS = {"say-not-ready": 150}

# What a client said in one run, how often a message was changed, and how often one could have been.
Outcome = collections.namedtuple("Outcome", "says times chances")


def mutations():
    """The names of all mutations, as the proxy has them."""
    table = SOURCE.read_text().partition("pub enum Mutation")[2].partition("\n    }\n")[0]
    return re.findall(r'^ +\w+ = "([a-z-]+)", Of::', table, re.MULTILINE)


def add_options(parser):
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="runs of each client with each mutation (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutations in whose name this is")
    parser.add_argument("--when", choices=[ONCE, EACH], help="only this (default: both)")
    parser.add_argument("--time-limit", type=positive, default=20, metavar="SECONDS", help="for each run; then it is killed (default: %(default)s)")
    parser.add_argument("--over", choices=[GRPC, HTTP], default=GRPC, help="the protocol of both clients (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into docs/MUTATIONS.md")


class Proxy:
    """A proxy that changes messages on their way to a server; a context manager that ends it."""

    def __init__(self, binary, endpoint, planted, counts, seed):
        self.counts = counts
        words = [binary, "proxy", "-u", endpoint, "--while-stdin-is-open", "-r", seed]
        if planted:
            words += ["--mutate", planted, "--mutate-hold-ms", 1000 * HOLD_SECONDS, "--json", counts]
        self.command = list(map(str, words))

    def __enter__(self):
        self.counts.unlink(missing_ok=True)
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=server.prepare_child)
        for line in self.process.stdout:
            if match := re.search(r"clients connect to (\S+)", line):
                self.endpoint = match[1]
                return self
        self.__exit__()
        raise BenchError("the proxy did not start")

    def __exit__(self, *_):
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def happened(self):
        """How often a message was changed, and how often one could have been; only after the end."""
        if not self.counts.exists():
            raise BenchError("the proxy did not say what it changed")
        (of,) = json.loads(self.counts.read_text())["mutations"]
        return of["times"], of["chances"]


class Clients:
    """Runs either client through a proxy, and tells what it says."""

    def __init__(self, options, scratch):
        self.options, self.binary, self.log = options, tool(), scratch / "output.log"
        self.result, self.counts = scratch / "result.json", scratch / "counts.json"
        self.scenario, self.data, self.models = scratch / "scenario.toml", scratch / "data.json", scratch / "models"
        self.data.write_text(json.dumps(expected()))
        words = [self.binary, "repository", self.models, "--family", "implicit", "--backend", "onnxruntime", "--dtype", "int32"]
        run("repository", words, self.log, options.time_limit)
        self.analyzer, libraries = install.perf_analyzer()
        self.environment = {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}

    def outcome(self, client, mutation, planted, seed):
        model = MODELS.get(mutation, MODEL if client == OURS else FIXED)
        repository = str(self.models) if model == FIXED else None
        with Reference(self.binary, repository=repository) as reference:
            endpoint = f"http://{reference.http}" if self.options.over == HTTP else reference.endpoint
            with Proxy(self.binary, endpoint, planted, self.counts, seed) as proxy:
                says = self.heard(client, proxy.endpoint, model, mutation, seed)
            return Outcome(says, *(proxy.happened() if planted else (0, 0)))

    def heard(self, client, endpoint, model, mutation, seed):
        is_http = self.options.over == HTTP
        has_streams = mutation == CALLS and not is_http
        if client == OURS:
            self.scenario.write_text(SCENARIO_WITH_CALLS if has_streams else SCENARIO_OVER_HTTP if is_http else SCENARIO)
            size = [] if has_streams else ["-t", CONCURRENCY, "-i", ITERATIONS.get(mutation, 15)]
            return self.ours(f"http://{endpoint}" if is_http else endpoint, model, seed, size)
        limit = self.options.time_limit + (HOLD_SECONDS if mutation.startswith("delay-") else 0)
        return self.analyzers(endpoint, model, limit, [] if is_http or mutation == CALLS else ["--streaming"])

    def ours(self, endpoint, model, seed, size):
        self.result.unlink(missing_ok=True)
        words = [self.binary, *size, "-r", seed, "-u", endpoint, "-m", model, "--scenario", self.scenario]
        ran = run(OURS, [*words, "--json", self.result, "-q"], self.log, 10 * self.options.time_limit, codes=range(6))
        if not self.result.exists():
            last = (ran.output.strip().splitlines() or ["nothing"])[-1]
            return f"exit code {ran.code} before the run: “{shortened(last.removeprefix('sequence-stress: '))}”"
        return told(json.loads(self.result.read_text()))

    def analyzers(self, endpoint, model, limit, streaming):
        words = [self.analyzer, "-m", model, "-u", endpoint, "-i", self.options.over, *streaming, "--concurrency-range", CONCURRENCY]
        words += ["--request-count", CONCURRENCY * SEQUENCES * LENGTH, "--sequence-id-range", "1000000000:2000000000"]
        # A count that leaves a sequence open has it end with other steps than those of the file.
        words += ["--input-data", self.data] if model == FIXED else ["--shape", "INPUT:1", "--sequence-length", LENGTH, "--sequence-length-variation", "0"]
        try:
            ran = run(ANALYZER, words, self.log, limit, self.environment, codes=range(-64, 256))
        except Overdue:
            return "does not end"
        return said(ran.code, ran.output)


def expected():
    """Streams of inputs for perf_analyzer, with the sums that are right."""
    data, sums = [], []
    for stream in range(STREAMS):
        values = [1000 * stream + step + 1 for step in range(LENGTH)]
        data.append([{"INPUT": [value]} for value in values])
        sums.append([{"OUTPUT": [sum(values[: step + 1])]} for step in range(LENGTH)])
    return {"data": data, "validation_data": sums}


def told(document):
    """What the tool's result comes to, in a few words."""
    found = [(violation["kind"], [why["cause"] for why in violation["explanations"]][:1]) for violation in document["violations"]]
    if found:
        # The first is what the others follow from.
        kind, causes = found[0]
        return f"`{kind}`" + "".join(f", cause `{cause}`" for cause in causes)
    return {0: "nothing"}.get(document["exit_code"], document["verdict"])


def said(code, output):
    """What perf_analyzer's end comes to, in a few words."""
    if code < 0:
        return f"ended by signal {-code}"
    if match := re.search(r"had error: (?:Sequence id -?\d+ has )?(.+)", output) or re.search(r"^(?:error: )(.+)", output, re.MULTILINE):
        return f"“{shortened(match[1])}”"
    return f"exit code {code}" if code else "nothing"


def shortened(text):
    """The begin of a message, without what differs from run to run."""
    text = re.sub(r"\bsequence \d+|'[\w-]+'|\bID \d+|[\d.]+:\d+", "…", text)
    return textwrap.shorten(text, WIDTH, placeholder=" …")


def planted_at(mutation, when, client, seed):
    first, apart = CHANCES.get(mutation, MIDDLE)
    return f"{mutation}:once@{first[client == ANALYZER] + apart * (seed - 1)}" if when == ONCE else mutation


def in_run(outcome):
    """What a client said, where a message was changed."""
    if outcome.times:
        return outcome.says
    return "not reached" if outcome.chances else "no chance"


def cell(outcomes):
    """What the runs of one cell came to: each outcome, with its number where there are several."""
    counts = collections.Counter(in_run(outcome) for outcome in outcomes)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{count} of {len(outcomes)}: {says}" for says, count in counts.most_common())


def bench(options, scratch):
    clients = Clients(options, scratch)
    names = [name for name in mutations() if options.only in name]
    whens = [options.when] if options.when else [ONCE, EACH]
    if not names:
        raise BenchError(f"--only '{options.only}' is in the name of no mutation")
    for client in (OURS, ANALYZER):
        began = time.monotonic()
        outcomes = [clients.outcome(client, NONE, None, seed).says for seed in range(1, options.runs + 1)]
        took = (time.monotonic() - began) / options.runs
        say(f"no mutation: {client}: {', '.join(outcomes)}; {took:.1f} s each, with the start of the server")
        if set(outcomes) != {"nothing"}:
            raise BenchError(f"{client} accuses a correct server: {outcomes}")
    rows = []
    for name in names:
        for when in whens:
            cells = []
            for client in (OURS, ANALYZER):
                runs = range(1, options.runs + 1)
                cells.append(cell([clients.outcome(client, name, planted_at(name, when, client, seed), seed) for seed in runs]))
            rows.append(f"| `{name}` | {when} | {cells[0]} | {cells[1]} |")
            say(rows[-1])
    print("\n".join(rows))
    if options.write:
        write(rows, options.over)
    return 0


def write(rows, over):
    """Puts the rows in place of those that the page has of the same mutations."""
    text = PAGE.read_text()
    columns = f"| mutation {'over HTTP ' if over == HTTP else ''}| at | sequence-stress | perf_analyzer |"
    head, rule, rest = text.partition(f"{columns}\n|---|---|---|---|\n")
    if not rule:
        raise BenchError(f"{PAGE.name} has no table with the head {columns}")
    old = re.match(r"(?:\|.*\n)*", rest)[0]
    cells = {tuple(row.split(" | ")[:2]): row for row in [*old.splitlines(), *rows]}
    order = [(f"| `{name}`", when) for name in mutations() for when in (ONCE, EACH)]
    PAGE.write_text(head + rule + "".join(f"{cells[key]}\n" for key in order if key in cells) + rest[len(old) :])
