//! Why a call failed, and in which words that is told.

use std::{error::Error, fmt, iter, time::Duration};

use tonic::{Code, Status};

use super::tls::tls_failure;
use workload::endpoint::Endpoint;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No connection could be made.
    Unreachable(String),
    /// The call was not answered within the limit.
    TimedOut(Duration),
    /// A connection was made, and could not be secured.
    NotSecured(String),
    /// The server lets nobody do that who does not say who he is.
    Restricted(String),
    /// Something answered that does not speak this protocol.
    NotThisProtocol(String),
    /// The server does not have this call.
    Unimplemented,
    /// The server said no.
    Rejected(String),
    /// The response is larger than so many bytes.
    TooLarge(usize),
    /// No endpoint of the server speaks this.
    NoEndpoint(&'static str),
    /// One of several servers could not be asked: which, and why.
    OfReplica(String, String),
}

impl CallError {
    /// The same of one of several servers. What a server lacks the others lack, too.
    pub(super) fn of_replica(self, endpoint: &Endpoint) -> Self {
        match self {
            Self::Unimplemented => Self::Unimplemented,
            Self::Restricted(why) => Self::Restricted(format!("{endpoint}: {why}")),
            Self::Rejected(why) => Self::Rejected(format!("{endpoint}: {why}")),
            other => Self::OfReplica(endpoint.to_string(), other.to_string()),
        }
    }

    /// The same with its text put otherwise.
    pub(super) fn with_text(self, put: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Unreachable(text) => Self::Unreachable(put(text)),
            Self::NotSecured(text) => Self::NotSecured(put(text)),
            Self::Restricted(text) => Self::Restricted(put(text)),
            Self::NotThisProtocol(text) => Self::NotThisProtocol(put(text)),
            Self::Rejected(text) => Self::Rejected(put(text)),
            Self::OfReplica(endpoint, text) => Self::OfReplica(endpoint, put(text)),
            other @ (Self::TimedOut(_) | Self::Unimplemented | Self::TooLarge(_) | Self::NoEndpoint(_)) => other,
        }
    }
}

impl From<&Status> for CallError {
    fn from(status: &Status) -> Self {
        let text = describe(status);
        if let Some(why) = status.source().and_then(tls_failure) {
            return Self::NotSecured(why);
        }
        if is_restricted(status) {
            return Self::Restricted(text);
        }
        match (status.code(), !is_from_the_server(status)) {
            // Triton has this code, too, for what it does not do: "explicit model load / unload is not allowed". A proxy that
            // stands before a server that is gone says "upstream request timeout", which is about no call.
            (Code::Unavailable, false) if is_about_the_call(status) && !text.contains("upstream") => {
                Self::Rejected(text)
            }
            (Code::Unavailable, _) => Self::Unreachable(text),
            (_, true) => Self::NotThisProtocol(format!("gRPC ({text})")),
            // Which is said of a call, too, whose compression a server does not have.
            (Code::Unimplemented, false) if text.to_lowercase().contains("compress") => Self::Rejected(text),
            (Code::Unimplemented, false) => Self::Unimplemented,
            (_, false) => Self::Rejected(text),
        }
    }
}

/// Whether the server wants to know who calls. Triton says it with a code that else means that it is not there.
fn is_restricted(status: &Status) -> bool {
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => true,
        Code::Unavailable => status.source().is_none() && status.message().starts_with("This protocol is restricted"),
        _ => false,
    }
}

/// Whether a status came in gRPC's own headers: not from an HTTP server that knows no gRPC, and not from the library, whose statuses
/// have a cause, or one of these texts.
pub(super) fn is_from_the_server(status: &Status) -> bool {
    let of_the_library = ["grpc-status header missing", "Missing response message"];
    status.source().is_none() && !of_the_library.iter().any(|text| status.message().starts_with(text))
}

/// Whether a server's words are about what it was asked for, and not about its connection: they name a model, a request or a sequence.
pub(super) fn is_about_the_call(status: &Status) -> bool {
    let text = status.message().to_lowercase();
    ["model", "request", "sequence"].iter().any(|word| text.contains(word))
}

/// A status in words for people.
pub(super) fn describe(status: &Status) -> String {
    if let Some(cause) = status.source() {
        return reasons(cause);
    }
    let message = status.message().trim();
    if message.is_empty() { status.code().description().to_owned() } else { message.to_owned() }
}

/// The same, with the code that the server ended a stream with.
pub(super) fn describe_with_code(status: &Status) -> String {
    if is_from_the_server(status) { format!("{:?}: {}", status.code(), describe(status)) } else { describe(status) }
}

/// An error and what it came from, innermost last.
pub(super) fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}

/// An error and what it came from, innermost last, each said once.
pub(super) fn reasons(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in chain(error) {
        let text = error.to_string();
        // The library's word for 'it did not work', which says nothing that its cause does not.
        let says_nothing = text == "transport error" && error.source().is_some();
        if !says_nothing && !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

pub(super) fn too_large(f: &mut fmt::Formatter<'_>, most: usize) -> fmt::Result {
    write!(f, "the response is larger than {most} bytes (target.message_bytes_max)")
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => {
                write!(f, "no connection: {why}; is a server running there, and is this its port?")
            }
            Self::TimedOut(limit) => write!(f, "no response within {} ms", limit.as_millis()),
            Self::NotSecured(why) => write!(f, "the connection cannot be secured: {why}"),
            Self::Restricted(why) => {
                write!(f, "the server wants authentication: {why}; give its header with -H 'NAME: VALUE'")
            }
            Self::NotThisProtocol(why) => write!(f, "the endpoint does not speak {why}"),
            Self::Unimplemented => f.write_str("the server does not have this call"),
            Self::Rejected(why) => write!(f, "the server said: {why}"),
            Self::TooLarge(most) => too_large(f, *most),
            Self::NoEndpoint(what) => write!(f, "there is no endpoint for {what}"),
            Self::OfReplica(endpoint, why) => write!(f, "{endpoint}: {why}"),
        }
    }
}

impl Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_is_told_with_its_code() {
        assert_eq!(describe_with_code(&Status::unavailable("enter idle")), "Unavailable: enter idle");
        let of_the_library = Status::from_error("connection reset".into());
        assert_eq!(describe_with_code(&of_the_library), "connection reset");
    }

    #[test]
    fn a_server_that_rejects_a_call_is_there() {
        let of = |status| CallError::from(&status);
        let text = "explicit model load / unload is not allowed if polling is enabled";
        assert_eq!(of(Status::unavailable(text)), CallError::Rejected(text.to_owned()));
        for text in ["enter idle", "connection refused", "upstream request timeout", ""] {
            assert!(matches!(of(Status::unavailable(text)), CallError::Unreachable(_)), "{text}");
        }
        let of_the_library = Status::from_error("no request could be sent".into());
        assert!(!matches!(of(of_the_library), CallError::Rejected(_)));
        let restricted = "This protocol is restricted, expecting header 'triton-grpc-protocol-key'";
        assert!(matches!(of(Status::unavailable(restricted)), CallError::Restricted(_)));
    }
}
