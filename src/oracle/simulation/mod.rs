//! The oracle against a correct server: it never accuses it, never loses what it holds, and does not grow.

mod conversation;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Kind, Seen, Tampering, World};

use crate::{controls::Told, oracle::histories::NODES_MAX, reference::fault::Faults};

const BY_SLOT: Told = Told { start: true, end: false, ready: true, corrid_bits: None };
const KINDS: [Kind; 3] = [
    Kind { model: "custom_sequence_int32", mixes: false, told: BY_SLOT },
    Kind { model: "implicit_dyna_sequence_int32", mixes: false, told: BY_SLOT },
    Kind {
        model: "oldest_sequence_int32",
        mixes: true,
        told: Told { end: true, corrid_bits: Some(u64::BITS), ..BY_SLOT },
    },
];

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

fn conversations(least: u64) {
    for kind in KINDS {
        let mut all = Seen::default();
        for seed in 0.. {
            if all.conversations >= least / KINDS.len() as u64 {
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
    conversations(20_000);
}

#[test]
#[ignore = "takes a minute in a debug build; scripts/test has it"]
fn a_correct_server_is_never_accused_in_a_hundred_thousand_conversations() {
    conversations(100_000);
}

#[test]
fn an_altered_answer_is_a_violation_where_one_was_determined() {
    let mut altered = 0;
    for seed in 0..1500 {
        let kind = KINDS[usize::try_from(seed % 3).expect("small")];
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
    assert!(altered > 1000, "{altered}");
}
