//! What the answers to a script's steps have to be, by the oracle that judges runs.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
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

/// More sums than these are no help to who reads a script.
const MOST_SUMS: usize = 4;

/// What a step may be answered with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lawful {
    /// The sums, or the one state of a model without a formula.
    pub(super) sums: Vec<Number>,
    /// Whether it may be rejected for the want of a START.
    pub(super) may_be_rejected: bool,
}

impl Lawful {
    /// The answer, where there is one only.
    pub(super) fn only(&self) -> Option<Due> {
        match (self.sums.as_slice(), self.may_be_rejected) {
            ([], true) => Some(Due::Rejection),
            ([sum], false) => Some(Due::Sum(*sum)),
            _ => None,
        }
    }
}

/// A step that was sent, in the order of sending to its ID.
pub(super) type Token = usize;

/// One correlation ID of a script.
#[derive(Debug)]
pub(super) struct Expecting {
    arithmetic: Arithmetic,
    oracle: Oracle,
    at: Nanos,
    /// What each step that was sent has to be answered with, where that is known: as it was sent, or when its answer was taken, because
    /// what is sent meanwhile on another stream may come before it.
    lawful: Vec<Option<Lawful>>,
    /// What steps had to be answered with when the script took an answer beside them that may be this or that, each for itself.
    beside: BTreeMap<Token, Lawful>,
    /// Those whose answer has the ID added.
    with_id: BTreeSet<Token>,
    /// By stream, the steps of which the script has not taken the answers.
    unanswered: BTreeMap<Lane, VecDeque<(Token, Step)>>,
    /// Whether each answer since the last START could be only one, and nothing was cut.
    is_certain: bool,
    /// Whether a step's answer was never taken: of what the server makes of it later, the oracle tells no list of sums.
    was_cut: bool,
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
            calls: None,
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
        let mut new = Self {
            arithmetic,
            oracle,
            at: 0,
            lawful: Vec::new(),
            beside: BTreeMap::new(),
            with_id: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            is_certain: true,
            was_cut: false,
            within: BTreeSet::new(),
        };
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

    /// A step is sent. [`lawful`](Self::lawful) tells what it has to be answered with, at the end for certain.
    pub(super) fn send(&mut self, lane: Lane, Sent { start, end, value, special }: Sent) -> Token {
        // It may come before those that are under way.
        self.beside.clear();
        let token = self.lawful.len();
        let sequence = u32::try_from(token).unwrap_or(u32::MAX);
        let request = RequestId { sequence, worker: 0, context: 0, step: 0 };
        let step = Step { request, pattern: Pattern::Valid, start, end, value, of: 1, special };
        self.is_certain |= start && !self.was_cut && self.unanswered.values().all(VecDeque::is_empty);
        self.tell(lane, EventKind::Sent(step));
        let mut before = self.oracle.clone();
        // Those before it on the same stream are answered first.
        for (token, step) in self.unanswered.get(&lane).into_iter().flatten() {
            before.observe(self.event(lane, self.answer(*token, step)));
        }
        let lawful = self.due(&before, lane, &step).filter(|lawful| lawful.only().is_some());
        self.lawful.push(lawful);
        if end && self.arithmetic.formula.adds_corrid() {
            self.with_id.insert(token);
        }
        self.unanswered.entry(lane).or_default().push_back((token, step));
        token
    }

    /// What a step has to be answered with, where the script can know that.
    pub(super) fn lawful(&self, token: Token) -> Option<&Lawful> {
        // The script's own ID is added to a sum.
        self.lawful.get(token)?.as_ref().filter(|its| its.sums.is_empty() || !self.with_id.contains(&token))
    }

    /// The script takes the answers of a stream, but for the last so many.
    pub(super) fn take(&mut self, lane: Lane, most: usize) {
        if self.within.contains(&lane) {
            self.abandon(lane, Cut::Deadline);
            return self.opened(lane);
        }
        while let Some(unanswered) = self.unanswered.get_mut(&lane).filter(|all| all.len() > most)
            && let Some((token, step)) = unanswered.pop_front()
        {
            let lawful = self.due(&self.oracle, lane, &step).or_else(|| self.beside.remove(&token));
            if step.flaw().is_none() && lawful.as_ref().and_then(Lawful::only).is_none() {
                let first = self.unanswered.iter().filter_map(|(other, all)| Some((*other, *all.front()?)));
                let due: Vec<_> = first
                    .filter(|(other, _)| *other != lane)
                    .filter_map(|(other, (token, step))| Some((token, self.due(&self.oracle, other, &step)?)))
                    .collect();
                self.beside.extend(due);
                self.is_certain = false;
            }
            self.lawful[token] = lawful;
            self.tell(lane, self.answer(token, &step));
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
        self.abandon(lane, Cut::Cancelled);
    }

    fn abandon(&mut self, lane: Lane, by: Cut) {
        self.unanswered.remove(&lane);
        self.was_cut = true;
        self.is_certain = false;
        self.tell(lane, EventKind::Cut(by));
    }

    /// What the oracle would accuse tells what is due: a sum is what it expects in place of another one.
    fn due(&self, oracle: &Oracle, lane: Lane, step: &Step) -> Option<Lawful> {
        if step.special.is_some() || self.within.contains(&lane) {
            return None;
        }
        let (request, value) = (step.request, step.value);
        let would_say = |due| oracle.clone().observe(self.event(lane, answer(request, Some(due)))).violations;
        // One of two sums is wrong. Where no formula says what is right, outputs that are like nothing known are.
        let sums = match self.arithmetic.formula {
            Formula::Golden | Formula::GoldenWithEnd => [unlike(); 2],
            _ => [7, 8].map(|sum| self.arithmetic.number(sum).of_elements(value.elements())),
        };
        let accused = sums.into_iter().find_map(|sum| would_say(Due::Sum(sum)).into_iter().next())?;
        let may_be_rejected = would_say(Due::Rejection).is_empty();
        let lawful = match accused.evidence {
            Evidence::NotRejected { .. } => Lawful { sums: Vec::new(), may_be_rejected: true },
            Evidence::Sum { expected, .. } => Lawful { sums: each_once(expected), may_be_rejected },
            Evidence::Output { expected, .. } => match expected.as_slice() {
                [state] if !may_be_rejected => Lawful { sums: vec![state.sum], may_be_rejected },
                _ => return None,
            },
            _ => return None,
        };
        let is_known = lawful.only().is_some() || (self.is_certain && (1..=MOST_SUMS).contains(&lawful.sums.len()));
        is_known.then_some(lawful)
    }

    /// How the oracle is told of the answer to a step.
    fn answer(&self, token: Token, step: &Step) -> EventKind {
        match step.flaw() {
            Some(flaw) => error(step.request, flaw.rejection().to_owned()),
            None => answer(step.request, self.lawful[token].as_ref().and_then(Lawful::only)),
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

/// The sums without those that are there already.
fn each_once(sums: Vec<Number>) -> Vec<Number> {
    sums.into_iter().fold(Vec::new(), |mut all, sum| {
        if !all.contains(&sum) {
            all.push(sum);
        }
        all
    })
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
