//! Requests and responses as gRPC writes them.

use super::change::{ID, Request, Response};
use crate::proto::{InferParameter, ModelInferRequest, ModelInferResponse, infer_parameter::ParameterChoice};

const FINAL: &str = "triton_final_response";

fn parameter(value: bool) -> InferParameter {
    InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(value)) }
}

fn is_set(parameter: Option<&InferParameter>) -> bool {
    match parameter.and_then(|parameter| parameter.parameter_choice.as_ref()) {
        Some(ParameterChoice::BoolParam(value)) => *value,
        Some(ParameterChoice::Int64Param(value)) => *value != 0,
        Some(ParameterChoice::Uint64Param(value)) => *value != 0,
        _ => false,
    }
}

impl Request for ModelInferRequest {
    fn is_of_sequence(&self) -> bool {
        self.parameters.contains_key(ID)
    }

    fn has(&self, flag: &str) -> bool {
        is_set(self.parameters.get(flag))
    }

    fn set(&mut self, flag: &str, value: bool) {
        if value {
            self.parameters.insert(flag.to_owned(), parameter(true));
        } else {
            self.parameters.remove(flag);
        }
    }

    fn change_id(&mut self) {
        match self.parameters.get_mut(ID).and_then(|id| id.parameter_choice.as_mut()) {
            Some(ParameterChoice::Int64Param(id)) => *id = id.wrapping_add(1),
            Some(ParameterChoice::Uint64Param(id)) => *id = id.wrapping_add(1),
            Some(ParameterChoice::StringParam(id)) => id.push('x'),
            _ => {}
        }
    }

    fn has_number(&self) -> bool {
        // Of a text the first byte is a part of its length.
        self.inputs.first().is_some_and(|input| input.datatype != "BYTES")
            && self.raw_input_contents.first().is_some_and(|bytes| !bytes.is_empty())
    }

    fn change_number(&mut self) {
        if let Some(byte) = self.raw_input_contents.first_mut().and_then(|bytes| bytes.first_mut()) {
            *byte = byte.wrapping_add(1);
        }
    }
}

impl Response for ModelInferResponse {
    fn is_final(&self) -> bool {
        is_set(self.parameters.get(FINAL))
    }

    fn lose_final_mark(&mut self) {
        self.parameters.insert(FINAL.to_owned(), parameter(false));
    }

    fn has_request_id(&self) -> bool {
        !self.id.is_empty()
    }

    fn change_request_id(&mut self) {
        self.id.push_str("-9999");
    }

    fn change_model_name(&mut self) {
        self.model_name.push_str("_other");
    }

    fn change_model_version(&mut self) {
        self.model_version.push('9');
    }

    fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    fn change_output_name(&mut self) {
        self.outputs[0].name.push_str("_OTHER");
    }

    fn has_dimension(&self) -> bool {
        !self.outputs[0].shape.is_empty()
    }

    fn lose_dimension(&mut self) {
        self.outputs[0].shape.pop();
    }

    fn is_number(&self) -> bool {
        self.outputs[0].datatype != "BYTES"
    }

    fn change_output_type(&mut self) {
        let datatype = &mut self.outputs[0].datatype;
        let other = if datatype == "FP32" { "INT32" } else { "FP32" };
        other.clone_into(datatype);
    }

    fn has_data(&self) -> bool {
        self.raw_output_contents.first().is_some_and(|bytes| !bytes.is_empty())
    }

    fn change_data(&mut self) {
        let byte = &mut self.raw_output_contents[0][0];
        *byte = byte.wrapping_add(1);
    }

    fn cut_data(&mut self) {
        self.raw_output_contents[0].pop();
    }

    fn lose_outputs(&mut self) {
        (self.outputs, self.raw_output_contents) = (Vec::new(), Vec::new());
    }
}
