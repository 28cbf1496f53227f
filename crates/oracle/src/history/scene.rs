//! What was going on around a violation, kept for those who want to see it or have it again.

use super::Entry;
use workload::{
    event::{ContextId, EventKind, Nanos},
    sequence::RequestId,
};

/// What happened around a run's first violation, on all contexts; without one, at the end of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// The last events, in order of time, with what followed the violation on its context.
    pub entries: Vec<Entry>,
    /// The sequences that began before these, as far back as was kept.
    pub before: Vec<Begun>,
}

/// When a sequence began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// On which context.
    pub context: ContextId,
    /// The how-manieth sequence of the worker it is, from 0.
    pub sequence: u32,
    /// When its first step was sent.
    pub at: Nanos,
}

impl Begun {
    /// The sequence that an entry begins, if it does.
    pub fn of(entry: &Entry) -> Option<Self> {
        match &entry.what {
            EventKind::Sent(step) if step.is_first() => {
                Some(Self { context: entry.context, sequence: step.request.sequence, at: entry.at })
            }
            _ => None,
        }
    }
}

impl Scene {
    /// The sequences that are known to have begun.
    pub fn begun(&self) -> impl Iterator<Item = Begun> {
        self.before.iter().copied().chain(self.entries.iter().filter_map(Begun::of))
    }

    /// When a request was sent, where that is known.
    pub fn sent_at(&self, request: RequestId) -> Option<Nanos> {
        let is_it = |entry: &&Entry| matches!(&entry.what, EventKind::Sent(step) if step.request == request);
        self.entries.iter().rfind(is_it).map(|entry| entry.at)
    }
}
