//! The models that the server has from the start.

use std::{sync::LazyLock, time::Duration};

use super::{parameters::Formula, spec::SEEN_ELEMENTS};
use crate::{
    model::Strategy,
    proto::{
        DataType, ModelConfig, ModelInput, ModelInstanceGroup, ModelOutput, ModelParameter, ModelSequenceBatching,
        ModelTransactionPolicy,
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

/// What sets one family of models apart from the others: there is one model for each type of numbers.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    batches: bool,
    /// None: as the options say.
    strategy: Option<Strategy>,
    formula: Formula,
    state: Option<Initial>,
    answers: Answers,
}

/// How often requests are answered.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    Once,
    /// Three times, after one execution.
    Decoupled,
    /// At each of three executions.
    Iterative,
}

/// What a new sequence finds in an implicit state.
#[derive(Clone, Copy, PartialEq)]
enum Initial {
    Undefined,
    Zero,
}

const RUNNING_SUM: Formula = Formula { is_stateless: false, adds_id_at_end: false };
const PLUS_ID: Formula = Formula { adds_id_at_end: true, ..RUNNING_SUM };
const PLAIN: Family = Family {
    name: "custom_sequence",
    batches: true,
    strategy: None,
    formula: RUNNING_SUM,
    state: None,
    answers: Answers::Once,
};
const OLDEST: Family = Family { strategy: Some(Strategy::Oldest), ..PLAIN };
const IMPLICIT: Family = Family { state: Some(Initial::Undefined), ..PLAIN };

const FAMILIES: [Family; 14] = [
    PLAIN,
    Family { name: "custom_nobatch_sequence", batches: false, ..PLAIN },
    Family { name: "oldest_sequence", ..OLDEST },
    Family { name: "custom_dyna_sequence", formula: PLUS_ID, ..OLDEST },
    Family { name: "custom_nobatch_dyna_sequence", formula: PLUS_ID, batches: false, ..OLDEST },
    Family { name: "implicit_sequence", ..IMPLICIT },
    Family { name: "implicit_initial_sequence", state: Some(Initial::Zero), ..PLAIN },
    Family { name: "implicit_nobatch_sequence", batches: false, ..IMPLICIT },
    Family { name: "implicit_dyna_sequence", state: Some(Initial::Undefined), ..OLDEST },
    Family { name: "stateless_sequence", formula: Formula { is_stateless: true, ..RUNNING_SUM }, ..PLAIN },
    Family { name: "decoupled_sequence", answers: Answers::Decoupled, ..PLAIN },
    Family { name: "decoupled_oldest_sequence", answers: Answers::Decoupled, ..OLDEST },
    Family { name: "iterative_sequence", answers: Answers::Iterative, ..PLAIN },
    Family { name: "stateless_dyna_sequence", formula: Formula { is_stateless: true, ..PLUS_ID }, ..OLDEST },
];

/// What the names of models say of their numbers, and whether their controls are BOOL.
const TYPES: [(&str, DataType, bool); 13] = [
    ("int8", DataType::TypeInt8, false),
    ("int16", DataType::TypeInt16, false),
    ("int32", DataType::TypeInt32, false),
    ("int64", DataType::TypeInt64, false),
    ("uint8", DataType::TypeUint8, false),
    ("uint16", DataType::TypeUint16, false),
    ("uint32", DataType::TypeUint32, false),
    ("uint64", DataType::TypeUint64, false),
    ("float16", DataType::TypeFp16, false),
    ("float32", DataType::TypeFp32, false),
    ("float64", DataType::TypeFp64, false),
    ("object", DataType::TypeString, false),
    ("bool", DataType::TypeInt32, true),
];

/// A built-in model.
struct BuiltIn {
    name: String,
    family: Family,
    datatype: DataType,
    bool_controls: bool,
}

static MODELS: LazyLock<Vec<BuiltIn>> = LazyLock::new(|| {
    let of_type = |(name, datatype, bool_controls): (&str, DataType, bool)| {
        FAMILIES.map(|family| BuiltIn { name: format!("{}_{name}", family.name), family, datatype, bool_controls })
    };
    TYPES.into_iter().flat_map(of_type).collect()
});

/// The names of the built-in models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name.as_str())
}

/// The names of the built-in models in short: families, and types that go behind each.
#[must_use]
pub fn models_in_short() -> String {
    let families: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
    let types: Vec<_> = TYPES.iter().map(|(name, ..)| *name).collect();
    format!("{}, each with _{}", families.join(", "), types.join(", _"))
}

/// The strategy of a built-in model, where those that may have either have this one; none where there is no such model.
#[must_use]
pub fn strategy_of(name: &str, otherwise: Strategy) -> Option<Strategy> {
    let model = MODELS.iter().find(|model| model.name == name)?;
    Some(model.family.strategy.unwrap_or(otherwise))
}

/// The configurations of all built-in models.
pub(super) fn configs(options: &ModelOptions) -> Vec<ModelConfig> {
    MODELS.iter().map(|model| config(model, options)).collect()
}

fn config(BuiltIn { name, family: model, datatype, bool_controls }: &BuiltIn, options: &ModelOptions) -> ModelConfig {
    let strategy = model.strategy.unwrap_or(options.strategy);
    // A state tensor has a fixed shape, and so has what is added to it.
    let dims = vec![if model.state.is_some() { 1 } else { -1 }];
    let batching = ModelSequenceBatching {
        max_sequence_idle_microseconds: micros(options.idle_limit),
        control_input: controls(strategy == Strategy::Oldest && model.state.is_none(), *bool_controls),
        state: model.state.map(|initial| state(initial, *datatype)).into_iter().collect(),
        strategy_choice: Some(strategy_choice(strategy, model.batches, options)),
        iterative_sequence: model.answers == Answers::Iterative,
    };
    let milliseconds = options.execution.as_millis().to_string();
    let parameters = [
        ("execute_delay_ms", milliseconds),
        ("sequence_stress_formula", model.formula.name().to_owned()),
        ("sequence_stress_controls", "SEEN".to_owned()),
    ];
    let times = match model.answers {
        Answers::Once => None,
        Answers::Decoupled => Some(("sequence_stress_responses", "3".to_owned())),
        Answers::Iterative => Some(("sequence_stress_iterations", "3".to_owned())),
    };
    let parameter = |(key, string_value): (&str, String)| (key.to_owned(), ModelParameter { string_value });
    ModelConfig {
        name: name.clone(),
        backend: "sequence_stress".to_owned(),
        max_batch_size: if model.batches { size(options.max_batch_size) } else { 0 },
        input: vec![ModelInput {
            name: "INPUT".to_owned(),
            data_type: (*datatype).into(),
            dims: dims.clone(),
            ..Default::default()
        }],
        output: vec![output("OUTPUT", *datatype, dims), output("SEEN", DataType::TypeInt64, vec![SEEN_ELEMENTS])],
        instance_group: vec![ModelInstanceGroup { count: size(options.instances), ..Default::default() }],
        scheduling_choice: Some(SchedulingChoice::SequenceBatching(batching)),
        model_transaction_policy: (model.answers != Answers::Once)
            .then_some(ModelTransactionPolicy { decoupled: true }),
        parameters: parameters.into_iter().chain(times).map(parameter).collect(),
        ..Default::default()
    }
}

fn output(name: &str, datatype: DataType, dims: Vec<i64>) -> ModelOutput {
    ModelOutput { name: name.to_owned(), data_type: datatype.into(), dims, ..Default::default() }
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
fn controls(with_id: bool, are_bool: bool) -> Vec<ControlInput> {
    let (int32_false_true, bool_false_true) =
        if are_bool { (Vec::new(), vec![false, true]) } else { (vec![0, 1], Vec::new()) };
    let flag = |name: &str, kind: Kind| {
        let (int32_false_true, bool_false_true) = (int32_false_true.clone(), bool_false_true.clone());
        let control = Control { kind: kind.into(), int32_false_true, bool_false_true, ..Default::default() };
        ControlInput { name: name.to_owned(), control: vec![control] }
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

fn state(initial: Initial, datatype: DataType) -> State {
    let zero = InitialState {
        name: "zero".to_owned(),
        data_type: datatype.into(),
        dims: vec![1],
        state_data: Some(StateData::ZeroData(true)),
    };
    State {
        input_name: "INPUT_STATE".to_owned(),
        output_name: "OUTPUT_STATE".to_owned(),
        data_type: datatype.into(),
        dims: vec![1],
        initial_state: (initial == Initial::Zero).then_some(zero).into_iter().collect(),
        ..Default::default()
    }
}
