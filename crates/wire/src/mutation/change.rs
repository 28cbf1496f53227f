//! What is changed within one message.

use std::sync::atomic::Ordering::Relaxed;

use super::{Mutation, Mutations};
use crate::proto::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelReadyResponse, ModelStatisticsResponse,
    ModelStreamInferResponse, infer_parameter::ParameterChoice,
};

const START: &str = "sequence_start";
const END: &str = "sequence_end";
const ID: &str = "sequence_id";
const FINAL: &str = "triton_final_response";
/// The text of an error that takes the place of another one, or of a response.
const ERROR: &str = "changed on the way";

/// Whether a message was changed.
pub(super) type Changed = bool;

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

/// What is done to a flag, and how it is there for it.
fn flag(its: &Mutations, request: &mut ModelInferRequest, name: &str, lose: Mutation, add: Mutation) -> Changed {
    let is_there = is_set(request.parameters.get(name));
    if is_there && its.happens(lose) {
        request.parameters.remove(name);
        return true;
    }
    if !is_there && its.happens(add) {
        request.parameters.insert(name.to_owned(), parameter(true));
        return true;
    }
    false
}

impl Mutations {
    /// Changes a request.
    pub(super) fn change_request(&self, request: &mut ModelInferRequest) -> Changed {
        if !request.parameters.contains_key(ID) {
            return false;
        }
        let mut changed = flag(self, request, START, Mutation::LoseStart, Mutation::AddStart);
        changed |= flag(self, request, END, Mutation::LoseEnd, Mutation::AddEnd);
        if self.happens(Mutation::OtherId)
            && let Some(choice) = request.parameters.get_mut(ID).and_then(|id| id.parameter_choice.as_mut())
        {
            match choice {
                ParameterChoice::Int64Param(id) => *id = id.wrapping_add(1),
                ParameterChoice::Uint64Param(id) => *id = id.wrapping_add(1),
                ParameterChoice::StringParam(id) => id.push('x'),
                _ => {}
            }
            changed = true;
        }
        // Of a text the first byte is a part of its length.
        let is_number = request.inputs.first().is_some_and(|input| input.datatype != "BYTES");
        if let Some(byte) = request.raw_input_contents.first_mut().and_then(|bytes| bytes.first_mut())
            && is_number
            && self.happens(Mutation::ChangeInput)
        {
            *byte = byte.wrapping_add(1);
            changed = true;
        }
        changed
    }

    /// Changes a message of a stream; `before` is the last one that was a response.
    pub(super) fn change_stream(
        &self,
        message: &mut ModelStreamInferResponse,
        before: Option<&ModelInferResponse>,
    ) -> Changed {
        if message.error_message.is_empty() {
            let Some(response) = &mut message.infer_response else { return false };
            self.has_answered.store(true, Relaxed);
            let changed = self.change_response(response);
            if self.happens(Mutation::ErrorForResponse) {
                ERROR.clone_into(&mut message.error_message);
                (response.outputs, response.raw_output_contents) = (Vec::new(), Vec::new());
                return true;
            }
            return changed;
        }
        if let Some(before) = before
            && self.happens(Mutation::ResponseForError)
        {
            let id = message.infer_response.take().map(|response| response.id).unwrap_or_default();
            message.error_message.clear();
            message.infer_response = Some(ModelInferResponse { id, ..before.clone() });
            return true;
        }
        let changed = self.happens(Mutation::OtherError);
        if changed {
            ERROR.clone_into(&mut message.error_message);
        }
        changed
    }

    /// Changes a response.
    pub(super) fn change_response(&self, response: &mut ModelInferResponse) -> Changed {
        self.has_answered.store(true, Relaxed);
        let mut changed = false;
        let mut happens = |mutation, is_chance: bool| {
            let happens = is_chance && self.happens(mutation);
            changed |= happens;
            happens
        };
        let is_final = is_set(response.parameters.get(FINAL));
        if happens(Mutation::LoseFinalMark, is_final) {
            response.parameters.insert(FINAL.to_owned(), parameter(false));
        }
        if happens(Mutation::OtherRequestId, !response.id.is_empty()) {
            response.id.push_str("-9999");
        }
        if happens(Mutation::OtherModelName, true) {
            response.model_name.push_str("_other");
        }
        if happens(Mutation::OtherModelVersion, true) {
            response.model_version.push('9');
        }
        let Some(output) = response.outputs.first_mut() else { return changed };
        if happens(Mutation::OtherOutputName, true) {
            output.name.push_str("_OTHER");
        }
        if happens(Mutation::OtherOutputShape, !output.shape.is_empty()) {
            output.shape.pop();
        }
        let is_number = output.datatype != "BYTES";
        if happens(Mutation::OtherOutputType, true) {
            let other = if output.datatype == "FP32" { "INT32" } else { "FP32" };
            other.clone_into(&mut output.datatype);
        }
        if let Some(bytes) = response.raw_output_contents.first_mut() {
            if happens(Mutation::ChangeOutput, is_number && !bytes.is_empty()) {
                bytes[0] = bytes[0].wrapping_add(1);
            }
            if happens(Mutation::CutOutput, !bytes.is_empty()) {
                bytes.pop();
            }
        }
        if happens(Mutation::NoOutput, true) {
            (response.outputs, response.raw_output_contents) = (Vec::new(), Vec::new());
        }
        changed
    }

    /// Changes the server's statistics.
    pub(super) fn change_statistics(&self, statistics: &mut ModelStatisticsResponse) -> Changed {
        self.successes.more.fetch_add(self.happens(Mutation::CountMore).into(), Relaxed);
        self.successes.less.fetch_add(self.happens(Mutation::CountLess).into(), Relaxed);
        self.executions.more.fetch_add(self.happens(Mutation::CountExecution).into(), Relaxed);
        if self.successes.is_none() && self.executions.is_none() {
            return false;
        }
        for of in &mut statistics.model_stats {
            of.execution_count = self.executions.of(of.execution_count);
            of.inference_count = self.successes.of(of.inference_count);
            if let Some(success) = of.inference_stats.as_mut().and_then(|its| its.success.as_mut()) {
                success.count = self.successes.of(success.count);
            }
        }
        true
    }

    /// Changes whether a model is ready.
    pub(super) fn change_readiness(&self, readiness: &mut ModelReadyResponse) -> Changed {
        let changed = readiness.ready && self.has_answered.load(Relaxed) && self.happens(Mutation::SayNotReady);
        readiness.ready &= !changed;
        changed
    }
}
