//! What clients do wrong, against a correct server: nothing of it is the server's fault, and what the server does is still judged.

mod support;

use std::{net::SocketAddr, time::Duration};

use sequence_stress::{
    engine::{Accounting, Hints, Observer, RunResult, Setup, SlotFinding, run},
    model::Strategy,
    oracle::ViolationKind,
    reference::{Fault, ModelOptions, Options, Planted, Server},
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
    sequence::Pattern,
};
use tokio::sync::mpsc;

const IDLE_LIMIT: Duration = Duration::from_millis(250);
/// The patterns in which a client does wrong.
const FAULTS: &[Pattern] = &[
    Pattern::Pause,
    Pattern::CancelQueued,
    Pattern::CancelExecuting,
    Pattern::CancelIdle,
    Pattern::CancelRestart,
    Pattern::HalfClose,
    Pattern::Reset,
    Pattern::ContinueElsewhere,
    Pattern::ContinueByNeighbour,
    Pattern::RestartElsewhere,
    Pattern::Concurrent,
];

struct Silent;
impl Observer for Silent {}

fn server(strategy: Strategy, faults: &[Planted], execution_ms: u64) -> Server {
    let models = ModelOptions {
        strategy,
        max_batch_size: 4,
        idle_limit: IDLE_LIMIT,
        execution: Duration::from_millis(execution_ms),
        ..ModelOptions::default()
    };
    let options = Options { models, faults: faults.to_vec(), threads: 1, ..Options::default() };
    Server::start(options).expect("a free port")
}

/// Runs a scenario in which these patterns have the same weight.
fn stress(address: SocketAddr, model: &str, patterns: &[Pattern], seed: u64, more: &str) -> RunResult {
    let weights: Vec<_> = patterns.iter().map(|pattern| format!("{pattern} = 1")).collect();
    let weights = weights.join(", ");
    let text = format!(
        "target.model = '{model}'
load = {{ workers = 4, iterations = 12 }}
patterns.common = {{ {weights} }}
patterns.rare = {{ {weights} }}
length = {{ min = 1, max = 20, normal = {{ mean = 8, stdev = 4 }} }}
values.uniform = {{ min = -2147483648, max = 2147483647 }}
{more}"
    );
    let overrides = Overrides { endpoint: Some(address.into()), ..Overrides::default() };
    let scenario = Scenario::resolve(&Source::from_text("test", &text), overrides).expect("a scenario");
    let setup = Setup {
        scenario,
        seed: Seed(seed),
        hints: Hints::default(),
        fail_fast: false,
        embedded: false,
        recording: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (_interrupt, interrupts) = mpsc::channel(1);
    runtime.block_on(run(setup, &mut Silent, interrupts)).expect("a run")
}

/// Short, because little is checked that takes time; quick steps, so that pauses matter.
const QUICK: &str = "limits = { quiet_ms = 30, settle_ms = 5000, step_ms = 5, lost_after_ms = 4000 }";

#[track_caller]
fn assert_correct(what: &str, result: &RunResult) {
    assert_eq!(result.violations, [], "{what}");
    assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{what}: {:?}", result.accounting);
    let accused = matches!(result.slots.finding, SlotFinding::Leaked { .. } | SlotFinding::ReleasedTwice { .. });
    assert!(!accused, "{what}: {:?}", result.slots);
}

#[test]
fn a_correct_server_is_not_accused_of_what_its_clients_do() {
    // Most of the time is waiting.
    std::thread::scope(|scope| {
        for (strategy, model) in [
            (Strategy::Direct, "custom_sequence_int32"),
            (Strategy::Oldest, "oldest_sequence_int32"),
            (Strategy::Direct, "implicit_sequence_int32"),
            (Strategy::Oldest, "implicit_dyna_sequence_int32"),
        ] {
            scope.spawn(move || is_not_accused(strategy, model));
        }
    });
}

fn is_not_accused(strategy: Strategy, model: &str) {
    let server = server(strategy, &[], 1);
    for pattern in FAULTS {
        let result = stress(server.address, model, &[*pattern], 1, QUICK);
        assert_correct(&format!("{pattern} on {model}"), &result);
        let counts = result.tally.patterns[pattern.index()];
        assert!(counts.requests > 0 && counts.answered() > 0, "{pattern} on {model}: {counts:?}");
    }
    let all: Vec<_> = FAULTS.iter().copied().chain([Pattern::Valid, Pattern::NoEnd, Pattern::ValidValid]).collect();
    assert_correct(&format!("all on {model}"), &stress(server.address, model, &all, 2, QUICK));
}

/// A fault for each pattern that shows there as one of these kinds; the chance at which it is committed, or all the time.
const FOUND: &[(Pattern, Fault, Option<u64>, &[ViolationKind])] = &[
    (Pattern::Pause, Fault::ReapEarly, None, &[ViolationKind::SpuriousStartError]),
    (Pattern::CancelQueued, Fault::LeakSlotAtCancel, Some(3), &[ViolationKind::SlotLeak]),
    (Pattern::CancelExecuting, Fault::LeakSlotAtIdle, Some(3), &[ViolationKind::SlotLeak]),
    (Pattern::CancelIdle, Fault::LeakSlotAtIdle, Some(3), &[ViolationKind::SlotLeak]),
    (
        Pattern::CancelRestart,
        Fault::OrphanAtCancel,
        Some(3),
        &[ViolationKind::SpuriousStartError, ViolationKind::SlotLeak],
    ),
    (Pattern::HalfClose, Fault::LoseFinalAnswers, Some(3), &[ViolationKind::StreamBroken]),
    (Pattern::Reset, Fault::LeakSlotAtCancel, Some(3), &[ViolationKind::SlotLeak]),
    (Pattern::ContinueElsewhere, Fault::ResetState, Some(30), &[ViolationKind::WrongSum]),
    (Pattern::ContinueByNeighbour, Fault::SkipStep, Some(30), &[ViolationKind::WrongSum]),
    (Pattern::RestartElsewhere, Fault::StaleState, Some(5), &[ViolationKind::WrongSum]),
    (Pattern::Concurrent, Fault::ExecuteTwice, Some(30), &[ViolationKind::WrongSum]),
];

/// Long enough for what is sent to wait behind it.
const EXECUTION_MS: u64 = 4;

#[test]
fn what_a_server_does_wrong_then_is_found() {
    let patterns: Vec<_> = FOUND.iter().map(|(pattern, ..)| *pattern).collect();
    assert_eq!(patterns, FAULTS, "each has its fault");
    std::thread::scope(|scope| {
        for (pattern, fault, chance, kinds) in FOUND {
            scope.spawn(move || is_found(*pattern, *fault, *chance, kinds));
        }
    });
}

fn is_found(pattern: Pattern, fault: Fault, chance: Option<u64>, kinds: &[ViolationKind]) {
    let planted = chance.map_or(Planted::always(fault), |chance| Planted::once(fault, chance));
    let server = server(Strategy::Direct, &[planted], EXECUTION_MS);
    let result = stress(server.address, "custom_sequence_int32", &[pattern], 1, QUICK);
    assert!(server.committed(fault) > 0, "{fault} in {pattern}");
    let found: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
    let (violations, slots) = (&result.violations, &result.slots);
    assert!(!found.is_empty() && found.iter().all(|kind| kinds.contains(kind)), "{fault}: {violations:#?} {slots:?}");
}
