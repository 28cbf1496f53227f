//! Several versions of a model, each with sequences of its own.

use std::{fs, path::Path};

use oracle::{ViolationKind, diagnosis::Cause};
use reference::{Fault, ModelOptions, Planted, Server};
use sequence_stress::{
    probe::{Accounting, SlotFinding},
    run::{RunResult, Setup},
};
use serde_json::Value;
use tempfile::TempDir;
use wire::simulation::Simulation;
use workload::{conversation::Transport, scenario::BUILTIN, seed::Seed};

use crate::support::{
    runs::{reference_server, run_alone, scenario_at},
    tool::{run, told, words},
};

fn server(faults: &[Planted]) -> Server {
    reference_server(ModelOptions { versions: 2, max_batch_size: 4, candidates: 4, ..ModelOptions::default() }, faults)
}

/// The built-in scenario with these keys before it.
fn both_versions(server: &Server, keys: &str, seed: u64) -> RunResult {
    let builtin = BUILTIN.iter().find(|builtin| builtin.name == "model-versions").expect("it is there");
    let scenario = scenario_at(server.address, &format!("{keys}\n{}", builtin.text));
    run_alone(Setup::new(scenario, Seed(seed))).expect("a run")
}

#[test]
fn the_same_ids_in_two_versions_are_no_violation_and_all_are_counted() {
    let models = ["custom_sequence_int32", "oldest_sequence_int32", "implicit_sequence_int32"];
    let transports = [Transport::GrpcStream, Transport::GrpcUnary];
    let pairs = models.into_iter().flat_map(|model| transports.map(|transport| (model, transport)));
    for (seed, (model, transport)) in (0..).zip(pairs) {
        let _simulation = Simulation::begin();
        let keys = format!("target.model = '{model}'\nsending.transport = '{transport}'");
        let result = both_versions(&server(&[]), &keys, seed);
        assert_eq!(result.violations, [], "{model}, {transport}, seed {seed}");
        assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{model}: {:?}", result.accounting);
    }
}

#[test]
fn a_step_that_goes_to_another_version_is_found() {
    for seed in 0..4 {
        let _simulation = Simulation::begin();
        let server = server(&[Planted::once(Fault::VersionsShareSequences, 20)]);
        let result = both_versions(&server, "", seed);
        let found: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        assert_eq!(server.committed(Fault::VersionsShareSequences), 1, "seed {seed}");
        // The step changes two sums: that of the sequence that it missed, and that of the one that it went to.
        let shows = [ViolationKind::WrongSlot, ViolationKind::WrongSum];
        assert!(found.iter().any(|kind| shows.contains(kind)), "seed {seed}: {found:?}");
    }
}

#[test]
fn the_same_id_in_another_version_is_no_other_id() {
    let mut committed = 0;
    for seed in 0..6 {
        let _simulation = Simulation::begin();
        let server = server(&[Planted::once(Fault::VersionsShareSequences, 15)]);
        let result = both_versions(&server, "target.model = 'oldest_sequence_int32'", seed);
        committed += server.committed(Fault::VersionsShareSequences);
        let causes = result.violations.iter().flat_map(|violation| &violation.explanations);
        let wrong_id: Vec<_> = causes.filter(|its| its.cause == Cause::CorridWrong).collect();
        assert!(wrong_id.is_empty(), "seed {seed}: {wrong_id:?}");
    }
    assert_eq!(committed, 6);
}

#[test]
fn the_slots_of_each_version_are_counted() {
    for lost in [None, Some(5), Some(10), Some(15), Some(20), Some(25), Some(30)] {
        let _simulation = Simulation::begin();
        let faults: Vec<_> = lost.map(|chance| Planted::once(Fault::LeakSlotAtEnd, chance)).into_iter().collect();
        let server = server(&faults);
        let result = both_versions(&server, "slots.check = true", 1);
        match &result.slots.finding {
            SlotFinding::AllThere { slots: 8 } => assert_eq!(lost, None, "{:?}", result.slots),
            SlotFinding::Leaked { leaked: 1, .. } => assert!(lost.is_some(), "{:?}", result.slots),
            finding => panic!("{lost:?}: {finding:?}"),
        }
    }
}

/// What a run prints as JSON.
fn result(folder: &Path, arguments: &[&str]) -> Value {
    let file = folder.join("result.json");
    let json = file.display().to_string();
    let output = run(&[arguments, &["-q", "--json", &json]].concat());
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    serde_json::from_str(&text).expect("JSON")
}

const SMALL: &str = "--embedded --versions 3 -r 5 -c 2 -i 20";

#[test]
fn a_run_of_one_version_names_it_everywhere() {
    let folder = TempDir::new().expect("a folder");
    for transport in ["grpc-stream", "grpc-unary", "http", "http-binary"] {
        let more = ["--model-version", "2", "--transport", transport];
        let result = result(folder.path(), &[&words_of(SMALL)[..], &more].concat());
        assert_eq!(result["verdict"], "valid", "{transport}: {result:#}");
        // A response of version 3, which is the newest, would be a violation.
        assert_eq!((&result["model_version"], &result["server_counts"]["result"]), (&"2".into(), &"agrees".into()));
    }
}

#[test]
fn a_version_that_is_not_there_is_told_before_anything_is_sent() {
    let (code, text) = told(&[&words_of(SMALL)[..], &["--model-version", "7"]].concat());
    let says = "the server has no version 7 of model 'custom_sequence_int32' that is ready; it serves 1, 2, 3";
    assert!(code == Some(4) && text.contains(says) && text.trim().lines().count() == 1, "{code:?} {text}");
    let (code, text) = told(&[&words_of(SMALL)[..], &["--model-version", "0"]].concat());
    assert!(code == Some(2) && text.contains("versions are numbers from 1"), "{code:?} {text}");
    let scenario = ["--scenario", "model-versions", "--model-version", "1"];
    let (code, text) = told(&[&words_of(SMALL)[..], &scenario].concat());
    assert!(code == Some(2) && text.contains("the populations name versions of their own"), "{code:?} {text}");
}

#[test]
fn outputs_without_a_formula_are_those_of_one_version() {
    for expected in [["--golden", "auto"], ["--expect", "none"], ["--golden", "no.golden"]] {
        let start = ["--embedded", "--versions", "2", "--scenario", "model-versions", "-m", "gru_float32"];
        let (code, text) = told(&[&start[..], &expected].concat());
        let says = "the scenario's populations name several";
        assert!(code == Some(2) && text.contains(says) && text.trim().lines().count() == 1, "{code:?} {text}");
    }
}

#[test]
fn a_failure_of_two_versions_keeps_them() {
    let folder = TempDir::new().expect("a folder");
    let failure = folder.path().join("failure.toml");
    // Neither version alone has as many steps: by then both have some.
    let fault = "off-by-one:once@200";
    let more = ["--fault", fault, "--failure", words(&failure), "--scenario", "model-versions"];
    let (code, text) = told(&[&words_of(SMALL)[..], &more].concat());
    assert_eq!(code, Some(1), "{text}");
    let kept = fs::read_to_string(&failure).expect("it was written");
    for part in ["version = 1", "version = 2", "versions = 3", "worker = 0", "worker = 1"] {
        assert!(kept.contains(part), "no {part} in {kept}");
    }
    let (code, script) = told(&["export", words(&failure)]);
    assert_eq!(code, Some(0), "{script}");
    for part in ["model_version=\"1\"", "model_version=\"2\""] {
        assert!(script.contains(part), "no {part} in {script}");
    }
    // The same conversations with a correct server: a response of another version would be a violation.
    fs::write(&failure, kept.replace(&format!("fault = [\"{fault}\"]"), "")).expect("a file");
    let (code, text) = told(&["replay", words(&failure)]);
    assert!(code == Some(0) && text.contains("no violation"), "{code:?} {text}");
}

#[test]
fn a_written_repository_of_two_versions_is_served_with_both() {
    let folder = TempDir::new().expect("a folder");
    let models = folder.path().join("models");
    let (code, text) = told(&["repository", words(&models), "--tester", "--dtype", "int32", "--versions", "2"]);
    assert_eq!(code, Some(0), "{text}");
    let model = models.join("custom_sequence_int32");
    assert!(model.join("1").is_dir() && model.join("2").is_dir());
    let config = fs::read_to_string(model.join("config.pbtxt")).expect("it was written");
    assert!(config.contains("version_policy") && config.contains("all"), "{config}");
}

fn words_of(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}
