//! Why a request is not executed, in the words and codes that clients know from the real server.

use tonic::Status;

use super::{request::SequenceId, scheduler::Refusal};

/// The scheduler's refusal of a request of a sequence to a model.
pub(super) fn refused(refusal: Refusal, id: &SequenceId, model: &str) -> Status {
    match refusal {
        Refusal::BatchSize => Status::invalid_argument(format!(
            "inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher"
        )),
        Refusal::NoCorrelationId => Status::invalid_argument(format!(
            "inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
        )),
        Refusal::NoStart => Status::invalid_argument(format!(
            "inference request for sequence {id} to model '{model}' must specify the START flag on the first request of the sequence"
        )),
        Refusal::Stopping => {
            Status::unavailable("Server is stopping, scheduler for model has stopped accepting new inference requests")
        }
        Refusal::Expired => Status::unavailable("timeout of the corresponding sequence has been expired"),
        Refusal::Cancelled => Status::cancelled(""),
    }
}
