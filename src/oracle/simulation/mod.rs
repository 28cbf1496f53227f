//! The oracle against a correct server: it never accuses it, never loses what it holds, and does not grow.

mod conversation;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Kind, Seen, Tampering, World};

use crate::{
    answers::Answers,
    arithmetic::{Arithmetic, Formula},
    controls::Told,
    number::Datatype,
    oracle::histories::NODES_MAX,
    reference::fault::Faults,
};

const BY_SLOT: Told = Told { start: true, end: false, ready: true, corrid_bits: None };
const BY_ID: Told = Told { end: true, corrid_bits: Some(u64::BITS), ..BY_SLOT };
const INT32: Arithmetic = Arithmetic {
    datatype: Datatype::Int32,
    formula: Formula::RunningSum,
    initial_state: 0,
    answers: Answers::One,
    value_bits: None,
};
const KINDS: [Kind; 3] = [
    Kind { model: "custom_sequence_int32", mixes: false, told: BY_SLOT, arithmetic: INT32, times: 1 },
    Kind { model: "implicit_dyna_sequence_int32", mixes: false, told: BY_SLOT, arithmetic: INT32, times: 1 },
    Kind { model: "oldest_sequence_int32", mixes: true, told: BY_ID, arithmetic: INT32, times: 1 },
];

/// The same in every type, and with everything else that an answer may have in it.
fn arithmetics() -> Vec<Kind> {
    let of = |(datatype, times)| {
        let arithmetics = [
            Arithmetic { datatype, initial_state: 7, ..INT32 },
            Arithmetic { datatype, formula: Formula::RunningSumPlusCorrid, ..INT32 },
            Arithmetic { datatype, formula: Formula::StatelessPlusCorrid, ..INT32 },
        ];
        let kinds = KINDS.into_iter().cycle();
        arithmetics.into_iter().zip(kinds).map(move |(arithmetic, kind)| {
            // Start and value are added before they are multiplied.
            let times = if arithmetic.formula.is_stateless() { 1 } else { times };
            Kind { arithmetic, times, ..kind }
        })
    };
    let times = |datatype| match datatype {
        Datatype::Uint8 | Datatype::Uint16 | Datatype::Uint32 => (datatype, -5),
        Datatype::Int64 | Datatype::Uint64 => (datatype, 0x1234_5678_9abc_def1),
        Datatype::Fp64 => (datatype, 1 << 30),
        _ => (datatype, 1),
    };
    Datatype::ALL.map(times).into_iter().flat_map(of).collect()
}

/// Models that answer a request several times.
fn decoupled() -> [Kind; 3] {
    KINDS.map(|kind| Kind { arithmetic: Arithmetic { answers: Answers::Several(3), ..INT32 }, ..kind })
}

/// Runs a world; where it fails, again with all that happens.
fn run(kind: Kind, seed: u64) -> Seen {
    let mut world = World::new(kind, seed, Faults::default());
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    if ended.is_err() || !world.seen.violations.is_empty() {
        let mut again = World::new(kind, seed, Faults::default());
        again.log = Some(Vec::new());
        let _ = catch_unwind(AssertUnwindSafe(|| again.run()));
        let log = again.log.unwrap_or_default();
        panic!("seed {seed}, {kind:?}: {:#?}\n{}", world.seen.violations, log.join("\n"));
    }
    world.seen
}

fn add(all: &mut Seen, one: &Seen) {
    all.conversations += one.conversations;
    all.answers += one.answers;
    all.sums += one.sums;
    all.checks_of_the_state += one.checks_of_the_state;
    all.states_max = all.states_max.max(one.states_max);
    all.requests_max = all.requests_max.max(one.requests_max);
    for (&doubt, count) in &one.undetermined {
        *all.undetermined.entry(doubt).or_default() += count;
    }
}

fn conversations(kinds: &[Kind], least: u64) {
    for &kind in kinds {
        let mut all = Seen::default();
        for seed in 0.. {
            if all.conversations >= least / kinds.len() as u64 {
                break;
            }
            add(&mut all, &run(kind, seed));
        }
        let undetermined: u64 = all.undetermined.values().sum();
        let share = undetermined * 100 / all.answers;
        assert!(all.states_max <= NODES_MAX + 1, "{kind:?}: {all:?}");
        assert!(share < if kind.mixes { 75 } else { 25 }, "{kind:?}: {share} % of {all:?}");
        assert!(all.checks_of_the_state > all.conversations / 4, "{kind:?}: {all:?}");
    }
}

#[test]
fn a_correct_server_is_never_accused_and_its_state_never_lost() {
    conversations(&KINDS, 20_000);
}

#[test]
fn nor_is_it_in_any_other_type_or_formula() {
    conversations(&arithmetics(), 10_000);
}

#[test]
fn nor_is_it_where_a_request_has_several_answers_that_overtake_those_to_others() {
    conversations(&decoupled(), 5_000);
}

#[test]
#[ignore = "takes a minute in a debug build; scripts/test has it"]
fn a_correct_server_is_never_accused_in_a_hundred_thousand_conversations() {
    conversations(&KINDS, 100_000);
    conversations(&decoupled(), 30_000);
}

#[test]
fn an_altered_answer_is_a_violation_where_one_was_determined() {
    assert!(altered(&KINDS, 1500) > 1000);
}

#[test]
fn so_it_is_in_every_type_and_formula() {
    assert!(altered(&arithmetics(), 1500) > 1000);
    assert!(altered(&decoupled(), 500) > 300);
}

/// How many answers were altered, one of a world at the most.
fn altered(kinds: &[Kind], worlds: u64) -> u64 {
    let mut altered = 0;
    for seed in 0..worlds {
        let kind = kinds[usize::try_from(seed).expect("few") % kinds.len()];
        let mut world = World::new(kind, seed, Faults::default()).tampering(Tampering { answer: seed % 50 });
        world.log = Some(Vec::new());
        let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
        let what = || {
            format!(
                "seed {seed}, {kind:?}: {:#?}\n{}",
                world.seen.violations,
                world.log.clone().unwrap_or_default().join("\n")
            )
        };
        assert!(ended.is_ok(), "{}", what());
        if let Some(violations) = world.seen.tampered {
            altered += 1;
            assert_eq!(violations, 1, "{}", what());
            assert_eq!(world.seen.violations.len(), 1, "{}", what());
        }
    }
    altered
}
