//! Runs while another model of the server is unloaded and loaded again and again.

use crate::support::runs::{quick_server as server, run_alone, scenario_at};
use oracle::{ViolationKind, diagnosis::Cause};
use reference::{Fault, Planted, Server};
use sequence_stress::{
    probe::Accounting,
    run::{RunError, RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::seed::Seed;

/// Sequences while another model is unloaded and loaded.
const OTHERS: &str = "
limits = { quiet_ms = 20, settle_ms = 3000, lost_after_ms = 20000 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
patterns.common = { valid = 3, no-start = 1 }
length = { min = 6, max = 20, uniform = { min = 6, max = 20 } }
sending.window = 2
[[phase]]
name = 'others load'
other_model = 'OTHER'
[[population]]
name = 'throughout'
phase = 'others load'
load = { workers = 6, iterations = 20 }
";

fn beside(server: &Server, model: &str, other: &str, seed: u64) -> Result<RunResult, RunError> {
    let text = format!("{}\n[target]\nmodel = '{model}'", OTHERS.replace("OTHER", other));
    run_alone(Setup::new(scenario_at(server.address, &text), Seed(seed)))
}

#[test]
fn another_model_that_is_loaded_again_and_again_disturbs_nobody() {
    for (seed, model) in (0..10).zip(["custom_sequence_int32", "implicit_sequence_int32"].into_iter().cycle()) {
        let _simulation = Simulation::begin();
        let result = beside(&server(&[]), model, "custom_sequence_float32", seed).expect("a run");
        assert_eq!(result.violations, [], "{model}, seed {seed}");
        // Nothing is excused: not even the counts may differ.
        assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{model}: {:?}", result.accounting);
        let loads = result.phases[0].other_loads;
        assert!(loads.is_some_and(|loads| loads > 5), "{loads:?}");
    }
}

#[test]
fn a_load_that_resets_the_states_of_another_model_is_found_and_named() {
    // Of a state that the server keeps, one that is reset and one that was not saved look alike.
    let rows = [("custom_sequence_int32", Cause::StateReset), ("implicit_sequence_int32", Cause::EffectLost)];
    for (seed, (model, cause)) in (0..4).zip(rows.into_iter().cycle()) {
        let _simulation = Simulation::begin();
        // In the middle of the run, when many sequences are live.
        let server = server(&[Planted::once(Fault::LoadResetsOthers, 10)]);
        let result = beside(&server, model, "custom_sequence_float32", seed).expect("a run");
        let what = format!("{model}, seed {seed}, committed {}", server.committed(Fault::LoadResetsOthers));
        let first = result.violations.first().unwrap_or_else(|| panic!("{what}: {:?}", result.phases));
        assert_eq!((first.kind, first.explanations[0].cause), (ViolationKind::WrongSum, cause), "{what}: {first:?}");
    }
}

#[test]
fn only_another_model_that_is_there_can_be_loaded_beside_the_run() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    for (model, other, says) in [
        ("custom_sequence_int32", "no_such", "model 'no_such' cannot be loaded anew"),
        (
            "ensemble_two_sequence_int32",
            "ensemble_two_sequence_int32_step2",
            "is a step of 'ensemble_two_sequence_int32'",
        ),
        ("bls_sequence_int32", "bls_sequence_int32_called", "is called by 'bls_sequence_int32'"),
    ] {
        let error = beside(&server, model, other, 1).expect_err("it cannot be").to_string();
        assert!(error.contains("phase 'others load' is not possible") && error.contains(says), "{error}");
    }
}
