//! Sequences that were executed although they had waited for a slot for longer than their time limit allows.
//!
//! At a moment when other sequences certainly had every slot a START that had no answer was waiting for one, unless its answer was
//! already on its way, or it had not arrived yet. So there has to be such a moment, a while after its limit had passed and a while
//! before its answer came.

use std::collections::{BTreeMap, VecDeque};

use super::Accusation;
use crate::{Evidence, ViolationKind, ms};
use workload::{event::Nanos, sequence::RequestId};

/// By how much a START may arrive late, and the server look at its limit late, on a busy machine: a third of a second was seen.
const LATE: Nanos = 1_000_000_000;
/// How long an answer may be on its way on a busy machine.
const UNDER_WAY: Nanos = 500_000_000;
/// The most times that are remembered in which every slot was taken.
const SPANS_MAX: usize = 1000;

/// A START that has a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Limited {
    pub(super) request: RequestId,
    /// Until when it may wait for a slot.
    pub(super) deadline: Nanos,
    pub(super) since: Nanos,
}

/// When every slot was certainly taken, and who waits within a limit.
#[derive(Debug, Default)]
pub(super) struct Full {
    since: Option<Nanos>,
    /// From when until when, one after the other.
    spans: VecDeque<(Nanos, Nanos)>,
    /// By context.
    limited: BTreeMap<u32, Limited>,
    /// STARTs that were executed when their limits had passed.
    pub(super) overdue: Vec<Accusation>,
    /// The model was exchanged: what becomes of those that wait then is its own affair, and contexts learn of it one by one.
    has_given_up: bool,
}

impl Full {
    /// Whether every slot is certainly taken from now on.
    pub(super) fn is(&mut self, full: bool, at: Nanos) {
        match self.since {
            None if full => self.since = Some(at),
            Some(since) if !full => {
                self.since = None;
                if self.spans.len() >= SPANS_MAX {
                    self.spans.pop_front();
                }
                self.spans.push_back((since, at));
            }
            _ => {}
        }
    }

    pub(super) fn asks(&mut self, context: u32, limited: Option<Limited>) {
        match limited.filter(|_| !self.has_given_up) {
            Some(limited) => _ = self.limited.insert(context, limited),
            None => _ = self.limited.remove(&context),
        }
    }

    /// Another step of a sequence has a time limit, too: the earliest counts.
    pub(super) fn may_wait_until(&mut self, context: u32, deadline: Nanos) {
        if let Some(limited) = self.limited.get_mut(&context) {
            limited.deadline = limited.deadline.min(deadline);
        }
    }

    /// A START was executed, and is answered now.
    pub(super) fn starts(&mut self, context: u32, at: Nanos) {
        let Some(Limited { request, deadline, since }) = self.limited.remove(&context) else { return };
        let from = deadline.saturating_add(LATE);
        let until = at.saturating_sub(UNDER_WAY);
        // One that still lasts does not count: the sequence got a slot at its end.
        let mut spans = self.spans.iter().rev().copied();
        let moment = |(begin, end): (Nanos, Nanos)| Some(end.min(until)).filter(|last| *last > begin.max(from));
        // When it certainly waited still; the spans before end before it.
        if let Some(waited_at) = spans.by_ref().take_while(|(_, end)| *end > from).find_map(moment) {
            let after = |time: Nanos| ms(time.saturating_sub(since));
            let evidence =
                Evidence::Overdue { limit_ms: after(deadline), answered_ms: after(at), waited_ms: after(waited_at) };
            self.overdue.push(Accusation { context, request, kind: ViolationKind::MissingTimeout, at, evidence });
        }
    }

    /// Nobody is accused any more.
    pub(super) fn give_up(&mut self) {
        self.has_given_up = true;
        self.limited.clear();
    }

    /// What was before is not certain any more.
    pub(super) fn forget(&mut self) {
        self.since = None;
        self.spans.clear();
        self.limited.clear();
    }
}
