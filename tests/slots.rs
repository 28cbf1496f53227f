//! The count of the slots after a run: a correct server has all of them and each once, and a faulty one is found out.

use std::time::Duration;

use sequence_stress::{
    engine::{Hints, Observer, RunResult, Setup, SlotFinding, run},
    oracle::ViolationKind::{self, *},
    reference::{Fault, ModelOptions, Options, Planted, Server},
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};
use tokio::sync::mpsc;

const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";
const IMPLICIT: &str = "implicit_sequence_int32";
const NO_BATCH: &str = "custom_nobatch_sequence_int32";

const SCENARIO: &str = "
load = { workers = 3, iterations = 12 }
length.max = 20
limits = { lost_after_ms = 1500, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 5000 }
patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 2 }
";

struct Silent;
impl Observer for Silent {}

/// Two instances with four slots each, and an idle limit that a busy machine keeps.
fn models() -> ModelOptions {
    ModelOptions {
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_millis(250),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    }
}

fn server(models: ModelOptions, faults: Vec<Planted>) -> Server {
    Server::start(Options { models, faults, threads: 1, ..Options::default() }).expect("a free port")
}

fn run_on(server: &Server, model: &str, more: &str, hints: Hints) -> RunResult {
    // A file has each key once.
    let usual = SCENARIO.lines().filter(|line| !more.contains("patterns") || !line.starts_with("patterns"));
    let usual: Vec<_> = usual.collect();
    let text =
        format!("{}\n{more}\ntarget = {{ endpoint = '{}', model = '{model}' }}", usual.join("\n"), server.address);
    let scenario = Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let setup = Setup { scenario, seed: Seed(3), hints, fail_fast: false, embedded: true };
    let (_interrupt, interrupts) = mpsc::channel(1);
    runtime.block_on(run(setup, &mut Silent, interrupts)).expect("the server can be tested")
}

fn kinds(result: &RunResult) -> Vec<ViolationKind> {
    result.tally.violations.keys().copied().collect()
}

#[track_caller]
fn assert_all_there(models: ModelOptions, model: &str, slots: u32) {
    let what = format!("{models:?} {model}");
    let result = run_on(&server(models, Vec::new()), model, "", Hints::default());
    assert_eq!(result.violations, [], "{what}");
    assert_eq!(result.slots.finding, SlotFinding::AllThere { slots }, "{what}");
}

#[test]
fn a_correct_server_has_every_slot_once() {
    for model in [DIRECT, OLDEST, IMPLICIT, "implicit_dyna_sequence_int32"] {
        assert_all_there(models(), model, 8);
    }
    assert_all_there(models(), NO_BATCH, 2);
}

#[test]
fn a_correct_server_of_another_shape_has_every_slot_once() {
    assert_all_there(ModelOptions { instances: 1, max_batch_size: 1, candidates: 1, ..models() }, DIRECT, 1);
    assert_all_there(ModelOptions { instances: 1, max_batch_size: 1, candidates: 1, ..models() }, OLDEST, 1);
    assert_all_there(ModelOptions { instances: 1, max_batch_size: 1, candidates: 12, ..models() }, OLDEST, 12);
    assert_all_there(ModelOptions { max_batch_size: 50, ..models() }, DIRECT, 100);
    let slow = ModelOptions { execution: Duration::from_millis(40), ..models() };
    assert_all_there(slow.clone(), DIRECT, 8);
    assert_all_there(slow, OLDEST, 8);
    let held_back = ModelOptions { queue_delay: Duration::from_millis(30), minimum_slot_utilization: 1.0, ..models() };
    assert_all_there(held_back.clone(), DIRECT, 8);
    assert_all_there(ModelOptions { preferred_batch_sizes: vec![4], ..held_back }, OLDEST, 8);
}

/// A fault that happens once during the run, where, and what it is called.
fn assert_found(fault: Fault, chance: u64, model: &str, expected: ViolationKind) -> RunResult {
    let server = server(models(), vec![Planted::once(fault, chance)]);
    let result = run_on(&server, model, "", Hints::default());
    assert_eq!(server.committed(fault), 1, "{fault} was not committed on {model}");
    assert!(kinds(&result).contains(&expected), "{fault} on {model}: {:#?} {:#?}", result.slots, result.violations);
    result
}

#[test]
fn a_slot_that_is_gone_is_missed() {
    for fault in [Fault::LeakSlotAtEnd, Fault::LeakSlotAtIdle, Fault::NeverReap] {
        for model in [DIRECT, OLDEST] {
            let result = assert_found(fault, 2, model, SlotLeak);
            assert_eq!(kinds(&result), [SlotLeak], "{fault} on {model}: {:#?}", result.violations);
            let SlotFinding::Leaked { slots: 8, leaked: 1, seen } = &result.slots.finding else {
                panic!("{fault} on {model}: {:?}", result.slots)
            };
            assert!(seen.contains("7 of 8 open at a time"), "{seen}");
            assert!(seen.contains("when these ended, 1 of the others got an answer"), "{seen}");
        }
    }
}

#[test]
fn a_slot_that_there_is_twice_is_found() {
    for (fault, chance) in [(Fault::DoubleRelease, 2), (Fault::ExtraSlot, 1)] {
        for model in [DIRECT, OLDEST] {
            let result = assert_found(fault, chance, model, SlotReleasedTwice);
            assert!(matches!(result.slots.finding, SlotFinding::ReleasedTwice { slots: 8, .. }), "{:?}", result.slots);
            let rest: Vec<_> =
                kinds(&result).into_iter().filter(|kind| ![SlotReleasedTwice, WrongSum].contains(kind)).collect();
            assert_eq!(rest, [], "{fault} on {model}: {:#?}", result.violations);
        }
    }
}

#[test]
fn a_sequence_that_is_reaped_early_is_found() {
    let server = server(models(), vec![Planted::always(Fault::ReapEarly)]);
    let result = run_on(&server, DIRECT, "", Hints::default());
    assert!(kinds(&result).contains(&SpuriousStartError), "{:#?} {:#?}", result.slots, result.violations);
}

#[test]
fn what_cannot_be_told_is_not_checkable() {
    let why = |result: &RunResult| match &result.slots.finding {
        SlotFinding::NotCheckable { why } => why.clone(),
        other => panic!("{other:?}"),
    };
    let server = server(models(), Vec::new());
    for (more, expected) in [
        ("slots.check = false", "slots.check"),
        ("slots.max = 7", "8 slots are more than slots.max, 7"),
        ("slots.wait_ms = 249", "the idle limit, 250 ms, is above slots.wait_ms, 249"),
    ] {
        let result = run_on(&server, DIRECT, more, Hints::default());
        assert_eq!(result.violations, []);
        assert!(why(&result).contains(expected), "{}", why(&result));
    }
}

#[test]
fn where_no_sequence_was_left_open_nothing_is_waited_for() {
    let server = server(ModelOptions { idle_limit: Duration::from_secs(30), ..models() }, Vec::new());
    let more = "slots.wait_ms = 1\npatterns = { common = { valid = 1 }, rare = { valid-valid = 1 } }";
    let result = run_on(&server, DIRECT, more, Hints::default());
    assert_eq!(result.slots.finding, SlotFinding::AllThere { slots: 8 });
    assert!(result.slots.took < Duration::from_secs(10), "{:?}", result.slots);
}
