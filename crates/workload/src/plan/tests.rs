use std::{collections::HashMap, sync::Arc, time::Duration};

use super::*;
use crate::{
    arithmetic::Arithmetic,
    inputs::{ElementType, InputSet, InputTensor, Pace, Track},
    scenario::{Overrides, Source},
};

fn scenario(text: &str) -> Scenario {
    Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario")
}

fn iterations(scenario: &Scenario, seed: u64, worker: u32, count: usize) -> Vec<Iteration> {
    let mut plan = WorkerPlan::new(scenario, Seed(seed), worker);
    (0..count).map(|_| plan.next_iteration()).collect()
}

/// What would change for everybody who replays an old seed has to be seen: this snapshot is the plan of one seed.
#[test]
fn a_seed_means_what_it_always_meant() {
    let lines: Vec<_> = (0..2)
        .flat_map(|worker| iterations(&scenario(""), 42, worker, 12))
        .map(|iteration| serde_json::to_string(&iteration).expect("JSON"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_workers_plan_depends_on_the_seed_and_its_index_alone() {
    let small = scenario("load.workers = 4");
    let large = scenario("load.workers = 40\nload.iterations = 9\nsending.window = 3");
    assert_eq!(iterations(&small, 7, 3, 50), iterations(&large, 7, 3, 50));
    assert_ne!(iterations(&small, 7, 3, 50), iterations(&small, 8, 3, 50));
    let of_others: Vec<_> = iterations(&small, 7, 2, 50).into_iter().map(|iteration| iteration.sequences).collect();
    assert!(iterations(&small, 7, 3, 50).into_iter().all(|iteration| !of_others.contains(&iteration.sequences)));
}

#[test]
fn each_context_has_an_id_of_its_own() {
    let scenario = scenario("load.workers = 20");
    let mut owners = HashMap::new();
    for worker in 0..20 {
        for context in 0..scenario.most_contexts() {
            let id = correlation_id(&scenario, worker, context);
            assert_eq!(owners.insert(id, (worker, context)), None, "{id}");
        }
    }
    assert_eq!(correlation_id(&scenario, 3, 2).to_string(), "303");
    let versions = "[[population]]\nname = 'a'\nversion = 1\n[[population]]\nname = 'b'\nversion = 2";
    let source = Source::from_text("test", versions);
    let scenario = Scenario::resolve(&source, Overrides::default()).expect("a scenario");
    let workers = scenario.populations[0].load.workers.get();
    assert_eq!(correlation_id(&scenario, 3, 2), correlation_id(&scenario, workers + 3, 2), "each version has them all");
}

#[test]
fn patterns_are_what_they_say() {
    let mut seen = HashMap::new();
    for iteration in iterations(&scenario(""), 1, 0, 5000) {
        let shape: Vec<_> = iteration.sequences.iter().map(|sequence| (sequence.start, sequence.end)).collect();
        let expected: &[_] = match iteration.pattern {
            Pattern::Valid => &[(true, true)],
            Pattern::ValidValid => &[(true, true), (true, true)],
            Pattern::ValidNoEnd => &[(true, true), (true, false)],
            Pattern::NoStart => &[(false, false)],
            Pattern::NoEnd => &[(true, false)],
            Pattern::AfterEnd => &[(true, true), (false, false)],
            other => panic!("{other} has no weight"),
        };
        assert_eq!(shape, expected, "{iteration:?}");
        assert!(iteration.sequences.iter().all(|sequence| !sequence.values.is_empty()));
        if iteration.pattern == Pattern::NoStart {
            assert_eq!(iteration.sequences[0].values.len(), 1);
        }
        *seen.entry(iteration.pattern).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

#[test]
fn no_start_follows_only_what_certainly_leaves_no_sequence() {
    // No-start as often as may be, so that the rule is what decides.
    let text = "patterns.common = { valid = 1, no-end = 1, valid-no-end = 1, valid-valid = 1, no-start = 9 }";
    let mut previous = HashMap::new();
    let mut allowed = 0;
    for iteration in iterations(&scenario(text), 5, 0, 20_000) {
        if iteration.pattern == Pattern::NoStart {
            let before: Option<&Pattern> = previous.get(&iteration.context);
            assert!(before.is_some_and(|pattern| pattern.has(Trait::LeavesNone)), "after {before:?}");
            allowed += 1;
        }
        previous.insert(iteration.context, iteration.pattern);
    }
    assert!(allowed > 1000, "{allowed}");
}

#[test]
fn a_forbidden_no_start_becomes_a_pattern_that_the_scenario_draws() {
    let with_no_end =
        "contexts = { common = 1, rare = 0, rare_probability = 0 }\npatterns.common = { no-end = 1, no-start = 1 }";
    assert!(iterations(&scenario(with_no_end), 5, 0, 500).iter().all(|iteration| iteration.pattern == Pattern::NoEnd));
    let without = "contexts = { common = 1, rare = 0, rare_probability = 0 }\npatterns.common = { no-start = 1 }";
    let drawn: Vec<_> = iterations(&scenario(without), 5, 0, 3).iter().map(|iteration| iteration.pattern).collect();
    assert_eq!(drawn, [Pattern::Valid, Pattern::NoStart, Pattern::NoStart]);
}

#[test]
fn rare_contexts_take_turns() {
    let contexts: Vec<_> =
        iterations(&scenario(""), 3, 0, 2000).into_iter().map(|iteration| iteration.context).collect();
    let rare: Vec<_> = contexts.iter().filter(|&&context| context >= 2).collect();
    assert!(rare.iter().enumerate().all(|(turn, &&context)| context as usize == 2 + turn % 8), "{rare:?}");
}

/// The share of `hits` in `of` lies within five standard deviations of the odds. The seeds are fixed, so it always does or
/// never.
#[track_caller]
#[expect(clippy::cast_precision_loss)]
fn assert_share(what: &str, hits: usize, of: usize, odds: f64) {
    let (hits, of) = (hits as f64, of as f64);
    let tolerance = 5.0 * (odds * (1.0 - odds) / of).sqrt();
    assert!((hits / of - odds).abs() < tolerance, "{what}: {hits} of {of}, odds {odds}");
}

#[test]
fn the_weights_hold() {
    // Without no-start, whose draws fall through where it is not allowed.
    let common = [("valid", 0.5), ("valid-valid", 0.2), ("valid-no-end", 0.1), ("no-end", 0.2)];
    let scenario = scenario(
        "patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 2 }\ncontexts.rare_probability = 0.25",
    );
    let iterations = iterations(&scenario, 11, 0, 40_000);
    let rare: Vec<_> = iterations.iter().filter(|iteration| iteration.context >= 2).collect();
    assert_share("rare", rare.len(), iterations.len(), 0.25);
    for (name, odds) in [
        ("no-end", 0.33),
        ("valid-no-end", 0.33),
        ("valid-valid", 0.34),
        ("after-end", 0.33),
        ("valid", 0.0),
        ("no-start", 0.0),
    ] {
        let odds = odds / 1.33;
        let hits = rare.iter().filter(|iteration| iteration.pattern.name() == name).count();
        if odds == 0.0 { assert_eq!(hits, 0, "{name}") } else { assert_share(name, hits, rare.len(), odds) }
    }
    let of_common = iterations.len() - rare.len();
    for (name, odds) in common {
        let hits =
            iterations.iter().filter(|iteration| iteration.context < 2 && iteration.pattern.name() == name).count();
        assert_share(name, hits, of_common, odds);
    }
    let first = iterations.iter().filter(|iteration| iteration.context == 0).count();
    assert_share("the first common context", first, of_common, 0.5);
}

#[test]
fn lengths_and_values_are_distributed_as_the_scenario_says() {
    let scenario = scenario("");
    let sequences: Vec<_> = (0..8)
        .flat_map(|worker| iterations(&scenario, 13, worker, 5000))
        .flat_map(|iteration| iteration.sequences)
        .filter(|sequence| sequence.start)
        .collect();
    // max(1, trunc(Normal(16, 8))): the shares of a few ranges, from the normal distribution's table.
    for (what, range, odds) in [
        ("one step", 1..2, 0.040_06),
        ("2 to 7", 2..8, 0.158_66 - 0.040_06),
        ("8 to 15", 8..16, 0.5 - 0.158_66),
        ("16 to 23", 16..24, 0.841_34 - 0.5),
        ("24 to 31", 24..32, 0.977_25 - 0.841_34),
        ("32 and more", 32..101, 1.0 - 0.977_25),
    ] {
        let hits = sequences.iter().filter(|sequence| range.contains(&sequence.values.len())).count();
        assert_share(what, hits, sequences.len(), odds);
    }
    let values: Vec<_> = sequences.iter().flat_map(|sequence| &sequence.values).collect();
    assert!(values.iter().all(|value| (0..1_048_576).contains(*value)));
    for quarter in 0..4 {
        let hits = values.iter().filter(|&&&value| value / 262_144 == quarter).count();
        assert_share("a quarter of the values", hits, values.len(), 0.25);
    }
}

#[test]
fn lengths_are_kept_within_their_bounds() {
    let scenario = scenario("length = { min = 3, max = 5, normal = { mean = 4, stdev = 100 } }");
    let mut lengths: Vec<_> = iterations(&scenario, 1, 0, 500)
        .into_iter()
        .flat_map(|iteration| iteration.sequences)
        .filter(|sequence| sequence.start)
        .map(|sequence| sequence.values.len())
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [3, 4, 5]);
}

/// How large sums can be is reckoned with that.
#[test]
fn no_sequence_is_longer_than_lengths_are_or_than_it_is_taken_to_be_at_least() {
    for (max, longest) in [(1, Arithmetic::LONG), (5, Arithmetic::LONG), (90, 90)] {
        for pattern in Pattern::ALL {
            let scenario = scenario(&format!(
                "contexts = {{ common = 2, rare = 0, rare_probability = 0 }}\npatterns.common = {{ {pattern} = 1 }}\n\
                 length = {{ min = 1, max = {max}, constant = {max} }}"
            ));
            let of_passes = iterations(&scenario, 1, 0, 20).into_iter().flat_map(|iteration| iteration.sequences);
            let most = of_passes.map(|sequence| sequence.steps()).max().expect("there are some");
            assert!(most <= longest, "{pattern}: {most} steps where lengths are {max}");
        }
    }
}

#[test]
fn values_are_spread_over_elements_where_that_is_asked_for_and_nothing_else_changes() {
    let spread = scenario("values.elements = { min = 2, max = 5 }");
    let mut seen = std::collections::BTreeSet::new();
    for iteration in iterations(&spread, 7, 3, 50) {
        for sequence in &iteration.sequences {
            assert_eq!(sequence.elements.len(), sequence.values.len());
            seen.extend(sequence.elements.iter().map(|elements| elements.get()));
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(iterations(&spread, 7, 3, 50), iterations(&spread, 7, 3, 50));
    assert!(
        iterations(&scenario(""), 7, 3, 50)
            .iter()
            .all(|iteration| iteration.sequences.iter().all(|its| its.elements.is_empty()))
    );
    // The first iteration is drawn before the first numbers of elements.
    let (with, without) = (&iterations(&spread, 7, 3, 1)[0], &iterations(&scenario(""), 7, 3, 1)[0]);
    assert_eq!(with.sequences[0].values, without.sequences[0].values);
}

#[test]
fn a_recorded_track_is_sent_at_so_many_times_its_pace() {
    let step = |byte: u8| {
        let (name, datatype, shape) = ("IN".to_owned(), ElementType::Uint8, vec![1]);
        vec![InputTensor { name, datatype, shape, data: vec![byte] }]
    };
    let pauses = [100, 3_000, 40].map(Duration::from_millis).to_vec();
    let track = Track { name: "t".to_owned(), steps: (0..4).map(|byte| step(byte).into()).collect(), pauses };
    let inputs = Arc::new(InputSet::new(vec![track]));
    let sent = |times: Option<f64>| Sent {
        inputs: Arc::clone(&inputs),
        pace: times.map(|times| Pace { times, longest: Duration::from_secs(1) }),
    };
    let text =
        "length = { min = 6, max = 6 }\npatterns.common = { valid = 1, burst = 1 }\npatterns.rare = { valid = 1 }";
    let pauses = |times: Option<f64>, pattern: Pattern| {
        let plan = WorkerPlan::new(&scenario(text), Seed(3), 0);
        let mut plan = plan.with_inputs(Some(&sent(times)), Seed(3));
        let mut all = (0..100).map(|_| plan.next_iteration()).filter(|iteration| iteration.pattern == pattern);
        all.next().expect("the pattern is drawn").sequences[0].think_ms.clone()
    };
    // The longest pause is cut, and behind the recorded ones the last comes again.
    assert_eq!(pauses(Some(1.0), Pattern::Valid), [100, 1_000, 40, 40, 40]);
    assert_eq!(pauses(Some(4.0), Pattern::Valid), [25, 750, 10, 10, 10]);
    assert_eq!((pauses(None, Pattern::Valid), pauses(Some(1.0), Pattern::Burst)), (vec![], vec![]));
}
