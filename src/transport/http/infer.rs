//! A step as a request over HTTP.

use serde_json::{Map, Value, json};

use super::{
    super::codec::{NO_SUCH_INPUT, NO_SUCH_OUTPUT, NO_SUCH_VERSION, Parts, TOO_LONG, other_type},
    path_of,
    value::to_json,
};
use crate::{
    number::Number,
    sequence::{Flaw, Special, Step, WireId},
};

/// A request, ready to be sent.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) path: String,
    /// How many bytes are JSON, where those of tensors follow.
    pub(super) json_bytes: Option<usize>,
    pub(super) body: Vec<u8>,
}

/// What a request says, with the flaw that it has.
struct Said {
    id: Value,
    version: Option<&'static str>,
    input: Option<&'static str>,
    datatype: &'static str,
    shape: Vec<i64>,
    elements: Vec<Number>,
    /// Bytes that are left out.
    missing: usize,
    outputs: Vec<String>,
    has_input: bool,
}

/// Writes a step down.
pub(super) fn encode(parts: &Parts, step: &Step, binary: bool) -> Encoded {
    let said = Said::new(parts, step);
    let infer = said.version.map_or("/infer".to_owned(), |version| format!("/versions/{version}/infer"));
    let path = path_of(&parts.model, &infer);
    let mut bytes: Vec<u8> = said.elements.iter().flat_map(|element| element.to_bytes()).collect();
    bytes.truncate(bytes.len() - said.missing);
    let body = json!({
        "id": step.request.to_string(),
        "parameters": said.parameters(step),
        "inputs": said.inputs(parts, bytes.len(), binary),
        "outputs": said.outputs.iter().map(|name| json!({ "name": name, "parameters": { "binary_data": binary } })).collect::<Vec<_>>(),
    });
    let mut body = body.to_string().into_bytes();
    let json_bytes = (binary && said.has_input).then_some(body.len());
    if json_bytes.is_some() {
        body.extend(bytes);
    }
    Encoded { path, json_bytes, body }
}

impl Said {
    fn new(parts: &Parts, step: &Step) -> Self {
        let mut said = Self {
            // A number is as large as it is here; only gRPC has it with a sign.
            id: match &parts.id {
                WireId::Number(number) => number.cast_unsigned().into(),
                WireId::Text(text) => text.as_str().into(),
            },
            version: None,
            input: None,
            datatype: parts.datatype.name(),
            shape: parts.shape.of(step.value.elements()),
            elements: parts.shape.spread(step.value).collect(),
            missing: 0,
            outputs: parts.outputs.clone(),
            has_input: true,
        };
        if let Some(flaw) = step.flaw() {
            said.spoil(flaw);
        }
        said
    }

    fn spoil(&mut self, flaw: Flaw) {
        match flaw {
            Flaw::IdZero => self.id = 0.into(),
            Flaw::IdEmpty => self.id = "".into(),
            Flaw::IdTooLong => self.id = "x".repeat(TOO_LONG).into(),
            Flaw::IdOfOtherType => self.id = true.into(),
            Flaw::OtherOutput => self.outputs.push(NO_SUCH_OUTPUT.to_owned()),
            Flaw::OtherVersion => self.version = Some(NO_SUCH_VERSION),
            Flaw::ShortData => self.missing = 1,
            Flaw::NoInput => self.has_input = false,
            Flaw::BatchOfTwo => {
                self.elements.extend_from_within(..);
                if let Some(batch) = self.shape.first_mut() {
                    *batch = 2;
                }
            }
            Flaw::OtherType => self.datatype = other_type(self.datatype),
            Flaw::OtherShape => self.shape.push(1),
            Flaw::OtherInput => self.input = Some(NO_SUCH_INPUT),
        }
    }

    fn parameters(&self, step: &Step) -> Map<String, Value> {
        let mut parameters = Map::new();
        parameters.insert("sequence_id".to_owned(), self.id.clone());
        parameters.insert("sequence_start".to_owned(), step.start.into());
        parameters.insert("sequence_end".to_owned(), step.end.into());
        if let Some(Special::TimeoutUs(us)) = step.special {
            parameters.insert("timeout".to_owned(), us.into());
        }
        parameters
    }

    fn inputs(&self, parts: &Parts, bytes: usize, binary: bool) -> Vec<Value> {
        if !self.has_input {
            return Vec::new();
        }
        let name = self.input.unwrap_or(&parts.input);
        let mut input = json!({ "name": name, "datatype": self.datatype, "shape": self.shape });
        if binary {
            input["parameters"] = json!({ "binary_data_size": bytes });
        } else {
            // JSON has no parts of an element: one is missing whole.
            let elements = if self.missing > 0 { &[] } else { self.elements.as_slice() };
            input["data"] = elements.iter().map(|element| to_json(*element)).collect();
        }
        vec![input]
    }
}
