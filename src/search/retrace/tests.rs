use std::sync::atomic::AtomicBool;

use super::*;
use crate::{
    run::{Origin, Setup},
    search::{Recipe, Terms},
    simulate::{Held, Plan},
};

/// A simulated run of a search, and what its server went through by its history.
fn retraced(seed: Seed) -> (Held, BTreeSet<Pair>) {
    let recipe = Recipe::drawn(&mut seed.of_search(), &Terms::default());
    let server = recipe.server(Vec::new());
    let plan = Plan::new(recipe.scenario().expect("a scenario"), server.clone()).expect("a plan").watched();
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
        let (held, pairs) = retraced(Seed(seed));
        both += held.pairs.intersection(&pairs).count();
        either += held.pairs.union(&pairs).count();
    }
    assert!(either > 1000 && both * 10 > either * 6, "{both} of {either} pairs are the same");
}
