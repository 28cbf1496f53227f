//! What models say that they saw is asked for and checked: a wrong START, END, READY or CORRID is found although the sum may be
//! right, and a step in a slot that is not its own.

use std::time::Duration;

use crate::support::runs::{reference_server, run_alone, scenario};
use oracle::{Evidence, ViolationKind, diagnosis::Cause};
use reference::{ModelOptions, Planted};
use sequence_stress::run::{RunResult, Setup};
use wire::simulation::Simulation;
use workload::{controls::Difference, seed::Seed};

/// One worker's sequences follow each other, so that a fault is committed early; nobody counts slots.
const SCENARIO: &str = "
load = { workers = 3, iterations = 12 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
limits = { lost_after_ms = 1000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
length = { min = 2, max = 12, uniform = { min = 2, max = 12 } }
slots.check = false
claims = {}
";
const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";

const PATTERNS: &str = "patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1 }";

fn stress(model: &str, fault: Option<&str>, more: &str) -> RunResult {
    let _simulation = Simulation::begin();
    let models = ModelOptions {
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_secs(2),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    let faults: Vec<_> = fault.map(|fault| fault.parse::<Planted>().expect("a fault")).into_iter().collect();
    let server = reference_server(models, &faults);
    let text = format!("{SCENARIO}{more}\ntarget.endpoint = '{}'\ntarget.model = '{model}'", server.address);
    let setup = Setup { embedded: true, ..Setup::new(scenario(&text), Seed(1)) };
    run_alone(setup).expect("the server can be tested")
}

#[test]
fn a_control_that_the_model_sees_wrongly_is_one_violation_that_names_it() {
    for (model, fault, cause) in [
        (DIRECT, "start-missing:once@3", Cause::StartNotTold),
        (DIRECT, "start-spurious:once@3", Cause::StartTold),
        (DIRECT, "ready-missing:once@3", Cause::ReadyNotTold),
        (OLDEST, "end-missing:once@3", Cause::EndNotTold),
        (OLDEST, "end-spurious:once@3", Cause::EndTold),
        (OLDEST, "corrid-zero:once@3", Cause::CorridWrong),
        ("implicit_sequence_int32", "start-missing:once@3", Cause::StartNotTold),
        ("custom_nobatch_sequence_int32", "start-spurious:once@3", Cause::StartTold),
    ] {
        let result = stress(model, Some(fault), PATTERNS);
        let [violation] = &result.violations[..] else { panic!("{model}, {fault}: {:#?}", result.violations) };
        assert_eq!(violation.kind, ViolationKind::WrongControl, "{model}, {fault}: {violation:?}");
        assert_eq!(violation.explanations[0].cause, cause, "{model}, {fault}: {violation:?}");
        assert_eq!(result.tally.violation_count(), 1, "{model}, {fault}");
    }
}

#[test]
fn a_wrong_correlation_id_is_told_with_the_one_that_the_model_saw() {
    let result = stress(OLDEST, Some("corrid-other:once@3"), PATTERNS);
    let wrong = result.violations.iter().find(|violation| violation.kind == ViolationKind::WrongControl);
    let wrong = wrong.unwrap_or_else(|| panic!("{:#?}", result.violations));
    assert_eq!(wrong.explanations[0].cause, Cause::CorridWrong);
    let id = wrong.place.as_ref().expect("a place").correlation_id.0.get();
    let Evidence::Controls { differences, .. } = &wrong.evidence else { panic!("{wrong:?}") };
    assert!(matches!(differences[..], [Difference::Corrid { said, .. }] if said == id), "{wrong:?}");
}

#[test]
fn two_sequences_in_one_slot_are_found_by_the_slot() {
    let one_at_a_time = "sending.window = 1\npatterns.common = { valid = 1 }";
    let result = stress(DIRECT, Some("double-release"), one_at_a_time);
    let wrong = result.violations.iter().find(|violation| violation.kind == ViolationKind::WrongSlot);
    let wrong = wrong.unwrap_or_else(|| panic!("{:#?}", result.violations));
    assert!(matches!(wrong.evidence, Evidence::TakenSlot { .. }), "{wrong:?}");
    assert_eq!(wrong.explanations[0].cause, Cause::SharedState);
    assert!(result.tally.violations[&ViolationKind::WrongSlot] > 0);
}

#[test]
fn nobody_is_asked_where_the_scenario_says_so() {
    let result = stress(OLDEST, Some("end-missing"), &format!("{PATTERNS}\ntarget.controls = false"));
    assert_eq!((result.violations, result.preflight.model.controls), (Vec::new(), None));
    let asked = stress(OLDEST, None, PATTERNS).preflight.model.controls.expect("it is offered");
    assert_eq!((asked.output.as_str(), asked.shape, asked.told.corrid_bits), ("SEEN", vec![1, 5], Some(64)));
}

#[test]
fn a_correct_server_is_not_accused_whatever_its_clients_do() {
    let patterns = "patterns.common = { valid = 3, valid-valid = 2, valid-no-end = 2, no-end = 1, no-start = 1, \
                    cancel-queued = 2, cancel-executing = 1, cancel-idle = 1, cancel-restart = 1, half-close = 1, \
                    continue-elsewhere = 1, restart-elsewhere = 1, concurrent = 1 }";
    for model in [DIRECT, OLDEST, "implicit_sequence_int32", "implicit_dyna_sequence_int32"] {
        let result = stress(model, None, patterns);
        assert_eq!(result.violations, [], "{model}");
        assert!(result.tally.total().completed > 200, "{model}: {:?}", result.tally.total());
    }
}

#[test]
fn what_a_model_does_not_tell_is_told() {
    let notes = |model, more: &str| {
        let notes = stress(model, None, &format!("{PATTERNS}\n{more}")).preflight.notes;
        let notes = notes.iter().map(ToString::to_string);
        notes.filter(|note| note.contains("does not report")).collect::<Vec<_>>()
    };
    assert_eq!(notes(DIRECT, ""), ["not checked: END and CORRID, because the model does not report them"]);
    assert_eq!(notes(OLDEST, ""), [""; 0]);
}
