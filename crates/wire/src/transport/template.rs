//! What a context's requests have in common, and what a step adds.
//!
//! All requests of a context are alike but for four fields, and a protobuf message is the concatenation of its fields in
//! any order. So the fields that stay are encoded once, by the generated code, and each request adds the four.

use std::{num::NonZeroU16, sync::Arc};

use prost::{
    Message as _,
    bytes::BufMut,
    encoding::{encode_varint, encoded_len_varint},
};

use crate::proto::{
    InferParameter, ModelInferRequest, infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
    model_infer_request::InferRequestedOutputTensor,
};
use workload::{
    answers::Answers,
    model::Model,
    number::{Datatype, Number},
    sequence::{Flaw, Special, Step, WireId},
    tensor::Shape,
};

/// `ModelInferRequest.id` and `.raw_input_contents`, both length-delimited.
const ID_TAG: u8 = (3 << 3) | 2;
const RAW_INPUT_CONTENTS_TAG: u8 = (7 << 3) | 2;
/// `ModelInferRequest.inputs` and, in one of them, `.shape`, likewise.
const INPUTS_TAG: u8 = (5 << 3) | 2;
const SHAPE_TAG: u8 = (3 << 3) | 2;

/// The parameter of a request that asks for a last response even where there is nothing in it.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// What all requests of a context have in common, encoded.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    same: Arc<[u8]>,
    flags: Arc<[Vec<u8>; 4]>,
    /// The input without its shape, where that is each step's own; else it is in `same`.
    input: Option<Arc<[u8]>>,
    /// The same as a request over HTTP has it.
    pub(super) parts: Arc<Parts>,
}

/// What all requests of a context have in common.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) model: String,
    pub(super) input: String,
    pub(super) datatype: Datatype,
    pub(super) shape: Shape,
    pub(super) outputs: Vec<String>,
    pub(super) id: WireId,
    /// How often the model answers.
    pub(super) answers: Answers,
}

impl Parts {
    /// Whether a step carries END: what ends by itself would end too early if it were told to.
    pub(super) fn ends(&self, step: &Step) -> bool {
        step.end && !self.answers.are_iterative()
    }

    /// What the request that a step is says.
    pub(super) fn said(&self, step: &Step) -> Said<'_> {
        let mut said = Said {
            id: self.id.clone().into(),
            version: None,
            input: &self.input,
            datatype: self.datatype.name(),
            shape: self.shape.of(step.value.elements()),
            elements: self.shape.spread(step.value).collect(),
            is_short: false,
            other_output: None,
            has_input: true,
        };
        if let Some(flaw) = step.flaw() {
            said.spoil(flaw);
        }
        said
    }
}

/// What a request says, with the flaw that it has.
pub(super) struct Said<'a> {
    pub(super) id: ParameterChoice,
    pub(super) version: Option<&'static str>,
    pub(super) input: &'a str,
    pub(super) datatype: &'static str,
    pub(super) shape: Vec<i64>,
    pub(super) elements: Vec<Number>,
    /// Bytes are left out.
    pub(super) is_short: bool,
    pub(super) other_output: Option<&'static str>,
    pub(super) has_input: bool,
}

impl Said<'_> {
    fn spoil(&mut self, flaw: Flaw) {
        match flaw {
            Flaw::IdZero => self.id = ParameterChoice::Int64Param(0),
            Flaw::IdEmpty => self.id = ParameterChoice::StringParam(String::new()),
            Flaw::IdTooLong => self.id = ParameterChoice::StringParam("x".repeat(TOO_LONG)),
            Flaw::IdOfOtherType => self.id = ParameterChoice::BoolParam(true),
            Flaw::OtherOutput => self.other_output = Some("NO_SUCH_OUTPUT"),
            Flaw::OtherVersion => self.version = Some("999"),
            Flaw::ShortData => self.is_short = true,
            Flaw::NoInput => self.has_input = false,
            Flaw::BatchOfTwo => {
                self.elements.extend_from_within(..);
                if let Some(batch) = self.shape.first_mut() {
                    *batch = 2;
                }
            }
            Flaw::OtherType => self.datatype = Datatype::named(self.datatype).map_or("FP32", Datatype::other),
            Flaw::OtherShape => self.shape.push(1),
            Flaw::OtherInput => self.input = "NO_SUCH_INPUT",
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.elements.iter().for_each(|element| element.put(&mut bytes));
        if self.is_short {
            // Fewer bytes than an element has; of a text not even its length.
            bytes.truncate(3.min(bytes.len().saturating_sub(1)));
        }
        bytes
    }
}

impl RequestTemplate {
    /// The template of requests to a model, for the outputs that it is asked for.
    pub fn of(model: &Model, id: WireId) -> Self {
        let ((input, datatype), outputs) = (model.input(), model.outputs());
        let (shape, answers) = (model.shape.clone(), model.arithmetic.answers);
        let mut parameters = vec![parameter("sequence_id", id.clone().into())];
        if answers.are_series() && model.asks_for_the_last() {
            parameters.push(parameter(EMPTY_FINAL, ParameterChoice::BoolParam(true)));
        }
        let parts = Parts {
            model: model.name.clone(),
            input: input.to_owned(),
            datatype,
            shape: shape.clone(),
            outputs: outputs.iter().map(ToString::to_string).collect(),
            id,
            answers,
        };
        let input =
            InferInputTensor { name: input.to_owned(), datatype: datatype.name().to_owned(), ..Default::default() };
        let (input, inputs) = if shape.is_open() {
            (Some(input.encode_to_vec().into()), Vec::new())
        } else {
            (None, vec![InferInputTensor { shape: shape.of(NonZeroU16::MIN), ..input }])
        };
        let same = ModelInferRequest {
            model_name: model.name.clone(),
            inputs,
            outputs: outputs.into_iter().map(requested).collect(),
            parameters: parameters.into_iter().collect(),
            ..Default::default()
        };
        let flags = [(false, false), (false, true), (true, false), (true, true)].map(|(start, end)| {
            let start = parameter("sequence_start", ParameterChoice::BoolParam(start));
            let end = parameter("sequence_end", ParameterChoice::BoolParam(end));
            ModelInferRequest { parameters: [start, end].into(), ..Default::default() }.encode_to_vec()
        });
        let (same, flags) = (same.encode_to_vec().into(), Arc::new(flags));
        Self { same, flags, input, parts: Arc::new(parts) }
    }

    /// The request that a step with a flaw is; seldom enough to be put together from what is encoded.
    fn flawed(&self, step: &Step, id: &str) -> ModelInferRequest {
        let said = self.parts.said(step);
        let same = [&*self.same, self.flags(step)].concat();
        let mut request = ModelInferRequest::decode(same.as_slice()).expect("it was encoded here");
        id.clone_into(&mut request.id);
        said.version.unwrap_or_default().clone_into(&mut request.model_version);
        request.outputs.extend(said.other_output.map(requested));
        request.inputs.clear();
        if said.has_input {
            request.raw_input_contents.push(said.bytes());
            let (name, datatype) = (said.input.to_owned(), said.datatype.to_owned());
            request.inputs.push(InferInputTensor { name, datatype, shape: said.shape, ..Default::default() });
        }
        request.parameters.extend([parameter("sequence_id", said.id)]);
        request
    }

    /// Puts the request that a step is, of this name; `raw` is room for its elements.
    pub(super) fn put(&self, step: &Step, id: &str, raw: &mut Vec<u8>, buffer: &mut impl BufMut) {
        if step.flaw().is_some() {
            buffer.put_slice(&self.flawed(step, id).encode_to_vec());
            return;
        }
        if let Some(Special::TimeoutUs(us)) = step.special {
            let us = i64::try_from(us).unwrap_or(i64::MAX);
            let timeout = [parameter("timeout", ParameterChoice::Int64Param(us))].into();
            buffer.put_slice(&ModelInferRequest { parameters: timeout, ..Default::default() }.encode_to_vec());
        }
        buffer.put_slice(&self.same);
        buffer.put_slice(self.flags(step));
        self.put_input(step, buffer);
        put_field(buffer, ID_TAG, id.as_bytes());
        raw.clear();
        self.parts.shape.spread(step.value).for_each(|part| part.put(raw));
        put_field(buffer, RAW_INPUT_CONTENTS_TAG, raw);
    }

    /// Puts the input, where its shape is the step's own.
    fn put_input(&self, step: &Step, buffer: &mut impl BufMut) {
        let Some(input) = &self.input else { return };
        let mut shape = Vec::new();
        for size in self.parts.shape.of(step.value.elements()) {
            encode_varint(size.cast_unsigned(), &mut shape);
        }
        let length = input.len() + 1 + encoded_len_varint(shape.len() as u64) + shape.len();
        buffer.put_u8(INPUTS_TAG);
        encode_varint(length as u64, buffer);
        buffer.put_slice(input);
        put_field(buffer, SHAPE_TAG, &shape);
    }

    fn flags(&self, step: &Step) -> &[u8] {
        &self.flags[usize::from(step.start) * 2 + usize::from(self.parts.ends(step))]
    }
}

impl From<WireId> for ParameterChoice {
    fn from(id: WireId) -> Self {
        match id {
            WireId::Number(number) => Self::Int64Param(number),
            WireId::Text(text) => Self::StringParam(text),
        }
    }
}

/// The fewest bytes of a text that is too long for a correlation ID.
const TOO_LONG: usize = 129;

fn requested(output: &str) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor { name: output.to_owned(), ..Default::default() }
}

pub(super) fn parameter(name: &str, choice: ParameterChoice) -> (String, InferParameter) {
    (name.to_owned(), InferParameter { parameter_choice: Some(choice) })
}

/// Puts a length-delimited field.
fn put_field(buffer: &mut impl BufMut, tag: u8, bytes: &[u8]) {
    buffer.put_u8(tag);
    encode_varint(bytes.len() as u64, buffer);
    buffer.put_slice(bytes);
}
