//! Why a request is not executed, in the words and codes that clients know from the real server.

use tonic::Status;

use super::scheduler::{Rejection, SequenceId};

/// The instance that fails where one is to fail.
pub(super) const FAILING: u32 = 0;

impl Rejection {
    /// What is said of a request to this model, with this correlation ID.
    pub(super) fn status(self, model: &str, id: &SequenceId) -> Status {
        match self {
            Self::BatchSize => Status::invalid_argument(format!(
                "inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher"
            )),
            Self::NoCorrelationId => Status::invalid_argument(format!(
                "inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
            )),
            Self::NoStart => Status::invalid_argument(format!(
                "inference request for sequence {id} to model '{model}' must specify the START flag on the first request of the sequence"
            )),
            Self::Stopping => Status::unavailable(
                "Server is stopping, scheduler for model has stopped accepting new inference requests",
            ),
            Self::Expired => Status::unavailable("timeout of the corresponding sequence has been expired"),
            Self::Cancelled => Status::cancelled(""),
            Self::InstanceFailed => instance_failed(model),
        }
    }
}

/// What is said of a request to a model that is unloaded.
pub(super) fn no_version(model: &str) -> Status {
    Status::not_found(format!("Request for unknown model: '{model}' has no available versions"))
}

/// What is said of a request that names a version that is unloaded.
pub(super) fn not_ready(model: &str, version: i64) -> Status {
    Status::unavailable(format!("Request for unknown model: '{model}' version {version} is not at ready state"))
}

/// What is said of a request to a version that there is not.
pub(super) fn unknown_version(model: &str, version: i64) -> Status {
    Status::not_found(format!("Request for unknown model: '{model}' version {version} is not found"))
}

/// What is said of a request that an instance was to execute, and failed.
pub(super) fn instance_failed(model: &str) -> Status {
    Status::internal(format!("Stub process '{model}_0_{FAILING}' is not healthy."))
}

/// What is said of a request that a planted fault lets fail.
pub(super) fn model_error() -> Status {
    Status::internal("the model could not execute the request")
}
