//! Results as `JUnit` XML, which CI systems show beside other tests: a case for each kind of violation, threshold and claim.

mod hunt;
mod xml;

use self::xml::{Came, Case, Problem, Suite, document};
use super::{
    Summary, Verdict,
    checks::{CheckName, Outcome},
    counted,
    told::{EXAMPLES, Group, Told, groups},
    words,
};
use crate::{
    reading::{Ended, Golden, Run, Scenario, ScenarioOutcome, Search, Trial, Written},
    recorder::Found,
};
use oracle::ViolationKind;

/// Results as one document: a test suite for each run.
pub(crate) fn to_junit(results: &[Written]) -> Vec<u8> {
    let (mut suites, mut seconds) = (Vec::new(), 0.0);
    for written in results {
        let (of_this, took) = suites_of(written);
        suites.extend(of_this);
        seconds += took;
    }
    document(&suites, seconds)
}

/// The test suites of a result, and how many seconds it took.
fn suites_of(written: &Written) -> (Vec<Suite>, f64) {
    match written {
        Written::Run(run) => (vec![of_run(&run.scenario_name, run)], run.elapsed_s),
        Written::Suite(suite) => (suite.scenarios.iter().map(of_scenario).collect(), suite.took_s),
        Written::Hunt(hunt) => (hunt::of_hunt(hunt), hunt.took_s),
        Written::Search(search) => {
            let suites: Vec<_> = std::iter::once(of_search(search))
                .chain(search.violation.as_ref().map(|run| of_run(&format!("{} (violation)", run.scenario_name), run)))
                .collect();
            let seconds = suites.iter().map(|suite| suite.seconds).sum();
            (suites, seconds)
        }
    }
}

/// The result of a run.
pub(super) fn of_summary(summary: &Summary) -> Vec<u8> {
    to_junit(&[summary.written()])
}

fn of_scenario(scenario: &Scenario) -> Suite {
    let Scenario { name, outcome, why, took_s, result } = scenario;
    if let Some(run) = result {
        return Suite { seconds: *took_s, ..of_run(name, run) };
    }
    let why = |otherwise: &str| why.clone().unwrap_or_else(|| otherwise.to_owned());
    let error = |kind, why: String| Came::Error(Problem { kind, message: why.clone(), body: why });
    let came = match outcome {
        ScenarioOutcome::Skipped => Came::Skipped(why("the endpoint cannot do it")),
        ScenarioOutcome::NotBegun => Came::Skipped(why("the suite ended before it")),
        ScenarioOutcome::Interrupted => error("interrupted", why("interrupted before anything was sent")),
        ScenarioOutcome::NotTested | ScenarioOutcome::Run => error("not-tested", why("there is no result")),
    };
    Suite {
        name: name.clone(),
        timestamp: None,
        hostname: None,
        seconds: *took_s,
        properties: Vec::new(),
        cases: vec![case("run", came)],
    }
}

fn of_run(name: &str, run: &Run) -> Suite {
    let groups = groups(&run.violations, Told::group);
    let kinds = ViolationKind::ALL.into_iter().map(|kind| case(kind.name(), of_kind(run, kind, &groups)));
    let verdict = (run.verdict == Verdict::Unknown).then(|| case("verdict", unknown(&run.doubts)));
    let cases = kinds.chain(thresholds(run)).chain(claims(run)).chain(verdict).collect();
    let properties = [
        ("tool", Some(format!("sequence-stress {}", run.tool_version))),
        ("server", run.server_version.clone()),
        ("model", Some(run.model.name.clone())),
        ("seed", Some(run.seed.to_string())),
        ("replay", Some(run.replay.clone())),
    ];
    Suite {
        name: name.to_owned(),
        timestamp: Some(run.started_at.clone()).filter(|at| !at.is_empty()),
        hostname: run.host.name.clone(),
        seconds: run.elapsed_s,
        properties: properties.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        cases,
    }
}

fn case(name: impl Into<String>, came: Came) -> Case {
    Case { name: name.into(), came, seconds: None, says: None }
}

/// Whether a run has violations of a kind; skipped where it did not look.
fn of_kind(run: &Run, kind: ViolationKind, groups: &[(Group, &Told, u64)]) -> Came {
    let count = run.violations_by_kind.get(&kind).copied().unwrap_or_default();
    if count > 0 {
        return Came::Failed(problem(run, kind, count, groups));
    }
    let check = CheckName::ALL.into_iter().find(|name| name.finds().contains(&kind));
    let why = match check {
        Some(check) => unlooked(run, check),
        None => unseen(run, kind),
    };
    why.map_or(Came::Passed, Came::Skipped)
}

fn problem(run: &Run, kind: ViolationKind, count: u64, groups: &[(Group, &Told, u64)]) -> Problem {
    let found = counted(count, "violation");
    let of_kind: Vec<_> = groups.iter().enumerate().filter(|(_, (group, ..))| group.kind == kind).collect();
    let message = if let [(_, (group, ..))] = of_kind[..] {
        format!("{}: {found}", group.title())
    } else {
        let causes: Vec<_> = of_kind.iter().filter_map(|(_, (group, ..))| Some(group.cause?.name())).collect();
        let causes = if causes.is_empty() { String::new() } else { format!(", causes {}", causes.join(", ")) };
        format!("{kind}{causes}: {found}")
    };
    let mut body = vec![format!("{message}\n")];
    let is_one = of_kind.len() == 1;
    for (place, (group, first, count)) in of_kind {
        if !is_one {
            body.push(format!("\n{}: {}\n", group.title(), counted(*count, "violation")));
        }
        if place < EXAMPLES {
            body.push(first.text());
        }
    }
    if run.violation_count > run.violations.len() as u64 {
        let (kept, all) = (run.violations.len(), run.violation_count);
        body.push(format!("\nThe run kept the first {kept} of {}.\n", counted(all, "violation")));
    }
    body.push(format!("\nreplay: {}\n", run.replay));
    let body = body.concat();
    Problem { kind: kind.name(), message, body }
}

/// Why a check besides the responses tells nothing; none where it was done.
fn unlooked(run: &Run, check: CheckName) -> Option<String> {
    if check == CheckName::Readiness {
        return match &run.health {
            None => Some("it is not known whether the server was ready".to_owned()),
            Some(health) if health.asked == 0 => Some("the server was not asked whether it was ready".to_owned()),
            Some(health) if health.unanswered >= health.asked => {
                Some("the server did not say whether it was ready".to_owned())
            }
            Some(_) => None,
        };
    }
    let rows = || run.checks.iter().filter(|row| row.name == check);
    if rows().any(|row| matches!(row.outcome, Outcome::Passed | Outcome::Failed)) {
        return None;
    }
    let why = match check {
        _ if run.checks.is_empty() => "the result does not say whether this was checked",
        CheckName::IdleLimit => "the scenario does not search for the idle limit (slots.idle_limit_search)",
        CheckName::ServerMemory => "the server's memory was not measured, or not for 80 s (--server-pid)",
        _ => "the run had not ended",
    };
    Some(rows().next().map_or_else(|| why.to_owned(), |row| row.says.clone()))
}

/// Why a run could not see violations of a kind in the responses; none where it could.
fn unseen(run: &Run, kind: ViolationKind) -> Option<String> {
    let why = match (kind, &run.golden) {
        (ViolationKind::WrongSum, Some(_)) => "no formula judges this model: wrong-output",
        (ViolationKind::WrongOutput, None) => "a formula judges this model: wrong-sum",
        (ViolationKind::WrongOutput, Some(Golden { judges: Some(false) })) => "nothing is expected of the outputs",
        (ViolationKind::WrongControl | ViolationKind::WrongSlot, _) if run.model.controls.is_none() => {
            "the model does not report what it saw of each request"
        }
        (ViolationKind::SlotWithheld | ViolationKind::SlotOutOfTurn, _) if run.model.slots.is_none() => {
            "the number of slots is not known (--slots)"
        }
        // Where the counts do not agree another client may have had the slot.
        (ViolationKind::SlotWithheld, _) => return unlooked(run, CheckName::ServerCounts),
        _ => return None,
    };
    Some(why.to_owned())
}

fn thresholds(run: &Run) -> Vec<Case> {
    let mut cases: Vec<_> = run.thresholds.iter().map(of_threshold).collect();
    if let Some(limit) = run.limits_us.response {
        let others: Vec<_> = run.thresholds.iter().filter(|its| its.missed).map(words::threshold).collect();
        let missed = run.missed_thresholds.iter().find(|words| !others.contains(words));
        let came = missed.map_or(Came::Passed, |words| Came::Failed(missed_threshold(words)));
        cases.push(case(format!("threshold: responses within {} ms", limit / 1000.0), came));
    }
    cases
}

fn of_threshold(found: &Found) -> Case {
    let of = if found.population.is_empty() { String::new() } else { format!("{}: ", found.population) };
    let words = words::threshold(found);
    let came = match found {
        Found { missed: true, .. } => Came::Failed(missed_threshold(&words)),
        Found { measured: false, .. } => Came::Skipped(words.clone()),
        _ => Came::Passed,
    };
    let says = matches!(came, Came::Passed).then_some(words);
    Case { says, ..case(format!("threshold: {of}{}", found.threshold), came) }
}

fn missed_threshold(words: &str) -> Problem {
    Problem { kind: "threshold", message: words.to_owned(), body: format!("THRESHOLD MISSED: {words}\n") }
}

/// The claims in force. One that the run missed is an error if the verdict is unknown for it.
fn claims(run: &Run) -> Vec<Case> {
    let is_doubt = |row: &super::Check| row.name == CheckName::NotReached && row.outcome == Outcome::Doubtful;
    let are_required = run.checks.iter().any(is_doubt);
    let in_force = run.claims.iter().filter(|its| its.least > 0);
    let of_claim = |its: &super::Claimed| {
        let hint = its.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
        let words = format!("reached {} of at least {}{hint}", its.reached, its.least);
        let came = if its.reached >= its.least {
            Came::Passed
        } else if are_required {
            Came::Error(Problem { kind: "claim", message: words.clone(), body: format!("{words}\n") })
        } else {
            Came::Skipped(words)
        };
        case(format!("claim: {}", its.claim), came)
    };
    in_force.map(of_claim).collect()
}

fn unknown(doubts: &[String]) -> Came {
    let message = format!("unknown: {}", doubts.join("; "));
    Came::Error(Problem { kind: "unknown", body: doubts.join("\n") + "\n", message })
}

#[expect(clippy::cast_precision_loss, reason = "a number of seconds that was given")]
fn of_search(search: &Search) -> Suite {
    let Search { trials, limit, why, .. } = search;
    let why = why.as_ref().map_or_else(|| limit.clone(), |why| format!("{why}; the limit by then: {limit}"));
    let problem =
        |kind, message: String| Problem { kind, body: format!("{message}\nreplay: {}\n", search.replay), message };
    let came = match search.ended {
        Ended::Found if search.exit_code == 0 => Came::Passed,
        Ended::Violation => {
            let found = search.violation.as_ref().map_or(0, |run| run.violation_count);
            let at = trials.last().map_or_else(String::new, |trial| format!(" at {}", search.load.shown(trial.load)));
            Came::Failed(problem(
                "violation",
                format!("{}{at}, which too much load does not explain", counted(found, "violation")),
            ))
        }
        Ended::Interrupted => Came::Error(problem("unknown", format!("the search was interrupted; {why}"))),
        Ended::Found | Ended::NotTested | Ended::NotMeasured => Came::Error(problem("unknown", why)),
    };
    let lasts = search.trial_s as f64;
    let of_trial = |(place, trial): (usize, &Trial)| {
        let said = match trial {
            Trial { sustained: true, .. } => "sustained".to_owned(),
            Trial { why, .. } if why.is_empty() => counted(trial.violations, "violation"),
            Trial { why, .. } => format!("too much: {why}"),
        };
        let name = format!("trial {}: {}", place + 1, search.load.shown(trial.load));
        Case { seconds: Some(lasts), says: Some(said), ..case(name, Came::Passed) }
    };
    let limit = Case { says: Some(search.limit.clone()), ..case("limit", came) };
    let properties = [
        ("tool", format!("sequence-stress {}", search.tool_version)),
        ("range", search.range.clone()),
        ("seed", search.seed.to_string()),
        ("replay", search.replay.clone()),
    ];
    Suite {
        name: search.scenario_name.clone(),
        timestamp: None,
        hostname: None,
        seconds: lasts * trials.len() as f64,
        properties: properties.into(),
        cases: std::iter::once(limit).chain(trials.iter().enumerate().map(of_trial)).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests;
