//! Ensembles, whose steps are sequence models, and models that call such: they are tested as any model, and what their steps do wrong is
//! found.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use crate::support::{
    request::step,
    runs::{self, block_on, reference_server, run_alone},
};
use oracle::ViolationKind;
use reference::{ModelOptions, Planted, Server};
use sequence_stress::{
    golden::{Asked, Subject},
    preflight::Hints,
    probe::Accounting,
    run::{RunResult, Setup},
};
use wire::{
    proto::{ModelStatisticsRequest, grpc_inference_service_client::GrpcInferenceServiceClient},
    simulation::Simulation,
};
use workload::{inputs::Options, scenario::Scenario, seed::Seed};

const ONE: &str = "ensemble_sequence_int32";
const OLDEST: &str = "ensemble_oldest_sequence_int32";
const TWO: &str = "ensemble_two_sequence_int32";
const SUMS: &str = "ensemble_sums_float32";
/// Models that call another one.
const CALLS: &str = "bls_sequence_int32";
const CALLS_OLDEST: &str = "bls_oldest_sequence_int32";

const LIMITS: &str = "limits = { lost_after_ms = 1000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }";
const ALL_KINDS: &str = "claims = {}\nload = { workers = 4, iterations = 25 }\nlength.max = 20\n\
    patterns.common = { valid = 4, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 1, restart = 1, after-end = 1, end-twice = 1, \
    malformed = 1, restart-elsewhere = 1, continue-elsewhere = 1, concurrent = 1 }";
const CUTS: &str = "claims = {}\nload = { workers = 4, iterations = 25 }\nlength.max = 20\n\
    patterns.common = { valid = 2, cancel-queued = 2, cancel-executing = 1, cancel-idle = 1, cancel-restart = 2, reset = 1 }";
const PLAIN: &str = "claims = {}\nload = { workers = 4, iterations = 40 }\nlength.max = 20\n\
    patterns.common = { valid = 5, valid-valid = 2, no-start = 1 }";

fn server(fault: Option<&str>) -> Server {
    let models = ModelOptions {
        instances: 2,
        max_batch_size: 2,
        candidates: 2,
        idle_limit: Duration::from_millis(500),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    let faults: Vec<_> = fault.map(|fault| fault.parse::<Planted>().expect("a fault")).into_iter().collect();
    reference_server(models, &faults)
}

fn on(server: &Server, model: &str, text: &str) -> Scenario {
    runs::scenario(&format!("{LIMITS}\n{text}\ntarget = {{ endpoint = '{}', model = '{model}' }}", server.address))
}

fn run(model: &str, fault: Option<&str>, text: &str, seed: u64) -> RunResult {
    let _simulation = Simulation::begin();
    let server = server(fault);
    let setup = Setup { embedded: true, ..Setup::new(on(&server, model, text), Seed(seed)) };
    run_alone(setup).expect("the server can be tested")
}

#[test]
fn a_correct_ensemble_is_not_accused_in_ten_seeds() {
    for model in [ONE, OLDEST, TWO, CALLS, CALLS_OLDEST] {
        for (seed, text) in (0..10).zip([ALL_KINDS, CUTS].into_iter().cycle()) {
            let result = run(model, None, text, seed);
            assert_eq!(result.violations, [], "{model}, seed {seed}");
            let total = result.tally.total();
            assert!(total.completed > 400 && total.unjudged < total.completed, "{model}, seed {seed}: {total:?}");
            assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{model}: {:?}", result.accounting);
        }
    }
}

#[test]
fn what_is_known_of_an_ensemble_is_what_is_scarcest_in_its_steps() {
    let model = run(TWO, None, PLAIN, 1).preflight.model;
    assert_eq!(model.steps, ["ensemble_two_sequence_int32_step1", "ensemble_two_sequence_int32_step2"]);
    assert_eq!((model.slots, model.idle_limit), (Some(4), Some(Duration::from_millis(500))));
    assert_eq!((model.execution, model.turn.between_models), (Duration::from_millis(2), Duration::from_millis(500)));
    let told = model.controls.expect("the second step says what it saw").told;
    assert!(told.start && told.end && told.ready && told.corrid_bits.is_some(), "{told:?}");
}

#[test]
fn of_a_model_that_calls_another_the_scarcest_in_both_is_known() {
    let model = run(CALLS_OLDEST, None, PLAIN, 1).preflight.model;
    assert_eq!((model.calls.as_deref(), &*model.steps), (Some("bls_oldest_sequence_int32_called"), &[][..]));
    assert_eq!((model.slots, model.idle_limit), (Some(4), Some(Duration::from_millis(500))));
    assert_eq!((model.execution, model.turn.between_models), (Duration::from_millis(1), Duration::from_millis(500)));
    assert_eq!(model.mixes_pipelined.as_deref(), Some("the model calls another sequence model"));
    let controls = model.controls.expect("the called model says what it saw");
    assert!(controls.told.end && controls.told.corrid_bits.is_some(), "{controls:?}");
}

#[test]
fn what_a_step_does_wrong_is_found() {
    use ViolationKind::{SpuriousStartError, WrongControl, WrongSum};
    for (model, fault, kind) in [
        (ONE, "reset-state:once@40", WrongSum),
        (OLDEST, "end-missing:once@3", WrongControl),
        (TWO, "off-by-one:once@40", WrongSum),
        (TWO, "ensemble-loses-start:once@4", SpuriousStartError),
        (TWO, "ensemble-loses-end:once@4", WrongControl),
        (CALLS_OLDEST, "bls-loses-start:once@4", SpuriousStartError),
        (CALLS_OLDEST, "bls-loses-end:once@4", WrongControl),
    ] {
        for seed in 0..3 {
            let result = run(model, Some(fault), PLAIN, seed);
            let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
            assert!(kinds.contains(&kind), "{model} {fault}, seed {seed}: {kinds:?}");
            assert!(!kinds.contains(&ViolationKind::Statistics), "{model} {fault}, seed {seed}: {kinds:?}");
        }
    }
}

#[test]
fn a_sum_of_sums_is_judged_by_golden_outputs() {
    let text = "load = { workers = 4, iterations = 12 }\nlength = { min = 3, max = 8, uniform = { min = 3, max = 8 } }\nclaims = {}\n\
        patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, cancel-queued = 1 }";
    let _simulation = Simulation::begin();
    let options = Options {
        batches: false,
        model: None,
        optional: Vec::new(),
        shapes: ["INPUT:1".parse().expect("a shape")].into(),
        ranges: Vec::new(),
        tracks: NonZeroUsize::new(8),
        steps: NonZeroUsize::new(8),
        seed: Seed(0),
    };
    let asked = Asked { inputs: None, options, compare: Vec::new() };
    let healthy = server(None);
    let subject = on(&healthy, SUMS, text);
    let golden =
        block_on(async { Subject::new(subject, Hints::default(), &asked).await?.calibrate(&mut |_| ()).await });
    let golden = Arc::new(golden.expect("it can be calibrated"));
    let run = |server: &Server, seed| {
        let scenario = on(server, SUMS, text);
        let setup = Setup { embedded: true, golden: Some(Arc::clone(&golden)), ..Setup::new(scenario, Seed(seed)) };
        run_alone(setup).expect("the server can be tested")
    };
    for seed in 0..10 {
        let result = run(&healthy, seed);
        assert_eq!(result.violations, [], "seed {seed}");
        let total = result.tally.total();
        assert!(total.completed > 100 && total.unjudged * 4 < total.completed, "seed {seed}: {total:?}");
    }
    let kinds: Vec<_> =
        run(&server(Some("reset-state:once@60")), 1).violations.iter().map(|violation| violation.kind).collect();
    assert!(kinds.contains(&ViolationKind::WrongOutput), "{kinds:?}");
}

#[test]
fn strategy_and_instances_of_a_model_with_steps_are_not_changed() {
    let text = "phase = [{ name = 'more', server = 'more-instances' }]\n\
        population = [{ name = 'all', phase = 'more', load = { workers = 1, iterations = 1 } }]";
    let _simulation = Simulation::begin();
    let server = server(None);
    for (model, says) in [
        (TWO, "model 'ensemble_two_sequence_int32' is an ensemble, and its steps have strategy and instances"),
        (
            CALLS,
            "model 'bls_sequence_int32' calls 'bls_sequence_int32_called', which has strategy and instances of its own",
        ),
    ] {
        let error = run_alone(Setup::new(on(&server, model, text), Seed(1))).expect_err("it cannot be").to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn an_ensemble_says_which_step_rejects_a_request() {
    let server = server(None);
    let rejection = runs::runtime().block_on(async {
        let client = GrpcInferenceServiceClient::connect(format!("http://{}", server.address)).await;
        let mut client = client.expect("the server accepts connections");
        client.model_infer(step(TWO, 7, &[5], false, false)).await.expect_err("it has no START")
    });
    let text = "in ensemble 'ensemble_two_sequence_int32', inference request for sequence 7 to model \
        'ensemble_two_sequence_int32_step1' must specify the START flag on the first request of the sequence";
    assert_eq!((rejection.code(), rejection.message()), (tonic::Code::InvalidArgument, text));
}

/// What a server answers to one step of ID 7.
fn infer(server: &Server, model: &str, start: bool, end: bool) -> Result<(), tonic::Status> {
    let request = step(model, 7, &[5], start, end);
    runs::runtime().block_on(async {
        let client = GrpcInferenceServiceClient::connect(format!("http://{}", server.address)).await;
        client.expect("the server accepts connections").model_infer(request).await.map(drop)
    })
}

/// The successes and failures of the model that calls another.
fn counts(server: &Server) -> (u64, u64) {
    runs::runtime().block_on(async {
        let client = GrpcInferenceServiceClient::connect(format!("http://{}", server.address)).await;
        let asked = ModelStatisticsRequest { name: CALLS.to_owned(), version: String::new() };
        let told = client.expect("the server accepts connections").model_statistics(asked).await;
        let told = told.expect("it tells them").into_inner().model_stats.remove(0);
        let counts = told.inference_stats.expect("it has counted");
        (counts.success.map_or(0, |success| success.count), counts.fail.map_or(0, |fail| fail.count))
    })
}

#[test]
fn an_error_of_the_calling_model_itself_counts_as_a_failure() {
    // The called model is the first that can fail, and the calling one the second.
    let server = server(Some("model-error:once@2"));
    let error = infer(&server, CALLS, true, true).expect_err("it fails");
    assert_eq!((error.code(), error.message()), (tonic::Code::Internal, "the model could not execute the request"));
    assert_eq!(counts(&server), (0, 1));
}

#[test]
fn a_model_says_that_the_model_which_it_calls_rejects_a_request_and_counts_a_success() {
    let server = server(None);
    let infer = |model: &str, start, end| infer(&server, model, start, end);
    infer(CALLS, true, false).expect("it is right");
    // A step behind its back ends the sequence in the called model alone.
    infer(&format!("{CALLS}_called"), false, true).expect("it is right");
    let rejection = infer(CALLS, false, false).expect_err("the called model has no sequence");
    let text = "in ensemble 'bls_sequence_int32', Model bls_sequence_int32_called - Error when running inference: inference request for \
        sequence 7 to model 'bls_sequence_int32_called' must specify the START flag on the first request of the sequence";
    assert_eq!((rejection.code(), rejection.message()), (tonic::Code::Internal, text));
    // It has executed the request, and the called model has not.
    assert_eq!(counts(&server), (2, 0));
}
