//! Why a request is not answered with outputs, in the words and codes that clients know from the real server.

use tonic::{Code, Status};

use super::{request::SequenceId, scheduler::Refusal};

/// An error, as a client gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: Code,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, text)
    }

    /// The scheduler's refusal of a request of a sequence to a model.
    pub(super) fn refused(refusal: Refusal, id: &SequenceId, model: &str) -> Self {
        match refusal {
            Refusal::BatchSize => Self::invalid(format!(
                "inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher"
            )),
            Refusal::NoCorrelationId => Self::invalid(format!(
                "inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
            )),
            Refusal::NoStart => Self::invalid(format!(
                "inference request for sequence {id} to model '{model}' must specify the START flag on the first request of the sequence"
            )),
            Refusal::Stopping => Self::new(
                Code::Unavailable,
                "Server is stopping, scheduler for model has stopped accepting new inference requests",
            ),
            Refusal::Expired => Self::new(Code::Unavailable, "timeout of the corresponding sequence has been expired"),
            Refusal::Cancelled => Self::new(Code::Cancelled, ""),
        }
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        Self::new(failure.code, failure.text)
    }
}
