//! A sequence of a run, while the history is read.

use std::collections::VecDeque;

use super::{Exchange, Key, key};
use oracle::{Outcome, Settled, history::Entry};
use workload::{
    controls::Seen,
    event::{EventKind, Nanos},
    number::Number,
    sequence::{CorrelationId, Pattern, Step},
};

/// The longest text of an error that is kept.
const TEXT_MAX: usize = 200;

/// How a sequence was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing says that it was.
    Open,
    /// Its END was executed.
    Ended,
    /// It had no step for an idle limit.
    Idle,
    /// The server answered a step with an error.
    Rejected,
    /// The client or the network cut its stream.
    Cut,
    /// Another sequence of its correlation ID began.
    Replaced,
    /// The model or the server was exchanged.
    Disturbed,
}

/// A step and its response.
#[derive(Clone, Debug)]
pub(super) struct StepSeen {
    pub(super) step: Step,
    pub(super) sent: Nanos,
    pub(super) settled: Option<(Nanos, Outcome)>,
    pub(super) answer: Option<Answer>,
    pub(super) slot: Option<u32>,
}

/// What came for a step.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Sum(Number),
    Error(String),
}

/// A sequence.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) key: Key,
    pub(super) correlation_id: CorrelationId,
    pub(super) pattern: Pattern,
    pub(super) begun: Nanos,
    /// From when it certainly had a slot.
    pub(super) held: Option<Nanos>,
    /// When the last step was sent that was executed.
    pub(super) executed: Option<Nanos>,
    /// When its END was sent, and when it was answered if it was executed.
    pub(super) end_sent: Option<Nanos>,
    pub(super) ended: Option<Nanos>,
    /// When it was over or might have been, as far as events tell.
    pub(super) over: Option<Nanos>,
    pub(super) end: End,
    /// The slot that the model saw.
    pub(super) slot: Option<u32>,
    pub(super) violations: u32,
    /// The last steps, and earlier ones that a violation is near.
    pub(super) steps: VecDeque<StepSeen>,
    pub(super) near: Vec<StepSeen>,
    /// Steps that were sent, those included that are not kept.
    pub(super) sent: u32,
}

impl Sequence {
    pub(super) fn new(entry: &Entry, first: Step) -> Self {
        Self {
            key: key(first.request),
            correlation_id: entry.correlation_id,
            pattern: first.pattern,
            begun: entry.at,
            held: None,
            executed: None,
            end_sent: None,
            ended: None,
            over: None,
            end: End::Open,
            slot: None,
            violations: 0,
            steps: VecDeque::new(),
            near: Vec::new(),
            sent: 0,
        }
    }

    /// How many of its steps are kept.
    pub(super) fn kept(&self) -> usize {
        self.steps.len() + self.near.len()
    }

    /// Takes in what became of a step; returns whether that shows that the server ended the sequence because it was idle.
    pub(super) fn settled(&mut self, entry: &Entry, settled: &Settled, idle: Option<Nanos>) -> bool {
        let (slot, answer) = match &entry.what {
            EventKind::Answered(_, sum, seen) => (seen.and_then(Seen::slot), Some(Answer::Sum(*sum))),
            EventKind::Received(received) => match &received.result {
                Err(text) => (None, Some(Answer::Error(text.chars().take(TEXT_MAX).collect()))),
                Ok(_) => (None, settled.sum.map(Answer::Sum)),
            },
            _ => (None, None),
        };
        if let Some(seen) = self.steps.iter_mut().rev().find(|seen| seen.step.request == settled.step.request) {
            seen.settled = Some((entry.at, settled.outcome));
            seen.answer = answer;
            seen.slot = slot;
        }
        self.slot = self.slot.or(slot);
        match settled.outcome {
            Outcome::Completed => {
                self.executed = self.executed.max(Some(settled.sent_at));
                self.held = self.held.or(Some(entry.at));
                if settled.step.end {
                    self.ended = Some(entry.at);
                    self.close(self.end_sent.unwrap_or(entry.at), End::Ended);
                }
                false
            }
            Outcome::Rejected | Outcome::Expired | Outcome::Failed if !settled.step.is_to_be_rejected() => {
                let paused = self.executed.map(|executed| settled.sent_at.saturating_sub(executed));
                let is_idle = self.held.is_some() && paused.zip(idle).is_some_and(|(paused, idle)| paused >= idle);
                self.close(settled.sent_at, if is_idle { End::Idle } else { End::Rejected });
                is_idle && settled.outcome == Outcome::Rejected
            }
            Outcome::Rejected | Outcome::Expired | Outcome::Failed => {
                if self.held.is_none() && settled.step.is_first() {
                    self.close(entry.at, End::Rejected);
                }
                false
            }
            Outcome::Indeterminate => false,
        }
    }

    /// It may be over from then on.
    pub(super) fn close(&mut self, at: Nanos, end: End) {
        if self.end == End::Open {
            self.over = Some(self.over.map_or(at, |over| over.min(at)));
            self.end = end;
        }
    }

    /// What is known at the end of the history.
    pub(super) fn conclude(&mut self, idle: Option<Nanos>, until: Nanos) {
        let idle_over = self.executed.zip(idle).map(|(executed, idle)| executed.saturating_add(idle));
        match (self.over, idle_over) {
            (Some(over), Some(idle_over)) if idle_over < over && self.end != End::Ended => {
                self.over = Some(idle_over);
                self.end = End::Idle;
            }
            (None, Some(idle_over)) if idle_over < until => {
                self.over = Some(idle_over);
                self.end = End::Idle;
            }
            (None, _) => self.over = Some(until),
            _ => {}
        }
        // It had the slot when its START was answered, whatever was sent by then.
        self.over = self.over.map(|over| over.max(self.held.unwrap_or(over)));
    }

    /// The model or the server was exchanged then: what had a slot before has none of the other's.
    pub(super) fn exchanged(&mut self, exchange: &Exchange) {
        match self.held {
            Some(held) if held <= exchange.from => {
                if self.over.is_none_or(|over| over > exchange.from) {
                    (self.over, self.end) = (Some(exchange.from), End::Disturbed);
                }
                self.ended = self.ended.filter(|ended| *ended <= exchange.from);
            }
            // A server goes on with what the old model has taken in while the other one serves. So nobody knows which of them answered.
            Some(_) if exchange.until.is_none_or(|until| self.begun < until) => self.held = None,
            _ => {}
        }
    }
}
