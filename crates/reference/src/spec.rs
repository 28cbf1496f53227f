//! What a model's configuration means: how it is scheduled, what it is told, and what it computes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    number::Number,
    parameters::{self, Parameters},
    scheduler::{HoldUntil, Settings, Strategy},
    tensor::{Datatype, Tensor, texts},
};
use wire::proto::{
    DataType, ModelConfig, ModelSequenceBatching,
    model_config::SchedulingChoice,
    model_sequence_batching::{Control, InitialState, State, StrategyChoice, control::Kind, initial_state::StateData},
};

/// START, END, READY, CORRID and the slot.
pub(super) const SEEN_ELEMENTS: i64 = 5;
/// Where a configuration leaves the idle limit out, the server's own.
const DEFAULT_IDLE_LIMIT_US: u64 = 1_000_000;
/// The most that a configuration may ask for, so that no client can make the server take the machine's memory.
const INSTANCES_MAX: u32 = 1024;
const SLOTS_MAX: u64 = 65_536;
pub(super) const STATE_BYTES_MAX: u64 = 64 << 20;

/// A model, as its configuration has it.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) config: ModelConfig,
    pub(super) settings: Settings,
    pub(super) inputs: Vec<TensorSpec>,
    pub(super) outputs: Vec<TensorSpec>,
    pub(super) tells: Vec<Tells>,
    pub(super) controls: Vec<ControlSpec>,
    pub(super) state: Option<StateSpec>,
    pub(super) parameters: Parameters,
    /// Whether a request may get other than one response.
    pub(super) is_decoupled: bool,
    /// Whether a request is executed again and again, and a sequence of its own.
    pub(super) is_iterative: bool,
}

/// The contents of the files that a configuration names, by what it names them.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// What an output tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// The sum.
    Result,
    /// What the model saw: [`SEEN_ELEMENTS`].
    Seen,
    /// What a control said.
    Control(Signal),
    /// The row's place in the batch.
    Slot,
    /// The instance's number.
    Instance,
}

/// Outputs of one element, of models that echo what they saw.
const ECHOES: [(&str, Datatype, Tells); 6] = [
    ("SAW_START", Datatype::Int32, Tells::Control(Signal::Start)),
    ("SAW_END", Datatype::Int32, Tells::Control(Signal::End)),
    ("SAW_READY", Datatype::Int32, Tells::Control(Signal::Ready)),
    ("SAW_CORRID", Datatype::Uint64, Tells::Control(Signal::CorrelationId)),
    ("SLOT", Datatype::Int32, Tells::Slot),
    ("INSTANCE", Datatype::Int32, Tells::Instance),
];

/// An input or output.
#[derive(Clone, Debug)]
pub(super) struct TensorSpec {
    pub(super) name: Arc<str>,
    pub(super) datatype: Datatype,
    /// Without the batch dimension; -1 is any size.
    pub(super) dims: Vec<i64>,
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
    /// Its input, of a fixed shape.
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
        complete(&mut config);
        let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice else {
            return Err(format!("model '{}' has no sequence_batching", config.name));
        };
        let inputs = config.input.iter().map(|input| tensor(&input.name, input.data_type(), &input.dims));
        let outputs = config.output.iter().map(|output| tensor(&output.name, output.data_type(), &output.dims));
        let (inputs, outputs) = (inputs.collect::<Result<Vec<_>, _>>()?, outputs.collect::<Result<Vec<_>, _>>()?);
        let [input] = inputs.as_slice() else {
            return Err(format!("model '{}': one input is served, not {}", config.name, inputs.len()));
        };
        if Number::of_bits(input.datatype, 0).is_none() {
            return Err(format!("input '{}': there is no sum of {}", input.name, input.datatype.name()));
        }
        let tells = tells(&config, input, &outputs)?;
        let parameters = Parameters::read(&config, input.datatype)?;
        let state = match batching.state.as_slice() {
            [] => None,
            [state] => Some(state_spec(state, input, parameters.initial, files)?),
            _ => return Err(format!("model '{}': one implicit state is served, not several", config.name)),
        };
        let settings = settings(&config, batching)?;
        limit(&config.name, &settings, state.as_ref())?;
        Ok(Self {
            settings,
            controls: controls(batching)?,
            state,
            parameters,
            is_decoupled: parameters::is_decoupled(&config),
            is_iterative: batching.iterative_sequence,
            inputs,
            outputs,
            tells,
            config,
        })
    }

    /// The one type that the model computes with.
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

    /// What these bits are in the type that the model computes with.
    pub(super) fn number(&self, bits: u64) -> Number {
        Number::of_bits(self.datatype(), bits).expect("a model's type has numbers")
    }
}

/// What each output tells: the first one the sum, the others by their names.
fn tells(config: &ModelConfig, input: &TensorSpec, outputs: &[TensorSpec]) -> Result<Vec<Tells>, String> {
    let [result, echoes @ ..] = outputs else { return Err(format!("model '{}' has no output", config.name)) };
    if result.datatype != input.datatype {
        return Err(format!("output '{}' is {}, and the input {}", result.name, result.datatype, input.datatype));
    }
    let mut names = BTreeSet::new();
    if let Some(again) = outputs.iter().find(|output| !names.insert(&output.name)) {
        return Err(format!("there are two outputs '{}'", again.name));
    }
    let seen = parameters::text(config, parameters::CONTROLS);
    let echo = |TensorSpec { name, datatype, dims }: &TensorSpec| {
        let echo = ECHOES.iter().find(|(its, ..)| **its == **name);
        if seen == Some(&**name) && *datatype == Datatype::Int64 && *dims == [SEEN_ELEMENTS] {
            Ok(Tells::Seen)
        } else if let Some((_, _, tells)) = echo.filter(|(_, its, _)| datatype == its && *dims == [1]) {
            Ok(*tells)
        } else {
            Err(format!(
                "output '{name}': besides the sum there may be one INT64 of {SEEN_ELEMENTS} elements that parameter \
                 '{}' names, and echoes of what the model saw",
                parameters::CONTROLS
            ))
        }
    };
    [Ok(Tells::Result)].into_iter().chain(echoes.iter().map(echo)).collect()
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
fn limit(name: &str, settings: &Settings, state: Option<&StateSpec>) -> Result<(), String> {
    let instances = settings.instances;
    if instances > INSTANCES_MAX {
        return Err(format!("model '{name}': {instances} instances are too many, at most {INSTANCES_MAX} are served"));
    }
    let slots = u64::from(instances) * u64::from(settings.slots());
    if slots > SLOTS_MAX {
        return Err(format!("model '{name}': {slots} slots are too many, at most {SLOTS_MAX} are served"));
    }
    let Some(TensorSpec { datatype, dims, .. }) = state.map(|state| &state.tensor) else { return Ok(()) };
    // An element that is a text has its length before it, and at most eleven digits.
    let element = datatype.size().unwrap_or(16) as u64;
    let sizes = dims.iter().map(|size| size.unsigned_abs());
    if sizes.fold(element * slots, u64::saturating_mul) > STATE_BYTES_MAX {
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

fn tensor(name: &str, datatype: DataType, dims: &[i64]) -> Result<TensorSpec, String> {
    let datatype = Datatype::of(datatype).ok_or_else(|| format!("tensor '{name}' has no data type that is served"))?;
    if datatype == Datatype::Bf16 {
        return Err(format!("tensor '{name}' is of BF16, whose sums are exact up to 256 alone: it is not served"));
    }
    if dims.is_empty() || dims.iter().any(|size| *size < -1 || *size == 0) {
        return Err(format!("tensor '{name}': dims must be given, each -1 or above 0"));
    }
    Ok(TensorSpec { name: name.into(), datatype, dims: dims.to_vec() })
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

fn state_spec(state: &State, input: &TensorSpec, told: Option<Number>, files: &Files) -> Result<StateSpec, String> {
    let name = &state.input_name;
    let tensor = tensor(name, state.data_type(), &state.dims)?;
    if tensor.datatype != input.datatype || tensor.dims.iter().any(|size| *size < 0) {
        return Err(format!("state '{name}': {} of a fixed shape is served, as the input is", input.datatype));
    }
    let initial = match state.initial_state.as_slice() {
        [] => None,
        [initial] => Some(initial_data(&tensor, initial, files)?),
        _ => return Err(format!("state '{name}': one initial_state is served, not several")),
    };
    if let (Some(data), Some(told)) = (&initial, told) {
        let is = first_number(tensor.datatype, data);
        let says = is.map_or("no number".to_owned(), |number| number.to_string());
        if is != Some(told) {
            return Err(format!("state '{name}': its initial_state begins with {says}, and a parameter says {told}"));
        }
    }
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
    let TensorSpec { name, datatype, dims } = state;
    let problem = |text: &str| format!("state '{name}': its initial_state '{}' {text}", initial.name);
    if Datatype::of(initial.data_type()) != Some(*datatype) || initial.dims != *dims {
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
