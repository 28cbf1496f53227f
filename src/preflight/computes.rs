//! What the model computes, whether its sums can be exact, and whether it takes what the scenario sends.

use std::num::NonZeroU16;

use super::Hints;
use crate::preflight::Note;
use workload::{
    answers::Answers,
    arithmetic::{Arithmetic, Formula},
    conversation::Transport,
    model::Settings,
    number::{Datatype, Number, Written},
    scenario::{Elements, Network, Population, Scenario},
    sequence::{IdForm, Pattern, Trait},
    tensor::{ELEMENTS_MAX, Shape, TensorSpec},
    wording::counted,
};

/// What is done with a model that computes anything else.
pub(crate) const WITHOUT_FORMULA: &str = "--golden auto finds out before the run what any model answers and judges by that, and \
                                          --expect none judges all but the content of outputs";

/// What the model computes: what its configuration says, or else the command line, or else the running sum from 0. What the
/// configuration says is no longer told.
pub(super) fn arithmetic(
    name: &str,
    settings: Option<&Settings>,
    (datatype, shape): (Datatype, &Shape),
    scenario: &Scenario,
    told: &mut Hints,
    notes: &mut Vec<Note>,
) -> Result<Arithmetic, String> {
    let parameter = |key| settings.and_then(|settings| settings.parameters.get(key));
    let mut unused = Hints::default();
    let formula = match parameter(Formula::PARAMETER) {
        None => told.formula.unwrap_or_default(),
        Some(text) => {
            unused.formula = told.formula.take();
            let unknown =
                || format!("model '{name}' says that it computes '{text}' ({}): {WITHOUT_FORMULA}", Formula::PARAMETER);
            Formula::named(text).filter(|formula| !formula.is_golden()).ok_or_else(unknown)?
        }
    };
    if formula.is_golden() {
        return Err(format!("--formula {formula} names no formula: {WITHOUT_FORMULA}"));
    }
    let initial_state = match parameter(Arithmetic::INITIAL_STATE) {
        None => told.initial_state.unwrap_or_default(),
        Some(text) => {
            unused.initial_state = told.initial_state.take();
            let problem = || {
                format!(
                    "model '{name}' has '{text}' for its {}: it has to be a whole number",
                    Arithmetic::INITIAL_STATE
                )
            };
            text.parse::<Written>().map_err(|_| problem())?.value()
        }
    };
    let answers = answers(name, settings, told, &mut unused)?;
    notes.extend(Note::not_used(&unused));
    let arithmetic = Arithmetic { datatype, formula, initial_state, answers, value_bits: None };
    // Where there are none that do, nothing is sent.
    let value_bits = value_bits(name, &arithmetic, shape, scenario).unwrap_or_default();
    let arithmetic = Arithmetic { value_bits, ..arithmetic };
    if formula.adds_corrid() && scenario.id_forms().any(IdForm::is_text) {
        return Err(format!(
            "model '{name}' adds the correlation ID ({}), which is a text: set correlation_ids.form = \"integer\"",
            formula.name()
        ));
    }
    notes.extend(of_arithmetic(&arithmetic, scenario));
    Ok(arithmetic)
}

/// How often the model answers a request: what its configuration says, or else, of a decoupled one, the command line, or else once.
fn answers(name: &str, settings: Option<&Settings>, told: &mut Hints, unused: &mut Hints) -> Result<Answers, String> {
    let number = |key: &str| {
        let text = settings.and_then(|settings| settings.parameters.get(key))?;
        let problem =
            || format!("model '{name}' has '{text}' for its {key}: it has to be a number from 1 to {}", Answers::MOST);
        Some(text.parse().ok().filter(|number| (1..=Answers::MOST).contains(number)).ok_or_else(problem))
    };
    let (decoupled, iterative) =
        settings.map_or((told.responses.is_some(), false), |settings| (settings.decoupled, settings.iterative));
    let times = || number(Answers::ITERATIONS).unwrap_or(Ok(Answers::USUAL_EXECUTIONS));
    let configured = match (iterative, decoupled) {
        (true, true) => Some(Answers::EachOf(times()?)),
        (true, false) => Some(Answers::LastOf(times()?)),
        (false, true) => number(Answers::RESPONSES).transpose()?.map(Answers::Several),
        (false, false) => Some(Answers::One),
    };
    if configured.is_some() {
        unused.responses = told.responses.take();
    }
    Ok(configured.unwrap_or(Answers::Several(told.responses.unwrap_or(1))))
}

/// What is asked of a model that answers otherwise than once has to be such as it can do.
pub(super) fn check_answers(name: &str, answers: Answers, scenario: &Scenario) -> Result<(), String> {
    let mixes = scenario.draws_any(Trait::MixesTransports);
    let mut transports = scenario.populations.iter().map(|population| population.sending.transport());
    if answers.are_series() && (mixes || transports.any(|transport| !transport.is_stream())) {
        return Err(format!(
            "model '{name}' is decoupled, and so answers over streams alone: --transport {} (sending.transport)",
            Transport::GrpcStream
        ));
    }
    if answers.are_iterative()
        && let Some(pattern) = scenario.drawn(|pattern| !pattern.has(Trait::SingleSteps))
    {
        let can = Pattern::ALL.into_iter().filter(|pattern| pattern.has(Trait::SingleSteps)).map(Pattern::name);
        return Err(format!(
            "model '{name}' is iterative, so that each request is a whole sequence, and pattern '{pattern}' needs more: it can be sent {}",
            can.collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(())
}

/// Of floating-point numbers, how many bits values have, so that no sum is rounded, whatever else is in responses.
pub(super) fn value_bits(
    name: &str,
    arithmetic: &Arithmetic,
    shape: &Shape,
    scenario: &Scenario,
) -> Result<Option<u32>, String> {
    let Arithmetic { datatype, formula, initial_state, answers, .. } = *arithmetic;
    let Some(bits) = datatype.exact_bits() else { return Ok(None) };
    let room = 1 << (bits - 1);
    let begins_with = initial_state.unsigned_abs().saturating_add(formula.is_stateless().into());
    if begins_with >= room {
        return Err(format!(
            "model '{name}' begins with {initial_state}, and sums on that are not exact in {datatype}: take a model of another type"
        ));
    }
    let last = if formula.adds_corrid() { scenario.last_correlation_id() } else { 0 };
    if last >= room {
        return Err(format!(
            "model '{name}' adds the correlation ID, and up to {last} that is not exact in {datatype}: set a smaller correlation_ids.first \
             or correlation_ids.block, or take a model of another type"
        ));
    }
    // The ID is added when the elements are, and further answers are higher by one each.
    let several = if let Answers::Several(count) = answers { u64::from(count - 1) } else { 0 };
    let elements = scenario.populations.iter().filter_map(|population| population.values.elements).map(|its| its.max);
    let elements = shape.elements(elements.max().unwrap_or(NonZeroU16::MIN));
    let besides = begins_with + (last + several).max(Number::strays(datatype, elements));
    // What is iterative has sequences of one step.
    let steps = if answers.are_iterative() { answers.executions() } else { scenario.longest() };
    Arithmetic::value_bits(datatype, steps, sequences_together(scenario), besides)
        .map_err(|problem| format!("model '{name}': {problem}"))
}

/// The steps of how many sequences may come together in one sum: those of two of one ID may be under way at once, and where streams
/// are cut, steps of sequences that were cut before may be added to a later one.
fn sequences_together(scenario: &Scenario) -> u32 {
    let is_cut = |population: &Population| {
        let Network { cut, black_hole, .. } = &population.network;
        cut.is_some() || black_hole.is_some() || population.draws_any(Trait::Cuts)
    };
    if scenario.may_be_disturbed() || scenario.populations.iter().any(is_cut) { 8 } else { 2 }
}

/// A model whose shape is fixed takes one number of elements, and one whose shape is open not more than are sent.
pub(super) fn check_elements(name: &str, input: &TensorSpec, shape: &Shape, scenario: &Scenario) -> Result<(), String> {
    for Elements { min, max } in scenario.populations.iter().filter_map(|population| population.values.elements) {
        let fixed = shape.elements(NonZeroU16::MIN);
        if !shape.is_open() && [min, max].into_iter().any(|count| usize::from(count.get()) != fixed) {
            return Err(format!(
                "model '{name}' takes {input}, always of {}, and values.elements asks for {min} to {max}: leave it \
                 out, or take a model with an open dimension (-m)",
                counted(fixed as u64, "element")
            ));
        }
        if shape.elements(max) > ELEMENTS_MAX {
            return Err(format!(
                "model '{name}' takes {input}, of {} elements where the open dimension has the size {max} of \
                 values.elements: at most {ELEMENTS_MAX} are sent, so set a smaller values.elements.max",
                shape.elements(max)
            ));
        }
    }
    Ok(())
}

/// A type that is in no JSON is sent as bytes alone.
pub(super) fn check_json(name: &str, datatype: Datatype, scenario: &Scenario) -> Result<(), String> {
    if datatype.is_in_json() {
        return Ok(());
    }
    let is_json = |population: &Population| population.sending.transport().is_json();
    if scenario.populations.iter().any(is_json) {
        return Err(format!(
            "model '{name}' takes {datatype}, which HTTP has as bytes alone: --transport {} (sending.transport)",
            Transport::HttpBinary
        ));
    }
    if let Some(pattern) = scenario.drawn(|pattern| pattern.has(Trait::MixesTransports))
        && scenario.transports().into_iter().any(Transport::is_json)
    {
        return Err(format!(
            "model '{name}' takes {datatype}, which HTTP has as bytes alone, and pattern '{pattern}' sends it in JSON, too: leave the pattern out"
        ));
    }
    Ok(())
}

fn of_arithmetic(arithmetic: &Arithmetic, scenario: &Scenario) -> Vec<Note> {
    let mut notes = Vec::new();
    let changed = |value: i64| arithmetic.number(value) != arithmetic.datatype.number(value);
    if let Some(bits) = arithmetic.value_bits
        && scenario.populations.iter().any(|population| population.values.extremes().into_iter().any(changed))
    {
        let most = (1_i64 << (bits - 1)) - 1;
        notes.push(Note::Other(format!(
            "values are sent modulo 2^{bits}, from {} to {most}: so all sums are exact in {}",
            -most - 1,
            arithmetic.datatype
        )));
    }
    match arithmetic.answers {
        Answers::One => {}
        Answers::Several(count) => notes.push(Note::Other(format!(
            "a request is answered when its last response has come: the model is decoupled, and gives {} to each request",
            counted(count.into(), "response")
        ))),
        Answers::EachOf(times) | Answers::LastOf(times) => notes.push(Note::Other(format!(
            "sequences have one step and no END: the model is iterative and executes each request {}, as a sequence of its own",
            counted(times.into(), "time")
        ))),
    }
    if arithmetic.formula.is_stateless() {
        notes.push(Note::NotChecked(format!(
            "the state of sequences, because {} has none: each response is judged by its request alone",
            arithmetic.formula.name()
        )));
    }
    notes
}
