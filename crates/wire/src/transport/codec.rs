//! Steps as protobuf, and protobuf as what was received.

use std::{fmt::Write as _, ops::RangeInclusive};

use prost::{Message as _, bytes::BufMut};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use super::template::RequestTemplate;
use crate::{
    contents::raw_of,
    proto::{InferTensorContents, ModelInferResponse, ModelStreamInferResponse, infer_parameter::ParameterChoice},
};
use workload::{
    event::{Received, Response, Series},
    inputs::ElementType,
    sequence::Step,
    tensor::{Tensor, TensorData},
};

/// Small, because a stream carries small messages and every stream has buffers of its own. The encoder hands each message over at once,
/// and [`super::frugal`] joins them.
fn buffers() -> BufferSettings {
    BufferSettings::new(1024, 1)
}

/// The parameter of a response that says whether it is the last one to its request.
const FINAL: &str = "triton_final_response";
/// A message that a stream brings.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) received: Received,
    /// Whether it is the last one to its request, where it says that.
    pub(super) is_last: Option<bool>,
}

/// The codec of one context's streams, or of its calls.
#[derive(Clone, Debug)]
pub(super) struct StepCodec {
    template: RequestTemplate,
    /// Whether answers come alone, and not as messages of a stream.
    alone: bool,
    id: String,
    raw: Vec<u8>,
}

impl StepCodec {
    pub(super) fn of_streams(template: RequestTemplate) -> Self {
        Self { template, alone: false, id: String::new(), raw: Vec::new() }
    }

    pub(super) fn of_calls(template: RequestTemplate) -> Self {
        Self { alone: true, ..Self::of_streams(template) }
    }

    fn put(&mut self, step: &Step, buffer: &mut impl BufMut) {
        self.id.clear();
        write!(self.id, "{}", step.request).expect("writing to a String does not fail");
        self.template.put(step, &self.id, &mut self.raw, buffer);
    }
}

impl Codec for StepCodec {
    type Encode = Step;
    type Decode = Piece;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for StepCodec {
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

impl Decoder for StepCodec {
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
        let outputs = response.outputs.len().max(response.raw_output_contents.len());
        let outputs = u32::try_from(outputs).unwrap_or(u32::MAX);
        let received = Received { id: response.id, result: Err(message.error_message), code: None, outputs };
        Piece { received, is_last: None }
    }
}

fn answered(response: ModelInferResponse) -> Piece {
    let ModelInferResponse { model_name, model_version, id, outputs, raw_output_contents, parameters, .. } = response;
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
    let response = Response { model: model_name, version: model_version, outputs, series: Series::default() };
    Piece { received: Received { id, result: Ok(response), code: None, outputs: 0 }, is_last }
}

/// The elements that came in the protocol's own lists; the type says in which list they have to be.
fn typed(datatype: &str, contents: InferTensorContents) -> TensorData {
    let datatype = match ElementType::named(datatype) {
        None | Some(ElementType::Int32) => return TensorData::Int32(contents.int_contents),
        Some(datatype) => datatype,
    };
    // Of the smaller types elements are in lists of 32 bits: where one does not fit, none is.
    let fit = |range: RangeInclusive<i128>| {
        let signed = contents.int_contents.iter().map(|element| i128::from(*element));
        let unsigned = contents.uint_contents.iter().map(|element| i128::from(*element));
        signed.chain(unsigned).all(|element| range.contains(&element))
    };
    let bytes = raw_of(datatype, &contents).filter(|bytes| !bytes.is_empty() && datatype.whole_range().is_none_or(fit));
    bytes.map_or(TensorData::Absent, TensorData::Raw)
}

#[cfg(test)]
mod tests;
