//! What is found out about server and model before anything is sent.

use std::{borrow::Cow, collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    controls::{self, Controls, Told},
    engine::RunLimits,
    model::{Formula, Model, Settings, SlotRange, Strategy, ToldIds, Turn},
    plan::Manner,
    scenario::{Phase, Population, Reuse, Scenario, ServerAction},
    sequence::Pattern,
    tensor::{INT32, TensorSpec},
    transport::{CallError, Client, Configuration},
};

/// What the command line tells of an endpoint that does not tell it itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Hints {
    /// How many sequences can have a slot at a time.
    pub slots: Option<u32>,
    /// The idle limit.
    pub idle_limit: Option<Duration>,
    /// The sequence batcher's strategy.
    pub strategy: Option<Strategy>,
}

impl Hints {
    /// The flags that tell it.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let Self { slots, idle_limit, strategy } = self;
        let words = [
            slots.map(|slots| format!("--slots {slots}")),
            idle_limit.map(|limit| format!("--idle-limit {}ms", limit.as_millis())),
            strategy.map(|strategy| format!("--strategy {}", strategy.to_string().to_lowercase())),
        ];
        words.into_iter().flatten().collect()
    }

    /// A command line with these flags besides.
    #[must_use]
    pub fn added_to(&self, line: &str) -> String {
        std::iter::once(line.to_owned()).chain(self.words()).collect::<Vec<_>>().join(" ")
    }
}

/// What was found out, and what follows from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preflight {
    /// The model under test.
    pub model: Model,
    /// How long the run waits.
    pub limits: RunLimits,
    /// Whether the server counts requests, so that its counts can be checked.
    pub has_statistics: bool,
    /// What was taken from the command line, because the endpoint does not tell it.
    #[serde(default)]
    pub told: Hints,
    /// What the run will do otherwise than asked, and what it cannot check, a sentence each.
    pub notes: Vec<String>,
}

/// The name of the configuration parameter that tells how long a model takes to execute, in ms.
const EXECUTION_PARAMETER: &str = "execute_delay_ms";

/// What pauses are shares of where the idle limit is not known: the server's default.
const USUAL_IDLE_LIMIT: Duration = Duration::from_secs(1);

impl Preflight {
    /// What the model makes of how passes are carried out.
    #[must_use]
    pub fn manner(&self) -> Manner {
        Manner {
            after_answers: self.model.mixes_pipelined.is_some(),
            idle_limit: self.model.idle_limit.unwrap_or(USUAL_IDLE_LIMIT),
            batches: self.model.batches,
        }
    }

    /// Why the model cannot take correlation IDs of the scenario's form, if it cannot.
    #[must_use]
    pub fn cannot_take_ids(&self, scenario: &Scenario) -> Option<String> {
        let name = &self.model.name;
        let has = |texts: bool| scenario.id_forms().any(|form| form.is_text() == texts);
        // The real server does not refuse them: it tells the model whatever lies in memory, and can die of it.
        let (told, other) = match self.model.told_ids {
            ToldIds::Integers if has(true) => ("integers", "texts"),
            ToldIds::Texts if has(false) => ("texts", "integers"),
            ToldIds::None | ToldIds::Integers | ToldIds::Texts => return None,
        };
        Some(format!(
            "model '{name}' is told correlation IDs as {told}, so it cannot be sent {other}: another correlation_ids.form, or \
             another model (-m)"
        ))
    }

    /// Asks the server about itself and the scenario's model.
    ///
    /// # Errors
    /// Why the model cannot be tested, in one line.
    pub async fn ask(client: &Client, scenario: &Scenario, hints: Hints) -> Result<Self, String> {
        let name = scenario.target.model.as_str();
        check_server(client).await?;
        check_model(client, name).await?;
        let (inputs, outputs) = match client.model_tensors(name).await {
            Ok(tensors) => tensors,
            Err(error) => return Err(format!("cannot read the metadata of model '{name}': {error}")),
        };
        let (input, output, shape) = choose_tensors(name, &inputs, &outputs)?;
        let configuration = match client.configuration(name).await {
            Ok(configuration) => Some(configuration),
            Err(CallError::Unimplemented) => None,
            Err(error) => return Err(format!("cannot read the configuration of model '{name}': {error}")),
        };
        let settings = configuration.as_ref().map(Configuration::settings);
        let is_told = settings.is_some();
        let mut unreadable = None;
        let has_statistics = match client.counted(name).await {
            Ok(_) => true,
            Err(error) => {
                // A server may be built or set up without them.
                unreadable = Some(error);
                false
            }
        };
        let server = client.server_name().await.ok().filter(|server| !server.is_empty());
        let mut notes = Vec::new();
        let mut known = Known::new(name, settings.as_ref(), hints, &mut notes)?;
        if known.mixes_pipelined.is_none() && !settings.as_ref().is_some_and(|settings| settings.implicit_state) {
            known.mixes_pipelined = becomes_oldest(scenario);
            if known.mixes_pipelined.is_some() {
                known.told_ids = ToldIds::Integers;
            }
        }
        if let Some(configuration) = &configuration {
            known.also_with(&loaded_in_phases(configuration, scenario));
        }
        if let Some(error) = unreadable {
            notes
                .push(format!("not checked: the server's own counts, because ModelStatistics cannot be read: {error}"));
        }
        let mut model = known.model(name, server, input, output, shape);
        if scenario.target.controls {
            model.controls = settings.as_ref().and_then(|settings| controls(settings, scenario, &outputs, &mut notes));
        }
        notes.extend(sends_after_answers(scenario, &model));
        notes.extend(calls(scenario));
        let told = if is_told { Hints::default() } else { hints };
        Ok(Self { limits: RunLimits::new(scenario, &model), model, has_statistics, told, notes })
    }
}

async fn check_server(client: &Client) -> Result<(), String> {
    // A call that a server does not have tells that it lives.
    match client.server_live().await {
        Ok(true) | Err(CallError::Unimplemented) => {}
        Ok(false) => return Err("the server says that it is not live".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    match client.server_ready().await {
        Ok(true) | Err(CallError::Unimplemented) => Ok(()),
        Ok(false) => Err("the server says that it is not ready: wait until its models are loaded".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn check_model(client: &Client, name: &str) -> Result<(), String> {
    match client.model_ready(name).await {
        Ok(true) | Err(CallError::Unimplemented) => Ok(()),
        Ok(false) | Err(CallError::Refused(_)) => Err(match client.models().await {
            Ok(models) if models.iter().any(|model| model == name) => {
                format!("the server has the model '{name}', and it is not ready")
            }
            Ok(models) if !models.is_empty() => {
                format!("the server has no model '{name}'; it has {}", models.join(", "))
            }
            _ => format!("the server has no model '{name}' that is ready"),
        }),
        Err(error) => Err(error.to_string()),
    }
}

/// The input and the output that the run uses, and the shape of one element.
fn choose_tensors(
    model: &str,
    inputs: &[TensorSpec],
    outputs: &[TensorSpec],
) -> Result<(TensorSpec, TensorSpec, Vec<i64>), String> {
    let list = |tensors: &[TensorSpec]| tensors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let refuse = || {
        Err(format!(
            "model '{model}' takes [{}] and gives [{}]: this test needs one {INT32} input and an {INT32} output that each \
             can hold a single element",
            list(inputs),
            list(outputs)
        ))
    };
    let output = match outputs {
        [output] => Some(output),
        _ => outputs.iter().find(|output| output.name == "OUTPUT"),
    };
    let ([input], Some(output)) = (inputs, output) else { return refuse() };
    match (input.single_element_shape(), output.single_element_shape()) {
        (Some(shape), Some(same)) if shape == same && input.datatype == INT32 && output.datatype == INT32 => {
            Ok((input.clone(), output.clone(), shape))
        }
        _ => refuse(),
    }
}

/// What the configuration tells, or else the command line.
struct Known {
    strategy: Option<Strategy>,
    slots: Option<u32>,
    slots_in_phases: Option<SlotRange>,
    idle_limit: Option<Duration>,
    formula: Formula,
    execution: Duration,
    turn: Turn,
    told_ids: ToldIds,
    batches: bool,
    mixes_pipelined: Option<&'static str>,
}

impl Known {
    fn new(name: &str, settings: Option<&Settings>, hints: Hints, notes: &mut Vec<String>) -> Result<Self, String> {
        match settings {
            Some(settings) => Self::from_settings(name, settings, hints, notes),
            None => Ok(Self::from_hints(hints, notes)),
        }
    }

    fn from_settings(name: &str, settings: &Settings, hints: Hints, notes: &mut Vec<String>) -> Result<Self, String> {
        let Some(strategy) = settings.strategy else {
            return Err(format!(
                "model '{name}' has no sequence batching in its configuration, so there is nothing to test"
            ));
        };
        if settings.decoupled {
            return Err(format!(
                "model '{name}' is decoupled: a request may get other than one response, which this test cannot judge"
            ));
        }
        let formula = match settings.parameters.get(Formula::PARAMETER) {
            None => Formula::RunningSum,
            Some(text) => Formula::named(text).ok_or_else(|| {
                format!(
                    "model '{name}' says that it computes '{text}' ({}): this test knows 'running-sum'",
                    Formula::PARAMETER
                )
            })?,
        };
        notes.extend(hints.words().iter().map(|flag| format!("not used: {flag}: the model's configuration tells it")));
        let execution_ms = settings.parameters.get(EXECUTION_PARAMETER).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self {
            strategy: Some(strategy),
            slots: Some(settings.slots),
            slots_in_phases: None,
            idle_limit: Some(settings.idle_limit),
            formula,
            execution: Duration::from_millis(execution_ms),
            turn: turn(settings),
            told_ids: settings.told_ids,
            batches: settings.batches,
            mixes_pipelined: mixes_pipelined(settings),
        })
    }

    /// The model is loaded with these settings besides, in some phase of the run.
    fn also_with(&mut self, others: &[Settings]) {
        let Some(slots) = self.slots else { return };
        let all = || others.iter().map(|settings| settings.slots).chain([slots]);
        let range = SlotRange { fewest: all().min().unwrap_or(slots), most: all().max().unwrap_or(slots) };
        self.slots_in_phases = Some(range).filter(|range| range.fewest < range.most);
        for other in others.iter().map(turn) {
            self.turn.executions_before = self.turn.executions_before.max(other.executions_before);
            self.turn.queue_delay = self.turn.queue_delay.max(other.queue_delay);
        }
    }

    fn from_hints(Hints { slots, idle_limit, strategy }: Hints, notes: &mut Vec<String>) -> Self {
        notes.push(
            "not checked: that the model has a sequence batcher, because the server has no ModelConfig".to_owned(),
        );
        if slots.is_none() {
            notes.push(
                "the number of slots is not known (--slots): one is assumed for the longest lawful wait".to_owned(),
            );
        }
        if idle_limit.is_none() {
            notes.push(
                "not checked: refusals in the middle of a sequence, because the idle limit is not known \
                 (--idle-limit); one second is assumed for the longest lawful wait"
                    .to_owned(),
            );
        }
        let mixes_pipelined = match strategy {
            Some(Strategy::Direct) => None,
            Some(Strategy::Oldest) => Some("the strategy is Oldest"),
            None => Some("the strategy is not known (--strategy)"),
        };
        Self {
            strategy,
            slots,
            slots_in_phases: None,
            idle_limit,
            formula: Formula::RunningSum,
            execution: Duration::ZERO,
            turn: Turn::default(),
            told_ids: ToldIds::None,
            batches: true,
            mixes_pipelined,
        }
    }

    fn model(
        self,
        name: &str,
        server: Option<String>,
        input: TensorSpec,
        output: TensorSpec,
        shape: Vec<i64>,
    ) -> Model {
        let Self {
            strategy,
            slots,
            slots_in_phases,
            idle_limit,
            formula,
            execution,
            turn,
            told_ids,
            batches,
            mixes_pipelined,
        } = self;
        Model {
            name: name.to_owned(),
            server,
            input,
            output,
            shape,
            formula,
            strategy,
            slots,
            slots_in_phases,
            idle_limit,
            execution,
            turn,
            told_ids,
            batches,
            mixes_pipelined: mixes_pipelined.map(Cow::Borrowed),
            controls: None,
        }
    }
}

fn turn(settings: &Settings) -> Turn {
    Turn {
        executions_before: settings.slots.div_ceil(settings.executed_at_once.max(1)).saturating_sub(1),
        queue_delay: settings.queue_delay,
    }
}

/// With what else the scenario loads a model that is configured like this.
fn loaded_in_phases(configuration: &Configuration, scenario: &Scenario) -> Vec<Settings> {
    let strategy = |phase: &Phase| phase.server.and_then(ServerAction::strategy);
    scenario.phases.iter().filter_map(strategy).map(|its| configuration.with_strategy(its).settings()).collect()
}

/// The output in which the model says what it saw of a request, where its configuration names one.
fn controls(
    settings: &Settings,
    scenario: &Scenario,
    outputs: &[TensorSpec],
    notes: &mut Vec<String>,
) -> Option<Controls> {
    let Some(name) = settings.parameters.get(controls::PARAMETER) else {
        let what = "what the model saw of each request, which it does not tell";
        notes.push(format!("not checked: {what} (parameter {})", controls::PARAMETER));
        return None;
    };
    let output = outputs.iter().find(|output| output.name == *name);
    let shape = output
        .filter(|output| output.datatype == controls::DATATYPE)
        .map(|output| output.shape.iter().map(|&size| if size == -1 { 1 } else { size }).collect::<Vec<_>>());
    let elements = |shape: &[i64]| shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).product::<usize>();
    let shape = shape.filter(|shape| elements(shape) == controls::ELEMENTS);
    if shape.is_none() {
        notes.push(format!(
            "not checked: what the model saw of each request, because its parameter {} names '{name}', which is no output \
             of {} {}",
            controls::PARAMETER,
            controls::ELEMENTS,
            controls::DATATYPE
        ));
    }
    let shape = shape?;
    let Told { start, end, ready, corrid_bits } = settings.told;
    let controls = [("START", start), ("END", end), ("READY", ready), ("CORRID", corrid_bits.is_some())];
    let untold: Vec<_> = controls.into_iter().filter(|(_, is_told)| !is_told).map(|(name, _)| name).collect();
    if !untold.is_empty() {
        notes.push(format!("not checked: what the model saw of {}, which it does not tell", untold.join(" and ")));
    }
    // With another strategy there may be another number of slots.
    let is_switched = |phase: &Phase| phase.server.is_some_and(|action| action.strategy().is_some());
    let slots = Some(settings.slots).filter(|_| !scenario.phases.iter().any(is_switched));
    Some(Controls { output: name.clone(), shape, told: settings.told, slots })
}

/// Why a model may mix two sequences of one ID that are live at once, which the server allows.
fn mixes_pipelined(settings: &Settings) -> Option<&'static str> {
    match settings.strategy {
        _ if settings.implicit_state => None,
        Some(Strategy::Oldest) => Some("the model is Oldest without implicit state"),
        _ if settings.told_ids != ToldIds::None => Some("the model is told correlation IDs and has no implicit state"),
        _ => None,
    }
}

/// Why a model without implicit state may do so in a run in which it is loaded anew.
fn becomes_oldest(scenario: &Scenario) -> Option<&'static str> {
    let is_oldest = scenario.phases.iter().any(|phase| phase.server == Some(ServerAction::ReloadOldest));
    is_oldest.then_some("the model is Oldest without implicit state in a part of the run")
}

/// What is said where steps are calls, and so do not go out as asked for.
fn calls(scenario: &Scenario) -> Vec<String> {
    let of_calls = || scenario.populations.iter().filter(|population| !population.sending.transport().is_stream());
    let mut notes = Vec::new();
    if of_calls().any(|population| population.sending.window.has_room(1)) {
        notes.push(
            "window is 1 where steps are calls of their own: nothing orders two calls but the answer to the first"
                .to_owned(),
        );
    }
    let left_out: BTreeSet<_> = of_calls().flat_map(Population::left_out).map(Pattern::name).collect();
    if !left_out.is_empty() {
        let patterns = left_out.into_iter().collect::<Vec<_>>().join(", ");
        notes.push(format!("left out where steps are calls of their own, because they need a stream: {patterns}"));
    }
    notes
}

/// What is said where the sequences of an ID do not go out as asked for.
fn sends_after_answers(scenario: &Scenario, model: &Model) -> Option<String> {
    let why = model.mixes_pipelined.as_ref()?;
    scenario.populations.iter().any(|population| population.sending.reuse == Reuse::Pipelined).then(|| {
        format!(
            "reuse is after-answer: {why}, so it may keep state by correlation ID, and a START sent before the END's answer \
             could lawfully be mixed with its predecessor"
        )
    })
}
