//! What is found out of a model that has no formula.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{Hints, Note};
use oracle::golden::{Golden, Identity};
use wire::transport::{Configuration, Declared};
use workload::{
    answers::Answers,
    arithmetic::{Arithmetic, Formula},
    conversation::Transport,
    inputs::{ElementType, InputSet, hex},
    model::{Model, Settings},
    number::Datatype,
    scenario::Scenario,
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
pub(super) fn whatever_tensors(golden: &Golden, declared: &Declared) -> (TensorSpec, TensorSpec, Shape, Datatype) {
    let input = declared.inputs.first().cloned().unwrap_or_default();
    let output = golden.outputs.first().map(|output| output.spec.clone()).unwrap_or_default();
    (input, output, Shape::default(), InputSet::DATATYPE)
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
    Arithmetic { datatype: InputSet::DATATYPE, formula: Formula::Golden, answers, ..Arithmetic::default() }
}

/// What is said of golden outputs before a run. An error says why they are not this model's.
pub(super) fn golden_notes(
    golden: &Golden,
    model: &Identity,
    scenario: &Scenario,
    notes: &mut Vec<Note>,
) -> Result<(), String> {
    let anew = "calibrate anew: sequence-stress golden";
    let made = &golden.identity;
    let name = &model.model;
    if made.model != *name {
        return Err(format!(
            "the golden file is of model '{}', and the run is of model '{name}': {anew} -m {name}",
            made.model
        ));
    }
    let differs = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
    if differs(&made.version, &model.version) {
        let version = |version: &Option<String>| version.clone().unwrap_or_default();
        return Err(format!(
            "the golden file is of version {} of model '{name}', and the server has version {}: {anew} -m {name}",
            version(&made.version),
            version(&model.version)
        ));
    }
    if differs(&made.configuration, &model.configuration) {
        return Err(format!("the golden file is of another configuration of model '{name}': {anew} -m {name}"));
    }
    if !golden.judges() {
        notes.push(Note::NotChecked("what responses contain, because nothing is expected of their outputs".to_owned()));
        return Ok(());
    }
    for output in golden.outputs.iter().filter(|output| !output.is_judged()) {
        notes.push(Note::NotChecked(format!(
            "output '{}', because the same inputs did not have the same outputs when the golden file was made",
            output.spec.name
        )));
    }
    let (longest, steps) = (scenario.longest(), golden.steps());
    if longest > steps {
        notes.push(Note::NotChecked(format!(
            "outputs of steps after step {steps} of a sequence, because the golden file has no more, and sequences have up to {longest} \
             (golden --steps {longest})"
        )));
    }
    Ok(())
}

/// Why inputs cannot be sent over a transport of the scenario, if they cannot.
pub(super) fn not_in_json(golden: &Arc<Golden>, name: &str, scenario: &Scenario) -> Option<String> {
    let is_json = scenario.populations.iter().any(|population| population.sending.transport().is_json());
    let codes = golden.inputs.tracks().iter().flat_map(|track| &track.codes);
    let mut tensors = codes.flat_map(|code| golden.inputs.tensors(*code).unwrap_or_default());
    let halves = [ElementType::Fp16, ElementType::Bf16];
    let half = tensors.find(|tensor| is_json && halves.contains(&tensor.datatype))?;
    Some(format!(
        "model '{name}' takes {} of {}, which HTTP has as bytes alone: --transport {} (sending.transport)",
        half.name,
        half.datatype,
        Transport::HttpBinary
    ))
}
