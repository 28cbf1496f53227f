//! What the model computes, and whether its sums can be exact.

use super::Hints;
use crate::{
    arithmetic::{Arithmetic, Formula},
    model::Settings,
    number::{Datatype, Written},
    scenario::Scenario,
    sequence::IdForm,
};

/// What the model computes: what its configuration says, or else the command line, or else the running sum from 0. What the
/// configuration says is no longer told.
pub(super) fn arithmetic(
    name: &str,
    settings: Option<&Settings>,
    datatype: Datatype,
    scenario: &Scenario,
    told: &mut Hints,
    notes: &mut Vec<String>,
) -> Result<Arithmetic, String> {
    let parameter = |key| settings.and_then(|settings| settings.parameters.get(key));
    let mut unused = Hints::default();
    let formula = match parameter(Formula::PARAMETER) {
        None => told.formula.unwrap_or_default(),
        Some(text) => {
            unused.formula = told.formula.take();
            let known = Formula::NAMES.join(", ");
            let unknown = || {
                format!(
                    "model '{name}' says that it computes '{text}' ({}): this test knows {known}",
                    Formula::PARAMETER
                )
            };
            Formula::named(text).ok_or_else(unknown)?
        }
    };
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
    notes.extend(unused.words().iter().map(|flag| format!("not used: {flag}: the model's configuration tells it")));
    let longest = scenario.populations.iter().map(|population| population.length.max.get()).max().unwrap_or(1);
    let value_bits =
        Arithmetic::value_bits(datatype, longest).map_err(|problem| format!("model '{name}': {problem}"))?;
    let arithmetic = Arithmetic { datatype, formula, initial_state, value_bits };
    check_exact(name, &arithmetic, scenario)?;
    if formula.adds_corrid() && scenario.id_forms().any(IdForm::is_text) {
        return Err(format!(
            "model '{name}' adds the correlation ID ({}), which is a text: set correlation_ids.form = \"integer\"",
            formula.name()
        ));
    }
    notes.extend(of_arithmetic(&arithmetic, scenario));
    Ok(arithmetic)
}

/// What else is in answers has to leave floating-point sums exact, too.
fn check_exact(name: &str, arithmetic: &Arithmetic, scenario: &Scenario) -> Result<(), String> {
    let Some(bits) = arithmetic.datatype.exact_bits() else { return Ok(()) };
    let room = 1 << (bits - 2);
    if arithmetic.initial_state.unsigned_abs() >= room {
        return Err(format!(
            "model '{name}' begins with {}, and sums on that are not exact in {}",
            arithmetic.initial_state, arithmetic.datatype
        ));
    }
    let last = scenario.last_correlation_id();
    if arithmetic.formula.adds_corrid() && last >= room {
        return Err(format!(
            "model '{name}' adds the correlation ID, and up to {last} that is not exact in {}: set a smaller correlation_ids.first",
            arithmetic.datatype
        ));
    }
    Ok(())
}

/// What follows from what the model computes.
fn of_arithmetic(arithmetic: &Arithmetic, scenario: &Scenario) -> Vec<String> {
    let mut notes = Vec::new();
    let changed = |value: i64| arithmetic.number(value) != arithmetic.datatype.number(value);
    if let Some(bits) = arithmetic.value_bits
        && scenario.populations.iter().any(|population| population.values.extremes().into_iter().any(changed))
    {
        let most = (1_i64 << (bits - 1)) - 1;
        notes.push(format!(
            "values are sent modulo 2^{bits}, from {} to {most}: so all sums are exact in {}",
            -most - 1,
            arithmetic.datatype
        ));
    }
    if arithmetic.formula.is_stateless() {
        notes.push(format!(
            "not checked: the state of sequences, because {} has none: each answer is judged by its request alone",
            arithmetic.formula.name()
        ));
    }
    notes
}
