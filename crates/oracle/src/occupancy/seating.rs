//! Who has a slot and who waits for one, for whoever looks while the run goes on.

use super::Occupancy;
use workload::{
    event::Nanos,
    sequence::{CorrelationId, Pattern},
};

/// The most sequences with a slot that are told.
pub const SEATED_MAX: usize = 64;
/// The most STARTs without a response that are told.
pub const WAITING_MAX: usize = 16;

/// Who has a slot and who waits for one, as far as that is certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seating {
    /// Sequences that certainly have a slot, in the order of slots where these are known, else of workers; at most 64.
    pub seated: Vec<Seated>,
    /// STARTs without a response, the one that was sent first comes first; at most 16.
    pub waiting: Vec<WaitingStart>,
}

/// A sequence that certainly has a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seated {
    /// The sequence's correlation ID.
    pub correlation_id: CorrelationId,
    /// What the client sends on it; none where that is not known.
    pub pattern: Option<Pattern>,
    /// The slot; none where the model does not tell it.
    pub slot: Option<u32>,
    /// When its START had its response, in nanoseconds since the run began.
    pub since: Nanos,
    /// Until when it is certain if nothing more happens on the sequence.
    pub until: Nanos,
}

/// A START without a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingStart {
    /// The sequence's correlation ID.
    pub correlation_id: CorrelationId,
    /// What the client sends on it; none where that is not known.
    pub pattern: Option<Pattern>,
    /// When it was sent, in nanoseconds since the run began.
    pub since: Nanos,
}

impl Occupancy {
    /// Who has a slot and who waits for one. Nothing where slots are not known, or entries are missing.
    pub fn seating(&self) -> Seating {
        let mut seated: Vec<_> = self.board.seated().collect();
        seated.sort_by_key(|(held, _)| (held.slot.is_none(), held.slot, held.context));
        seated.truncate(SEATED_MAX);
        let waits = |(index, context): (usize, &super::Context)| {
            Some((context.waits_since?, u32::try_from(index).ok()?, context.pattern))
        };
        let mut waiting: Vec<_> = self.contexts.iter().enumerate().filter_map(waits).collect();
        waiting.sort_by_key(|(since, index, _)| (*since, *index));
        waiting.truncate(WAITING_MAX);
        let id = |index: u32| self.place(index).correlation_id;
        Seating {
            seated: seated
                .into_iter()
                .map(|(held, until)| Seated {
                    correlation_id: id(held.context),
                    pattern: held.pattern,
                    slot: held.slot,
                    since: held.since,
                    until,
                })
                .collect(),
            waiting: waiting
                .into_iter()
                .map(|(since, index, pattern)| WaitingStart { correlation_id: id(index), pattern, since })
                .collect(),
        }
    }
}
