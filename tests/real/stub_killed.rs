//! A stub of Triton's Python backend that is killed while sequences are live: the real server refuses what is lost.

use std::{fs, path::Path};

use crate::support::{
    long::is_long,
    triton::{text, with_triton},
};
use serde_json::Value;
use tempfile::TempDir;

/// The scenario, without limits that a busy machine misses.
const SCENARIO: &str = concat!(
    "limits = { lost_after_ms = 120000, connect_ms = 120000 }\n",
    include_str!("../../scenarios/stub-killed.toml")
);
const PYTHON: [&str; 4] = ["--python", "--explicit", "--server-arg=--load-model=*", "--idle-limit-ms=1000"];

/// What the runs with these seeds print as JSON, on one server.
fn results(more: &[&str], model: &str, seeds: u32) -> Vec<Value> {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let scenario = path("scenario.toml");
    fs::write(&scenario, SCENARIO).expect("a file");
    let tool = env!("CARGO_BIN_EXE_sequence-stress");
    let of = |seed: u32| {
        format!("'{tool}' --scenario '{scenario}' -q -m {model} -r {seed} --json '{}'; ", path(&seed.to_string()))
    };
    let runs: String = (1..=seeds).map(of).collect();
    let output = with_triton(&[&PYTHON[..], more].concat(), &["sh", "-c", &runs]).output().expect("it runs");
    let read = |seed: u32| fs::read_to_string(Path::new(&path(&seed.to_string())));
    let result = |seed| serde_json::from_str(&read(seed).unwrap_or_else(|error| panic!("{error}: {}", text(&output))));
    (1..=seeds).map(|seed| result(seed).expect("JSON")).collect()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_whose_stub_is_killed_refuses_what_is_lost() {
    for model in ["custom_sequence_int32", "oldest_sequence_int32"] {
        for result in results(&["--shape", "1x4"], model, if is_long() { 10 } else { 1 }) {
            assert_eq!(result["verdict"], "valid", "{model}: {result:#}");
            let done = result["phases"][0]["server"].as_str().unwrap_or_default();
            assert!(done.starts_with("an instance of the model was killed, and came back"), "{done}");
            assert!(result["outcomes"]["failed"].as_u64() > Some(0), "{model}: {:#}", result["outcomes"]);
        }
    }
}

/// It starts the stub again, without the state of the sequences, and does not end them.
#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn release_23_10_goes_on_from_nothing() {
    let result = &results(&["--release", "23.10", "--shape", "1x4"], "custom_sequence_int32", 1)[0];
    let kinds: Vec<_> = result["violations"].as_array().expect("violations").iter().map(|its| &its["kind"]).collect();
    assert!(kinds.iter().any(|kind| *kind == "wrong-sum"), "{kinds:?}");
}
