//! Random conversations with one thing wrong in each.

use super::{
    super::{
        Cause::{self, *},
        Explanation, explain,
    },
    windows::{causes, keyed, known},
    world::{Mutation, World},
};
use crate::{Evidence, Place, Violation, ViolationKind};
use workload::event::{ContextId, EventKind};

/// What the first wrong answer of a world is put down to; none where nothing came to be wrong.
fn explained(mutation: Mutation, bits: u32, seed: u64) -> Option<Vec<Explanation>> {
    let world = World::run(mutation, bits, seed);
    let (request, right) = *world.wrong.first()?;
    let entry = world
        .entries
        .iter()
        .find(|entry| matches!(entry.what, EventKind::Answered(answered, ..) if answered == request))?;
    let context = ContextId { worker: request.worker, context: 0 };
    let place = Place::new(context, entry.correlation_id, None).of_request(request);
    let evidence = Evidence::Sum { expected: vec![right], seen: right.zero(), disorder: None };
    let violation = Violation::at(place, ViolationKind::WrongSum, entry.at, evidence);
    let known = if mutation == Mutation::OtherId { keyed() } else { known() };
    Some(explain(&violation, &world.entries, &known))
}

/// Of how many worlds, and of how many of them rightly, the first explanation is one of these.
pub(super) fn named(mutation: Mutation, bits: u32, seeds: u64, right: &[Cause]) -> (usize, usize) {
    let tops = (0..seeds).filter_map(|seed| explained(mutation, bits, seed)).map(|all| causes(&all));
    let tops: Vec<_> = tops.map(|causes| causes.first().copied()).collect();
    let hits = tops.iter().filter(|top| top.is_some_and(|top| right.contains(&top))).count();
    (hits, tops.len())
}

pub(super) const EACH: &[(Mutation, &[Cause])] = &[
    (Mutation::SmallMistake, &[WrongArithmetic]),
    (Mutation::Twice, &[ExecutedTwice]),
    (Mutation::Skipped, &[NotExecuted]),
    (Mutation::Reset, &[StateReset]),
    (Mutation::NotSaved, &[EffectLost]),
    (Mutation::OtherState, &[LeakedState]),
    (Mutation::Swapped, &[SwappedStates]),
    (Mutation::OutOfOrder, &[OutOfOrder]),
    (Mutation::EndFirst, &[EndBeforeLast]),
    (Mutation::NotReset, &[StaleStateOfId]),
    (Mutation::OtherId, &[CorridWrong]),
    (Mutation::Stray, &[ReadyTold]),
    (Mutation::OtherAnswer, &[ResponseOfAnother]),
    (Mutation::Random, &[Unexplained]),
];

#[test]
fn each_mutation_of_a_random_conversation_is_named() {
    for (mutation, right) in EACH {
        let (hits, of) = named(*mutation, 32, 100, right);
        assert!(of >= 80 && hits * 100 >= of * 99, "{mutation:?}: {hits} of {of}");
    }
}

#[test]
fn with_fewer_bits_nearly_all_are_named() {
    for (mutation, right) in EACH {
        let (hits, of) = named(*mutation, 20, 50, right);
        assert!(hits * 100 >= of * 97, "{mutation:?}: {hits} of {of}");
    }
}
