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
/// What a new sequence's sum begins with.
const INITIAL: &str = "sequence_stress_initial_state";
/// How many responses a request to a decoupled model gets.
const RESPONSES: &str = "sequence_stress_responses";
/// How often a request to an iterative model is executed.
const ITERATIONS: &str = "sequence_stress_iterations";
/// The most of either.
const TIMES_MAX: u32 = 1000;
/// A sum of inputs which the model rejects.
const ERROR: &str = "error_on_value";

/// What a model computes of a sequence's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Formula {
    /// READY * (INPUT + START), which needs no state, in place of the running sum.
    pub(super) is_stateless: bool,
    /// At END the answer is higher by the correlation ID.
    pub(super) adds_id_at_end: bool,
}

const FORMULAS: [(&str, Formula); 4] = [
    ("running-sum", Formula { is_stateless: false, adds_id_at_end: false }),
    ("running-sum-plus-corrid-at-end", Formula { is_stateless: false, adds_id_at_end: true }),
    ("ready-times-input-plus-start", Formula { is_stateless: true, adds_id_at_end: false }),
    ("ready-times-input-plus-start-plus-corrid-at-end", Formula { is_stateless: true, adds_id_at_end: true }),
];

impl Formula {
    /// The name that configurations have for it.
    pub(super) fn name(self) -> &'static str {
        FORMULAS.iter().find(|(_, formula)| *formula == self).map_or("", |(name, _)| name)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pub(super) formula: Formula,
    pub(super) execution: Duration,
    /// A step that would add this is answered with an error, and changes nothing.
    pub(super) error_on: Option<Number>,
    /// What a new sequence's sum begins with, where that is given and the server gives no state.
    pub(super) initial: Option<Number>,
    /// How many responses an execution has for a request: other than one only where the model is decoupled.
    pub(super) responses: u32,
    /// How often a request is executed; more than once only where the model is iterative.
    pub(super) iterations: u32,
}

impl Parameters {
    /// Those of a model whose numbers have this type.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(config: &ModelConfig, datatype: Datatype) -> Result<Self, String> {
        let number = |name| {
            let read = |text: &str| {
                let number = Number::read(datatype, text);
                number.ok_or_else(|| format!("parameter '{name}': '{text}' is no number of type {}", datatype.name()))
            };
            text(config, name).map(read).transpose()
        };
        Ok(Self {
            formula: formula(config)?,
            execution: execution(config)?,
            error_on: number(ERROR)?,
            initial: number(INITIAL)?,
            responses: times(config, RESPONSES, "decoupled", is_decoupled(config) && !is_iterative(config), [1, 0])?,
            iterations: times(config, ITERATIONS, "iterative", is_iterative(config), [3, 1])?,
        })
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
