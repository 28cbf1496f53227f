//! Models without a formula: what they answer is found out on an idle server, and runs are judged by it.

mod calibration;
mod command;
mod unmeasured;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use crate::support::{
    runs::{block_on, reference_server, run_alone, scenario},
    tool::{text as text_of, told, tool},
};
use oracle::{
    Evidence, ViolationKind,
    diagnosis::{Cause, Clue, Explanation},
    golden::{Compare, EndEffect, FaultKind, Golden, Lineage, Misfit, Named},
};
use reference::{ModelOptions, Planted, Server};
use sequence_stress::{
    golden::{Asked, Subject},
    preflight::{Hints, Note},
    report::{Summary, Verdict},
    run::{RunError, RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::{
    conversation::Transport,
    inputs::{
        ElementType, Options,
        recording::{Header, Input, Request},
    },
    scenario::Scenario,
    seed::Seed,
};

const SCENARIO: &str = "
contexts = { common = 2, rare = 0, rare_probability = 0 }
limits = { lost_after_ms = 1000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
length = { min = 3, max = 8, uniform = { min = 3, max = 8 } }
claims = {}
";
const PATTERNS: &str = "patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1 }";
const GRU: &str = "gru_float32";
const ITERATIVE: &str = "iterative_sequence_int32";
/// Its output is one number, so no other element shows that the state is right.
const SUM: &str = "custom_sequence_int32";

fn server(fault: Option<&str>) -> Server {
    let models = ModelOptions {
        instances: 1,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_secs(1),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    let faults: Vec<_> = fault.map(|fault| fault.parse::<Planted>().expect("a fault")).into_iter().collect();
    reference_server(models, &faults)
}

fn on(server: &Server, model: &str, more: &str) -> Scenario {
    let load = if more.contains("load.") { "" } else { "load = { workers = 4, iterations = 12 }\n" };
    let patterns = if more.contains("patterns.common") { "" } else { PATTERNS };
    scenario(&format!(
        "{load}{SCENARIO}{patterns}\n{more}\ntarget.endpoint = ['{}', 'http://{}']\ntarget.model = '{model}'",
        server.address, server.http
    ))
}

fn asked() -> Asked {
    let count = |count| NonZeroUsize::new(count);
    let options = Options {
        batches: false,
        model: None,
        optional: Vec::new(),
        shapes: ["INPUT_FP32:3".parse().expect("a shape")].into(),
        ranges: Vec::new(),
        tracks: count(8),
        steps: count(8),
        seed: Seed(0),
    };
    Asked { inputs: None, options, compare: Vec::new() }
}

fn asked_of(model: &str) -> Asked {
    let mut asked = asked();
    match model {
        "any_tensors" => {}
        ITERATIVE | SUM => asked.options.shapes = ["INPUT:1".parse().expect("a shape")].into(),
        _ => asked.options.shapes.clear(),
    }
    asked
}

fn calibrated(server: &Server, model: &str, asked: &Asked) -> Result<Golden, RunError> {
    let scenario = on(server, model, "");
    block_on(async { Subject::new(scenario, Hints::default(), asked).await?.calibrate(&mut |_| ()).await })
}

/// What a golden file is when it was written and read.
fn read_again(golden: &Golden) -> Golden {
    let mut bytes = Vec::new();
    golden.write_to(&mut bytes).expect("there is room");
    Golden::read_from(&*bytes, bytes.len() as u64).expect("it was written here")
}

/// A run on a server with this fault, judged by what one without answers.
fn judged(model: &str, fault: Option<&str>, more: &str) -> RunResult {
    let _simulation = Simulation::begin();
    let golden = calibrated(&server(None), model, &asked_of(model)).expect("it can be calibrated");
    run_by(Arc::new(golden), &server(fault), model, more).expect("it can be tested")
}

fn run_by(golden: Arc<Golden>, server: &Server, model: &str, more: &str) -> Result<RunResult, RunError> {
    let setup = Setup { embedded: true, golden: Some(golden), ..Setup::new(on(server, model, more), Seed(1)) };
    run_alone(setup)
}

#[test]
fn a_correct_server_is_not_accused_whatever_the_model_computes() {
    for model in [
        GRU,
        "gru_oldest_float32",
        "gru_implicit_float32",
        "gru_decoupled_float32",
        "gru_batch_noise_float32",
        "two_state_float32",
        "two_state_implicit_float32",
        "any_tensors",
    ] {
        for window in ["1", "'all'"] {
            let result = judged(model, None, &format!("sending.window = {window}"));
            assert_eq!(result.violations, [], "{model} {window}");
            let total = result.tally.total();
            assert!(total.unjudged * 20 < total.answered() && total.completed > 200, "{model} {window}: {total:?}");
        }
    }
}

#[test]
fn what_several_streams_and_cuts_leave_behind_accuses_nobody() {
    const ORDER: &str = "patterns.common = { concurrent = 3, continue-elsewhere = 1, valid = 1, after-end = 1 }";
    const CUTS: &str = "patterns.common = { valid = 2, cancel-queued = 1, cancel-executing = 1, cancel-restart = 1, restart-elsewhere = 1 }";
    const OTHERS: &str = "patterns.common = { valid = 1, malformed = 2, end-twice = 1, burst = 1, shared-id = 1, reset = 1, half-close = 1 }";
    for model in [GRU, "gru_implicit_float32", "gru_oldest_float32"] {
        for patterns in [ORDER, CUTS, OTHERS] {
            let result = judged(model, None, &format!("load.iterations = 40\nload.workers = 4\n{patterns}"));
            assert_eq!(result.violations, [], "{model} {patterns}");
            assert!(result.tally.total().unjudged < result.tally.total().answered(), "{model} {patterns}");
        }
    }
}

#[test]
fn each_request_to_an_iterative_model_is_judged_as_a_sequence() {
    let patterns = "patterns.common = { valid = 3, burst = 1 }";
    let result = judged(ITERATIVE, None, patterns);
    let total = result.tally.total();
    assert_eq!((result.violations, total.unjudged), (vec![], 0));
    assert!(total.completed > 100, "{total:?}");
    let result = judged(ITERATIVE, Some("off-by-one:once@30"), patterns);
    let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
    assert_eq!(kinds, [ViolationKind::WrongOutput], "{:#?}", result.violations);
}

#[test]
fn tensors_go_over_every_transport_that_has_a_form_for_them() {
    for (model, by) in [
        (GRU, Transport::GrpcUnary),
        (GRU, Transport::Http),
        (GRU, Transport::HttpBinary),
        ("two_state_float32", Transport::Http),
        ("any_tensors", Transport::GrpcUnary),
        ("any_tensors", Transport::HttpBinary),
    ] {
        let result =
            judged(model, None, &format!("sending.transport = '{by}'\nvalues.elements = {{ min = 1, max = 4 }}"));
        let total = result.tally.total();
        assert_eq!((result.violations, total.unjudged), (vec![], 0), "{model} {by}");
        assert!(total.completed > 200, "{model} {by}: {total:?}");
    }
    let _simulation = Simulation::begin();
    let server = server(None);
    let golden = calibrated(&server, "any_tensors", &asked()).expect("it can be calibrated");
    let json = run_by(Arc::new(golden), &server, "any_tensors", "sending.transport = 'http'");
    let why = json.expect_err("JSON has no halves").to_string();
    assert!(
        why.contains("takes INPUT_") && why.contains("which HTTP has as bytes alone: --transport http-binary"),
        "{why}"
    );
}

#[test]
fn a_fault_in_the_state_is_found_and_named_by_what_the_idle_server_answers() {
    let one_by_one = "sending.window = 1";
    for (fault, causes) in [
        ("off-by-one:once@30", &[Cause::WrongArithmetic][..]),
        ("reset-state:once@30", &[Cause::StateReset]),
        ("skip-step:once@30", &[Cause::NotExecuted]),
        ("execute-twice:once@30", &[Cause::ExecutedTwice]),
        ("swap-states:once@5", &[Cause::SwappedStates]),
        ("keep-state:once@5", &[Cause::StaleStateOfSlot, Cause::StaleStateOfId, Cause::StartNotTold]),
        ("stale-state:once@5", &[Cause::StaleStateOfId]),
    ] {
        let result = judged(GRU, Some(fault), one_by_one);
        let first = result.violations.first().unwrap_or_else(|| panic!("{fault}: nothing was found"));
        assert_eq!(first.kind, ViolationKind::WrongOutput, "{fault}: {first:?}");
        let cause = first.explanations.first().map(|explanation| explanation.cause);
        assert!(cause.is_some_and(|cause| causes.contains(&cause)), "{fault}: {cause:?}, {first:#?}");
    }
}

/// The idle server commits such a fault, too, so what it says of other states is not believed.
#[test]
fn a_fault_that_always_happens_is_named_by_what_the_idle_server_does_by_itself() {
    const NOT_RESET: &[Cause] = &[Cause::StaleStateOfSlot, Cause::StaleStateOfId];
    for (model, fault, causes) in [
        (GRU, "keep-state", NOT_RESET),
        (GRU, "stale-state", NOT_RESET),
        (GRU, "start-missing", NOT_RESET),
        (GRU, "skip-step", &[Cause::NotExecuted]),
        ("gru_oldest_float32", "execute-twice", &[Cause::ExecutedTwice]),
        ("gru_implicit_float32", "state-not-saved", &[Cause::EffectLost]),
        ("two_state_float32", "exchange-states", &[Cause::UnknownState]),
    ] {
        let result = judged(model, Some(fault), "sending.window = 1");
        let unlike =
            |violation: &&oracle::Violation| matches!(&violation.evidence, Evidence::Output { seen: None, .. });
        let first = result.violations.iter().find(unlike).unwrap_or_else(|| panic!("{fault}: nothing was found"));
        let cause = first.explanations.first();
        let is_told = |its: &Explanation| causes.contains(&its.cause) && its.clues.contains(&Clue::ShownAlone);
        assert!(cause.is_some_and(is_told), "{fault}: {first:#?}");
        let is_lost = cause.is_some_and(|its| its.clues.contains(&Clue::SameStepAgain));
        assert_eq!(is_lost, fault == "state-not-saved", "{fault}: {first:#?}");
    }
}

#[test]
fn one_number_that_alone_is_wrong_is_told_by_the_next_response() {
    let result = judged(SUM, Some("off-by-one:once@12"), "sending.window = 1");
    let of_next = Explanation::new(Cause::WrongArithmetic, [Clue::NextRight]);
    assert_eq!(result.violations[0].explanations, [of_next], "{:#?}", result.violations[0]);
}

#[test]
fn one_number_that_is_always_wrong_is_told_by_what_the_idle_server_answers_to_start() {
    let result = judged(SUM, Some("off-by-one"), "sending.window = 1");
    let alone = Explanation::new(Cause::WrongArithmetic, [Clue::ShownAlone, Clue::StartWrongTwice]);
    assert_eq!(result.violations[0].explanations, [alone], "{:#?}", result.violations[0]);
}

#[test]
fn a_start_that_meets_a_state_that_nobody_knows_is_named() {
    let _simulation = Simulation::begin();
    let golden = Arc::new(calibrated(&server(None), GRU, &asked_of(GRU)).expect("it can be calibrated"));
    // The sequence that the tool sends before a run left a state, and no event of the run tells of it.
    let faulty = server(Some("start-missing:once@1"));
    let scenario = on(&faulty, GRU, "sending.window = 1");
    let setup = Setup { golden: Some(golden), ..Setup::new(scenario, Seed(1)) };
    let result = run_alone(setup).expect("it can be tested");
    let causes = [Cause::StaleStateOfSlot, Cause::StartNotTold, Cause::UnknownState];
    let expected = causes.map(|cause| Explanation::new(cause, [Clue::NextUnlike]));
    assert_eq!(result.violations[0].explanations, expected, "{:#?}", result.violations[0]);
}

#[test]
fn two_states_that_the_server_exchanges_are_found() {
    for model in ["two_state_float32", "two_state_implicit_float32"] {
        // In the middle of a sequence, so that the next step shows it, too.
        let result = judged(model, Some("exchange-states:once@12"), "sending.window = 1");
        let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        assert!(
            !kinds.is_empty() && kinds.iter().all(|kind| *kind == ViolationKind::WrongOutput),
            "{model}: {kinds:?}"
        );
        let of_next = Explanation::new(Cause::UnknownState, [Clue::NextUnlike]);
        assert_eq!(result.violations[0].explanations, [of_next], "{model}: {:#?}", result.violations[0]);
    }
}

#[test]
fn faults_beside_the_state_have_the_names_that_they_have_for_a_running_sum() {
    for (fault, kind) in [
        ("swap-responses:once@30", ViolationKind::Reordered),
        ("duplicate-response:once@30", ViolationKind::Duplicate),
        ("wrong-output-name:once@30", ViolationKind::WrongOutputName),
        ("empty-response:once@30", ViolationKind::WrongOutputName),
        ("wrong-output-type:once@30", ViolationKind::WrongOutputType),
        ("accept-no-start:once@1", ViolationKind::MissingStartError),
    ] {
        let Ok(_) = fault.parse::<Planted>() else { panic!("{fault} is no fault") };
        let result = judged(GRU, Some(fault), "patterns.common = { valid = 4, no-start = 1, valid-no-end = 1 }");
        assert!(result.violations.iter().any(|violation| violation.kind == kind), "{fault}: {:#?}", result.violations);
    }
}

#[test]
fn a_model_whose_outputs_are_noise_and_one_of_which_nothing_is_expected_are_judged_by_all_else() {
    let _simulation = Simulation::begin();
    let sound = server(None);
    let noise = calibrated(&sound, "gru_run_noise_float32", &asked_of(GRU)).expect("it can be calibrated");
    let blind =
        block_on(Subject::new(on(&sound, GRU, ""), Hints::default(), &asked_of(GRU))).expect("a subject").blind();
    for (golden, model) in [(Arc::new(noise), "gru_run_noise_float32"), (blind, GRU)] {
        let result = run_by(Arc::clone(&golden), &sound, model, "").expect("it can be tested");
        assert_eq!((result.violations, result.tally.total().unjudged), (vec![], 0), "{model}");
        let faulty = server(Some("duplicate-response:once@30"));
        let result = run_by(golden, &faulty, model, "").expect("it can be tested");
        assert!(result.tally.violations.contains_key(&ViolationKind::Duplicate), "{model}: {:?}", result.violations);
    }
}

#[test]
fn a_run_whose_outputs_tell_nothing_is_not_called_valid() {
    let _simulation = Simulation::begin();
    let [server, forgetful, unsaved] = [None, Some("reset-state"), Some("state-not-saved")].map(server);
    let compare = vec![("OUTPUT".to_owned(), Compare::Atol(100.0))];
    let alike = calibrated(&server, GRU, &Asked { compare, ..asked_of(GRU) }).expect("it can be calibrated");
    assert!(!alike.facts.fingerprints.are_enough(), "{:?}", alike.facts);
    assert!(alike.facts.visible.iter().all(|fault| fault.from_step.is_none()), "{:?}", alike.facts.visible);
    let noise = "gru_run_noise_float32";
    let not_judged = calibrated(&server, noise, &asked_of(noise)).expect("it can be calibrated");
    // A server that is faulty while it is calibrated goes on to give the same.
    let stateless = calibrated(&forgetful, GRU, &asked_of(GRU)).expect("it can be calibrated");
    assert!(stateless.facts.fingerprints.are_enough() && !stateless.is_enough(), "{:?}", stateless.facts);
    let implicit = "gru_implicit_float32";
    let lost = calibrated(&unsaved, implicit, &asked_of(implicit)).expect("it can be calibrated");
    // It adds up START and READY, so a reset shows, and it keeps no state.
    let none = "stateless_sequence_int32";
    let keeps_none = calibrated(&server, none, &asked_of(SUM)).expect("it can be calibrated");
    for (golden, model, server) in [
        (alike, GRU, &server),
        (not_judged, noise, &server),
        (stateless, GRU, &forgetful),
        (lost, implicit, &unsaved),
        (keeps_none, none, &server),
    ] {
        assert!(!golden.is_enough(), "{model}");
        let scenario = on(server, model, "");
        let setup = Setup { embedded: true, golden: Some(Arc::new(golden)), ..Setup::new(scenario.clone(), Seed(1)) };
        let result = run_alone(setup).expect("it can be tested");
        let (scenario_name, replay) = (String::new(), String::new());
        let summary = Summary { scenario, scenario_name, seed: Seed(1), replay, embedded: None, result };
        assert_eq!((summary.verdict(), summary.exit_code()), (Verdict::Unknown, 3), "{model}");
    }
}

#[test]
fn a_wrong_output_says_what_was_expected_and_how_far_it_is_off() {
    let result = judged(GRU, Some("off-by-one:once@30"), "");
    let [violation] = &result.violations[..] else { panic!("{:#?}", result.violations) };
    let Evidence::Output { expected, seen: None, misfit: Some(misfit), .. } = &violation.evidence else {
        panic!("{violation:?}")
    };
    let Misfit::Output(deviation) = &**misfit else { panic!("{violation:?}") };
    assert_eq!((expected.len(), deviation.output.as_str()), (1, "OUTPUT"));
    let words = sequence_stress::report::describe(violation);
    assert!(words.contains("expected the outputs of step ") && words.contains("off, tolerance 0.0e0"), "{words}");
}
