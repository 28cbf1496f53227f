//! `with-triton --repository`: the model files that `sequence-stress repository` writes answer in the real tritonserver, beside native
//! and Python models.

use std::{fs, path::Path, process::Output};

use crate::support::{
    tool::tool,
    triton::{text, with_triton},
};
use serde_json::Value;
use tempfile::TempDir;

/// What keeps its state in the model, in the server or nowhere; by place and by ID; numbers and texts; each of the lighter runtimes.
const MODELS: &[(&str, &[&str])] = &[
    ("onnx_implicit_sequence_int32", &["--backend", "onnxruntime", "--family", "implicit", "--instances", "2"]),
    ("onnx_implicit_dyna_sequence_object", &["--backend", "onnxruntime", "--family", "dyna_implicit"]),
    ("openvino_variable_sequence_float32", &["--backend", "openvino", "--family", "sequence", "--variable"]),
    (
        "graphdef_implicit_initial_file_sequence_bool",
        &["--backend", "graphdef", "--family", "implicit", "--initial-state", "file"],
    ),
    ("custom_sequence_int32", &["--backend", "native", "--family", "sequence"]),
    ("python_dyna_sequence_int32", &["--backend", "python", "--family", "dyna_sequence"]),
];
const SHORT: &str = "load.workers = 2\nload.iterations = 10\nlimits.quiet_ms = 200\nlimits.lost_after_ms = 120000\n\
    limits.connect_ms = 120000\nclaims = {}\n";

/// Writes a model of this name.
fn write(repository: &Path, name: &str, options: &[&str]) {
    let dtype = name.rsplit('_').next().expect("it ends in one");
    let mut command = tool();
    command.arg("repository").arg(repository).args(["--force", "--idle-limit", "200ms", "--max-batch-size", "4"]);
    let output = command.args(["--dtype", dtype]).args(options).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    assert!(repository.join(name).is_dir(), "{name}: {}", text(&output));
}

fn path_of(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

/// Serves the repository in the folder, and runs the tool on these models; what it all printed.
fn run_on(folder: &TempDir, names: &[&str]) -> Output {
    let scenario = path_of(folder, "scenario.toml");
    fs::write(&scenario, SHORT).expect("a file");
    let tool = env!("CARGO_BIN_EXE_sequence-stress");
    let run = |name: &&str| {
        format!("'{tool}' --scenario '{scenario}' -r 7 -q -m {name} --json '{}' & ", path_of(folder, name))
    };
    let runs = format!("{} wait", names.iter().map(run).collect::<String>());
    let repository = path_of(folder, "models");
    with_triton(&["--repository", &repository], &["sh", "-c", &runs]).output().expect("it runs")
}

/// The same; what the last run printed as JSON, by model.
fn stress(folder: &TempDir, names: &[&str]) -> Vec<Value> {
    let output = run_on(folder, names);
    let result = |name: &&str| {
        let json = fs::read_to_string(path_of(folder, name));
        serde_json::from_str(&json.unwrap_or_else(|error| panic!("{name}: {error}\n{}", text(&output)))).expect("JSON")
    };
    names.iter().map(result).collect()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_hosted_models_beside_native_and_python_ones() {
    let folder = TempDir::new().expect("a folder");
    for (name, options) in MODELS {
        write(&folder.path().join("models"), name, options);
    }
    let names: Vec<_> = MODELS.iter().map(|(name, _)| *name).collect();
    for (name, result) in names.iter().zip(stress(&folder, &names)) {
        assert_eq!(result["verdict"], "valid", "{name}: {:#}", result["violations"]);
        assert_eq!(result["server_counts"]["result"], "agrees", "{name}: {:#}", result["server_counts"]);
        assert!(result["outcomes"]["completed"].as_u64() > Some(200), "{name}: {:#}", result["outcomes"]);
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_graph_that_computes_something_else_is_told() {
    let folder = TempDir::new().expect("a folder");
    let models = folder.path().join("models");
    write(&models, "onnx_sequence_int32", &["--backend", "onnxruntime", "--family", "sequence"]);
    let config = models.join("onnx_sequence_int32/config.pbtxt");
    let written = fs::read_to_string(&config).expect("a file");
    // No machine is so slow that the server ends the only sequence.
    let wrong = [
        ("\"ready-times-input-plus-start\"", "\"running-sum\""),
        ("idle_microseconds: 200000", "idle_microseconds: 20000000"),
    ]
    .iter()
    .fold(written, |text, (right, wrong)| {
        assert!(text.contains(right), "{right}: {text}");
        text.replace(right, wrong)
    });
    fs::write(&config, &wrong).expect("it can be written");
    let said = text(&run_on(&folder, &["onnx_sequence_int32"]));
    let told = "model 'onnx_sequence_int32' does not compute running-sum: it answered the only sequence, 1009, 20011, -21020, twice with \
                1010, 20011, -21020 instead of 1009, 21020, 0";
    assert!(said.contains(told), "{said}");
    assert_eq!(fs::read_to_string(&config).expect("a file"), wrong, "what is given is left as it is");
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn what_is_no_model_is_told_in_one_line() {
    let folder = TempDir::new().expect("a folder");
    let models = folder.path().join("models");
    write(&models, "onnx_sequence_int32", &["--backend", "onnxruntime", "--family", "sequence"]);
    fs::write(models.join("onnx_sequence_int32/1/model.onnx"), "no graph").expect("it can be written");
    let repository = path_of(&folder, "models");
    let output = with_triton(&["--repository", &repository], &["true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(125), "{}", text(&output));
    assert!(text(&output).contains("failed to load 'onnx_sequence_int32'"), "{}", text(&output));
}

#[test]
fn what_is_no_repository_is_told_in_one_line() {
    let folder = TempDir::new().expect("a folder");
    let rejected = |options: &[&str]| {
        let mut command = std::process::Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/with-triton"));
        let output = command.args(options).args(["--", "true"]).output().expect("it runs");
        let text = text(&output);
        (output.status.code(), text.trim_end().lines().last().unwrap_or_default().to_owned())
    };
    let empty = folder.path().to_str().expect("UTF-8").to_owned();
    let (code, line) = rejected(&["--repository", &empty]);
    assert_eq!(
        (code, line),
        (Some(125), format!("with-triton: '{empty}' is no model repository: it has no folders, each of a model"))
    );
    let none = path_of(&folder, "none");
    let (code, line) = rejected(&["--repository", &none]);
    assert_eq!(
        (code, line),
        (Some(125), format!("with-triton: cannot read the models in '{none}': No such file or directory"))
    );
    let (code, line) = rejected(&["--repository", &empty, "--execute-delay-ms", "0"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        line,
        format!(
            "with-triton: error: argument --execute-delay-ms: with --repository the models are what '{empty}' says"
        )
    );
}
