//! The built-in scenarios, and the command `suite`, against the real tritonserver.

use std::process::Output;

use workload::scenario::{BUILTIN, Builtin};

use crate::support::{
    at_the_same_time,
    long::is_long,
    triton::{Own, Triton, text, with_triton},
};

const TOOL: &str = env!("CARGO_BIN_EXE_sequence-stress");
/// What 24.10 itself does wrong behind a cancel (docs/FINDINGS.md), so that nobody can say what these come to.
const CANCELS: [&str; 3] = ["cancellation", "cancel-restart", "deadlines"];
/// The scenarios that a model which is told correlation IDs cannot be sent; `server.rs` has them with another one.
const NEARLY_THE_SAME: [&str; 2] = ["correlation-id-pairs", "correlation-id-pairs-text"];
/// The scenario whose correlation IDs are texts.
const TEXTS: &str = "correlation-id-routing-text";

/// What a suite skipped, and why. Every scenario that it ran has to be valid.
fn skipped(output: &Output) -> Vec<(String, String)> {
    let told = text(output);
    assert!(output.status.success(), "{told}");
    let lines: Vec<_> = told.lines().collect();
    let is_skipped = |(index, line): (usize, &&str)| {
        let (name, rest) = line.split_once(' ')?;
        rest.trim().strip_prefix("skipped")?;
        // The reason stands below, with an indent.
        let why: Vec<_> =
            lines[index + 1..].iter().take_while(|line| line.starts_with("    ")).map(|line| line.trim()).collect();
        Some((name.to_owned(), why.join(" ")))
    };
    lines.iter().enumerate().filter_map(is_skipped).collect()
}

fn suite<'a>(model: &'a str, names: &'a str) -> [&'a str; 8] {
    ["suite", "-q", "-m", model, "-r", "5", "--only", names]
}

/// The suite on a server of its own, which the suite restarts.
fn suite_with_a_restart(options: &[&str], model: &str, names: &[&str]) -> Vec<(String, String)> {
    let options = [&["--shape", "2x4", "--idle-limit-ms", "1000"][..], options].concat();
    let names = names.join(",");
    let command = [&[TOOL][..], &suite(model, &names)].concat();
    skipped(&with_triton(&options, &command).output().expect("it runs"))
}

const LOADS_WHAT_IT_IS_ASKED_TO: [&str; 2] = ["--explicit", "--server-arg=--load-model=*"];

/// The pattern in which the END of one sequence may come together with a step of another one, which 24.10 then executes behind the END
/// (docs/FINDINGS.md).
const SHARED_ID: (&str, [[&str; 2]; 1]) = ("unusual-steps", [["shared-id = 2, ", ""]]);

/// The scenarios that take the processor most of the time, and what makes each a tenth (the soak a third) as long in the gate.
const LONG: [(&str, &[[&str; 2]]); 4] = [
    // What the default scenario claims needs more iterations; the tests of L0 run the others.
    ("l0-sequence-stress", &[["iterations = 200 ", "iterations = 20 "], ["# [claims]", "[claims]\n#"]]),
    ("rapid-cycling", &[["iterations = 300", "iterations = 30"], ["reuse-of-an-id = 1000", "reuse-of-an-id = 100"]]),
    ("correlation-id-routing", &[["iterations = 200", "iterations = 20"]]),
    ("soak", &[["iterations = 60", "iterations = 20"]]),
];

/// The text of a scenario in the gate, or as it is in the long form. No machine is too slow for its limits.
fn text_of(builtin: &Builtin) -> String {
    let shortened = if is_long() { None } else { LONG.iter().find(|(name, _)| *name == builtin.name) };
    let shortened = shortened.map_or(&[][..], |(_, changes)| changes);
    let without = if builtin.name == SHARED_ID.0 { &SHARED_ID.1[..] } else { &[] };
    let text = shortened.iter().chain(without).fold(builtin.text.to_owned(), |text, [before, after]| {
        assert!(text.contains(before), "{}: {before}", builtin.name);
        text.replace(before, after)
    });
    let mut text: toml::Table = text.parse().expect("TOML");
    let limits = text.entry("limits").or_insert_with(|| toml::Table::new().into());
    let limits = limits.as_table_mut().expect("a table");
    limits.insert("lost_after_ms".into(), 120_000.into());
    limits.insert("connect_ms".into(), 120_000.into());
    text.to_string()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_scenarios_of_the_suite_are_valid() {
    let server = Triton::native();
    let is_not_here = |name: &str| {
        CANCELS.contains(&name) || NEARLY_THE_SAME.contains(&name) || ["server-restart", TEXTS].contains(&name)
    };
    let scenarios: Vec<_> = BUILTIN.iter().filter(|of| of.in_suite && !is_not_here(of.name)).collect();
    at_the_same_time(&scenarios, |builtin| {
        // So long that a slow machine keeps sequences open: of those that went idle, nobody knows whether they had slots.
        let own = Own { idle_ms: 1000, ..Own::like("oldest_sequence_int32").shape(2, 4) };
        let result = server.stress(&server.load(&own), &text_of(builtin), &["-r", "5"]);
        assert_eq!(result["verdict"], "valid", "{}: {:#} {:#}", builtin.name, result["violations"], result["doubts"]);
    });
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_suite_skips_texts_where_the_model_takes_integers() {
    let server = Triton::native();
    let model = server.load(&Own { idle_ms: 1000, ..Own::like("oldest_sequence_int32").shape(2, 4) });
    // A suite that skips all its scenarios is no success.
    let skipped = skipped(&server.run(&suite(&model, &format!("ordering,slot-reuse,{TEXTS}"))));
    let [(name, why)] = &skipped[..] else { panic!("{skipped:?}") };
    assert!(name == TEXTS && why.contains("is told correlation IDs as integers"), "{skipped:?}");
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_suite_restarts_the_server() {
    let names = ["server-restart", "ordering"];
    let skipped = suite_with_a_restart(&LOADS_WHAT_IT_IS_ASKED_TO, "oldest_sequence_int32", &names);
    assert!(skipped.is_empty(), "{skipped:?}");
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_suite_skips_what_a_server_cannot_do_that_loads_its_models_by_itself() {
    let asks_for_more = [TEXTS, "slot-exhaustion", "idle-boundary", "strategy-switch", "server-restart"];
    let skipped = suite_with_a_restart(&[], "custom_sequence_int32", &asks_for_more);
    let names: Vec<_> = skipped.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["strategy-switch"], "{skipped:?}");
}
