//! Failures for people who do not have this tool: scripts and bug reports.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::tool::{run, text, words};
use sequence_stress::failure::Failure;
use tempfile::TempDir;

/// Two steps, of which the second has to be answered with 12.
const SMALL: &str = r#"
format = "sequence-stress-failure"
version = 1
found = "wrong-sum at 1.0 s, worker 0: sent valid step 2/2 value 7; expected 12; saw 8"
kind = "wrong-sum"
seed = 1

[embedded]
fault = ["off-by-one"]

[[conversation]]
worker = 0
context = 0
pattern = "valid"
at_us = 0
accused = true
acts = ["send 0 START 5", "await 0", "send 0 END 7"]

[scenario]
target.model = "custom_sequence_int32"
"#;

fn small(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("failure.toml");
    fs::write(&path, SMALL).expect("a file");
    path
}

/// The files of a folder of the documents that end in this.
fn documents(folder: &str, ending: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(folder);
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|its| its == ending)).collect()
}

#[test]
fn a_recorded_replay_makes_the_bug_report_complete() {
    let folder = TempDir::new().expect("a folder");
    let path = small(&folder);
    let before = run(&["export", words(&path), "--format", "issue"]);
    assert!(before.status.success() && text(&before).contains("- Server: unknown"), "{}", text(&before));
    let output = run(&["replay", words(&path), "-n", "2", "--record"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let report = text(&run(&["export", words(&path), "--format", "issue"]));
    for part in [
        "- Server: sequence-stress 0",
        "name: \"custom_sequence_int32\"",
        "-> is sent by the client",
        "| 2 of 2 |",
        "grpcclient.InferInput(\"INPUT\", [1, 1], \"INT32\")",
    ] {
        assert!(report.contains(part), "'{part}' is not in: {report}");
    }
    // What was recorded changes nothing of the replay.
    let output = run(&["replay", words(&path)]);
    assert!(text(&output).contains("failed in 1 of 1 run"), "{}", text(&output));
}

#[test]
fn a_failure_that_was_made_small_has_a_complete_bug_report() {
    let folder = TempDir::new().expect("a folder");
    let (path, left) = (small(&folder), folder.path().join("failure.small.toml"));
    let output = run(&["replay", words(&path), "--shrink"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let report = text(&run(&["export", words(&left), "--format", "issue"]));
    assert!(report.contains("| 3 of 3 |") && !report.contains("nknown"), "{report}");
}

#[test]
fn a_run_tells_the_server_and_the_configuration() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("failure.toml");
    let stress = ["--embedded", "-q", "-t", "2", "-i", "5", "-r", "3", "--fault", "off-by-one:once@20", "--failure"];
    let output = run(&[&stress[..], &[words(&path)]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let facts = Failure::read(&path).expect("a failure").facts;
    assert!(facts.server.is_some_and(|server| server.starts_with("sequence-stress ")));
    assert!(facts.configuration.is_some_and(|text| text.contains("sequence_batching {")));
    assert_eq!(facts.tensors.map(|tensors| (tensors.input, tensors.output)), Some(("INPUT".into(), "OUTPUT".into())));
}

#[test]
fn an_unknown_form_is_rejected_with_those_that_there_are() {
    let folder = TempDir::new().expect("a folder");
    let output = run(&["export", words(&small(&folder)), "--format", "html"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("there are python, issue"), "{}", text(&output));
}

#[test]
fn the_failures_of_the_docs_are_small_and_can_be_read_and_exported() {
    let files = documents("failures", "toml");
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let failure = Failure::read(&file).expect("a failure");
        assert!(failure.messages() <= 10 && failure.embedded.is_none(), "{}", file.display());
        let output = run(&["export", words(&file)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let script = text(&output);
        assert!(script.contains("\ndef worker_0():\n    "), "{script}");
        assert!(failure.messages() > 5 || script.lines().count() < 96, "{}: {script}", file.display());
        // docs/SECURITY-REPORTS.md: what may not be shown with its script is no part of the documents.
        assert_eq!(failure.facts.withheld, None, "{}", file.display());
    }
}

#[test]
fn the_findings_are_the_bug_reports_of_the_failures() {
    let failures = documents("failures", "toml");
    let findings = documents("findings", "md");
    // A report that was written by hand has its script beside it.
    let is_report = |path: &&PathBuf| {
        let is_page = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("details-"));
        !is_page && !path.with_extension("py").exists()
    };
    assert_eq!(findings.iter().filter(is_report).count(), failures.len());
    for file in failures {
        let name = file.file_stem().expect("a name").to_str().expect("UTF-8");
        let finding = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/findings/{name}.md"));
        let written = fs::read_to_string(&finding).expect("a finding");
        let report = run(&["export", words(&file), "--format", "issue"]).stdout;
        let same = String::from_utf8_lossy(&report) == written;
        assert!(same, "write {name}.md again: sequence-stress export docs/failures/{name}.toml --format issue");
    }
}

/// As a run leaves them, with workers of several populations.
#[test]
fn failures_of_scenarios_with_several_populations_have_scripts() {
    let folder = TempDir::new().expect("a folder");
    for scenario in ["starvation", "unusual-steps", "mixed-transports", "model-versions"] {
        let failure = folder.path().join(format!("{scenario}.toml"));
        let start = ["--embedded", "--versions", "2", "--scenario", scenario, "-r", "1", "-q"];
        let found = ["--fault", "off-by-one:once@300", "--fail-fast", "--failure", words(&failure)];
        let output = run(&[&start[..], &found].concat());
        assert_eq!(output.status.code(), Some(1), "{scenario}: {}", text(&output));
        for format in ["python", "issue"] {
            let output = run(&["export", words(&failure), "--format", format]);
            assert_eq!(output.status.code(), Some(0), "{scenario}: {}", text(&output));
        }
    }
}
