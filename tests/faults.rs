//! Every check of the tool, against a server that commits one planted fault, always or exactly once, and against one that
//! commits none.

mod support;

use std::collections::BTreeSet;

use sequence_stress::{
    engine::{Accounting, Hints, Observer, RunResult, Setup as RunSetup, run},
    oracle::ViolationKind::{self, *},
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};
use support::{Fault, Setup, TestServer, When};
use tokio::sync::mpsc;

/// Short limits, so that a missing answer is lost soon.
const SCENARIO: &str = "
load.workers = 3
limits = { lost_after_ms = 1000, step_ms = 1, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 2 }
";

struct Silent;
impl Observer for Silent {}

fn scenario(server: &TestServer, more: &str) -> Scenario {
    let more = if more.contains("iterations") { more.to_owned() } else { format!("load.iterations = 40\n{more}") };
    let text = format!("{SCENARIO}{more}\ntarget.endpoint = '{}'", server.address);
    Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario")
}

fn run_scenario(scenario: Scenario, seed: u64, fail_fast: bool) -> RunResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let setup = RunSetup { scenario, seed: Seed(seed), hints: Hints::default(), fail_fast, embedded: false };
    // The sender stays: a closed channel would bring no interrupts either.
    let (_interrupt, interrupts) = mpsc::channel(1);
    runtime.block_on(run(setup, &mut Silent, interrupts)).expect("the server can be tested")
}

fn kinds(result: &RunResult) -> BTreeSet<ViolationKind> {
    result.tally.violations.keys().copied().collect()
}

/// Each fault, and what it has to be called; `or` may come with it.
type Row = (Fault, ViolationKind, &'static [ViolationKind]);

const FAULTS: [Row; 24] = [
    (Fault::OffByOne, WrongSum, &[]),
    (Fault::KeepState, WrongSum, &[]),
    (Fault::Swap, WrongSum, &[]),
    (Fault::HoldBack, Lost, &[]),
    (Fault::AcceptNoStart, MissingStartError, &[]),
    (Fault::RefuseStart, SpuriousStartError, &[]),
    (Fault::RefuseInTheMiddle, SpuriousStartError, &[]),
    (Fault::OtherError, UnexpectedError, &[]),
    (Fault::OtherRefusal, UnexpectedError, &[]),
    (Fault::Drop, Lost, &[Hang]),
    (Fault::Duplicate, Duplicate, &[]),
    (Fault::Reorder, Reordered, &[Lost]),
    (Fault::WrongId, Misaddressed, &[]),
    (Fault::WrongModel, WrongModel, &[]),
    (Fault::WrongName, WrongOutputName, &[]),
    (Fault::WrongType, WrongOutputType, &[]),
    (Fault::WrongShape, WrongOutputShape, &[]),
    (Fault::Truncate, WrongOutputSize, &[]),
    (Fault::CloseEarly, StreamBroken, &[]),
    (Fault::NeverClose, StreamNotClosed, &[]),
    (Fault::Die, ServerDied, &[]),
    (Fault::Freeze, Lost, &[Hang]),
    (Fault::CountTwice, Statistics, &[]),
    (Fault::CountNot, Statistics, &[]),
];

/// Most of the time is spent waiting for answers that do not come, so all wait at the same time.
fn for_all_faults(test: impl Fn(Row) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for row in FAULTS {
            scope.spawn(move || test(row));
        }
    });
}

#[test]
fn a_correct_server_is_not_accused() {
    for seed in 0..5 {
        let server = TestServer::start(Setup::default());
        let result = run_scenario(scenario(&server, ""), seed, false);
        assert_eq!(result.violations, []);
        let total = result.tally.total();
        assert_eq!((total.indeterminate, total.failed, total.undetermined), (0, 0, 0), "{total:?}");
        assert_eq!(total.requests, server.requests());
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
        let server = TestServer::start(Setup::default());
        let result = run_scenario(scenario(&server, &format!("sending.{sending}")), 1, false);
        assert_eq!(result.violations, [], "{sending}");
        assert_eq!(result.tally.total().undetermined, 0);
        assert!(result.tally.total().completed > 1000);
    }
}

#[test]
fn a_fault_that_happens_once_is_found_and_named() {
    for_all_faults(|(fault, expected, also)| {
        let server = TestServer::with_fault(fault, When::Once(3));
        let result = run_scenario(scenario(&server, ""), 7, false);
        assert_eq!(server.faults_committed(), 1, "{fault:?} was not committed");
        let found = kinds(&result);
        assert!(
            found.contains(&expected),
            "{fault:?} is not called {expected} but {found:?}: {:#?}",
            result.violations
        );
        let rest: Vec<_> = found.iter().filter(|kind| **kind != expected && !also.contains(kind)).collect();
        assert!(rest.is_empty(), "{fault:?} is also called {rest:?}: {:#?}", result.violations);
    });
}

#[test]
fn a_fault_that_always_happens_is_found_and_named() {
    for_all_faults(|(fault, expected, _)| {
        // A server that dies of each request was not tested before it died: tests/run.rs has that case.
        if fault == Fault::Die {
            return;
        }
        let server = TestServer::with_fault(fault, When::Always);
        // Where each answer is waited for in vain a few are enough.
        let waits = matches!(expected, Lost | StreamNotClosed | Reordered | Hang);
        let result = run_scenario(scenario(&server, if waits { "load.iterations = 2" } else { "" }), 7, false);
        assert!(
            kinds(&result).contains(&expected),
            "{fault:?} is not called {expected}: {:#?}",
            result.tally.violations
        );
    });
}
