//! How long a run waits for an answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    model::Model,
    scenario::{Millis, Scenario},
};

/// The time limits of a run, after what is known of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The longest that a correct server may let an answer wait.
    pub lawful: Duration,
    /// What one step may take in the server.
    pub step: Duration,
    /// A missing answer is lost after this.
    pub lost_after: Duration,
    /// An answer that takes longer than this misses the user's threshold.
    pub threshold: Option<Duration>,
}

impl RunLimits {
    /// The limits for this scenario and this model. Where the slots or the idle limit are not known, one slot and the
    /// usual second are taken.
    #[must_use]
    pub fn new(scenario: &Scenario, model: &Model) -> Self {
        let lawful = longest_lawful_wait(scenario, model);
        let response = scenario.limits.response_ms.map(Millis::duration);
        let lost_after = lawful.max(scenario.limits.lost_after_ms.duration()).max(response.unwrap_or_default());
        Self {
            lawful,
            step: step_time(scenario, model),
            lost_after,
            threshold: response.filter(|&response| response < lost_after),
        }
    }
}

/// The longest that one step may take in the server: its own execution and those whose turn comes before it.
fn step_time(scenario: &Scenario, model: &Model) -> Duration {
    let execution = scenario.limits.step_ms.duration() + model.execution + model.turn.queue_delay;
    execution.saturating_mul(model.turn.executions_before.saturating_add(1))
}

/// The longest lawful wait for a slot and for all the steps of a sequence.
///
/// Every slot may be taken when a START comes, by a sequence that sends no END and is ended only by the idle limit. Before
/// it in the backlog are at most the sequences that the workers have under way: two each, when a second one is sent behind
/// the first one's END. The backlog is served in order, so what comes later does not count. A slot is free again at the
/// latest when the longest sequence has run in it and the idle limit has passed.
fn longest_lawful_wait(scenario: &Scenario, model: &Model) -> Duration {
    let slots = model.slots.unwrap_or(1).max(1);
    let idle_limit = model.idle_limit.unwrap_or(Duration::from_secs(1));
    let longest_sequence = step_time(scenario, model).saturating_mul(scenario.length.max.get());
    let turns = 1 + scenario.load.workers.get().saturating_mul(2).div_ceil(slots);
    idle_limit.saturating_add(longest_sequence).saturating_mul(turns)
}
