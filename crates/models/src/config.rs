//! The configurations of models.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use formats::networks;

use super::{
    dtype::Dtype,
    family::StateTensor,
    model::{INITIAL_FILE, Model, initial_file},
    options::{ControlType, CorridType, Extra, InitialState, ModelOptions},
};
use wire::proto::{
    DataType, ModelConfig, ModelEnsembling, ModelInput, ModelInstanceGroup, ModelOptimizationPolicy, ModelOutput,
    ModelParameter, ModelRateLimiter, ModelSequenceBatching, ModelTransactionPolicy, ModelVersionPolicy, ModelWarmup,
    model_config::SchedulingChoice,
    model_ensembling::Step,
    model_optimization_policy::ModelPriority,
    model_rate_limiter::Resource,
    model_sequence_batching::{
        Control, ControlInput, InitialState as InitialData, State, StrategyChoice, StrategyDirect, StrategyOldest,
        control::Kind, initial_state::StateData,
    },
    model_version_policy::{All, PolicyChoice},
    model_warmup::{Input, input::InputDataType},
};
use workload::{
    answers::Answers,
    arithmetic::{Arithmetic, Formula},
    model::{Chain, Strategy},
};

/// What configurations say in place of a formula where there is none.
pub(super) const NO_FORMULA: &str = "none";
/// The output that tells what a model saw, and how many elements it has.
const SEEN: &str = "SEEN";
const SEEN_ELEMENTS: i64 = 5;
/// The tensors of an ensemble and of each of its steps.
const INPUT: &str = "INPUT";
const OUTPUT: &str = "OUTPUT";
/// The parameters of a model with steps; all others are of its steps.
const OF_THE_WHOLE: [&str; 3] = ["sequence_stress_controls", Formula::PARAMETER, Arithmetic::INITIAL_STATE];
/// What echo models tell besides, each in an output of its own.
const ECHOES: [(&str, DataType); 6] = [
    ("SAW_START", DataType::TypeInt32),
    ("SAW_END", DataType::TypeInt32),
    ("SAW_READY", DataType::TypeInt32),
    ("SAW_CORRID", DataType::TypeUint64),
    ("SLOT", DataType::TypeInt32),
    ("INSTANCE", DataType::TypeInt32),
];

impl Model<'_> {
    /// Its configuration.
    pub fn config(&self) -> ModelConfig {
        match self.form.family {
            family if family.is_ensemble() => self.ensemble(),
            family if family.has_steps() => self.calling(),
            _ => self.own_config(),
        }
    }

    /// The configuration of a program that calls another model, with the same tensors and sequence batcher as that one.
    fn calling(&self) -> ModelConfig {
        let own = self.own_config();
        let parameter = |value: &str| ModelParameter { string_value: value.to_owned() };
        let mut parameters = of_the_whole(own.parameters);
        parameters.insert(Chain::CALLS.to_owned(), parameter(&self.step_name(1)));
        let given = self.options.parameters.iter().filter(|given| self.is_for_calling(given));
        parameters.extend(given.map(|(name, value)| (name.clone(), parameter(value))));
        ModelConfig { backend: self.run_by().traits().in_config.to_owned(), parameters, ..own }
    }

    /// The configuration of an ensemble: each step takes what the one before it gives, and the last one tells what it saw.
    fn ensemble(&self) -> ModelConfig {
        let own = self.own_config();
        let (first, last) = (INPUT, OUTPUT);
        let count = self.form.family.traits().steps.len();
        let between = |place: usize| match place {
            0 => first.to_owned(),
            place if place == count => last.to_owned(),
            place => format!("BETWEEN_{place}"),
        };
        let step = |place: usize| {
            let mut output_map = HashMap::from([(last.to_owned(), between(place))]);
            if place == count {
                output_map.insert(SEEN.to_owned(), SEEN.to_owned());
            }
            Step {
                model_name: self.step_name(place),
                model_version: -1,
                input_map: [(first.to_owned(), between(place - 1))].into(),
                output_map,
                ..Default::default()
            }
        };
        let steps = (1..=count).map(step).collect();
        let parameters = of_the_whole(own.parameters);
        ModelConfig {
            platform: "ensemble".to_owned(),
            backend: String::new(),
            instance_group: Vec::new(),
            scheduling_choice: Some(SchedulingChoice::EnsembleScheduling(ModelEnsembling { step: steps })),
            parameters,
            ..own
        }
    }

    fn own_config(&self) -> ModelConfig {
        let Model { backend, dtype, form, options, .. } = *self;
        let traits = form.family.traits();
        let names = self.names();
        let any = form.variable || backend.is_program() && !traits.is_implicit;
        let width = if self.network().is_some() { self.width().into() } else { 1 };
        let dims = vec![if any { -1 } else { width }];
        let output = |name: &str, data_type: DataType, dims| ModelOutput {
            name: name.to_owned(),
            data_type: data_type.into(),
            dims,
            ..Default::default()
        };
        let mut outputs = vec![output(&names.output, dtype.data_type(), dims.clone())];
        if backend.is_program() {
            outputs.push(output(SEEN, DataType::TypeInt64, vec![SEEN_ELEMENTS]));
        }
        if traits.states.is_some() && !traits.copies {
            outputs.push(output(networks::COUNT, DataType::TypeInt64, vec![1]));
        }
        if traits.echoes {
            outputs.extend(ECHOES.map(|(name, data_type)| output(name, data_type, vec![1])));
        }
        let mut config = ModelConfig {
            name: self.name(),
            platform: backend.traits().platform.to_owned(),
            backend: backend.traits().in_config.to_owned(),
            max_batch_size: if form.batches { size(options.models.max_batch_size) } else { 0 },
            input: vec![ModelInput {
                name: names.input,
                data_type: dtype.data_type().into(),
                dims,
                allow_ragged_batch: traits.ragged,
                ..Default::default()
            }],
            output: outputs,
            instance_group: vec![ModelInstanceGroup {
                kind: backend.traits().kind.into(),
                count: size(options.models.instances),
                ..Default::default()
            }],
            // Without it the server serves the newest alone.
            version_policy: (options.models.versions > 1)
                .then_some(ModelVersionPolicy { policy_choice: Some(PolicyChoice::All(All {})) }),
            scheduling_choice: Some(SchedulingChoice::SequenceBatching(batching(self))),
            model_transaction_policy: traits.answers.are_series().then_some(ModelTransactionPolicy { decoupled: true }),
            parameters: parameters(self)
                .into_iter()
                .map(|(key, string_value)| (key, ModelParameter { string_value }))
                .collect(),
            ..Default::default()
        };
        // Those of a model with steps are its steps'.
        let extras = options.extras.iter().filter(|_| !form.family.has_steps());
        extras.for_each(|extra| add(&mut config, *extra));
        config
    }
}

/// The parameters of a model with steps, of those that a model without them would have.
fn of_the_whole(mut parameters: HashMap<String, ModelParameter>) -> HashMap<String, ModelParameter> {
    parameters.retain(|name, _| OF_THE_WHOLE.contains(&name.as_str()));
    parameters
}

/// The resource that the instances of a model with a rate limiter share, and what the server's samples of requests are called.
const RESOURCE: &str = "execution";
const SAMPLE: &str = "zeros";

/// Adds a further part.
fn add(config: &mut ModelConfig, extra: Extra) {
    match extra {
        Extra::Warmup => config.model_warmup = vec![warmup(config)],
        Extra::RateLimiter => {
            let resource = Resource { name: RESOURCE.to_owned(), global: false, count: 1 };
            let limiter = ModelRateLimiter { resources: vec![resource], priority: 1 };
            config.instance_group.iter_mut().for_each(|group| group.rate_limiter = Some(limiter.clone()));
        }
        Extra::PreserveOrdering => {
            if let Some(SchedulingChoice::SequenceBatching(batching)) = &mut config.scheduling_choice
                && let Some(StrategyChoice::Oldest(oldest)) = &mut batching.strategy_choice
            {
                oldest.preserve_ordering = true;
            }
        }
        Extra::Priority => {
            let priority = ModelPriority::PriorityMax.into();
            config.optimization = Some(ModelOptimizationPolicy { priority, ..Default::default() });
        }
    }
}

/// A request of zeros. It does not come by the sequence batcher, so that it brings all that the batcher would add.
fn warmup(config: &ModelConfig) -> ModelWarmup {
    let zeros = |data_type: i32, dims: &[i64]| Input {
        data_type,
        // Of any number of elements one.
        dims: dims.iter().map(|dim| (*dim).max(1)).collect(),
        input_data_type: Some(InputDataType::ZeroData(true)),
    };
    let mut inputs: HashMap<_, _> =
        config.input.iter().map(|input| (input.name.clone(), zeros(input.data_type, &input.dims))).collect();
    if let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice {
        for ControlInput { name, control } in &batching.control_input {
            let data_type = control.first().map_or(DataType::TypeInt32.into(), type_of);
            inputs.insert(name.clone(), zeros(data_type, &[1]));
        }
        for State { input_name, data_type, dims, .. } in &batching.state {
            inputs.insert(input_name.clone(), zeros(*data_type, dims));
        }
    }
    ModelWarmup { name: SAMPLE.to_owned(), batch_size: 1, inputs, count: 1 }
}

/// The data type of a control's tensor.
fn type_of(control: &Control) -> i32 {
    let of_values = [
        (!control.int32_false_true.is_empty(), DataType::TypeInt32),
        (!control.fp32_false_true.is_empty(), DataType::TypeFp32),
        (!control.bool_false_true.is_empty(), DataType::TypeBool),
    ];
    of_values.into_iter().find(|(is_its, _)| *is_its).map_or(control.data_type, |(_, data_type)| data_type.into())
}

fn batching(model: &Model<'_>) -> ModelSequenceBatching {
    let options = &model.options.models;
    let traits = model.form.family.traits();
    ModelSequenceBatching {
        max_sequence_idle_microseconds: micros(options.idle_limit),
        control_input: if model.network().is_some() { Vec::new() } else { controls(model) },
        state: states(model),
        strategy_choice: Some(strategy_choice(model.strategy, model.form.batches, options)),
        iterative_sequence: traits.answers.are_iterative(),
    }
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

/// START and READY; with END and CORRID besides where the model is told correlation IDs.
fn controls(model: &Model<'_>) -> Vec<ControlInput> {
    let names = model.names();
    let input = |name: String, control| ControlInput { name, control: vec![control] };
    let flag = |name, kind: Kind| {
        let mut control = Control { kind: kind.into(), ..Default::default() };
        match model.control() {
            ControlType::Int32 => control.int32_false_true = vec![0, 1],
            ControlType::Fp32 => control.fp32_false_true = vec![0.0, 1.0],
            ControlType::Bool => control.bool_false_true = vec![false, true],
        }
        input(name, control)
    };
    let id = |name, corrid: CorridType| {
        let (kind, data_type) = (Kind::ControlSequenceCorrid.into(), corrid.dtype().data_type().into());
        input(name, Control { kind, data_type, ..Default::default() })
    };
    let corrid = model.corrid();
    let mut controls = vec![flag(names.start, Kind::ControlSequenceStart)];
    controls.extend(corrid.map(|_| flag(names.end, Kind::ControlSequenceEnd)));
    controls.push(flag(names.ready, Kind::ControlSequenceReady));
    controls.extend(corrid.map(|corrid| id(names.corrid, corrid)));
    controls
}

/// The states that the server keeps.
fn states(model: &Model<'_>) -> Vec<State> {
    let traits = model.form.family.traits();
    if let Some(network) = model.network() {
        return network.states(model.width()).into_iter().map(network_state).collect();
    }
    if let Some(states) = traits.states {
        let states = states.iter().enumerate();
        let names = |its: &StateTensor| [its.input.to_owned(), its.output.to_owned()];
        let each = |(place, its): (usize, &StateTensor)| {
            let dtype = its.dtype.unwrap_or(model.dtype);
            state(model, names(its), dtype, [its.size, its.initial_size()], &initial_file(place))
        };
        return states.map(each).collect();
    }
    let names = model.names();
    let names = traits.is_implicit.then_some([names.input_state, names.output_state]);
    names.map(|names| state(model, names, model.dtype, [1, 1], INITIAL_FILE)).into_iter().collect()
}

/// A state of a network, which begins with zeros.
fn network_state(state: networks::State) -> State {
    let dims: Vec<i64> = state.dims.into_iter().map(i64::from).collect();
    let data_type = DataType::TypeFp32.into();
    let zeros = StateData::ZeroData(true);
    State {
        input_name: state.input.to_owned(),
        output_name: state.output.to_owned(),
        data_type,
        dims: dims.clone(),
        initial_state: vec![InitialData { name: "zero".to_owned(), data_type, dims, state_data: Some(zeros) }],
        ..Default::default()
    }
}

fn state(
    model: &Model<'_>,
    [input_name, output_name]: [String; 2],
    dtype: Dtype,
    [size, initial_size]: [i64; 2],
    file: &str,
) -> State {
    let data_type = dtype.data_type().into();
    let begins = |name: &str, state_data| InitialData {
        name: name.to_owned(),
        data_type,
        dims: vec![initial_size],
        state_data: Some(state_data),
    };
    State {
        input_name,
        output_name,
        data_type,
        dims: vec![size],
        initial_state: match model.form.initial {
            InitialState::None => Vec::new(),
            InitialState::Zero => vec![begins("zero", StateData::ZeroData(true))],
            InitialState::File { .. } => vec![begins(file, StateData::DataFile(file.to_owned()))],
        },
        use_same_buffer_for_input_output: model.form.single_buffer,
        ..Default::default()
    }
}

fn parameters(model: &Model<'_>) -> BTreeMap<String, String> {
    let traits = model.form.family.traits();
    let mut parameters = BTreeMap::from([(Formula::PARAMETER.to_owned(), model.formula_name().to_owned())]);
    let mut put = |key: &str, value: &str| _ = parameters.insert(key.to_owned(), value.to_owned());
    if model.backend.is_program() {
        put("execute_delay_ms", &model.options.models.execution.as_millis().to_string());
        put("sequence_stress_controls", SEEN);
    }
    // A first step without a state gives one more at START.
    let is_one_more = traits.steps.first().is_some_and(|step| step.traits().is_stateless);
    let initial = if is_one_more { model.dtype.number(1) } else { model.initial().expect("it was checked") };
    if !initial.is_zero() {
        put(Arithmetic::INITIAL_STATE, &initial.to_string());
    }
    if traits.copies {
        put("sequence_stress_states", "copies");
    }
    match traits.answers {
        Answers::One => {}
        Answers::Several(times) => put(Answers::RESPONSES, &times.to_string()),
        Answers::EachOf(times) | Answers::LastOf(times) => put(Answers::ITERATIONS, &times.to_string()),
    }
    // Where it is told correlation IDs it would otherwise go by them.
    if traits.echoes && !traits.is_dyna && model.strategy == Strategy::Direct {
        put("state_key", "slot");
    }
    for (key, value) in &model.options.parameters {
        put(key, value);
    }
    parameters
}

fn size(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
