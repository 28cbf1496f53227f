//! A step as a request over HTTP.

use std::borrow::Cow;

use hyper::Uri;
use serde::Serialize;
use serde_json::Value;

use super::{
    super::template::{NO_SUCH_INPUT, NO_SUCH_OUTPUT, NO_SUCH_VERSION, Parts, TOO_LONG, other_type, shorten},
    path_of,
    value::to_json,
};
use workload::{
    number::{Datatype, Number},
    sequence::{Flaw, Special, Step, WireId},
};

/// A request, ready to be sent.
#[derive(Debug)]
pub(super) struct Encoded {
    /// In place of where all others go.
    pub(super) elsewhere: Option<Uri>,
    /// How many bytes are JSON, where those of tensors follow.
    pub(super) json_bytes: Option<usize>,
    pub(super) body: Vec<u8>,
}

/// What a request says, with the flaw that it has.
struct Said<'a> {
    id: Id<'a>,
    version: Option<&'static str>,
    input: &'a str,
    datatype: &'static str,
    shape: Cow<'a, [i64]>,
    elements: Vec<Number>,
    /// Bytes are left out.
    is_short: bool,
    other_output: Option<&'static str>,
    has_input: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Id<'a> {
    Number(u64),
    Text(Cow<'a, str>),
    Bool(bool),
}

/// The JSON of a request.
#[derive(Serialize)]
struct Body<'a> {
    id: String,
    parameters: Parameters<'a>,
    inputs: &'a [Input<'a>],
    outputs: Vec<Output<'a>>,
}

#[derive(Serialize)]
struct Parameters<'a> {
    sequence_id: &'a Id<'a>,
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

/// Writes a step down.
pub(super) fn encode(parts: &Parts, step: &Step, binary: bool) -> Encoded {
    let said = Said::new(parts, step);
    let mut bytes = Vec::new();
    if binary && said.has_input {
        said.elements.iter().for_each(|element| element.put(&mut bytes));
        if said.is_short {
            shorten(&mut bytes);
        }
    }
    let input = said.input(bytes.len(), binary);
    let request = Body {
        id: step.request.to_string(),
        parameters: said.parameters(parts, step),
        inputs: if said.has_input { std::slice::from_ref(&input) } else { &[] },
        outputs: said.outputs(parts, binary),
    };
    // A request of one element has somewhat less.
    let mut body = Vec::with_capacity(512 + bytes.len());
    serde_json::to_writer(&mut body, &request).expect("it has nothing that JSON does not have");
    let json_bytes = (binary && said.has_input).then_some(body.len());
    body.extend(bytes);
    let elsewhere = said.version.map(|version| path_of(&parts.model, &format!("/versions/{version}/infer")));
    Encoded { elsewhere, json_bytes, body }
}

impl<'a> Said<'a> {
    fn new(parts: &'a Parts, step: &Step) -> Self {
        let mut said = Self {
            // A number is as large as it is here; only gRPC has it with a sign.
            id: match &parts.id {
                WireId::Number(number) => Id::Number(number.cast_unsigned()),
                WireId::Text(text) => Id::Text(text.as_str().into()),
            },
            version: None,
            input: &parts.input,
            datatype: parts.datatype.name(),
            shape: parts.shape.of(step.value.elements()).into(),
            elements: parts.shape.spread(step.value).collect(),
            is_short: false,
            other_output: None,
            has_input: true,
        };
        if let Some(flaw) = step.flaw() {
            said.spoil(flaw);
        }
        said
    }

    fn spoil(&mut self, flaw: Flaw) {
        match flaw {
            Flaw::IdZero => self.id = Id::Number(0),
            Flaw::IdEmpty => self.id = Id::Text("".into()),
            Flaw::IdTooLong => self.id = Id::Text("x".repeat(TOO_LONG).into()),
            Flaw::IdOfOtherType => self.id = Id::Bool(true),
            Flaw::OtherOutput => self.other_output = Some(NO_SUCH_OUTPUT),
            Flaw::OtherVersion => self.version = Some(NO_SUCH_VERSION),
            Flaw::ShortData => self.is_short = true,
            Flaw::NoInput => self.has_input = false,
            Flaw::BatchOfTwo => {
                self.elements.extend_from_within(..);
                if let Some(batch) = self.shape.to_mut().first_mut() {
                    *batch = 2;
                }
            }
            Flaw::OtherType => {
                self.datatype = other_type(self.datatype);
                // In JSON they are read before their type is compared.
                let other = Datatype::named(self.datatype).expect("it is one that can be added up");
                self.elements.iter_mut().for_each(|element| *element = other.number(element.value()));
            }
            Flaw::OtherShape => self.shape.to_mut().push(1),
            Flaw::OtherInput => self.input = NO_SUCH_INPUT,
        }
    }

    fn parameters(&self, parts: &Parts, step: &Step) -> Parameters<'_> {
        let timeout = match step.special {
            Some(Special::TimeoutUs(us)) => Some(us),
            _ => None,
        };
        Parameters { sequence_id: &self.id, sequence_start: step.start, sequence_end: parts.ends(step), timeout }
    }

    fn input(&self, bytes: usize, binary: bool) -> Input<'_> {
        // JSON has no parts of an element: one is missing whole.
        let elements = if self.is_short { &[] } else { self.elements.as_slice() };
        Input {
            name: self.input,
            datatype: self.datatype,
            shape: &self.shape,
            parameters: binary.then_some(OfInput { binary_data_size: bytes }),
            data: (!binary).then(|| elements.iter().map(|element| to_json(*element)).collect()),
        }
    }

    fn outputs(&self, parts: &'a Parts, binary: bool) -> Vec<Output<'a>> {
        let names = parts.outputs.iter().map(String::as_str).chain(self.other_output);
        names.map(|name| Output { name, parameters: OfOutput { binary_data: binary } }).collect()
    }
}
