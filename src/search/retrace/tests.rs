use std::sync::atomic::AtomicBool;

use super::*;
use crate::{
    run::{Origin, Setup},
    search::{Recipe, Terms},
    simulate::{Held, Plan},
};
use reference::transitions::{Flags, Happening, State};
use workload::scenario::{Overrides, Source};

/// A simulated run, and what its server went through by its history.
fn retraced(scenario: Scenario, server: ServerSetup, seed: Seed) -> (Held, BTreeSet<Pair>) {
    let plan = Plan::new(scenario, server.clone()).expect("a plan").watched();
    let held = plan.hold_unless(&AtomicBool::new(false), seed, true).expect("nobody stops it");
    let setup = Setup { embedded: true, ..Setup::new(plan.scenario.clone(), seed) };
    let header = Header::new(("search", "", Some(server)), &setup, &plan.preflight, &Origin::here());
    let mut retraced = Retraced::default();
    retraced.begin(&header);
    for entry in &held.entries {
        retraced.entry(entry, &Ruling::default());
    }
    (held, retraced.pairs().expect("all of the run is there"))
}

#[test]
fn a_history_tells_most_of_what_its_server_went_through() {
    let (mut both, mut either) = (0, 0);
    for seed in 1..=20 {
        let recipe = Recipe::drawn(&mut Seed(seed).of_search(), &Terms::default());
        let (held, pairs) = retraced(recipe.scenario().expect("a scenario"), recipe.server(Vec::new()), Seed(seed));
        both += held.pairs.intersection(&pairs).count();
        either += held.pairs.union(&pairs).count();
    }
    assert!(either > 1000 && both * 10 > either * 6, "{both} of {either} pairs are the same");
}

#[test]
fn each_version_of_a_model_goes_through_transitions_of_its_own() {
    // Both versions have a sequence of the one ID at a time, and neither meets that of the other.
    let text = "
        load = { workers = 1, iterations = 20 }
        contexts = { common = 1, rare = 0, rare_probability = 0 }
        patterns.common.valid = 1
        population = [{ name = 'a', version = 1 }, { name = 'b', version = 2 }]";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    let (held, pairs) = retraced(scenario, ServerSetup { versions: 2, ..ServerSetup::default() }, Seed(1));
    for pair in held.pairs.iter().chain(&pairs) {
        let Happening::Arrival(Flags::Start | Flags::StartEnd, _) = pair.then.happening else { continue };
        assert!(matches!(pair.then.state, State::Free | State::Ending), "{pair}");
    }
    assert!(!pairs.is_empty());
}
