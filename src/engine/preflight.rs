//! What is found out about server and model before anything is sent.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    engine::RunLimits,
    model::{Formula, Model, Settings, Strategy, Turn},
    plan::Manner,
    scenario::{Reuse, Scenario},
    tensor::{INT32, TensorSpec},
    transport::{CallError, Client},
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

/// What was found out, and what follows from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preflight {
    /// The model under test.
    pub model: Model,
    /// How long the run waits.
    pub limits: RunLimits,
    /// When an ID's next START is sent: as the scenario says, unless the model would mix the two sequences itself.
    pub reuse: Reuse,
    /// Whether the server counts requests, so that its counts can be checked.
    pub has_statistics: bool,
    /// What the run will do otherwise than asked, and what it cannot check, a sentence each.
    pub notes: Vec<String>,
}

/// The name of the configuration parameter that tells how long a model takes to execute, in ms.
const EXECUTION_PARAMETER: &str = "execute_delay_ms";

/// What pauses are shares of where the idle limit is not known: the server's default.
const USUAL_IDLE_LIMIT: Duration = Duration::from_secs(1);

impl Preflight {
    /// How the scenario's passes are carried out.
    #[must_use]
    pub fn manner(&self, scenario: &Scenario) -> Manner {
        Manner {
            reuse: self.reuse,
            stream: scenario.sending.stream,
            idle_limit: self.model.idle_limit.unwrap_or(USUAL_IDLE_LIMIT),
        }
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
        let settings = match client.model_settings(name).await {
            Ok(settings) => Some(settings),
            Err(CallError::Unimplemented) => None,
            Err(error) => return Err(format!("cannot read the configuration of model '{name}': {error}")),
        };
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
        let known = Known::new(name, settings.as_ref(), hints, &mut notes)?;
        if let Some(error) = unreadable {
            notes
                .push(format!("not checked: the server's own counts, because ModelStatistics cannot be read: {error}"));
        }
        let model = known.model(name, server, input, output, shape);
        let reuse = reuse(scenario.sending.reuse, &model, &mut notes);
        Ok(Self { limits: RunLimits::new(scenario, &model), model, reuse, has_statistics, notes })
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
    idle_limit: Option<Duration>,
    formula: Formula,
    execution: Duration,
    turn: Turn,
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
        if hints.slots.is_some() || hints.idle_limit.is_some() || hints.strategy.is_some() {
            notes.push(
                "--slots, --idle-limit and --strategy are not used: the model's configuration tells them".to_owned(),
            );
        }
        let execution_ms = settings.parameters.get(EXECUTION_PARAMETER).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self {
            strategy: Some(strategy),
            slots: Some(settings.slots),
            idle_limit: Some(settings.idle_limit),
            formula,
            execution: Duration::from_millis(execution_ms),
            turn: Turn {
                executions_before: settings.slots.div_ceil(settings.executed_at_once.max(1)).saturating_sub(1),
                queue_delay: settings.queue_delay,
            },
            mixes_pipelined: mixes_pipelined(settings),
        })
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
            idle_limit,
            formula: Formula::RunningSum,
            execution: Duration::ZERO,
            turn: Turn::default(),
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
        let Self { strategy, slots, idle_limit, formula, execution, turn, mixes_pipelined } = self;
        Model {
            name: name.to_owned(),
            server,
            input,
            output,
            shape,
            formula,
            strategy,
            slots,
            idle_limit,
            execution,
            turn,
            mixes_pipelined: mixes_pipelined.map(Cow::Borrowed),
        }
    }
}

/// Why a model may mix two sequences of one ID that are live at once, which the server allows.
fn mixes_pipelined(settings: &Settings) -> Option<&'static str> {
    match settings.strategy {
        _ if settings.implicit_state => None,
        Some(Strategy::Oldest) => Some("the model is Oldest without implicit state"),
        _ if settings.told_correlation_ids => Some("the model is told correlation IDs and has no implicit state"),
        _ => None,
    }
}

fn reuse(wanted: Reuse, model: &Model, notes: &mut Vec<String>) -> Reuse {
    match (wanted, &model.mixes_pipelined) {
        (Reuse::Pipelined, Some(why)) => {
            notes.push(format!(
                "reuse is after-answer: {why}, so it may keep state by correlation ID, and a START sent before the END's \
                 answer could lawfully be mixed with its predecessor"
            ));
            Reuse::AfterAnswer
        }
        (wanted, _) => wanted,
    }
}
