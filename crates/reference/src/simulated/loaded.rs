//! The model of a simulated server as it was loaded once: its scheduler, its instances, and what they execute.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use super::{Answer, Refused, outputs};
use crate::{
    execution::{Executed, Instance, Ticket},
    fault::{Fault, Faults},
    refusal::{FAILING, instance_failed, model_error},
    scheduler::{Batch, Event, Moment, Request, Scheduler},
    served::LATE_PART,
    spec::Spec,
    transitions::Watch,
};

#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) spec: Arc<Spec>,
    faults: Arc<Faults>,
    /// A request's reply is what the caller knows it by.
    pub(super) scheduler: Scheduler<Ticket<usize>>,
    instances: Vec<Instance>,
    /// By the time at which they are executed.
    executing: BTreeMap<(Moment, u32), Batch<Ticket<usize>>>,
    /// Instances that are held up although their batch is answered (a fault), by the time at which they go on.
    held_up: BTreeSet<(Moment, u32)>,
    /// When the execution of each instance is nearly over, and when it is over (kept for a fault alone).
    nearly_over: BTreeMap<u32, Range<Moment>>,
    /// An instance failed while it executed this batch, whose states are lost.
    fails: Option<(Moment, u32)>,
    /// What follows from what was done since it went on last.
    events: Vec<Event<Ticket<usize>>>,
}

impl Loaded {
    /// The model as it is when it was just loaded.
    pub(super) fn new(spec: &Arc<Spec>, faults: &Arc<Faults>) -> Self {
        let mut loaded = Self {
            spec: Arc::clone(spec),
            faults: Arc::clone(faults),
            scheduler: Scheduler::new(spec.settings.clone(), Arc::clone(faults)),
            instances: Vec::new(),
            executing: BTreeMap::new(),
            held_up: BTreeSet::new(),
            nearly_over: BTreeMap::new(),
            fails: None,
            events: Vec::new(),
        };
        loaded.add_instances(spec.settings.instances);
        loaded
    }

    fn add_instances(&mut self, in_all: u32) {
        let there = u32::try_from(self.instances.len()).expect("instances are few");
        let instance = |index| Instance::new(index, Arc::clone(&self.spec), Arc::clone(&self.faults));
        self.instances.extend((there..in_all).map(instance));
    }

    /// Takes a configuration that differs in the number of instances alone: sequences stay. Returns whether it is one.
    pub(super) fn resize(&mut self, spec: &Arc<Spec>) -> bool {
        let mut same = self.spec.config.clone();
        same.instance_group.clone_from(&spec.config.instance_group);
        if same != spec.config {
            return false;
        }
        self.spec = Arc::clone(spec);
        let in_all = self.scheduler.resize(spec.settings.instances);
        self.add_instances(in_all);
        true
    }

    /// Whether nothing of it is left, where it gets no new sequences.
    pub(super) fn is_gone(&self) -> bool {
        self.executing.is_empty() && self.held_up.is_empty() && self.scheduler.is_idle() && self.scheduler.live() == 0
    }

    /// Some requests were cancelled.
    pub(super) fn cancelled(&mut self, now: Moment) {
        if self.nearly_over.values().any(|span| span.contains(&now)) {
            self.scheduler.cancelled_late();
        } else {
            self.scheduler.cancelled();
        }
    }

    /// Its first instance fails, and is back at once, without the states that it kept. What the server keeps is there.
    pub(super) fn fail(&mut self) {
        let keeps_state = self.spec.states.is_empty();
        let is_executing = self.scheduler.failed(FAILING, keeps_state, &mut self.events);
        let its = self.executing.keys().find(|(_, instance)| *instance == FAILING).copied();
        self.fails = its.filter(|_| is_executing && keeps_state);
        if self.fails.is_none() {
            self.instances[FAILING as usize].restart();
        }
    }

    /// Its instances lose all states before their next execution.
    pub(super) fn reset_states(&mut self) {
        let in_all = u32::try_from(self.instances.len()).expect("instances are few");
        self.instances.clear();
        self.add_instances(in_all);
    }

    /// Does what is due: see [`super::Simulated::advance`].
    pub(super) fn advance(
        &mut self,
        now: Moment,
        mut watch: Option<&mut Watch>,
        more: &mut impl FnMut() -> Duration,
        answers: &mut Vec<(usize, Answer)>,
    ) {
        while let Some(((at, instance), batch)) = self.executing.pop_first() {
            if at > now {
                self.executing.insert((at, instance), batch);
                break;
            }
            let executed = self.execute((at, instance), batch);
            self.answer(executed, watch.as_deref_mut(), answers);
            match self.faults.holds_up(Fault::LateRelease) {
                Some(hold) => _ = self.held_up.insert((now + hold, instance)),
                None => self.scheduler.finished(instance),
            }
        }
        while let Some((at, instance)) = self.held_up.first().copied().filter(|(at, _)| *at <= now) {
            self.held_up.remove(&(at, instance));
            self.scheduler.finished(instance);
        }
        let mut events = std::mem::take(&mut self.events);
        self.scheduler.advance(now, &mut events);
        if let Some(watch) = watch {
            for (id, seat, crowd) in self.scheduler.reaped() {
                watch.reaped(&id, seat, crowd);
            }
            for event in &events {
                watch.sees(event);
            }
        }
        for event in events.drain(..) {
            match event {
                Event::Execute { instance, batch } => self.begin((instance, batch), now, more),
                Event::Reject(rejection, Request { id, payload, .. }) => {
                    let status = rejection.status(&self.spec.config.name, &id);
                    answers.push((payload.reply, Err(status.into())));
                }
            }
        }
        self.events = events;
    }

    fn begin(
        &mut self,
        (instance, batch): (u32, Batch<Ticket<usize>>),
        now: Moment,
        more: &mut impl FnMut() -> Duration,
    ) {
        let parameters = &self.spec.parameters;
        let usual = parameters.execution * parameters.iterations;
        if self.faults.has(Fault::LeakSlotAtLateCancel) {
            let late = now + usual / LATE_PART * (LATE_PART - 1);
            self.nearly_over.insert(instance, late..now + usual);
        }
        let held_up = self.faults.holds_up(Fault::SlowExecution).unwrap_or_default();
        self.executing.insert((now + usual + more() + held_up, instance), batch);
    }

    fn execute(&mut self, (at, instance): (Moment, u32), batch: Batch<Ticket<usize>>) -> Vec<Executed<usize>> {
        let its = &mut self.instances[instance as usize];
        if self.fails.take_if(|fails| *fails == (at, instance)).is_some() {
            its.restart();
            return Instance::fail(batch, &instance_failed(&self.spec.config.name));
        }
        its.execute(batch)
    }

    fn answer(
        &self,
        executed: Vec<Executed<usize>>,
        mut watch: Option<&mut Watch>,
        answers: &mut Vec<(usize, Answer)>,
    ) {
        for Executed { request, outcome, .. } in executed {
            if let Some(watch) = &mut watch {
                watch.answered(request.payload.reply);
            }
            let spoiled = self.faults.happens(Fault::ModelError).then(model_error);
            let responses = spoiled.map_or(outcome, Err);
            let responses = responses.map(|all| all.into_iter().map(outputs).collect());
            answers.push((request.payload.reply, responses.map_err(Refused::from)));
        }
    }

    /// When something is due.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let executed = self.executing.first_key_value().map(|((at, _), _)| *at);
        let held_up = self.held_up.first().map(|(at, _)| *at);
        executed.into_iter().chain(held_up).chain(self.scheduler.next_wake()).min()
    }
}
