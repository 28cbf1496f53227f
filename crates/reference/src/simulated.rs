//! A model that is served in virtual time: scheduler, execution and model as they are, without clock, socket and threads.

mod loaded;
mod version;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tonic::{Code, Status};

use self::version::Version;
pub use super::scheduler::SequenceId;
use super::{
    Options, Planted, ServerSetup,
    builtin::configs,
    decode::decode,
    execution::{Ticket, Wants},
    fault::{Fault, Faults},
    folder::served_versions,
    http::http_status,
    misbehaviour::Misbehaviour,
    model::Outputs,
    refusal::unknown_version,
    repository::parse_version,
    scheduler::{Moment, Request},
    spec::{Files, Spec},
    tensor::{Datatype, Tensor},
    transitions::Pair,
};
use wire::proto::{ModelConfig, ModelInferRequest};
use workload::seed::Seed;

/// What a server with one model is like.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// The versions of the model, the newest last.
    specs: Vec<Arc<Spec>>,
    fault_hold: Duration,
}

/// The server, with one model.
#[derive(Debug)]
pub struct Simulated {
    /// What each request asks for.
    wants: Wants,
    faults: Arc<Faults>,
    misbehaviour: Misbehaviour,
    /// By number.
    versions: BTreeMap<i64, Version>,
}

/// A request that is as it should be.
#[derive(Clone, Debug)]
pub struct Submitted<'s> {
    /// What the caller knows it by.
    pub name: usize,
    /// The version that it names; none where the server takes the newest.
    pub version: Option<i64>,
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
        let all = (1..=i64::from(models.versions)).collect();
        let specs = served_versions(&config, &all)?.into_iter().map(|version| specified(config.clone(), version));
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        if specs.iter().any(|spec| spec.needs().next().is_some()) {
            return Err(format!(
                "model '{model}' is made of other models, and a simulation has one: hold it as a run (--embedded)"
            ));
        }
        Ok(Self { specs, fault_hold })
    }

    fn newest(&self) -> &Arc<Spec> {
        self.specs.last().expect("a version is served")
    }

    /// Whether its model has a version of this number.
    pub fn has_version(&self, number: i64) -> bool {
        self.specs.iter().any(|spec| spec.version == number)
    }

    /// The same with versions of these numbers in place of its own, unless there are none.
    ///
    /// # Errors
    /// When the model cannot be loaded, in one line.
    pub fn with_versions(self, numbers: BTreeSet<i64>) -> Result<Self, String> {
        let configuration = self.configuration();
        let specs = numbers.into_iter().map(|number| specified(configuration.clone(), number));
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        Ok(if specs.is_empty() { self } else { Self { specs, ..self } })
    }

    /// The server, which commits these faults when a seed says so. Requests ask for the outputs of these names.
    #[must_use]
    pub fn serve(&self, planted: &[Planted], seed: Seed, asked: &[&str]) -> Simulated {
        let outputs = self.newest().outputs.iter().enumerate();
        let wants = Wants::of(outputs.filter(|(_, its)| asked.contains(&&*its.name)).map(|(index, _)| index).collect());
        let mut faults = Faults::new(planted, seed);
        faults.hold = self.fault_hold;
        let faults = Arc::new(faults);
        let versions = self.specs.iter().map(|spec| (spec.version, Version::new(spec, &faults)));
        Simulated { versions: versions.collect(), misbehaviour: Misbehaviour::new(Arc::clone(&faults)), wants, faults }
    }

    /// How its model is configured.
    pub fn configuration(&self) -> &ModelConfig {
        &self.newest().config
    }

    /// The server of the same model with this configuration.
    ///
    /// # Errors
    /// When the model cannot be loaded so, in one line.
    pub fn configured(&self, configuration: &ModelConfig) -> Result<Self, String> {
        let specs = self.specs.iter().map(|spec| specified(configuration.clone(), spec.version));
        Ok(Self { specs: specs.collect::<Result<_, _>>()?, fault_hold: self.fault_hold })
    }
}

/// A version of a model.
fn specified(configuration: ModelConfig, version: i64) -> Result<Arc<Spec>, String> {
    let mut spec = Spec::new(configuration, &Files::new())?;
    spec.version = version;
    Ok(Arc::new(spec))
}

impl Simulated {
    /// Whether it commits a fault where that is planted: those of scheduler, control tensors and models.
    pub fn commits(fault: Fault) -> bool {
        match fault {
            Fault::ModelError
            | Fault::CutIds
            | Fault::FoldIds
            | Fault::FoldTexts
            | Fault::LoadResetsOthers
            | Fault::VersionsShareSequences => true,
            _ => matches!(fault.group(), "state" | "control" | "scheduling"),
        }
    }

    /// Notes from now on which transitions follow each other. Each request needs a name of its own until it is answered.
    pub fn watch(&mut self) {
        self.versions.values_mut().for_each(Version::watch);
    }

    /// The transitions that followed each other since it is watched.
    pub fn pairs(&self) -> BTreeSet<Pair> {
        self.versions.values().flat_map(Version::pairs).collect()
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
        let Submitted { name, version, id, start, end, shape, data, batch_size, timeout, cancelled } = request;
        let is_named = version.is_some();
        let version = match self.version(version) {
            Ok(version) => version,
            Err(unknown) => return Some(Err(unknown.into())),
        };
        let input = &self.versions[&version].spec().inputs[0];
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
                version,
                request_id: String::new(),
                inputs: vec![(Arc::clone(&input.name), Tensor { datatype: input.datatype, shape, data })],
                wants: self.wants,
                reply: name,
            },
        };
        self.enqueue((version, is_named), request, now + lag)
    }

    /// The same of a message as it comes from the wire, which may have any flaw.
    pub fn submit_message(
        &mut self,
        name: usize,
        message: ModelInferRequest,
        cancelled: Arc<AtomicBool>,
        now: Moment,
    ) -> Option<Answer> {
        let is_named = !message.model_version.is_empty();
        let asked = parse_version(&message.model_version).and_then(|version| self.version(version));
        let decoded =
            asked.and_then(|version| Ok((version, decode(message, self.versions[&version].spec(), cancelled, name)?)));
        match decoded {
            Ok((version, request)) => self.enqueue((version, is_named), request, now),
            Err(status) => Some(Err(status.into())),
        }
    }

    /// The number of the version that a request goes to.
    fn version(&self, asked: Option<i64>) -> Result<i64, Status> {
        let newest = *self.versions.last_key_value().expect("a version is served").0;
        match asked {
            None => Ok(newest),
            Some(asked) if self.versions.contains_key(&asked) => Ok(asked),
            Some(asked) => Err(unknown_version(&self.versions[&newest].spec().config.name, asked)),
        }
    }

    /// Takes in a request to a version, which it may name.
    fn enqueue(
        &mut self,
        (version, is_named): (i64, bool),
        mut request: Request<Ticket<usize>>,
        now: Moment,
    ) -> Option<Answer> {
        request.id = self.misbehaviour.fold(request.id);
        let version = self.of_another_version(version, &request).unwrap_or(version);
        self.versions.get_mut(&version).expect("it is served").enqueue(request, is_named, now)
    }

    /// The version that has a sequence of a step's correlation ID, besides the version that the step is to, where it is planted that the
    /// step goes there.
    fn of_another_version(&self, version: i64, request: &Request<Ticket<usize>>) -> Option<i64> {
        if request.start || !self.faults.has(Fault::VersionsShareSequences) {
            return None;
        }
        let mut others = self.versions.iter().filter(|(other, _)| **other != version);
        let (other, _) = others.find(|(_, other)| other.is_live(&request.id))?;
        self.faults.happens(Fault::VersionsShareSequences).then_some(*other)
    }

    /// Some requests were cancelled.
    pub fn cancelled(&mut self, now: Moment) {
        self.versions.values_mut().for_each(|version| version.cancelled(now));
    }

    /// Loads the model so. What was accepted before is still answered. One that differs in the number of instances alone keeps its sequences.
    pub fn load(&mut self, Blueprint { specs, .. }: &Blueprint) {
        for spec in specs {
            self.versions.get_mut(&spec.version).expect("its versions stay").load(spec);
        }
    }

    /// Unloads the model: new requests are refused. What was accepted before is still answered.
    pub fn unload(&mut self) {
        self.versions.values_mut().for_each(Version::unload);
    }

    /// Begins anew with the model as it is now: nothing of its sequences is left, and what was under way gets no answer.
    pub fn reload(&mut self) {
        self.versions.values_mut().for_each(Version::reload);
    }

    /// Another model was loaded, which concerns nobody here.
    pub fn another_is_loaded(&mut self) {
        for version in self.versions.values_mut().filter(|version| version.is_in_use()) {
            if self.faults.happens(Fault::LoadResetsOthers) {
                version.reset_states();
            }
        }
    }

    /// An instance of the model fails, and is back at once without the states that it kept.
    pub fn fail_an_instance(&mut self) {
        self.versions.values_mut().for_each(Version::fail);
    }

    /// The client of this sequence is gone.
    pub fn disconnected(&mut self, version: Option<i64>, id: &SequenceId) {
        let id = self.misbehaviour.fold(id.clone());
        if let Ok(version) = self.version(version) {
            self.versions.get_mut(&version).expect("it is served").disconnected(&id);
        }
    }

    /// Does what is due; an execution that begins takes as much longer than the model's as `more` says. Answers come out by name.
    pub fn advance(&mut self, now: Moment, mut more: impl FnMut() -> Duration, answers: &mut Vec<(usize, Answer)>) {
        for version in self.versions.values_mut() {
            version.advance(now, &mut more, answers);
        }
    }

    /// When something is due.
    pub fn next_wake(&self) -> Option<Moment> {
        self.versions.values().filter_map(Version::next_wake).min()
    }

    /// Whether a step without START would be accepted.
    pub fn is_live(&self, id: u64) -> bool {
        self.versions.values().any(|version| version.is_live(&SequenceId::Number(id)))
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
