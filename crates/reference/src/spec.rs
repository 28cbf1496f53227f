//! What a model's configuration means: how it is scheduled, what it is told, and what it computes.

mod tensors;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::{
    FIRST_VERSION,
    model::Weights,
    number::Number,
    parameters::{self, Parameters},
    scheduler::{HoldUntil, Settings, Strategy},
    tensor::{Datatype, Tensor, texts},
};
use wire::proto::{
    DataType, ModelConfig, ModelSequenceBatching,
    model_config::SchedulingChoice,
    model_ensembling,
    model_sequence_batching::{Control, InitialState, State, StrategyChoice, control::Kind, initial_state::StateData},
};

/// START, END, READY, CORRID and the slot.
pub(super) const SEEN_ELEMENTS: i64 = 5;
/// Where a configuration leaves the idle limit out, the server's own.
const DEFAULT_IDLE_LIMIT_US: u64 = 1_000_000;
/// The most that a configuration may ask for, so that no client can make the server take the machine's memory.
const INSTANCES_MAX: u32 = 1024;
const SLOTS_MAX: u64 = 65_536;
/// The most elements of a state of open shape.
const OPEN_STATE_MAX: u64 = 64;
pub(super) const STATE_BYTES_MAX: u64 = 64 << 20;
/// The states of a model with two of them; the order of their names is not that in which the model computes them.
pub(super) const ZETA_STATE: &str = "ZETA_STATE";
pub(super) const ALPHA_STATE: &str = "ALPHA_STATE";

/// A model, as its configuration has it.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) config: ModelConfig,
    /// Which version of the model it is of.
    pub(super) version: i64,
    pub(super) settings: Settings,
    pub(super) inputs: Vec<TensorSpec>,
    pub(super) outputs: Vec<TensorSpec>,
    pub(super) tells: Vec<Tells>,
    pub(super) controls: Vec<ControlSpec>,
    /// What the server keeps, in the order of the configuration.
    pub(super) states: Vec<StateSpec>,
    pub(super) parameters: Parameters,
    /// Drawn when they are first used, for all instances.
    weights: OnceLock<Weights>,
    /// Whether a request may get other than one response.
    pub(super) is_decoupled: bool,
    /// Whether a request is executed again and again, and a sequence of its own.
    pub(super) is_iterative: bool,
    /// The steps of an ensemble, in their order; none of any other model.
    pub(super) steps: Vec<EnsembleStep>,
}

/// A step of an ensemble: a model, and pairs of its tensors with the ensemble's.
#[derive(Clone, Debug)]
pub(super) struct EnsembleStep {
    pub(super) model: String,
    /// The version of the model; empty where it is the newest.
    pub(super) version: String,
    pub(super) inputs: Vec<(Arc<str>, Arc<str>)>,
    pub(super) outputs: Vec<(Arc<str>, Arc<str>)>,
}

/// The contents of the files that a configuration names, by what it names them.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// What an output tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// What the model computes.
    Result,
    /// What the model saw: [`SEEN_ELEMENTS`].
    Seen,
    /// What a control said.
    Control(Signal),
    /// The row's place in the batch.
    Slot,
    /// The instance's number.
    Instance,
    /// The number of steps, which is the second of two states.
    Count,
}

/// An input or output.
#[derive(Clone, Debug)]
pub(super) struct TensorSpec {
    pub(super) name: Arc<str>,
    pub(super) datatype: Datatype,
    /// Without the batch dimension; -1 is any size.
    pub(super) dims: Vec<i64>,
    /// Whether requests may leave it out.
    pub(super) is_optional: bool,
}

impl TensorSpec {
    /// How many elements a tensor of a fixed shape has, without the batch dimension.
    pub(super) fn elements(&self) -> usize {
        self.dims.iter().map(|size| usize::try_from(*size).unwrap_or(1)).product()
    }
}

/// What a control tensor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Start,
    Ready,
    End,
    CorrelationId,
}

/// A tensor by which the model is told about a request.
#[derive(Clone, Debug)]
pub(super) struct ControlSpec {
    pub(super) tensor: Arc<str>,
    pub(super) signal: Signal,
    pub(super) datatype: Datatype,
    /// The elements for false and true, little-endian; of a correlation ID, empty.
    pub(super) false_true: [Vec<u8>; 2],
}

/// State that the server keeps.
#[derive(Clone, Debug)]
pub(super) struct StateSpec {
    /// Its input; of an open shape in models that hold multiples of the sum alone.
    pub(super) tensor: TensorSpec,
    /// The elements that a new sequence finds; what it finds where there are none is not defined.
    pub(super) initial: Option<Vec<u8>>,
}

impl Spec {
    /// Reads a configuration and what it names.
    ///
    /// # Errors
    /// What this server cannot serve.
    pub(super) fn new(mut config: ModelConfig, files: &Files) -> Result<Self, String> {
        check(&config)?;
        if let Some(SchedulingChoice::EnsembleScheduling(ensemble)) = &config.scheduling_choice {
            let steps = ensemble.step.iter().map(step).collect();
            return Self::of_ensemble(config, steps);
        }
        complete(&mut config);
        let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice else {
            return Err(format!("model '{}' has no sequence_batching", config.name));
        };
        let inputs = config.input.iter().map(|input| tensor(&input.name, input.data_type(), &input.dims));
        let outputs = config.output.iter().map(|output| tensor(&output.name, output.data_type(), &output.dims));
        let (mut inputs, outputs) = (inputs.collect::<Result<Vec<_>, _>>()?, outputs.collect::<Result<Vec<_>, _>>()?);
        tensors::check_names(&inputs, &outputs)?;
        let Some(first) = inputs.first() else { return Err(format!("model '{}' has no input", config.name)) };
        let parameters = Parameters::read(&config, first.datatype)?;
        let formula = parameters.formula;
        let open = parameters.holds_copies;
        let states =
            batching.state.iter().map(|state| state_spec(state, files, open)).collect::<Result<Vec<_>, _>>()?;
        if formula.is_sum() {
            tensors::check_sum(&config.name, &inputs, &states, &parameters)?;
        } else {
            for (input, its) in inputs.iter_mut().zip(&config.input) {
                input.is_optional = its.optional;
            }
        }
        let tells = tensors::tells(&config, formula, &inputs[0], &outputs, counts(&states, &parameters))?;
        tensors::check_shapes(formula, &config.name, &inputs, &outputs, &tells, &states)?;
        let settings = settings(&config, batching)?;
        limit(&config.name, &settings, &states)?;
        Ok(Self {
            version: FIRST_VERSION,
            settings,
            controls: controls(batching)?,
            states,
            parameters,
            weights: OnceLock::new(),
            is_decoupled: parameters::is_decoupled(&config),
            is_iterative: batching.iterative_sequence,
            steps: Vec::new(),
            inputs,
            outputs,
            tells,
            config,
        })
    }

    /// An ensemble of these steps.
    fn of_ensemble(config: ModelConfig, steps: Vec<EnsembleStep>) -> Result<Self, String> {
        let inputs = config.input.iter().map(|input| tensor(&input.name, input.data_type(), &input.dims));
        let outputs = config.output.iter().map(|output| tensor(&output.name, output.data_type(), &output.dims));
        let (inputs, outputs) = (inputs.collect::<Result<Vec<_>, _>>()?, outputs.collect::<Result<Vec<_>, _>>()?);
        tensors::check_names(&inputs, &outputs)?;
        tensors::check_steps(&config.name, &inputs, &outputs, &steps)?;
        Ok(Self {
            version: FIRST_VERSION,
            settings: settings(&config, &ModelSequenceBatching::default())?,
            controls: Vec::new(),
            states: Vec::new(),
            parameters: Parameters::of_ensemble(),
            weights: OnceLock::new(),
            is_decoupled: false,
            is_iterative: false,
            steps,
            inputs,
            outputs,
            tells: Vec::new(),
            config,
        })
    }

    /// The models that it hands its requests to.
    pub(super) fn needs(&self) -> impl Iterator<Item = &String> {
        self.steps.iter().map(|step| &step.model).chain(&self.parameters.calls)
    }

    /// The type of the first input, which is the one that a sum is of.
    pub(super) fn datatype(&self) -> Datatype {
        self.inputs[0].datatype
    }

    /// The tensor by which the model is told this.
    pub(super) fn control(&self, signal: Signal) -> Option<&ControlSpec> {
        self.controls.iter().find(|control| control.signal == signal)
    }

    /// Whether requests have a batch dimension.
    pub(super) fn batches(&self) -> bool {
        self.config.max_batch_size > 0
    }

    /// A tensor's shape, with this batch dimension where requests have one.
    pub(super) fn shape(&self, batch: i64, dims: &[i64]) -> Vec<i64> {
        self.batches().then_some(batch).into_iter().chain(dims.iter().copied()).collect()
    }

    /// What these bits are in the type that a sum is of.
    pub(super) fn number(&self, bits: u64) -> Number {
        Number::of_bits(self.datatype(), bits).expect("a sum's type has numbers")
    }

    /// Whether the server gives new sequences their states, so that the model need not look at START.
    pub(super) fn begins_with_given_states(&self) -> bool {
        self.states.first().is_some_and(|state| state.initial.is_some())
    }

    /// Whether the second of two states is the number of steps.
    pub(super) fn counts(&self) -> bool {
        counts(&self.states, &self.parameters)
    }

    /// The weights of a model that has some.
    pub(super) fn weights(&self) -> &Weights {
        self.weights.get_or_init(|| Weights::draw(self.inputs[0].elements(), self.parameters.seed))
    }
}

fn counts(states: &[StateSpec], parameters: &Parameters) -> bool {
    parameters.formula.is_sum() && states.len() == 2 && !parameters.holds_copies
}

/// Looks for what no model can have, as the real server does when it reads a configuration.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(config: &ModelConfig) -> Result<(), String> {
    let ModelConfig { name, max_batch_size, .. } = config;
    if *max_batch_size < 0 {
        return Err(format!("'max_batch_size' must be non-negative value for {name}"));
    }
    let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice else { return Ok(()) };
    match &batching.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) if oldest.preferred_batch_size.iter().any(|size| *size <= 0) => {
            Err(format!("sequence batching preferred batch size must be positive for {name}"))
        }
        Some(StrategyChoice::Oldest(oldest)) if oldest.preferred_batch_size.iter().any(|s| s > max_batch_size) => {
            Err(format!("sequence batching preferred batch size must be <= max batch size for {name}"))
        }
        Some(StrategyChoice::Direct(direct)) if !(0.0..=1.0).contains(&direct.minimum_slot_utilization) => {
            Err(format!("sequence batching minimum slot utilization must be in range (0.0, 1.0] for {name}"))
        }
        _ => Ok(()),
    }
}

/// Rejects what would take more than this server gives.
fn limit(name: &str, settings: &Settings, states: &[StateSpec]) -> Result<(), String> {
    let instances = settings.instances;
    if instances > INSTANCES_MAX {
        return Err(format!("model '{name}': {instances} instances are too many, at most {INSTANCES_MAX} are served"));
    }
    let slots = u64::from(instances) * u64::from(settings.slots());
    if slots > SLOTS_MAX {
        return Err(format!("model '{name}': {slots} slots are too many, at most {SLOTS_MAX} are served"));
    }
    let bytes = states.iter().map(|StateSpec { tensor: TensorSpec { datatype, dims, .. }, .. }| {
        // An element that is a text has its length before it, and at most eleven digits.
        let element = datatype.size().unwrap_or(16) as u64;
        let size_of = |size: &i64| if *size < 0 { OPEN_STATE_MAX } else { size.unsigned_abs() };
        dims.iter().map(size_of).fold(element * slots, u64::saturating_mul)
    });
    if bytes.fold(0, u64::saturating_add) > STATE_BYTES_MAX {
        return Err(format!(
            "model '{name}': its implicit state is too large, all slots' may take {STATE_BYTES_MAX} bytes"
        ));
    }
    Ok(())
}

/// Fills in what a configuration may leave out.
fn complete(config: &mut ModelConfig) {
    if config.instance_group.is_empty() {
        config.instance_group.push(wire::proto::ModelInstanceGroup::default());
    }
    let cpu = wire::proto::model_instance_group::Kind::Cpu;
    for (index, group) in config.instance_group.iter_mut().enumerate() {
        if group.name.is_empty() {
            group.name = format!("{}_{index}", config.name);
        }
        group.count = group.count.max(1);
        group.set_kind(cpu);
    }
    let batch = config.max_batch_size;
    if let Some(SchedulingChoice::SequenceBatching(batching)) = &mut config.scheduling_choice {
        if batching.max_sequence_idle_microseconds == 0 {
            batching.max_sequence_idle_microseconds = DEFAULT_IDLE_LIMIT_US;
        }
        if let Some(StrategyChoice::Oldest(oldest)) = &mut batching.strategy_choice
            && oldest.preferred_batch_size.is_empty()
            && batch > 0
        {
            oldest.preferred_batch_size.push(batch);
        }
    }
}

fn step(step: &model_ensembling::Step) -> EnsembleStep {
    let pairs = |map: &HashMap<String, String>| {
        let mut pairs: Vec<_> = map.iter().map(|(its, tensor)| (its.as_str().into(), tensor.as_str().into())).collect();
        pairs.sort_unstable();
        pairs
    };
    EnsembleStep {
        model: step.model_name.clone(),
        version: if step.model_version > 0 { step.model_version.to_string() } else { String::new() },
        inputs: pairs(&step.input_map),
        outputs: pairs(&step.output_map),
    }
}

fn tensor(name: &str, datatype: DataType, dims: &[i64]) -> Result<TensorSpec, String> {
    let datatype = Datatype::of(datatype).ok_or_else(|| format!("tensor '{name}' has no data type that is served"))?;
    if dims.is_empty() || dims.iter().any(|size| *size < -1 || *size == 0) {
        return Err(format!("tensor '{name}': dims must be given, each -1 or above 0"));
    }
    Ok(TensorSpec { name: name.into(), datatype, dims: dims.to_vec(), is_optional: false })
}

fn settings(config: &ModelConfig, batching: &ModelSequenceBatching) -> Result<Settings, String> {
    let strategy = match &batching.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => Strategy::Oldest {
            candidates: u32::try_from(oldest.max_candidate_sequences)
                .map_err(|_| "max_candidate_sequences is negative")?,
            preferred: oldest.preferred_batch_size.iter().filter_map(|size| u32::try_from(*size).ok()).collect(),
            queue_delay: Duration::from_micros(oldest.max_queue_delay_microseconds),
        },
        Some(StrategyChoice::Direct(direct)) => Strategy::Direct {
            minimum_slot_utilization: direct.minimum_slot_utilization.into(),
            queue_delay: Duration::from_micros(direct.max_queue_delay_microseconds),
        },
        None => Strategy::Direct { minimum_slot_utilization: 0.0, queue_delay: Duration::ZERO },
    };
    let instances: i64 = config.instance_group.iter().map(|group| i64::from(group.count)).sum();
    Ok(Settings {
        instances: u32::try_from(instances).map_err(|_| "too many instances")?,
        batch: u32::try_from(config.max_batch_size.max(1)).expect("it is not negative"),
        idle_limit: Duration::from_micros(batching.max_sequence_idle_microseconds),
        strategy,
        ragged: config.input.iter().all(|input| input.allow_ragged_batch),
        hold_until: HoldUntil::default(),
    })
}

fn controls(batching: &ModelSequenceBatching) -> Result<Vec<ControlSpec>, String> {
    let each = |(name, control): (&str, &Control)| {
        let spec = control_spec(name, control);
        spec.ok_or_else(|| {
            format!("sequence batching control '{name}' must give two values, or a data type for CORRID")
        })
    };
    let all = batching.control_input.iter().flat_map(|input| input.control.iter().map(|c| (input.name.as_str(), c)));
    all.map(each).collect()
}

fn control_spec(name: &str, control: &Control) -> Option<ControlSpec> {
    use Datatype::{Bytes, Int32, Int64, Uint32, Uint64};
    let signal = match control.kind() {
        Kind::ControlSequenceStart => Signal::Start,
        Kind::ControlSequenceReady => Signal::Ready,
        Kind::ControlSequenceEnd => Signal::End,
        Kind::ControlSequenceCorrid => Signal::CorrelationId,
    };
    let (datatype, false_true) = if signal == Signal::CorrelationId {
        let datatype = Datatype::of(control.data_type())?;
        (matches!(datatype, Int32 | Int64 | Uint32 | Uint64 | Bytes).then_some(datatype)?, Default::default())
    } else if let [off, on] = control.int32_false_true[..] {
        (Datatype::Int32, [off, on].map(|value| value.to_le_bytes().to_vec()))
    } else if let [off, on] = control.fp32_false_true[..] {
        (Datatype::Fp32, [off, on].map(|value| value.to_le_bytes().to_vec()))
    } else if let [off, on] = control.bool_false_true[..] {
        (Datatype::Bool, [off, on].map(|value| vec![u8::from(value)]))
    } else {
        return None;
    };
    Some(ControlSpec { tensor: name.into(), signal, datatype, false_true })
}

fn state_spec(state: &State, files: &Files, may_be_open: bool) -> Result<StateSpec, String> {
    let name = &state.input_name;
    let tensor = tensor(name, state.data_type(), &state.dims)?;
    let open = tensor.dims.iter().filter(|size| **size < 0).count();
    if open > usize::from(may_be_open) {
        let may_be = if may_be_open { "of which one may be -1" } else { "with dims above 0" };
        return Err(format!("state '{name}': a fixed shape is served, {may_be}"));
    }
    let initial = match state.initial_state.as_slice() {
        [] => None,
        [initial] => Some(initial_data(&tensor, initial, files)?),
        _ => return Err(format!("state '{name}': one initial_state is served, not several")),
    };
    Ok(StateSpec { tensor, initial })
}

/// The first number of a state; an empty text is a zero that the server made.
pub(super) fn first_number(datatype: Datatype, data: &[u8]) -> Option<Number> {
    let is_empty_text = datatype == Datatype::Bytes && data.first_chunk() == Some(&[0; 4]);
    if is_empty_text {
        return Number::of_bits(datatype, 0);
    }
    let tensor = Tensor { datatype, shape: Vec::new(), data: data.to_vec() };
    tensor.numbers().ok()?.into_iter().next()
}

/// The elements of an initial state.
fn initial_data(state: &TensorSpec, initial: &InitialState, files: &Files) -> Result<Vec<u8>, String> {
    let TensorSpec { name, datatype, dims, .. } = state;
    let problem = |text: &str| format!("state '{name}': its initial_state '{}' {text}", initial.name);
    // The server gives a state of any size one element, whatever its initial state has.
    let dims: Vec<i64> = dims.iter().map(|size| if *size < 0 { 1 } else { *size }).collect();
    if Datatype::of(initial.data_type()) != Some(*datatype) || initial.dims != dims {
        return Err(problem("has another type or other dims"));
    }
    let elements = dims.iter().try_fold(1_usize, |product, size| product.checked_mul(usize::try_from(*size).ok()?));
    // An empty text has its length alone.
    let bytes = elements.and_then(|elements| elements.checked_mul(datatype.size().unwrap_or(4)));
    let bytes = bytes.filter(|bytes| *bytes as u64 <= STATE_BYTES_MAX).ok_or_else(|| problem("is too large"))?;
    match &initial.state_data {
        Some(StateData::ZeroData(_)) => Ok(vec![0; bytes]),
        Some(StateData::DataFile(name)) => {
            let data =
                files.get(name).ok_or_else(|| problem(&format!("names a data_file '{name}' that is not there")))?;
            let fits = match datatype {
                Datatype::Bytes => Some(texts(data).count()) == elements && texts(data).all(|text| text.is_some()),
                _ => data.len() == bytes,
            };
            let size = || problem(&format!("has {bytes} bytes, and its data_file '{name}' {}", data.len()));
            fits.then(|| data.clone()).ok_or_else(size)
        }
        None => Err(problem("has neither zero_data nor a data_file")),
    }
}
