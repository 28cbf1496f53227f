//! A step as a request over HTTP.

use std::borrow::Cow;

use hyper::Uri;
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{super::template::RequestTemplate, Body, path_of_version, value::to_json};
use crate::proto::infer_parameter::ParameterChoice;
use workload::{
    inputs::InputTensor,
    sequence::{Flaw, Special, Step},
    tensor::elements,
};

/// The JSON of a request. It is written from here at once: a `Value` in between would cost more than all else that encoding does.
#[derive(Serialize)]
struct Request<'a> {
    id: String,
    parameters: Parameters,
    inputs: Vec<Input<'a>>,
    outputs: Cow<'a, RawValue>,
}

#[derive(Serialize)]
struct Parameters {
    sequence_id: Value,
    sequence_start: bool,
    sequence_end: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
}

#[derive(Serialize)]
struct Input<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<OfInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Vec<Value>>,
}

#[derive(Serialize)]
struct OfInput {
    binary_data_size: usize,
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    parameters: OfOutput,
}

#[derive(Serialize)]
struct OfOutput {
    binary_data: bool,
}

/// A step as a request, and where it goes in place of where all others go.
pub(super) fn encode(template: &RequestTemplate, step: &Step, binary: bool) -> (Body, Option<Uri>) {
    let (parts, mut said) = (&template.parts, template.said(step));
    let is_of_other_type = !binary && step.flaw() == Some(Flaw::OtherType);
    if is_of_other_type && let Some(first) = said.inputs.to_mut().first_mut() {
        // In JSON they are read before their type is compared: they have to be some of that type.
        let count = elements(&first.shape);
        first.data = vec![0; count * first.datatype.size().unwrap_or(size_of::<u32>())];
    }
    let has_bytes = binary && !said.inputs.is_empty();
    let inputs = said.inputs.iter().enumerate();
    // JSON has no parts of an element: one is missing whole.
    let inputs = inputs.map(|(place, tensor)| input(tensor, said.is_short && place == 0, binary)).collect();
    let request = Request {
        id: step.request.to_string(),
        parameters: Parameters {
            sequence_id: in_json(&said.id),
            sequence_start: step.start,
            sequence_end: parts.ends(step),
            timeout: match step.special {
                Some(Special::TimeoutUs(us)) => Some(us),
                _ => None,
            },
        },
        inputs,
        outputs: match said.other_output {
            Some(other) => Cow::Owned(asked_for(parts.outputs.iter().map(String::as_str).chain([other]), binary)),
            None => Cow::Borrowed(&parts.asked_for[usize::from(binary)]),
        },
    };
    // A request of one element has somewhat less.
    let bytes = if has_bytes { said.inputs.iter().map(|input| input.data.len()).sum() } else { 0 };
    let mut all = Vec::with_capacity(512 + bytes);
    serde_json::to_writer(&mut all, &request).expect("it has nothing that JSON does not have");
    let json_bytes = has_bytes.then_some(all.len());
    if has_bytes {
        said.inputs.iter().for_each(|input| all.extend_from_slice(&input.data));
    }
    let elsewhere = said.version.map(|version| path_of_version(&parts.model, version, "/infer"));
    (Body { bytes: all, json_bytes, is_inference: true, header: None }, elsewhere)
}

/// Outputs as a request asks for them.
pub(in super::super) fn asked_for<'a>(names: impl Iterator<Item = &'a str>, binary: bool) -> Box<RawValue> {
    let outputs: Vec<_> = names.map(|name| Output { name, parameters: OfOutput { binary_data: binary } }).collect();
    to_raw_value(&outputs).expect("it has nothing that JSON does not have")
}

fn input(InputTensor { name, datatype, shape, data }: &InputTensor, is_short: bool, binary: bool) -> Input<'_> {
    let elements: &[u8] = if is_short { &[] } else { data };
    Input {
        name,
        datatype: datatype.name(),
        shape,
        parameters: binary.then_some(OfInput { binary_data_size: data.len() }),
        data: (!binary).then(|| to_json(*datatype, elements)),
    }
}

/// A correlation ID. A number is as large as it is here; only gRPC has it with a sign.
fn in_json(id: &ParameterChoice) -> Value {
    match id {
        ParameterChoice::Int64Param(number) => number.cast_unsigned().into(),
        ParameterChoice::StringParam(text) => text.as_str().into(),
        ParameterChoice::BoolParam(flag) => (*flag).into(),
        other => unreachable!("no ID is {other:?}"),
    }
}
