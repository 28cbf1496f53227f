use std::time::Duration;

use super::*;
use crate::simulate::Plan;
use reference::Planted;
use workload::sequence::Pattern;

/// Holds so many runs of a search, and says in how many of them which violations were found, and how many requests were sent.
fn search_for(search: &mut Search, runs: u64, planted: &[Planted]) -> (Vec<u64>, u64) {
    let (mut violating, mut requests) = (Vec::new(), 0);
    for run in 1..=runs {
        let recipe = search.draw();
        let scenario = recipe.scenario().unwrap_or_else(|error| panic!("{error}: {}", recipe.scenario_text()));
        let plan = Plan::new(scenario, recipe.server(planted.to_vec()));
        let plan = plan.unwrap_or_else(|why| panic!("{why}: {}", recipe.scenario_text()));
        let held = plan.watched().hold(Seed(run));
        requests += held.requests;
        if !held.tally.violations.is_empty() {
            violating.push(run);
        }
        search.learn(recipe, &held.pairs);
    }
    (violating, requests)
}

#[test]
fn a_search_accuses_no_correct_server_and_reaches_more_and_more() {
    let mut search = Search::new(Seed(1), Terms::default());
    let (violating, _) = search_for(&mut search, 20, &[]);
    let early = search.estimate();
    assert_eq!((violating, early.runs), (Vec::new(), 20));
    let (violating, _) = search_for(&mut search, 20, &[]);
    let late = search.estimate();
    assert_eq!(violating, Vec::<u64>::new());
    assert!(late.reached > early.reached && early.reached > 100, "{early:?}, {late:?}");
    assert_eq!(late.reached, search.reached().len() as u64);
    let new = |estimate: Estimate| estimate.new_in_next().expect("there were runs");
    assert!(new(late) < new(early), "{early:?}, {late:?}");
}

#[test]
fn equal_seeds_search_alike() {
    let found = |seed| {
        let mut search = Search::new(Seed(seed), Terms::default());
        let (_, requests) = search_for(&mut search, 8, &[]);
        (requests, search.reached)
    };
    assert_eq!(found(3), found(3));
    assert_ne!(found(3), found(4));
}

#[test]
fn a_search_finds_a_planted_fault() {
    for fault in ["double-release:0.01", "leak-slot-at-end:0.01", "keep-state:0.01"] {
        let (violating, requests) =
            search_for(&mut Search::new(Seed(2), Terms::default()), 20, &[fault.parse().expect("a fault")]);
        assert!(!violating.is_empty(), "{fault} was not found with {requests} requests");
    }
}

#[test]
fn a_run_is_kept_for_what_no_run_before_it_reached() {
    let mut search = Search::new(Seed(2), Terms::default());
    let recipe = search.draw();
    let plan = Plan::new(recipe.scenario().expect("a scenario"), recipe.server(Vec::new())).expect("a plan").watched();
    let held = plan.hold(Seed(1));
    let pairs = held.pairs.len();
    assert!(pairs > 10, "{pairs}");
    assert_eq!(search.learn(recipe.clone(), &held.pairs), pairs);
    assert_eq!(search.learn(recipe, &held.pairs), 0);
    assert_eq!((search.corpus.len(), search.reached().values().all(|times| *times == 2)), (1, true));
    let estimate = search.estimate();
    assert_eq!((estimate.new_in_next(), estimate.unseen_at_least()), (Some(0.0), Some(0.0)));
}

#[test]
fn a_search_goes_on_from_what_another_one_learnt() {
    let mut first = Search::new(Seed(1), Terms::default());
    search_for(&mut first, 5, &[]);
    let mut second = Search::new(Seed(2), Terms::default());
    second.take_in(&first.to_json()).expect("what the first one learnt");
    assert_eq!((second.estimate(), second.reached()), (first.estimate(), first.reached()));
    assert_eq!(second.to_json(), first.to_json());
    search_for(&mut second, 1, &[]);
    assert_eq!(second.estimate().runs, 6);
    // What a search may not draw it keeps for others all the same.
    let without: BTreeSet<_> = Pattern::ALL.into_iter().filter(|pattern| *pattern != Pattern::Valid).collect();
    let terms = Terms { without, ..Terms::default() };
    let mut narrow = Search::new(Seed(2), terms.clone());
    narrow.take_in(&first.to_json()).expect("what the first one learnt");
    assert!((0..20).all(|_| narrow.draw().suits(&terms)));
    assert_eq!(narrow.to_json(), first.to_json());
    let text = String::from_utf8(first.to_json()).expect("UTF-8");
    for (bad, says) in [
        ("{}".to_owned(), "it is no corpus"),
        (text.replacen("\"form\":2", "\"form\":7", 1), "it has form 7"),
        (text.replacen("\"batch\":", "\"batch\":7", 1), "no search draws"),
        (text.replacen("\"workers\":", "\"workers\":7", 1), "no search draws"),
        (text.replacen("\"runs\":5", "\"runs\":18446744073709551615", 1), "its counts cannot be"),
        (text.replacen("\"runs\":5", "\"runs\":0", 1), "its counts cannot be"),
    ] {
        let why = Search::new(Seed(2), Terms::default()).take_in(bad.as_bytes()).expect_err("it is bad");
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn whatever_is_drawn_or_changed_is_a_scenario() {
    let mut random = Seed(5).of_search();
    let without = BTreeSet::from([Pattern::Valid, Pattern::CancelRestart]);
    for given_idle in [None, Some(Duration::from_millis(200)), Some(Duration::MAX)] {
        let terms = Terms { given_idle, without: without.clone(), reloads: given_idle.is_some() };
        terms.check().expect("patterns are left");
        let mut recipe = Recipe::drawn(&mut random, &terms);
        for _ in 0..500 {
            let is_new = random.random_bool(0.3);
            recipe = if is_new { Recipe::drawn(&mut random, &terms) } else { recipe.changed(&mut random, &terms) };
            recipe.scenario().unwrap_or_else(|error| panic!("{error}: {}", recipe.scenario_text()));
            assert!(recipe.is_drawable() && recipe.has_server() == given_idle.is_none(), "{recipe:?}");
            assert!(recipe.suits(&terms), "{recipe:?}");
        }
    }
    let none = Terms { without: Pattern::ALL.into(), ..Terms::default() };
    assert!(none.check().is_err());
}

#[test]
fn what_is_unseen_follows_from_what_was_seen_once_and_twice() {
    let estimate = Estimate::new(10, [1, 1, 1, 1, 2, 2, 7].into_iter());
    assert_eq!(estimate, Estimate { runs: 10, reached: 7, once: 4, twice: 2 });
    assert_eq!(estimate.new_in_next(), Some(0.4));
    // 9/10 · 4 · 3 / (2 · 3)
    assert!(estimate.unseen_at_least().is_some_and(|least| (least - 1.8).abs() < 1e-9), "{estimate:?}");
    let none = Estimate::new(0, [].into_iter());
    assert_eq!((none.new_in_next(), none.unseen_at_least()), (None, None));
}
