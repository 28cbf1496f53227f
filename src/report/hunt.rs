//! What people are told of a hunt: its verdict, what came of its runs, and each finding.

use super::counted;
use crate::reading::{Covered, Finding, Hunt, OfRelease, Replays};
use oracle::{ViolationKind, diagnosis::Cause};

/// What a hunt comes to, in a word and a sentence. A hunt that found nothing shows no more than that.
pub(super) fn verdict(hunt: &Hunt) -> (&'static str, String) {
    let done = done(hunt);
    let (word, sentence) = match hunt.exit_code {
        1 => {
            let found = hunt.findings.iter().filter(|its| its.failed()).count() as u64;
            let waiting = match hunt.waiting.len() as u64 {
                0 => String::new(),
                count => format!("; not looked into yet: {}", counted(count, "run")),
            };
            let end = if hunt.complete { "" } else { "; the hunt did not come to its end" };
            ("INVALID", format!("{} in {done}{waiting}{end}", counted(found, "finding")))
        }
        4 => ("NOT TESTED", "nothing could be run".to_owned()),
        0 if shows_something(hunt) => ("NOTHING FOUND", done),
        0 => ("UNKNOWN", format!("nothing was found, and no run was valid: {done}")),
        _ => ("UNKNOWN", format!("the hunt did not come to its end, and had found nothing in {done}")),
    };
    let seed = hunt.first_seed.map_or_else(String::new, |seed| format!(" (first seed {seed})"));
    (word, format!("{sentence}{seed}"))
}

/// Whether a run or a replay showed that something was right.
fn shows_something(hunt: &Hunt) -> bool {
    hunt.coverage.iter().any(|its| its.valid + its.too_slow > 0) || replays(hunt) > 0
}

fn replays(hunt: &Hunt) -> u64 {
    let of_releases = hunt.findings.iter().flat_map(|its| &its.releases);
    of_releases.filter_map(|its| its.replays.as_ref()).map(|its| its.runs).sum()
}

/// How much was done.
fn done(hunt: &Hunt) -> String {
    let [held @ .., (not_run, _)] = sums(&hunt.coverage);
    let runs = held.iter().map(|(sum, _)| sum).sum();
    let not_run = if not_run == 0 { String::new() } else { format!("; {not_run} more could not be held") };
    let counts = if runs == 0 { String::new() } else { format!(" ({}{not_run})", joined(&held)) };
    let replays = replays(hunt);
    match (runs, replays) {
        (0, 1..) => counted(replays, "replay"),
        (_, 0) => format!("{}{counts}", counted(runs, "run")),
        (_, 1..) => format!("{}{counts} and {}", counted(runs, "run"), counted(replays, "replay")),
    }
}

/// How many runs came to what. What no run came to is left out.
pub(super) fn counts<'c>(coverage: impl IntoIterator<Item = &'c Covered>) -> String {
    joined(&sums(coverage))
}

fn joined(sums: &[(u64, &str)]) -> String {
    let words = sums.iter().filter(|(sum, _)| *sum > 0).map(|(sum, what)| format!("{sum} {what}"));
    words.collect::<Vec<_>>().join(", ")
}

/// How many runs came to what; the last number is of runs that could not be held.
fn sums<'c>(coverage: impl IntoIterator<Item = &'c Covered>) -> [(u64, &'static str); 6] {
    let mut sums =
        [(0, "valid"), (0, "with violations"), (0, "unknown"), (0, "too slow"), (0, "ended early"), (0, "not run")];
    for Covered { valid, with_violations, unknown, too_slow, ended_early, not_run, .. } in coverage {
        let numbers = [valid, with_violations, unknown, too_slow, ended_early, not_run];
        sums.iter_mut().zip(numbers).for_each(|((sum, _), number)| *sum += number);
    }
    sums
}

/// Kind and cause of a finding.
pub(super) fn title(kind: &str, cause: Option<&str>) -> String {
    cause.map_or_else(|| kind.to_owned(), |cause| format!("{kind}, cause {cause}"))
}

/// The kind of a finding, as far as this version knows it.
pub(super) fn kind_name(kind: &str) -> &'static str {
    let of_violations = ViolationKind::ALL.into_iter().map(ViolationKind::name);
    of_violations.chain(["server-died", "did-not-end"]).find(|name| *name == kind).unwrap_or("finding")
}

fn cause_of(name: Option<&str>) -> Option<Cause> {
    Cause::ALL.into_iter().find(|its| Some(its.name()) == name)
}

/// Kind and cause of a finding, as far as this version knows them: nothing of it is only a file's.
pub(super) fn known_title(finding: &Finding) -> String {
    title(kind_name(&finding.kind), cause_of(finding.cause.as_deref()).map(Cause::name))
}

/// What became of a finding on a release.
pub(super) fn came(OfRelease { met, replays, .. }: &OfRelease) -> String {
    let mut parts = vec![match replays {
        Some(Replays { failed, runs: runs @ 1.., .. }) => format!("{failed} of {} failed", counted(*runs, "replay")),
        Some(Replays { problem: Some(problem), .. }) => format!("not replayed: {problem}"),
        _ => "not replayed".to_owned(),
    }];
    let otherwise = replays.iter().flat_map(|its| &its.otherwise).map(String::as_str).collect::<Vec<_>>().join(", ");
    if !otherwise.is_empty() {
        parts.push(format!("other violations: {otherwise}"));
    }
    if *met > 0 {
        parts.push(format!("met in {}", counted(*met, "run")));
    }
    parts.join("; ")
}

/// A finding as a text: what is wrong, what the clients do, and how to have it again.
pub(super) fn text(finding: &Finding) -> String {
    let Finding { name, cause, words, size, shape, chart, models, scenarios, found, again, death, .. } = finding;
    let mut lines = vec![words.clone()];
    lines.extend(cause_of(cause.as_deref()).map(|cause| format!("cause {cause}: {}", cause.what())));
    lines.extend(death.as_ref().map(|death| format!("The server {death}.")));
    lines.push(format!("size: {size}"));
    lines.push(format!(
        "found: release {}, {}, scenario {}, seed {}{}",
        found.release,
        found.model,
        found.scenario,
        found.seed,
        found.setting.as_ref().map_or_else(String::new, |setting| format!(", {setting}"))
    ));
    if !models.is_empty() {
        lines.push(format!("met with: {}; in {}", models.join(", "), scenarios.join(", ")));
    }
    if !shape.is_empty() {
        lines.push("\nWhat the clients do (a line is one worker, or several that do the same):".to_owned());
        lines.extend(shape.iter().map(|line| format!("  {line}")));
    }
    if !chart.is_empty() {
        lines.push(format!("\n{chart}"));
    }
    lines.push(format!("\nHow to have it again, in the folder {name} of the hunt:"));
    lines.extend(again.iter().flat_map(|its| [format!("# {}", its.what), its.command.clone()]));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests;
