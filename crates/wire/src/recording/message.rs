//! Inferences in messages of gRPC.

use std::collections::HashMap;

use prost::Message as _;

use super::inference::{IN_SHARED_MEMORY, Id, Inference, Reason, UNKNOWN_TYPE, WRONG_DATA, input, push_text};
use crate::proto::{
    InferParameter, InferTensorContents, ModelInferRequest, infer_parameter::ParameterChoice,
    model_infer_request::InferInputTensor,
};
use workload::inputs::{ElementType, recording::Input};

/// What marks an input whose data are elsewhere.
const SHARED_MEMORY: &str = "shared_memory_region";

/// Reads a message; none where it is no inference. Messages of other methods are told by what they are made of: they name no model here,
/// or have neither inputs nor parameters, or cannot be read as this one.
pub(super) fn read(bytes: &[u8]) -> Option<Inference> {
    let mut request = ModelInferRequest::decode(bytes).ok()?;
    if request.model_name.is_empty() || (request.inputs.is_empty() && request.parameters.is_empty()) {
        return None;
    }
    let mut parameter = |name| request.parameters.remove(name).and_then(|parameter| parameter.parameter_choice);
    let is_set = |choice| matches!(choice, Some(ParameterChoice::BoolParam(true)));
    let id = match parameter("sequence_id") {
        Some(ParameterChoice::Int64Param(id)) => Id::of_number(id.cast_unsigned()),
        Some(ParameterChoice::Uint64Param(id)) => Id::of_number(id),
        Some(ParameterChoice::StringParam(id)) => Id::of_text(id),
        _ => None,
    };
    let (start, end) = (is_set(parameter("sequence_start")), is_set(parameter("sequence_end")));
    let inputs = inputs(request.inputs, request.raw_input_contents);
    Some(Inference { model: request.model_name, id, start, end, inputs })
}

fn inputs(tensors: Vec<InferInputTensor>, raw: Vec<Vec<u8>>) -> Result<Vec<Input>, Reason> {
    let is_elsewhere = |parameters: &HashMap<String, InferParameter>| parameters.contains_key(SHARED_MEMORY);
    if tensors.iter().any(|tensor| is_elsewhere(&tensor.parameters)) {
        return Err(IN_SHARED_MEMORY);
    }
    if !raw.is_empty() && raw.len() != tensors.len() {
        return Err(WRONG_DATA);
    }
    let mut raw = raw.into_iter();
    let each = |InferInputTensor { name, datatype, shape, contents, .. }| {
        let data = match raw.next() {
            Some(data) => data,
            None => typed(ElementType::named(&datatype).ok_or(UNKNOWN_TYPE)?, &contents.unwrap_or_default())
                .ok_or(WRONG_DATA)?,
        };
        input(name, &datatype, shape, data)
    };
    tensors.into_iter().map(each).collect()
}

/// Raw contents of what is in the field of this type; none where no field is.
fn typed(datatype: ElementType, contents: &InferTensorContents) -> Option<Vec<u8>> {
    use ElementType::{Bf16, Bool, Bytes, Fp16, Fp32, Fp64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    /// The first bytes of each element, which has to be as wide as it needs.
    fn bytes<const N: usize>(elements: impl Iterator<Item = [u8; N]>, size: usize) -> Vec<u8> {
        elements.flat_map(|element| element.into_iter().take(size)).collect()
    }
    let size = datatype.size().unwrap_or_default();
    Some(match datatype {
        Bool => contents.bool_contents.iter().map(|value| u8::from(*value)).collect(),
        Int8 | Int16 | Int32 => bytes(contents.int_contents.iter().map(|value| value.to_le_bytes()), size),
        Int64 => bytes(contents.int64_contents.iter().map(|value| value.to_le_bytes()), size),
        Uint8 | Uint16 | Uint32 => bytes(contents.uint_contents.iter().map(|value| value.to_le_bytes()), size),
        Uint64 => bytes(contents.uint64_contents.iter().map(|value| value.to_le_bytes()), size),
        Fp32 => bytes(contents.fp32_contents.iter().map(|value| value.to_le_bytes()), size),
        Fp64 => bytes(contents.fp64_contents.iter().map(|value| value.to_le_bytes()), size),
        Bytes => {
            let mut out = Vec::new();
            contents.bytes_contents.iter().try_for_each(|text| push_text(&mut out, text))?;
            out
        }
        Fp16 | Bf16 => return None,
    })
}
