//! Requests, as clients make them.

#![allow(unreachable_pub, reason = "it is a module of tests, of which each uses its part")]

use wire::proto::{
    InferParameter, ModelInferRequest,
    infer_parameter::ParameterChoice::{BoolParam, Int64Param},
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};

/// A step of a sequence, of one row with these elements.
pub fn step(model: &str, id: i64, elements: &[i32], start: bool, end: bool) -> ModelInferRequest {
    let parameters =
        [("sequence_id", Int64Param(id)), ("sequence_start", BoolParam(start)), ("sequence_end", BoolParam(end))];
    let parameter = |(name, choice): (&str, _)| (name.to_owned(), InferParameter { parameter_choice: Some(choice) });
    ModelInferRequest {
        model_name: model.to_owned(),
        parameters: parameters.map(parameter).into(),
        inputs: vec![InferInputTensor {
            name: "INPUT".to_owned(),
            datatype: "INT32".to_owned(),
            shape: vec![1, i64::try_from(elements.len()).expect("they are few")],
            ..Default::default()
        }],
        outputs: vec![InferRequestedOutputTensor { name: "OUTPUT".to_owned(), ..Default::default() }],
        raw_input_contents: vec![elements.iter().flat_map(|element| element.to_le_bytes()).collect()],
        ..Default::default()
    }
}
