//! What a worker sends, pass by pass: drawn from the scenario, or given.

use std::{collections::VecDeque, time::Duration};

use super::{Setup, shared::Shared};
use workload::{
    conversation::Conversation,
    inputs::Sent,
    plan::{Iteration, Manner, WorkerPlan},
    scenario::Scenario,
    seed::Seed,
};

pub(crate) enum Iterations {
    Drawn { plan: Box<WorkerPlan>, manner: Manner },
    Given(VecDeque<Conversation>),
}

/// The longest that a conversation pauses in all.
pub(super) fn longest_pauses(given: &[Conversation]) -> Duration {
    given.iter().map(Conversation::pauses).max().unwrap_or_default()
}

impl Iterations {
    /// What a worker holds of the conversations that are given; without any, what its plan draws.
    pub(super) fn of(shared: &Shared, worker: u32) -> Self {
        let Setup { scenario, seed, given, .. } = &shared.setup;
        let Some(given) = given else {
            let inputs = shared.preflight.model.tensors.as_ref().map(|tensors| &tensors.sent);
            return Self::drawn(scenario, *seed, inputs, shared.preflight.manner(), worker);
        };
        let mut left: Vec<_> = given.iter().filter(|its| its.worker == worker).cloned().collect();
        left.sort_by_key(|conversation| conversation.at_us);
        Self::Given(left.into())
    }

    /// What a worker's plan draws, carried out in this manner.
    pub(crate) fn drawn(scenario: &Scenario, seed: Seed, inputs: Option<&Sent>, manner: Manner, worker: u32) -> Self {
        let plan = Box::new(WorkerPlan::new(scenario, seed, worker).with_inputs(inputs, seed));
        Self::Drawn { plan, manner }
    }

    /// The next iteration, and how many sequences it has; none where the worker is done.
    pub(crate) fn next(&mut self, elapsed: Duration) -> Option<(Conversation, u32)> {
        match self {
            Self::Drawn { plan, manner } => {
                if plan.is_done(elapsed) {
                    return None;
                }
                let iteration = plan.next_iteration();
                let sequences = u32::try_from(iteration.sequences.len()).expect("an iteration has one sequence or two");
                let acts = iteration.acts(plan.sending(), *manner);
                let Iteration { worker, context, pattern, .. } = iteration;
                Some((Conversation { worker, context, pattern, at_us: 0, accused: false, acts }, sequences))
            }
            Self::Given(left) => {
                let conversation = left.pop_front()?;
                let sequences = conversation.sequences();
                Some((conversation, sequences))
            }
        }
    }
}
