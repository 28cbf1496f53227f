//! Which parts of the protocol an endpoint has, and what a run says of itself before it begins: what it cannot check without the others,
//! and what it does otherwise than asked.

use std::{borrow::Cow, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Hints;
use wire::transport::CallError;
use workload::{header::HeaderName, said::said, wording::counted};

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

/// What cannot be checked without a part, and the call that tells it.
struct Row {
    checks: &'static str,
    call: &'static str,
}

workload::table! {
    /// A part that the preflight looks for.
    pub(crate) enum Wanted: Row {
        /// Whether it says how it is.
        Health = "health", Row { checks: "whether the server and the model are ready", call: "ServerReady" };
        /// Streams of requests.
        Streaming = "streaming", Row { checks: "anything that goes over streams", call: "ModelStreamInfer" };
        /// Which tensors the model has.
        Metadata = "metadata", Row { checks: "whether the model's metadata fit its configuration", call: "ModelMetadata" };
        /// How the model is set up.
        Configuration = "model-configuration", Row { checks: "whether the model has a sequence batcher", call: "ModelConfig" };
        /// How many requests it counts.
        Statistics = "statistics", Row { checks: "the server's own counts", call: "ModelStatistics" };
        /// Correlation IDs that are texts.
        TextIds = "text-correlation-ids", Row {
            checks: "sequences whose correlation IDs are texts",
            call: "support of text correlation IDs"
        };
    }
}

impl Part {
    /// One that is missing where there is an error, and else there.
    pub(crate) fn of(wanted: Wanted, missing: Option<&CallError>) -> Self {
        Self {
            part: wanted.name().into(),
            has: missing.is_none(),
            why: missing.map(CallError::to_string),
            not_checked: missing.map(|_| wanted.row().checks.into()),
        }
    }
}

pub(crate) fn note(wanted: Wanted, error: &CallError) -> Note {
    let Row { checks, call } = wanted.row();
    Note::NotChecked(match error {
        CallError::Unimplemented => format!("{checks}, because the server has no {call}"),
        CallError::Restricted(why) => format!("{checks}, because {call} is only for some callers (-H): {why}"),
        other => format!("{checks}, because {call} cannot be read: {other}"),
    })
}

/// Whether a server lives that gives this response, and only does not have, or not for everybody, what it was asked for.
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

/// What a run will do otherwise than asked, or cannot check, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// This is not checked, and why.
    NotChecked(String),
    /// This hint is not used, because the model's configuration tells it.
    NotUsed {
        /// The hint's name, which is that of its flag.
        hint: String,
        /// What it says.
        value: String,
    },
    /// Anything else.
    Other(String),
}

impl Note {
    /// That so many errors named no request while several were under way; nothing where there were none.
    pub(crate) fn unaddressed(count: u64) -> Option<Self> {
        let what = counted(count, "error");
        let told = format!(
            "{what} over streams: none named its request while several were under way; have one request under way at a time \
             (sending.window = 1)"
        );
        (count > 0).then_some(Self::NotChecked(told))
    }

    /// That no response had the header that names the server.
    pub(crate) fn no_server_header(name: &HeaderName) -> Self {
        Self::NotChecked(format!(
            "which server answered: no response carried the header '{name}' (--server-header); have each server or the load balancer set it"
        ))
    }

    /// One for each of these hints.
    pub(super) fn not_used(hints: &Hints) -> impl Iterator<Item = Self> {
        said(hints, &Hints::default()).into_iter().map(|(hint, value)| Self::NotUsed { hint, value })
    }
}

impl<S: Into<String>> From<S> for Note {
    fn from(sentence: S) -> Self {
        Self::Other(sentence.into())
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotChecked(what) => write!(f, "not checked: {what}"),
            Self::NotUsed { hint, value } => {
                write!(f, "not used: --{hint} {value}: the model's configuration tells it")
            }
            Self::Other(sentence) => f.write_str(sentence),
        }
    }
}
