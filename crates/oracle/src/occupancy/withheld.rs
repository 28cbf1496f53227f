//! STARTs that waited although a slot was free.
//!
//! A sequence may have a slot from the response to its START until the response to its END, or until the idle limit. A sequence whose START
//! has no response may have a slot, too. The server then executes its START soon. So a START waited beside a free slot for as
//! long as fewer sequences than slots may have had a slot, and the server answered no START.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
};

use super::{Accusation, offered::Has};
use crate::{Evidence, ViolationKind, history::Entry, ms};
use workload::{
    event::{EventKind, Nanos},
    sequence::RequestId,
};

/// How late a busy machine may end an idle sequence.
const LATE: Nanos = 1_000_000_000;
/// How late a busy machine may answer a START that has a slot. With ten times the processes that it has cores for a correct server once
/// answered nothing at all for 1.5 s.
const STALL: Nanos = 3_000_000_000;
/// A START that has a slot may wait for so many executions.
const STEPS: u64 = 4;

/// What one correlation ID has under way, in its own order.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    /// The unanswered START, if no request of the ID was unanswered when the client sent it.
    start: Option<RequestId>,
    /// The sequence that may have a slot.
    sequence: Option<u32>,
    /// The unanswered STARTs and ENDs: the request, whether it is a START, and whether it is an END.
    edges: VecDeque<(RequestId, bool, bool)>,
    unanswered: u32,
    /// The time of the last response, or of the first request after a time without unanswered requests.
    last: Nanos,
    /// Whether the last [`Shares`] was `May` without an end.
    is_told: bool,
    /// How long its slowest step took.
    slowest: Nanos,
    /// What it was last told to have in the server.
    has: Has,
}

/// What a correlation ID may have of the slots from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shares {
    /// It sent this START, and had no unanswered request.
    Waits(RequestId),
    /// It received the response to this START, and may have a slot until then.
    Got(RequestId, Nanos),
    /// It may have a slot until then; with how long the step took whose response it received, or 0.
    May(Nanos, Nanos),
    /// It has no slot; with how long its END took.
    Not(Nanos),
}

impl Share {
    /// Takes in the ID's next event. `idle` is the idle limit; `straggling` is how long requests of a cut stream may still arrive.
    pub(super) fn take(&mut self, entry: &Entry, idle: Nanos, straggling: Nanos, is_near: bool) -> Option<Shares> {
        self.changed_by(entry, idle, straggling, is_near).filter(|its| self.is_news(*its))
    }

    /// What the ID has in the server behind its event, which was taken in just now; none where the event changes nothing of that.
    pub(super) fn has(&mut self, entry: &Entry, idle: Nanos) -> Option<Has> {
        use EventKind::{Answered, Cut, GaveUp, Received, Sent};
        if !matches!(entry.what, Sent(_) | Answered(..) | Received(_) | GaveUp | Cut(_)) {
            return None;
        }
        let starts = || self.edges.iter().any(|(_, starts, _)| *starts);
        let has = match self.sequence {
            Some(_) if self.unanswered > 0 => Has::Request,
            Some(_) => Has::Slot(entry.at.saturating_add(idle)),
            None if self.unanswered > 0 && starts() => Has::Start,
            None => Has::Nothing,
        };
        (mem::replace(&mut self.has, has) != has).then_some(has)
    }

    /// Whether this differs from what the board knows. It does not for most steps.
    fn is_news(&mut self, its: Shares) -> bool {
        let is_known = matches!(its, Shares::May(Nanos::MAX, took) if self.is_told && took <= self.slowest);
        self.is_told = matches!(its, Shares::May(Nanos::MAX, _));
        if let Shares::May(_, took) | Shares::Not(took) = its {
            self.slowest = self.slowest.max(took);
        }
        !is_known
    }

    /// Whether a request that is answered is a START, and whether it is an END.
    fn take_edge(&mut self, request: Option<RequestId>) -> (bool, bool) {
        let edge = self.edges.iter().position(|(edge, ..)| Some(*edge) == request);
        edge.and_then(|edge| self.edges.remove(edge)).map_or((false, false), |(_, starts, ends)| (starts, ends))
    }

    fn changed_by(&mut self, entry: &Entry, idle: Nanos, straggling: Nanos, is_near: bool) -> Option<Shares> {
        let while_idle = entry.at.saturating_add(idle).saturating_add(LATE);
        let took = entry.at.saturating_sub(self.last);
        let at_rest = |share: &Self| if share.unanswered == 0 { while_idle } else { Nanos::MAX };
        match &entry.what {
            EventKind::Sent(step) => {
                let is_alone = self.unanswered == 0;
                self.unanswered += 1;
                if is_alone {
                    self.last = entry.at;
                    self.edges.clear();
                }
                if step.start || step.end {
                    self.edges.push_back((step.request, step.start, step.end));
                }
                if step.start {
                    self.start = Some(step.request).filter(|_| is_alone && is_near);
                    return Some(self.start.map_or(Shares::May(Nanos::MAX, 0), Shares::Waits));
                }
                Some(Shares::May(Nanos::MAX, 0)).filter(|_| self.sequence.is_some())
            }
            EventKind::Answered(request, ..) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.last = entry.at;
                let (starts, ends) = self.take_edge(Some(*request));
                let waited = self.start.take_if(|start| start == request).is_some();
                if starts {
                    self.sequence = Some(request.sequence);
                }
                if ends && self.sequence == Some(request.sequence) {
                    self.sequence = None;
                }
                // The response to START may be held back on its stream when that of the step behind it comes over another one.
                if let Some(start) = self.start.take_if(|start| start.sequence == request.sequence) {
                    self.sequence = self.sequence.or((!ends).then_some(request.sequence));
                    return Some(Shares::Got(start, if self.sequence.is_some() { at_rest(self) } else { 0 }));
                }
                let until = if self.sequence.is_some() { at_rest(self) } else { 0 };
                if waited {
                    return Some(Shares::Got(*request, until));
                }
                // START has waited for its slot, too.
                let took = if starts { 0 } else { took };
                Some(if until == 0 { Shares::Not(took) } else { Shares::May(until, took) })
            }
            EventKind::Received(received) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.last = entry.at;
                let request = received.request();
                let (starts, _) = self.take_edge(request);
                // A rejected step begins no sequence.
                if received.result.is_err() && !starts && request.is_some() && self.sequence.is_none() {
                    return None;
                }
                self.start = None;
                // The sequence of any other answer may live on.
                self.sequence = self.sequence.or(Some(u32::MAX));
                Some(Shares::May(at_rest(self).max(entry.at.saturating_add(straggling)), 0))
            }
            EventKind::GaveUp | EventKind::Cut(_) => {
                *self = Self { sequence: Some(u32::MAX), slowest: self.slowest, has: self.has, ..Self::default() };
                Some(Shares::May(while_idle.saturating_add(straggling), 0))
            }
            // Its answer may lie there unread.
            EventKind::StoppedReading(_) => {
                self.start = None;
                Some(Shares::May(Nanos::MAX, 0))
            }
            EventKind::Due(_)
            | EventKind::Opened(..)
            | EventKind::HalfClosed
            | EventKind::Closed
            | EventKind::NotClosed
            | EventKind::ServedBy(_)
            | EventKind::Disturbed(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: RequestId,
    sent: Nanos,
    /// The longest time in which the START waited beside a free slot and the server answered no START, and how many sequences may have
    /// had a slot at its end.
    longest: (Nanos, usize),
}

/// Who may have a slot, and who waits for one, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    slots: usize,
    /// The IDs that may have a slot, by until when.
    holders: BTreeSet<(Nanos, u32)>,
    until: BTreeMap<u32, Nanos>,
    waiting: BTreeMap<u32, Waiting>,
    /// Since when fewer IDs than slots are in it.
    free_since: Option<Nanos>,
    /// When the server answered the last START, or the check began.
    last_start: Nanos,
    /// The least time without a slot that is a violation.
    margin: Nanos,
    /// How long the slowest step took.
    slowest_step: Nanos,
    /// How long the quickest START took.
    quickest_start: Option<Nanos>,
    /// The START that waited longest beside a free slot, if that is a violation, and for how long it did.
    pub(super) worst: Option<(Nanos, Accusation)>,
}

impl Withheld {
    /// Begins with the run. Before the idle limit has passed, sequences of earlier clients may have slots.
    pub(super) fn new(slots: usize, idle: Nanos, step: Nanos) -> Self {
        let margin = STALL.saturating_add(step.saturating_mul(STEPS));
        Self { slots, free_since: Some(0), last_start: idle.saturating_add(LATE), margin, ..Self::default() }
    }

    pub(super) fn take(&mut self, its: Shares, context: u32, at: Nanos) {
        while let Some((until, gone)) = self.holders.first().copied().filter(|(until, _)| *until <= at) {
            self.leaves(gone, until);
        }
        match its {
            Shares::Waits(request) => {
                self.waiting.insert(context, Waiting { request, sent: at, longest: (0, 0) });
            }
            Shares::Got(request, until) => {
                self.end_gap(at);
                if let Some(waited) = self.waiting.remove(&context).filter(|its| its.request == request) {
                    self.judge(context, waited, at);
                }
                self.last_start = self.last_start.max(at);
                self.has(context, until, at);
            }
            Shares::May(until, took) => {
                self.slowest_step = self.slowest_step.max(took);
                self.waiting.remove(&context);
                self.has(context, until, at);
            }
            Shares::Not(took) => {
                self.slowest_step = self.slowest_step.max(took);
                self.leaves(context, at);
            }
        }
    }

    /// A START is answered. All that are unanswered have waited beside a slot that was free until now.
    fn end_gap(&mut self, until: Nanos) {
        let Some(free_since) = self.free_since.map(|since| since.max(self.last_start)) else { return };
        if until.saturating_sub(free_since) <= self.margin {
            return;
        }
        let holders = self.holders.len();
        for waiting in self.waiting.values_mut() {
            let free = until.saturating_sub(free_since.max(waiting.sent));
            if waiting.longest.0 < free {
                waiting.longest = (free, holders);
            }
        }
    }

    fn judge(&mut self, context: u32, waited: Waiting, at: Nanos) {
        let Waiting { request, sent, longest: (free, holders) } = waited;
        let quickest = at.saturating_sub(sent).min(self.quickest_start.unwrap_or(Nanos::MAX));
        self.quickest_start = Some(quickest);
        let slow = self.slowest_step.max(quickest).saturating_mul(STEPS);
        if free > self.margin.max(slow) && self.worst.as_ref().is_none_or(|(longest, _)| *longest < free) {
            let (answered_ms, free_ms) = (ms(at.saturating_sub(sent)), ms(free));
            let evidence = Evidence::Withheld { holders, slots: self.slots, answered_ms, free_ms };
            let accusation = Accusation { context, request, kind: ViolationKind::SlotWithheld, at, evidence };
            self.worst = Some((free, accusation));
        }
    }

    fn has(&mut self, context: u32, until: Nanos, at: Nanos) {
        if until <= at {
            return self.leaves(context, at);
        }
        if let Some(before) = self.until.insert(context, until) {
            self.holders.remove(&(before, context));
        }
        self.holders.insert((until, context));
        if self.holders.len() >= self.slots {
            self.free_since = None;
        }
    }

    fn leaves(&mut self, context: u32, at: Nanos) {
        if let Some(until) = self.until.remove(&context) {
            self.holders.remove(&(until, context));
        }
        if self.holders.len() < self.slots {
            self.free_since.get_or_insert(at);
        }
    }
}
