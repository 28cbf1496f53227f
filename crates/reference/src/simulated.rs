//! A model that is served in virtual time: scheduler, execution and model as they are, without clock, socket and threads.

mod loaded;

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tonic::{Code, Status};

use self::loaded::Loaded;
pub use super::scheduler::SequenceId;
use super::{
    Options, Planted, ServerSetup,
    builtin::configs,
    decode::decode,
    execution::{Ticket, Wants},
    fault::{Fault, Faults},
    http::http_status,
    misbehaviour::Misbehaviour,
    model::Outputs,
    refusal::no_version,
    scheduler::{Moment, Request},
    spec::{Files, Spec},
    tensor::{Datatype, Tensor},
    transitions::{Flags, Pair, Watch},
};
use wire::proto::{ModelConfig, ModelInferRequest};
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
    /// What each request asks for.
    wants: Wants,
    faults: Arc<Faults>,
    misbehaviour: Misbehaviour,
    /// What becomes of sequences, where somebody wants to know.
    watch: Option<Watch>,
    /// The model as it was loaded last.
    loaded: Loaded,
    /// Whether it was unloaded since then.
    is_unloaded: bool,
    /// The same of before, until their sequences are over.
    leaving: Vec<Loaded>,
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
            return Err(format!(
                "model '{model}' is made of other models, and a simulation has one: hold it as a run (--embedded)"
            ));
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
        let faults = Arc::new(faults);
        Simulated {
            loaded: Loaded::new(&self.spec, &faults),
            is_unloaded: false,
            leaving: Vec::new(),
            misbehaviour: Misbehaviour::new(Arc::clone(&faults)),
            watch: None,
            wants,
            faults,
        }
    }

    /// How its model is configured.
    pub fn configuration(&self) -> &ModelConfig {
        &self.spec.config
    }

    /// The server of the same model with this configuration.
    ///
    /// # Errors
    /// When the model cannot be loaded so, in one line.
    pub fn configured(&self, configuration: ModelConfig) -> Result<Self, String> {
        let mut spec = Spec::new(configuration, &Files::new())?;
        spec.version = self.spec.version;
        Ok(Self { spec: Arc::new(spec), fault_hold: self.fault_hold })
    }
}

impl Simulated {
    /// Whether it commits a fault where that is planted: those of scheduler, control tensors and models.
    pub fn commits(fault: Fault) -> bool {
        match fault {
            Fault::ModelError | Fault::CutIds | Fault::FoldIds | Fault::FoldTexts => true,
            _ => matches!(fault.group(), "state" | "control" | "scheduling"),
        }
    }

    /// Notes from now on which transitions follow each other. Each request needs a name of its own until it is answered.
    pub fn watch(&mut self) {
        self.loaded.scheduler.watch();
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
        let input = &self.loaded.spec.inputs[0];
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
                version: self.loaded.spec.version,
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
        let spec = &self.loaded.spec;
        let version = spec.version.to_string();
        if !message.model_version.is_empty() && message.model_version != version {
            let (model, other) = (&spec.config.name, &message.model_version);
            let text = format!("Request for unknown model: '{model}' version {other} is not found");
            return Some(Err(Status::not_found(text).into()));
        }
        match decode(message, spec, cancelled, name) {
            Ok(request) => self.enqueue(request, now),
            Err(status) => Some(Err(status.into())),
        }
    }

    fn enqueue(&mut self, mut request: Request<Ticket<usize>>, now: Moment) -> Option<Answer> {
        let Loaded { spec, scheduler, .. } = &mut self.loaded;
        if self.is_unloaded {
            return Some(Err(no_version(&spec.config.name).into()));
        }
        request.end |= spec.is_iterative;
        request.id = self.misbehaviour.fold(request.id);
        let id = request.id.clone();
        let Some(watch) = &mut self.watch else {
            let rejected = scheduler.enqueue(request, now).err()?;
            return Some(Err(rejected.status(&spec.config.name, &id).into()));
        };
        let before = watch.before(&id, scheduler);
        let (name, flags) = (request.payload.reply, Flags::of(request.start, request.end));
        let cancelled = Arc::clone(&request.cancelled);
        let queued = scheduler.enqueue(request, now);
        watch.arrived(before, flags, (name, &id, cancelled), queued);
        Some(Err(queued.err()?.status(&spec.config.name, &id).into()))
    }

    /// Some requests were cancelled.
    pub fn cancelled(&mut self, now: Moment) {
        self.loaded.cancelled(now);
        self.leaving.iter_mut().for_each(|leaving| leaving.cancelled(now));
        if let Some(watch) = &mut self.watch {
            watch.cancelled(&self.loaded.scheduler);
        }
    }

    /// Loads the model so. What was accepted before is still answered. One that differs in the number of instances alone keeps its sequences.
    pub fn load(&mut self, Blueprint { spec, .. }: &Blueprint) {
        if self.is_unloaded || !self.loaded.resize(spec) {
            self.unload();
            self.begin(spec);
        }
    }

    fn begin(&mut self, spec: &Arc<Spec>) {
        self.loaded = Loaded::new(spec, &self.faults);
        self.is_unloaded = false;
        if self.watch.is_some() {
            self.loaded.scheduler.watch();
        }
    }

    /// Unloads the model: new requests are refused. What was accepted before is still answered.
    pub fn unload(&mut self) {
        if !std::mem::replace(&mut self.is_unloaded, true) {
            if let Some(watch) = &mut self.watch {
                watch.reloaded(&self.loaded.scheduler);
            }
            let nothing = Loaded::new(&self.loaded.spec, &self.faults);
            let mut leaving = std::mem::replace(&mut self.loaded, nothing);
            leaving.scheduler.stop();
            self.leaving.push(leaving);
        }
    }

    /// Begins anew with the model as it is now: nothing of its sequences is left, and what was under way gets no answer.
    pub fn reload(&mut self) {
        self.unload();
        self.leaving.clear();
        self.begin(&Arc::clone(&self.loaded.spec));
    }

    /// An instance of the model fails, and is back at once without the states that it kept.
    pub fn fail_an_instance(&mut self) {
        self.loaded.fail();
    }

    /// The client of this sequence is gone.
    pub fn disconnected(&mut self, id: &SequenceId) {
        let id = self.misbehaviour.fold(id.clone());
        self.loaded.scheduler.disconnected(&id);
    }

    /// Does what is due; an execution that begins takes as much longer than the model's as `more` says. Answers come out by name.
    pub fn advance(&mut self, now: Moment, mut more: impl FnMut() -> Duration, answers: &mut Vec<(usize, Answer)>) {
        for leaving in &mut self.leaving {
            leaving.advance(now, None, &mut more, answers);
        }
        self.leaving.retain(|leaving| !leaving.is_gone());
        self.loaded.advance(now, self.watch.as_mut(), &mut more, answers);
    }

    /// When something is due.
    pub fn next_wake(&self) -> Option<Moment> {
        self.leaving.iter().chain([&self.loaded]).filter_map(Loaded::next_wake).min()
    }

    /// Whether a step without START would be accepted.
    pub fn is_live(&self, id: u64) -> bool {
        self.loaded.scheduler.is_live(&SequenceId::Number(id))
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
