//! Why a call failed, and in which words that is told.

use std::{error::Error, fmt, time::Duration};

use tonic::{Code, Status};

use super::tls::tls_failure;

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
    Refused(String),
    /// The answer is larger than so many bytes.
    TooLarge(usize),
    /// No endpoint of the server speaks this.
    NoEndpoint(&'static str),
}

impl CallError {
    /// The same with its text put otherwise.
    pub(super) fn with_text(self, put: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Unreachable(text) => Self::Unreachable(put(text)),
            Self::NotSecured(text) => Self::NotSecured(put(text)),
            Self::Restricted(text) => Self::Restricted(put(text)),
            Self::NotThisProtocol(text) => Self::NotThisProtocol(put(text)),
            Self::Refused(text) => Self::Refused(put(text)),
            other @ (Self::TimedOut(_) | Self::Unimplemented | Self::TooLarge(_) | Self::NoEndpoint(_)) => other,
        }
    }

    pub(super) fn no_endpoint(what: &'static str) -> Self {
        Self::NoEndpoint(what)
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
            (Code::Unavailable, _) => Self::Unreachable(text),
            (_, true) => Self::NotThisProtocol(format!("gRPC ({text})")),
            // Which is said of a call, too, whose compression a server does not have.
            (Code::Unimplemented, false) if text.to_lowercase().contains("compress") => Self::Refused(text),
            (Code::Unimplemented, false) => Self::Unimplemented,
            (_, false) => Self::Refused(text),
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

/// A status in words for people.
pub(super) fn describe(status: &Status) -> String {
    if let Some(cause) = status.source() {
        return reasons(cause);
    }
    let message = status.message().trim();
    if message.is_empty() { status.code().description().to_owned() } else { message.to_owned() }
}

/// An error and what it came from, innermost last, each said once.
pub(super) fn reasons(error: &dyn Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        // The library's word for 'it did not work', which says nothing that its cause does not.
        let says_nothing = text == "transport error" && error.source().is_some();
        if !says_nothing && !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

pub(super) fn too_large(f: &mut fmt::Formatter<'_>, most: usize) -> fmt::Result {
    write!(f, "the answer is larger than {most} bytes (target.message_bytes_max)")
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => {
                write!(f, "no connection: {why}; is a server running there, and is this its port?")
            }
            Self::TimedOut(limit) => write!(f, "no answer within {} ms", limit.as_millis()),
            Self::NotSecured(why) => write!(f, "the connection cannot be secured: {why}"),
            Self::Restricted(why) => {
                write!(f, "the server lets only some in: {why}; give the header that it wants with -H 'NAME: VALUE'")
            }
            Self::NotThisProtocol(why) => {
                write!(f, "what answers does not speak the inference protocol over {why}")
            }
            Self::Unimplemented => f.write_str("the server does not have this call"),
            Self::Refused(why) => write!(f, "the server said: {why}"),
            Self::TooLarge(most) => too_large(f, *most),
            Self::NoEndpoint(what) => write!(f, "there is no endpoint for {what}"),
        }
    }
}

impl Error for CallError {}
