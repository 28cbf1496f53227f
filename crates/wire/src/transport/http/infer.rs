//! A step as a request over HTTP.

use hyper::Uri;
use serde_json::{Value, json};

use super::{
    super::template::{Parts, Said},
    Body, path_of,
    value::to_json,
};
use crate::proto::infer_parameter::ParameterChoice;
use workload::{
    number::Datatype,
    sequence::{Flaw, Special, Step},
};

/// A step as a request, and where it goes in place of where all others go.
pub(super) fn encode(parts: &Parts, step: &Step, binary: bool) -> (Body, Option<Uri>) {
    let mut said = parts.said(step);
    if step.flaw() == Some(Flaw::OtherType) {
        // In JSON they are read before their type is compared.
        let other = Datatype::named(said.datatype).expect("it is one that can be added up");
        said.elements.iter_mut().for_each(|element| *element = other.number(element.value()));
    }
    let has_bytes = binary && said.has_input;
    let bytes = if has_bytes { said.bytes() } else { Vec::new() };
    let inputs: Vec<_> = said.has_input.then(|| input(&said, bytes.len(), binary)).into_iter().collect();
    let output = |name| json!({ "name": name, "parameters": { "binary_data": binary } });
    let names = parts.outputs.iter().map(String::as_str).chain(said.other_output);
    let mut request = json!({
        "id": step.request.to_string(),
        "parameters": {
            "sequence_id": in_json(&said.id),
            "sequence_start": step.start,
            "sequence_end": parts.ends(step),
        },
        "inputs": inputs,
        "outputs": names.map(output).collect::<Value>(),
    });
    if let Some(Special::TimeoutUs(us)) = step.special {
        request["parameters"]["timeout"] = us.into();
    }
    let mut all = request.to_string().into_bytes();
    let json_bytes = has_bytes.then_some(all.len());
    all.extend(bytes);
    let elsewhere = said.version.map(|version| path_of(&parts.model, &format!("/versions/{version}/infer")));
    (Body { bytes: all, json_bytes, is_inference: true }, elsewhere)
}

fn input(said: &Said<'_>, bytes: usize, binary: bool) -> Value {
    let mut input = json!({ "name": said.input, "datatype": said.datatype, "shape": said.shape });
    if binary {
        input["parameters"] = json!({ "binary_data_size": bytes });
    } else {
        // JSON has no parts of an element: one is missing whole.
        let elements = if said.is_short { &[] } else { said.elements.as_slice() };
        input["data"] = elements.iter().copied().map(to_json).collect();
    }
    input
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
