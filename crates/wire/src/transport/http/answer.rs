//! What came of a step over HTTP.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::{super::stream::Message, Answered, value::from_json};
use crate::proto::HEADER_LENGTH;
use workload::{
    event::{Code, Received, Response, Series},
    sequence::Step,
    tensor::{Tensor, TensorData},
};

/// The JSON of an answer, as far as it is looked at.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    model_name: String,
    #[serde(default)]
    model_version: String,
    #[serde(default)]
    id: String,
    outputs: Vec<Output>,
    /// No answer has one.
    error: Option<String>,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    #[serde(default)]
    parameters: Parameters,
    data: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    binary_data_size: Option<usize>,
}

/// What an answer to a step says.
pub(super) fn message(step: &Step, answered: &Answered) -> Message {
    if answered.status == StatusCode::OK {
        return match response(answered) {
            Ok(received) => Message::Received(received),
            Err(why) => Message::Broken(format!("an answer that is no inference response came: {why}")),
        };
    }
    let status = answered.status.as_u16();
    match answered.error() {
        Some(text) => {
            let (code, outputs) = (Some(Code::Http(status)), answered.outputs());
            Message::Received(Received { id: step.request.to_string(), result: Err(text), code, outputs })
        }
        // As a proxy says it.
        None if answered.restricts() => Message::Broken(answered.rejection().to_string()),
        None => Message::Broken(format!("the HTTP status {status} came without an error of the inference protocol")),
    }
}

fn response(answered: &Answered) -> Result<Received, String> {
    let json_bytes = match answered.headers.get(HEADER_LENGTH) {
        None => answered.body.len(),
        Some(length) => {
            let length = length.to_str().ok().and_then(|text| text.parse().ok());
            length.ok_or_else(|| format!("its header {HEADER_LENGTH} is no number"))?
        }
    };
    let (json, mut bytes) = answered
        .body
        .split_at_checked(json_bytes)
        .ok_or_else(|| format!("{json_bytes} bytes of JSON in {} bytes", answered.body.len()))?;
    // Looked at once, and not at each text in it.
    let json = str::from_utf8(json).map_err(|error| error.to_string())?;
    let Answer { model_name, model_version, id, outputs, error } =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    if let Some(text) = error {
        let (code, outputs) = (Some(Code::Http(answered.status.as_u16())), answered.outputs());
        return Ok(Received { id, result: Err(text), code, outputs });
    }
    let mut tensors = outputs.into_iter().map(|output| tensor(output, &mut bytes)).collect::<Result<Vec<_>, _>>()?;
    if !bytes.is_empty() {
        // Bytes that belong to no output are one output too many.
        tensors.push(Tensor { data: TensorData::Raw(bytes.into()), ..Tensor::default() });
    }
    let response = Response { model: model_name, version: model_version, outputs: tensors, series: Series::default() };
    Ok(Received { id, result: Ok(response), code: None, outputs: 0 })
}

fn tensor(output: Output, bytes: &mut &[u8]) -> Result<Tensor, String> {
    let Output { name, datatype, shape, parameters, data } = output;
    let data = match (parameters.binary_data_size, data) {
        (Some(size), None) => {
            let too_few = || format!("output '{name}' has {size} bytes, and {} came", bytes.len());
            let (its, rest) = bytes.split_at_checked(size).ok_or_else(too_few)?;
            *bytes = rest;
            TensorData::Raw(its.into())
        }
        (None, Some(data)) => from_json(&datatype, &data).map_or(TensorData::Absent, TensorData::Raw),
        // None at all, or two that may contradict each other.
        (None, None) | (Some(_), Some(_)) => TensorData::Absent,
    };
    Ok(Tensor { name, datatype, shape, data })
}
