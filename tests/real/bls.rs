//! A model of the real server's Python backend that calls a sequence model, as docs/ENSEMBLES.md has it.

use std::{fs, path::Path};

use crate::support::{
    tool::tool,
    triton::{text, with_triton},
};
use serde_json::Value;
use tempfile::TempDir;

const MODEL: &str = "bls_sequence_int32";
/// Few iterations and no claims, and an answer is lost when it does not come in two minutes, so that no machine is too slow.
const SHORT: &str = "load = { workers = 4, iterations = 8 }\nlimits = { lost_after_ms = 120000, connect_ms = 120000 }\n\
    contexts = { common = 3, rare = 0, rare_probability = 0 }\npatterns.common = { valid = 3, valid-valid = 1, no-start = 1 }\nclaims = {}\n";

/// Writes the called model, and one that calls it for each of these faults.
fn write_models(folder: &Path, faults: &[&str]) {
    let written = tool()
        .arg("repository")
        .arg(folder)
        .args(["--backend", "native", "--family", "dyna_sequence", "--dtype", "int32", "--max-batch-size", "8"])
        .args(["--idle-limit", "5s"])
        .output()
        .expect("it runs");
    assert!(written.status.success(), "{}", text(&written));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/ENSEMBLES.md")).expect("the page");
    let start = page.find(&format!("name: \"{MODEL}\"\n")).expect("the configuration");
    let config = page[start..].split("```").next().expect("its end");
    for fault in faults {
        let name = format!("{MODEL}{fault}");
        let version = folder.join(&name).join("1");
        fs::create_dir_all(&version).expect("a folder");
        fs::copy(root.join("models/bls.py"), version.join("model.py")).expect("a file");
        let own = config.replace(&format!("name: \"{MODEL}\""), &format!("name: \"{name}\""));
        let planted = format!("parameters {{ key: \"fault\" value {{ string_value: \"{fault}:once@5\" }} }}\n");
        let planted = if fault.is_empty() { String::new() } else { planted };
        fs::write(folder.join(&name).join("config.pbtxt"), format!("{own}{planted}")).expect("a file");
    }
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
        format!("'{tool}' -q -r 1 -m {MODEL}{fault} {to}; ")
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
    assert_eq!(correct["server_counts"]["result"], "agrees", "{:#}", correct["server_counts"]);
    let kinds = |result: &Value| result["violations_by_kind"].as_object().expect("an object").keys().cloned().collect();
    let kinds = [loses_start, loses_end].map(|result| -> Vec<String> { kinds(result) });
    assert!(kinds[0].iter().any(|kind| kind == "spurious-start-error"), "{loses_start:#}");
    // The called model adds the correlation ID at END.
    assert!(kinds[1].iter().any(|kind| kind == "wrong-sum"), "{loses_end:#}");
}
