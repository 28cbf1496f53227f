//! A hunt: a test suite for each release, with a case for each finding and for the runs of each model.

use super::{
    case,
    xml::{Came, Case, Problem, Suite},
};
use crate::{
    reading::{Covered, Finding, Hunt, OfRelease, Replays},
    report::{counted, hunt as words},
};

/// The test suites of a hunt. One that is neither good nor bad has a suite of its own for that.
pub(super) fn of_hunt(hunt: &Hunt) -> Vec<Suite> {
    let (word, sentence) = words::verdict(hunt);
    let doubt = matches!(word, "UNKNOWN" | "NOT TESTED").then(|| {
        let message = format!("{}: {sentence}", word.to_lowercase());
        let body = format!("{message}\n{}", notes(hunt));
        suite(hunt, "hunt", 0.0, vec![case("verdict", Came::Error(Problem { kind: "unknown", message, body }))])
    });
    hunt.releases.iter().map(|release| of_release(hunt, release)).chain(doubt).collect()
}

fn suite(hunt: &Hunt, name: &str, seconds: f64, cases: Vec<Case>) -> Suite {
    let seed = hunt.first_seed.map(|seed| ("first seed", seed.to_string()));
    Suite {
        name: name.to_owned(),
        timestamp: Some(hunt.started_at.clone()).filter(|at| !at.is_empty()),
        hostname: None,
        seconds,
        properties: std::iter::once(("tool", format!("sequence-stress {}", hunt.tool_version))).chain(seed).collect(),
        cases,
    }
}

/// How long runs took. A sum of no numbers would be negative zero.
fn seconds(coverage: &[&Covered]) -> f64 {
    coverage.iter().fold(0.0, |all, its| all + its.took_s)
}

/// What else there is to know, a line each.
fn notes(hunt: &Hunt) -> String {
    hunt.notes.iter().map(|note| format!("{note}\n")).collect::<Vec<_>>().concat()
}

fn of_release(hunt: &Hunt, release: &str) -> Suite {
    let coverage: Vec<_> = hunt.coverage.iter().filter(|its| its.release == release).collect();
    let findings = hunt.findings.iter().enumerate().map(|(place, finding)| {
        let is_again = hunt.findings[..place].iter().any(|its| its.fingerprint == finding.fingerprint);
        // A case has the same name in each hunt, so that a CI system can tell its history.
        let name = if is_again { &finding.name } else { &finding.fingerprint };
        let name = format!("finding: {} ({name})", words::title(&finding.kind, finding.cause.as_deref()));
        case(name, of_finding(finding, release))
    });
    let waiting = hunt.waiting.iter().filter(|its| its.found.release == release).map(|its| {
        let title = words::title(&its.kind, its.cause.as_deref());
        let (model, scenario, seed) = (&its.found.model, &its.found.scenario, its.found.seed);
        let message = format!("{title}: not looked into yet");
        let body = format!("{message}\n\n{}\n\n{}\n", its.words, its.found.command);
        let problem = Problem { kind: words::kind_name(&its.kind), message, body };
        case(format!("not looked into: {title} ({model}, {scenario}, seed {seed})"), Came::Failed(problem))
    });
    let runs = hunt.models.iter().map(|model| of_model(hunt, model, &coverage));
    let mut cases: Vec<_> = findings.chain(waiting).chain(runs).collect();
    if cases.is_empty() {
        cases.push(case("hunt", Came::Skipped("nothing was tried on this release".to_owned())));
    }
    suite(hunt, &format!("hunt {release}"), seconds(&coverage), cases)
}

/// Whether a finding is there on a release; skipped where nobody tried.
fn of_finding(finding: &Finding, release: &str) -> Came {
    let its = finding.releases.iter().find(|its| its.release == release);
    let failed = |its: &OfRelease| {
        let message =
            format!("{} on {release}: {}", words::title(&finding.kind, finding.cause.as_deref()), words::came(its));
        let body = format!("{message}\n\n{}", words::text(finding));
        Came::Failed(Problem { kind: words::kind_name(&finding.kind), message, body })
    };
    match its {
        Some(its) if its.failed() => failed(its),
        // A replay that showed another violation is not right, either.
        Some(its @ OfRelease { replays: Some(Replays { otherwise, .. }), .. }) if !otherwise.is_empty() => failed(its),
        Some(OfRelease { replays: Some(Replays { runs: 1.., .. }), .. }) => Came::Passed,
        Some(its) => Came::Skipped(words::came(its)),
        None => Came::Skipped("not replayed".to_owned()),
    }
}

/// The runs of a model on a release. A violation in them is a case of its own.
fn of_model(hunt: &Hunt, model: &str, coverage: &[&Covered]) -> Case {
    let its: Vec<_> = coverage.iter().copied().filter(|its| its.model == model).collect();
    let of_scenario = |its: &&Covered| format!("{}: {}\n", its.scenario, words::counts([*its]));
    let says = its.iter().map(of_scenario).collect::<String>();
    let runs: u64 = its.iter().map(|its| its.runs()).sum();
    let came = if its.is_empty() {
        Came::Skipped("the hunt ended before the first run".to_owned())
    } else if runs == 0 {
        let planned = its.iter().map(|its| its.not_run).sum();
        let message = format!("none of {} could be held", counted(planned, "run"));
        Came::Error(Problem { kind: "not-tested", body: format!("{message}\n{}", notes(hunt)), message })
    } else {
        Came::Passed
    };
    let summed = format!("{}\n{says}", words::counts(its.iter().copied()));
    Case { seconds: Some(seconds(&its)), says: (runs > 0).then_some(summed), ..case(format!("runs: {model}"), came) }
}
