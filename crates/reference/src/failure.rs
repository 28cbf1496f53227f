//! Why a request is not executed, in the words and codes that clients know from the real server.

use tonic::Status;

use super::{request::SequenceId, scheduler::Rejection};

/// The scheduler's rejection of a request of a sequence to a model.
pub(super) fn rejected(rejection: Rejection, id: &SequenceId, model: &str) -> Status {
    match rejection {
        Rejection::BatchSize => Status::invalid_argument(format!(
            "inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher"
        )),
        Rejection::NoCorrelationId => Status::invalid_argument(format!(
            "inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
        )),
        Rejection::NoStart => Status::invalid_argument(format!(
            "inference request for sequence {id} to model '{model}' must specify the START flag on the first request of the sequence"
        )),
        Rejection::Stopping => {
            Status::unavailable("Server is stopping, scheduler for model has stopped accepting new inference requests")
        }
        Rejection::Expired => Status::unavailable("timeout of the corresponding sequence has been expired"),
        Rejection::Cancelled => Status::cancelled(""),
    }
}
