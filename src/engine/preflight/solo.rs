//! A sequence that is alone, before the run: whether the model computes at all what it is taken to compute.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Preflight;
use crate::{
    arithmetic::Arithmetic,
    conversation::{Connection, Lane},
    engine::{record::form, slots::free_ids, threads::rules},
    event::{ContextId, Cut, Event, EventKind},
    history::Entry,
    number::Number,
    oracle::{
        Oracle, Outcome, Rules, Settled, Violation,
        diagnosis::{Known, explain},
    },
    scenario::Scenario,
    sequence::{CorrelationId, Pattern, RequestId, Step},
    transport::{Access, Client, Incoming, Link, Message, RequestTemplate, Stream},
};

/// What the first steps of the sequence carry; the last one makes the sum 0, as it is where nothing was sent, so that the run meets no
/// state that it does not know of. They are odd, so that of few bits none is 0.
const VALUES: [i64; 2] = [1_009, 20_011];
/// How often it is tried: a server whose answers differ from try to try is not one that computes something else.
const TRIES: u64 = 2;

impl Preflight {
    /// Sends the model a sequence while it has nothing else to do, and takes from its answers which version answers. Returns what a
    /// correct server would not have done.
    ///
    /// # Errors
    /// Where no answer fits what the model is taken to compute, and a second try is answered alike: it computes something else.
    pub(in crate::engine) async fn try_alone(
        &mut self,
        client: &Client,
        scenario: &Scenario,
        access: &Access,
    ) -> Result<Vec<Violation>, String> {
        let slots = self.model.most_slots().unwrap_or(0);
        let Some(first_id) = free_ids(scenario, slots, TRIES) else { return Ok(Vec::new()) };
        let known = Known::of(&self.model);
        let (mut violations, mut before) = (Vec::new(), None);
        for number in 0..TRIES {
            let id = CorrelationId(first_id.checked_add(number).expect("there is room for every try"));
            let mut solo = Solo::new(self, scenario, id, number);
            solo.hold(client, access).await?;
            let (answers, told, is_settled) = (solo.answers(), solo.version.take(), !solo.settled.is_empty());
            violations.append(&mut solo.explained(&known));
            if number == 0 && is_settled {
                // Where metadata and answers tell different ones, one of them is wrong. Not every server tells it in its answers.
                self.model.version = told.and_then(|told| self.model.version.take().or(Some(told)));
            }
            let is_other = answers.len() == self.solo_steps() && !fit(&self.model.arithmetic, id, &answers);
            let numbers: Vec<_> = answers.into_iter().map(|(_, answer)| answer).collect();
            if !is_other || before.as_ref().is_some_and(|before| *before != numbers) {
                return Ok(violations);
            }
            before = Some(numbers);
        }
        Err(self.computes_something_else(CorrelationId(first_id), &before.unwrap_or_default()))
    }

    /// Of an iterative model each request is a whole sequence.
    fn solo_steps(&self) -> usize {
        if self.model.arithmetic.answers.are_iterative() { 1 } else { VALUES.len() + 1 }
    }

    fn computes_something_else(&self, id: CorrelationId, answers: &[Number]) -> String {
        let (name, arithmetic) = (&self.model.name, &self.model.arithmetic);
        let list = |numbers: &mut dyn Iterator<Item = Number>| {
            numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
        };
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        let steps: Vec<_> = (0..answers.len()).map(|step| self.solo_step(request, step)).collect();
        let right = expected(arithmetic, id, &steps);
        let formula = arithmetic.formula.name();
        format!(
            "model '{name}' does not compute {formula}: {} were sent in a sequence that was alone, the answers were {} both times, and should have \
             been {}; either the model computes something else (take another one, -m, or tell its formula, --formula), or the server \
             gets every step wrong",
            list(&mut steps.iter().map(|step| step.value)),
            list(&mut answers.iter().copied()),
            list(&mut right.into_iter()),
        )
    }

    fn solo_step(&self, first: RequestId, index: usize) -> Step {
        let (arithmetic, last) = (&self.model.arithmetic, self.solo_steps() - 1);
        let number = |index| u32::try_from(index).expect("there are few");
        let own = VALUES.map(|value| arithmetic.number(value));
        let all = own.iter().fold(own[0].zero(), |sum, value| sum.wrapping_add(*value));
        Step {
            request: RequestId { step: number(index), ..first },
            pattern: Pattern::Valid,
            start: index == 0,
            end: index == last && !arithmetic.answers.are_iterative(),
            value: own.get(index).copied().unwrap_or_else(|| all.zero().wrapping_sub(all)),
            of: number(last + 1),
            special: None,
        }
    }
}

/// The answers that the steps should have.
fn expected(arithmetic: &Arithmetic, id: CorrelationId, steps: &[Step]) -> Vec<Number> {
    let mut sum = arithmetic.number(0);
    let mut expected = |step: &Step| {
        sum = sum.wrapping_add(step.value);
        arithmetic.stateless_answer(step, id).unwrap_or_else(|| arithmetic.answer(sum, step, id))
    };
    steps.iter().map(&mut expected).collect()
}

/// Whether answers fit in some part what the model is taken to compute, or a server that computes it and has a fault: one of them is right
/// (the last one, of several, is too easily), or differs from the one before as it has to, or all steps were executed twice or not at all.
fn fit(arithmetic: &Arithmetic, id: CorrelationId, answers: &[(Step, Number)]) -> bool {
    let steps: Vec<_> = answers.iter().map(|(step, _)| *step).collect();
    let right = expected(arithmetic, id, &steps);
    let telling = answers.len().min(VALUES.len());
    if answers[..telling].iter().zip(&right).any(|((_, answer), right)| answer == right) {
        return true;
    }
    if arithmetic.formula.is_stateless() {
        return false;
    }
    let sums: Vec<_> = answers.iter().map(|(step, answer)| arithmetic.sum(*answer, step, id)).collect();
    let right: Vec<_> = right.iter().zip(&steps).map(|(right, step)| arithmetic.sum(*right, step, id)).collect();
    let rises = sums.windows(2).zip(&steps[1..]).any(|(sums, step)| sums[1] == sums[0].wrapping_add(step.value));
    rises
        || sums.iter().zip(&steps).all(|(sum, step)| *sum == step.value.zero())
        || sums.iter().zip(&right).all(|(sum, right)| *sum == right.wrapping_add(*right))
}

/// One try.
struct Solo<'p> {
    preflight: &'p Preflight,
    scenario: &'p Scenario,
    id: CorrelationId,
    /// Where it is told to have happened: behind all workers.
    place: ContextId,
    first: RequestId,
    oracle: Oracle,
    rules: Rules,
    began: Instant,
    entries: Vec<Entry>,
    violations: Vec<Violation>,
    settled: Vec<Settled>,
    /// The version that the first answer told.
    version: Option<String>,
}

impl<'p> Solo<'p> {
    fn new(preflight: &'p Preflight, scenario: &'p Scenario, id: CorrelationId, number: u64) -> Self {
        let place = ContextId { worker: scenario.workers(), context: 0 };
        let sequence = u32::try_from(number).expect("there are few tries");
        let rules = rules(scenario, preflight);
        Self {
            preflight,
            scenario,
            id,
            place,
            first: RequestId { worker: place.worker, context: place.context, sequence, step: 0 },
            oracle: Oracle::new(rules.clone(), 1, 1, |_| (id, scenario.correlation_ids.form)),
            rules,
            began: Instant::now(),
            entries: Vec::new(),
            violations: Vec::new(),
            settled: Vec::new(),
            version: None,
        }
    }

    /// Holds the sequence, as far as the server goes along.
    async fn hold(&mut self, client: &Client, access: &Access) -> Result<(), String> {
        let (scenario, limits) = (self.scenario, &self.preflight.limits);
        let by = self.preflight.looks_go_over(scenario);
        let template = RequestTemplate::of(&self.preflight.model, self.id.on_the_wire(scenario.correlation_ids.form));
        let link = Link::to(&scenario.target.endpoint, access, scenario.limits.connect_ms.duration());
        // What cannot be opened is for the run to tell.
        let Ok(Stream { outgoing, mut incoming }) = link.and_then(|link| Stream::open(&link, by, template)) else {
            return Ok(());
        };
        self.observe(EventKind::Opened(Connection::Own, by));
        for index in 0..self.preflight.solo_steps() {
            let step = self.preflight.solo_step(self.first, index);
            let Some(room) = outgoing.room_now() else { return Ok(()) };
            self.observe(EventKind::Sent(step));
            room.send(step);
            if !self.is_answered(&mut incoming, limits.lost_after, client).await? {
                return Ok(());
            }
        }
        drop(outgoing);
        self.observe(EventKind::HalfClosed);
        match timeout(limits.silence, incoming.next()).await {
            Ok(Message::End) => self.observe(EventKind::Closed),
            Ok(Message::Received(received)) => self.observe(EventKind::Received(received)),
            Ok(Message::Broken(reason)) => self.broke(reason, client).await?,
            Ok(Message::Lapsed(_)) => self.observe(EventKind::Cut(Cut::Lapsed)),
            Err(_) => self.observe(EventKind::NotClosed),
        }
        Ok(())
    }

    /// Waits for the answer to the last step; returns whether another one can follow.
    async fn is_answered(&mut self, incoming: &mut Incoming, limit: Duration, client: &Client) -> Result<bool, String> {
        let before = self.settled.len();
        match timeout(limit, incoming.next()).await {
            Ok(Message::Received(received)) => {
                if let (Ok(response), None) = (&received.result, &self.version) {
                    self.version = Some(response.version.clone()).filter(|version| !version.is_empty());
                }
                self.observe(EventKind::Received(received));
            }
            Ok(Message::Broken(reason)) => self.broke(reason, client).await?,
            Ok(Message::End) => self.broke("the server ended the stream".to_owned(), client).await?,
            Ok(Message::Lapsed(_)) => self.observe(EventKind::Cut(Cut::Lapsed)),
            Err(_) => {
                let part = incoming.unfinished(self.preflight.solo_step(self.first, before).request);
                self.observe(part.map_or(EventKind::GaveUp, EventKind::Received));
            }
        }
        Ok(self.settled.len() > before && self.settled.last().is_some_and(|last| last.outcome == Outcome::Completed))
    }

    /// The stream broke.
    async fn broke(&mut self, reason: String, client: &Client) -> Result<(), String> {
        if client.server_live().await.is_err() {
            return Err(match self.settled.len() {
                0 => format!("the server stopped answering before its first response: {reason}"),
                answered => {
                    format!("the server stopped answering before the run, after {answered} responses: {reason}")
                }
            });
        }
        self.observe(EventKind::Cut(Cut::Broken(reason)));
        Ok(())
    }

    fn observe(&mut self, kind: EventKind) {
        let at = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let event = Event { at, context: self.place, lane: Lane::FIRST, kind };
        self.entries.push(Entry::new(&event, self.id, &form(&self.rules)));
        let ruling = self.oracle.observe(Event { context: ContextId { worker: 0, context: 0 }, ..event });
        self.settled.extend(ruling.settled);
        for mut violation in ruling.violations {
            if let Some(accused) = &mut violation.place {
                accused.worker = self.place.worker;
            }
            violation.sent.push_str(", in a sequence that was alone, before the run");
            self.violations.push(violation);
        }
    }

    /// The steps that were executed, with the numbers that they were answered with.
    fn answers(&self) -> Vec<(Step, Number)> {
        self.settled.iter().filter_map(|settled| Some((settled.step, settled.sum?))).collect()
    }

    /// The violations, with what they may come from.
    fn explained(self, known: &Known) -> Vec<Violation> {
        let Self { violations, entries, .. } = self;
        let explained = |violation| Violation { explanations: explain(&violation, &entries, known), ..violation };
        violations.into_iter().map(explained).collect()
    }
}
