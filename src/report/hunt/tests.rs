//! What the forms for CI systems have of a hunt that found something, and of hunts that did not.

use serde_json::{Value, json};

use crate::{
    reading::Written,
    report::{json::to_value, junit::tests::invalid, to_junit, to_markdown},
};

/// A text that would break XML and Markdown.
const HOSTILE: &str = "a <b> & \"c\" ]]> \u{1b}[31m | `d` */ line\nfeed";

fn covered(release: &str, model: &str, scenario: &str, counts: [u64; 6]) -> Value {
    let [valid, with_violations, unknown, too_slow, ended_early, not_run] = counts;
    json!({
        "release": release, "model": model, "scenario": scenario, "took_s": 7.5, "valid": valid, "unknown": unknown,
        "with_violations": with_violations, "too_slow": too_slow, "ended_early": ended_early, "not_run": not_run,
    })
}

fn run(release: &str, seed: u64) -> Value {
    json!({
        "release": release, "model": "direct", "scenario": "ordering", "seed": seed,
        "setting": "execution 20 ms, complete 5 ms",
        "command": format!("sequence-stress --scenario ordering -r {seed}"),
    })
}

fn replays(failed: u64, runs: u64, otherwise: &[&str], problem: Option<&str>) -> Value {
    json!({ "failed": failed, "runs": runs, "otherwise": otherwise, "problem": problem })
}

fn finding(number: u64, kind: &str, cause: Option<&str>, releases: [(u64, Value); 4]) -> Value {
    let of = |((met, replays), release): (_, &str)| json!({ "release": release, "met": met, "replays": replays });
    let releases: Vec<_> = releases.into_iter().zip(["23.10", "24.03", "24.05", "24.10"]).map(of).collect();
    json!({
        "name": format!("{number:02}-{kind}"), "kind": kind, "cause": cause, "fingerprint": format!("f{number}"),
        "words": HOSTILE, "size": "2 messages left of 9", "is_small": true, "messages": 2, "shape": ["ID 1: START step"],
        "chart": "-> is sent by the client\n``` chart", "models": ["direct"], "scenarios": ["ordering"],
        "releases": releases, "found": run("23.10", 7), "death": null, "result": null,
        "again": [{ "what": "the run that found it", "command": "scripts/with-triton --release 23.10 -- sequence-stress" }],
    })
}

fn hunt(exit_code: u8, coverage: &Value, findings: &Value) -> Value {
    json!({
        "schema_version": crate::report::SCHEMA_VERSION, "tool_version": "0.1.0", "exit_code": exit_code,
        "complete": exit_code != 3, "started_at": "2026-11-26T16:23:17Z", "first_seed": 7, "took_s": 93.25,
        "releases": ["23.10", "24.03", "24.05", "24.10"], "models": ["direct", "oldest"], "coverage": coverage,
        "findings": findings, "waiting": [], "notes": [],
    })
}

/// A hunt with a finding of each fate.
fn found() -> Value {
    let coverage = json!([
        covered("23.10", "direct", "ordering", [1, 2, 0, 0, 0, 0]),
        covered("23.10", "direct", "cancellation", [0, 0, 3, 0, 0, 0]),
        covered("23.10", "oldest", "ordering", [1, 0, 0, 1, 1, 0]),
        covered("24.03", "direct", "ordering", [1, 0, 0, 0, 0, 0]),
        covered("24.03", "oldest", "ordering", [0, 0, 0, 0, 0, 2]),
        covered("24.05", "direct", "ordering", [2, 0, 0, 0, 0, 1]),
    ]);
    let sum = [
        (2, replays(2, 5, &[], None)),
        (0, replays(0, 5, &[], None)),
        (0, replays(0, 0, &[], Some("the time was up"))),
        (0, Value::Null),
    ];
    let died = [(1, Value::Null), (0, replays(0, 2, &["lost"], None)), (0, Value::Null), (0, Value::Null)];
    let mut findings = [finding(1, "wrong-sum", Some("shared-state"), sum), finding(2, "server-died", None, died)];
    findings[0]["result"] = to_value(&invalid());
    findings[1]["death"] = json!("was ended by SIGSEGV");
    findings[1]["is_small"] = json!(false);
    let mut hunt = hunt(1, &coverage, &json!(findings));
    let waiting = json!({ "kind": "slot-leak", "cause": "unwanted", "words": HOSTILE, "found": run("24.10", 9) });
    hunt["waiting"] = json!([waiting]);
    hunt["notes"] = json!([format!("24.10: {HOSTILE}")]);
    hunt
}

fn written(document: &Value) -> Written {
    Written::parsed(document.to_string().as_bytes()).expect("a hunt")
}

fn junit(document: &Value) -> String {
    String::from_utf8(to_junit(&[written(document)])).expect("UTF-8")
}

#[test]
fn each_finding_and_the_runs_of_each_model_are_a_case_of_each_release() {
    insta::assert_snapshot!(junit(&found()));
}

#[test]
fn a_hunt_as_markdown() {
    insta::assert_snapshot!(to_markdown(&written(&found()), usize::MAX));
}

#[test]
fn a_hunt_that_found_nothing_says_no_more_than_that() {
    let valid = covered("23.10", "direct", "ordering", [3, 0, 1, 0, 0, 0]);
    let unknown = covered("23.10", "direct", "ordering", [0, 0, 2, 0, 1, 1]);
    let missing = covered("23.10", "direct", "ordering", [0, 0, 0, 0, 0, 2]);
    for (code, coverage, expected, errors) in [
        (0, json!([valid]), "## Hunt: NOTHING FOUND\n\n4 runs (3 valid, 1 unknown) (first seed 7)\n", 0),
        (
            0,
            json!([unknown]),
            "## Hunt: UNKNOWN\n\nnothing was found, and no run was valid\\: 3 runs (2 unknown, 1 ended early; 1 more could not be held) (first seed 7)\n",
            1,
        ),
        (
            3,
            json!([valid]),
            "## Hunt: UNKNOWN\n\nthe hunt did not come to its end, and had found nothing in 4 runs (3 valid, 1 unknown) (first seed 7)\n",
            1,
        ),
        (4, json!([missing]), "## Hunt: NOT TESTED\n\nnothing could be run (first seed 7)\n", 2),
    ] {
        let hunt = hunt(code, &coverage, &json!([]));
        let text = to_markdown(&written(&hunt), usize::MAX);
        assert!(text.starts_with(expected), "{text}");
        let xml = junit(&hunt);
        assert_eq!((xml.matches("<failure").count(), xml.matches("<error").count()), (0, errors), "{xml}");
    }
}

#[test]
fn traced_failures_count_by_their_replays() {
    let good = || (0, replays(0, 5, &[], None));
    let traced = json!([finding(1, "lost", None, [good(), good(), good(), good()])]);
    let mut hunt = hunt(0, &json!([]), &traced);
    hunt["first_seed"] = Value::Null;
    hunt["models"] = json!([]);
    let text = to_markdown(&written(&hunt), usize::MAX);
    assert!(text.starts_with("## Hunt: NOTHING FOUND\n\n20 replays\n"), "{text}");
    hunt["findings"] = json!([]);
    let xml = junit(&hunt);
    assert_eq!(xml.matches("nothing was tried on this release\"").count(), 4, "{xml}");
}

#[test]
fn findings_that_look_alike_are_cases_of_their_own() {
    let none = || (0, Value::Null);
    let alike = || finding(1, "lost", None, [none(), none(), none(), none()]);
    let mut again = alike();
    again["name"] = json!("02-lost");
    let xml = junit(&hunt(0, &json!([]), &json!([alike(), again])));
    for name in ["finding: lost (f1)", "finding: lost (02-lost)"] {
        assert_eq!(xml.matches(&format!("name=\"{name}\"")).count(), 4, "{xml}");
    }
}

#[test]
fn a_file_that_is_no_hunt_is_said_to_be_none() {
    let mut hunt = found();
    hunt["findings"][0]["found"]["seed"] = json!("seven");
    let problem = Written::parsed(hunt.to_string().as_bytes()).expect_err("it has no seed");
    assert!(problem.starts_with("it is no result (") && problem.lines().count() == 1, "{problem}");
}
