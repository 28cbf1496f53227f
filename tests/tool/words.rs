//! Servers that say in other words what is expected here.

use std::time::Duration;

use crate::support::{
    Setup, TestServer,
    runs::{self, run_alone},
};
use oracle::ViolationKind;
use reference::{Like, ModelOptions, Options, Server};
use sequence_stress::run::{RunResult, Setup as RunSetup};
use wire::simulation::Simulation;
use workload::{
    scenario::{BUILTIN, Overrides, Scenario, Source},
    seed::Seed,
};

const SCENARIO: &str = "
load = { workers = 3, iterations = 40 }
limits = { lost_after_ms = 1000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
slots.check = false
patterns.common = { valid = 5, no-end = 1, no-start = 2, malformed = 3, after-end = 1 }
";

/// A run against a server that calls itself this version of Triton, with these words, and commits a fault.
fn stress(version: &'static str, has_other_words: bool, fault: Option<&str>) -> RunResult {
    let faults = fault.map(|fault| fault.parse().expect("a fault")).into_iter().collect();
    stress_with(Setup { version: Some(version), has_other_words, faults, ..Setup::default() }, "")
}

fn stress_with(setup: Setup, more: &str) -> RunResult {
    let _simulation = Simulation::begin();
    let server = TestServer::start(setup);
    let text = format!("target.endpoint = '{}'\n{SCENARIO}{more}", server.address);
    run_alone(RunSetup { embedded: true, ..RunSetup::new(runs::scenario(&text), Seed(1)) })
        .expect("the server can be tested")
}

#[test]
fn the_words_of_a_server_that_is_not_known_are_no_violation_and_are_told_once() {
    let result = stress("2.72.0", true, None);
    assert_eq!(result.violations, []);
    let total = result.tally.total();
    assert!(total.rejected > 50 && total.failed == 0, "{total:?}");
    let other_words = &result.tally.other_words;
    assert_eq!(other_words["a step that needs START first"], "this is not possible", "{other_words:?}");
    // Each flaw that is sent to a model of integers over a stream has its own.
    assert!(other_words.contains_key("batch-2") && other_words.contains_key("other-type"), "{other_words:?}");
    let result = stress("2.72.0", false, None);
    assert_eq!((result.violations, result.tally.other_words.len()), (Vec::new(), 0), "those that are known are none");
}

#[test]
fn other_words_of_a_server_whose_words_are_known_are_violations() {
    let result = stress("2.51.0", true, None);
    let kinds: Vec<_> = result.tally.violations.keys().copied().collect();
    assert_eq!(kinds, [ViolationKind::UnexpectedError]);
}

/// The protocol does not say that an error over a stream names its request.
#[test]
fn errors_that_name_no_request_are_judged_where_one_can_be_meant() {
    let of = |version| Setup { version: Some(version), has_anonymous_errors: true, ..Setup::default() };
    for window in [1, 4] {
        let result = stress_with(of("2.72.0"), &format!("sending.window = {window}"));
        assert_eq!(result.violations, [], "window {window}");
        let total = result.tally.total();
        assert!(total.rejected > 10 && total.completed > 500, "window {window}: {total:?}");
        let is_told = result.preflight.notes.iter().any(|note| note.to_string().contains("none named its request"));
        assert_eq!(is_told, window > 1, "{:?}", result.preflight.notes);
        // Nobody knows which of several requests is rejected.
        assert_eq!(total.indeterminate > 0, window > 1, "window {window}: {total:?}");
    }
    let result = stress_with(of("2.51.0"), "sending.window = 1");
    assert!(result.tally.violations.contains_key(&ViolationKind::Misaddressed), "Triton names it");
    let fault = "reject-mid-sequence:once@30".parse().expect("a fault");
    let result = stress_with(Setup { faults: vec![fault], ..of("2.72.0") }, "sending.window = 1");
    let kinds: Vec<_> = result.tally.violations.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert_eq!(kinds, [(ViolationKind::SpuriousStartError, 1)], "{:?}", result.violations);
}

#[test]
fn what_a_server_does_wrong_is_found_whatever_its_words() {
    for (fault, kind) in [
        ("accept-no-start", ViolationKind::MissingStartError),
        ("reject-mid-sequence:once@3", ViolationKind::UnexpectedError),
        ("accept-batch", ViolationKind::FlawAccepted),
        ("off-by-one:once@40", ViolationKind::WrongSum),
    ] {
        let result = stress("2.72.0", true, Some(fault));
        assert!(result.tally.violations.contains_key(&kind), "{fault}: {:#?}", result.violations);
    }
}

/// 25.01 rejects an ID of another type than the model is told, before anything looks whether it is empty.
#[test]
fn ids_of_another_type_may_be_rejected_for_that() {
    let builtin = BUILTIN.iter().find(|builtin| builtin.name == "unusual-steps").expect("there is such a scenario");
    for like in [Like::Release2410, Like::Release2501] {
        for model in ["oldest_sequence_int32", "custom_sequence_int32"] {
            let _simulation = Simulation::begin();
            let models = ModelOptions { idle_limit: Duration::from_millis(200), ..ModelOptions::default() };
            let server =
                Server::start(Options { models, like, threads: 1, ..Options::default() }).expect("a free port");
            let overrides = Overrides { endpoint: Some(server.address.into()), ..Overrides::default() };
            let mut scenario =
                Scenario::resolve(&Source::from_text(builtin.name, builtin.text), overrides).expect("a scenario");
            model.clone_into(&mut scenario.target.model);
            let result = run_alone(RunSetup { embedded: true, ..RunSetup::new(scenario, Seed(1)) });
            let result = result.expect("the server can be tested");
            assert_eq!(result.violations, [], "{like} {model}");
            assert!(result.tally.total().rejected > 50, "{like} {model}");
        }
    }
}
