//! `scripts/hunt` against the reference server, with a planted fault and without.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::support::tool::text;
use sequence_stress::failure::Failure;
use tempfile::TempDir;

/// Hunts on one model for one seed, which takes some seconds; the minutes are for a machine that is very slow.
fn hunt(fault: &[&str], folder: &Path) -> Output {
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
        .args(["--only", "rapid-cycling", "--seeds", "1", "--first-seed", "7", "--run-seconds", "1", "--runs", "2"])
        .args(["--minutes", "5", "--out"])
        .arg(folder)
        .output()
        .expect("it runs")
}

#[test]
#[ignore = "needs Python 3.11: run scripts/test"]
fn a_planted_fault_is_found_and_made_small_and_written_down() {
    let folder = TempDir::new().expect("a folder");
    let output = hunt(&["--fault", "reset-state"], folder.path());
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
}

#[test]
#[ignore = "needs Python 3.11: run scripts/test"]
fn on_a_correct_server_nothing_is_found() {
    let folder = TempDir::new().expect("a folder");
    let output = hunt(&[], folder.path());
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Nothing.") && said.contains("| endpoint | 1 "), "{said}");
}
