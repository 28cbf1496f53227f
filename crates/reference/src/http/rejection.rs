//! Why a request over HTTP is not answered with what it asks for.

use hyper::StatusCode;
use tonic::{Code, Status};

use super::json::write_text;

/// An error, as a client gets it. The real server says what kind of content it is by where in it the error comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) status: StatusCode,
    pub(super) text: String,
    pub(super) is_json: bool,
}

impl Rejection {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), is_json: true }
    }

    pub(super) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn internal(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// The same, said to be plain text.
    pub(super) fn said_as_text(self) -> Self {
        Self { is_json: false, ..self }
    }

    pub(super) fn body(&self) -> Vec<u8> {
        let mut body = b"{\"error\":".to_vec();
        write_text(&mut body, self.text.as_bytes());
        body.push(b'}');
        body
    }
}

impl From<Status> for Rejection {
    fn from(failure: Status) -> Self {
        Self::new(http_status(failure.code()), failure.message())
    }
}

/// The status that an error of this code has.
pub(in super::super) fn http_status(code: Code) -> StatusCode {
    match code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::AlreadyExists => StatusCode::CONFLICT,
        _ => StatusCode::BAD_REQUEST,
    }
}
