//! What a context's requests have in common, and what a step adds.
//!
//! All requests of a context are alike but for four fields, and a protobuf message is the concatenation of its fields in
//! any order. So the fields that stay are encoded once, by the generated code, and each request adds the four. Contexts differ in one
//! more field, the correlation ID: thousands of them share the others.

use std::{borrow::Cow, num::NonZeroU16, sync::Arc};

use hyper::Uri;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use prost::{
    Message as _,
    bytes::BufMut,
    encoding::{encode_varint, encoded_len_varint},
};
use serde_json::value::RawValue;

use super::http;
use crate::proto::{
    InferParameter, ModelInferRequest, infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
    model_infer_request::InferRequestedOutputTensor,
};
use workload::{
    answers::Answers,
    inputs::{ElementType, InputSet, InputTensor},
    model::Model,
    number::Datatype,
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

/// What all requests of a context have in common.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    pub(super) parts: Arc<Parts>,
    id: Id,
    /// The IDs of the worker's contexts, where a stream may carry steps of several.
    others: Arc<[Id]>,
}

/// A correlation ID.
#[derive(Clone, Debug)]
struct Id {
    id: WireId,
    /// The parameter with it, encoded.
    encoded: Arc<[u8]>,
}

impl Id {
    fn new(id: WireId) -> Self {
        let parameters = [parameter("sequence_id", id.clone().into())].into();
        let encoded = ModelInferRequest { parameters, ..Default::default() }.encode_to_vec().into();
        Self { id, encoded }
    }
}

/// An input's name, and with its type as a request has it.
#[derive(Clone, Debug)]
struct Head {
    name: String,
    encoded: Vec<u8>,
}

impl Head {
    fn of(name: &str, datatype: &str) -> Self {
        let input = InferInputTensor { name: name.to_owned(), datatype: datatype.to_owned(), ..Default::default() };
        Self { name: name.to_owned(), encoded: input.encode_to_vec() }
    }
}

/// What all requests to a model have in common.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) model: String,
    values: Values,
    pub(super) outputs: Vec<String>,
    /// How often the model answers.
    pub(super) answers: Answers,
    /// What is the same in each gRPC request, encoded.
    same: Vec<u8>,
    flags: [Vec<u8>; 4],
    /// The inputs without their shapes, where those are each step's own; else they are in `same`.
    heads: Vec<Head>,
    /// Where HTTP requests go.
    pub(super) place: Uri,
    /// The outputs as HTTP requests ask for them: in JSON, and as bytes behind it.
    pub(super) asked_for: [Box<RawValue>; 2],
}

/// What steps' values are on the wire.
#[derive(Clone, Debug)]
enum Values {
    /// Numbers, each spread over the elements of one input.
    Numbers { input: String, datatype: Datatype, shape: Shape },
    /// The codes of inputs.
    Inputs(Arc<InputSet>),
}

impl Parts {
    /// Whether a step carries END: what ends by itself would end too early if it were told to.
    pub(super) fn ends(&self, step: &Step) -> bool {
        step.end && !self.answers.are_iterative()
    }

    /// What the request that a step is says, but for its flaw.
    fn said(&self, id: &WireId, step: &Step) -> Said<'_> {
        let inputs = match &self.values {
            Values::Numbers { input, datatype, shape } => {
                let mut data = Vec::new();
                shape.spread(step.value).for_each(|part| part.put(&mut data));
                let datatype = ElementType::named(datatype.name()).expect("the protocol has every number's type");
                vec![InputTensor { name: input.clone(), datatype, shape: shape.of(step.value.elements()), data }].into()
            }
            Values::Inputs(inputs) => inputs.tensors(step.value.value()).unwrap_or_default().into(),
        };
        Said { id: id.clone().into(), version: None, inputs, is_short: false, other_output: None }
    }

    fn flags(&self, step: &Step) -> &[u8] {
        &self.flags[usize::from(step.start) * 2 + usize::from(self.ends(step))]
    }
}

/// What a request says, with the flaw that it has.
pub(super) struct Said<'p> {
    pub(super) id: ParameterChoice,
    pub(super) version: Option<&'static str>,
    pub(super) inputs: Cow<'p, [InputTensor]>,
    /// Bytes of the first input are left out.
    pub(super) is_short: bool,
    pub(super) other_output: Option<&'static str>,
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
            _ => {
                self.is_short = flaw == Flaw::ShortData;
                spoil(self.inputs.to_mut(), flaw);
            }
        }
    }
}

/// Gives inputs the flaw that a step has, where it is one of theirs.
pub fn spoil(inputs: &mut Vec<InputTensor>, flaw: Flaw) {
    let Some(first) = inputs.first_mut() else { return };
    match flaw {
        // Fewer bytes than an element has; of a text not even its length.
        Flaw::ShortData => first.data.truncate(3.min(first.data.len().saturating_sub(1))),
        Flaw::NoInput => inputs.clear(),
        Flaw::BatchOfTwo => {
            for input in inputs {
                input.data.extend_from_within(..);
                if let Some(batch) = input.shape.first_mut() {
                    *batch = 2;
                }
            }
        }
        Flaw::OtherType => first.datatype = other_type(first.datatype),
        Flaw::OtherShape => first.shape.push(1),
        Flaw::OtherInput => "NO_SUCH_INPUT".clone_into(&mut first.name),
        Flaw::IdZero
        | Flaw::IdEmpty
        | Flaw::IdTooLong
        | Flaw::IdOfOtherType
        | Flaw::OtherOutput
        | Flaw::OtherVersion => {}
    }
}

/// Another type, with as many bytes to an element where there is one.
fn other_type(datatype: ElementType) -> ElementType {
    let other = Datatype::named(datatype.name()).and_then(|number| ElementType::named(number.other()));
    other.unwrap_or(if datatype == ElementType::Bool { ElementType::Int8 } else { ElementType::Int16 })
}

impl RequestTemplate {
    /// The template of requests to a model, for the outputs that it is asked for.
    pub fn of(model: &Model, id: WireId) -> Self {
        let ((input, datatype), outputs) = (model.input(), model.outputs());
        let (shape, answers) = (&model.shape, model.arithmetic.answers);
        let version = model.asked_version.map(|version| version.to_string()).unwrap_or_default();
        let mut parameters = Vec::new();
        if answers.are_series() && model.asks_for_the_last() {
            parameters.push(parameter(EMPTY_FINAL, ParameterChoice::BoolParam(true)));
        }
        let values = match &model.tensors {
            Some(tensors) => Values::Inputs(Arc::clone(&tensors.sent.inputs)),
            None => Values::Numbers { input: input.to_owned(), datatype, shape: shape.clone() },
        };
        let (heads, inputs) = match &values {
            Values::Inputs(inputs) => (heads(inputs), Vec::new()),
            Values::Numbers { .. } if shape.is_open() => (vec![Head::of(input, datatype.name())], Vec::new()),
            Values::Numbers { .. } => {
                let (name, datatype, shape) = (input.to_owned(), datatype.name().to_owned(), shape.of(NonZeroU16::MIN));
                (Vec::new(), vec![InferInputTensor { name, datatype, shape, ..Default::default() }])
            }
        };
        let same = ModelInferRequest {
            model_name: model.name.clone(),
            model_version: version.clone(),
            inputs,
            outputs: outputs.iter().copied().map(requested).collect(),
            parameters: parameters.into_iter().collect(),
            ..Default::default()
        };
        let same = same.encode_to_vec();
        let flags = [(false, false), (false, true), (true, false), (true, true)].map(|(start, end)| {
            let start = parameter("sequence_start", ParameterChoice::BoolParam(start));
            let end = parameter("sequence_end", ParameterChoice::BoolParam(end));
            ModelInferRequest { parameters: [start, end].into(), ..Default::default() }.encode_to_vec()
        });
        let parts = Parts {
            model: model.name.clone(),
            asked_for: [false, true].map(|binary| http::asked_for(outputs.iter().copied(), binary)),
            outputs: outputs.into_iter().map(ToOwned::to_owned).collect(),
            values,
            answers,
            same,
            flags,
            heads,
            place: http::path_of_version(&model.name, &version, "/infer"),
        };
        Self { parts: Arc::new(parts), id: Id::new(id), others: Arc::default() }
    }

    /// The template of requests to the same model with another correlation ID.
    #[must_use]
    pub fn with_id(&self, id: WireId) -> Self {
        Self { parts: Arc::clone(&self.parts), id: Id::new(id), others: Arc::clone(&self.others) }
    }

    /// The same templates where a step has the ID of the template that its context is the number of.
    #[must_use]
    pub fn with_each_other(templates: Vec<Self>) -> Vec<Self> {
        let others: Arc<[Id]> = templates.iter().map(|template| template.id.clone()).collect();
        templates.into_iter().map(|template| Self { others: Arc::clone(&others), ..template }).collect()
    }

    /// The correlation ID of a step.
    fn id_of(&self, step: &Step) -> &Id {
        self.others.get(step.request.context as usize).unwrap_or(&self.id)
    }

    /// The correlation ID as a header has it: a number in decimal; of a text what a URL does not have as it is stands there as `%` and two
    /// digits, so that no two texts are the same.
    pub(super) fn id_in_a_header(&self) -> String {
        match &self.id.id {
            WireId::Number(number) => number.cast_unsigned().to_string(),
            WireId::Text(text) => utf8_percent_encode(text, NON_ALPHANUMERIC).to_string(),
        }
    }

    /// What the request that a step is says.
    pub(super) fn said(&self, step: &Step) -> Said<'_> {
        let mut said = self.parts.said(&self.id_of(step).id, step);
        if let Some(flaw) = step.flaw() {
            said.spoil(flaw);
        }
        said
    }

    /// The request that a step with a flaw is; seldom enough to be put together from what is encoded.
    pub fn flawed(&self, step: &Step, id: &str) -> ModelInferRequest {
        let said = self.said(step);
        let same = [&*self.parts.same, self.parts.flags(step)].concat();
        let mut request = ModelInferRequest::decode(same.as_slice()).expect("it was encoded here");
        id.clone_into(&mut request.id);
        if let Some(version) = said.version {
            version.clone_into(&mut request.model_version);
        }
        request.outputs.extend(said.other_output.map(requested));
        request.inputs.clear();
        for InputTensor { name, datatype, shape, data } in said.inputs.into_owned() {
            request.raw_input_contents.push(data);
            let datatype = datatype.name().to_owned();
            request.inputs.push(InferInputTensor { name, datatype, shape, ..Default::default() });
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
        buffer.put_slice(&self.parts.same);
        buffer.put_slice(&self.id_of(step).encoded);
        buffer.put_slice(self.parts.flags(step));
        put_field(buffer, ID_TAG, id.as_bytes());
        match &self.parts.values {
            Values::Numbers { shape, .. } => {
                if let Some(head) = self.parts.heads.first() {
                    head.put(&shape.of(step.value.elements()), buffer);
                }
                raw.clear();
                shape.spread(step.value).for_each(|part| part.put(raw));
                put_field(buffer, RAW_INPUT_CONTENTS_TAG, raw);
            }
            Values::Inputs(inputs) => {
                for tensor in inputs.tensors(step.value.value()).unwrap_or_default() {
                    if let Some(head) = self.parts.heads.iter().find(|head| head.name == tensor.name) {
                        head.put(&tensor.shape, buffer);
                        put_field(buffer, RAW_INPUT_CONTENTS_TAG, &tensor.data);
                    }
                }
            }
        }
    }
}

impl Head {
    /// Puts the input with this shape.
    fn put(&self, shape: &[i64], buffer: &mut impl BufMut) {
        let mut sizes = Vec::new();
        for size in shape {
            encode_varint(size.cast_unsigned(), &mut sizes);
        }
        let length = self.encoded.len() + 1 + encoded_len_varint(sizes.len() as u64) + sizes.len();
        buffer.put_u8(INPUTS_TAG);
        encode_varint(length as u64, buffer);
        buffer.put_slice(&self.encoded);
        put_field(buffer, SHAPE_TAG, &sizes);
    }
}

/// All inputs that steps have.
fn heads(inputs: &InputSet) -> Vec<Head> {
    let codes = inputs.tracks().iter().flat_map(|track| &track.codes);
    let tensors = codes.flat_map(|code| inputs.tensors(*code).unwrap_or_default());
    tensors.fold(Vec::new(), |mut heads: Vec<Head>, tensor| {
        if heads.iter().all(|head| head.name != tensor.name) {
            heads.push(Head::of(&tensor.name, tensor.datatype.name()));
        }
        heads
    })
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
