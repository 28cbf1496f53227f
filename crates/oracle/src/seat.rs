//! In which slot the sequence of a correlation ID is, where its model tells.

use super::stream::{Request, Stream};
use workload::event::Nanos;

/// The slot of one correlation ID's sequence.
///
/// The sequences of an ID are counted by the STARTs that are sent. A request is certainly of the last of them where no START can
/// come before it, or after it, that was sent on another stream; only the slots of such requests are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seat {
    /// How many STARTs were sent.
    sequence: u64,
    /// A slot in which a step was executed, and of which sequence that was.
    slot: Option<(u64, u32)>,
    /// Until then a START may come that was sent on a stream that is gone.
    unclear_until: Nanos,
}

impl Seat {
    /// A step is sent while `others` is under way on other streams; returns of which sequence it certainly is.
    pub(super) fn send<'s>(
        &mut self,
        start: bool,
        at: Nanos,
        others: impl Iterator<Item = &'s mut Stream>,
    ) -> Option<u64> {
        self.sequence += u64::from(start);
        let mut may_be_restarted = at < self.unclear_until;
        for request in others.flat_map(|stream| &mut stream.requests) {
            may_be_restarted |= request.step.start;
            if start {
                request.sequence = None;
            }
        }
        (!may_be_restarted).then_some(self.sequence)
    }

    /// A START of a stream that is gone may still come, until then; `others` is under way on other streams.
    pub(super) fn lose<'s>(&mut self, until: Nanos, others: impl Iterator<Item = &'s mut Stream>) {
        self.slot = None;
        self.sequence += 1;
        self.unclear_until = self.unclear_until.max(until);
        others.flat_map(|stream| &mut stream.requests).for_each(|request| request.sequence = None);
    }

    /// A request was executed in a slot; returns the slot in which an earlier step of its sequence was, where that is another.
    pub(super) fn executed(&mut self, request: &Request, slot: u32) -> Option<u32> {
        let sequence = request.sequence?;
        let before = self.slot.replace((sequence, slot));
        before.filter(|(its, before)| *its == sequence && *before != slot).map(|(_, before)| before)
    }
}
