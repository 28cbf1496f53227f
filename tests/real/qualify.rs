//! `scripts/qualify`, with a tritonserver that is installed in a folder as NVIDIA's images have it.

use std::{env, fs, path::PathBuf, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::triton::text;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The tritonserver of the default release, where the scripts keep it.
fn installed() -> PathBuf {
    let home =
        env::var_os("SEQUENCE_STRESS_TRITON_DIR").map_or_else(|| PathBuf::from(ROOT).join(".triton"), Into::into);
    home.join("nvidia-pytriton-0.7.0/pytriton/tritonserver")
}

fn qualify(model: &str, out: &TempDir) -> (Option<i32>, String) {
    let mut command = Command::new(format!("{ROOT}/scripts/qualify"));
    command.arg("--server").arg(installed()).args(["--models", model, "--only", "ordering", "--minutes", "0"]);
    command.arg("--out").arg(out.path()).env("SEQUENCE_STRESS_TOOL", env!("CARGO_BIN_EXE_sequence-stress"));
    let output = command.output().expect("it runs");
    (output.status.code(), text(&output))
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_correct_server_passes_and_leaves_a_report() {
    let out = TempDir::new().expect("a folder");
    let (code, said) = qualify("oldest_sequence_int32", &out);
    assert_eq!(code, Some(0), "{said}");
    // It was asked its version.
    for expected in ["2.51.0: suite of 1 models, 0 minutes of hunt", "suite, oldest_sequence_int32: passed"] {
        assert!(said.contains(expected), "{said}");
    }
    let read = |name: &str| fs::read_to_string(out.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let suite: Value = serde_json::from_str(&read("suite-oldest_sequence_int32.json")).expect("JSON");
    assert_eq!((&suite["exit_code"], suite["scenarios"].as_array().map(Vec::len)), (&0.into(), Some(1)), "{said}");
    assert!(read("report.html").contains("ordering") && read("junit.xml").contains("ordering"));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_that_does_not_start_is_not_tested() {
    let out = TempDir::new().expect("a folder");
    let (code, said) = qualify("no_such_model", &out);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("suite, no_such_model: not tested"), "{said}");
}
