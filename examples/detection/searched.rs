//! After how many simulated requests a search that learns finds each scheduling fault, beside the scenarios of the suite.

use std::fmt::Write as _;

use reference::{Fault, Planted, ServerSetup, When, simulated::Simulated};
use sequence_stress::{
    search::{Recipe, Search, Terms},
    simulate::Plan,
};
use workload::{
    scenario::{BUILTIN, Overrides, Scenario, Source},
    seed::Seed,
};

use super::harness::for_each;

/// The share of the chances at which a fault is committed.
const SHARE: f64 = 0.000_1;
/// After so many requests a search is given up.
const REQUESTS_MAX: u64 = 1_000_000;

/// Who looks for a fault.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// A search that learns.
    Search,
    /// Runs that are drawn alike, and learn nothing.
    Draws,
    /// The scenarios of the suite, each with one seed after the other.
    Suite,
}

/// The table, as Markdown.
pub(crate) fn table(only: &str, searches: u64, at_a_time: usize) -> String {
    let faults = Fault::ALL
        .into_iter()
        .filter(|fault| fault.group() == "scheduling" && fault.name().contains(only) && Simulated::commits(*fault));
    let tried: Vec<_> = faults
        .flat_map(|fault| [Way::Search, Way::Draws, Way::Suite].map(|way| (fault, way)))
        .flat_map(|(fault, way)| (1..=searches).map(move |seed| (fault, way, seed)))
        .collect();
    let found = for_each(&tried, at_a_time, |(fault, way, seed)| {
        let planted = Planted { fault: *fault, when: When::Probability(SHARE) };
        let requests = if *way == Way::Suite { by_suite(planted, *seed) } else { by_search(planted, *seed, *way) };
        eprintln!("{fault} {} {seed}: {requests:?}", *way as u8);
        requests
    });
    let mut out = String::from("| fault | search | draws | suite |\n|---|---|---|---|\n");
    for (of_fault, tried) in found
        .chunks(3 * usize::try_from(searches).expect("few"))
        .zip(tried.chunks(3 * usize::try_from(searches).expect("few")))
    {
        let cells: Vec<_> = of_fault.chunks(usize::try_from(searches).expect("few")).map(median).collect();
        writeln!(out, "| `{}` | {} |", tried[0].0, cells.join(" | ")).expect("a String");
    }
    out
}

/// The median, and how many searches came to nothing.
fn median(requests: &[Option<u64>]) -> String {
    let mut all: Vec<_> = requests.iter().map(|requests| requests.unwrap_or(u64::MAX)).collect();
    all.sort_unstable();
    let found = requests.iter().flatten().count();
    match all[all.len() / 2] {
        u64::MAX => format!("over {REQUESTS_MAX} ({found} of {} found it)", all.len()),
        median if found < all.len() => format!("{median} ({found} of {} found it)", all.len()),
        median => median.to_string(),
    }
}

fn by_search(planted: Planted, seed: u64, way: Way) -> Option<u64> {
    let mut search = Search::new(Seed(seed), Terms::default());
    let mut requests = 0;
    for run in 0.. {
        let recipe = if way == Way::Search {
            search.draw()
        } else {
            Recipe::drawn(&mut Seed(seed * 1_000_003 + run).of_search(), &Terms::default())
        };
        let Ok(scenario) = recipe.scenario() else { continue };
        let Ok(plan) = Plan::new(scenario, recipe.server(vec![planted])) else { continue };
        let held = plan.watched().hold(Seed(seed * 1_000_003 + run));
        requests += held.requests;
        if !held.tally.violations.is_empty() {
            return Some(requests);
        }
        if requests > REQUESTS_MAX {
            break;
        }
        search.learn(recipe, &held.pairs);
    }
    None
}

fn by_suite(planted: Planted, first: u64) -> Option<u64> {
    let plans: Vec<_> = BUILTIN
        .iter()
        .filter(|builtin| builtin.in_suite)
        .filter_map(|builtin| {
            let scenario =
                Scenario::resolve(&Source::from_text(builtin.name, builtin.text), Overrides::default()).ok()?;
            Plan::new(scenario, ServerSetup { fault: vec![planted], ..ServerSetup::default() }).ok()
        })
        .collect();
    let mut requests = 0;
    for round in 0.. {
        for plan in &plans {
            let held = plan.hold(Seed(first * 1_000_003 + round));
            requests += held.requests;
            if !held.tally.violations.is_empty() {
                return Some(requests);
            }
            if requests > REQUESTS_MAX {
                return None;
            }
        }
    }
    None
}
