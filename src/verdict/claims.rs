//! What a run had to reach.

use crate::preflight::Preflight;
use workload::{
    claim::{Claim, Claims},
    scenario::{Drawn, Population, Reuse, Scenario, Sending},
    sequence::{Pattern, Trait},
};

/// How often each claim has to be reached: as the scenario's table says, or else what the patterns that it draws are for, once.
pub(crate) fn in_force(scenario: &Scenario, preflight: &Preflight) -> Claims {
    scenario.claims.unwrap_or_else(|| {
        let mut claims = Claims::default();
        let follows = |claim: &Claim| scenario.populations.iter().any(|its| follows_from(*claim, its, preflight));
        Claim::ALL.into_iter().filter(follows).for_each(|claim| claims.set(claim, 1));
        claims
    })
}

/// Whether a claim follows from the patterns: whether an iteration of one of them reaches it, on whatever correct server.
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
            Claim::RestartOfALiveId if population.draws_any(Trait::Restarts) => has_idle_limit,
            Claim::RestartOfALiveId => {
                claim.patterns().iter().any(|pattern| drawn(pattern).common)
                    && comes_back_in_time(population, preflight)
            }
            Claim::IdleReap | Claim::KeptThroughAPause | Claim::LivedOn => has_idle_limit,
            // With more steps under way it is chance whether the one before is answered when the one with the flaw is sent.
            Claim::SurvivedAFlaw => !population.sending.window().has_room(1),
            // How the slots are taken depends on how many there are, and on how fast the server is.
            Claim::AllSlotsBusy
            | Claim::Backlog
            | Claim::SlotReclaim
            | Claim::ExpiredInBacklog
            | Claim::SlotsInTurn => false,
            _ => true,
        }
}

/// Whether the next iteration of a common context comes within the idle limit, if steps take as long as they may.
fn comes_back_in_time(population: &Population, preflight: &Preflight) -> bool {
    // At a rate it is chance which worker is free.
    if population.load.rate.is_some() {
        return false;
    }
    let Population { length, contexts, think, .. } = population;
    let steps = length.drawn.typical().max(f64::from(length.min.get()));
    let step = preflight.limits.step.as_secs_f64() + population.typical_between_steps_ms() / 1000.0;
    let between = (step * steps + think.iteration_ms.typical() / 1000.0) * f64::from(contexts.common);
    preflight.model.idle_limit.is_some_and(|limit| between <= limit.as_secs_f64())
}
