//! How often chance explains what has no explanation, and what an explanation costs.

use super::{
    super::{Cause, explain, explain_in, story::Story},
    random::named,
    windows::known,
    world::{Mutation, World},
};
use crate::{
    Evidence, Place, Violation, ViolationKind,
    rounds::{is_long, rounds},
};
use workload::{
    event::{ContextId, EventKind},
    number::{Datatype, Number},
    sequence::RequestId,
};

/// The violation that an answer's wrong sum is.
fn wrong_sum(world: &World, request: RequestId, right: Number) -> Violation {
    let context = ContextId { worker: request.worker, context: 0 };
    let place = Place::new(context, world.entries[0].correlation_id, None).of_request(request);
    let evidence = Evidence::Sum { expected: vec![right], seen: right.zero(), disorder: None };
    Violation::at(place, ViolationKind::WrongSum, 0, evidence)
}

/// Gives random wrong sums to answers of random conversations; returns how many, and how many of them were explained.
fn false_explanations(bits: u32, seeds: u64) -> (usize, usize) {
    let mut tried = 0;
    let mut explained = 0;
    for seed in 0..seeds {
        let world = World::run(Mutation::Random, bits, seed);
        let Some((request, right)) = world.wrong.first().copied() else { continue };
        let violation = wrong_sum(&world, request, right);
        let explanations = explain(&violation, &world.entries, &known());
        tried += 1;
        explained += usize::from(explanations[0].cause != Cause::Unexplained);
    }
    (tried, explained)
}

#[test]
fn a_random_sum_has_no_explanation() {
    let (tried, explained) = false_explanations(32, 300);
    assert!(tried > 250 && explained == 0, "{explained} of {tried}");
}

/// How many of how many.
type Share = (usize, usize);

#[test]
fn the_odds_are_those_that_are_documented() {
    // The table in docs/DIAGNOSIS.md. Each line has the bits of the values; how many mutations of the worst kind are named rightly,
    // and of how many; how many random sums have an explanation, and of how many.
    const LONG: [(u32, Share, Share); 4] = [
        (32, (1000, 1000), (0, 3000)),
        (20, (1000, 1000), (0, 3000)),
        (16, (998, 1000), (2, 3000)),
        (12, (977, 999), (46, 2999)),
    ];
    // The gate has the first seeds of the long form. Its numbers do not vary either.
    const GATE: [(u32, Share, Share); 1] = [(12, (19, 20), (3, 100))];
    let table = if is_long() { &LONG[..] } else { &GATE };
    for (bits, worst, explained) in table {
        let named = super::random::EACH.iter().map(|(kind, right)| named(*kind, *bits, rounds(20, 1000), right));
        let fewest = named.min_by_key(|(hits, of)| hits * 10_000 / of).expect("there are kinds");
        let (tried, by_chance) = false_explanations(*bits, rounds(100, 3000));
        assert_eq!((fewest, (by_chance, tried)), (*worst, *explained), "{bits} bits");
    }
}

#[test]
fn the_odds_of_chance_are_told_where_values_have_few_bits() {
    // With a dozen steps to compare with, one fits in some hundred cases.
    let mut told = 0;
    for seed in 0..20 {
        let (world, known) = (World::run(Mutation::OutOfOrder, 12, seed), known());
        let Some((request, right)) = world.wrong.first().copied() else { continue };
        let violation = wrong_sum(&world, request, right);
        let explanations = explain(&violation, &world.entries, &known);
        told += usize::from(explanations.iter().any(|one| one.by_chance.is_some()));
    }
    assert!(told > 10, "{told}");
}

#[test]
fn a_large_window_is_explained_at_once() {
    let world = World::run(Mutation::OtherState, 32, 1);
    let (request, right) = *world.wrong.first().expect("a wrong answer");
    // Others before it, with serial numbers of their own.
    let mut window = Vec::new();
    for copy in 0..u32::try_from(100_000 / world.entries.len() + 1).expect("some") {
        for entry in &world.entries {
            let mut entry = entry.clone();
            let serial = |request: &mut workload::sequence::RequestId| request.sequence += (copy + 1) * 10_000;
            match &mut entry.what {
                EventKind::Sent(step) => {
                    serial(&mut step.request);
                    let value = step.value.value().wrapping_mul(31).wrapping_add(copy.into());
                    step.value = Datatype::Int32.number(value);
                }
                EventKind::Answered(request, sum, _) => {
                    serial(request);
                    *sum = Datatype::Int32.number(sum.value().wrapping_mul(37).wrapping_add(copy.into()));
                }
                _ => {}
            }
            window.push(entry);
        }
    }
    window.extend(world.entries.iter().cloned());
    assert!(window.len() >= 100_000, "{}", window.len());
    let violation = wrong_sum(&world, request, right);
    let known = known();
    let story = Story::new(&window, known.arithmetic, &crate::diagnosis::Readings::new());
    let explanations = explain_in(&story, &violation, &known);
    assert_eq!(explanations[0].cause, Cause::LeakedState);
    let looks = story.looks.get();
    assert!(looks < 20 * window.len(), "{looks} looks at the steps of {} entries", window.len());
}
