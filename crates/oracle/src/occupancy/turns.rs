//! STARTs that waited for a slot while a START behind them got one.
//!
//! A server takes in the requests of a stream in their order, and its backlog is first in, first out. So of two STARTs of one stream that
//! need a slot the earlier one has its slot no later than the later one. The later one certainly has a slot when it was answered, or the
//! step behind it, which travels over another stream. The earlier one certainly has none then if other sequences certainly have every
//! slot: with a slot, it would have kept it until its idle limit. So neither the order of the responses nor their times accuse anybody.

use std::collections::BTreeMap;

use super::Accusation;
use crate::{Evidence, ViolationKind, history::Entry, ms};
use workload::{
    claim::{Claim, Claims},
    conversation::Lane,
    event::{EventKind, Nanos},
    sequence::{CorrelationId, RequestId, Trait},
};

/// What one correlation ID has under way, in its own order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queuer {
    unanswered: u32,
    /// The START that is not known to be executed, if its stream is shared and no request of the ID was under way when it was sent.
    start: Option<RequestId>,
    /// The unanswered END.
    end: Option<RequestId>,
    /// Whether the ID certainly has no sequence.
    is_free: bool,
    /// Until then steps of a stream that is gone may come in between.
    unclear_until: Nanos,
}

/// What a correlation ID does that says something of the order of the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    Asks(Asked),
    /// This START was executed: it was answered, or the step behind it.
    Starts(RequestId),
    /// Nothing is certain of its START any more.
    Leaves,
}

/// A stream that several IDs of a worker share.
type Shared = (u32, Lane);

/// A START on a stream that is shared, with nothing of its ID under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    request: RequestId,
    stream: Shared,
    /// Whether the sequence has its slot for longer than this step.
    stays: bool,
    /// Whether its ID certainly had no sequence, so that it needs a slot.
    is_free: bool,
    sent: Nanos,
}

impl Queuer {
    /// Takes in the ID's next event; `straggling` is how long requests of a cut stream may still arrive.
    pub(super) fn take(&mut self, entry: &Entry, straggling: Nanos) -> Option<Turn> {
        match &entry.what {
            EventKind::Sent(step) => {
                let is_alone = self.unanswered == 0 && entry.at >= self.unclear_until;
                self.unanswered += 1;
                self.end = step.end.then_some(step.request).or(self.end);
                let is_free = std::mem::take(&mut self.is_free);
                if !step.start {
                    // A START that waits may have got its slot and lost it with this END.
                    return self.start.take_if(|_| step.end).map(|_| Turn::Leaves);
                }
                let before = self.start.take();
                if !is_alone || step.special.is_some() || !step.pattern.has(Trait::SharesStream) {
                    return before.map(|_| Turn::Leaves);
                }
                self.start = Some(step.request);
                let stream = (entry.context.worker, entry.lane);
                Some(Turn::Asks(Asked { request: step.request, stream, stays: !step.end, is_free, sent: entry.at }))
            }
            EventKind::Answered(request, ..) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                let ends = self.end.take_if(|end| end == request).is_some();
                self.is_free = ends && self.unanswered == 0 && entry.at >= self.unclear_until;
                self.start.take_if(|start| start.sequence == request.sequence).map(Turn::Starts)
            }
            EventKind::Received(_) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.lose()
            }
            EventKind::GaveUp | EventKind::Cut(_) => {
                self.unclear_until = entry.at.saturating_add(straggling);
                self.unanswered = 0;
                self.lose()
            }
            // Responses may lie there unread.
            EventKind::Disturbed(_) | EventKind::StoppedReading(_) => self.lose(),
            EventKind::Due(_)
            | EventKind::Opened(..)
            | EventKind::HalfClosed
            | EventKind::Closed
            | EventKind::NotClosed
            | EventKind::ServedBy(_) => None,
        }
    }

    fn lose(&mut self) -> Option<Turn> {
        (self.is_free, self.end) = (false, None);
        self.start.take().map(|_| Turn::Leaves)
    }
}

/// A START that is not known to be executed.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    asked: Asked,
    /// Whether other sequences certainly had every slot since it was sent. Then its ID has no slot.
    waits: bool,
    /// The first START behind it that was executed.
    passed_by: Option<Passing>,
    /// When it was certain that it had no slot although that START had one.
    shown: Option<Nanos>,
}

/// A START that was executed before one that had come before it.
#[derive(Clone, Copy, Debug)]
struct Passing {
    context: u32,
    sent: Nanos,
    at: Nanos,
}

/// A START that was passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedOver {
    context: u32,
    asked: Asked,
    by: Passing,
    shown: Nanos,
    at: Nanos,
}

/// After so long without a response, the stream of a START that was passed over is alive: the client would have been told of its end.
const TOLD: Nanos = 1_000_000_000;

/// Who waits for a slot, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Turns {
    slots: usize,
    idle: Nanos,
    /// By context.
    waiting: BTreeMap<u32, Waiting>,
    /// STARTs that were passed over. They were executed later, or still wait on a stream that is alive: so no cancel took them out of the
    /// backlog.
    pub(super) found: Vec<PassedOver>,
    /// More sequences had a slot than there are slots, or the model was exchanged.
    has_given_up: bool,
}

impl Turns {
    pub(super) fn new(slots: usize, idle: Nanos) -> Self {
        Self { slots, idle, ..Self::default() }
    }

    /// Takes in what an ID did; `taken` is how many others certainly have a slot.
    pub(super) fn take(&mut self, its: Turn, context: u32, taken: usize, at: Nanos, claims: &mut Claims) {
        match its {
            Turn::Asks(_) if self.has_given_up => {}
            Turn::Asks(asked) => {
                let waits = taken >= self.slots;
                self.waiting.insert(context, Waiting { asked, waits, passed_by: None, shown: None });
            }
            Turn::Leaves => _ = self.waiting.remove(&context),
            Turn::Starts(request) => {
                let Some(its) = self.waiting.remove(&context).filter(|its| its.asked.request == request) else {
                    return;
                };
                if let (Some(by), Some(shown)) = (its.passed_by, its.shown) {
                    self.found.push(PassedOver { context, asked: its.asked, by, shown, at });
                }
                // One that may have joined a sequence that its ID had says nothing of the order.
                if its.waits || its.asked.is_free {
                    self.passes(&its, context, at, claims);
                }
            }
        }
    }

    /// A START that needed a slot was executed.
    fn passes(&mut self, its: &Waiting, context: u32, at: Nanos, claims: &mut Claims) {
        let Asked { stream, sent, .. } = its.asked;
        let mut was_in_turn = false;
        for other in self.waiting.values_mut().filter(|other| other.asked.stream == stream) {
            if other.asked.sent < sent && other.asked.stays {
                other.passed_by.get_or_insert(Passing { context, sent, at });
            }
            was_in_turn |= sent < other.asked.sent && its.waits && other.waits;
        }
        if was_in_turn && its.passed_by.is_none() {
            claims.reach(Claim::SlotsInTurn);
        }
    }

    /// Looks at those who wait when so many other sequences certainly have a slot.
    pub(super) fn look(&mut self, taken: usize, at: Nanos) {
        if taken > self.slots {
            // A slot that is given twice, or one that is not known, is another matter.
            self.found.retain(|its| its.at < at);
            self.give_up();
        }
        let (is_full, idle, found) = (taken == self.slots, self.idle, &mut self.found);
        self.waiting.retain(|context, its| {
            if is_full && at < its.asked.sent.saturating_add(idle) {
                its.waits = true;
                its.shown = its.shown.or(its.passed_by.map(|_| at));
            }
            match (its.passed_by, its.shown) {
                (Some(by), Some(shown)) if shown.saturating_add(TOLD) < at => {
                    found.push(PassedOver { context: *context, asked: its.asked, by, shown, at });
                    false
                }
                _ => true,
            }
        });
    }

    /// Nobody is accused any more.
    pub(super) fn give_up(&mut self) {
        self.has_given_up = true;
        self.forget();
    }

    /// What was before is not certain any more.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }
}

impl PassedOver {
    /// As an accusation; `id` tells the correlation IDs of contexts.
    pub(super) fn accusation(&self, slots: usize, id: impl Fn(u32) -> CorrelationId) -> Accusation {
        let Self { context, asked: Asked { request, sent, .. }, by, shown, at } = *self;
        let after = |time: Nanos| ms(time.saturating_sub(sent));
        let evidence = Evidence::PassedOver {
            by: id(by.context),
            slots,
            sent_ms: after(by.sent),
            passed_ms: after(by.at),
            waited_ms: after(shown),
        };
        Accusation { context, request, kind: ViolationKind::SlotOutOfTurn, at, evidence }
    }
}
