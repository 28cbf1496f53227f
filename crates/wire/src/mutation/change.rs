//! What is changed within one message, however the protocol writes it.

use std::sync::atomic::Ordering::Relaxed;

use super::{Mutation, Mutations};
use crate::proto::{ModelInferResponse, ModelReadyResponse, ModelStatisticsResponse, ModelStreamInferResponse};

pub(super) const START: &str = "sequence_start";
pub(super) const END: &str = "sequence_end";
pub(super) const ID: &str = "sequence_id";
/// The text of an error that takes the place of another one, or of a response.
pub(super) const ERROR: &str = "changed on the way";

/// Whether a message was changed.
pub(super) type Changed = bool;

/// A request of an inference.
pub(super) trait Request {
    /// Whether it has a correlation ID.
    fn is_of_sequence(&self) -> bool;
    /// Whether it has this flag.
    fn has(&self, flag: &str) -> bool;
    /// Gives it this flag, or takes the flag from it.
    fn set(&mut self, flag: &str, value: bool);
    /// Gives it the next number as its correlation ID, or a longer text.
    fn change_id(&mut self);
    /// Whether its first input begins with a number.
    fn has_number(&self) -> bool;
    /// Lets the first byte of this number grow by one.
    fn change_number(&mut self);
}

/// A response of an inference. What concerns an output concerns its first one.
pub(super) trait Response {
    /// Whether it is said to be the final one.
    fn is_final(&self) -> bool;
    /// It is said to be another than the final one.
    fn lose_final_mark(&mut self);
    /// Whether it carries the ID of a request.
    fn has_request_id(&self) -> bool;
    fn change_request_id(&mut self);
    fn change_model_name(&mut self);
    fn change_model_version(&mut self);
    fn has_output(&self) -> bool;
    fn change_output_name(&mut self);
    /// Whether its shape has a dimension.
    fn has_dimension(&self) -> bool;
    fn lose_dimension(&mut self);
    /// Whether it is of a type of numbers.
    fn is_number(&self) -> bool;
    /// It is said to be FP32, or INT32 where that is its type.
    fn change_output_type(&mut self);
    /// Whether it has data.
    fn has_data(&self) -> bool;
    /// Lets the first byte of the data grow by one.
    fn change_data(&mut self);
    /// Takes the last byte of the data away.
    fn cut_data(&mut self);
    /// Takes all outputs away.
    fn lose_outputs(&mut self);
}

/// What is done to a flag, and how it is there for it.
fn flag(its: &Mutations, request: &mut impl Request, name: &str, lose: Mutation, add: Mutation) -> Changed {
    let is_there = request.has(name);
    let changed = its.happens(if is_there { lose } else { add });
    if changed {
        request.set(name, !is_there);
    }
    changed
}

impl Mutations {
    /// Changes a request.
    pub(super) fn change_request(&self, request: &mut impl Request) -> Changed {
        if !request.is_of_sequence() {
            return false;
        }
        let mut changed = flag(self, request, START, Mutation::LoseStart, Mutation::AddStart);
        changed |= flag(self, request, END, Mutation::LoseEnd, Mutation::AddEnd);
        if self.happens(Mutation::OtherId) {
            request.change_id();
            changed = true;
        }
        if request.has_number() && self.happens(Mutation::ChangeInput) {
            request.change_number();
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
            let changed = self.change_response(response);
            if self.happens(Mutation::ErrorForResponse) {
                ERROR.clone_into(&mut message.error_message);
                response.lose_outputs();
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
    pub(super) fn change_response(&self, response: &mut impl Response) -> Changed {
        self.has_answered.store(true, Relaxed);
        let mut changed = false;
        let mut happens = |mutation, is_chance: bool| {
            let happens = is_chance && self.happens(mutation);
            changed |= happens;
            happens
        };
        if happens(Mutation::LoseFinalMark, response.is_final()) {
            response.lose_final_mark();
        }
        if happens(Mutation::OtherRequestId, response.has_request_id()) {
            response.change_request_id();
        }
        if happens(Mutation::OtherModelName, true) {
            response.change_model_name();
        }
        if happens(Mutation::OtherModelVersion, true) {
            response.change_model_version();
        }
        if !response.has_output() {
            return changed;
        }
        if happens(Mutation::OtherOutputName, true) {
            response.change_output_name();
        }
        if happens(Mutation::OtherOutputShape, response.has_dimension()) {
            response.lose_dimension();
        }
        if happens(Mutation::ChangeOutput, response.is_number() && response.has_data()) {
            response.change_data();
        }
        if happens(Mutation::OtherOutputType, true) {
            response.change_output_type();
        }
        if happens(Mutation::CutOutput, response.has_data()) {
            response.cut_data();
        }
        if happens(Mutation::NoOutput, true) {
            response.lose_outputs();
        }
        changed
    }

    /// Changes the server's statistics.
    pub(super) fn change_statistics(&self, statistics: &mut ModelStatisticsResponse) -> Changed {
        if !self.shift_counts() {
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

    /// The server is asked for its counts; returns whether one of them is off.
    pub(super) fn shift_counts(&self) -> bool {
        self.successes.more.fetch_add(self.happens(Mutation::CountMore).into(), Relaxed);
        self.successes.less.fetch_add(self.happens(Mutation::CountLess).into(), Relaxed);
        self.executions.more.fetch_add(self.happens(Mutation::CountExecution).into(), Relaxed);
        !(self.successes.is_none() && self.executions.is_none())
    }

    /// Changes whether a model is ready.
    pub(super) fn change_readiness(&self, readiness: &mut ModelReadyResponse) -> Changed {
        let changed = readiness.ready && self.says_not_ready();
        readiness.ready &= !changed;
        changed
    }

    /// Whether a model that is ready is said not to be.
    pub(super) fn says_not_ready(&self) -> bool {
        self.has_answered.load(Relaxed) && self.happens(Mutation::SayNotReady)
    }
}
