//! GitHub's commands, and what texts of a server cannot do to them.

use super::*;
use crate::report::{junit::tests::invalid, text::tests::runs::answered};
use oracle::{
    Evidence, Violation, ViolationKind,
    diagnosis::{Cause, Explanation},
};

#[test]
fn each_group_of_violations_is_an_error_in_a_line() {
    let lines = annotations(&invalid().written());
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].starts_with("::error title=unexpected-error%2C cause executed-twice%3A 2 violations::A request"));
    assert!(lines[2].starts_with("::error title=statistics%3A 1 violation::"), "{}", lines[2]);
    for line in lines {
        assert!(!line.contains(char::is_control), "{line}");
        assert!(line.ends_with("%0Areplay: sequence-stress -m 'a`b<c>'"), "{line}");
    }
}

#[test]
fn a_doubt_is_a_warning_and_a_missed_threshold_an_error() {
    let mut its = answered("limits.response_ms = 100", 0);
    its.result.tally.slow = 2;
    let lines = annotations(&its.written());
    let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("::error title=threshold missed::")).collect();
    assert_eq!(errors, ["::error title=threshold missed::2 responses took longer than 100 ms"]);
    assert!(lines.iter().any(|line| line.starts_with("::warning title=unknown::no sequence ran")), "{lines:#?}");
}

#[test]
fn a_command_cannot_be_ended_from_within() {
    let line = command("error", "a: b, 100%\n::c", "d\r\n::error::e%0A\u{1b}");
    assert_eq!(line, "::error title=a%3A b%2C 100%25%0A%3A%3Ac::d %0A::error::e%250A");
}

#[test]
fn there_are_ten_at_most() {
    let mut its = answered("", 10);
    let of = |cause| Violation {
        explanations: vec![Explanation::new(cause, [])],
        ..Violation::of_the_run(ViolationKind::WrongSum, 0, Evidence::StillOpen)
    };
    its.result.violations = Cause::ALL.into_iter().take(12).map(of).collect();
    its.result.tally.violations.insert(ViolationKind::WrongSum, 12);
    let lines = annotations(&its.written());
    assert_eq!(lines.len(), MOST);
    assert_eq!(lines[9], "::warning title=sequence-stress::3 more annotations: the job's summary and log have all");
}
