//! Where a worker's events go.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use super::shared::Shared;
use crate::recorder::{Noted, Recorder};
use workload::{
    conversation::Lane,
    event::{ContextId, Event, EventKind, Nanos},
    sequence::Step,
};

/// Where a worker's events go, and what it shares with the rest of the run.
pub(super) struct Out {
    pub(super) shared: Arc<Shared>,
    pub(super) recorder: Rc<RefCell<Recorder>>,
    pub(super) thread: usize,
}

impl Out {
    /// Tells what happened just now.
    pub(super) fn tell(&self, context: ContextId, lane: Lane, kind: EventKind) -> Noted {
        self.tell_at(self.shared.now(), context, lane, kind)
    }

    pub(super) fn tell_at(&self, at: Nanos, context: ContextId, lane: Lane, kind: EventKind) -> Noted {
        if let EventKind::Sent(step) = &kind {
            self.shared.sent(self.thread, step.is_first());
            trace_step(context, step, "sent");
        }
        let record = self.recorder.borrow_mut().record(Event { at, context, lane, kind });
        self.shared.noticed(self.thread, context, at, &record);
        record
    }
}

pub(super) fn trace_step(context: ContextId, step: &Step, what: &str) {
    tracing::debug!("worker {} context {} request {}: {what} {step}", context.worker, context.context, step.request);
}
