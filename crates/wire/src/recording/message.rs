//! Inferences in messages of gRPC.

use std::collections::HashMap;

use prost::Message as _;

use super::inference::{IN_SHARED_MEMORY, Id, Inference, Reason, UNKNOWN_TYPE, WRONG_DATA, input};
use crate::{
    contents::raw_of,
    proto::{
        InferParameter, ModelInferRequest, infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
    },
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
            None => raw_of(ElementType::named(&datatype).ok_or(UNKNOWN_TYPE)?, &contents.unwrap_or_default())
                .ok_or(WRONG_DATA)?,
        };
        input(name, &datatype, shape, data)
    };
    tensors.into_iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{
        InferTensorContents, ModelConfigRequest, ModelMetadataRequest, ModelStatisticsRequest, RepositoryIndexRequest,
        RepositoryModelLoadRequest, RepositoryModelUnloadRequest,
    };

    fn parameters(all: &[(&str, ParameterChoice)]) -> HashMap<String, InferParameter> {
        let of = |choice: &ParameterChoice| InferParameter { parameter_choice: Some(choice.clone()) };
        all.iter().map(|(name, choice)| ((*name).to_owned(), of(choice))).collect()
    }

    fn tensor(name: &str, datatype: &str, contents: Option<InferTensorContents>) -> InferInputTensor {
        InferInputTensor {
            name: name.into(),
            datatype: datatype.into(),
            shape: vec![1, 2],
            contents,
            ..Default::default()
        }
    }

    fn request(inputs: Vec<InferInputTensor>) -> ModelInferRequest {
        ModelInferRequest { model_name: "m".to_owned(), inputs, ..Default::default() }
    }

    fn data(request: &ModelInferRequest) -> Result<Vec<Vec<u8>>, Reason> {
        let inference = read(&request.encode_to_vec()).expect("it is an inference");
        inference.inputs.map(|inputs| inputs.into_iter().map(|input| input.data).collect())
    }

    #[test]
    fn the_sequence_is_read_from_the_parameters() {
        use ParameterChoice::{BoolParam, Int64Param, StringParam, Uint64Param};
        for (choice, id) in [
            (Int64Param(7), Some(Id::Number(7))),
            (Int64Param(-2), Some(Id::Number(u64::MAX - 1))),
            (Uint64Param(u64::MAX), Some(Id::Number(u64::MAX))),
            (StringParam("a".into()), Some(Id::Text("a".into()))),
            (Int64Param(0), None),
            (StringParam(String::new()), None),
            (BoolParam(true), None),
        ] {
            let parameters = parameters(&[("sequence_id", choice), ("sequence_start", BoolParam(true))]);
            let sent = ModelInferRequest { parameters, ..request(vec![tensor("A", "BOOL", None)]) };
            let inference = read(&sent.encode_to_vec()).expect("it is an inference");
            assert_eq!((inference.model.as_str(), inference.id), ("m", id));
            assert_eq!((inference.start, inference.end), (true, false));
        }
    }

    #[test]
    fn typed_contents_are_made_raw() {
        type Contents = InferTensorContents;
        let of = Contents::default;
        for (datatype, contents, expected) in [
            ("BOOL", Contents { bool_contents: vec![true, false], ..of() }, vec![1, 0]),
            ("INT8", Contents { int_contents: vec![-1, 2], ..of() }, vec![255, 2]),
            ("INT16", Contents { int_contents: vec![-2, 3], ..of() }, vec![254, 255, 3, 0]),
            ("INT32", Contents { int_contents: vec![-1, 1], ..of() }, [[255; 4], [1, 0, 0, 0]].concat()),
            ("INT64", Contents { int64_contents: vec![-1, 1], ..of() }, [[255; 8], 1_u64.to_le_bytes()].concat()),
            ("UINT8", Contents { uint_contents: vec![200, 1], ..of() }, vec![200, 1]),
            ("UINT16", Contents { uint_contents: vec![0x1234, 1], ..of() }, vec![0x34, 0x12, 1, 0]),
            ("UINT32", Contents { uint_contents: vec![u32::MAX, 1], ..of() }, [[255; 4], [1, 0, 0, 0]].concat()),
            (
                "UINT64",
                Contents { uint64_contents: vec![u64::MAX, 1], ..of() },
                [[255; 8], 1_u64.to_le_bytes()].concat(),
            ),
            (
                "FP32",
                Contents { fp32_contents: vec![0.5, -1.0], ..of() },
                [0.5_f32, -1.0].map(f32::to_le_bytes).concat(),
            ),
            (
                "FP64",
                Contents { fp64_contents: vec![0.5, -1.0], ..of() },
                [0.5_f64, -1.0].map(f64::to_le_bytes).concat(),
            ),
            (
                "BYTES",
                Contents { bytes_contents: vec![b"ab".to_vec(), Vec::new()], ..of() },
                b"\x02\0\0\0ab\0\0\0\0".to_vec(),
            ),
        ] {
            let sent = request(vec![tensor("A", datatype, Some(contents))]);
            assert_eq!(data(&sent), Ok(vec![expected]), "{datatype}");
            assert_eq!(data(&request(vec![tensor("A", datatype, None)])), Err(WRONG_DATA), "{datatype}");
        }
        for datatype in ["FP16", "BF16"] {
            assert_eq!(data(&request(vec![tensor("A", datatype, None)])), Err(WRONG_DATA));
            let raw = ModelInferRequest {
                raw_input_contents: vec![vec![7; 4]],
                ..request(vec![tensor("A", datatype, None)])
            };
            assert_eq!(data(&raw), Ok(vec![vec![7; 4]]));
        }
    }

    #[test]
    fn inputs_that_cannot_be_recorded_are_told() {
        let plain = || tensor("A", "INT8", None);
        let shared = parameters(&[(SHARED_MEMORY, ParameterChoice::StringParam("region".into()))]);
        let shared = InferInputTensor { parameters: shared, ..plain() };
        for (inputs, raw, reason) in [
            (vec![plain(), shared], vec![vec![0; 2]], IN_SHARED_MEMORY),
            (vec![plain(), plain()], vec![vec![0; 2]], WRONG_DATA),
            (vec![plain()], vec![vec![0; 3]], WRONG_DATA),
            (vec![tensor("A", "INT7", None)], vec![vec![0; 2]], UNKNOWN_TYPE),
        ] {
            assert_eq!(data(&ModelInferRequest { raw_input_contents: raw, ..request(inputs) }), Err(reason));
        }
    }

    #[test]
    fn messages_of_other_methods_are_no_inferences() {
        let (name, version) = ("m".to_owned(), "1".to_owned());
        let config = crate::proto::ModelRepositoryParameter {
            parameter_choice: Some(crate::proto::model_repository_parameter::ParameterChoice::StringParam("{}".into())),
        };
        let load = RepositoryModelLoadRequest {
            model_name: name.clone(),
            parameters: [("config".to_owned(), config)].into(),
            ..Default::default()
        };
        for message in [
            Vec::new(),
            ModelMetadataRequest { name: name.clone(), version: version.clone() }.encode_to_vec(),
            ModelConfigRequest { name: name.clone(), version: version.clone() }.encode_to_vec(),
            ModelStatisticsRequest { name: name.clone(), version }.encode_to_vec(),
            RepositoryIndexRequest { repository_name: "r".into(), ready: true }.encode_to_vec(),
            load.encode_to_vec(),
            RepositoryModelUnloadRequest { model_name: name, ..Default::default() }.encode_to_vec(),
            b"\xff\xff\xff".to_vec(),
        ] {
            assert_eq!(read(&message), None, "{message:?}");
        }
    }
}
