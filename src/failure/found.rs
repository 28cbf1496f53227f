//! A violation of a run as a failure that can be had again.

use super::Failure;
use crate::{
    conversation::Conversation,
    oracle::Violation,
    plan::{Manner, Pass, WorkerPlan},
    scenario::Scenario,
    seed::Seed,
};

/// The most messages that are taken along; of longer runs the last before the violation.
const MESSAGES_MAX: usize = 10_000;

/// The run in which something was found.
#[derive(Clone, Copy, Debug)]
pub struct Run<'r> {
    /// What was asked for.
    pub scenario: &'r Scenario,
    /// What fixed every choice.
    pub seed: Seed,
    /// How passes were carried out.
    pub manner: Manner,
    /// How many passes all workers had finished.
    pub passes: u64,
    /// How the embedded server was, if there was one.
    pub embedded: Option<&'r [String]>,
}

impl Failure {
    /// The failure that a violation of a run is: all that its workers were sending by then, which follows from the plan.
    #[must_use]
    pub fn found(violation: &Violation, run: &Run<'_>) -> Self {
        let workers = run.scenario.load.workers.get();
        let request = violation.place.as_ref().and_then(|place| place.request_id.as_ref()?.parse().ok());
        // Others are about as far as the accused worker is; where none is accused, all is taken.
        let passes = request.map_or(run.passes.div_ceil(u64::from(workers)), |request| pass_of(request, run) + 2);
        let mut conversations: Vec<_> = (0..workers).flat_map(|worker| conversations(worker, passes, run)).collect();
        conversations.sort_by_key(|(pass, _)| std::cmp::Reverse(*pass));
        let mut messages = 0;
        let enough = conversations.iter().position(|(_, conversation)| {
            messages += conversation.messages();
            messages > MESSAGES_MAX
        });
        conversations.truncate(enough.unwrap_or(usize::MAX).max(1));
        conversations.reverse();
        Self {
            found: violation.to_string(),
            kind: violation.kind,
            scenario: run.scenario.clone(),
            seed: run.seed,
            embedded: run.embedded.map(<[_]>::to_vec),
            conversations: conversations.into_iter().map(|(_, conversation)| conversation).collect(),
        }
        .renumbered()
    }
}

/// In which of its worker's passes a request was sent.
fn pass_of(request: crate::sequence::RequestId, run: &Run<'_>) -> u64 {
    let mut plan = WorkerPlan::new(run.scenario, run.seed, request.worker);
    let mut sequences = 0;
    loop {
        let pass = plan.next_pass();
        sequences += pass.sequences.len() as u64;
        if sequences > u64::from(request.sequence) {
            return pass.pass;
        }
    }
}

fn conversations(worker: u32, passes: u64, run: &Run<'_>) -> Vec<(u64, Conversation)> {
    let mut plan = WorkerPlan::new(run.scenario, run.seed, worker);
    let count = passes.min(run.scenario.load.iterations.map_or(u64::MAX, Into::into));
    (0..count).map(|_| plan.next_pass()).map(|pass| (pass.pass, conversation(&pass, &run.manner))).collect()
}

fn conversation(pass: &Pass, manner: &Manner) -> Conversation {
    let Pass { worker, context, pattern, .. } = *pass;
    Conversation { worker, context, pattern, at_us: 0, acts: pass.acts(manner) }
}
