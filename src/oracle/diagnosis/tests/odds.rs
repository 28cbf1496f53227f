//! How often chance explains what has no explanation, and what an explanation costs.

use std::time::{Duration, Instant};

use super::{
    super::{Cause, explain},
    windows::known,
    world::{Mutation, World},
};
use crate::{
    number::{Datatype, Number},
    oracle::{Place, Violation, ViolationKind},
    sequence::RequestId,
};

/// The violation that an answer's wrong sum is.
fn wrong_sum(world: &World, request: RequestId, right: Number) -> Violation {
    let place = Place {
        worker: request.worker,
        context: 0,
        correlation_id: world.entries[0].correlation_id,
        request_id: Some(request.to_string()),
    };
    let text = String::new;
    let of_run = Violation::of_the_run(ViolationKind::WrongSum, 0, text(), right.to_string(), text());
    Violation { place: Some(place), ..of_run }
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

/// The table in docs/DIAGNOSIS.md.
#[test]
#[ignore = "it only measures"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn odds_are_measured() {
    // For figures that are worth telling, a release build.
    let (random, each) = if cfg!(debug_assertions) { (100, 30) } else { (3000, 1000) };
    for bits in [32, 20, 16, 12] {
        let (tried, explained) = false_explanations(bits, random);
        println!("{bits} bits: {explained} of {tried} random sums were explained");
        for (mutation, right) in super::random::EACH {
            let (hits, of) = super::random::named(*mutation, bits, each, right);
            println!("{bits} bits: {mutation:?}: {hits} of {of}");
        }
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
        told += usize::from(explanations.iter().any(|one| one.evidence.contains("by chance this matches in 1 of")));
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
            let serial = |request: &mut crate::sequence::RequestId| request.sequence += (copy + 1) * 10_000;
            match &mut entry.what {
                crate::history::What::Sent(step) => {
                    serial(&mut step.request);
                    let value = step.value.value().wrapping_mul(31).wrapping_add(copy.into());
                    step.value = Datatype::Int32.number(value);
                }
                crate::history::What::Answered(request, sum, _) => {
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
    let began = Instant::now();
    let explanations = explain(&violation, &window, &known());
    let took = began.elapsed();
    assert_eq!(explanations[0].cause, Cause::LeakedState);
    let limit = if cfg!(debug_assertions) { 2000 } else { 100 };
    assert!(took < Duration::from_millis(limit), "{took:?}");
}
