//! Where a request's answer goes.

use std::sync::Arc;

use tokio::sync::oneshot;
use tonic::Status;

use super::stream::Outbox;
use wire::proto::ModelInferResponse;

/// What a request is answered with.
pub(super) type Answer = Result<ModelInferResponse, Status>;

/// All that a request is answered with, in its order.
pub(super) type Answers = Result<Vec<ModelInferResponse>, Status>;

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
    pub(super) fn send(self, model: &str, request_id: String, answers: Answers) {
        match self {
            // The client may be gone. One answer is all that a call can have, and what it goes to has no other number.
            Self::Call(sender) => _ = sender.send(answers.map(|mut all| all.pop().unwrap_or_default())),
            Self::Stream { outbox, place } => outbox.answer(place, model, request_id, answers),
        }
    }
}
