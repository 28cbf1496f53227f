//! The parameters of a model's configuration.

#![forbid(unsafe_code)]

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use crate::{
    fault::Planted,
    spec::{Holds, SEEN_OUTPUT},
    tensor::{Arithmetic, Number},
};

/// No execution or hold is longer: nothing waits without a limit.
const LONGEST_MS: f64 = 3_600_000.0;
/// So many answers or executions at most come of one request.
const MOST: u32 = 10_000;
const KNOWN: [&str; 16] = [
    "execute_delay_ms",
    "sequence_stress_formula",
    "sequence_stress_controls",
    "sequence_stress_initial_state",
    "sequence_stress_states",
    "sequence_stress_responses",
    "sequence_stress_iterations",
    "error_on_value",
    "panic_on_value",
    "state_key",
    "state_update_order",
    "check_controls",
    "fault",
    "fault_seed",
    "fault_hold_ms",
    "note",
];

/// A parameter, as the server tells it.
#[derive(Debug, Deserialize)]
pub(crate) struct Parameter {
    string_value: String,
}

/// What a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Formula {
    /// START + INPUT where it is ready, of which nothing is kept; else the running sum.
    pub(crate) is_stateless: bool,
    /// At END, the correlation ID besides.
    pub(crate) adds_corrid: bool,
}

impl Formula {
    const ALL: [(&str, Self); 4] = [
        ("running-sum", Self { is_stateless: false, adds_corrid: false }),
        ("running-sum-plus-corrid-at-end", Self { is_stateless: false, adds_corrid: true }),
        ("ready-times-input-plus-start", Self { is_stateless: true, adds_corrid: false }),
        ("ready-times-input-plus-start-plus-corrid-at-end", Self { is_stateless: true, adds_corrid: true }),
    ];

    /// As a configuration has it.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, formula)| *formula == self).expect("each formula has its row").0
    }
}

/// By what a model that keeps its own state knows a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKey {
    /// The place in the batch, which with Direct is the slot.
    Slot,
    /// The CORRID control.
    Corrid,
}

/// The parameters of a model, all known and of the right kind.
#[derive(Debug)]
pub(crate) struct Parameters {
    /// How long an execution takes, at least.
    pub(crate) execution: Duration,
    pub(crate) formula: Formula,
    /// What the state of a new sequence begins with; where the server keeps the state, what it gives.
    pub(crate) initial: Number,
    /// What the states are that come after that of the sum.
    pub(crate) states: Holds,
    /// How many answers a request gets, where the configuration says.
    pub(crate) responses: Option<u32>,
    /// How often a request is executed, where the configuration says.
    pub(crate) iterations: Option<u32>,
    /// A step whose input sums to this is answered with an error, and changes nothing.
    pub(crate) error_on: Option<Number>,
    /// A step whose input sums to this makes the model panic.
    pub(crate) panic_on: Option<Number>,
    /// None where the configuration does not say.
    pub(crate) state_key: Option<StateKey>,
    /// Whether the second of two states is given to the server before the first one.
    pub(crate) reverses_states: bool,
    /// Whether clients are told which output says what the model saw.
    pub(crate) tells_controls: bool,
    /// Whether controls are compared with the request's flags and correlation ID.
    pub(crate) check_controls: bool,
    pub(crate) planted: Vec<Planted>,
    pub(crate) fault_seed: u64,
    /// How long the faults hold that hold something back.
    pub(crate) hold: Duration,
}

impl Parameters {
    /// Reads the parameters of a model that computes in this arithmetic.
    ///
    /// # Errors
    /// The parameter that is not known, or has no right value.
    pub(crate) fn read(given: &BTreeMap<String, Parameter>, arithmetic: Arithmetic) -> Result<Self, String> {
        if let Some(unknown) = given.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(format!("parameter '{unknown}' is not known; known are {}", KNOWN.join(", ")));
        }
        let get = |name: &str| given.get(name).map(|parameter| parameter.string_value.as_str());
        let one_of = |name: &str, default: &'static str, choices: &[&str]| {
            let value = get(name).unwrap_or(default);
            let found = choices.iter().position(|choice| *choice == value);
            found.ok_or_else(|| format!("parameter '{name}': '{value}' is none of {}", choices.join(", ")))
        };
        let number = |name: &str| {
            let read = |text: &str| {
                let number = arithmetic.parse(text);
                number.ok_or_else(|| format!("parameter '{name}': '{text}' is no number of {}", arithmetic.datatype()))
            };
            get(name).map(read).transpose()
        };
        let formulas = Formula::ALL.map(|(name, _)| name);
        let formula = Formula::ALL[one_of("sequence_stress_formula", formulas[0], &formulas)?].1;
        let count = |name: &str, least: u32| {
            let read = |text: &str| {
                let count = text.parse().ok().filter(|count| (least..=MOST).contains(count));
                count.ok_or_else(|| format!("parameter '{name}': '{text}' is no whole number from {least} to {MOST}"))
            };
            get(name).map(read).transpose()
        };
        let state_key = match (get("state_key"), one_of("state_key", "slot", &["slot", "corrid"])?) {
            (None, _) => None,
            (_, 0) => Some(StateKey::Slot),
            _ => Some(StateKey::Corrid),
        };
        let states = [Holds::Count, Holds::Copies][one_of("sequence_stress_states", "count", &["count", "copies"])?];
        let update_orders = ["declared", "reversed"];
        let reverses_states = one_of("state_update_order", update_orders[0], &update_orders)? == 1;
        let tells_controls = get("sequence_stress_controls");
        one_of("sequence_stress_controls", SEEN_OUTPUT, &[SEEN_OUTPUT])?;
        let seed = get("fault_seed").unwrap_or("0");
        let planted = Planted::read_list(get("fault").unwrap_or_default());
        Ok(Self {
            execution: milliseconds("execute_delay_ms", get("execute_delay_ms").unwrap_or("0"))?,
            formula,
            initial: number("sequence_stress_initial_state")?.unwrap_or(arithmetic.zero()),
            states,
            responses: count("sequence_stress_responses", 0)?,
            iterations: count("sequence_stress_iterations", 1)?,
            error_on: number("error_on_value")?,
            panic_on: number("panic_on_value")?,
            state_key,
            reverses_states,
            tells_controls: tells_controls.is_some(),
            check_controls: one_of("check_controls", "true", &["true", "false"])? == 0,
            planted: planted.map_err(|error| format!("parameter 'fault': {error}"))?,
            fault_seed: seed
                .parse()
                .map_err(|_| format!("parameter 'fault_seed': '{seed}' is no whole number from 0 up"))?,
            hold: milliseconds("fault_hold_ms", get("fault_hold_ms").unwrap_or("10000"))?,
        })
    }
}

fn milliseconds(name: &str, text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().filter(|ms: &f64| (0.0..=LONGEST_MS).contains(ms));
    let time = time.ok_or_else(|| format!("parameter '{name}': '{text}' is no time in ms from 0 to {LONGEST_MS}"))?;
    Ok(Duration::from_secs_f64(time / 1000.0))
}
