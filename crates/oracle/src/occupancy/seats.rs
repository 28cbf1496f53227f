//! Which sequence certainly has which slot, where the model tells in which slot it saw a step.

use std::collections::{BTreeMap, VecDeque};

use super::Accusation;
use crate::{Evidence, ViolationKind, ms};
use workload::{
    event::Nanos,
    sequence::{CorrelationId, RequestId},
};

/// The most intrusions that wait to be shown.
const SUSPECTED_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Visit {
    pub(super) request: RequestId,
    pub(super) slot: u32,
    /// It was sent, and so executed, after this.
    pub(super) since: Nanos,
}

/// A sequence has a slot, unless the server ended it.
#[derive(Clone, Copy, Debug)]
struct Hold {
    context: u32,
    /// Which one of its context it is.
    sequence: u32,
    since: Nanos,
    until: Nanos,
}

/// A step was executed in a slot that another sequence seemed to have all the while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intrusion {
    hold: Hold,
    visitor: u32,
    visit: Visit,
    /// When the step was answered.
    at: Nanos,
}

/// The slots that are taken, in the order of time.
///
/// What shows that a sequence had its slot while a step of another one was executed there is that it went on afterwards: a step of
/// it without START, sent when the other one was answered, was executed. Whatever happens to a sequence, it does not come back.
#[derive(Debug, Default)]
pub(super) struct Seats {
    /// By slot.
    holds: BTreeMap<u32, Hold>,
    /// By context.
    slots: BTreeMap<u32, u32>,
    /// What will be shown, or not.
    suspected: VecDeque<Intrusion>,
    pub(super) shown: Vec<Intrusion>,
}

impl Seats {
    pub(super) fn takes(&mut self, context: u32, (slot, sequence): (u32, u32), since: Nanos, until: Nanos) {
        self.leaves(context);
        // Where one sequence may be where another one is, nobody has the slot for certain.
        if self.suspected.iter().any(|its| its.visitor == context && its.at == since) {
            return;
        }
        if let Some(Hold { context: before, .. }) = self.holds.insert(slot, Hold { context, sequence, since, until }) {
            self.slots.remove(&before);
        }
        self.slots.insert(context, slot);
    }

    pub(super) fn stays(&mut self, context: u32, until: Nanos) {
        if let Some(hold) = self.slots.get(&context).and_then(|slot| self.holds.get_mut(slot)) {
            hold.until = until;
        }
    }

    pub(super) fn leaves(&mut self, context: u32) {
        if let Some(slot) = self.slots.remove(&context) {
            self.holds.remove(&slot);
        }
    }

    /// A step was executed, and answered at this time.
    pub(super) fn visited(&mut self, visitor: u32, visit: Visit, at: Nanos) {
        self.show(visitor, &visit);
        let Some(hold) = self.holds.get(&visit.slot).copied() else { return };
        // What was seen at the same time may have happened in either order.
        if hold.context != visitor && hold.since < visit.since && at < hold.until {
            self.leaves(hold.context);
            if self.suspected.len() >= SUSPECTED_MAX {
                self.suspected.pop_front();
            }
            self.suspected.push_back(Intrusion { hold, visitor, visit, at });
        }
    }

    /// Looks at what is suspected in the light of a step of the sequence that seemed to have the slot.
    fn show(&mut self, context: u32, visit: &Visit) {
        let shown = &mut self.shown;
        self.suspected.retain(|its| {
            let is_later = its.hold.context == context && visit.since > its.at;
            if is_later && visit.request.sequence == its.hold.sequence {
                shown.push(*its);
            }
            !is_later
        });
    }

    pub(super) fn forget(&mut self) {
        self.holds.clear();
        self.slots.clear();
        self.suspected.clear();
    }
}

impl Intrusion {
    /// As an accusation; `id` tells the correlation IDs of contexts.
    pub(super) fn accusation(&self, id: impl Fn(u32) -> CorrelationId) -> Accusation {
        let Self { hold, visitor, visit: Visit { request, slot, .. }, at } = *self;
        let held_ms = ms(at.saturating_sub(hold.since));
        let evidence = Evidence::TakenSlot { slot, holder: id(hold.context), held_ms };
        Accusation { context: visitor, request, kind: ViolationKind::WrongSlot, at, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an intrusion is shown: one sequence gets slot 0 at 10, a step of another one that is sent then is executed there
    /// and answered at 20, and a step of the first one that is sent then is executed, too.
    fn is_shown(visit_sent: Nanos, next_sent: Nanos) -> bool {
        let mut seats = Seats::default();
        let step = |worker, step, since| Visit {
            request: RequestId { worker, context: 0, sequence: 0, step },
            slot: 0,
            since,
        };
        seats.takes(0, (0, 0), 10, 1000);
        seats.visited(1, step(1, 0, visit_sent), 20);
        seats.visited(0, step(0, 1, next_sent), 30);
        !seats.shown.is_empty()
    }

    #[test]
    fn what_happens_at_the_same_time_shows_nothing() {
        assert!(is_shown(11, 21));
        assert!(!is_shown(10, 21), "the step may have been sent before the other sequence got the slot");
        assert!(!is_shown(11, 20), "the next step may have been sent before the visitor was answered");
    }
}
