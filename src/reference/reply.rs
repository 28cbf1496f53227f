//! Where a request's answer goes.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{failure::Failure, stream::Outbox};
use crate::proto::ModelInferResponse;

/// What a request is answered with.
pub(super) type Answer = Result<ModelInferResponse, Failure>;

/// The way back to a client.
#[derive(Debug)]
pub(super) enum Reply {
    /// The one answer of a call.
    Call(oneshot::Sender<Answer>),
    /// A place in the order of a stream's answers.
    Stream {
        /// The stream.
        outbox: Arc<Outbox>,
        /// The request's number on it.
        place: u64,
    },
}

impl Reply {
    /// Answers a request that was accepted.
    pub(super) fn send(self, model: &str, request_id: String, answer: Answer) {
        match self {
            // The client may be gone.
            Self::Call(sender) => _ = sender.send(answer),
            Self::Stream { outbox, place } => outbox.answer(place, model, request_id, answer),
        }
    }
}
