//! After how many simulated requests a search that learns finds each scheduling fault, beside the scenarios of the suite.

use std::fmt::Write as _;

use reference::{Fault, Planted, ServerSetup, When, simulated::Simulated};
use sequence_stress::{
    search::{Recipe, Search, Terms},
    simulate::{Held, Plan},
};
use workload::{
    scenario::{BUILTIN, Overrides, Scenario, Source},
    seed::Seed,
};

use super::harness::for_each;

/// After so many requests a search is given up.
const REQUESTS_MAX: u64 = 1_000_000;

/// Who looks for a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// A search that learns.
    Search,
    /// Runs that are drawn alike, and learn nothing.
    Draws,
    /// The scenarios of the suite, each with one seed after the other.
    Suite,
}

/// The table, as Markdown. `share` is the share of the chances at which a fault is committed.
pub(crate) fn table(only: &str, (searches, share): (u64, f64), at_a_time: usize) -> String {
    let faults = Fault::ALL
        .into_iter()
        .filter(|fault| fault.group() == "scheduling" && fault.name().contains(only) && Simulated::commits(*fault));
    let tried: Vec<_> = faults
        .flat_map(|fault| [Way::Search, Way::Draws, Way::Suite].map(|way| (fault, way)))
        .flat_map(|(fault, way)| (1..=searches).map(move |seed| (fault, way, seed)))
        .collect();
    let found = for_each(&tried, at_a_time, |(fault, way, seed)| {
        let planted = Planted { fault: *fault, when: When::Probability(share) };
        let outcome = if *way == Way::Suite { by_suite(planted, *seed) } else { by_search(planted, *seed, *way) };
        eprintln!("{fault} {way:?} {seed}: {outcome:?}");
        outcome
    });
    let searches = usize::try_from(searches).expect("few");
    let mut out = String::from("| fault | search | draws | suite |\n|---|---|---|---|\n");
    for (of_fault, tried) in found.chunks(3 * searches).zip(tried.chunks(3 * searches)) {
        let cells: Vec<_> = of_fault.chunks(searches).map(cell).collect();
        writeln!(out, "| `{}` | {} |", tried[0].0, cells.join(" | ")).expect("a String");
    }
    out
}

/// What became of a search.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Requests until the first violation, or until it was given up.
    requests: u64,
    /// How often the fault was committed in them.
    committed: u64,
    is_found: bool,
}

impl Outcome {
    /// Takes in one more run, and says whether the search is over.
    fn take(&mut self, held: &Held) -> bool {
        self.requests += held.requests;
        self.committed += held.committed.iter().map(|fault| fault.times).sum::<u64>();
        self.is_found = !held.tally.violations.is_empty();
        self.is_found || self.requests > REQUESTS_MAX
    }
}

/// The median of the requests, how many searches found it if not all did, and how often the fault was committed in all of them.
fn cell(outcomes: &[Outcome]) -> String {
    let mut all: Vec<_> = outcomes.iter().map(|its| if its.is_found { its.requests } else { u64::MAX }).collect();
    all.sort_unstable();
    let median = match all[all.len() / 2] {
        u64::MAX => format!("over {REQUESTS_MAX}"),
        median => median.to_string(),
    };
    let found = outcomes.iter().filter(|its| its.is_found).count();
    let of = if found < all.len() { format!(" ({found} of {})", all.len()) } else { String::new() };
    let committed: u64 = outcomes.iter().map(|its| its.committed).sum();
    format!("{median}{of}, {committed}×")
}

fn by_search(planted: Planted, seed: u64, way: Way) -> Outcome {
    let mut search = Search::new(Seed(seed), Terms::default());
    let mut outcome = Outcome::default();
    for run in 0.. {
        let recipe = if way == Way::Search {
            search.draw()
        } else {
            Recipe::drawn(&mut Seed(seed * 1_000_003 + run).of_search(), &Terms::default())
        };
        let Ok(scenario) = recipe.scenario() else { continue };
        let Ok(plan) = Plan::new(scenario, recipe.server(vec![planted])) else { continue };
        let held = plan.watched().hold(Seed(seed * 1_000_003 + run));
        if outcome.take(&held) {
            break;
        }
        search.learn(recipe, &held.pairs);
    }
    outcome
}

fn by_suite(planted: Planted, first: u64) -> Outcome {
    let plans: Vec<_> = BUILTIN
        .iter()
        .filter(|builtin| builtin.in_suite)
        .filter_map(|builtin| {
            let scenario =
                Scenario::resolve(&Source::from_text(builtin.name, builtin.text), Overrides::default()).ok()?;
            Plan::new(scenario, ServerSetup { fault: vec![planted], ..ServerSetup::default() }).ok()
        })
        .collect();
    let mut outcome = Outcome::default();
    for round in 0.. {
        for plan in &plans {
            if outcome.take(&plan.hold(Seed(first * 1_000_003 + round))) {
                return outcome;
            }
        }
    }
    outcome
}
