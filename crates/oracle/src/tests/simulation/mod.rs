//! The oracle against a correct server: it never accuses it, never loses what it holds, and does not grow.

mod conversation;
mod exhaustive;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Alteration, Kind, Seen, Tampering, World, Wrong};

use crate::{Words, histories::NODES_MAX, rounds::rounds};
use workload::{
    answers::Answers,
    arithmetic::{Arithmetic, Formula},
    controls::Told,
    number::Datatype,
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
    Kind {
        model: "custom_sequence_int32",
        mixes: false,
        told: BY_SLOT,
        arithmetic: INT32,
        times: 1,
        words: Words::Known,
    },
    Kind {
        model: "implicit_dyna_sequence_int32",
        mixes: false,
        told: BY_SLOT,
        arithmetic: INT32,
        times: 1,
        words: Words::Known,
    },
    Kind { model: "oldest_sequence_int32", mixes: true, told: BY_ID, arithmetic: INT32, times: 1, words: Words::Known },
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
    Datatype::of_the_protocol().map(times).flat_map(of).collect()
}

/// Models that answer a request several times.
fn decoupled() -> [Kind; 3] {
    KINDS.map(|kind| Kind { arithmetic: Arithmetic { answers: Answers::Several(3), ..INT32 }, ..kind })
}

/// Runs a world; where it fails, again with all that happens.
fn run(kind: Kind, seed: u64) -> Seen {
    let mut world = World::new(kind, seed);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    if ended.is_err() || !world.seen.violations.is_empty() {
        let mut again = World::new(kind, seed);
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
    for (&doubt, count) in &one.unjudged {
        *all.unjudged.entry(doubt).or_default() += count;
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
        let unjudged: u64 = all.unjudged.values().sum();
        let share = unjudged * 100 / all.answers;
        assert!(all.states_max <= NODES_MAX + 1, "{kind:?}: {all:?}");
        assert!(share < if kind.mixes { 75 } else { 25 }, "{kind:?}: {share} % of {all:?}");
        assert!(all.checks_of_the_state > all.conversations / 4, "{kind:?}: {all:?}");
    }
}

// The seeds are fixed, so each run of a test has the same worlds. The gate has fewer worlds than the long form. Suppose that the
// oracle accuses a correct server in one conversation of 200: the 3000 conversations of a test have no accusation with a probability
// of e^-15, 3 in 10 million. The odds are of all kinds of model together; the long form has them for each kind.
#[test]
fn a_correct_server_is_never_accused_and_its_state_never_lost() {
    conversations(&KINDS, rounds(3000, 100_000));
}

#[test]
fn nor_is_it_in_any_other_type_or_formula() {
    conversations(&arithmetics(), rounds(3000, 10_000));
}

#[test]
fn nor_is_it_where_a_request_has_several_answers_that_overtake_those_to_others() {
    conversations(&decoupled(), rounds(3000, 30_000));
}

#[test]
fn nor_is_it_where_its_words_are_not_known() {
    conversations(&KINDS.map(|kind| Kind { words: Words::Unknown, ..kind }), rounds(3000, 30_000));
}

// Suppose that the oracle misses one altered answer in seven: it finds all of 100 with a probability of (6/7)^100, 2 in 10 million.
#[test]
fn an_altered_answer_is_a_violation_where_one_was_determined() {
    let altered = altered(&KINDS, rounds(150, 1500));
    assert!(altered.len() >= 100, "{altered:?}");
    for how in Alteration::ALL {
        assert!(altered.iter().any(|(_, its)| *its == how), "{how:?} was not tried");
    }
}

#[test]
fn so_it_is_in_every_type_and_formula() {
    for (kinds, worlds) in [(&arithmetics()[..], rounds(200, 1500)), (&decoupled(), rounds(200, 500))] {
        let altered = altered(kinds, worlds);
        // More than 100 in the gate: the odds above.
        assert!(altered.len() as u64 > worlds / 2, "{} of {worlds}", altered.len());
        for (number, kind) in kinds.iter().enumerate() {
            assert!(altered.iter().any(|(its, _)| *its == number), "no answer of {kind:?} was altered");
        }
    }
}

/// Runs one world, in which one answer is altered. Returns the world, and whether the world ran to its end. The world has a log
/// where `logs`.
fn run_altered(kind: Kind, seed: u64, logs: bool) -> (World, bool) {
    let mut world = World::new(kind, seed).tampering(Tampering { answer: seed % 50 });
    world.log = logs.then(Vec::new);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run())).is_ok();
    (world, ended)
}

/// Runs worlds and alters at most one answer of each, one that is determined. Returns for each altered answer the index of its
/// world's kind, and the alteration.
fn altered(kinds: &[Kind], worlds: u64) -> Vec<(usize, Alteration)> {
    let mut altered = Vec::new();
    for seed in 0..worlds {
        let number = usize::try_from(seed).expect("few") % kinds.len();
        let kind = kinds[number];
        let (World { seen, .. }, ended) = run_altered(kind, seed, false);
        let (tampered, violations) = (seen.tampered, seen.violations.len());
        if !ended || tampered.is_some_and(|(_, at_once)| (at_once, violations) != (1, 1)) {
            let (again, _) = run_altered(kind, seed, true);
            let log = again.log.unwrap_or_default();
            panic!("seed {seed}, {kind:?}: {tampered:?} {:#?}\n{}", seen.violations, log.join("\n"));
        }
        altered.extend(tampered.map(|(how, _)| (number, how)));
    }
    altered
}

/// Runs worlds whose server does something wrong. Returns in how many it was found.
fn found(wrong: Wrong, worlds: u64) -> usize {
    let is_found = |seed: &u64| {
        let kind = KINDS[usize::try_from(*seed).expect("few") % KINDS.len()];
        let mut world = World::wrong(kind, *seed, wrong);
        let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
        assert!(ended.is_ok(), "seed {seed}, {kind:?}: it did not end");
        !world.seen.violations.is_empty()
    };
    (0..)
        .filter(|seed| World::new(KINDS[0], *seed).clients() > 1)
        .take(usize::try_from(worlds).expect("few"))
        .filter(is_found)
        .count()
}

#[test]
fn lost_ends_and_folded_ids_are_found() {
    for wrong in [Wrong::LosesEnds, Wrong::FoldsIds] {
        let worlds = rounds(200, 5000);
        let found = found(wrong, worlds);
        assert!(found as u64 * 100 > worlds * 90, "{wrong:?}: {found} of {worlds}");
    }
}
