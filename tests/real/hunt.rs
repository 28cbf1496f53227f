//! `scripts/hunt` against the reference server, with a planted fault and without.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::support::tool::text;
use sequence_stress::failure::Failure;
use serde_json::Value;
use tempfile::TempDir;

/// One run of a scenario, or a search that goes on for a few runs.
const SCENARIO: [&str; 4] = ["--only", "rapid-cycling", "--run-seconds", "1"];
const LEARN: [&str; 3] = ["--learn", "--run-seconds", "3"];

/// Hunts on one model for one seed, which takes some seconds; the minutes are for a machine that is very slow.
fn hunt(fault: &[&str], runs: &[&str], folder: &Path) -> Output {
    let tool = env!("CARGO_BIN_EXE_sequence-stress");
    let serve = [
        &[
            tool,
            "serve",
            "--grpc-port",
            "0",
            "--http-port",
            "0",
            "--metrics-port",
            "0",
            "--idle-limit",
            "1s",
            "--execution-time",
            "1ms",
        ],
        fault,
    ]
    .concat();
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/hunt"))
        .args(["--endpoint-command", &serve.join(" "), "--tool", tool, "--models", "custom_sequence_int32"])
        .args(runs)
        .args(["--seeds", "1", "--first-seed", "7", "--runs", "2"])
        .args(["--minutes", "5", "--out"])
        .arg(folder)
        .arg("--html")
        .arg(folder.join("hunt.html"))
        .arg("--junit")
        .arg(folder.join("hunt.xml"))
        .output()
        .expect("it runs")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The hunt as its page has it, once all files that it made are of the form that they should have.
fn shown(folder: &Path) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let hunt: Value = serde_json::from_str(&read(&folder.join("hunt.json"))).expect("JSON");
    let schema = serde_json::from_str(&read(&root.join("docs/hunt.schema.json"))).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a JSON schema");
    let errors: Vec<_> =
        validator.iter_errors(&hunt).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut validated = Command::new("xmllint");
    let validated = validated.args(["--noout", "--schema"]).arg(root.join("tests/tool/junit.xsd"));
    let validated = validated.arg(folder.join("hunt.xml")).output();
    let validated = validated.expect("xmllint runs: Debian has it in the package libxml2-utils");
    assert!(validated.status.success(), "{}", text(&validated));
    let page = read(&folder.join("hunt.html"));
    let (_, rest) = page.split_once("id=\"report-data\">").expect("the data");
    let data: Value = serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON");
    assert_eq!(data["results"][0]["document"], hunt);
    data
}

#[test]
#[ignore = "needs Python 3.11: run scripts/test"]
fn a_planted_fault_is_found_and_made_small_and_written_down() {
    let folder = TempDir::new().expect("a folder");
    let output = hunt(&["--fault", "reset-state"], &SCENARIO, folder.path());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let finding = folder.path().join("01-wrong-sum-state-reset");
    let failure = Failure::read(&finding.join("failure.toml")).expect("a failure");
    assert_eq!(failure.messages(), 2, "{}", text(&output));
    let told = fs::read_to_string(finding.join("finding.md")).expect("a file");
    for part in ["wrong-sum, state-reset", "ID 1: START step (accused)", "✗ expected", "| endpoint | 2 of 2 |"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let script = fs::read_to_string(finding.join("repeat.py")).expect("a file");
    assert!(script.contains("start=True, expect="), "{script}");
    let summary = fs::read_to_string(folder.path().join("summary.md")).expect("a file");
    assert!(summary.contains("(01-wrong-sum-state-reset/finding.md) | endpoint | 2 |"), "{summary}");
    let data = shown(folder.path());
    assert!(data["causes"]["state-reset"]["what"].is_string(), "{}", data["causes"]);
    let result = &data["results"][0];
    // The run that found it has its slots.
    assert!(result["lanes"][0].is_string(), "{}", result["lanes_notes"]);
    let finding = &result["document"]["findings"][0];
    assert_eq!(
        (&finding["name"], &finding["result"]["verdict"]),
        (&"01-wrong-sum-state-reset".into(), &"invalid".into())
    );
    assert_eq!(finding["releases"][0]["replays"]["failed"], 2);
    let junit = read(&folder.path().join("hunt.xml"));
    assert!(junit.contains("wrong-sum, cause state-reset on endpoint: 2 of 2 replays failed; met in 1 run"), "{junit}");
}

#[test]
#[ignore = "needs Python 3.11: run scripts/test"]
fn on_a_correct_server_nothing_is_found() {
    let folder = TempDir::new().expect("a folder");
    let output = hunt(&[], &SCENARIO, folder.path());
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Nothing.") && said.contains("| endpoint | 1 "), "{said}");
    let data = shown(folder.path());
    assert_eq!(data["results"][0]["document"]["exit_code"], 0);
    let runs = fs::read_dir(folder.path().join("runs")).expect("a folder").count();
    assert_eq!(runs, 0, "a run that found nothing leaves nothing");
    let junit = read(&folder.path().join("hunt.xml"));
    assert!(junit.contains("name=\"runs: custom_sequence_int32\"") && !junit.contains("<failure"), "{junit}");
}

#[test]
#[ignore = "needs Python 3.11: run scripts/test"]
fn a_hunt_that_learns_finds_a_planted_fault_and_makes_it_small() {
    let folder = TempDir::new().expect("a folder");
    let output = hunt(&["--fault", "off-by-one"], &LEARN, folder.path());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let data = shown(folder.path());
    let document = &data["results"][0]["document"];
    let finding = &document["findings"][0];
    assert_eq!((&finding["kind"], &finding["cause"]), (&"wrong-sum".into(), &"wrong-arithmetic".into()), "{finding}");
    assert_eq!((&finding["messages"], &finding["result"]["verdict"]), (&1.into(), &"invalid".into()), "{finding}");
    assert_eq!(document["reached"][0]["runs"], 1, "{}", document["reached"]);
    assert_eq!(document["coverage"][0]["with_violations"], 1, "{}", document["coverage"]);
}

#[test]
#[ignore = "needs Python 3.11: run scripts/test"]
fn a_hunt_that_learns_finds_nothing_on_a_correct_server_and_goes_on_from_what_it_learnt() {
    let folder = TempDir::new().expect("a folder");
    let places = ["first", "second"].map(|name| folder.path().join(name));
    let mut reached = Vec::new();
    for place in &places {
        fs::create_dir(place).expect("a folder");
        let corpus = places[0].join("corpus.json");
        let from = ["--corpus", corpus.to_str().expect("UTF-8")];
        let from = if corpus.is_file() { &from[..] } else { &[] };
        let output = hunt(&[], &[&LEARN[..], from].concat(), place);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let data = shown(place);
        let rows = data["results"][0]["document"]["reached"].as_array().expect("rows").clone();
        let last = rows.last().unwrap_or_else(|| panic!("{}", text(&output)));
        reached.push(["runs", "pairs"].map(|name| last[name].as_u64().expect("a number")));
    }
    let [[runs, pairs], [more_runs, more_pairs]] = reached[..] else { panic!("{reached:?}") };
    assert!(runs > 0 && pairs > 0 && more_runs > runs && more_pairs >= pairs, "{reached:?}");
}
