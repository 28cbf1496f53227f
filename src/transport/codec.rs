//! Steps as protobuf, and protobuf as what was received.
//!
//! All requests of a context are alike but for four fields, and a protobuf message is the concatenation of its fields in
//! any order. So the fields that stay are encoded once, by the generated code, and each request adds the four.

use std::{fmt::Write as _, num::NonZeroU16, sync::Arc};

use prost::{
    Message as _,
    bytes::BufMut,
    encoding::{encode_varint, encoded_len_varint},
};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::{
    answers::Answers,
    event::{Received, Response, Series},
    number::Datatype,
    proto::{
        InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
        infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
        model_infer_request::InferRequestedOutputTensor,
    },
    sequence::{Flaw, Special, Step, WireId},
    tensor::{Shape, Tensor, TensorData},
};

/// Small, because a stream carries small messages and every stream has buffers of its own.
fn buffers() -> BufferSettings {
    BufferSettings::new(1024, 16 * 1024)
}

/// `ModelInferRequest.id` and `.raw_input_contents`, both length-delimited.
const ID_TAG: u8 = (3 << 3) | 2;
const RAW_INPUT_CONTENTS_TAG: u8 = (7 << 3) | 2;
/// `ModelInferRequest.inputs` and, in one of them, `.shape`, likewise.
const INPUTS_TAG: u8 = (5 << 3) | 2;
const SHAPE_TAG: u8 = (3 << 3) | 2;

/// The parameter of a response that says whether it is the last one to its request.
const FINAL: &str = "triton_final_response";
/// The parameter of a request that asks for a last response even where there is nothing in it.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// A message that a stream brings.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) received: Received,
    /// Whether it is the last one to its request, where it says that.
    pub(super) is_last: Option<bool>,
}

/// What all requests of a context have in common, encoded.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    same: Arc<[u8]>,
    flags: Arc<[Vec<u8>; 4]>,
    /// The input without its shape, where that is each step's own; else it is in `same`.
    input: Option<Arc<[u8]>>,
    /// How often the model answers.
    pub(super) answers: Answers,
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
}

impl RequestTemplate {
    /// The template of requests for the sum over `input`, of this type and shape, answered in `outputs`.
    #[must_use]
    pub fn new(model: &str, (input, datatype): (&str, Datatype), shape: &Shape, outputs: &[&str], id: WireId) -> Self {
        let parts = Parts {
            model: model.to_owned(),
            input: input.to_owned(),
            datatype,
            shape: shape.clone(),
            outputs: outputs.iter().map(ToString::to_string).collect(),
            id: id.clone(),
        };
        let input =
            InferInputTensor { name: input.to_owned(), datatype: datatype.name().to_owned(), ..Default::default() };
        let (input, inputs) = if shape.is_open() {
            (Some(input.encode_to_vec().into()), Vec::new())
        } else {
            (None, vec![InferInputTensor { shape: shape.of(NonZeroU16::MIN), ..input }])
        };
        let same = ModelInferRequest {
            model_name: model.to_owned(),
            inputs,
            outputs: outputs.iter().copied().map(requested).collect(),
            parameters: [parameter("sequence_id", id.into())].into(),
            ..Default::default()
        };
        let flags = [(false, false), (false, true), (true, false), (true, true)].map(|(start, end)| {
            let start = parameter("sequence_start", ParameterChoice::BoolParam(start));
            let end = parameter("sequence_end", ParameterChoice::BoolParam(end));
            ModelInferRequest { parameters: [start, end].into(), ..Default::default() }.encode_to_vec()
        });
        let (same, flags) = (same.encode_to_vec().into(), Arc::new(flags));
        Self { same, flags, input, answers: Answers::One, parts: Arc::new(parts) }
    }

    /// The same for a model that answers so often, and is asked for a last response even where there is nothing in it.
    #[must_use]
    pub fn answered(self, answers: Answers, asks_for_the_last: bool) -> Self {
        let mut same = self.same.to_vec();
        if answers.are_series() && asks_for_the_last {
            let wanted = [parameter(EMPTY_FINAL, ParameterChoice::BoolParam(true))].into();
            same.extend(ModelInferRequest { parameters: wanted, ..Default::default() }.encode_to_vec());
        }
        Self { same: same.into(), answers, ..self }
    }

    /// The request that a step with a flaw is; seldom enough to be put together from what is encoded.
    fn flawed(&self, step: &Step, flaw: Flaw, id: String) -> ModelInferRequest {
        let mut bytes = self.same.to_vec();
        bytes.extend_from_slice(self.flags(step));
        self.put_input(step, &mut bytes);
        let mut request = ModelInferRequest::decode(bytes.as_slice()).expect("it was encoded here");
        request.id = id;
        let mut raw = Vec::new();
        self.parts.shape.spread(step.value).for_each(|part| part.put(&mut raw));
        request.raw_input_contents = vec![raw];
        request.spoil(flaw);
        request
    }

    /// Puts the input, where its shape is the step's own.
    fn put_input(&self, step: &Step, buffer: &mut impl BufMut) {
        let Some(input) = &self.input else { return };
        let mut shape = Vec::new();
        self.parts
            .shape
            .of(step.value.elements())
            .into_iter()
            .for_each(|size| encode_varint(size.cast_unsigned(), &mut shape));
        let length = input.len() + 1 + encoded_len_varint(shape.len() as u64) + shape.len();
        buffer.put_u8(INPUTS_TAG);
        encode_varint(length as u64, buffer);
        buffer.put_slice(input);
        put_field(buffer, SHAPE_TAG, &shape);
    }

    fn flags(&self, step: &Step) -> &[u8] {
        // What ends by itself would end too early if it were told to.
        let end = step.end && !self.answers.are_iterative();
        &self.flags[usize::from(step.start) * 2 + usize::from(end)]
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
pub(super) const TOO_LONG: usize = 129;
/// Names of what there is not.
pub(super) const NO_SUCH_INPUT: &str = "NO_SUCH_INPUT";
pub(super) const NO_SUCH_OUTPUT: &str = "NO_SUCH_OUTPUT";
pub(super) const NO_SUCH_VERSION: &str = "999";

impl ModelInferRequest {
    /// Gives a request that is right a flaw.
    fn spoil(&mut self, flaw: Flaw) {
        let mut id = |choice| self.parameters.extend([parameter("sequence_id", choice)]);
        match flaw {
            Flaw::IdZero => id(ParameterChoice::Int64Param(0)),
            Flaw::IdEmpty => id(ParameterChoice::StringParam(String::new())),
            Flaw::IdTooLong => id(ParameterChoice::StringParam("x".repeat(TOO_LONG))),
            Flaw::IdOfOtherType => id(ParameterChoice::BoolParam(true)),
            Flaw::OtherOutput => self.outputs.push(requested(NO_SUCH_OUTPUT)),
            Flaw::OtherVersion => NO_SUCH_VERSION.clone_into(&mut self.model_version),
            Flaw::ShortData => self.raw_input_contents.iter_mut().for_each(|bytes| bytes.truncate(3)),
            Flaw::NoInput => {
                self.inputs.clear();
                self.raw_input_contents.clear();
            }
            Flaw::BatchOfTwo => {
                self.raw_input_contents.iter_mut().for_each(|bytes| bytes.extend_from_within(..));
                self.inputs.iter_mut().filter_map(|input| input.shape.first_mut()).for_each(|batch| *batch = 2);
            }
            Flaw::OtherType => {
                self.inputs.iter_mut().for_each(|input| other_type(&input.datatype).clone_into(&mut input.datatype));
            }
            Flaw::OtherShape => self.inputs.iter_mut().for_each(|input| input.shape.push(1)),
            Flaw::OtherInput => self.inputs.iter_mut().for_each(|input| NO_SUCH_INPUT.clone_into(&mut input.name)),
        }
    }
}

/// Another type, with as many bytes to an element where there is one.
pub(super) fn other_type(datatype: &str) -> &'static str {
    match datatype {
        "FP32" => "INT32",
        "FP64" => "INT64",
        "INT64" | "UINT64" => "FP64",
        _ => "FP32",
    }
}

fn requested(output: &str) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor { name: output.to_owned(), ..Default::default() }
}

fn parameter(name: &str, choice: ParameterChoice) -> (String, InferParameter) {
    (name.to_owned(), InferParameter { parameter_choice: Some(choice) })
}

/// The codec of one context's streams.
#[derive(Clone, Debug)]
pub(super) struct StepCodec {
    template: RequestTemplate,
    /// Whether answers come alone, and not as messages of a stream.
    alone: bool,
}

impl StepCodec {
    pub(super) fn of_streams(template: RequestTemplate) -> Self {
        Self { template, alone: false }
    }

    pub(super) fn of_calls(template: RequestTemplate) -> Self {
        Self { template, alone: true }
    }
}

impl Codec for StepCodec {
    type Encode = Step;
    type Decode = Piece;
    type Encoder = StepEncoder;
    type Decoder = ReceivedDecoder;

    fn encoder(&mut self) -> StepEncoder {
        StepEncoder { template: self.template.clone(), id: String::new(), raw: Vec::new() }
    }

    fn decoder(&mut self) -> ReceivedDecoder {
        ReceivedDecoder { alone: self.alone }
    }
}

#[derive(Debug)]
pub(super) struct StepEncoder {
    template: RequestTemplate,
    id: String,
    raw: Vec<u8>,
}

impl StepEncoder {
    fn put(&mut self, step: &Step, buffer: &mut impl BufMut) {
        self.id.clear();
        write!(self.id, "{}", step.request).expect("writing to a String does not fail");
        if let Some(Special::Flaw(flaw)) = step.special {
            let request = self.template.flawed(step, flaw, self.id.clone());
            buffer.put_slice(&request.encode_to_vec());
            return;
        }
        if let Some(Special::TimeoutUs(us)) = step.special {
            let us = i64::try_from(us).unwrap_or(i64::MAX);
            let timeout = [parameter("timeout", ParameterChoice::Int64Param(us))].into();
            buffer.put_slice(&ModelInferRequest { parameters: timeout, ..Default::default() }.encode_to_vec());
        }
        buffer.put_slice(&self.template.same);
        buffer.put_slice(self.template.flags(step));
        self.template.put_input(step, buffer);
        put_field(buffer, ID_TAG, self.id.as_bytes());
        self.raw.clear();
        self.template.parts.shape.spread(step.value).for_each(|part| part.put(&mut self.raw));
        put_field(buffer, RAW_INPUT_CONTENTS_TAG, &self.raw);
    }
}

/// Puts a length-delimited field.
fn put_field(buffer: &mut impl BufMut, tag: u8, bytes: &[u8]) {
    buffer.put_u8(tag);
    encode_varint(bytes.len() as u64, buffer);
    buffer.put_slice(bytes);
}

impl Encoder for StepEncoder {
    type Item = Step;
    type Error = Status;

    fn encode(&mut self, step: Step, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        self.put(&step, buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

#[derive(Debug)]
pub(super) struct ReceivedDecoder {
    alone: bool,
}

impl Decoder for ReceivedDecoder {
    type Item = Piece;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Piece>, Status> {
        let (name, decoded) = if self.alone {
            ("ModelInferResponse", ModelInferResponse::decode(buffer).map(answered))
        } else {
            ("ModelStreamInferResponse", ModelStreamInferResponse::decode(buffer).map(received))
        };
        decoded
            .map(Some)
            .map_err(|error| Status::from_error(format!("a message that is no {name} came: {error}").into()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

fn received(message: ModelStreamInferResponse) -> Piece {
    let response = message.infer_response.unwrap_or_default();
    if message.error_message.is_empty() {
        answered(response)
    } else {
        let received = Received { id: response.id, result: Err(message.error_message), code: None };
        Piece { received, is_last: None }
    }
}

fn answered(response: ModelInferResponse) -> Piece {
    let ModelInferResponse { model_name, id, outputs, raw_output_contents, parameters, .. } = response;
    let mark = parameters.get(FINAL).and_then(|mark| mark.parameter_choice.as_ref());
    let is_last = mark.map(|mark| *mark == ParameterChoice::BoolParam(true));
    let mut raw = raw_output_contents.into_iter();
    let mut outputs: Vec<_> = outputs
        .into_iter()
        .map(|output| {
            let data = match (raw.next(), output.contents) {
                (Some(bytes), None) => TensorData::Raw(bytes),
                (None, Some(contents)) => typed(&output.datatype, contents),
                // None at all, or two that may contradict each other.
                (None, None) | (Some(_), Some(_)) => TensorData::Absent,
            };
            Tensor { name: output.name, datatype: output.datatype, shape: output.shape, data }
        })
        .collect();
    // Bytes that belong to no output are one output too many.
    outputs.extend(raw.map(|bytes| Tensor { data: TensorData::Raw(bytes), ..Tensor::default() }));
    let response = Response { model: model_name, outputs, series: Series::default() };
    Piece { received: Received { id, result: Ok(response), code: None }, is_last }
}

/// The elements that came in the protocol's own lists; the type says in which list they have to be.
fn typed(datatype: &str, contents: InferTensorContents) -> TensorData {
    fn raw<T, const N: usize>(elements: &[T], bytes: impl Fn(&T) -> [u8; N]) -> TensorData {
        if elements.is_empty() {
            TensorData::Absent
        } else {
            TensorData::Raw(elements.iter().flat_map(bytes).collect())
        }
    }
    match datatype {
        "INT64" => raw(&contents.int64_contents, |element| element.to_le_bytes()),
        "UINT32" => raw(&contents.uint_contents, |element| element.to_le_bytes()),
        "UINT64" => raw(&contents.uint64_contents, |element| element.to_le_bytes()),
        "FP32" => raw(&contents.fp32_contents, |element| element.to_le_bytes()),
        "FP64" => raw(&contents.fp64_contents, |element| element.to_le_bytes()),
        "BYTES" if !contents.bytes_contents.is_empty() => {
            let length = |text: &[u8]| u32::try_from(text.len()).expect("a message is smaller").to_le_bytes();
            let element = |text: &Vec<u8>| [&length(text)[..], text].concat();
            TensorData::Raw(contents.bytes_contents.iter().flat_map(element).collect())
        }
        "BYTES" => TensorData::Absent,
        _ => TensorData::Int32(contents.int_contents),
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU16, NonZeroU64};

    use super::*;
    use crate::{
        number::Number,
        sequence::{CorrelationId, IdForm, Pattern, RequestId},
    };

    #[test]
    fn an_encoded_step_is_the_request_that_the_generated_code_reads() {
        let id = CorrelationId(NonZeroU64::new(u64::MAX - 1).expect("not zero"));
        let template = RequestTemplate::new(
            "a_model",
            ("INPUT", Datatype::Int32),
            &vec![1, 1].into(),
            &["OUTPUT", "SEEN"],
            id.on_the_wire(IdForm::Integer),
        );
        let mut encoder = StepCodec::of_streams(template).encoder();
        for (start, end) in [(true, false), (false, false), (false, true), (true, true)] {
            let request = RequestId { worker: u32::MAX, context: u32::MAX, sequence: u32::MAX, step: u32::MAX };
            let step = Step { request, pattern: Pattern::Valid, start, end, value: (-5).into(), of: 3, special: None };
            let mut bytes = Vec::new();
            encoder.put(&step, &mut bytes);
            let expected = ModelInferRequest {
                model_name: "a_model".into(),
                id: "4294967295-4294967295-4294967295-4294967295".into(),
                parameters: [
                    parameter("sequence_id", ParameterChoice::Int64Param(-2)),
                    parameter("sequence_start", ParameterChoice::BoolParam(start)),
                    parameter("sequence_end", ParameterChoice::BoolParam(end)),
                ]
                .into(),
                inputs: vec![InferInputTensor {
                    name: "INPUT".into(),
                    datatype: "INT32".into(),
                    shape: vec![1, 1],
                    ..Default::default()
                }],
                outputs: ["OUTPUT", "SEEN"]
                    .map(|name| InferRequestedOutputTensor { name: name.into(), ..Default::default() })
                    .into(),
                raw_input_contents: vec![vec![0xfb, 0xff, 0xff, 0xff]],
                ..Default::default()
            };
            assert_eq!(ModelInferRequest::decode(bytes.as_slice()).expect("a request"), expected);
        }
    }

    /// What a step is on the wire, and what it would be without what sets it apart.
    fn with_and_without(special: Special) -> (ModelInferRequest, ModelInferRequest) {
        let id = WireId::Text("seven".into());
        let mut encoder = StepCodec::of_streams(RequestTemplate::new(
            "m",
            ("INPUT", Datatype::Int32),
            &vec![1, 1].into(),
            &["OUTPUT"],
            id,
        ))
        .encoder();
        let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
        let step =
            Step { request, pattern: Pattern::Valid, start: true, end: false, value: 5.into(), of: 6, special: None };
        let mut read = |step: Step| {
            let mut bytes = Vec::new();
            encoder.put(&step, &mut bytes);
            ModelInferRequest::decode(bytes.as_slice()).expect("a request")
        };
        (read(Step { special: Some(special), ..step }), read(step))
    }

    #[test]
    fn each_flaw_makes_a_request_of_its_own_and_a_timeout_adds_a_parameter() {
        let mut seen = Vec::new();
        for flaw in Flaw::ALL {
            let (with, without) = with_and_without(Special::Flaw(flaw));
            assert_eq!((&with.id, &with.model_name), (&without.id, &without.model_name), "{flaw}");
            assert!(with != without && !seen.contains(&with), "{flaw}: {with:?}");
            seen.push(with);
        }
        let (mut with, without) = with_and_without(Special::TimeoutUs(20));
        let timeout = with.parameters.remove("timeout").and_then(|parameter| parameter.parameter_choice);
        assert_eq!((timeout, with), (Some(ParameterChoice::Int64Param(20)), without));
    }

    #[test]
    fn answers_are_read_in_both_encodings_and_errors_with_their_request() {
        use crate::proto::model_infer_response::InferOutputTensor;
        let output = InferOutputTensor {
            name: "OUTPUT".into(),
            datatype: "INT32".into(),
            shape: vec![1, 1],
            ..Default::default()
        };
        let response = ModelInferResponse {
            model_name: "m".into(),
            id: "0-1-2".into(),
            outputs: vec![output.clone()],
            ..Default::default()
        };
        let sum_of = |response: ModelInferResponse| {
            let message = ModelStreamInferResponse { infer_response: Some(response), ..Default::default() };
            received(message).received.result.expect("a response").outputs[0].data.single(Datatype::Int32)
        };
        assert_eq!(
            sum_of(ModelInferResponse { raw_output_contents: vec![vec![1, 1, 0, 0]], ..response.clone() }),
            Some(Ok(257.into()))
        );
        assert_eq!(sum_of(ModelInferResponse { raw_output_contents: vec![vec![1, 1, 0]], ..response.clone() }), None);
        let contents = Some(InferTensorContents { int_contents: vec![-7], ..Default::default() });
        assert_eq!(
            sum_of(ModelInferResponse { outputs: vec![InferOutputTensor { contents, ..output }], ..response.clone() }),
            Some(Ok((-7).into()))
        );
        assert_eq!(sum_of(response.clone()), None);

        let error = ModelStreamInferResponse { error_message: "no".into(), infer_response: Some(response) };
        assert_eq!(received(error).received, Received { id: "0-1-2".into(), result: Err("no".into()), code: None });
        let bare = ModelStreamInferResponse { error_message: "no".into(), infer_response: None };
        assert_eq!(received(bare).received, Received { id: String::new(), result: Err("no".into()), code: None });
    }

    #[test]
    fn numbers_of_every_type_go_out_as_they_are_and_come_back_in_both_encodings() {
        use crate::proto::model_infer_response::InferOutputTensor;
        let id = || WireId::Number(7);
        for datatype in Datatype::ALL {
            let value = datatype.number(-5);
            let template = RequestTemplate::new("m", ("INPUT", datatype), &vec![1, 1].into(), &["OUTPUT"], id());
            let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
            let step = Step { request, pattern: Pattern::Valid, start: true, end: false, value, of: 6, special: None };
            let mut bytes = Vec::new();
            StepCodec::of_streams(template).encoder().put(&step, &mut bytes);
            let request = ModelInferRequest::decode(bytes.as_slice()).expect("a request");
            assert_eq!(request.inputs[0].datatype, datatype.name());
            assert_eq!(request.raw_input_contents, [value.to_bytes()]);

            let mut contents = InferTensorContents::default();
            match datatype {
                Datatype::Int32 => contents.int_contents = vec![-5],
                Datatype::Int64 => contents.int64_contents = vec![-5],
                Datatype::Uint32 => contents.uint_contents = vec![u32::MAX - 4],
                Datatype::Uint64 => contents.uint64_contents = vec![u64::MAX - 4],
                Datatype::Fp32 => contents.fp32_contents = vec![-5.0],
                Datatype::Fp64 => contents.fp64_contents = vec![-5.0],
                Datatype::Bytes => contents.bytes_contents = vec![b"-5".to_vec()],
            }
            let output =
                |contents| InferOutputTensor { datatype: datatype.name().into(), contents, ..Default::default() };
            let raw = ModelInferResponse {
                outputs: vec![output(None)],
                raw_output_contents: vec![value.to_bytes()],
                ..Default::default()
            };
            let typed = ModelInferResponse { outputs: vec![output(Some(contents))], ..Default::default() };
            for response in [raw, typed] {
                let message = ModelStreamInferResponse { infer_response: Some(response), ..Default::default() };
                let received = received(message).received.result.expect("a response");
                assert_eq!(received.outputs[0].data.single(datatype), Some(Ok(value)), "{datatype}");
            }
        }
    }

    #[test]
    fn each_step_has_the_shape_of_its_own_elements() {
        for datatype in Datatype::ALL {
            let template =
                RequestTemplate::new("m", ("INPUT", datatype), &vec![1, -1].into(), &["O"], WireId::Number(7));
            let mut encoder = StepCodec::of_streams(template).encoder();
            for size in [1, 2, 16, 300, 1024] {
                let elements = NonZeroU16::new(size).expect("not 0");
                let value = datatype.number(-1000).of_elements(elements);
                let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
                let step =
                    Step { request, pattern: Pattern::Valid, start: true, end: false, value, of: 6, special: None };
                let read = |encoder: &mut StepEncoder, step: Step| {
                    let mut bytes = Vec::new();
                    encoder.put(&step, &mut bytes);
                    ModelInferRequest::decode(bytes.as_slice()).expect("a request")
                };
                let sent = read(&mut encoder, step);
                let [input] = sent.inputs.as_slice() else { panic!("{sent:?}") };
                assert_eq!((input.name.as_str(), input.datatype.as_str()), ("INPUT", datatype.name()));
                assert_eq!(input.shape, [1, i64::from(size)]);
                let raw: Vec<_> = value.spread(size.into()).flat_map(Number::to_bytes).collect();
                assert_eq!(sent.raw_input_contents, [raw], "{datatype} {size}");
                let flawed = read(&mut encoder, Step { special: Some(Special::Flaw(Flaw::OtherShape)), ..step });
                assert_eq!(flawed.inputs[0].shape, [1, i64::from(size), 1]);
                assert_eq!(flawed.raw_input_contents, sent.raw_input_contents);
            }
        }
    }
}
