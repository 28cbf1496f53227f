//! A model that is served in virtual time, for simulations: scheduler, execution and model as they are, without clock,
//! socket and threads.

use std::{
    collections::{BTreeMap, btree_map::OccupiedEntry},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use super::{
    builtin::configs,
    execution::{Instance, Ticket, Wants},
    fault::Faults,
    scheduler::{Batch, Event, Moment, Rejection, Request, Scheduler, SequenceId},
    spec::{Files, Spec},
    tensor::{Datatype, Tensor},
};
use models::ModelOptions;

/// What the elements of what the model saw take.
pub const SEEN_BYTES: usize = 5 * size_of::<i64>();

/// The server, with one model.
#[derive(Debug)]
pub struct Simulated {
    /// A request's reply is what the caller knows it by.
    scheduler: Scheduler<Ticket<usize>>,
    instances: Vec<Instance>,
    /// By the time at which they are executed.
    executing: BTreeMap<(Moment, u32), Batch<Ticket<usize>>>,
}

/// A step as the server gets it.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// What the caller knows it by.
    pub name: usize,
    /// Its correlation ID.
    pub id: u64,
    /// Whether it carries START.
    pub start: bool,
    /// Whether it carries END.
    pub end: bool,
    /// What it adds.
    pub value: i32,
    /// It has two elements in one batch.
    pub is_flawed: bool,
    /// Its time limit, if it has one.
    pub timeout: Option<Duration>,
    /// Set when its client cancels it.
    pub cancelled: Arc<AtomicBool>,
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The sum, and the elements of what the model saw.
    Sum(i32, [u8; SEEN_BYTES]),
    /// Rejected for want of START.
    NoStart,
    /// Rejected for its batch size.
    Flawed,
    /// Rejected because its sequence waited for too long.
    Expired,
    /// Neither outputs nor an error text.
    Cancelled,
}

impl Simulated {
    /// A server of this built-in model.
    pub fn new(model: &str, options: &ModelOptions, faults: Faults) -> Self {
        let config = configs(options).into_iter().find(|config| config.name == model).expect("a built-in model");
        let spec = Arc::new(Spec::new(config, &Files::new()).expect("it is right"));
        let faults = Arc::new(faults);
        let instance = |index| Instance::new(index, Arc::clone(&spec), Arc::clone(&faults));
        Self {
            scheduler: Scheduler::new(spec.settings.clone(), Arc::clone(&faults)),
            instances: (0..spec.settings.instances).map(instance).collect(),
            executing: BTreeMap::new(),
        }
    }

    /// Takes a step in; its answer where it is rejected. Its sequence's idle limit begins `lag` late.
    pub fn submit(&mut self, step: Submitted, now: Moment, lag: Duration) -> Option<Answer> {
        let data = step.value.to_le_bytes().to_vec();
        let request = Request {
            id: SequenceId::Number(step.id),
            start: step.start,
            end: step.end,
            goes_on: false,
            batch_size: if step.is_flawed { 2 } else { 1 },
            timeout: step.timeout,
            cancelled: step.cancelled,
            shape: [1, 1].into(),
            arrived: Moment::ZERO,
            payload: Ticket {
                version: crate::FIRST_VERSION,
                request_id: String::new(),
                inputs: vec![("INPUT".into(), Tensor { datatype: Datatype::Int32, shape: vec![1, 1], data })],
                wants: Wants::ALL,
                reply: step.name,
            },
        };
        let rejected = self.scheduler.enqueue(request, now + lag).err()?;
        Some(match rejected {
            Rejection::NoStart => Answer::NoStart,
            Rejection::BatchSize => Answer::Flawed,
            other => unreachable!("{other:?} was given no cause for"),
        })
    }

    /// Some requests were cancelled.
    pub fn cancelled(&mut self) {
        self.scheduler.cancelled();
    }

    /// Does what is due; an execution that begins takes as long as `takes` says. Answers come out by name.
    pub fn advance(&mut self, now: Moment, mut takes: impl FnMut() -> Duration, answers: &mut Vec<(usize, Answer)>) {
        while let Some(((_, instance), batch)) =
            self.executing.first_entry().filter(|e| e.key().0 <= now).map(OccupiedEntry::remove_entry)
        {
            self.execute(instance, batch, answers);
        }
        let mut events = Vec::new();
        self.scheduler.advance(now, &mut events);
        for event in events {
            match event {
                Event::Execute { instance, batch } => _ = self.executing.insert((now + takes(), instance), batch),
                Event::Reject(rejection, request) => {
                    let answer = if rejection == Rejection::Expired { Answer::Expired } else { Answer::Cancelled };
                    answers.push((request.payload.reply, answer));
                }
            }
        }
    }

    fn execute(&mut self, instance: u32, batch: Batch<Ticket<usize>>, answers: &mut Vec<(usize, Answer)>) {
        for executed in self.instances[instance as usize].execute(batch) {
            let outputs = executed.outcome.expect("the model does not fail").pop().expect("a response");
            let [(_, sum), (_, seen)] = outputs.try_into().expect("both outputs");
            let sum = i32::from_le_bytes(*sum.data.first_chunk().expect("an element"));
            answers
                .push((executed.request.payload.reply, Answer::Sum(sum, seen.data.try_into().expect("its elements"))));
        }
        self.scheduler.finished(instance);
    }

    /// When something is due.
    pub fn next_wake(&self) -> Option<Moment> {
        let executed = self.executing.keys().next().map(|(at, _)| *at);
        executed.into_iter().chain(self.scheduler.next_wake()).min()
    }

    /// Whether a step without START would be accepted.
    pub fn is_live(&self, id: u64) -> bool {
        self.scheduler.is_live(&SequenceId::Number(id))
    }
}
