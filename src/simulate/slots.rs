//! The count of the slots after a simulated run: as many sequences as there are slots are opened, and one more has to wait for the first
//! to end.

use std::time::Duration;

use super::{
    client::{Shared, wait},
    nanos,
    world::Message,
};
use crate::probe::slots::{SlotCheck, SlotFinding, Terms};
use oracle::Leak;
use workload::{
    conversation::{Connection, Transport},
    event::{ContextId, Nanos},
    sequence::{Pattern, RequestId, Step},
};

/// What is added; the sum is not looked at.
const VALUE: i64 = 1;
/// So often in the idle limit a sequence that is to stay open gets a step.
const STEPS_IN_AN_IDLE_LIMIT: u64 = 4;

/// The sequences that are opened.
struct Count<'p> {
    world: Shared<'p>,
    terms: Terms,
    open: Vec<Opened>,
    requests: u64,
}

/// A sequence of the count.
struct Opened {
    stream: usize,
    steps: u32,
    /// Whether the last of its steps has no answer.
    waits: bool,
    is_answered: bool,
    /// Whether nothing more is sent of it.
    is_over: bool,
    sent_at: Nanos,
}

/// Why nothing can be said.
struct Void(&'static str);

/// Counts the slots, as soon as what the run left has gone idle. `gone_idle` says how long that takes.
pub(super) async fn count(world: Shared<'_>, terms: Terms, gone_idle: Duration) -> SlotCheck {
    let began = world.borrow().now;
    let mut count = Count { terms, open: Vec::new(), requests: 0, world };
    let from = began + nanos(gone_idle);
    count.until(from).await;
    let finding = count.run().await.unwrap_or_else(|Void(why)| SlotFinding::NotCheckable { why: why.to_owned() });
    let took_us = (count.now() - began) / 1000;
    SlotCheck { finding, requests: count.requests, took_us, server: None }
}

impl Count<'_> {
    fn now(&self) -> Nanos {
        self.world.borrow().now
    }

    async fn until(&self, at: Nanos) {
        let worker = self.world.borrow().helper();
        while self.now() < at {
            wait(&self.world, worker, Some(at)).await;
        }
    }

    async fn run(&mut self) -> Result<SlotFinding, Void> {
        let slots = self.terms.slots;
        for number in 0..slots {
            self.begin(number);
        }
        if !self.answered_within(self.terms.patience).await? {
            return self.leaked().await;
        }
        self.begin(slots);
        let began = self.now();
        if self.answered_within(self.terms.idle_limit / 2).await? {
            return Ok(SlotFinding::ReleasedTwice { slots, within_ms: (self.now() - began) / 1_000_000 });
        }
        self.step(0, true);
        if !self.answered_within(self.terms.patience).await? {
            let seen = Leak::NotHandedOn { waited_ms: self.waited_ms() };
            return Ok(SlotFinding::Leaked { slots, leaked: 1, seen });
        }
        Ok(SlotFinding::AllThere { slots })
    }

    fn waited_ms(&self) -> u64 {
        u64::try_from(self.terms.patience.as_millis()).unwrap_or(u64::MAX)
    }

    async fn leaked(&mut self) -> Result<SlotFinding, Void> {
        let (waited_ms, slots) = (self.waited_ms(), self.terms.slots);
        let unanswered =
            |all: &[Opened]| u32::try_from(all.iter().filter(|its| !its.is_answered).count()).unwrap_or(slots);
        let leaked = unanswered(&self.open);
        if self.terms.stuck && leaked == slots {
            return Err(Void("the server answers nothing"));
        }
        for number in 0..self.open.len() {
            // What waited for too long may be reaped as soon as it has its answer: no other step of it is sent.
            self.open[number].is_over = !self.open[number].is_answered;
            if self.open[number].is_answered {
                self.step(number, true);
            }
        }
        self.answered_within(self.terms.patience).await?;
        let later = Some(leaked - unanswered(&self.open));
        let seen = Leak::Unanswered { open: slots - leaked, leaked, waited_ms, later };
        Ok(SlotFinding::Leaked { slots, leaked, seen })
    }

    fn begin(&mut self, number: u32) {
        let worker = self.world.borrow().helper();
        let its = ContextId { worker, context: number };
        let stream = self.world.borrow_mut().open(its, (Connection::Own, Transport::GrpcStream), None);
        self.open.push(Opened { stream, steps: 0, waits: false, is_answered: false, is_over: false, sent_at: 0 });
        self.step(number as usize, false);
    }

    fn step(&mut self, number: usize, end: bool) {
        let now = self.now();
        let its = &mut self.open[number];
        let context = u32::try_from(number).expect("slots are few");
        let world = &mut *self.world.borrow_mut();
        let request = RequestId { worker: world.helper(), context, sequence: context, step: its.steps };
        let value = world.plan.preflight.model.arithmetic.number(VALUE);
        let start = its.steps == 0;
        let step = Step { request, pattern: Pattern::Valid, start, end, value, of: u32::MAX, special: None };
        (its.waits, its.sent_at, its.steps, its.is_over) = (true, now, its.steps + 1, end);
        self.requests += 1;
        world.send_for_count(its.stream, step, number);
    }

    /// Whether all STARTs are answered within this time. Sequences that have a slot are kept open meanwhile.
    async fn answered_within(&mut self, limit: Duration) -> Result<bool, Void> {
        let deadline = self.now() + nanos(limit);
        let often = (nanos(self.terms.idle_limit) / STEPS_IN_AN_IDLE_LIMIT).max(1);
        let worker = self.world.borrow().helper();
        loop {
            for number in 0..self.open.len() {
                let stream = self.open[number].stream;
                let message = self.world.borrow_mut().take(stream);
                match message {
                    Some(Message::Received(received)) if received.result.is_ok() => {
                        (self.open[number].waits, self.open[number].is_answered) = (false, true);
                    }
                    Some(_) => return Err(Void("a sequence could not be kept open")),
                    None => {}
                }
            }
            if self.open.iter().all(|its| its.is_answered) {
                return Ok(true);
            }
            let now = self.now();
            if now >= deadline {
                return Ok(false);
            }
            for number in 0..self.open.len() {
                let its = &self.open[number];
                if its.is_answered && !its.is_over && !its.waits && now >= its.sent_at + often {
                    self.step(number, false);
                }
            }
            wait(&self.world, worker, Some(deadline.min(now + often))).await;
        }
    }
}
