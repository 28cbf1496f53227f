//! What a run had to reach, what it did reach, and what would reach the rest.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::preflight::Preflight;
use workload::{
    claim::{Claim, Claims},
    scenario::{Drawn, Population, Reuse, Scenario, Sending},
    sequence::Pattern,
    wording::counted,
};

/// A claim, and how far the run came with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Claimed {
    /// Its name.
    #[schemars(with = "String")]
    #[serde(rename = "name", serialize_with = "name")]
    pub claim: Claim,
    /// How often it has to be reached; zero where the run does not claim it.
    pub least: u64,
    /// How often it was.
    pub reached: u64,
    /// Where that is less: what would reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn name<S: serde::Serializer>(claim: &Claim, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(claim.name())
}

/// All claims, and how far a run came with them.
pub(super) fn judge(scenario: &Scenario, preflight: &Preflight, reached: &Claims) -> Vec<Claimed> {
    let wanted = scenario.claims.unwrap_or_else(|| of_the_patterns(scenario, preflight));
    let judge = |claim| {
        let (least, reached) = (wanted.of(claim), reached.of(claim));
        let hint = (reached < least).then(|| hint(claim, scenario, preflight));
        Claimed { claim, least, reached, hint }
    };
    Claim::ALL.into_iter().map(judge).collect()
}

/// What a scenario without a table of claims has to reach: what the patterns that it draws are for.
fn of_the_patterns(scenario: &Scenario, preflight: &Preflight) -> Claims {
    let mut claims = Claims::default();
    for claim in Claim::ALL.into_iter().filter(|claim| follows(*claim, scenario, preflight)) {
        claims.set(claim, 1);
    }
    claims
}

/// Whether a claim follows from the patterns: whether a pass of one of them reaches it, on whatever correct server.
fn follows(claim: Claim, scenario: &Scenario, preflight: &Preflight) -> bool {
    scenario.populations.iter().any(|population| follows_from(claim, population, preflight))
}

fn follows_from(claim: Claim, population: &Population, preflight: &Preflight) -> bool {
    let drawn = |pattern: &Pattern| population.draws(*pattern);
    let is_drawn = claim.patterns().iter().map(drawn).any(Drawn::anywhere);
    let has_idle_limit = preflight.model.idle_limit.is_some();
    let Sending { reuse, .. } = population.sending;
    is_drawn
        && match claim {
            Claim::BackToBack => {
                reuse == Reuse::Pipelined
                    && !preflight.manner().after_answers
                    && population.sending.window().has_room(1)
            }
            // They end by themselves.
            Claim::RestartOfALiveId if preflight.model.arithmetic.answers.are_iterative() => false,
            // In rare contexts sequences are meant to go idle.
            Claim::RestartOfALiveId if population.draws_any(Pattern::restarts) => has_idle_limit,
            Claim::RestartOfALiveId => {
                claim.patterns().iter().any(|pattern| drawn(pattern).common)
                    && comes_back_in_time(population, preflight)
            }
            Claim::IdleReap | Claim::KeptThroughAPause | Claim::LivedOn => has_idle_limit,
            // With more steps under way it is chance whether the one before is answered when the one with the flaw is sent.
            Claim::SurvivedAFlaw => !population.sending.window().has_room(1),
            // How the slots are taken depends on how many there are, and on how fast the server is.
            Claim::AllSlotsBusy | Claim::Backlog | Claim::SlotReclaim | Claim::ExpiredInBacklog => false,
            _ => true,
        }
}

/// Whether the next pass of a common context comes within the idle limit, if steps take as long as they may.
fn comes_back_in_time(population: &Population, preflight: &Preflight) -> bool {
    let Population { length, contexts, think, .. } = population;
    let steps = length.drawn.typical().max(f64::from(length.min.get()));
    let step = preflight.limits.step.as_secs_f64() + think.step_ms.typical() / 1000.0;
    let between = (step * steps + think.pass_ms.typical() / 1000.0) * f64::from(contexts.common);
    preflight.model.idle_limit.is_some_and(|limit| between <= limit.as_secs_f64())
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
    let more = match (load.iterations, load.duration_s) {
        (Some(passes), None) => format!("more passes (-i, here {passes})"),
        (None, Some(seconds)) => format!("a longer run (--duration, here {})", counted(seconds.get(), "second")),
        _ => "a longer run".to_owned(),
    };
    format!("{more}, or a larger weight of {names}")
}
