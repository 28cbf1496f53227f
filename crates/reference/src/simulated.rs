//! A model that is served in virtual time: scheduler, execution and model as they are, without clock, socket and threads.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tonic::{Code, Status};

pub use super::scheduler::SequenceId;
use super::{
    Options, Planted, ServerSetup,
    builtin::configs,
    decode::decode,
    execution::{Executed, Instance, Ticket, Wants},
    fault::{Fault, Faults},
    http::http_status,
    misbehaviour::Misbehaviour,
    model::Outputs,
    refusal::model_error,
    scheduler::{Batch, Event, Moment, Request, Scheduler},
    served::LATE_PART,
    spec::{Files, Spec},
    tensor::{Datatype, Tensor},
    transitions::{Flags, Pair, Watch},
};
use wire::proto::ModelInferRequest;
use workload::seed::Seed;

/// What a server with one model is like.
#[derive(Clone, Debug)]
pub struct Blueprint {
    spec: Arc<Spec>,
    fault_hold: Duration,
}

/// The server, with one model.
#[derive(Debug)]
pub struct Simulated {
    spec: Arc<Spec>,
    /// What each request asks for.
    wants: Wants,
    faults: Arc<Faults>,
    misbehaviour: Misbehaviour,
    /// What becomes of sequences, where somebody wants to know.
    watch: Option<Watch>,
    /// A request's reply is what the caller knows it by.
    scheduler: Scheduler<Ticket<usize>>,
    instances: Vec<Instance>,
    /// By the time at which they are executed.
    executing: BTreeMap<(Moment, u32), Batch<Ticket<usize>>>,
    /// Instances that are held up although their batch is answered (a fault), by the time at which they go on.
    held_up: BTreeSet<(Moment, u32)>,
    /// When the execution of each instance is nearly over, and when it is over (kept for a fault alone).
    nearly_over: BTreeMap<u32, Range<Moment>>,
    events: Vec<Event<Ticket<usize>>>,
}

/// A request that is as it should be.
#[derive(Clone, Debug)]
pub struct Submitted<'s> {
    /// What the caller knows it by.
    pub name: usize,
    /// Its correlation ID.
    pub id: &'s SequenceId,
    /// Whether it carries START.
    pub start: bool,
    /// Whether it carries END.
    pub end: bool,
    /// The shape of its input, with the batch dimension where the model batches.
    pub shape: Vec<i64>,
    /// The elements of that, little-endian.
    pub data: Vec<u8>,
    /// How many requests are in its batch; only one is allowed.
    pub batch_size: u32,
    /// For how long its sequence may wait for a slot, if that has a limit.
    pub timeout: Option<Duration>,
    /// Set when its client cancels it.
    pub cancelled: Arc<AtomicBool>,
}

/// Why a request has no outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The text of the error, empty where the request was cancelled.
    pub text: String,
    /// The code of gRPC.
    pub code: u16,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        let code = u16::try_from(i32::from(status.code())).expect("codes are small");
        Self { text: status.message().to_owned(), code }
    }
}

/// One of the outputs of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name.
    pub name: Arc<str>,
    /// Its type in the protocol's spelling.
    pub datatype: &'static str,
    /// Its shape, with the batch dimension where the model batches.
    pub shape: Vec<i64>,
    /// Its elements, little-endian.
    pub data: Vec<u8>,
}

/// What a request is answered with: the outputs of each response, of a model that gives several all of them.
pub type Answer = Result<Vec<Vec<Output>>, Refused>;

impl Blueprint {
    /// The server of a built-in model, set up like this but for faults.
    ///
    /// # Errors
    /// When there is no such model, or it needs others, in one line.
    pub fn new(model: &str, setup: ServerSetup) -> Result<Self, String> {
        let Options { models, fault_hold, .. } = setup.into();
        let config = configs(&models).into_iter().find(|config| config.name == model);
        let config = config.ok_or_else(|| format!("the reference server has no model '{model}'"))?;
        let spec = Arc::new(Spec::new(config, &Files::new())?);
        if spec.needs().next().is_some() {
            return Err(format!("model '{model}' is made of other models, and a simulation has one"));
        }
        Ok(Self { spec, fault_hold })
    }

    /// The server, which commits these faults when a seed says so. Requests ask for the outputs of these names.
    #[must_use]
    pub fn serve(&self, planted: &[Planted], seed: Seed, asked: &[&str]) -> Simulated {
        let outputs = self.spec.outputs.iter().enumerate();
        let wants = Wants::of(outputs.filter(|(_, its)| asked.contains(&&*its.name)).map(|(index, _)| index).collect());
        let mut faults = Faults::new(planted, seed);
        faults.hold = self.fault_hold;
        let (spec, faults) = (Arc::clone(&self.spec), Arc::new(faults));
        let (scheduler, instances) = loaded(&spec, &faults);
        Simulated {
            scheduler,
            instances,
            misbehaviour: Misbehaviour::new(Arc::clone(&faults)),
            watch: None,
            executing: BTreeMap::new(),
            held_up: BTreeSet::new(),
            nearly_over: BTreeMap::new(),
            events: Vec::new(),
            wants,
            spec,
            faults,
        }
    }
}

/// What a model has that was just loaded.
fn loaded(spec: &Arc<Spec>, faults: &Arc<Faults>) -> (Scheduler<Ticket<usize>>, Vec<Instance>) {
    let instance = |index| Instance::new(index, Arc::clone(spec), Arc::clone(faults));
    let scheduler = Scheduler::new(spec.settings.clone(), Arc::clone(faults));
    (scheduler, (0..spec.settings.instances).map(instance).collect())
}

impl Simulated {
    /// Whether it commits a fault where that is planted: those of scheduler, control tensors and models.
    pub fn commits(fault: Fault) -> bool {
        match fault {
            // No instance of it fails.
            Fault::AnswerAfterLostState => false,
            Fault::ModelError | Fault::CutIds | Fault::FoldIds | Fault::FoldTexts => true,
            _ => matches!(fault.group(), "state" | "control" | "scheduling"),
        }
    }

    /// Notes from now on which transitions follow each other. Each request needs a name of its own until it is answered.
    pub fn watch(&mut self) {
        self.scheduler.watch();
        self.watch = Some(Watch::default());
    }

    /// The transitions that followed each other since it is watched.
    pub fn pairs(&self) -> BTreeSet<Pair> {
        self.watch.as_ref().map(Watch::pairs).unwrap_or_default()
    }

    /// How often a planted fault was committed.
    pub fn committed(&self, fault: Fault) -> u64 {
        self.faults.committed(fault)
    }

    /// How often a planted fault could have been committed.
    pub fn chances(&self, fault: Fault) -> u64 {
        self.faults.chances(fault)
    }

    /// Takes a request in; its answer where it is rejected at once. Its sequence's idle limit begins `lag` late.
    pub fn submit(&mut self, request: Submitted<'_>, now: Moment, lag: Duration) -> Option<Answer> {
        let Submitted { name, id, start, end, shape, data, batch_size, timeout, cancelled } = request;
        let input = &self.spec.inputs[0];
        let request = Request {
            id: id.clone(),
            start,
            end,
            goes_on: false,
            batch_size,
            timeout,
            cancelled,
            shape: shape.as_slice().into(),
            arrived: Moment::ZERO,
            payload: Ticket {
                version: self.spec.version,
                request_id: String::new(),
                inputs: vec![(Arc::clone(&input.name), Tensor { datatype: input.datatype, shape, data })],
                wants: self.wants,
                reply: name,
            },
        };
        self.enqueue(request, now + lag)
    }

    /// The same of a message as it comes from the wire, which may have any flaw.
    pub fn submit_message(
        &mut self,
        name: usize,
        message: ModelInferRequest,
        cancelled: Arc<AtomicBool>,
        now: Moment,
    ) -> Option<Answer> {
        let version = self.spec.version.to_string();
        if !message.model_version.is_empty() && message.model_version != version {
            let (model, other) = (&self.spec.config.name, &message.model_version);
            let text = format!("Request for unknown model: '{model}' version {other} is not found");
            return Some(Err(Status::not_found(text).into()));
        }
        match decode(message, &self.spec, cancelled, name) {
            Ok(request) => self.enqueue(request, now),
            Err(status) => Some(Err(status.into())),
        }
    }

    fn enqueue(&mut self, mut request: Request<Ticket<usize>>, now: Moment) -> Option<Answer> {
        request.end |= self.spec.is_iterative;
        request.id = self.misbehaviour.fold(request.id);
        let id = request.id.clone();
        let Some(watch) = &mut self.watch else {
            let rejected = self.scheduler.enqueue(request, now).err()?;
            return Some(Err(rejected.status(&self.spec.config.name, &id).into()));
        };
        let before = watch.before(&id, &self.scheduler);
        let (name, flags) = (request.payload.reply, Flags::of(request.start, request.end));
        let cancelled = Arc::clone(&request.cancelled);
        let queued = self.scheduler.enqueue(request, now);
        watch.arrived(before, flags, (name, &id, cancelled), queued);
        Some(Err(queued.err()?.status(&self.spec.config.name, &id).into()))
    }

    /// Some requests were cancelled.
    pub fn cancelled(&mut self, now: Moment) {
        if self.nearly_over.values().any(|span| span.contains(&now)) {
            self.scheduler.cancelled_late();
        } else {
            self.scheduler.cancelled();
        }
        if let Some(watch) = &mut self.watch {
            watch.cancelled(&self.scheduler);
        }
    }

    /// Loads the model anew: nothing of its sequences is left, and what was under way gets no answer.
    pub fn reload(&mut self) {
        let (scheduler, instances) = loaded(&self.spec, &self.faults);
        let before = std::mem::replace(&mut self.scheduler, scheduler);
        self.instances = instances;
        self.executing.clear();
        self.held_up.clear();
        self.nearly_over.clear();
        if let Some(watch) = &mut self.watch {
            watch.reloaded(&before);
            self.scheduler.watch();
        }
    }

    /// The client of this sequence is gone.
    pub fn disconnected(&mut self, id: &SequenceId) {
        let id = self.misbehaviour.fold(id.clone());
        self.scheduler.disconnected(&id);
    }

    /// Does what is due; an execution that begins takes as much longer than the model's as `more` says. Answers come out by name.
    pub fn advance(&mut self, now: Moment, mut more: impl FnMut() -> Duration, answers: &mut Vec<(usize, Answer)>) {
        while let Some(((at, instance), batch)) = self.executing.pop_first() {
            if at > now {
                self.executing.insert((at, instance), batch);
                break;
            }
            self.execute(instance, batch, now, answers);
        }
        while let Some((at, instance)) = self.held_up.first().copied().filter(|(at, _)| *at <= now) {
            self.held_up.remove(&(at, instance));
            self.scheduler.finished(instance);
        }
        let mut events = std::mem::take(&mut self.events);
        self.scheduler.advance(now, &mut events);
        if let Some(watch) = &mut self.watch {
            for (id, seat, crowd) in self.scheduler.reaped() {
                watch.reaped(&id, seat, crowd);
            }
            for event in &events {
                watch.sees(event);
            }
        }
        for event in events.drain(..) {
            match event {
                Event::Execute { instance, batch } => {
                    let parameters = &self.spec.parameters;
                    let usual = parameters.execution * parameters.iterations;
                    if self.faults.has(Fault::LeakSlotAtLateCancel) {
                        let late = now + usual / LATE_PART * (LATE_PART - 1);
                        self.nearly_over.insert(instance, late..now + usual);
                    }
                    let held_up = self.faults.holds_up(Fault::SlowExecution).unwrap_or_default();
                    self.executing.insert((now + usual + more() + held_up, instance), batch);
                }
                Event::Reject(rejection, request) => {
                    let status = rejection.status(&self.spec.config.name, &request.id);
                    answers.push((request.payload.reply, Err(status.into())));
                }
            }
        }
        self.events = events;
    }

    fn execute(&mut self, instance: u32, batch: Batch<Ticket<usize>>, now: Moment, answers: &mut Vec<(usize, Answer)>) {
        for Executed { request, outcome, .. } in self.instances[instance as usize].execute(batch) {
            if let Some(watch) = &mut self.watch {
                watch.answered(request.payload.reply);
            }
            let spoiled = self.faults.happens(Fault::ModelError).then(model_error);
            let responses = spoiled.map_or(outcome, Err);
            let responses = responses.map(|all| all.into_iter().map(outputs).collect());
            answers.push((request.payload.reply, responses.map_err(Refused::from)));
        }
        match self.faults.holds_up(Fault::LateRelease) {
            Some(hold) => _ = self.held_up.insert((now + hold, instance)),
            None => self.scheduler.finished(instance),
        }
    }

    /// When something is due.
    pub fn next_wake(&self) -> Option<Moment> {
        let executed = self.executing.first_key_value().map(|((at, _), _)| *at);
        let held_up = self.held_up.first().map(|(at, _)| *at);
        executed.into_iter().chain(held_up).chain(self.scheduler.next_wake()).min()
    }

    /// Whether a step without START would be accepted.
    pub fn is_live(&self, id: u64) -> bool {
        self.scheduler.is_live(&SequenceId::Number(id))
    }
}

impl Refused {
    /// Whether the request was cancelled, which a stream tells with a response without outputs.
    pub fn is_cancelled(&self) -> bool {
        self.grpc_code() == Code::Cancelled
    }

    /// The status of HTTP.
    pub fn over_http(&self) -> u16 {
        http_status(self.grpc_code()).as_u16()
    }

    fn grpc_code(&self) -> Code {
        Code::from(i32::from(self.code))
    }
}

fn outputs(all: Outputs) -> Vec<Output> {
    let output =
        |(name, Tensor { datatype, shape, data })| Output { name, datatype: Datatype::name(datatype), shape, data };
    all.into_iter().map(output).collect()
}
