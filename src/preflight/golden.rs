//! What is found out of a model that has no formula.

use sha2::{Digest as _, Sha256};

use super::{Hints, Note};
use oracle::golden::{EndEffect, Golden, Identity};
use wire::transport::{Configuration, Declared};
use workload::{
    answers::Answers,
    arithmetic::{Arithmetic, Formula},
    conversation::Transport,
    inputs::{ElementType, InputSet, InputTensor, hex, texts},
    model::{Model, Settings},
    number::Datatype,
    scenario::{Population, Scenario},
    sequence::Trait,
    tensor::{Shape, TensorSpec},
};

/// The parameters that plant a fault in a model of this project: a sound model's golden outputs are what a faulty one is judged by.
const PLANTED: [&str; 3] = ["fault", "fault_seed", "fault_hold_ms"];

/// Of which model a calibration is, or a run is to be; of no inputs yet.
pub(crate) fn identity(model: &Model, configuration: Option<&Configuration>) -> Identity {
    let text = configuration.and_then(|configuration| configuration.without(&PLANTED).to_text().ok());
    Identity {
        model: model.name.clone(),
        version: model.version.clone(),
        server: model.server.clone(),
        configuration: text.map(|text| hex(&Sha256::digest(text))),
        inputs: String::new(),
    }
}

/// What a report names as the model's input and output, where it may have several of any kind.
///
/// # Errors
/// When the model does not have what the golden outputs are of.
pub(super) fn whatever_tensors(
    golden: &Golden,
    name: &str,
    declared: &Declared,
) -> Result<(TensorSpec, TensorSpec, Shape, Datatype), String> {
    let lacks = |what: &str, its: &str, all: &[TensorSpec]| {
        // Of another model something else is said.
        let is_there = golden.identity.model != name || all.iter().any(|spec| spec.name == its);
        let why = || {
            format!(
                "the golden file has the {what} '{its}', and model '{name}' has none of this name: calibrate anew (sequence-stress golden -m {name})"
            )
        };
        if is_there { Ok(()) } else { Err(why()) }
    };
    golden.asked().try_for_each(|output| lacks("output", output, &declared.outputs))?;
    let codes = golden.inputs.tracks().iter().flat_map(|track| &track.codes);
    let mut sent = codes.flat_map(|code| golden.inputs.tensors(*code).unwrap_or_default());
    sent.try_for_each(|tensor| lacks("input", &tensor.name, &declared.inputs))?;
    let input = declared.inputs.first().cloned().unwrap_or_default();
    let output = golden.outputs.first().map(|output| output.spec.clone()).unwrap_or_default();
    Ok((input, output, Shape::default(), InputSet::DATATYPE))
}

/// How a model without a formula is thought of: states are sums of its inputs' codes.
pub(super) fn without_formula(
    golden: &Golden,
    settings: Option<&Settings>,
    told: &mut Hints,
    notes: &mut Vec<Note>,
) -> Arithmetic {
    let unused = Hints {
        formula: told.formula.take(),
        initial_state: told.initial_state.take(),
        responses: told.responses.take(),
        ..Hints::default()
    };
    notes.extend(Note::not_used(&unused));
    let most = if golden.words().is_empty() { None } else { u32::try_from(golden.most_responses()).ok() };
    let count = most.unwrap_or(Answers::MOST).clamp(1, Answers::MOST);
    let answers = match settings.map(|settings| (settings.iterative, settings.decoupled)) {
        Some((true, true)) => Answers::EachOf(count),
        Some((true, false)) => Answers::LastOf(1),
        Some((false, true)) => Answers::Several(count),
        Some((false, false)) | None => Answers::One,
    };
    let formula = if golden.facts.at_end.matters() { Formula::GoldenWithEnd } else { Formula::Golden };
    Arithmetic { datatype: InputSet::DATATYPE, formula, answers, ..Arithmetic::default() }
}

/// Why golden outputs are of another model, version or configuration, if they are. `configured` is the server's configuration as text.
pub(super) fn is_of_another(golden: &Golden, model: &Identity, configured: Option<&str>) -> Option<String> {
    let (made, name) = (&golden.identity, &model.model);
    let differs = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
    let version = |version: &Option<String>| version.clone().unwrap_or_default();
    let (of, has) = if made.model != *name {
        (format!("model '{}'", made.model), format!("the run is of model '{name}'"))
    } else if differs(&made.version, &model.version) {
        let has = format!("the server has version {}", version(&model.version));
        (format!("version {} of model '{name}'", version(&made.version)), has)
    } else if differs(&made.configuration, &model.configuration) {
        let differing = differing_lines(golden.configuration.as_deref(), configured);
        let differing = differing.map_or_else(String::new, |(made, has)| format!(": '{has}' in place of '{made}'"));
        let has = format!("the server has model '{name}' in another one{differing}");
        (format!("one configuration of model '{name}'"), has)
    } else {
        return None;
    };
    Some(format!("the golden file is of {of}, and {has}: calibrate anew (sequence-stress golden -m {name})"))
}

/// The first lines that differ between two texts, in their order.
fn differing_lines<'t>(one: Option<&'t str>, other: Option<&'t str>) -> Option<(&'t str, &'t str)> {
    let lines = |text: &'t str| text.lines().map(str::trim).chain(std::iter::repeat("nothing"));
    let (one, other) = (one?, other?);
    let most = one.lines().count().max(other.lines().count());
    lines(one).zip(lines(other)).take(most).find(|(one, other)| one != other)
}

/// What is said of golden outputs before a run.
pub(super) fn golden_notes(golden: &Golden, scenario: &Scenario) -> Vec<Note> {
    let mut notes = Vec::new();
    if !golden.judges() {
        let by_rule = golden.outputs.iter().filter(|output| output.has_rule());
        let by_rule: Vec<_> = by_rule.map(|output| output.spec.name.as_str()).collect();
        let only = match by_rule[..] {
            [] => String::new(),
            _ => format!("; only that the same steps have the same {}", by_rule.join(", ")),
        };
        notes.push(Note::NotChecked(format!(
            "what responses contain, because nothing is expected of their outputs{only}"
        )));
        return notes;
    }
    if golden.facts.at_end == EndEffect::NotRepeatable {
        notes.push(Note::NotChecked(
            "outputs of steps with END, because they differ from one correlation ID to the next".to_owned(),
        ));
    }
    for output in golden.outputs.iter().filter(|output| !output.is_judged()) {
        let name = &output.spec.name;
        let is_of_ids = golden.facts.noise.iter().any(|noise| noise.output == *name && noise.is_of_ids());
        let why = if is_of_ids {
            "it differs from one correlation ID to the next"
        } else {
            "the same inputs did not have the same outputs when the golden file was made"
        };
        notes.push(Note::NotChecked(format!("output '{name}', because {why}")));
    }
    if golden.inputs.tracks().len() < 2 {
        notes.push(Note::NotChecked(
            "whether the server mixes sequences, because there is one track, so all have the same inputs".to_owned(),
        ));
    }
    let hidden: Vec<_> = golden.facts.hidden().map(|kind| kind.to_string()).collect();
    if !hidden.is_empty() {
        notes.push(Note::NotChecked(format!(
            "the faults {}, because no output showed them for certain when the golden file was made",
            hidden.join(", ")
        )));
    }
    let (longest, steps) = (scenario.longest(), golden.steps());
    if longest > steps {
        notes.push(Note::NotChecked(format!(
            "outputs of steps after step {steps} of a sequence, because the golden file has no more, and sequences have up to {longest} \
             (golden --steps {longest})"
        )));
    }
    notes
}

/// Why the model's tensors cannot go over a transport of the scenario, if they cannot: HTTP has no halves in JSON, no number that is none, and
/// no bytes that are no text.
pub(super) fn not_in_json(golden: &Golden, name: &str, scenario: &Scenario) -> Option<String> {
    let mixes = scenario.draws_any(Trait::MixesTransports) && scenario.transports().into_iter().any(Transport::is_json);
    let is_json = |population: &Population| population.sending.transport().is_json();
    if !mixes && !scenario.populations.iter().any(is_json) {
        return None;
    }
    let codes = golden.inputs.tracks().iter().flat_map(|track| &track.codes);
    let mut tensors = codes.flat_map(|code| golden.inputs.tensors(*code).unwrap_or_default());
    let input = tensors.find(|tensor| !is_in_json(tensor));
    let output = golden.outputs.iter().find(|output| !output.datatype.is_in_json());
    let tensor = match (input, output) {
        (Some(input), _) if !input.datatype.is_in_json() => format!("takes {} of {}", input.name, input.datatype),
        (Some(input), _) => format!("is sent {} with elements that JSON does not have", input.name),
        (None, Some(output)) => format!("gives {}", output.spec),
        (None, None) => return None,
    };
    let by = Transport::HttpBinary;
    Some(format!(
        "model '{name}' {tensor}, which HTTP has as bytes alone: --transport {by} (sending.transport), and no pattern that mixes transports"
    ))
}

/// Whether all elements can be written as JSON.
fn is_in_json(InputTensor { datatype, data, .. }: &InputTensor) -> bool {
    match datatype {
        ElementType::Fp32 => data.as_chunks().0.iter().all(|element| f32::from_le_bytes(*element).is_finite()),
        ElementType::Fp64 => data.as_chunks().0.iter().all(|element| f64::from_le_bytes(*element).is_finite()),
        ElementType::Bytes => texts(data).flatten().all(|text| str::from_utf8(text).is_ok()),
        _ => datatype.is_in_json(),
    }
}
