//! Calls over HTTP: one request each, over connections that are kept for the next ones.

mod answer;
mod compression;
mod infer;
mod rest;
mod value;

use std::{fmt, sync::Arc};

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Bytes,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue},
};
use hyper_util::{
    client::legacy::{Client as Legacy, Error as LegacyError},
    rt::TokioExecutor,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
pub(super) use rest::Rest;

use self::compression::Problem;
use super::{
    access::Access,
    call_error::{CallError, reasons, too_large},
    codec::RequestTemplate,
    dial::Connector,
    stream::Message,
    tls::tls_failure,
};
use crate::{endpoint::Endpoint, scenario::Compression, sequence::Step};

/// How many connections are kept that carry nothing just now.
const IDLE_MAX: usize = 4;
/// The most bytes of an answer, as it comes and taken apart, where the target says nothing else; more are not read.
const BODY_MAX: usize = 16 << 20;
/// How many bytes of a request or an answer are JSON, where bytes of tensors follow.
const HEADER_LENGTH: &str = "inference-header-content-length";
/// What stands in a path as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Connections to one endpoint, each made when all others carry a call. A call that is dropped takes its connection with it.
#[derive(Clone)]
pub(super) struct Connections {
    client: Arc<Legacy<Connector, Full<Bytes>>>,
    base: Arc<str>,
    access: Access,
}

/// What a request was answered with.
#[derive(Debug)]
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Why a request was not answered.
#[derive(Debug)]
enum Failure {
    Request(LegacyError),
    TooLarge(usize),
    Other(String),
}

/// A request's body.
#[derive(Debug, Default)]
struct Body {
    bytes: Vec<u8>,
    /// How many of them are JSON, where those of tensors follow.
    json_bytes: Option<usize>,
    /// Whether it is one that a server takes compressed, and answers so: only what is to be inferred is.
    is_inference: bool,
}

impl Connections {
    pub(super) fn new(endpoint: &Endpoint, connector: Connector) -> Self {
        let access = connector.0.access.clone();
        let client = Legacy::builder(TokioExecutor::new())
            // A request that was sent twice would be two steps.
            .retry_canceled_requests(false)
            .pool_idle_timeout(None)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        Self { client: Arc::new(client), base: endpoint.uri().into(), access }
    }

    /// What it takes to be let in.
    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// Sends a step, and brings what came of it.
    pub(super) async fn infer(self, template: RequestTemplate, step: Step, binary: bool) -> Message {
        let infer::Encoded { path, json_bytes, body } = infer::encode(&template.parts, &step, binary);
        let body = Body { bytes: body, json_bytes, is_inference: true };
        match self.exchange(Method::POST, &path, body).await {
            Ok(answered) => answer::message(&step, &answered),
            Err(failure) => Message::Broken(failure.to_string()),
        }
    }

    async fn exchange(&self, method: Method, path: &str, body: Body) -> Result<Answered, Failure> {
        let request = self.request(method, path, body)?;
        let response = self.client.request(request).await.map_err(Failure::Request)?;
        let (head, body) = response.into_parts();
        let most = self.access.message_bytes_max().unwrap_or(BODY_MAX);
        let body = Limited::new(body, most).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { Failure::TooLarge(most) } else { Failure::Other(reasons(&*error)) }
        })?;
        let body = taken_apart(&head.headers, body.to_bytes(), most)?;
        Ok(Answered { status: head.status, headers: head.headers, body })
    }

    fn request(&self, method: Method, path: &str, body: Body) -> Result<Request<Full<Bytes>>, Failure> {
        let Body { bytes, json_bytes, is_inference } = body;
        let compression = if is_inference { self.access.compression() } else { Compression::None };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = match json_bytes {
            Some(bytes) => request.header(CONTENT_TYPE, "application/octet-stream").header(HEADER_LENGTH, bytes),
            None if bytes.is_empty() => request,
            None => request.header(CONTENT_TYPE, "application/json"),
        };
        if let Some(name) = compression::name(compression) {
            request = request.header(CONTENT_ENCODING, name).header(ACCEPT_ENCODING, name);
        }
        let body = Full::from(compression::compress(compression, bytes));
        let mut request = request.body(body).map_err(|error| Failure::Other(reasons(&error)))?;
        request.headers_mut().extend(self.access.headers().clone());
        Ok(request)
    }
}

/// An answer's body as it was before it was compressed.
fn taken_apart(headers: &HeaderMap, body: Bytes, most: usize) -> Result<Bytes, Failure> {
    let Some(encoding) = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes).map(String::from_utf8_lossy) else {
        return Ok(body);
    };
    let unknown = || Failure::Other(format!("the answer is compressed as '{encoding}', which is not known here"));
    let compression = compression::named(&encoding).ok_or_else(unknown)?;
    compression::decompress(compression, body, most).map_err(|problem| match problem {
        Problem::TooLarge => Failure::TooLarge(most),
        Problem::Unreadable(why) => Failure::Other(format!("the answer is not {encoding}, as it says: {why}")),
    })
}

/// What answers does not speak the protocol over HTTP.
fn over_http(why: &str) -> String {
    format!("HTTP ({why})")
}

/// The path of a model, and what comes below it.
fn path_of(model: &str, below: &str) -> String {
    format!("/v2/models/{}{below}", utf8_percent_encode(model, UNRESERVED))
}

impl Answered {
    /// Whether the server, or what is before it, wants to know who calls.
    fn restricts(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// What the server says is wrong, where it says that as the protocol has it.
    fn error(&self) -> Option<String> {
        let json: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        Some(json.get("error")?.as_str()?.to_owned())
    }

    /// What an answer says that is none.
    fn refusal(&self) -> CallError {
        match (self.status, self.error()) {
            (status, error) if self.restricts() => {
                CallError::Restricted(error.unwrap_or_else(|| format!("HTTP status {status}")))
            }
            (_, Some(text)) => CallError::Refused(text),
            (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, None) => CallError::Unimplemented,
            (status, None) => CallError::NotThisProtocol(over_http(&format!("status {status}"))),
        }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        if let Failure::Request(error) = &failure
            && let Some(why) = tls_failure(error)
        {
            return Self::NotSecured(why);
        }
        match &failure {
            Failure::Request(error) if error.is_connect() => Self::Unreachable(failure.to_string()),
            Failure::TooLarge(most) => Self::TooLarge(*most),
            Failure::Request(_) | Failure::Other(_) => Self::NotThisProtocol(over_http(&failure.to_string())),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => f.write_str(&reasons(error)),
            Self::TooLarge(most) => too_large(f, *most),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.base).finish()
    }
}

#[cfg(test)]
mod tests;
