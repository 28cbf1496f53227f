//! Which parts of the protocol an endpoint has, and what cannot be checked without the others.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Note;
use wire::transport::CallError;

/// A part of the protocol, as the preflight found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
pub(crate) enum Wanted {
    Health,
    Streaming,
    Metadata,
    Configuration,
    Statistics,
    TextIds,
}

impl Wanted {
    pub(crate) fn name(self) -> &'static str {
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
            Self::Health => "whether the server and the model are ready",
            Self::Streaming => "anything that goes over streams",
            Self::Metadata => "whether the model's metadata fit its configuration",
            Self::Configuration => "whether the model has a sequence batcher",
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
            Self::TextIds => "support of text correlation IDs",
        }
    }
}

impl Part {
    /// One that is there.
    pub(crate) fn there(wanted: Wanted) -> Self {
        Self { part: wanted.name().into(), has: true, why: None, not_checked: None }
    }

    /// One that is missing.
    pub(crate) fn missing(wanted: Wanted, error: &CallError) -> Self {
        Self {
            part: wanted.name().into(),
            has: false,
            why: Some(error.to_string()),
            not_checked: Some(wanted.checks().into()),
        }
    }

    /// One that is missing where there is an error.
    pub(crate) fn of(wanted: Wanted, missing: Option<&CallError>) -> Self {
        missing.map_or_else(|| Self::there(wanted), |error| Self::missing(wanted, error))
    }
}

/// What is said of a part that is missing.
pub(crate) fn note(wanted: Wanted, error: &CallError) -> Note {
    let (checks, call) = (wanted.checks(), wanted.call());
    Note::NotChecked(match error {
        CallError::Unimplemented => format!("{checks}, because the server has no {call}"),
        CallError::Restricted(why) => format!("{checks}, because {call} is only for some callers (-H): {why}"),
        other => format!("{checks}, because {call} cannot be read: {other}"),
    })
}

/// Every note that there may be of a part.
#[cfg(test)]
pub(crate) fn every_note() -> Vec<Note> {
    let why = || "WHY".to_owned();
    let missing = [CallError::Unimplemented, CallError::Restricted(why())];
    let others = [
        CallError::Unreachable(why()),
        CallError::TimedOut(std::time::Duration::from_secs(5)),
        CallError::NotSecured(why()),
        CallError::NotThisProtocol("gRPC (WHY)".to_owned()),
        CallError::Refused(why()),
        CallError::TooLarge(4096),
        CallError::NoEndpoint("HTTP"),
    ];
    // Without these the run goes on only where they are missing.
    let parts = [Wanted::Health, Wanted::Metadata, Wanted::Configuration, Wanted::Statistics];
    let notes = parts.iter().flat_map(|part| missing.iter().map(|error| note(*part, error)));
    notes.chain(others.iter().map(|error| note(Wanted::Statistics, error))).collect()
}

/// Whether a server lives that gives this answer, and only does not have, or not for everybody, what it was asked for.
pub(crate) fn is_missing(error: &CallError) -> bool {
    matches!(error, CallError::Unimplemented | CallError::Restricted(_))
}

/// The first error that says that something is missing; others are errors.
pub(crate) fn missing<T>(result: Result<T, CallError>) -> Result<Result<T, CallError>, CallError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if is_missing(&error) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}
