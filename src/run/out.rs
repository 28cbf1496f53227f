//! Where a worker's events go.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use super::shared::Shared;
use crate::recorder::{Noted, Recorder, trace};
use workload::{
    conversation::Lane,
    event::{ContextId, Event, EventKind, Nanos},
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
        self.tell_at(self.shared.clock.now(), context, lane, kind)
    }

    pub(super) fn tell_at(&self, at: Nanos, context: ContextId, lane: Lane, kind: EventKind) -> Noted {
        if let EventKind::Sent(step) = &kind {
            self.shared.threads[self.thread].sent(step.is_first());
            trace::sent(context, step);
        }
        let noted = self.recorder.borrow_mut().record(Event { at, context, lane, kind });
        if let Some(settled) = &noted.settled {
            trace::settled(context, at, settled);
        }
        self.shared.noticed(self.thread, at, &noted);
        noted
    }
}
