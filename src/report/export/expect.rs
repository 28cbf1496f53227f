//! What the answers to a script's steps have to be, by the oracle that judges runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    sync::Arc,
    time::Duration,
};

use crate::failure::Due;
use oracle::{
    Evidence, Oracle, Rules, Words,
    golden::{Expectation, Golden, unlike},
};
use workload::{
    arithmetic::{Arithmetic, Formula},
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, Event, EventKind, Nanos, Received},
    number::Number,
    sequence::{CorrelationId, IdForm, Pattern, RequestId, Special, Step},
};

const MODEL: &str = "m";
const CONTEXT: ContextId = ContextId { worker: 0, context: 0 };
/// What the answers to the END of a sequence may have added, in a script: the script's correlation IDs are chosen when it runs.
const ID: CorrelationId = CorrelationId(NonZeroU64::MIN);
/// Any pause may be too long, because the script is not as quick as the run was; and what was cut may arrive at any time later.
const IDLE_LIMIT: Duration = Duration::from_nanos(1);
const STRAGGLING: Duration = Duration::from_secs(1_000_000);
const PAUSE: Nanos = 1_000_000_000;

/// One correlation ID of a script.
#[derive(Debug)]
pub(super) struct Expecting {
    arithmetic: Arithmetic,
    oracle: Oracle,
    at: Nanos,
    sent: u32,
    /// By stream, how the oracle is told of the answers that the script has not taken.
    unanswered: BTreeMap<Lane, Vec<EventKind>>,
    /// The streams that have a deadline: nobody knows whether it passes.
    within: BTreeSet<Lane>,
}

/// A step of a script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) start: bool,
    pub(super) end: bool,
    pub(super) value: Number,
    pub(super) special: Option<Special>,
}

impl Expecting {
    /// Of a script's own ID, which has no sequence yet, of a model that computes like this, or answers like that.
    pub(super) fn new(arithmetic: Arithmetic, golden: Option<&Arc<Golden>>) -> Self {
        let rules = Rules {
            model: MODEL.to_owned(),
            version: None,
            output: String::new(),
            shape: vec![1].into(),
            arithmetic,
            idle_limit: Some(IDLE_LIMIT),
            straggling: STRAGGLING,
            mixes: false,
            restarts: false,
            words: Words::Known,
            controls: None,
            golden: golden.cloned().map(Expectation::of),
        };
        let oracle = Oracle::new(rules, 1, 1, |_| (ID, IdForm::Integer));
        let mut new = Self { arithmetic, oracle, at: 0, sent: 0, unanswered: BTreeMap::new(), within: BTreeSet::new() };
        // An ID that was ended has no sequence for certain; the oracle knows nothing of one that was never used.
        new.open(Lane::FIRST);
        let value = golden.map_or_else(|| arithmetic.number(0), |golden| golden.inputs.number(0, 0));
        let sent = Sent { start: true, end: true, value, special: None };
        new.send(Lane::FIRST, sent);
        new.take(Lane::FIRST, 0);
        new.close(Lane::FIRST);
        new
    }

    /// A stream is opened.
    pub(super) fn open(&mut self, lane: Lane) {
        self.within.remove(&lane);
        self.opened(lane);
    }

    /// A stream is opened that has a deadline, or calls are made of which each has one.
    pub(super) fn open_within(&mut self, lane: Lane) {
        self.within.insert(lane);
        self.opened(lane);
    }

    fn opened(&mut self, lane: Lane) {
        self.tell(lane, EventKind::Opened(Connection::Own, Transport::GrpcStream));
    }

    /// A step is sent; returns what it has to be answered with, where that is one thing that the script can know.
    pub(super) fn send(&mut self, lane: Lane, Sent { start, end, value, special }: Sent) -> Option<Due> {
        let request = RequestId { sequence: self.sent, worker: 0, context: 0, step: 0 };
        self.sent += 1;
        let step = Step { request, pattern: Pattern::Valid, start, end, value, of: 1, special };
        self.tell(lane, EventKind::Sent(step));
        let is_known = special.is_none() && !self.within.contains(&lane);
        let due = if is_known { self.due(lane, request, value) } else { None };
        let answer = match step.flaw() {
            Some(flaw) => error(request, flaw.rejection().to_owned()),
            None => answer(request, due),
        };
        self.unanswered.entry(lane).or_default().push(answer);
        let adds_the_id = end && self.arithmetic.formula.adds_corrid();
        due.filter(|due| !adds_the_id || matches!(due, Due::Rejection))
    }

    /// The script takes the answers of a stream, but for the last so many.
    pub(super) fn take(&mut self, lane: Lane, most: usize) {
        if self.within.contains(&lane) {
            self.unanswered.remove(&lane);
            self.tell(lane, EventKind::Cut(Cut::Deadline));
            return self.opened(lane);
        }
        let unanswered = self.unanswered.entry(lane).or_default();
        let taken = unanswered.len().saturating_sub(most);
        let answers: Vec<_> = unanswered.drain(..taken).collect();
        for answer in answers {
            self.tell(lane, answer);
        }
    }

    /// The script does nothing for a while.
    pub(super) fn pause(&mut self) {
        self.at += PAUSE;
    }

    /// A stream is closed, its answers taken.
    pub(super) fn close(&mut self, lane: Lane) {
        self.take(lane, 0);
        self.tell(lane, EventKind::Closed);
    }

    /// A stream is cut, whatever is under way.
    pub(super) fn cut(&mut self, lane: Lane) {
        self.unanswered.remove(&lane);
        self.tell(lane, EventKind::Cut(Cut::Cancelled));
    }

    /// What the oracle would accuse tells what is due: a sum is what it expects in place of another one, where it does not take a
    /// rejection either.
    fn due(&self, lane: Lane, request: RequestId, value: Number) -> Option<Due> {
        let mut oracle = self.oracle.clone();
        // Those before it on the same stream are answered first.
        for answer in self.unanswered.get(&lane).into_iter().flatten() {
            oracle.observe(self.event(lane, answer.clone()));
        }
        let would_say = |due| oracle.clone().observe(self.event(lane, answer(request, Some(due)))).violations;
        // One of two sums is wrong. Where no formula says what is right, outputs that are like nothing known are.
        let sums = match self.arithmetic.formula {
            Formula::Golden | Formula::GoldenWithEnd => [unlike(); 2],
            _ => [7, 8].map(|sum| self.arithmetic.number(sum).of_elements(value.elements())),
        };
        let accused = sums.into_iter().find_map(|sum| would_say(Due::Sum(sum)).into_iter().next())?;
        let may_be_rejected = would_say(Due::Rejection).is_empty();
        match accused.evidence {
            Evidence::NotRejected { .. } => Some(Due::Rejection),
            Evidence::Sum { expected, .. } => match expected.as_slice() {
                [sum] if !may_be_rejected => Some(Due::Sum(*sum)),
                _ => None,
            },
            Evidence::Output { expected, .. } => match expected.as_slice() {
                [state] if !may_be_rejected => Some(Due::Sum(state.sum)),
                _ => None,
            },
            _ => None,
        }
    }

    fn tell(&mut self, lane: Lane, kind: EventKind) {
        let event = self.event(lane, kind);
        self.oracle.observe(event);
    }

    fn event(&self, lane: Lane, kind: EventKind) -> Event {
        Event { at: self.at, context: CONTEXT, lane, kind }
    }
}

/// How the answer that is due arrives, or one that may be this or that.
fn answer(request: RequestId, due: Option<Due>) -> EventKind {
    match due {
        Some(Due::Sum(sum)) => EventKind::Answered(request, sum, None),
        Some(Due::Rejection) => error(
            request,
            format!(
                "inference request for sequence {ID} to model '{MODEL}' must specify the START flag on the first request of the sequence"
            ),
        ),
        Some(Due::Answer) | None => error(request, "not known".to_owned()),
    }
}

fn error(request: RequestId, text: String) -> EventKind {
    let id = request.to_string();
    EventKind::Received(Box::new(Received { id, result: Err(text), code: None, outputs: 0 }))
}
