//! What tensors a model has to have, for what it computes.

use std::collections::BTreeSet;

use super::{
    super::{
        model::STATES_MAX,
        number::Number,
        parameters::{self, Formula, Parameters},
        tensor::Datatype,
    },
    ALPHA_STATE, EnsembleStep, SEEN_ELEMENTS, Signal, StateSpec, Tells, TensorSpec, ZETA_STATE, first_number,
};
use wire::proto::ModelConfig;

/// The most units of a model with weights.
const WIDTH_MAX: i64 = 4096;
/// The most elements of an output whose size no input has.
const ELEMENTS_MAX: i64 = 1 << 20;
/// The most outputs, of which a request names those that it wants.
const OUTPUTS_MAX: usize = 32;

/// The output that tells the number of steps, which a sum has in its second state.
const COUNT: &str = "COUNT";
/// Outputs of one element, of models that echo what they saw.
const ECHOES: [(&str, Datatype, Tells); 6] = [
    ("SAW_START", Datatype::Int32, Tells::Control(Signal::Start)),
    ("SAW_END", Datatype::Int32, Tells::Control(Signal::End)),
    ("SAW_READY", Datatype::Int32, Tells::Control(Signal::Ready)),
    ("SAW_CORRID", Datatype::Uint64, Tells::Control(Signal::CorrelationId)),
    ("SLOT", Datatype::Int32, Tells::Slot),
    ("INSTANCE", Datatype::Int32, Tells::Instance),
];

/// What each output tells: of a sum the first one, and the others by their names.
pub(super) fn tells(
    config: &ModelConfig,
    formula: Formula,
    input: &TensorSpec,
    outputs: &[TensorSpec],
    counts: bool,
) -> Result<Vec<Tells>, String> {
    let [result, ..] = outputs else { return Err(format!("model '{}' has no output", config.name)) };
    if formula.is_sum() && result.datatype != input.datatype {
        return Err(format!("output '{}' is {}, and the input {}", result.name, result.datatype, input.datatype));
    }
    if outputs.len() > OUTPUTS_MAX {
        return Err(format!(
            "model '{}': {} outputs are too many, at most {OUTPUTS_MAX} are served",
            config.name,
            outputs.len()
        ));
    }
    let seen = parameters::text(config, parameters::CONTROLS);
    let tell = |(index, TensorSpec { name, datatype, dims, .. }): (usize, &TensorSpec)| {
        let echo = ECHOES.iter().find(|(its, ..)| **its == **name);
        if index == 0 && formula.is_sum() {
            Ok(Tells::Result)
        } else if seen == Some(&**name) && *datatype == Datatype::Int64 && *dims == [SEEN_ELEMENTS] {
            Ok(Tells::Seen)
        } else if let Some((_, _, tells)) = echo.filter(|(_, its, _)| datatype == its && *dims == [1]) {
            Ok(*tells)
        } else if counts && **name == *COUNT && *datatype == Datatype::Int64 && *dims == [1] {
            Ok(Tells::Count)
        } else if !formula.is_sum() {
            Ok(Tells::Result)
        } else {
            Err(format!(
                "output '{name}': besides the sum there may be one INT64 of {SEEN_ELEMENTS} elements that parameter \
                 '{}' names, and echoes of what the model saw",
                parameters::CONTROLS
            ))
        }
    };
    outputs.iter().enumerate().map(tell).collect()
}

pub(super) fn check_names(inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Result<(), String> {
    for (tensors, what) in [(inputs, "inputs"), (outputs, "outputs")] {
        let mut names = BTreeSet::new();
        if let Some(again) = tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
            return Err(format!("there are two {what} '{}'", again.name));
        }
    }
    Ok(())
}

/// The steps of an ensemble come one after the other: each takes what there is by then, and at the end all outputs are there.
pub(super) fn check_steps(
    name: &str,
    inputs: &[TensorSpec],
    outputs: &[TensorSpec],
    steps: &[EnsembleStep],
) -> Result<(), String> {
    let mut there: BTreeSet<&str> = inputs.iter().map(|input| &*input.name).collect();
    for EnsembleStep { model, inputs, outputs, .. } in steps {
        if model == name {
            return Err(format!("ensemble '{name}' is a step of its own"));
        }
        if let Some((_, missing)) = inputs.iter().find(|(_, tensor)| !there.contains(&**tensor)) {
            return Err(format!("step '{model}' of ensemble '{name}': no step before it gives '{missing}'"));
        }
        there.extend(outputs.iter().map(|(_, tensor)| &**tensor));
    }
    match outputs.iter().find(|output| !there.contains(&*output.name)) {
        _ if steps.is_empty() => Err(format!("ensemble '{name}' has no step")),
        Some(output) => Err(format!("ensemble '{name}': no step gives its output '{}'", output.name)),
        None => Ok(()),
    }
}

/// What a model that adds up has to be like.
pub(super) fn check_sum(
    name: &str,
    inputs: &[TensorSpec],
    states: &[StateSpec],
    parameters: &Parameters,
) -> Result<(), String> {
    let [input] = inputs else {
        return Err(format!("model '{name}': one input is served, not {}", inputs.len()));
    };
    if input.datatype == Datatype::Bf16 {
        let name = &input.name;
        return Err(format!("tensor '{name}' is of BF16, whose sums are exact up to 256 alone: it is not served"));
    }
    if Number::of_bits(input.datatype, 0).is_none() {
        return Err(format!("input '{}': there is no sum of {}", input.name, input.datatype.name()));
    }
    let Some((first, others)) = states.split_first() else {
        let copies = parameters.holds_copies;
        return if copies { Err(format!("model '{name}': there is no state for copies of the sum")) } else { Ok(()) };
    };
    let most = if parameters.holds_copies { STATES_MAX } else { 2 };
    if states.len() > most {
        return Err(format!("model '{name}': at most {most} implicit states are served, not {}", states.len()));
    }
    if let Some(other) = others.iter().find(|other| Number::of_bits(other.tensor.datatype, 0).is_none()) {
        let TensorSpec { name, datatype, .. } = &other.tensor;
        return Err(format!("state '{name}': there is no sum of {datatype}"));
    }
    if states.iter().any(|state| state.initial.is_some() != first.initial.is_some()) {
        return Err(format!("model '{name}': each of its states has to have an initial_state, or none of them"));
    }
    check_state_of_sum(first, input, parameters.initial)
}

fn check_state_of_sum(state: &StateSpec, input: &TensorSpec, told: Option<Number>) -> Result<(), String> {
    let TensorSpec { name, datatype, .. } = &state.tensor;
    if *datatype != input.datatype {
        return Err(format!("state '{name}': {} of a fixed shape is served, as the input is", input.datatype));
    }
    if let (Some(data), Some(told)) = (&state.initial, told) {
        let is = first_number(*datatype, data);
        let says = is.map_or("no number".to_owned(), |number| number.to_string());
        if is != Some(told) {
            return Err(format!("state '{name}': its initial_state begins with {says}, and a parameter says {told}"));
        }
    }
    Ok(())
}

/// What inputs, outputs and states a model that computes no sum has to have.
pub(super) fn check_shapes(
    formula: Formula,
    name: &str,
    inputs: &[TensorSpec],
    outputs: &[TensorSpec],
    tells: &[Tells],
    states: &[StateSpec],
) -> Result<(), String> {
    use Datatype::{Bytes, Fp32, Int64, Uint64};
    let wrong = |text: &str| Err(format!("model '{name}' computes '{}': {text}", formula.name()));
    let results = || outputs.iter().zip(tells).filter(|(_, tells)| **tells == Tells::Result).map(|(output, _)| output);
    let width = match inputs {
        [TensorSpec { datatype: Fp32, dims, .. }] => match dims[..] {
            [width @ 1..=WIDTH_MAX] => Some(width),
            _ => None,
        },
        _ => None,
    };
    let is = |tensor: &TensorSpec, datatype, dims: &[i64]| tensor.datatype == datatype && tensor.dims == dims;
    let given: Vec<_> =
        states.iter().map(|state| (&*state.tensor.name, state.tensor.datatype, &state.tensor.dims[..])).collect();
    if results().next().is_none() && !formula.is_sum() {
        return wrong("it has to have an output");
    }
    if states.iter().any(|state| state.initial.is_some() != states[0].initial.is_some()) {
        return wrong("each of its states has to have an initial_state, or none of them");
    }
    match (formula, width) {
        (Formula::Sum(_), _) => Ok(()),
        (Formula::Gru | Formula::TwoState, None) => {
            wrong(&format!("its one input has to be FP32 with dims [ W ], of which W is from 1 to {WIDTH_MAX}"))
        }
        (Formula::Gru, Some(width)) if !results().all(|output| is(output, Fp32, &[width])) => {
            wrong("its output has to be FP32 with the dims of its input")
        }
        (Formula::Gru, Some(width)) => match given[..] {
            [] => Ok(()),
            [(_, Fp32, dims)] if *dims == [width] => Ok(()),
            _ => wrong("its state has to be FP32 with the dims of its input"),
        },
        (Formula::TwoState, Some(width))
            if !results().all(|of| is(of, Fp32, &[width]) || is(of, Int64, &[1]) || is(of, Bytes, &[1])) =>
        {
            wrong("its outputs have to be FP32 with the dims of its input, INT64 [ 1 ] or BYTES [ 1 ]")
        }
        (Formula::TwoState, Some(_)) => match given[..] {
            []
            | [(ZETA_STATE, Fp32, [2]), (ALPHA_STATE, Fp32, [5])]
            | [(ALPHA_STATE, Fp32, [5]), (ZETA_STATE, Fp32, [2])] => Ok(()),
            _ => wrong(&format!("its states have to be {ZETA_STATE} FP32 [ 2 ] and {ALPHA_STATE} FP32 [ 5 ]")),
        },
        (Formula::AnyTensors, _) if outputs.iter().any(|output| output.dims.contains(&-1)) => {
            wrong("the dims of its outputs have to be above 0")
        }
        (Formula::AnyTensors, _)
            if outputs.iter().any(|of| of.dims.iter().copied().fold(1, i64::saturating_mul) > ELEMENTS_MAX) =>
        {
            wrong(&format!("an output of it has at most {ELEMENTS_MAX} elements"))
        }
        (Formula::AnyTensors, _) => match given[..] {
            [] | [(_, Uint64, [1])] => Ok(()),
            _ => wrong("its state has to be UINT64 [ 1 ]"),
        },
    }
}
