"""What a hunt leaves: a folder for each finding, and a table of all."""

import collections
import shlex

from .findings import rate, span

# What a turn has in place of a scenario where runs are drawn.
SEARCH = "search"
# At most so many rows say how far a hunt was in time.
REACHED_ROWS = 10


def heading(finding):
    cause = f", {finding.cause}" if finding.cause else ""
    return f"{finding.kind}{cause}"


def write(folder, number, finding, releases, endpoints):
    """Writes the folder of one finding, and returns its name."""
    name = "-".join([f"{number:02}", finding.kind, *([finding.cause] if finding.cause and finding.cause != finding.kind else [])])
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    if finding.failure:
        (place / "failure.toml").write_text(finding.failure)
    if finding.script:
        (place / "repeat.py").write_text(finding.script)
    if finding.case.log:
        (place / "server.log").write_text("\n".join(finding.case.log) + "\n")
    (place / "finding.md").write_text(text(finding, releases, endpoints))
    return name


def text(finding, releases, endpoints):
    """A finding, to be read by people and reported upstream."""
    case = finding.case
    setting = f", {case.turn.setting}" if case.turn.setting else ""
    lines = [f"# {heading(finding)}", "", case.words, ""]
    lines.append(f"- Fails: {span(releases, finding.failed_in())}")
    if finding.met:
        lines.append(f"- Met with: {', '.join(sorted(finding.models))}; in {', '.join(sorted(finding.scenarios))}")
    lines += [
        f"- Found: release {case.turn.release}, {case.turn.model}, scenario {case.turn.scenario}, seed {case.turn.seed}{setting}",
        f"- Size: {finding.shrunk}",
        f"- Fingerprint: {finding.fingerprint()}",
    ]
    if case.death:
        lines.append(f"- The server {case.death}; server.log has the end of its log")
    lines += ["", "## Releases", "", *release_table(finding, releases), ""]
    if finding.shape:
        lines += ["## What the clients do", "", "A line is one worker, or several that do the same.", "", "```text", *finding.shape, "```", ""]
    if finding.chart:
        lines += ["## What happens", "", "```text", finding.chart, "```", ""]
    return "\n".join([*lines, *how_again(finding, endpoints)])


def release_table(finding, releases):
    rows = [f"| {release} | {rate(finding.releases.get(release))} | {finding.met.get(release, 0)} |" for release in releases]
    return ["| release | replays that failed | runs of the hunt that met it |", "|---|---|---|", *rows]


def how_again(finding, endpoints):
    """How to have it again, with the tool and without."""
    lines = [line for what, command in commands(finding, endpoints) for line in (f"# {what}", command)]
    return ["## How to have it again", "", "```sh", *lines, "```", ""]


def commands(finding, endpoints):
    """What each command has again, and the command. It is run in the finding's folder."""
    case = finding.case
    starter = endpoints.starter(case.turn.release, case.turn.setting)
    what = "a search like the one that found it, which draws other runs" if case.turn.scenario == SEARCH else "the run that found it"
    its = [(what, f"{starter} -- {case.command}" if endpoints.can_reload else case.command)]
    if finding.failure:
        reloads = f"{starter} --explicit -- sequence-stress replay failure.toml -n 10 --reload"
        its.append(("the failure, in runs of its own", reloads if endpoints.can_reload else "sequence-stress replay failure.toml -n 10 -u HOST:PORT"))
    if finding.script:
        alone = f"{starter} -- sh -c {shlex.quote('python3 repeat.py $TRITON_GRPC')}" if endpoints.can_reload else "python3 repeat.py HOST:PORT"
        its.append(("the same with NVIDIA's client alone", alone))
    return its


def summary(findings, names, releases, coverage, notes, took, reached=()):
    """The table of all findings, what was run, and how far a hunt that learns was in time."""
    lines = ["# What the hunt found", ""]
    if findings:
        lines += ["| finding | fails in | messages | replays that failed, by release |", "|---|---|---|---|"]
        for finding, name in zip(findings, names, strict=True):
            rates = "; ".join(f"{release}: {rate(finding.releases[release])}" for release in releases if release in finding.releases)
            size = finding.messages if finding.is_small else f"{finding.messages or '?'}, {finding.shrunk}"
            lines.append(f"| [{heading(finding)}]({name}/finding.md) | {span(releases, finding.failed_in())} | {size} | {rates} |")
    else:
        lines.append("Nothing.")
    lines.append("")
    if coverage:
        lines += [f"## What was run, in {took / 60:.1f} minutes", "", *coverage_table(coverage, releases), ""]
    if reached:
        lines += ["## What the runs reached", "", *reached_table(reached), ""]
    lines += ["## Notes", "", *(f"- {note}" for note in notes), ""] if notes else []
    return "\n".join(lines)


def reached_table(reached):
    """How far the hunt was in time, in some of its rows."""
    step = -(-len(reached) // REACHED_ROWS)
    shown = [*reached[step - 1 : -1 : step], reached[-1]]
    rows = [
        f"| {row['elapsed_s'] / 60:.0f} | {row['runs']} | {row['requests']} | {row['pairs']} | {row['new_in_next_run']:.2f} | {row['unseen_at_least']:.0f} |"
        for row in shown
    ]
    return ["| minutes | runs | requests | pairs of transitions | new in next run | unseen, at least |", "|---|---|---|---|---|---|", *rows]


def coverage_table(coverage, releases):
    """`coverage` has for each (release, model, scenario) how many runs there were, by what came of them."""
    models = list(dict.fromkeys(model for _, model, _ in coverage))
    together = collections.defaultdict(collections.Counter)
    for (release, model, _), counts in coverage.items():
        together[release, model].update(counts)
    lines = ["| release | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    for release in releases:
        cells = [", ".join(f"{count} {what}" for what, count in together[release, model].items()) or "none" for model in models]
        lines.append(f"| {release} | " + " | ".join(cells) + " |")
    return lines
