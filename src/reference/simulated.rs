//! A model that is served in virtual time, for the oracle's tests: scheduler, execution and model as they are, without clock,
//! socket and threads.

use std::{
    collections::{BTreeMap, btree_map::OccupiedEntry},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use super::{
    builtin::{ModelOptions, configs},
    execution::{HasInputs, Inputs, Instance},
    fault::Faults,
    request::SequenceId,
    scheduler::{Batch, Event, HoldUntil, Moment, Refusal, Request, Scheduler},
    spec::Spec,
    tensor::Tensor,
};

/// The server, with one model.
#[derive(Debug)]
pub(crate) struct Simulated {
    scheduler: Scheduler<Ticket>,
    instances: Vec<Instance>,
    /// By the time at which they are executed.
    executing: BTreeMap<(Moment, u32), Batch<Ticket>>,
}

#[derive(Debug)]
struct Ticket {
    name: usize,
    inputs: Inputs,
}

impl HasInputs for Ticket {
    fn inputs(&mut self) -> &mut Inputs {
        &mut self.inputs
    }
}

/// A step as the server gets it.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    /// What the caller knows it by.
    pub(crate) name: usize,
    pub(crate) id: u64,
    pub(crate) start: bool,
    pub(crate) end: bool,
    pub(crate) value: i32,
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Sum(i32),
    NoStart,
    /// Neither outputs nor an error text.
    Cancelled,
}

impl Simulated {
    pub(crate) fn new(model: &str, options: &ModelOptions, faults: Faults) -> Self {
        let config = configs(options).into_iter().find(|config| config.name == model).expect("a built-in model");
        let spec = Arc::new(Spec::new(config, HoldUntil::default()).expect("it is right"));
        let faults = Arc::new(faults);
        let instance = |_| Instance::new(Arc::clone(&spec), Arc::clone(&faults));
        Self {
            scheduler: Scheduler::new(spec.settings.clone(), Arc::clone(&faults)),
            instances: (0..spec.settings.instances).map(instance).collect(),
            executing: BTreeMap::new(),
        }
    }

    /// Takes a step in; its answer where it is refused. Its sequence's idle limit begins `lag` late.
    pub(crate) fn submit(&mut self, step: Submitted, now: Moment, lag: Duration) -> Option<Answer> {
        let request = Request {
            id: SequenceId::Number(step.id),
            start: step.start,
            end: step.end,
            batch_size: 1,
            timeout: None,
            cancelled: step.cancelled,
            shape: [1, 1].into(),
            payload: Ticket {
                name: step.name,
                inputs: vec![("INPUT".into(), Tensor::int32(vec![1, 1], [step.value]))],
            },
        };
        let refused = self.scheduler.enqueue(request, now + lag).err()?;
        assert_eq!(refused.0, Refusal::NoStart);
        Some(Answer::NoStart)
    }

    /// Some requests were cancelled.
    pub(crate) fn cancelled(&mut self) {
        self.scheduler.cancelled();
    }

    /// Does what is due; an execution that begins takes as long as `takes` says. Answers come out by name.
    pub(crate) fn advance(
        &mut self,
        now: Moment,
        mut takes: impl FnMut() -> Duration,
        answers: &mut Vec<(usize, Answer)>,
    ) {
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
                Event::Refuse(refusal, request) => {
                    assert_eq!(refusal, Refusal::Cancelled);
                    answers.push((request.payload.name, Answer::Cancelled));
                }
            }
        }
    }

    fn execute(&mut self, instance: u32, batch: Batch<Ticket>, answers: &mut Vec<(usize, Answer)>) {
        let slots: Vec<_> = batch.rows.iter().filter(|row| row.request.is_some()).map(|row| row.slot).collect();
        for executed in self.instances[instance as usize].execute(batch) {
            let outputs = executed.outcome.expect("the model does not fail");
            let sum = outputs.first().and_then(|(_, tensor)| tensor.int32s().next()).expect("an output");
            answers.push((executed.request.payload.name, Answer::Sum(sum)));
        }
        for slot in slots {
            self.scheduler.released(instance, slot);
        }
        self.scheduler.finished(instance);
    }

    /// When something is due.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        let executed = self.executing.keys().next().map(|(at, _)| *at);
        executed.into_iter().chain(self.scheduler.next_wake()).min()
    }

    /// Whether a step without START would be accepted.
    pub(crate) fn is_live(&self, id: u64) -> bool {
        self.scheduler.is_live(&SequenceId::Number(id))
    }
}
