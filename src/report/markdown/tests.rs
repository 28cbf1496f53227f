//! What a summary of a job has, and what texts of a server cannot do to it.

use super::*;
use crate::report::{
    Pictured,
    ScenarioOutcome::{Run as Ran, Skipped},
    SuiteResult, SuiteRow, Summary,
    junit::tests::invalid,
    text::tests::runs::answered,
};
use std::time::Duration;
use workload::{claim::Claims, seed::Seed};

fn valid() -> Summary {
    let mut its = answered("fail_if = ['step.p50 > 5ms', 'step.p99 > 1us']", 10);
    its.scenario.claims = Some(Claims::default());
    for found in &mut its.result.thresholds {
        (found.value, found.measured) = (Some(2000.0), true);
        found.missed = found.threshold.is_missed_by(2000.0);
    }
    its
}

#[test]
fn a_run_and_a_suite_as_markdown() {
    let row = |name: &str, outcome| SuiteRow {
        name: name.to_owned(),
        outcome,
        took: Duration::from_secs(3),
        pictured: Pictured::default(),
    };
    let rows = vec![
        row("invalid", Ran(Box::new(invalid()))),
        row("valid", Ran(Box::new(valid()))),
        row("skipped", Skipped("WHY | *why*".to_owned())),
    ];
    let suite = SuiteResult { seed: Seed(42), took: Duration::from_secs(30), rows };
    let all = [valid().written(), invalid().written(), suite.written()];
    insta::assert_snapshot!(all.map(|its| to_markdown(&its, usize::MAX)).join("\n\n"));
}

#[test]
fn no_text_means_anything_in_a_line() {
    for (text, expected) in [
        ("a|b", "a\\|b"),
        ("<img src=x>", "\\<img src\\=x\\>"),
        (
            "[a](https://h) @user #1 `x` **y** ~z~ $m$ &lt;",
            "\\[a\\](https\\://h) \\@user \\#1 \\`x\\` \\*\\*y\\*\\* \\~z\\~ \\$m\\$ \\&lt;",
        ),
        ("www.h.org 1.5", "www\\.h.org 1.5"),
        ("a\nb\u{1b}[1m\\", "a b \\[1m\\\\"),
    ] {
        assert_eq!(inline(text), expected);
    }
}

#[test]
fn a_fence_is_longer_than_any_in_the_text() {
    assert_eq!(fenced("sh", "a"), "```sh\na\n```\n");
    assert_eq!(fenced("text", "a\n````\nb``"), "`````text\na\n````\nb``\n`````\n");
    assert_eq!(fenced("text", "a\r```\u{1b}"), "````text\na ```\n````\n");
}

#[test]
fn what_does_not_fit_is_left_out_in_whole_parts() {
    let written = invalid().written();
    let whole = to_markdown(&written, usize::MAX);
    for room in 0..=whole.len() {
        let text = to_markdown(&written, room);
        assert!(text.len() <= room, "{room}");
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count(), "{text}");
        assert!(text.is_empty() || text == whole || text.ends_with(CUT), "{text}");
    }
    assert_eq!(to_markdown(&written, whole.len()), whole);
}
