//! Models of the real server's Python backend that call a sequence model.

use std::{fs, path::Path};

use crate::support::{
    tool::tool,
    triton::{text, with_triton},
};
use serde_json::Value;
use tempfile::TempDir;

const MODEL: &str = "bls_oldest_sequence_int32";
/// Few iterations and no claims, and an answer is lost when it does not come in two minutes, so that no machine is too slow.
const SHORT: &str = "load = { workers = 4, iterations = 8 }\nlimits = { lost_after_ms = 120000, connect_ms = 120000 }\n\
    contexts = { common = 3, rare = 0, rare_probability = 0 }\npatterns.common = { valid = 3, valid-valid = 1, no-start = 1 }\nclaims = {}\n";

/// Writes a model that calls another for each of these faults, which is what its name begins with.
fn write_models(folder: &Path, faults: &[&str]) {
    for fault in faults {
        let mut command = tool();
        command.arg("repository").arg(folder).args(["--force", "--backend", "native", "--family", "bls_oldest"]);
        command.args(["--dtype", "int32", "--idle-limit", "5s"]);
        if !fault.is_empty() {
            command.args(["--prefix", fault, "--parameter", &format!("fault={fault}:once@5")]);
        }
        let written = command.output().expect("it runs");
        assert!(written.status.success(), "{}", text(&written));
    }
}

/// The model with a fault.
fn name(fault: &str) -> String {
    if fault.is_empty() { MODEL.to_owned() } else { format!("{fault}_{MODEL}") }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_model_that_calls_a_sequence_model_is_tested_as_any_and_what_it_loses_is_found() {
    let folder = TempDir::new().expect("a folder");
    let models = folder.path().join("models");
    let faults = ["", "bls-loses-start", "bls-loses-end"];
    write_models(&models, &faults);
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("scenario.toml"), SHORT).expect("a file");
    let tool = env!("CARGO_BIN_EXE_sequence-stress");
    let run = |fault: &&str| {
        let to = format!("--scenario '{}' --json '{}{fault}'", path("scenario.toml"), path("result"));
        format!("'{tool}' -q -r 1 -m {} {to}; ", name(fault))
    };
    let runs: String = faults.iter().map(run).collect();
    let served = ["--repository", models.to_str().expect("UTF-8")];
    let output = with_triton(&served, &["sh", "-c", &runs]).output().expect("it runs");
    let results = faults.map(|fault| {
        let result = fs::read_to_string(path(&format!("result{fault}")));
        let result = result.unwrap_or_else(|error| panic!("{fault}: {error}: {}", text(&output)));
        serde_json::from_str::<Value>(&result).expect("JSON")
    });
    let [correct, loses_start, loses_end] = &results;
    assert_eq!(correct["verdict"], "valid", "{correct:#}");
    assert_eq!(correct["model"]["calls"], format!("{MODEL}_called"), "{:#}", correct["model"]);
    for result in &results {
        assert_eq!(result["server_counts"]["result"], "agrees", "{:#}", result["server_counts"]);
    }
    let kinds = |result: &Value| result["violations_by_kind"].as_object().expect("an object").keys().cloned().collect();
    let kinds = [loses_start, loses_end].map(|result| -> Vec<String> { kinds(result) });
    assert!(kinds[0].iter().any(|kind| kind == "spurious-start-error"), "{loses_start:#}");
    // The native model itself answers with an error, or says that it saw no END.
    let is_found = |kind: &String| ["wrong-control", "unexpected-error"].contains(&kind.as_str());
    assert!(kinds[1].iter().any(is_found), "{loses_end:#}");
}
