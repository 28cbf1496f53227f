//! What would reach the claims that a run missed.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{preflight::Preflight, verdict::Reached};
use workload::{
    claim::Claim,
    scenario::{Population, Scenario},
    sequence::Pattern,
    wording::counted,
};

/// A claim, and how far the run came with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claimed {
    /// Its name.
    #[schemars(with = "String")]
    #[serde(rename = "name")]
    pub claim: Claim,
    /// How often it has to be reached; zero where the run does not claim it.
    pub least: u64,
    /// How often it was.
    pub reached: u64,
    /// Where that is less: what would reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Claimed {
    /// A claim of a run, with what would reach it.
    pub(super) fn of(reached: Reached, scenario: &Scenario, preflight: &Preflight) -> Self {
        let Reached { claim, least, times } = reached;
        let hint = (times < least).then(|| hint(claim, scenario, preflight));
        Self { claim, least, reached: times, hint }
    }
}

/// What would reach a claim, for this run.
fn hint(claim: Claim, scenario: &Scenario, preflight: &Preflight) -> String {
    let model = &preflight.model;
    let needs = claim.needs();
    // What no pattern is for cannot be drawn.
    let mut parts: Vec<_> = (!claim.patterns().is_empty()).then(|| drawing(claim, scenario)).into_iter().collect();
    if needs.contains("{slots}") && model.slots.is_none() {
        parts.push("the number of slots is not known: tell it (--slots)".to_owned());
    } else if needs.contains("{idle}") && model.idle_limit.is_none() {
        parts.push("the idle limit is not known: tell it (--idle-limit)".to_owned());
    } else if !needs.is_empty() {
        let milliseconds = |limit: Duration| format!("{} ms", limit.as_millis());
        let needs = needs
            .replace("{slots}", &model.slots.unwrap_or_default().to_string())
            .replace("{idle}", &model.idle_limit.map(milliseconds).unwrap_or_default())
            .replace("{workers}", &scenario.workers().to_string());
        parts.push(needs);
    }
    parts.join("; ")
}

/// How more of the claim's patterns would be drawn.
fn drawing(claim: Claim, scenario: &Scenario) -> String {
    let is_drawn = |pattern: &Pattern| scenario.draws(*pattern).anywhere();
    let names: Vec<_> = claim.patterns().iter().map(|pattern| pattern.name()).collect();
    let names = names.join(" or ");
    if !claim.patterns().iter().any(is_drawn) {
        let mut left_out = scenario.populations.iter().flat_map(Population::left_out);
        if let Some(pattern) = left_out.find(|its| claim.patterns().contains(its)) {
            return format!("{pattern} needs a stream (--transport grpc-stream)");
        }
        let uses_common = scenario.populations.iter().any(|population| population.contexts.common > 0);
        let table = if uses_common { "common" } else { "rare" };
        let whose = if scenario.populations.len() > 1 { "population." } else { "" };
        return format!("a weight for {names} in [{whose}patterns.{table}]");
    }
    let is_theirs = |population: &&Population| claim.patterns().iter().any(|its| population.draws(*its).anywhere());
    let load = &scenario.populations.iter().find(is_theirs).unwrap_or(&scenario.populations[0]).load;
    let more = match (load.iterations, load.ends()) {
        (Some(iterations), None) => format!("more iterations (-i, here {iterations})"),
        (None, Some(end)) if load.duration_s.is_some() => {
            format!("a longer run (--duration, here {})", counted(end.as_secs(), "second"))
        }
        _ => "a longer run".to_owned(),
    };
    format!("{more}, or a larger weight of {names}")
}
