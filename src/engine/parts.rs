//! Which parts of the protocol an endpoint has, and what cannot be checked without the others.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::transport::CallError;

/// A part of the protocol, as the preflight found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it is called.
    pub part: Cow<'static, str>,
    /// Whether the endpoint has it, for who calls.
    pub has: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What could not be checked without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<Cow<'static, str>>,
}

/// A part that the preflight looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Health,
    Streaming,
    Metadata,
    Configuration,
    Statistics,
    TextIds,
}

impl Wanted {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Streaming => "streaming",
            Self::Metadata => "metadata",
            Self::Configuration => "model-configuration",
            Self::Statistics => "statistics",
            Self::TextIds => "text-correlation-ids",
        }
    }

    /// What cannot be checked without it.
    fn checks(self) -> &'static str {
        match self {
            Self::Health => "that server and model say that they are ready",
            Self::Streaming => "anything that goes over streams",
            Self::Metadata => "that the model's metadata fit its configuration, which tells its tensors",
            Self::Configuration => "that the model has a sequence batcher",
            Self::Statistics => "the server's own counts",
            Self::TextIds => "sequences whose correlation IDs are texts",
        }
    }

    /// The call that tells it.
    fn call(self) -> &'static str {
        match self {
            Self::Health => "ServerReady",
            Self::Streaming => "ModelStreamInfer",
            Self::Metadata => "ModelMetadata",
            Self::Configuration => "ModelConfig",
            Self::Statistics => "ModelStatistics",
            Self::TextIds => "correlation IDs that are texts",
        }
    }
}

impl Part {
    /// One that is there.
    pub(super) fn there(wanted: Wanted) -> Self {
        Self { part: wanted.name().into(), has: true, why: None, not_checked: None }
    }

    /// One that is missing.
    pub(super) fn missing(wanted: Wanted, error: &CallError) -> Self {
        Self {
            part: wanted.name().into(),
            has: false,
            why: Some(error.to_string()),
            not_checked: Some(wanted.checks().into()),
        }
    }

    /// One that is missing where there is an error.
    pub(super) fn of(wanted: Wanted, missing: Option<&CallError>) -> Self {
        missing.map_or_else(|| Self::there(wanted), |error| Self::missing(wanted, error))
    }
}

/// What is said of a part that is missing.
pub(super) fn note(wanted: Wanted, error: &CallError) -> String {
    let (checks, call) = (wanted.checks(), wanted.call());
    match error {
        CallError::Unimplemented => format!("not checked: {checks}, because the server has no {call}"),
        CallError::Restricted(why) => {
            format!("not checked: {checks}, because {call} is only for some (-H): {why}")
        }
        other => format!("not checked: {checks}, because {call} cannot be read: {other}"),
    }
}

/// Whether a server lives that gives this answer, and only does not have, or not for everybody, what it was asked for.
pub(super) fn is_missing(error: &CallError) -> bool {
    matches!(error, CallError::Unimplemented | CallError::Restricted(_))
}

/// The first error that says that something is missing; others are errors.
pub(super) fn missing<T>(result: Result<T, CallError>) -> Result<Result<T, CallError>, CallError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if is_missing(&error) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}
