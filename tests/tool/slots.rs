//! The count of the slots after a run: a correct server has all of them and each once, and a faulty one is found out.

use std::time::Duration;

use crate::support::{
    runs::{reference_server, scenario},
    side_by_side,
};
use oracle::{
    Leak, Purpose, Violation,
    ViolationKind::{self, *},
    diagnosis::{Cause, Explanation},
};
use reference::{Fault, ModelOptions, Planted, Server};
use sequence_stress::{
    probe::{IdleSearch, SlotFinding},
    run::{Interrupted, RunResult, Setup, run},
};
use tokio::sync::mpsc;
use wire::simulation::{self, Simulation};
use workload::{claim::Claim, seed::Seed};

/// As many simulations as a small machine has cores.
const AT_A_TIME: usize = 2;
const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";
const IMPLICIT: &str = "implicit_sequence_int32";
const NO_BATCH: &str = "custom_nobatch_sequence_int32";

const SCENARIO: &str = "
load = { workers = 3, iterations = 12 }
length.max = 20
limits = { lost_after_ms = 4000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 10000 }
patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 2 }
";

/// Two instances with four slots each, and an idle limit that a busy machine keeps.
fn models() -> ModelOptions {
    ModelOptions {
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_millis(400),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    }
}

fn run_on(server: &Server, model: &str, more: &str) -> RunResult {
    run_interrupted(server, model, more, None)
}

fn run_interrupted(server: &Server, model: &str, more: &str, interrupt_after: Option<Duration>) -> RunResult {
    // A file has each key once.
    let table = |line: &str| line.split(['.', ' ']).next().map(str::to_owned);
    let is_otherwise = |line: &str| !line.is_empty() && more.lines().any(|other| table(other) == table(line));
    let usual: Vec<_> = SCENARIO.lines().filter(|line| !is_otherwise(line)).collect();
    let text =
        format!("{}\n{more}\ntarget = {{ endpoint = '{}', model = '{model}' }}", usual.join("\n"), server.address);
    let setup = Setup { embedded: true, ..Setup::new(scenario(&text), Seed(3)) };
    let (interrupt, interrupts) = mpsc::channel(1);
    let _interrupting = interrupt_after.map(|after| {
        simulation::spawn({
            let interrupt = interrupt.clone();
            async move {
                tokio::time::sleep(after).await;
                interrupt.send(()).await.expect("a run that can be interrupted");
            }
        })
    });
    let mut nobody = ();
    simulation::wait_for(run(setup, &mut nobody, interrupts)).expect("the server can be tested")
}

fn kinds(result: &RunResult) -> Vec<ViolationKind> {
    result.tally.violations.keys().copied().collect()
}

/// A server is not accused, and found to be right.
fn assert_all_there(models: &ModelOptions, model: &str, slots: u32) {
    let _simulation = Simulation::begin();
    let result = run_on(&reference_server(models.clone(), &[]), model, "");
    assert_eq!(result.violations, [], "{models:?} {model}");
    assert_eq!(result.slots.finding, SlotFinding::AllThere { slots }, "{models:?} {model}");
}

#[test]
fn a_correct_server_has_every_slot_once() {
    side_by_side(AT_A_TIME, &[DIRECT, OLDEST, IMPLICIT, "implicit_dyna_sequence_int32", NO_BATCH], |model| {
        assert_all_there(&models(), model, if *model == NO_BATCH { 2 } else { 8 });
    });
}

#[test]
fn a_correct_server_of_another_shape_has_every_slot_once() {
    let one = ModelOptions { instances: 1, max_batch_size: 1, candidates: 1, ..models() };
    let slow = ModelOptions { execution: Duration::from_millis(40), ..models() };
    let held_back = ModelOptions { queue_delay: Duration::from_millis(30), minimum_slot_utilization: 1.0, ..models() };
    let rows = [
        (one.clone(), DIRECT, 1),
        (one.clone(), OLDEST, 1),
        (ModelOptions { candidates: 12, ..one }, OLDEST, 12),
        (ModelOptions { max_batch_size: 50, ..models() }, DIRECT, 100),
        (slow.clone(), DIRECT, 8),
        (slow, OLDEST, 8),
        (held_back.clone(), DIRECT, 8),
        (ModelOptions { preferred_batch_sizes: vec![4], ..held_back }, OLDEST, 8),
    ];
    side_by_side(AT_A_TIME, &rows, |(models, model, slots)| assert_all_there(models, model, *slots));
}

/// A fault that happens once during the run, where, and what it is called.
fn assert_found(fault: Fault, chance: u64, model: &str, expected: ViolationKind) -> RunResult {
    let _simulation = Simulation::begin();
    let server = reference_server(models(), &[Planted::once(fault, chance)]);
    let result = run_on(&server, model, "");
    assert_eq!(server.committed(fault), 1, "{fault} was not committed on {model}");
    assert!(kinds(&result).contains(&expected), "{fault} on {model}: {:#?} {:#?}", result.slots, result.violations);
    result
}

#[test]
fn a_slot_that_is_gone_is_missed() {
    let faults = [Fault::LeakSlotAtEnd, Fault::LeakSlotAtIdle, Fault::NeverReap];
    let rows: Vec<_> = faults.into_iter().flat_map(|fault| [(fault, DIRECT), (fault, OLDEST)]).collect();
    side_by_side(AT_A_TIME, &rows, |&(fault, model)| {
        let result = assert_found(fault, 2, model, SlotLeak);
        assert_eq!(kinds(&result), [SlotLeak], "{fault} on {model}: {:#?}", result.violations);
        let SlotFinding::Leaked { slots: 8, leaked: 1, seen } = result.slots.finding else {
            panic!("{fault} on {model}: {:?}", result.slots)
        };
        assert!(matches!(seen, Leak::Unanswered { open: 7, leaked: 1, later: Some(1), .. }), "{seen:?}");
    });
}

#[test]
fn a_slot_that_there_is_twice_is_found() {
    let rows = [(Fault::DoubleRelease, 2), (Fault::ExtraSlot, 1)];
    let rows: Vec<_> = rows.into_iter().flat_map(|row| [(row, DIRECT), (row, OLDEST)]).collect();
    side_by_side(AT_A_TIME, &rows, |&((fault, chance), model)| {
        let result = assert_found(fault, chance, model, SlotReleasedTwice);
        assert!(matches!(result.slots.finding, SlotFinding::ReleasedTwice { slots: 8, .. }), "{:?}", result.slots);
        let rest: Vec<_> =
            kinds(&result).into_iter().filter(|kind| ![SlotReleasedTwice, WrongSum].contains(kind)).collect();
        assert_eq!(rest, [], "{fault} on {model}: {:#?}", result.violations);
        // What the check itself sees is explained by what the check itself sent.
        let of_the_check = result.violations.iter().filter(|its| its.aside() == Some(Purpose::SlotCheck));
        for violation in of_the_check {
            // Behind the last step nothing shows whose state it is from then on.
            let is_named = |its: &&Explanation| matches!(its.cause, Cause::SharedState | Cause::LeakedState);
            assert!(
                violation.explanations.first().as_ref().is_some_and(is_named),
                "{fault} on {model}: {violation:#?}"
            );
        }
    });
}

#[test]
fn a_server_that_answers_nobody_has_not_lost_its_slots() {
    let _simulation = Simulation::begin();
    let server = reference_server(models(), &[Planted::always(Fault::SlowExecution)]);
    let more = "load = { workers = 3, iterations = 1 }\n\
        limits = { lost_after_ms = 2000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 10000 }";
    let result = run_on(&server, DIRECT, more);
    assert_eq!(kinds(&result), [Lost], "{:#?}", result.violations);
    assert!(why(&result).contains("none of 8 STARTs was answered"), "{}", why(&result));
}

#[test]
fn an_answer_that_is_lost_does_not_hide_that_all_slots_are_gone() {
    let _simulation = Simulation::begin();
    let one = ModelOptions { instances: 1, max_batch_size: 1, candidates: 1, ..models() };
    let faults = [Planted::once(Fault::DropResponse, 2), Planted::always(Fault::LeakSlotAtEnd)];
    let server = reference_server(one, &faults);
    let more = "load = { workers = 1, iterations = 1 }\nlength = { min = 4, max = 4 }\npatterns.common = { valid = 1 }";
    let result = run_on(&server, DIRECT, more);
    assert_eq!(kinds(&result), [Lost, SlotLeak], "{:#?} {:#?}", result.slots, result.violations);
    assert!(matches!(result.slots.finding, SlotFinding::Leaked { slots: 1, leaked: 1, .. }), "{:?}", result.slots);
}

#[test]
fn a_start_that_waits_beside_a_free_slot_is_found() {
    let rows: &[(&[Planted], &[ViolationKind])] = &[
        (&[], &[]),
        // The server keeps the slot of a sequence that ended until the idle limit.
        (&[Planted::once(Fault::LoseEnd, 40)], &[SlotWithheld]),
        (&[Planted::always(Fault::LoseEnd)], &[SlotWithheld]),
    ];
    let more = "load = { workers = 8, iterations = 12 }\nlength = { min = 2, max = 4 }\npatterns.common = { valid = 1 }\n\
                contexts = { common = 1, rare = 0, rare_probability = 0 }\nclaims = {}\n\
                think.iteration_ms.uniform = { min = 3000, max = 9000 }";
    // A START comes every 750 ms, and the ID whose END was lost begins its next sequence after 3 s at the earliest: one has to wait.
    for (faults, found) in rows {
        let _simulation = Simulation::begin();
        let idle_limit = Duration::from_secs(5);
        let one = ModelOptions { instances: 1, max_batch_size: 1, candidates: 1, idle_limit, ..models() };
        let server = reference_server(one, faults);
        let result = run_on(&server, DIRECT, more);
        assert!(faults.iter().all(|planted| server.committed(planted.fault) > 0), "{faults:?}");
        assert_eq!(kinds(&result), *found, "{faults:?} {:#?} {:#?}", result.accounting, result.violations);
        let causes = result.violations.iter().map(|violation| violation.explanations[0].cause);
        assert!(causes.eq(found.iter().map(|_| Cause::SlotKept)), "{:#?}", result.violations);
    }
}

/// More STARTs over each of two streams than there are slots.
const TURNS: &str = "load = { workers = 2, iterations = 2 }\nlength = { min = 5, max = 7 }\n\
    contexts = { common = 6, rare = 0, rare_probability = 0 }\npatterns.common = { shared-stream = 1 }\n\
    claims.slots-in-turn = 20";

#[test]
fn slots_that_are_given_in_turn_accuse_nobody() {
    for model in [DIRECT, OLDEST, IMPLICIT, "decoupled_sequence_int32"] {
        let _simulation = Simulation::begin();
        let server = reference_server(models(), &[]);
        let result = run_on(&server, model, TURNS);
        assert_eq!(result.violations, [], "{model}");
        let in_turn = result.tally.reached.of(Claim::SlotsInTurn);
        assert!(in_turn >= 20, "{model}: {in_turn}");
    }
}

#[test]
fn a_slot_that_is_given_out_of_turn_once_is_found() {
    for model in [DIRECT, OLDEST, "decoupled_sequence_int32"] {
        for fault in [Fault::BacklogOrder, Fault::StarveBacklog] {
            let _simulation = Simulation::begin();
            let server = reference_server(models(), &[Planted::once(fault, 20)]);
            let result = run_on(&server, model, TURNS);
            assert_eq!(server.committed(fault), 1, "{model}, {fault}");
            let found: Vec<_> = result.violations.iter().map(|its| (its.kind, its.explanations[0].cause)).collect();
            assert!(!found.is_empty(), "{model}, {fault}");
            assert!(found.iter().all(|its| *its == (SlotOutOfTurn, Cause::Starvation)), "{model}, {fault}: {found:?}");
        }
    }
}

#[test]
fn a_sequence_that_is_reaped_early_is_found() {
    let _simulation = Simulation::begin();
    let server = reference_server(models(), &[Planted::always(Fault::ReapEarly)]);
    let result = run_on(&server, DIRECT, "");
    assert!(kinds(&result).contains(&SpuriousStartError), "{:#?} {:#?}", result.slots, result.violations);
}

/// Why a finding is none.
fn why(result: &RunResult) -> &str {
    match &result.slots.finding {
        SlotFinding::NotCheckable { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_told_is_not_checkable() {
    let _simulation = Simulation::begin();
    let server = reference_server(models(), &[]);
    for (more, expected) in [
        ("slots.check = false", "slots.check"),
        ("slots.max = 7", "the model has 8 slots, more than slots.max, 7"),
        ("slots.wait_ms = 399", "the idle limit, 400 ms, is above slots.wait_ms, 399"),
    ] {
        let result = run_on(&server, DIRECT, more);
        assert_eq!(result.violations, []);
        assert!(why(&result).contains(expected), "{}", why(&result));
    }
}

#[test]
fn where_no_sequence_was_left_open_nothing_is_waited_for() {
    let _simulation = Simulation::begin();
    let server = reference_server(ModelOptions { idle_limit: Duration::from_secs(30), ..models() }, &[]);
    let more = "slots.wait_ms = 1\npatterns = { common = { valid = 1 }, rare = { valid-valid = 1 } }";
    let result = run_on(&server, DIRECT, more);
    assert_eq!(result.slots.finding, SlotFinding::AllThere { slots: 8 });
    assert!(result.slots.took_us < 10_000_000, "{:?}", result.slots);
}

#[test]
fn an_interrupt_ends_the_wait_for_idle_sequences() {
    let _simulation = Simulation::begin();
    let server =
        reference_server(ModelOptions { idle_limit: Duration::from_secs(50), max_batch_size: 100, ..models() }, &[]);
    let result = run_interrupted(&server, DIRECT, "", Some(Duration::from_secs(4)));
    assert!(result.slots.took_us < 5_000_000, "{:?}", result.slots);
    assert_eq!((result.interrupted, why(&result)), (Interrupted(true), "the run was interrupted"));
    assert_eq!(result.violations, []);
}

#[test]
fn a_server_that_dies_while_its_slots_are_counted_is_told() {
    let _simulation = Simulation::begin();
    let correct = run_on(&reference_server(models(), &[]), DIRECT, "");
    let in_the_check = correct.tally.total().requests + 4;
    let server = reference_server(models(), &[Planted::once(Fault::Crash, in_the_check)]);
    let result = run_on(&server, DIRECT, "");
    assert_eq!((kinds(&result), why(&result)), (vec![ServerDied], "the server died"), "{:#?}", result.violations);
}

#[test]
fn an_answer_that_is_lost_is_not_taken_for_a_slot_that_is_gone() {
    let _simulation = Simulation::begin();
    let correct = run_on(&reference_server(models(), &[]), DIRECT, "");
    let in_the_check = correct.tally.total().answered() + 3;
    let server = reference_server(models(), &[Planted::once(Fault::DropResponse, in_the_check)]);
    let result = run_on(&server, DIRECT, "");
    assert_eq!(server.committed(Fault::DropResponse), 1);
    assert!(!kinds(&result).contains(&SlotLeak), "{:#?}", result.violations);
    assert!(why(&result).contains("counts rose"), "{}", why(&result));
}

/// Steps may take long on a busy machine, and then tell little of the limit, but nothing that is not so.
/// What a run in which a fault is planted, or none, has to come to.
type Row = (Option<Fault>, fn(&RunResult));

#[test]
fn the_idle_limit_that_the_server_keeps_is_searched_for() {
    let is_found = |result: &RunResult| {
        assert_eq!(result.violations, []);
        let IdleSearch::Found { configured_us: 400_000, kept_us, ended_us: Some(ended_us), trials } = result.idle_limit
        else {
            panic!("{:?}", result.idle_limit)
        };
        assert!(
            kept_us >= 190_000 && ended_us >= 400_000 && (24..=64).contains(&trials),
            "{kept_us} {ended_us} {trials}"
        );
    };
    // One that ends sequences too early is accused, and one that is late is measured.
    let is_early = |result: &RunResult| {
        let of_the_search = |its: &&Violation| its.aside() == Some(Purpose::IdleSearch);
        let seen = result.violations.iter().find(of_the_search).unwrap_or_else(|| panic!("{:?}", result.violations));
        let cause = seen.explanations.first().map(|first| first.cause);
        assert_eq!((seen.kind, cause), (SpuriousStartError, Some(Cause::PrematureReap)), "{seen:?}");
        let IdleSearch::Found { ended_us: Some(ended_us), .. } = result.idle_limit else {
            panic!("{:?}", result.idle_limit)
        };
        assert!(ended_us < 400_000, "{ended_us}");
    };
    let never_ends = |result: &RunResult| {
        let IdleSearch::Found { ended_us: None, kept_us, .. } = result.idle_limit else {
            panic!("{:?}", result.idle_limit)
        };
        assert!(kept_us > 800_000, "{kept_us}");
        assert!(kinds(result).contains(&MissingReap), "{:#?}", result.violations);
    };
    let rows: [Row; 3] = [(None, is_found), (Some(Fault::ReapEarly), is_early), (Some(Fault::NeverReap), never_ends)];
    side_by_side(AT_A_TIME, &rows, |(fault, check)| {
        let _simulation = Simulation::begin();
        let faults: Vec<_> = fault.iter().map(|fault| Planted::always(*fault)).collect();
        let server = reference_server(models(), &faults);
        check(&run_on(&server, DIRECT, "slots.idle_limit_search = true\npatterns.common = { valid = 1 }"));
    });
}
