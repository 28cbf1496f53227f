//! STARTs that waited although a slot was free.
//!
//! A sequence may have a slot from the answer to its START until its END is answered, or until it was idle for too long. One whose START is
//! unanswered may have one, too, but is executed, and answered, soon after it got it. So when a START waits, fewer sequences than there
//! are slots may have one, and for long no START at all is answered, then a slot was free that nobody was given.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::{
    event::Nanos,
    history::{Entry, What},
    oracle::{Place, Violation, ViolationKind},
    sequence::RequestId,
};

/// How late an idle sequence may be ended, and a START that has a slot be answered, on a busy machine.
const LATE: Nanos = 1_000_000_000;
/// One that has a slot may wait for so many executions.
const STEPS: u64 = 4;

/// What one correlation ID has under way, in its own order.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    /// The START that is unanswered, where all before it was answered when it was sent.
    start: Option<RequestId>,
    /// The sequence that may have a slot.
    sequence: Option<u32>,
    /// The STARTs and ENDs that are unanswered, each with whether it is one and the other.
    edges: VecDeque<(RequestId, bool, bool)>,
    unanswered: u32,
    /// When something was answered last, or sent where nothing was under way.
    last: Nanos,
    /// Whether it was told last that it may have a slot without an end, and how long its slowest step took.
    is_told: bool,
    slowest: Nanos,
}

/// What a correlation ID may have of the slots from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shares {
    /// It waits for a slot, and has none for this START yet.
    Waits(RequestId),
    /// Its START was answered, so it may have a slot until then.
    Got(RequestId, Nanos),
    /// It may have one until then, whatever it waits for. How long the step took that was answered, where one was.
    May(Nanos, Nanos),
    /// It has none. How long its END took.
    Not(Nanos),
}

impl Share {
    /// Takes in what happened next; `idle` is for how long an idle sequence keeps its slot, `straggling` how long requests of a stream that
    /// is gone may still come.
    pub(super) fn take(&mut self, entry: &Entry, idle: Nanos, straggling: Nanos, is_near: bool) -> Option<Shares> {
        self.changed_by(entry, idle, straggling, is_near).filter(|its| self.is_news(*its))
    }

    /// Whether it was not told before. Most steps tell nothing new.
    fn is_news(&mut self, its: Shares) -> bool {
        let is_known = matches!(its, Shares::May(Nanos::MAX, took) if self.is_told && took <= self.slowest);
        self.is_told = matches!(its, Shares::May(Nanos::MAX, _));
        if let Shares::May(_, took) | Shares::Not(took) = its {
            self.slowest = self.slowest.max(took);
        }
        !is_known
    }

    fn changed_by(&mut self, entry: &Entry, idle: Nanos, straggling: Nanos, is_near: bool) -> Option<Shares> {
        let while_idle = entry.at.saturating_add(idle).saturating_add(LATE);
        let took = entry.at.saturating_sub(self.last);
        let at_rest = |share: &Self| if share.unanswered == 0 { while_idle } else { Nanos::MAX };
        match &entry.what {
            What::Sent(step) => {
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
            What::Answered(request, ..) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.last = entry.at;
                let edge =
                    self.edges.iter().position(|(edge, ..)| edge == request).and_then(|edge| self.edges.remove(edge));
                let (starts, ends) = edge.map_or((false, false), |(_, starts, ends)| (starts, ends));
                let waited = self.start.take_if(|start| start == request).is_some();
                if starts {
                    self.sequence = Some(request.sequence);
                }
                if ends && self.sequence == Some(request.sequence) {
                    self.sequence = None;
                }
                let until = if self.sequence.is_some() { at_rest(self) } else { 0 };
                if waited {
                    return Some(Shares::Got(*request, until));
                }
                // START has waited for its slot, too.
                let took = if starts { 0 } else { took };
                Some(if until == 0 { Shares::Not(took) } else { Shares::May(until, took) })
            }
            What::Received(_) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                (self.last, self.start) = (entry.at, None);
                Some(Shares::May(at_rest(self).max(entry.at.saturating_add(straggling)), 0))
            }
            What::GaveUp | What::Cut(_) => {
                *self = Self { sequence: self.sequence.or(Some(0)), slowest: self.slowest, ..Self::default() };
                Some(Shares::May(while_idle.saturating_add(straggling), 0))
            }
            // Its answer may lie there unread.
            What::StoppedReading(_) => {
                self.start = None;
                Some(Shares::May(Nanos::MAX, 0))
            }
            What::Opened(..) | What::HalfClosed | What::Closed | What::NotClosed | What::Disturbed(_) => None,
        }
    }
}

/// A START that was answered late although a slot was free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    context: u32,
    request: RequestId,
    sent: Nanos,
    at: Nanos,
    /// Since when fewer sequences than there are slots may have had one, and nobody was given one.
    free_since: Nanos,
    /// How many may have had one at the end.
    holders: usize,
    slots: usize,
}

/// Who may have a slot, and who waits for one, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    /// By until when.
    holders: BTreeSet<(Nanos, u32)>,
    until: HashMap<u32, Nanos>,
    waiting: HashMap<u32, (RequestId, Nanos)>,
    /// Since when there are fewer than slots.
    free_since: Option<Nanos>,
    /// When a START was answered last, or everything began.
    last_start: Nanos,
    /// How long a START has to be kept from a slot to be told: longer than what may hold up one that has a slot.
    margin: Nanos,
    /// How long the slowest step took, and the quickest START.
    slowest_step: Nanos,
    quickest_start: Option<Nanos>,
    worst: Option<Found>,
}

impl Withheld {
    /// From the beginning of a run. Sequences of whoever used the model before may have slots until they were idle for too long.
    pub(super) fn new(idle: Nanos, step: Nanos) -> Self {
        let margin = LATE.saturating_add(step.saturating_mul(STEPS));
        Self { free_since: Some(0), last_start: idle.saturating_add(LATE), margin, ..Self::default() }
    }

    pub(super) fn take(&mut self, its: Shares, context: u32, at: Nanos, slots: usize) {
        while let Some((until, gone)) = self.holders.first().copied().filter(|(until, _)| *until <= at) {
            self.leaves(gone, until, slots);
        }
        match its {
            Shares::Waits(request) => _ = self.waiting.insert(context, (request, at)),
            Shares::Got(request, until) => {
                if let Some((_, sent)) = self.waiting.remove(&context).filter(|(its, _)| *its == request) {
                    self.judge(context, (request, sent), at, slots);
                }
                self.last_start = self.last_start.max(at);
                self.has(context, until, at, slots);
            }
            Shares::May(until, took) => {
                self.slowest_step = self.slowest_step.max(took);
                self.waiting.remove(&context);
                self.has(context, until, at, slots);
            }
            Shares::Not(took) => {
                self.slowest_step = self.slowest_step.max(took);
                self.leaves(context, at, slots);
            }
        }
    }

    fn judge(&mut self, context: u32, (request, sent): (RequestId, Nanos), at: Nanos, slots: usize) {
        let quickest = at.saturating_sub(sent).min(self.quickest_start.unwrap_or(Nanos::MAX));
        self.quickest_start = Some(quickest);
        let slow = self.slowest_step.max(quickest).saturating_mul(STEPS);
        let Some(free_since) = self.free_since.map(|since| since.max(self.last_start).max(sent)) else { return };
        let for_long = |since: Nanos| at.saturating_sub(since);
        if for_long(free_since) > self.margin.max(slow)
            && self.worst.is_none_or(|worst| worst.free() < for_long(free_since))
        {
            let holders = self.holders.len();
            self.worst = Some(Found { context, request, sent, at, free_since, holders, slots });
        }
    }

    fn has(&mut self, context: u32, until: Nanos, at: Nanos, slots: usize) {
        if until <= at {
            return self.leaves(context, at, slots);
        }
        if let Some(before) = self.until.insert(context, until) {
            self.holders.remove(&(before, context));
        }
        self.holders.insert((until, context));
        if self.holders.len() >= slots {
            self.free_since = None;
        }
    }

    fn leaves(&mut self, context: u32, at: Nanos, slots: usize) {
        if let Some(until) = self.until.remove(&context) {
            self.holders.remove(&(until, context));
        }
        if self.holders.len() < slots {
            self.free_since.get_or_insert(at);
        }
    }

    /// The START that was kept from a free slot for longest, of those that were for too long.
    pub(super) fn worst(&self) -> Option<Found> {
        self.worst
    }
}

impl Found {
    /// For how long a slot was free.
    fn free(&self) -> Nanos {
        self.at.saturating_sub(self.free_since)
    }

    /// As a violation, of contexts that [`place`] tells, with their correlation IDs.
    pub(super) fn violation(&self, place: impl Fn(u32) -> Place) -> Violation {
        let ms = |nanos: Nanos| nanos / 1_000_000;
        let Self { context, request, sent, at, holders, slots, .. } = *self;
        let place = Place { request_id: Some(request.to_string()), ..place(context) };
        Violation {
            place: Some(place),
            ..Violation::of_the_run(
                ViolationKind::SlotWithheld,
                at,
                "START".to_owned(),
                format!("a slot at once: at most {holders} sequences may have had one of the {slots}"),
                format!(
                    "an answer after {} ms, in the last {} ms of which a slot was free, and no START was answered",
                    ms(at.saturating_sub(sent)),
                    ms(self.free())
                ),
            )
        }
    }
}
