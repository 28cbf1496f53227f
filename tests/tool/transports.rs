//! Steps as calls of their own: a correct server is not accused, a broken one is, by its codes too, and what cannot be done is told.

use crate::support::runs::{run_alone, scenario, server_with as server};
use oracle::{Evidence, ViolationKind};
use reference::Server;
use sequence_stress::{
    probe::Accounting,
    run::{RunError, RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::{claim::Claim, event::Code, seed::Seed};

const SCENARIO: &str = "
load = { workers = 6, iterations = 30 }
contexts = { common = 2, rare = 1, rare_probability = 0.1 }
limits = { lost_after_ms = 2000, step_ms = 5, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
length = { min = 2, max = 10, uniform = { min = 2, max = 10 } }
sending.transport = 'grpc-unary'
claims = {}
";
const ALL: &str = "
patterns.rare = { valid = 1 }
patterns.common = { valid = 2, valid-valid = 1, valid-no-end = 0.5, no-start = 1, no-end = 0.5, pause = 1, cancel-executing = 1, \
cancel-idle = 0.5, reset = 1, continue-elsewhere = 1, continue-by-neighbour = 1, restart-elsewhere = 1, concurrent = 1, restart = 1, \
burst = 1, after-end = 1, end-twice = 1, shared-id = 1, malformed = 2, timeout = 1, mixed-transports = 2 }";
const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";

fn stress(server: &Server, model: &str, more: &str) -> RunResult {
    let text = format!("{SCENARIO}{more}\ntarget.endpoint = '{}'\ntarget.model = '{model}'", server.address);
    run_alone(Setup { embedded: true, ..Setup::new(scenario(&text), Seed(3)) }).expect("the server can be tested")
}

#[test]
fn a_correct_server_is_not_accused_whatever_is_called() {
    for model in [DIRECT, OLDEST] {
        let _simulation = Simulation::begin();
        let result = stress(&server(None), model, ALL);
        assert_eq!(result.violations, [], "{model}");
        let total = result.tally.total();
        assert!(total.completed > 300 && total.rejected > 10, "{model}: {total:?}");
        for claim in [
            Claim::MixedTransports,
            Claim::CutWithStepsUnderWay,
            Claim::ConnectionReset,
            Claim::ContinuedElsewhere,
            Claim::ConcurrentSubmission,
            Claim::SurvivedAFlaw,
        ] {
            assert!(result.tally.reached.of(claim) > 0, "{model}: {claim}");
        }
        assert_eq!(result.tally.reached.of(Claim::BackToBack), 0, "calls are not pipelined");
        assert!(!matches!(result.accounting, Accounting::Differs { .. }), "{:?}", result.accounting);
    }
}

#[test]
fn what_a_broken_server_does_is_seen_over_calls_too() {
    let patterns = "patterns.common = { valid = 5, no-start = 2, no-end = 1 }";
    for (fault, kind) in [
        ("off-by-one:once@40", ViolationKind::WrongSum),
        ("wrong-error-code:once@2", ViolationKind::UnexpectedError),
        ("wrong-error-text:once@2", ViolationKind::UnexpectedError),
        ("drop-response:once@40", ViolationKind::Lost),
        ("wrong-output-name:once@40", ViolationKind::WrongOutputName),
    ] {
        let _simulation = Simulation::begin();
        let result = stress(&server(Some(fault)), DIRECT, &format!("slots.check = false\n{patterns}"));
        let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        assert_eq!(kinds, [kind], "{fault}: {:#?}", result.violations);
    }
}

#[test]
fn a_wrong_code_is_told_with_the_right_one() {
    let _simulation = Simulation::begin();
    let patterns = "slots.check = false\npatterns.common = { no-start = 1, valid = 1 }";
    // The first rejection is that of the look before the run.
    let result = stress(&server(Some("wrong-error-code:once@2")), DIRECT, patterns);
    let [violation] = result.violations.as_slice() else { panic!("{:#?}", result.violations) };
    let Evidence::CodeOfRejection { expected: Code::Grpc(3), seen: Code::Grpc(13), error } = &violation.evidence else {
        panic!("{violation:?}")
    };
    assert!(error.starts_with("inference request for sequence"), "{error}");
    let result = stress(&server(Some("wrong-error-text:once@2")), DIRECT, patterns);
    let [violation] = result.violations.as_slice() else { panic!("{:#?}", result.violations) };
    assert!(matches!(violation.evidence, Evidence::Failed { code: Some(Code::Grpc(3)), .. }), "{violation:?}");
}

#[test]
fn what_calls_cannot_do_is_left_out_and_told() {
    let _simulation = Simulation::begin();
    let weights = "slots.check = false\npatterns.common = { valid = 1, half-close = 5, cancel-queued = 5 }";
    let result = stress(&server(None), DIRECT, weights);
    assert_eq!(result.violations, []);
    let notes = result.preflight.notes.iter().map(ToString::to_string).collect::<String>();
    assert!(notes.contains("because they need a stream: cancel-queued, half-close"), "{notes}");
    assert!(notes.contains("window is 1 where steps are calls"), "{notes}");
    assert_eq!(result.tally.reached.of(Claim::HalfClosed), 0);
}

#[test]
fn a_transport_without_an_endpoint_is_told_before_anything_is_sent() {
    let server = server(None);
    let text = format!("{SCENARIO}\nsending.transport = 'http'\ntarget.endpoint = '{}'", server.address);
    let text = text.replacen("sending.transport = 'grpc-unary'", "", 1);
    match run_alone(Setup::new(scenario(&text), Seed(1))) {
        Err(RunError::Endpoint(why)) => assert!(why.contains("needs an endpoint that speaks HTTP"), "{why}"),
        other => panic!("{other:?}"),
    }
}
