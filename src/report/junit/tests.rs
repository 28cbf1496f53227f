//! What becomes of each part of a result, and of texts that would break the document.

use std::{str::from_utf8, time::Duration};

use quick_xml::{Reader, events::Event};

use super::*;
use crate::{
    limit::{Bracket, Trial as Tried},
    preflight::Hints,
    probe::{Accounting, IdleSearch, PendingRequests},
    report::{
        Ended as SearchEnded, LimitResult, Pictured,
        ScenarioOutcome::{Interrupted, NotBegun, NotTested, Run, Skipped},
        SuiteResult, SuiteRow,
        text::tests::runs::{answered, summary},
    },
};
use oracle::{
    Evidence, Violation,
    diagnosis::{Cause, Explanation},
};
use workload::{
    claim::{Claim, Claims},
    seed::Seed,
};

/// What would end a text in XML, or may not be in XML at all.
const HOSTILE: &str = "a <b> & \"c\" 'd' ]]> \0\u{1b}[31m\u{fffe} é\u{9b} line\r\nfeed";

fn xml(written: &Written) -> String {
    let text = String::from_utf8(to_junit(std::slice::from_ref(written))).expect("UTF-8");
    text.replace(&format!("sequence-stress {}", env!("CARGO_PKG_VERSION")), "sequence-stress VERSION")
}

/// A run with two groups of violations of one kind, and one of another.
pub(in crate::report) fn invalid() -> Summary {
    let mut its = answered("claims.backlog = 3", 10);
    let error = || Evidence::Failed { has_to_be_rejected: false, code: None, error: HOSTILE.to_owned() };
    let of = |kind, at_ns, cause: Option<Cause>| {
        let explanations = cause.into_iter().map(|cause| Explanation::new(cause, [])).collect();
        Violation { explanations, ..Violation::of_the_run(kind, at_ns, error()) }
    };
    its.result.violations = vec![
        of(ViolationKind::UnexpectedError, 1_234_000_000, Some(Cause::ALL[0])),
        of(ViolationKind::UnexpectedError, 2_000_000_000, Some(Cause::ALL[1])),
        of(ViolationKind::UnexpectedError, 3_000_000_000, Some(Cause::ALL[0])),
        of(ViolationKind::Statistics, 4_000_000_000, None),
    ];
    its.result.tally.violations = [(ViolationKind::UnexpectedError, 3), (ViolationKind::Statistics, 1)].into();
    its.replay = "sequence-stress -m 'a`b<c>'".to_owned();
    its
}

/// A run whose verdict is unknown, with a threshold of each fate.
fn unknown() -> Summary {
    let fail_if = "'step.p50 > 5ms', 'step.p99 > 1s', 'wait_for_slot.max > 2s'";
    let mut its = answered(&format!("fail_if = [{fail_if}]\nlimits.response_ms = 100"), 10);
    its.result.tally.slow = 2;
    for (place, value) in [(0, 9000.0), (1, 9000.0)] {
        let found = &mut its.result.thresholds[place];
        found.missed = found.threshold.is_missed_by(value);
        (found.value, found.measured) = (Some(value), true);
    }
    let mut claims = Claims::default();
    claims.set(Claim::Backlog, 2);
    claims.set(Claim::IdleReap, 1);
    its.scenario.claims = Some(claims);
    its.result.tally.reached.set(Claim::IdleReap, 1);
    its.result.pending = PendingRequests::NotChecked { why: "WHY".to_owned() };
    its.result.idle_limit = IdleSearch::NotCheckable { why: "WHY".to_owned() };
    its
}

#[test]
fn each_kind_of_violation_each_threshold_and_each_claim_is_a_case() {
    let text = [invalid(), unknown()].map(|summary| xml(&summary.written())).join("\n");
    insta::assert_snapshot!(text);
}

#[test]
fn a_suite_has_a_test_suite_for_each_scenario() {
    let row = |name: &str, outcome| SuiteRow {
        name: name.to_owned(),
        outcome,
        took: Duration::from_secs(3),
        pictured: Pictured::default(),
    };
    let rows = vec![
        row("invalid", Run(Box::new(invalid()))),
        row("skipped", Skipped("WHY".to_owned())),
        row("not-tested", NotTested("WHY".to_owned())),
        row("interrupted", Interrupted),
        row("not-begun", NotBegun),
    ];
    let suite = SuiteResult { seed: Seed(42), took: Duration::from_secs(30), rows };
    let text = xml(&suite.written());
    let without_kinds: Vec<_> =
        text.lines().filter(|line| !line.ends_with("\"/>") || line.contains("<testsuite")).collect();
    insta::assert_snapshot!(without_kinds.join("\n"));
}

#[test]
fn a_trial_that_is_too_much_is_no_failure_and_a_violation_is() {
    let its = summary("", Hints::default());
    let trial = |load| Tried { load, ..Tried::of(load, &its.scenario, &its.result, Duration::from_secs(10)) };
    let found = LimitResult {
        range: "5..50/s".parse().expect("a range"),
        scenario: its.scenario.clone(),
        scenario_name: "test".to_owned(),
        seed: Seed(42),
        lasts: Duration::from_secs(10),
        replay: "REPLAY".to_owned(),
        trials: vec![trial(5.0), trial(10.0)],
        bracket: Bracket { sustained: Some(5.0), overloaded: Some(10.0), is_sure: true },
        ended: SearchEnded::Found,
    };
    let ends = [
        SearchEnded::Found,
        SearchEnded::Violation(Box::new(invalid())),
        SearchEnded::NotTested("WHY".to_owned()),
        SearchEnded::Interrupted,
    ];
    let text = ends.map(|ended| {
        let text = xml(&LimitResult { ended, ..found.clone() }.written());
        text.lines().take(26).collect::<Vec<_>>().join("\n")
    });
    insta::assert_snapshot!(text.join("\n\n"));
}

/// The cases of a document with the tag of their outcome.
fn cases(written: &Written) -> Vec<(String, String)> {
    let bytes = to_junit(std::slice::from_ref(written));
    let mut reader = Reader::from_str(from_utf8(&bytes).expect("UTF-8"));
    let mut cases: Vec<(String, String)> = Vec::new();
    loop {
        match reader.read_event().expect("XML") {
            Event::Start(tag) | Event::Empty(tag) => {
                let name = tag.name().as_ref().to_owned();
                if name == "testcase" {
                    let attribute = tag.try_get_attribute("name").expect("attributes").expect("a name");
                    cases.push((attribute.value.into_owned(), "passed".to_owned()));
                } else if ["failure", "error", "skipped"].contains(&name.as_str()) {
                    cases.last_mut().expect("it is in a case").1 = name;
                }
            }
            Event::Eof => return cases,
            _ => {}
        }
    }
}

fn of_case(summary: &Summary, name: &str) -> String {
    let cases = cases(&summary.written());
    cases.into_iter().find(|(case, _)| case == name).unwrap_or_else(|| panic!("no case {name}")).1
}

#[test]
fn a_check_that_was_not_done_is_skipped_and_one_that_was_done_is_not() {
    let mut its = answered("", 10);
    for name in ["statistics", "slot-withheld", "missing-reap", "memory-growth", "not-ready", "wrong-control"] {
        assert_eq!(of_case(&its, name), "skipped", "{name}");
    }
    for name in ["slot-leak", "slot-released-twice", "pending-left", "wrong-sum", "lost"] {
        assert_eq!(of_case(&its, name), "passed", "{name}");
    }
    its.result.accounting = Accounting::Agrees { rose: <_>::default(), spent: <_>::default(), unheard: <_>::default() };
    its.result.pending = PendingRequests::NotChecked { why: "WHY".to_owned() };
    its.result.health = Some(crate::run::Health { asked: 9, ..<_>::default() });
    let found = |kept_us, ended_us| IdleSearch::Found { configured_us: 1000, kept_us, ended_us, trials: 8 };
    its.result.idle_limit = found(1000, Some(1100));
    for (name, expected) in [
        ("statistics", "passed"),
        ("slot-withheld", "passed"),
        ("pending-left", "skipped"),
        ("not-ready", "passed"),
        ("missing-reap", "passed"),
    ] {
        assert_eq!(of_case(&its, name), expected, "{name}");
    }
    // No sequence was ended, and none rested long enough to show that.
    its.result.idle_limit = found(1500, None);
    assert_eq!(of_case(&its, "missing-reap"), "skipped");
    its.result.end = crate::run::End::NotYet;
    for name in ["statistics", "slot-leak", "pending-left", "missing-reap"] {
        assert_eq!(of_case(&its, name), "skipped", "{name} of a run that goes on");
    }
}

#[test]
fn no_more_violations_are_shown_than_in_the_text() {
    let mut its = answered("", 10);
    let of = |cause| Violation {
        explanations: vec![Explanation::new(cause, [])],
        ..Violation::of_the_run(ViolationKind::WrongSum, 0, Evidence::StillOpen)
    };
    its.result.violations = Cause::ALL.into_iter().take(12).map(of).collect();
    its.result.tally.violations.insert(ViolationKind::WrongSum, 5000);
    let text = xml(&its.written());
    assert_eq!(text.matches("\n  where ").count(), EXAMPLES, "{text}");
    assert!(text.contains("The run kept the first 12 of 5000 violations."), "{text}");
}
