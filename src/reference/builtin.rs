//! The models that the server has from the start.

use std::time::Duration;

use super::spec::SEEN_ELEMENTS;
use crate::{
    model::Strategy,
    proto::{
        DataType, ModelConfig, ModelInput, ModelInstanceGroup, ModelOutput, ModelParameter, ModelSequenceBatching,
        model_config::SchedulingChoice,
        model_sequence_batching::{
            Control, ControlInput, InitialState, State, StrategyChoice, StrategyDirect, StrategyOldest, control::Kind,
            initial_state::StateData,
        },
    },
};

/// The shapes and limits of the built-in models.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOptions {
    /// The strategy of the models whose name does not say it.
    pub strategy: Strategy,
    /// Instances of each model.
    pub instances: u32,
    /// The most requests of one execution, which with Direct are the slots of an instance.
    pub max_batch_size: u32,
    /// With Oldest, the slots of an instance.
    pub candidates: u32,
    /// How long a sequence may be idle.
    pub idle_limit: Duration,
    /// How long one execution takes; whole milliseconds.
    pub execution: Duration,
    /// How long the scheduler may hold a batch back.
    pub queue_delay: Duration,
    /// With Direct: the share of slots for which no batch is held back.
    pub minimum_slot_utilization: f32,
    /// With Oldest: batch sizes for which no batch is held back.
    pub preferred_batch_sizes: Vec<u32>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            strategy: Strategy::Direct,
            instances: 1,
            max_batch_size: 8,
            candidates: 8,
            idle_limit: Duration::from_secs(1),
            execution: Duration::from_millis(3),
            queue_delay: Duration::ZERO,
            minimum_slot_utilization: 0.0,
            preferred_batch_sizes: Vec::new(),
        }
    }
}

/// What sets one model apart from the others.
#[derive(Clone, Copy)]
struct Kindred {
    name: &'static str,
    batches: bool,
    /// None: as the options say.
    strategy: Option<Strategy>,
    /// The correlation ID is added at END.
    dyna: bool,
    state: Option<Initial>,
}

/// What a new sequence finds in an implicit state.
#[derive(Clone, Copy, PartialEq)]
enum Initial {
    Undefined,
    Zero,
}

const PLAIN: Kindred =
    Kindred { name: "custom_sequence_int32", batches: true, strategy: None, dyna: false, state: None };

const MODELS: [Kindred; 9] = [
    PLAIN,
    Kindred { name: "custom_nobatch_sequence_int32", batches: false, ..PLAIN },
    Kindred { name: "oldest_sequence_int32", strategy: Some(Strategy::Oldest), ..PLAIN },
    Kindred { name: "custom_dyna_sequence_int32", strategy: Some(Strategy::Oldest), dyna: true, ..PLAIN },
    Kindred {
        name: "custom_nobatch_dyna_sequence_int32",
        strategy: Some(Strategy::Oldest),
        dyna: true,
        batches: false,
        ..PLAIN
    },
    Kindred { name: "implicit_sequence_int32", state: Some(Initial::Undefined), ..PLAIN },
    Kindred { name: "implicit_initial_sequence_int32", state: Some(Initial::Zero), ..PLAIN },
    Kindred { name: "implicit_nobatch_sequence_int32", state: Some(Initial::Undefined), batches: false, ..PLAIN },
    Kindred {
        name: "implicit_dyna_sequence_int32",
        state: Some(Initial::Undefined),
        strategy: Some(Strategy::Oldest),
        ..PLAIN
    },
];

/// The names of the built-in models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

/// The strategy of a built-in model, where those that may have either have this one; none where there is no such model.
#[must_use]
pub fn strategy_of(name: &str, otherwise: Strategy) -> Option<Strategy> {
    let model = MODELS.iter().find(|model| model.name == name)?;
    Some(model.strategy.unwrap_or(otherwise))
}

/// The configurations of all built-in models.
pub(super) fn configs(options: &ModelOptions) -> Vec<ModelConfig> {
    MODELS.iter().map(|model| config(*model, options)).collect()
}

fn config(model: Kindred, options: &ModelOptions) -> ModelConfig {
    let strategy = model.strategy.unwrap_or(options.strategy);
    // A state tensor has a fixed shape, and so has what is added to it.
    let dims = vec![if model.state.is_some() { 1 } else { -1 }];
    let batching = ModelSequenceBatching {
        max_sequence_idle_microseconds: micros(options.idle_limit),
        control_input: controls(strategy == Strategy::Oldest && model.state.is_none()),
        state: model.state.map(state).into_iter().collect(),
        strategy_choice: Some(strategy_choice(strategy, model.batches, options)),
        ..Default::default()
    };
    let formula = if model.dyna { "running-sum-plus-corrid-at-end" } else { "running-sum" };
    let milliseconds = options.execution.as_millis().to_string();
    let parameters = [
        ("execute_delay_ms", milliseconds),
        ("sequence_stress_formula", formula.to_owned()),
        ("sequence_stress_controls", "SEEN".to_owned()),
    ];
    let parameter = |(key, string_value): (&str, String)| (key.to_owned(), ModelParameter { string_value });
    ModelConfig {
        name: model.name.to_owned(),
        backend: "sequence_stress".to_owned(),
        max_batch_size: if model.batches { size(options.max_batch_size) } else { 0 },
        input: vec![ModelInput {
            name: "INPUT".to_owned(),
            data_type: DataType::TypeInt32.into(),
            dims: dims.clone(),
            ..Default::default()
        }],
        output: vec![
            ModelOutput { name: "OUTPUT".to_owned(), data_type: DataType::TypeInt32.into(), dims },
            ModelOutput { name: "SEEN".to_owned(), data_type: DataType::TypeInt64.into(), dims: vec![SEEN_ELEMENTS] },
        ],
        instance_group: vec![ModelInstanceGroup { count: size(options.instances), ..Default::default() }],
        scheduling_choice: Some(SchedulingChoice::SequenceBatching(batching)),
        parameters: parameters.map(parameter).into(),
        ..Default::default()
    }
}

fn size(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn strategy_choice(strategy: Strategy, batches: bool, options: &ModelOptions) -> StrategyChoice {
    let max_queue_delay_microseconds = micros(options.queue_delay);
    match strategy {
        Strategy::Direct => StrategyChoice::Direct(StrategyDirect {
            max_queue_delay_microseconds,
            minimum_slot_utilization: options.minimum_slot_utilization,
        }),
        Strategy::Oldest => StrategyChoice::Oldest(StrategyOldest {
            max_candidate_sequences: size(options.candidates),
            // Without a batch dimension there is nothing to prefer.
            preferred_batch_size: options.preferred_batch_sizes.iter().filter(|_| batches).map(|s| size(*s)).collect(),
            max_queue_delay_microseconds,
            preserve_ordering: false,
        }),
    }
}

/// START and READY, as the slot-keyed accumulator has them; with END and CORRID besides where it goes by correlation ID.
fn controls(with_id: bool) -> Vec<ControlInput> {
    let flag = |name: &str, kind: Kind| ControlInput {
        name: name.to_owned(),
        control: vec![Control { kind: kind.into(), int32_false_true: vec![0, 1], ..Default::default() }],
    };
    let id = ControlInput {
        name: "CORRID".to_owned(),
        control: vec![Control {
            kind: Kind::ControlSequenceCorrid.into(),
            data_type: DataType::TypeUint64.into(),
            ..Default::default()
        }],
    };
    let mut controls = vec![flag("START", Kind::ControlSequenceStart), flag("READY", Kind::ControlSequenceReady)];
    if with_id {
        controls.extend([flag("END", Kind::ControlSequenceEnd), id]);
    }
    controls
}

fn state(initial: Initial) -> State {
    let zero = InitialState {
        name: "zero".to_owned(),
        data_type: DataType::TypeInt32.into(),
        dims: vec![1],
        state_data: Some(StateData::ZeroData(true)),
    };
    State {
        input_name: "INPUT_STATE".to_owned(),
        output_name: "OUTPUT_STATE".to_owned(),
        data_type: DataType::TypeInt32.into(),
        dims: vec![1],
        initial_state: (initial == Initial::Zero).then_some(zero).into_iter().collect(),
        ..Default::default()
    }
}
