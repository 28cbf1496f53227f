//! An instance of the model that fails while sequences are live, and comes back: lost state is refused, and never made up.

use std::time::Duration;

use crate::support::{
    self,
    runs::{run_alone, scenario_at, server_of_four},
    tool::unwrapped,
};
use oracle::ViolationKind;
use reference::{Fault, Planted, Server};
use sequence_stress::run::{Restart, RunResult, Setup};
use wire::simulation::Simulation;
use workload::seed::Seed;

const SCENARIO: &str = include_str!("../../scenarios/stub-killed.toml");
/// By slot, by correlation ID, and kept by the server.
const MODELS: [&str; 3] = ["custom_sequence_int32", "oldest_sequence_int32", "implicit_sequence_int32"];
const SEEDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

fn run(server: &Server, model: &str, seed: u64) -> RunResult {
    let limits = "limits = { quiet_ms = 20, settle_ms = 3000, lost_after_ms = 20000 }";
    let scenario = scenario_at(server.address, &format!("{limits}\n{SCENARIO}\n[target]\nmodel = '{model}'"));
    let instance_failure = Some(Restart::by(server.failure_of_an_instance()));
    run_alone(Setup { instance_failure, ..Setup::new(scenario, Seed(seed)) }).expect("a run")
}

fn server(faults: &[Planted]) -> Server {
    server_of_four(Duration::from_millis(500), Duration::from_millis(1), faults)
}

/// A fault that is never committed: only its chances are counted.
fn counted(fault: Fault) -> Planted {
    Planted::once(fault, u64::MAX)
}

#[test]
fn a_server_that_refuses_what_it_has_lost_is_not_accused() {
    for model in MODELS {
        let lost = SEEDS.map(|seed| {
            let _simulation = Simulation::begin();
            let server = server(&[counted(Fault::AnswerAfterLostState)]);
            let result = run(&server, model, seed);
            assert_eq!(result.violations, [], "{model}, seed {seed}");
            let done = result.phases[0].server.as_deref().unwrap_or_default();
            assert!(done.starts_with("an instance of the model was killed, and came back"), "{done}");
            let total = result.tally.total();
            assert!(total.completed > 1000, "{model}, seed {seed}: {total:?}");
            // How often sequences could have gone on from nothing.
            server.chances(Fault::AnswerAfterLostState)
        });
        // What the server keeps is not lost.
        assert_eq!(lost.iter().any(|lost| *lost > 0), model != MODELS[2], "{model}: {lost:?}");
    }
}

/// What the model that it calls has executed stays executed, although the request fails.
#[test]
fn a_model_that_calls_another_loses_no_state() {
    for model in ["bls_sequence_int32", "bls_oldest_sequence_int32"] {
        for seed in &SEEDS[..5] {
            let _simulation = Simulation::begin();
            let result = run(&server(&[]), model, *seed);
            assert_eq!(result.violations, [], "{model}, seed {seed}");
            let total = result.tally.total();
            assert!(total.completed > 500 && total.unjudged > 0, "{model}, seed {seed}: {total:?}");
        }
    }
}

#[test]
fn a_server_that_goes_on_from_nothing_is_found() {
    for model in &MODELS[..2] {
        for seed in SEEDS {
            let _simulation = Simulation::begin();
            let server = server(&[Planted::always(Fault::AnswerAfterLostState)]);
            let result = run(&server, model, seed);
            let found: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
            assert!(found.contains(&ViolationKind::WrongSum), "{model}, seed {seed}: {found:?}");
            assert_eq!(server.committed(Fault::AnswerAfterLostState), 1, "{model}, seed {seed}");
        }
    }
}

/// Runs the scenario against a server that is another process; the exit code, and what was told.
fn told(words: &[&str]) -> (Option<i32>, String) {
    let server = server(&[counted(Fault::OffByOne)]);
    let url = server.address.to_string();
    let command = [&["-u", &url, "--scenario", "stub-killed", "-r", "1"], words].concat();
    let output = support::tool::tool().args(command).output().expect("the command runs");
    let told = [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    assert_eq!(server.chances(Fault::OffByOne), 0, "nothing is sent: {told}");
    (output.status.code(), unwrapped(&told))
}

#[test]
fn what_cannot_be_killed_is_told_before_anything_is_sent() {
    let (code, why) = told(&[]);
    let no_pid =
        "phase 'killed' is not possible: it kills an instance of the model, and needs --server-pid to find its process";
    assert!(code == Some(2) && why.contains(no_pid), "{code:?}: {why}");
}

#[cfg(target_os = "linux")]
#[test]
fn no_process_is_killed_but_a_stub_of_the_model() {
    let own = std::process::id().to_string();
    let (code, why) = told(&["--server-pid", &own]);
    let no_stub = format!("no descendant of process {own} is a Python stub of 'custom_sequence_int32'");
    assert!(code == Some(2) && why.contains(&no_stub), "{code:?}: {why}");
}
