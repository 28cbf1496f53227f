//! What happened in a run, event by event, as it is kept; `docs/HISTORY.md` describes the file.

mod block;
mod line;
mod reader;
mod scene;
mod spool;

pub use line::{read as read_entry, write as write_entry};
pub use reader::{Damage, FORMAT, Item, Lines, Reader, VERSION, is_history};
pub use scene::{Begun, Scene};
pub use spool::{Keep, Kept, Options, Spool};

use workload::{
    conversation::Lane,
    event::{ContextId, Event, EventKind, Nanos},
    sequence::CorrelationId,
};

/// One event of a run, with the correlation ID of its context. It costs little to keep: of an answer that is as it should be there is
/// only the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When the client saw it.
    pub at: Nanos,
    /// On which context.
    pub context: ContextId,
    /// The context's correlation ID.
    pub correlation_id: CorrelationId,
    /// On which of the context's streams.
    pub lane: Lane,
    /// What happened.
    pub what: EventKind,
}

impl Entry {
    /// An event of a context with this correlation ID.
    pub fn new(event: Event, correlation_id: CorrelationId) -> Self {
        let Event { at, context, lane, kind: what } = event;
        Self { at, context, correlation_id, lane, what }
    }

    /// The event.
    pub fn event(self) -> Event {
        let Self { at, context, lane, what: kind, correlation_id: _ } = self;
        Event { at, context, lane, kind }
    }

    /// About how many bytes of memory the entry takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.what.memory()
    }
}

#[cfg(test)]
mod tests;
