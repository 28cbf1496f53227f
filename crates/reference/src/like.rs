//! Which release of Triton a server is like, where releases differ.

use std::str::FromStr;

use tonic::Status;

use super::{
    scheduler::SequenceId,
    spec::{Signal, Spec},
    tensor::Datatype,
};

workload::table! {
    /// A release of Triton.
    #[derive(Default)]
    pub enum Like {
        /// 24.10 (2.51.0).
        #[default]
        Release2410 = "24.10";
        /// 25.01 (2.54.0): a correlation ID of another type than the model is told is rejected.
        Release2501 = "25.01";
    }
}

impl FromStr for Like {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or("give 24.10 or 25.01")
    }
}

impl Like {
    /// Rejects a text as the correlation ID of a model that is told numbers, and a number where the model is told texts. The real
    /// server does this before it looks whether the ID is empty.
    pub(super) fn check(self, id: &SequenceId, model: &str, spec: &Spec) -> Result<(), Status> {
        let told = spec.control(Signal::CorrelationId).filter(|_| self == Self::Release2501);
        let Some(told) = told else { return Ok(()) };
        let (is, fits) = match id {
            SequenceId::Number(_) => ("UINT64", told.datatype != Datatype::Bytes),
            SequenceId::Text(_) => ("BYTES", told.datatype == Datatype::Bytes),
        };
        if fits {
            return Ok(());
        }
        let expects = told.datatype.name();
        let text =
            format!("sequence batching control 'CORRID' data-type is '{is}', but model '{model}' expects '{expects}'");
        Err(Status::invalid_argument(text))
    }
}
