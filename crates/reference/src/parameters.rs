//! What the parameters of a model's configuration say of it.

use std::time::Duration;

use super::{number::Number, tensor::Datatype};
use wire::proto::{ModelConfig, model_config::SchedulingChoice};

/// How long an execution takes, in ms.
const EXECUTION: &str = "execute_delay_ms";
/// What the model computes.
const FORMULA: &str = "sequence_stress_formula";
/// The output in which the model says what it saw of a request.
pub(super) const CONTROLS: &str = "sequence_stress_controls";
/// The model that the model calls for each request.
const CALLS: &str = "sequence_stress_calls";
/// What the weights of a model without a formula are drawn from.
const SEED: &str = "sequence_stress_seed";
/// By what part of itself a number of a row changes with the rows of its batch and its place among them.
const BATCH_NOISE: &str = "sequence_stress_batch_noise";
/// Whether that noise changes states, and outputs through them; it changes outputs alone otherwise.
const NOISE_IN_STATE: &str = "sequence_stress_batch_noise_in_state";
/// By what part of itself a number of an output changes, differently in each run.
const RUN_NOISE: &str = "sequence_stress_run_noise";
/// The most responses of a decoupled model whose inputs say how many there are.
const RESPONSES_UP_TO: &str = "sequence_stress_responses_up_to";
/// What END does to an answer.
const AT_END: &str = "sequence_stress_at_end";
/// What a new sequence's sum begins with.
const INITIAL: &str = "sequence_stress_initial_state";
/// What a model that adds up holds in its states besides the sum: the number of steps, or multiples of it.
const STATES: &str = "sequence_stress_states";
/// How many responses a request to a decoupled model gets.
const RESPONSES: &str = "sequence_stress_responses";
/// How often a request to an iterative model is executed.
const ITERATIONS: &str = "sequence_stress_iterations";
/// The most of either.
const TIMES_MAX: u32 = 1000;
/// A sum of inputs which the model rejects.
const ERROR: &str = "error_on_value";

/// What a model computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    /// A sum of a sequence's inputs.
    Sum(Sum),
    /// A layer with gates, of which no client can tell the outputs.
    Gru,
    /// The same with two states.
    TwoState,
    /// The same of any number of tensors of any types.
    AnyTensors,
}

/// What a model adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// READY * (INPUT + START), which needs no state, in place of the running sum.
    pub(super) is_stateless: bool,
    /// At END the answer is higher by the correlation ID.
    pub(super) adds_id_at_end: bool,
}

const FORMULAS: [(&str, Formula); 7] = [
    ("running-sum", Formula::sum(false, false)),
    ("running-sum-plus-corrid-at-end", Formula::sum(false, true)),
    ("ready-times-input-plus-start", Formula::sum(true, false)),
    ("ready-times-input-plus-start-plus-corrid-at-end", Formula::sum(true, true)),
    ("gru", Formula::Gru),
    ("two-state", Formula::TwoState),
    ("any-tensors", Formula::AnyTensors),
];

impl Formula {
    const fn sum(is_stateless: bool, adds_id_at_end: bool) -> Self {
        Self::Sum(Sum { is_stateless, adds_id_at_end })
    }

    pub(super) fn is_sum(self) -> bool {
        matches!(self, Self::Sum(_))
    }

    /// The name that configurations have for it.
    pub(super) fn name(self) -> &'static str {
        FORMULAS.iter().find(|(_, formula)| *formula == self).map_or("", |(name, _)| name)
    }
}

/// By what part of themselves the numbers of a model without a formula change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Noise {
    /// With the rows of the batch and the place among them.
    pub(super) batch: f64,
    /// Whether that changes states, and outputs through them.
    pub(super) is_in_state: bool,
    /// From run to run.
    pub(super) run: f64,
}

/// What a layer's answer to END is beside that to the same step without END.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// The same.
    #[default]
    Nothing,
    /// The negative of it.
    Negates,
    /// Higher by a part of the correlation ID.
    AddsCorrid,
}

#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pub(super) formula: Formula,
    /// The model that computes it, where this one calls another.
    pub(super) calls: Option<String>,
    pub(super) execution: Duration,
    /// A step that would add this is answered with an error, and changes nothing.
    pub(super) error_on: Option<Number>,
    /// What a new sequence's sum begins with, where that is given and the server gives no state.
    pub(super) initial: Option<Number>,
    /// Each state holds a multiple of the sum.
    pub(super) holds_copies: bool,
    /// How many responses an execution has for a request: other than one only where the model is decoupled.
    pub(super) responses: u32,
    /// The most responses, where the input says how many there are.
    pub(super) responses_up_to: Option<u32>,
    pub(super) seed: u64,
    pub(super) noise: Noise,
    pub(super) at_end: AtEnd,
    /// How often a request is executed; more than once only where the model is iterative.
    pub(super) iterations: u32,
}

impl Parameters {
    /// Those of a model whose first input has this type.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(config: &ModelConfig, datatype: Datatype) -> Result<Self, String> {
        let formula = formula(config)?;
        let number = |name| {
            only_if(formula.is_sum(), config, name, "models that add up")?;
            let read = |text: &str| {
                let number = Number::read(datatype, text);
                number.ok_or_else(|| format!("parameter '{name}': '{text}' is no number of type {}", datatype.name()))
            };
            text(config, name).map(read).transpose()
        };
        Ok(Self {
            formula,
            calls: calls(config)?,
            execution: execution(config)?,
            error_on: number(ERROR)?,
            initial: number(INITIAL)?,
            holds_copies: holds_copies(config, formula)?,
            responses: times(config, RESPONSES, "decoupled", is_decoupled(config) && !is_iterative(config), [1, 0])?,
            responses_up_to: responses_up_to(config, formula)?,
            seed: seed(config, formula)?,
            noise: noise(config, formula)?,
            at_end: at_end(config, formula)?,
            iterations: times(config, ITERATIONS, "iterative", is_iterative(config), [3, 1])?,
        })
    }
}

impl Parameters {
    /// Those of an ensemble, which itself executes nothing.
    pub(super) fn of_ensemble() -> Self {
        Self {
            formula: Formula::sum(false, false),
            calls: None,
            execution: Duration::ZERO,
            error_on: None,
            initial: None,
            holds_copies: false,
            responses: 1,
            responses_up_to: None,
            seed: 0,
            noise: Noise::default(),
            at_end: AtEnd::Nothing,
            iterations: 1,
        }
    }
}

fn calls(config: &ModelConfig) -> Result<Option<String>, String> {
    match text(config, CALLS) {
        Some(called) if called == config.name => Err(format!("parameter '{CALLS}': model '{called}' calls itself")),
        called => Ok(called.map(str::to_owned)),
    }
}

/// Whether a request may get other than one response.
pub(super) fn is_decoupled(config: &ModelConfig) -> bool {
    config.model_transaction_policy.is_some_and(|policy| policy.decoupled)
}

/// Whether a request is executed again and again.
fn is_iterative(config: &ModelConfig) -> bool {
    match &config.scheduling_choice {
        Some(SchedulingChoice::SequenceBatching(batching)) => batching.iterative_sequence,
        _ => false,
    }
}

/// A number that only models of some kind have: by default, and at least; 1 for others.
fn times(
    config: &ModelConfig,
    name: &str,
    kind: &str,
    is_such: bool,
    [by_default, least]: [u32; 2],
) -> Result<u32, String> {
    match text(config, name) {
        None => Ok(if is_such { by_default } else { 1 }),
        Some(_) if !is_such => Err(format!("parameter '{name}' is for {kind} models, which '{}' is not", config.name)),
        Some(text) => {
            let number = text.parse().ok().filter(|number| (least..=TIMES_MAX).contains(number));
            number.ok_or_else(|| format!("parameter '{name}': '{text}' is no number from {least} to {TIMES_MAX}"))
        }
    }
}

/// Rejects a parameter of models that this one is not.
fn only_if(is_such: bool, config: &ModelConfig, name: &str, such: &str) -> Result<(), String> {
    if is_such || text(config, name).is_none() {
        return Ok(());
    }
    Err(format!("parameter '{name}' is for {such}, which '{}' does not: leave it out", config.name))
}

fn responses_up_to(config: &ModelConfig, formula: Formula) -> Result<Option<u32>, String> {
    let is_such = is_decoupled(config) && !is_iterative(config) && formula == Formula::Gru;
    let most = times(config, RESPONSES_UP_TO, "decoupled gru", is_such, [3, 1])?;
    if is_such && text(config, RESPONSES).is_some() {
        return Err(format!("parameter '{RESPONSES}' is for sums: of a gru, '{RESPONSES_UP_TO}' says the most"));
    }
    only_if(formula.is_sum(), config, RESPONSES, "models that add up")?;
    Ok(is_such.then_some(most))
}

fn seed(config: &ModelConfig, formula: Formula) -> Result<u64, String> {
    only_if(formula == Formula::Gru, config, SEED, "models that draw weights")?;
    let text = text(config, SEED).unwrap_or("0");
    text.parse().map_err(|_| format!("parameter '{SEED}': '{text}' is no whole number from 0 to {}", u64::MAX))
}

fn noise(config: &ModelConfig, formula: Formula) -> Result<Noise, String> {
    let part = |name| {
        only_if(!formula.is_sum(), config, name, "models that compute no sum")?;
        let text = text(config, name).unwrap_or("0");
        let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
        part.ok_or_else(|| format!("parameter '{name}': '{text}' is no number from 0 to 1"))
    };
    let (batch, run) = (part(BATCH_NOISE)?, part(RUN_NOISE)?);
    let has_floats = matches!(formula, Formula::Gru | Formula::TwoState);
    only_if(has_floats, config, NOISE_IN_STATE, "models that keep states of FP32")?;
    let is_in_state = match text(config, NOISE_IN_STATE).unwrap_or("false") {
        "false" => false,
        "true" => true,
        other => return Err(format!("parameter '{NOISE_IN_STATE}': '{other}' is neither true nor false")),
    };
    Ok(Noise { batch, is_in_state, run })
}

fn at_end(config: &ModelConfig, formula: Formula) -> Result<AtEnd, String> {
    only_if(formula == Formula::Gru, config, AT_END, "models that draw weights")?;
    match text(config, AT_END) {
        None => Ok(AtEnd::Nothing),
        Some("negate") => Ok(AtEnd::Negates),
        Some("add-corrid") => Ok(AtEnd::AddsCorrid),
        Some(other) => Err(format!("parameter '{AT_END}': '{other}' is neither negate nor add-corrid")),
    }
}

fn holds_copies(config: &ModelConfig, formula: Formula) -> Result<bool, String> {
    only_if(formula.is_sum(), config, STATES, "models that add up")?;
    match text(config, STATES) {
        None | Some("count") => Ok(false),
        Some("copies") => Ok(true),
        Some(other) => Err(format!("parameter '{STATES}': '{other}' is neither count nor copies")),
    }
}

pub(super) fn text<'a>(config: &'a ModelConfig, name: &str) -> Option<&'a str> {
    config.parameters.get(name).map(|parameter| parameter.string_value.as_str())
}

fn formula(config: &ModelConfig) -> Result<Formula, String> {
    let name = text(config, FORMULA).unwrap_or(FORMULAS[0].0);
    let found = FORMULAS.iter().find(|(its, _)| *its == name);
    found.map(|(_, formula)| *formula).ok_or_else(|| format!("parameter '{FORMULA}': '{name}' is not served"))
}

fn execution(config: &ModelConfig) -> Result<Duration, String> {
    let text = text(config, EXECUTION).unwrap_or("0");
    let milliseconds = text.parse().ok().filter(|ms: &f64| (0.0..=3_600_000.0).contains(ms));
    let milliseconds = milliseconds.ok_or_else(|| format!("parameter '{EXECUTION}': '{text}' is no time in ms"))?;
    Ok(Duration::from_secs_f64(milliseconds / 1000.0))
}
