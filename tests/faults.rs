//! Every check of the tool, against a reference server that commits one planted fault, always or exactly once, and against
//! one that commits none.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use sequence_stress::{
    engine::{Accounting, Hints, Observer, RunResult, Setup as RunSetup, run},
    oracle::ViolationKind::{self, *},
    reference::{Fault, ModelOptions, Options, Planted, Server},
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};
use tokio::sync::mpsc;

/// Short limits, so that a missing answer is lost soon.
const SCENARIO: &str = "
load.workers = 3
limits = { lost_after_ms = 1000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 2 }
";

const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";
const IMPLICIT: &str = "implicit_sequence_int32";

struct Silent;
impl Observer for Silent {}

fn server(model: &str, faults: Vec<Planted>) -> Server {
    let models = ModelOptions {
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_millis(500),
        // Long enough for sequences to be under way side by side where a fault needs that.
        execution: Duration::from_millis(u64::from(model == OLDEST)),
        ..ModelOptions::default()
    };
    // Longer than any answer is waited for.
    let fault_hold = Duration::from_secs(6);
    Server::start(Options { models, faults, fault_hold, threads: 1, ..Options::default() }).expect("a free port")
}

fn scenario(server: &Server, model: &str, more: &str) -> Scenario {
    let more = if more.contains("iterations") { more.to_owned() } else { format!("load.iterations = 40\n{more}") };
    let text = format!("{SCENARIO}{more}\ntarget = {{ endpoint = '{}', model = '{model}' }}", server.address);
    Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario")
}

fn run_scenario(scenario: Scenario, seed: u64) -> RunResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let setup = RunSetup {
        scenario,
        seed: Seed(seed),
        hints: Hints::default(),
        fail_fast: false,
        embedded: true,
        recording: None,
    };
    // The sender stays: a closed channel would bring no interrupts either.
    let (_interrupt, interrupts) = mpsc::channel(1);
    runtime.block_on(run(setup, &mut Silent, interrupts)).expect("the server can be tested")
}

fn kinds(result: &RunResult) -> BTreeSet<ViolationKind> {
    result.tally.violations.keys().copied().collect()
}

/// A fault, the model that it is planted in, and what it has to be called; the rest may come with it.
type Row = (Fault, &'static str, ViolationKind, &'static [ViolationKind]);

const FAULTS: &[Row] = &[
    (Fault::OffByOne, DIRECT, WrongSum, &[]),
    (Fault::KeepState, DIRECT, WrongSum, &[]),
    (Fault::KeepState, IMPLICIT, WrongSum, &[]),
    (Fault::ResetState, DIRECT, WrongSum, &[]),
    (Fault::StaleState, DIRECT, WrongSum, &[]),
    (Fault::SwapStates, DIRECT, WrongSum, &[]),
    (Fault::ExecuteTwice, OLDEST, WrongSum, &[]),
    (Fault::SkipStep, DIRECT, WrongSum, &[]),
    (Fault::OutOfOrder, DIRECT, WrongSum, &[]),
    (Fault::EndBeforeLast, DIRECT, WrongSum, &[]),
    (Fault::StateNotSaved, IMPLICIT, WrongSum, &[]),
    (Fault::StateOfAnotherSlot, IMPLICIT, WrongSum, &[]),
    (Fault::StartMissing, DIRECT, WrongSum, &[]),
    (Fault::StartSpurious, DIRECT, WrongSum, &[]),
    (Fault::EndSpurious, OLDEST, WrongSum, &[]),
    (Fault::ReadyMissing, DIRECT, WrongOutputName, &[WrongSum]),
    (Fault::CorridZero, OLDEST, WrongSum, &[]),
    (Fault::CorridOther, OLDEST, WrongSum, &[]),
    (Fault::DropResponse, DIRECT, Lost, &[Hang]),
    (Fault::DuplicateResponse, DIRECT, Duplicate, &[]),
    (Fault::SwapResponses, DIRECT, Reordered, &[]),
    (Fault::Misdeliver, DIRECT, Misaddressed, &[Lost]),
    (Fault::WrongRequestId, DIRECT, Misaddressed, &[]),
    (Fault::WrongModelName, DIRECT, WrongModel, &[]),
    (Fault::WrongOutputName, DIRECT, WrongOutputName, &[]),
    (Fault::WrongOutputType, DIRECT, WrongOutputType, &[]),
    (Fault::WrongOutputShape, DIRECT, WrongOutputShape, &[]),
    (Fault::WrongOutputLength, DIRECT, WrongOutputSize, &[]),
    (Fault::TruncateOutput, DIRECT, WrongOutputSize, &[]),
    (Fault::EmptyResponse, DIRECT, WrongOutputName, &[]),
    (Fault::LateResponse, DIRECT, Lost, &[Hang]),
    (Fault::ModelError, DIRECT, UnexpectedError, &[]),
    (Fault::WrongErrorText, DIRECT, UnexpectedError, &[]),
    (Fault::CloseStream, DIRECT, StreamBroken, &[]),
    (Fault::NeverClose, DIRECT, StreamNotClosed, &[]),
    (Fault::RefuseMidSequence, DIRECT, SpuriousStartError, &[]),
    (Fault::RefuseStart, OLDEST, SpuriousStartError, &[]),
    (Fault::AcceptNoStart, DIRECT, MissingStartError, &[]),
    (Fault::HangInstance, DIRECT, Lost, &[Hang, SlotLeak]),
    (Fault::SlowExecution, DIRECT, Lost, &[Hang, SlotLeak]),
    (Fault::LateRelease, OLDEST, Lost, &[Hang, SlotLeak]),
    (Fault::Crash, DIRECT, ServerDied, &[StreamBroken]),
    (Fault::Restart, DIRECT, StreamBroken, &[Statistics]),
    (Fault::CountTwice, DIRECT, Statistics, &[]),
    (Fault::CountNot, OLDEST, Statistics, &[]),
];

/// What the scenario here does not show; the scheduler's are shown by its own tests and by `tests/slots.rs`, the rest by
/// `tests/reference.rs`.
const NOT_SHOWN_HERE: &[Fault] = &[
    Fault::DoubleRelease,
    Fault::EndMissing,
    Fault::ReadySpurious,
    Fault::WrongErrorCode,
    Fault::LoseFinalAnswers,
    Fault::LeakSlotAtEnd,
    Fault::LeakSlotAtIdle,
    Fault::LeakSlotAtCancel,
    Fault::OrphanAtCancel,
    Fault::LeakSlotAtDisconnect,
    Fault::ExtraSlot,
    Fault::ReapEarly,
    Fault::NeverReap,
    Fault::StarveBacklog,
    Fault::BacklogOrder,
    Fault::ReaperLivelock,
    Fault::GoAway,
    Fault::LeakMemory,
];

#[test]
fn every_fault_of_the_reference_server_is_shown_somewhere() {
    for info in Fault::TABLE {
        let here = FAULTS.iter().any(|(fault, ..)| *fault == info.fault);
        assert!(here != NOT_SHOWN_HERE.contains(&info.fault), "{}", info.name);
    }
}

/// At which chance a fault is committed once: a server that goes before its first answer came could not be tested.
fn chance(fault: Fault) -> u64 {
    if [Fault::Crash, Fault::Restart].contains(&fault) { 400 } else { 3 }
}

/// Most of the time is spent waiting for answers that do not come, so some wait at the same time.
fn for_all_faults(test: impl Fn(Row) + Sync) {
    const AT_A_TIME: usize = 6;
    let (next, test) = (AtomicUsize::new(0), &test);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(row) = FAULTS.get(next.fetch_add(1, Relaxed)) {
                    test(*row);
                }
            });
        }
    });
}

#[test]
fn a_correct_server_is_not_accused() {
    for (seed, model) in
        (0..).zip([DIRECT, OLDEST, IMPLICIT, "implicit_initial_sequence_int32", "custom_nobatch_sequence_int32"])
    {
        let server = server(model, Vec::new());
        let result = run_scenario(scenario(&server, model, ""), seed);
        assert_eq!(result.violations, [], "{model}");
        let total = result.tally.total();
        assert_eq!((total.indeterminate, total.failed, total.undetermined), (0, 0, 0), "{total:?}");
        assert!(total.refused > 0 && total.completed > 1000, "{total:?}");
        assert_eq!(total.sequences, total.sequences_as_planned);
        assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{:?}", result.accounting);
    }
}

#[test]
fn a_correct_server_is_not_accused_whatever_the_stream_policy() {
    for sending in [
        "stream = 'per-context'",
        "connection = 'per-worker'",
        "stream = 'per-context'\nsending.connection = 'per-worker'\nsending.window = 1",
        "window = 3\nsending.reuse = 'after-answer'",
    ] {
        let server = server(DIRECT, Vec::new());
        let result = run_scenario(scenario(&server, DIRECT, &format!("sending.{sending}")), 1);
        assert_eq!(result.violations, [], "{sending}");
        assert_eq!(result.tally.total().undetermined, 0);
        assert!(result.tally.total().completed > 1000);
    }
}

#[test]
fn a_fault_that_happens_once_is_found_and_named() {
    for_all_faults(|(fault, model, expected, also)| {
        let server = server(model, vec![Planted::once(fault, chance(fault))]);
        let result = run_scenario(scenario(&server, model, ""), 7);
        assert_eq!(server.committed(fault), 1, "{fault} was not committed");
        let found = kinds(&result);
        assert!(found.contains(&expected), "{fault} is not called {expected} but {found:?}: {:#?}", result.violations);
        let rest: Vec<_> = found.iter().filter(|kind| **kind != expected && !also.contains(kind)).collect();
        assert!(rest.is_empty(), "{fault} is also called {rest:?}: {:#?}", result.violations);
    });
}

#[test]
fn a_fault_that_always_happens_is_found_and_named() {
    for_all_faults(|(fault, model, expected, _)| {
        // A server that dies of each request was not tested before it died: tests/run.rs has that case.
        if [Fault::Crash, Fault::Restart].contains(&fault) {
            return;
        }
        let server = server(model, vec![Planted::always(fault)]);
        // Where each answer is waited for in vain a few are enough.
        let waits = matches!(expected, Lost | StreamNotClosed | Reordered | Misaddressed | Hang);
        let result = run_scenario(scenario(&server, model, if waits { "load.iterations = 2" } else { "" }), 7);
        assert!(kinds(&result).contains(&expected), "{fault} is not called {expected}: {:#?}", result.tally.violations);
    });
}
