"""A hunt as one JSON object: docs/hunt.schema.json describes it, and `sequence-stress report` reads it."""

import json
from pathlib import Path

from . import tool, writing

NAME = "hunt.json"
# The endings of a run's files.
RESULT, HISTORY = "json", "jsonl.zst"
# What a run came to, by its exit code, and where the exit code does not tell.
VALID, TOO_SLOW = "valid", "too slow"
VERDICTS = {0: VALID, 1: "with violations", 3: "unknown", 5: TOO_SLOW}
ENDED_EARLY, NOT_RUN = "ended early", "not run"
SCHEMA = Path(__file__).resolve().parents[2] / "docs/hunt.schema.json"


def schema_version():
    """The version of the form, of which the schema comes from the tool's own types."""
    return json.loads(SCHEMA.read_text())["properties"]["schema_version"]["const"]


def file(place, ending):
    """A file of a run. A scenario's name may have dots."""
    return place.with_name(f"{place.name}.{ending}")


def of(hunt, took):
    """A hunt as it is now, which has taken so many seconds; each finding is in the folder of its name."""
    releases = hunt.endpoints.releases
    return {
        "schema_version": hunt.schema_version,
        "tool_version": hunt.version,
        "exit_code": hunt.exit_code(),
        "complete": hunt.is_complete,
        "started_at": hunt.started_at,
        "first_seed": hunt.first_seed,
        "took_s": took,
        "releases": list(releases),
        "models": list(hunt.models),
        "coverage": [covered(*key, counts, hunt.seconds[key]) for key, counts in hunt.coverage.items()],
        "reached": hunt.learning.reached if hunt.learning else [],
        "findings": [found(finding, name, hunt.endpoints) for finding, name in zip(hunt.book.findings, hunt.names, strict=True)],
        "waiting": [waiting(case) for case in hunt.cases],
        "notes": list(hunt.notes),
    }


def covered(release, model, scenario, counts, seconds):
    outcomes = {what.replace(" ", "_"): counts[what] for what in (*VERDICTS.values(), ENDED_EARLY, NOT_RUN)}
    return {"release": release, "model": model, "scenario": scenario, **outcomes, "took_s": seconds}


def found(finding, name, endpoints):
    case = finding.case
    return {
        "name": name,
        "kind": finding.kind,
        "cause": finding.cause or None,
        "fingerprint": finding.fingerprint(),
        "words": case.words,
        "size": finding.shrunk,
        "is_small": finding.is_small,
        "messages": finding.messages,
        "shape": finding.shape,
        "chart": finding.chart,
        "models": sorted(finding.models),
        "scenarios": sorted(finding.scenarios),
        "releases": [of_release(finding, release) for release in endpoints.releases],
        "found": run(case),
        "again": [{"what": what, "command": command} for what, command in writing.commands(finding, endpoints)],
        "death": case.death or None,
        "result": tool.result(file(case.run, RESULT)) if case.run else None,
    }


def of_release(finding, release):
    replayed = finding.releases.get(release)
    replays = replayed and {"failed": replayed.failed, "runs": replayed.runs, "otherwise": list(replayed.otherwise), "problem": replayed.problem or None}
    return {"release": release, "met": finding.met[release], "replays": replays}


def run(case):
    turn = case.turn
    return {
        "release": turn.release,
        "model": turn.model,
        "scenario": turn.scenario,
        "seed": turn.seed,
        "setting": turn.setting and str(turn.setting),
        "command": case.command,
    }


def waiting(case):
    return {"kind": case.kind, "cause": case.cause or None, "words": case.words, "found": run(case)}


def write(path, document):
    """Writes it in one go: somebody may be reading what was written before."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)
