//! What the oracle judges a run by.

use super::Preflight;
use oracle::{Rules, Words};
use workload::scenario::{Scenario, ServerAction};

/// What a correct server may do, for what is known of the model.
pub(crate) fn rules(scenario: &Scenario, preflight: &Preflight) -> Rules {
    Rules {
        model: preflight.model.name.clone(),
        version: preflight.model.version.clone(),
        output: preflight.model.output.name.clone(),
        shape: preflight.model.shape.clone(),
        arithmetic: preflight.model.arithmetic,
        idle_limit: preflight.model.idle_limit,
        straggling: preflight.limits.lawful,
        mixes: preflight.model.mixes_pipelined.is_some(),
        restarts: scenario.phases.iter().any(|phase| phase.server == Some(ServerAction::Restart)),
        words: Words::of_server(preflight.model.server.as_deref()),
        controls: preflight.model.controls.clone(),
    }
}
