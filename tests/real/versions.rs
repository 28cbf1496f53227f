//! The same correlation IDs in two versions of a model of the real tritonserver: each version has sequences of its own.

use std::fs;

use crate::support::{
    long::is_long,
    triton::{text, with_triton},
};
use serde_json::Value;
use tempfile::TempDir;

/// The scenario, without limits that a busy machine misses.
const SCENARIO: &str = concat!(
    "limits = { lost_after_ms = 120000, connect_ms = 120000 }\n",
    include_str!("../../scenarios/model-versions.toml")
);

/// What the runs of this model with these seeds print as JSON, on a server with versions 1 and 2 of each model.
fn results(server: &[&str], model: &str, seeds: u32) -> Vec<Value> {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, models) = (path("scenario.toml"), path("models"));
    fs::write(&scenario, SCENARIO).expect("a file");
    let tool = env!("CARGO_BIN_EXE_sequence-stress");
    let written = std::process::Command::new(tool)
        .args(["repository", &models, "--tester", "--dtype", "int32", "--versions", "2", "--idle-limit", "1s"])
        .output()
        .expect("it runs");
    assert!(written.status.success(), "{}", text(&written));
    let of = |seed: u32| {
        format!("'{tool}' --scenario '{scenario}' -q -m {model} -r {seed} --json '{}'; ", path(&seed.to_string()))
    };
    let runs: String = (1..=seeds).map(of).collect();
    let output = with_triton(&[&["--repository", &models], server].concat(), &["sh", "-c", &runs]).output();
    let output = output.expect("it runs");
    let read = |seed: u32| fs::read_to_string(path(&seed.to_string()));
    let result = |seed| serde_json::from_str(&read(seed).unwrap_or_else(|error| panic!("{error}: {}", text(&output))));
    (1..=seeds).map(|seed| result(seed).expect("JSON")).collect()
}

fn assert_valid(server: &[&str], model: &str) {
    for result in results(server, model, if is_long() { 10 } else { 2 }) {
        assert_eq!(result["verdict"], "valid", "{model}: {result:#}");
        assert_eq!(result["server_counts"]["result"], "agrees", "{model}: {:#}", result["server_counts"]);
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_version_that_computes_something_else_is_told_before_the_run() {
    let folder = TempDir::new().expect("a folder");
    let models = folder.path().join("models");
    let path = models.display().to_string();
    let tool = env!("CARGO_BIN_EXE_sequence-stress");
    let family = ["--backend", "python", "--family", "sequence", "--dtype", "int32", "--versions", "2"];
    let written = std::process::Command::new(tool).args(["repository", &path]).args(family).output().expect("it runs");
    assert!(written.status.success(), "{}", text(&written));
    let program = models.join("python_sequence_int32/2/model.py");
    let right = fs::read_to_string(&program).expect("a program");
    let wrong =
        right.replace("arithmetic.elements(values.shape, total)", "arithmetic.elements(values.shape, total * 3 + 7)");
    assert_ne!(wrong, right, "the program computes its response elsewhere");
    fs::write(&program, wrong).expect("a file");
    let run = [tool, "--scenario", "model-versions", "-m", "python_sequence_int32", "-i", "5", "-r", "1"];
    let output = with_triton(&["--repository", &path], &run).output().expect("it runs");
    let says = text(&output);
    assert_eq!(output.status.code(), Some(4), "{says}");
    assert!(says.contains("version 2: model 'python_sequence_int32' does not compute running-sum"), "{says}");
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_same_ids_in_two_versions_are_valid_in_tritonserver() {
    for model in ["custom_sequence_int32", "oldest_sequence_int32", "implicit_sequence_int32"] {
        assert_valid(&[], model);
    }
}

#[test]
#[ignore = "needs the front ends that SEQUENCE_STRESS_FRONT_ENDS names the release of: run scripts/test"]
fn the_same_ids_in_two_versions_are_valid_behind_newer_front_ends() {
    let release = std::env::var("SEQUENCE_STRESS_FRONT_ENDS").expect("scripts/test says which front ends there are");
    assert_valid(&["--frontend", &release], "custom_sequence_int32");
}
