//! A model that is served: its scheduler, driven by the clock, and its instances, each a task.

mod calling;
mod instances;

use std::{
    collections::BTreeMap,
    iter,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};

use tonic::Status;

pub(super) use self::instances::LATE_PART;
use super::{
    ensemble::Passage,
    execution::{Instance, Ticket},
    fault::{Fault, Faults},
    metrics::Metrics,
    model::Outputs,
    refusal::FAILING,
    scheduler::{Batch, Event, Moment, Rejection, Request, Scheduler, SequenceId},
    spec::Spec,
    statistics::{Reason, Statistics},
    stream::Outbox,
    tasks::Tasks,
};
use wire::proto::{ModelInferResponse, ModelStatistics};

/// What a request that waits is taken to need, in bytes.
const REQUEST_BYTES: u64 = 512;
/// The most that the fault of growing memory keeps: enough to be seen, and not to take the machine down.
const LEAKED_PIECES_MAX: usize = 1024;

pub(super) type Asked = Request<Ticket<Reply>>;
type Asks = Batch<Ticket<Reply>>;

/// What a call is answered with.
pub(super) type Answer = Result<ModelInferResponse, Status>;
/// All that a request is answered with, in its order.
pub(super) type Answers = Result<Vec<ModelInferResponse>, Status>;

/// The way back to a client.
#[derive(Debug)]
pub(super) enum Reply {
    /// The one answer of a call.
    Call(oneshot::Sender<Answer>),
    /// A place in the order of a stream's answers: the request's number on it.
    Stream { outbox: Arc<Outbox>, place: u64 },
    /// What a step of an ensemble gives.
    Step(Arc<Passage>),
}

impl Reply {
    /// Answers a request that was accepted.
    fn send(self, model: &str, request_id: String, answers: Answers) {
        match self {
            // The client may be gone. One answer is all that a call can have, and what it goes to has no other number.
            Self::Call(sender) => _ = sender.send(answers.map(|mut all| all.pop().unwrap_or_default())),
            Self::Stream { outbox, place } => outbox.answer(place, model, request_id, answers),
            Self::Step(passage) => passage.answered(answers),
        }
    }
}

#[derive(Debug)]
pub(super) struct Served {
    pub(super) name: String,
    pub(super) version: i64,
    spec: RwLock<Arc<Spec>>,
    /// The model that it calls, where it calls one and was asked for something.
    called: RwLock<Option<Arc<Served>>>,
    faults: Arc<Faults>,
    tasks: Tasks,
    epoch: Instant,
    core: Mutex<Core>,
    /// The timer has something to look at.
    changed: Notify,
}

#[derive(Debug)]
struct Core {
    scheduler: Scheduler<Ticket<Reply>>,
    statistics: Statistics,
    /// One for each instance; none when the model is not served any more.
    instances: Vec<mpsc::UnboundedSender<Asks>>,
    /// Batches that are executed.
    executing: u32,
    /// When the execution of each instance is nearly over, and when it is over (kept for a fault alone).
    nearly_over: BTreeMap<u32, Range<Moment>>,
    /// Requests that wait to be executed.
    pending: u64,
    /// When the timer wakes.
    armed: Option<Moment>,
    /// That an instance failed which has not executed anything since.
    failed: Option<Failed>,
    stopping: bool,
    /// How often the states were reset, by a fault.
    resets: u64,
    leaked: Vec<Vec<u8>>,
}

/// How an instance failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// While it executed a batch, which fails.
    WithItsBatch,
    /// While it executed none, or one that is executed again.
    Alone,
}

impl Served {
    /// Begins to serve a model as such tasks, whoever asks for it first: the runtime of a front end may end before.
    pub(super) fn start(spec: &Arc<Spec>, faults: &Arc<Faults>, tasks: &Tasks) -> Arc<Self> {
        let scheduler = Scheduler::new(spec.settings.clone(), Arc::clone(faults));
        let core = Core {
            scheduler,
            statistics: Statistics::default(),
            instances: Vec::new(),
            executing: 0,
            nearly_over: BTreeMap::new(),
            pending: 0,
            armed: None,
            failed: None,
            stopping: false,
            resets: 0,
            leaked: Vec::new(),
        };
        let served = Arc::new(Self {
            name: spec.config.name.clone(),
            version: spec.version,
            spec: RwLock::new(Arc::clone(spec)),
            called: RwLock::default(),
            faults: Arc::clone(faults),
            tasks: tasks.clone(),
            epoch: Instant::now(),
            core: Mutex::new(core),
            changed: Notify::new(),
        });
        served.start_instances(&mut served.core(), spec.settings.instances, spec);
        tasks.spawn(Arc::clone(&served).run_timer());
        served
    }

    /// Starts instances until there are so many. An ensemble has none: its steps are other models.
    fn start_instances(self: &Arc<Self>, core: &mut Core, count: u32, spec: &Arc<Spec>) {
        let count = if spec.steps.is_empty() { count } else { 0 };
        let first = u32::try_from(core.instances.len()).expect("instances are few");
        for index in first..count {
            let (sender, batches) = mpsc::unbounded_channel();
            core.instances.push(sender);
            let instance = Instance::new(index, Arc::clone(spec), Arc::clone(&self.faults));
            self.tasks.spawn(Arc::clone(self).run_instance(index, instance, batches));
        }
    }

    pub(super) fn spec(&self) -> Arc<Spec> {
        Arc::clone(&self.spec.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a configuration that differs in the number of instances, and in which versions serve, alone: sequences and counts stay.
    /// Returns whether it is one.
    pub(super) fn resize(self: &Arc<Self>, spec: &Arc<Spec>) -> bool {
        let current = self.spec();
        let mut same = current.config.clone();
        same.instance_group.clone_from(&spec.config.instance_group);
        same.version_policy.clone_from(&spec.config.version_policy);
        if same != spec.config {
            return false;
        }
        *self.spec.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(spec);
        let core = &mut *self.core();
        if core.stopping {
            return false;
        }
        let count = core.scheduler.resize(spec.settings.instances);
        self.start_instances(core, count, spec);
        true
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time as the scheduler counts it.
    pub(super) fn now(&self) -> Moment {
        self.epoch.elapsed()
    }

    /// Hands a request to the scheduler.
    ///
    /// # Errors
    /// When it is rejected at once; nothing else is then said of it.
    pub(super) fn submit(&self, mut request: Asked) -> Result<(), Status> {
        let now = self.now();
        // A request to an iterative model is a whole sequence.
        request.end |= self.spec().is_iterative;
        {
            let mut core = self.core();
            if core.instances.is_empty() {
                return Err(Rejection::Stopping.status(&self.name, &request.id));
            }
            if request.start && core.leaked.len() < LEAKED_PIECES_MAX && self.faults.happens(Fault::LeakMemory) {
                core.leaked.push(vec![1; 1 << 20]);
            }
            let id = request.id.clone();
            core.scheduler.enqueue(request, now).map_err(|rejection| rejection.status(&self.name, &id))?;
            core.pending += 1;
        }
        self.advance();
        Ok(())
    }

    /// Its first instance fails, and is back at once, without the states that it kept. What the server keeps is there.
    pub(super) fn fail(&self) {
        let keeps_state = self.spec().states.is_empty();
        self.advance_after(|core, events| {
            if !core.instances.is_empty() {
                let is_executing = core.scheduler.failed(FAILING, keeps_state, events);
                core.failed = Some(if is_executing && keeps_state { Failed::WithItsBatch } else { Failed::Alone });
            }
        });
    }

    /// Some requests were cancelled: looks for them soon.
    pub(super) fn cancelled(&self) {
        let now = self.now();
        {
            let core = &mut *self.core();
            if core.nearly_over.values().any(|span| span.contains(&now)) {
                core.scheduler.cancelled_late();
            } else {
                core.scheduler.cancelled();
            }
        }
        self.advance();
    }

    pub(super) fn disconnected(&self, id: &SequenceId) {
        self.core().scheduler.disconnected(id);
    }

    /// Ends serving: no START is accepted, and when the last sequence is over or reaped the instances go.
    pub(super) fn stop(&self) {
        {
            let mut core = self.core();
            core.stopping = true;
            core.scheduler.stop();
        }
        self.advance();
    }

    /// Whether all is done after [`Self::stop`].
    pub(super) fn is_gone(&self) -> bool {
        self.core().instances.is_empty()
    }

    /// Whether a sequence is under way.
    pub(super) fn is_in_use(&self) -> bool {
        let core = self.core();
        core.pending > 0 || core.scheduler.live() > 0
    }

    /// Whether a sequence has this correlation ID.
    pub(super) fn has_sequence(&self, id: &SequenceId) -> bool {
        self.core().scheduler.is_live(id)
    }

    /// Lets each instance forget all states before its next execution.
    pub(super) fn reset_states(&self) {
        self.core().resets += 1;
    }

    pub(super) fn statistics(&self) -> ModelStatistics {
        self.core().statistics.report(&self.name, self.version)
    }

    pub(super) fn says_ready(&self) -> bool {
        !(self.core().statistics.executions > 0 && self.faults.happens(Fault::SayNotReady))
    }

    pub(super) fn metrics(&self) -> Metrics {
        let core = self.core();
        // A request is some hundred bytes; what a fault keeps is all else that can grow.
        let leaked: usize = core.leaked.iter().map(Vec::len).sum();
        let memory = core.pending * REQUEST_BYTES + leaked as u64;
        Metrics { counts: core.statistics.clone(), pending: core.pending, memory }
    }

    /// Does what the scheduler has due.
    fn advance(&self) {
        self.advance_after(|_, _| {});
    }

    /// Does something first, and then what the scheduler has due.
    fn advance_after(&self, first: impl FnOnce(&mut Core, &mut Vec<Event<Ticket<Reply>>>)) {
        let mut rejected = Vec::new();
        let now = self.now();
        {
            let core = &mut *self.core();
            let mut events = Vec::new();
            first(core, &mut events);
            core.scheduler.advance(now, &mut events);
            for event in events {
                match event {
                    Event::Reject(rejection, request) => {
                        core.pending -= 1;
                        core.statistics.failed(now.saturating_sub(request.arrived), rejection.into());
                        rejected.push((rejection, request));
                    }
                    Event::Execute { instance, batch } => core.hand_out(instance, batch),
                }
            }
            if core.stopping && core.executing == 0 && core.scheduler.is_idle() && core.scheduler.live() == 0 {
                core.instances.clear();
                self.changed.notify_one();
            }
            let wake = core.scheduler.next_wake();
            if wake.is_some_and(|wake| core.armed.is_none_or(|armed| wake < armed)) {
                core.armed = wake;
                self.changed.notify_one();
            }
        }
        for (rejection, Request { id, payload, .. }) in rejected {
            payload.reply.send(&self.name, payload.request_id, Err(rejection.status(&self.name, &id)));
        }
    }

    async fn run_timer(self: Arc<Self>) {
        loop {
            let armed = {
                let core = self.core();
                if core.instances.is_empty() {
                    return;
                }
                core.armed
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(self.epoch + armed.unwrap_or_default()), if armed.is_some() => {
                    self.core().armed = None;
                    self.advance();
                }
            }
        }
    }

    /// Answers a request that went through all steps of an ensemble, or failed in one of them.
    pub(super) fn passed(&self, request: Asked, outcome: Result<Outputs, Status>) {
        let now = self.now();
        let epoch_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let request_arrived = request.arrived;
        match &outcome {
            Ok(_) => self.core().statistics.executed(
                1,
                iter::once((request_arrived, true)),
                &(request_arrived..now),
                u64::try_from(epoch_ms).unwrap_or(u64::MAX),
            ),
            Err(_) => self.core().statistics.failed(now.saturating_sub(request_arrived), Reason::Other),
        }
        let Ticket { request_id, version, reply, .. } = request.payload;
        let answers = outcome.map(|outputs| vec![self.response(&request_id, version, outputs)]);
        reply.send(&self.name, request_id, answers);
    }

    /// The faults that are planted.
    pub(super) fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.faults)
    }
}

impl Core {
    fn hand_out(&mut self, instance: u32, batch: Asks) {
        self.executing += 1;
        self.pending -= batch.iter().filter(|row| row.request.is_some()).count() as u64;
        // The instance lives as long as its sender.
        if let Some(sender) = self.instances.get(instance as usize) {
            let _ = sender.send(batch);
        }
    }
}

#[cfg(test)]
mod tests;
