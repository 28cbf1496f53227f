//! Who had which slot when: a run's sequences as lanes of a picture, from the events of its history.
//!
//! The sequences are kept up to a bound: those around violations, and otherwise the last ones.

mod assign;
mod columns;
mod exchanges;
mod sequence;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

pub(crate) use self::columns::LaneData;
use self::{
    exchanges::{Exchange, Exchanges},
    sequence::{Answer, End, Sequence, StepSeen},
};
use crate::{check::Follower, frame::Header, run::PhaseSpan};
use oracle::{Outcome, Place, Ruling, Settled, Violation, history::Entry};
use workload::{
    event::{ContextId, Cut, EventKind, Nanos},
    sequence::{RequestId, Step},
};

/// How many sequences are kept, and how many of them because a violation is near.
const SEQUENCES_MAX: usize = 100_000;
const NEAR_MAX: usize = 20_000;
/// How many steps are kept with them, how many of these because a violation is near, and how many of one sequence.
const STEPS_MAX: usize = 400_000;
const NEAR_STEPS_MAX: usize = 200_000;
const STEPS_OF_ONE: usize = 2_000;
/// How many marks are kept.
const MARKS_MAX: usize = 20_000;
/// What happens so many seconds before and after a violation is near the violation.
const NEAR: u64 = 10;
const SECOND: Nanos = 1_000_000_000;
/// What is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkKind {
    /// A sequence with a slot was without one after a pause of an idle limit or more.
    Reap,
    /// The client cancelled a stream, or reset its connection.
    Cancel,
    /// A stream was cut in another way.
    Cut,
    /// A violation.
    Violation,
}

/// A moment of a sequence, or of the whole run.
#[derive(Clone, Debug)]
struct Mark {
    at: Nanos,
    kind: MarkKind,
    /// The sequence; none where none is concerned.
    sequence: Option<Key>,
    /// The violation's place in the result.
    violation: Option<usize>,
}

/// What a sequence is known by: its context, and its number in the worker.
type Key = (ContextId, u32);

fn key(request: RequestId) -> Key {
    (ContextId { worker: request.worker, context: request.context }, request.sequence)
}

/// Where the violations of a run were, in the order of its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accused {
    /// When the client saw it, in nanoseconds since the run began.
    at: Nanos,
    /// The request that is concerned, if one of the run's own is.
    request: Option<RequestId>,
}

impl Accused {
    /// Where a violation was that the client saw at this time.
    pub(crate) fn new(at: Nanos, place: Option<&Place>) -> Self {
        let of_the_run = place.filter(|place| place.aside.is_none());
        Self { at, request: of_the_run.and_then(|place| place.request_id) }
    }

    /// Where a violation was.
    pub(crate) fn of(violation: &Violation) -> Self {
        Self::new(violation.at_ns, violation.place.as_ref())
    }
}

/// The sequences of a run, while its history is read.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    slots: Option<u32>,
    idle_limit: Option<Nanos>,
    /// Those near a violation that are no longer among the last ones.
    near: Vec<Sequence>,
    last: VecDeque<Sequence>,
    /// How many left the front of `last`.
    left: usize,
    /// How many of all that began are past: they get no more steps, and have none but those near a violation.
    past: usize,
    /// How many steps the past ones have.
    past_steps: usize,
    /// Where each is: its number among all that began, or its place in `near`.
    places: HashMap<Key, Kept>,
    /// The sequence that has each context's correlation ID.
    current: HashMap<ContextId, Key>,
    kept_steps: usize,
    left_out: u64,
    marks: Vec<Mark>,
    marks_left_out: u64,
    gaps: Vec<(Nanos, Nanos)>,
    /// The seconds in which violations were seen: a history may have millions of violations.
    violations: BTreeSet<u64>,
    exchanges: Exchanges,
    until: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    Near(usize),
    Last(usize),
}

impl Follower for Lanes {
    fn begin(&mut self, header: &Header) {
        let model = &header.preflight.model;
        self.slots = model.slots;
        self.idle_limit = model.idle_limit.map(nanos);
        self.exchanges = Exchanges::of(&header.scenario, model);
    }

    fn gap(&mut self, from: Nanos, until: Nanos) {
        self.gaps.push((from, until));
        self.exchanges.gap();
        // What happened meanwhile nobody knows.
        for key in self.current.drain().map(|(_, key)| key).collect::<Vec<_>>() {
            self.close(key, from, End::Open);
            // A sequence that goes on behind the gap is drawn from there on.
            self.places.remove(&key);
        }
        self.until = self.until.max(until);
    }

    fn entry(&mut self, entry: &Entry, ruling: &Ruling) {
        self.until = self.until.max(entry.at);
        self.exchanges.entry(entry);
        match &entry.what {
            EventKind::Sent(step) => self.sent(entry, *step),
            EventKind::Cut(cut) => self.cut(entry, cut),
            EventKind::Disturbed(_) => self.close_current(entry.context, entry.at, End::Disturbed),
            _ => {}
        }
        if let Some(settled) = &ruling.settled {
            self.settled(entry, settled);
        }
    }

    fn violation(&mut self, violation: &Violation) {
        self.violations.insert(violation.at_ns / SECOND);
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Lanes {
    /// The picture's data; the violations are those of the run's result, in its order, and the phases those of its end, if that is known.
    pub(crate) fn conclude(mut self, accused: impl IntoIterator<Item = Accused>, phases: &[PhaseSpan]) -> LaneData {
        self.exchanges.noted(phases);
        for (violation, Accused { at, request }) in accused.into_iter().enumerate() {
            let sequence = request.map(key).filter(|key| self.places.contains_key(key));
            if let Some(sequence) = sequence.and_then(|key| self.sequence(key)) {
                sequence.violations += 1;
            }
            self.marks.push(Mark { at, kind: MarkKind::Violation, sequence, violation: Some(violation) });
        }
        let (idle, until) = (self.idle_limit, self.until);
        for sequence in self.near.iter_mut().chain(&mut self.last) {
            sequence.conclude(idle, until);
            self.exchanges.all().iter().for_each(|exchange| sequence.exchanged(exchange));
        }
        columns::of(self)
    }

    /// A sequence that is kept.
    fn sequence(&mut self, key: Key) -> Option<&mut Sequence> {
        match *self.places.get(&key)? {
            Kept::Near(place) => self.near.get_mut(place),
            Kept::Last(number) => self.last.get_mut(number - self.left),
        }
    }

    fn close(&mut self, key: Key, at: Nanos, end: End) {
        if let Some(sequence) = self.sequence(key) {
            sequence.close(at, end);
        }
    }

    /// The sequence that has the context's ID may be over from now on.
    fn close_current(&mut self, context: ContextId, at: Nanos, end: End) {
        if let Some(key) = self.current.remove(&context) {
            self.close(key, at, end);
        }
    }

    fn mark(&mut self, at: Nanos, kind: MarkKind, sequence: Option<Key>) {
        if self.marks.len() < MARKS_MAX {
            self.marks.push(Mark { at, kind, sequence, violation: None });
        } else {
            self.marks_left_out += 1;
        }
    }

    fn sent(&mut self, entry: &Entry, step: Step) {
        // The first steps of a sequence may lie in a gap of the history, or may have been let go of.
        if step.is_first() || !self.places.contains_key(&key(step.request)) {
            self.places.insert(key(step.request), Kept::Last(self.left + self.last.len()));
            self.last.push_back(Sequence::new(entry, step));
        }
        let is_past = match self.places.get(&key(step.request)) {
            Some(Kept::Last(number)) => *number < self.past,
            _ => true,
        };
        let Some(sequence) = self.sequence(key(step.request)) else { return };
        sequence.sent += 1;
        if step.end {
            sequence.end_sent = Some(entry.at);
        }
        if is_past {
            return;
        }
        sequence.steps.push_back(StepSeen { step, sent: entry.at, settled: None, answer: None, slot: None });
        self.kept_steps += 1;
        let sequence = self.sequence(key(step.request)).expect("it is there");
        if sequence.steps.len() > STEPS_OF_ONE
            && let Some(first) = sequence.steps.pop_front()
        {
            self.kept_steps -= 1;
            if self.is_near_time(first.sent, first.sent) {
                self.keep_near(first);
            }
        }
        self.make_room();
    }

    /// Keeps a step that a violation is near, beside the last steps of its sequence.
    fn keep_near(&mut self, step: StepSeen) {
        let Some(sequence) = self.sequence(key(step.step.request)) else { return };
        if sequence.near.len() < STEPS_OF_ONE {
            sequence.near.push(step);
            self.kept_steps += 1;
        }
    }

    fn settled(&mut self, entry: &Entry, settled: &Settled) {
        let (key, idle) = (key(settled.step.request), self.idle_limit);
        let Some(sequence) = self.sequence(key) else { return };
        let is_reaped = sequence.settled(entry, settled, idle);
        let is_open = sequence.end == End::Open;
        // One that goes on behind a gap has no START there.
        let begins = settled.step.start || is_open && !self.current.contains_key(&entry.context);
        if begins && settled.outcome == Outcome::Completed {
            let before = self.current.insert(entry.context, key).filter(|before| *before != key);
            if let Some(before) = before {
                self.close(before, settled.sent_at, End::Replaced);
            }
        }
        if is_reaped {
            self.mark(entry.at, MarkKind::Reap, Some(key));
        }
    }

    fn cut(&mut self, entry: &Entry, cut: &Cut) {
        let kind = match cut {
            Cut::Cancelled | Cut::Deadline | Cut::Reset => MarkKind::Cancel,
            Cut::Interrupted => return self.close_current(entry.context, entry.at, End::Open),
            _ => MarkKind::Cut,
        };
        self.mark(entry.at, kind, self.current.get(&entry.context).copied());
        self.close_current(entry.context, entry.at, End::Cut);
    }

    /// Lets go of what is above the bounds: the first sequences and steps that no violation is near.
    fn make_room(&mut self) {
        while self.last.len() + self.near.len() > SEQUENCES_MAX {
            if self.past == self.left {
                self.pass();
            }
            let Some(oldest) = self.last.pop_front() else { return };
            self.left += 1;
            // Behind a gap another one has the same key.
            let is_known = matches!(self.places.get(&oldest.key), Some(Kept::Last(number)) if number + 1 == self.left);
            if self.is_near(&oldest) && self.near.len() < NEAR_MAX {
                if is_known {
                    self.places.insert(oldest.key, Kept::Near(self.near.len()));
                }
                self.near.push(oldest);
            } else {
                self.kept_steps -= oldest.kept();
                self.past_steps -= oldest.kept();
                if is_known {
                    self.places.remove(&oldest.key);
                }
                self.left_out += 1;
            }
        }
        while self.kept_steps > STEPS_MAX && self.past + 1 < self.left + self.last.len() {
            self.pass();
        }
    }

    /// The first sequence that is not past is past now.
    fn pass(&mut self) {
        let place = self.past - self.left;
        let steps = self.last[place].kept();
        if self.is_near(&self.last[place]) && self.past_steps + steps <= NEAR_STEPS_MAX {
            self.past_steps += steps;
        } else {
            (self.last[place].steps, self.last[place].near) = Default::default();
            self.kept_steps -= steps;
        }
        self.past += 1;
    }

    fn is_near(&self, sequence: &Sequence) -> bool {
        self.is_near_time(sequence.begun, sequence.over.unwrap_or(sequence.begun))
    }

    fn is_near_time(&self, from: Nanos, until: Nanos) -> bool {
        let (first, last) = ((from / SECOND).saturating_sub(NEAR), until / SECOND + NEAR);
        self.violations.range(first..=last).next().is_some()
    }
}

#[cfg(test)]
mod tests;
