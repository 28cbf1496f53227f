//! What a model's configuration means: how it is scheduled, what it is told, and what it computes.

use std::{sync::Arc, time::Duration};

use super::{
    scheduler::{HoldUntil, Settings, Strategy},
    tensor::Datatype,
};
use crate::proto::{
    DataType, ModelConfig, ModelSequenceBatching,
    model_config::SchedulingChoice,
    model_sequence_batching::{Control, State, StrategyChoice, control::Kind, initial_state::StateData},
};

/// The configuration parameter that tells how long an execution takes, in ms.
const EXECUTION_PARAMETER: &str = "execute_delay_ms";
/// The configuration parameter that names what the model computes.
const FORMULA_PARAMETER: &str = "sequence_stress_formula";
/// The configuration parameter that names the output in which the model says what it saw of a request: INT64, of
/// [`SEEN_ELEMENTS`].
const CONTROLS_PARAMETER: &str = "sequence_stress_controls";
/// START, END, READY, CORRID and the slot.
pub(super) const SEEN_ELEMENTS: i64 = 5;
/// The configuration parameter that names a sum of inputs which the model refuses.
const ERROR_PARAMETER: &str = "error_on_value";
/// Where a configuration leaves the idle limit out, the server's own.
const DEFAULT_IDLE_LIMIT_US: u64 = 1_000_000;
/// The most that a configuration may ask for, so that no client can make the server take the machine's memory.
const INSTANCES_MAX: u32 = 1024;
const SLOTS_MAX: u64 = 65_536;
const STATE_BYTES_MAX: u64 = 64 << 20;

/// A model, as its configuration has it.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) config: ModelConfig,
    pub(super) settings: Settings,
    pub(super) inputs: Vec<TensorSpec>,
    pub(super) outputs: Vec<TensorSpec>,
    pub(super) controls: Vec<ControlSpec>,
    pub(super) state: Option<StateSpec>,
    pub(super) formula: Formula,
    /// How long one execution takes.
    pub(super) execution: Duration,
    /// A step that would add this is answered with an error, and changes nothing.
    pub(super) error_on: Option<i32>,
}

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
    pub(super) input: Arc<str>,
    pub(super) output: Arc<str>,
    pub(super) dims: Vec<i64>,
    /// Whether a new sequence finds zeros; what it finds else is not defined.
    pub(super) has_initial: bool,
}

/// What a model computes, where its state is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    /// The running sum.
    RunningSum,
    /// The running sum; at END, the correlation ID's low 32 bits besides.
    RunningSumPlusCorrelationIdAtEnd,
}

impl Spec {
    /// Reads a configuration; `hold_until` is the process's own setting.
    ///
    /// # Errors
    /// What this server cannot serve.
    pub(super) fn new(mut config: ModelConfig, hold_until: HoldUntil) -> Result<Self, String> {
        check(&config)?;
        complete(&mut config);
        let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice else {
            return Err(format!("model '{}' has no sequence_batching", config.name));
        };
        if config.model_transaction_policy.is_some_and(|policy| policy.decoupled) || batching.iterative_sequence {
            return Err(format!("model '{}': decoupled and iterative models are not served", config.name));
        }
        let inputs = config.input.iter().map(|input| tensor(&input.name, input.data_type(), &input.dims));
        let outputs = config.output.iter().map(|output| tensor(&output.name, output.data_type(), &output.dims));
        let (inputs, outputs) = (inputs.collect::<Result<Vec<_>, _>>()?, outputs.collect::<Result<Vec<_>, _>>()?);
        let is_int32 = |tensors: &[TensorSpec]| matches!(tensors, [only] if only.datatype == Datatype::Int32);
        let (result, seen) = outputs.split_at(outputs.len().min(1));
        if !is_int32(&inputs) || !is_int32(result) || !is_seen(seen, &config) {
            return Err(format!(
                "model '{}': one INT32 input and one INT32 output are served, and one INT64 output of {SEEN_ELEMENTS} elements \
                 that parameter '{CONTROLS_PARAMETER}' names",
                config.name
            ));
        }
        let state = match batching.state.as_slice() {
            [] => None,
            [state] => Some(state_spec(state)?),
            _ => return Err(format!("model '{}': one implicit state is served, not several", config.name)),
        };
        let settings = settings(&config, batching, hold_until)?;
        limit(&config.name, &settings, state.as_ref())?;
        Ok(Self {
            settings,
            controls: controls(batching)?,
            state,
            formula: formula(&config)?,
            execution: execution(&config)?,
            error_on: error_on(&config)?,
            inputs,
            outputs,
            config,
        })
    }

    /// The tensor by which the model is told this.
    pub(super) fn control(&self, signal: Signal) -> Option<&ControlSpec> {
        self.controls.iter().find(|control| control.signal == signal)
    }

    /// The output in which the model says what it saw.
    pub(super) fn seen(&self) -> Option<&TensorSpec> {
        self.outputs.get(1)
    }

    /// Whether requests have a batch dimension.
    pub(super) fn batches(&self) -> bool {
        self.config.max_batch_size > 0
    }

    /// The shape of a tensor as the metadata tells it.
    pub(super) fn shape(&self, tensor: &TensorSpec) -> Vec<i64> {
        self.batches().then_some(-1).into_iter().chain(tensor.dims.iter().copied()).collect()
    }
}

/// Whether these are the outputs besides the result: the one in which the model says what it saw, where one is named.
fn is_seen(outputs: &[TensorSpec], config: &ModelConfig) -> bool {
    match (outputs, parameter(config, CONTROLS_PARAMETER)) {
        ([], None) => true,
        ([output], Some(name)) => {
            *output.name == *name && output.datatype == Datatype::Int64 && output.dims == [SEEN_ELEMENTS]
        }
        _ => false,
    }
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

/// Refuses what would take more than this server gives.
fn limit(name: &str, settings: &Settings, state: Option<&StateSpec>) -> Result<(), String> {
    let instances = settings.instances;
    if instances > INSTANCES_MAX {
        return Err(format!("model '{name}': {instances} instances are too many, at most {INSTANCES_MAX} are served"));
    }
    let slots = u64::from(instances) * u64::from(settings.slots());
    if slots > SLOTS_MAX {
        return Err(format!("model '{name}': {slots} slots are too many, at most {SLOTS_MAX} are served"));
    }
    let sizes = state.iter().flat_map(|state| &state.dims).map(|size| size.unsigned_abs());
    if sizes.fold(4 * slots, u64::saturating_mul) > STATE_BYTES_MAX && state.is_some() {
        return Err(format!(
            "model '{name}': its implicit state is too large, all slots' may take {STATE_BYTES_MAX} bytes"
        ));
    }
    Ok(())
}

/// Fills in what a configuration may leave out.
fn complete(config: &mut ModelConfig) {
    if config.instance_group.is_empty() {
        config.instance_group.push(crate::proto::ModelInstanceGroup::default());
    }
    let cpu = crate::proto::model_instance_group::Kind::Cpu;
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
    if dims.is_empty() || dims.iter().any(|size| *size < -1 || *size == 0) {
        return Err(format!("tensor '{name}': dims must be given, each -1 or above 0"));
    }
    Ok(TensorSpec { name: name.into(), datatype, dims: dims.to_vec() })
}

fn settings(config: &ModelConfig, batching: &ModelSequenceBatching, hold_until: HoldUntil) -> Result<Settings, String> {
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
        hold_until,
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

fn state_spec(state: &State) -> Result<StateSpec, String> {
    let name = &state.input_name;
    let dims = tensor(name, state.data_type(), &state.dims)?;
    if dims.datatype != Datatype::Int32 || dims.dims.iter().any(|size| *size < 0) {
        return Err(format!("state '{name}': INT32 of a fixed shape is served"));
    }
    let has_initial = match state.initial_state.as_slice() {
        [] => false,
        [initial] if matches!(initial.state_data, Some(StateData::ZeroData(_))) => true,
        _ => return Err(format!("state '{name}': one initial_state with zero_data is served")),
    };
    Ok(StateSpec {
        input: name.as_str().into(),
        output: state.output_name.as_str().into(),
        dims: dims.dims,
        has_initial,
    })
}

fn parameter<'a>(config: &'a ModelConfig, name: &str) -> Option<&'a str> {
    config.parameters.get(name).map(|parameter| parameter.string_value.as_str())
}

fn formula(config: &ModelConfig) -> Result<Formula, String> {
    match parameter(config, FORMULA_PARAMETER) {
        None | Some("running-sum") => Ok(Formula::RunningSum),
        Some("running-sum-plus-corrid-at-end") => Ok(Formula::RunningSumPlusCorrelationIdAtEnd),
        Some(other) => Err(format!("parameter '{FORMULA_PARAMETER}': '{other}' is not served")),
    }
}

fn error_on(config: &ModelConfig) -> Result<Option<i32>, String> {
    let number = |text: &str| text.parse().map_err(|_| format!("parameter '{ERROR_PARAMETER}': '{text}' is no number"));
    parameter(config, ERROR_PARAMETER).map(number).transpose()
}

fn execution(config: &ModelConfig) -> Result<Duration, String> {
    let text = parameter(config, EXECUTION_PARAMETER).unwrap_or("0");
    let milliseconds = text.parse().ok().filter(|ms: &f64| (0.0..=3_600_000.0).contains(ms));
    let milliseconds =
        milliseconds.ok_or_else(|| format!("parameter '{EXECUTION_PARAMETER}': '{text}' is no time in ms"))?;
    Ok(Duration::from_secs_f64(milliseconds / 1000.0))
}
