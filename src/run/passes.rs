//! What a worker sends, pass by pass: drawn from the scenario, or given.

use std::{collections::VecDeque, time::Duration};

use workload::{
    conversation::{Act, Conversation},
    plan::{Manner, WorkerPlan},
    sequence::Pattern,
};

/// Conversations that are held as they stand, in place of what a scenario draws.
#[derive(Clone, Debug)]
pub struct Given {
    /// The conversations of all workers; those of one worker are held one after the other, and none begins before its time.
    pub conversations: Vec<Conversation>,
}

/// The passes of one worker.
pub(super) enum Passes {
    Drawn { plan: Box<WorkerPlan>, manner: Manner },
    Given(VecDeque<Conversation>),
}

/// A pass that is to be held.
pub(super) struct Held {
    pub(super) context: u32,
    pub(super) pattern: Pattern,
    pub(super) acts: Vec<Act>,
    /// How many sequences it has.
    pub(super) sequences: u32,
    /// When it may begin, since the run began.
    pub(super) not_before: Duration,
}

impl Given {
    /// The longest that a conversation pauses in all.
    pub(super) fn longest_pauses(&self) -> Duration {
        let pauses = |conversation: &Conversation| {
            let each = conversation.acts.iter().map(|act| match act {
                Act::Pause { us } | Act::StopReading { us } => Duration::from_micros(*us),
                _ => Duration::ZERO,
            });
            each.fold(Duration::ZERO, Duration::saturating_add)
        };
        self.conversations.iter().map(pauses).max().unwrap_or_default()
    }

    /// What a worker holds of them.
    pub(super) fn of_worker(&self, worker: u32) -> Passes {
        let own = self.conversations.iter().filter(|conversation| conversation.worker == worker);
        let mut left: Vec<_> = own.cloned().collect();
        left.sort_by_key(|conversation| conversation.at_us);
        Passes::Given(left.into())
    }
}

impl Passes {
    /// The next pass; none where the worker is done.
    pub(super) fn next(&mut self, elapsed: Duration) -> Option<Held> {
        match self {
            Self::Drawn { plan, manner } => {
                if plan.is_done(elapsed) {
                    return None;
                }
                let pass = plan.next_pass();
                let sequences = u32::try_from(pass.sequences.len()).expect("a pass has one sequence or two");
                let acts = pass.acts(plan.sending(), *manner);
                Some(Held { context: pass.context, pattern: pass.pattern, acts, sequences, not_before: Duration::ZERO })
            }
            Self::Given(left) => {
                let conversation = left.pop_front()?;
                let sequences = conversation.sequences();
                let not_before = Duration::from_micros(conversation.at_us);
                let Conversation { context, pattern, acts, .. } = conversation;
                Some(Held { context, pattern, acts, sequences, not_before })
            }
        }
    }
}
