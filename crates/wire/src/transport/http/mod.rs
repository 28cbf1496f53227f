//! Calls over HTTP: one request each, over connections that are kept for the next ones.

mod answer;
mod compression;
mod infer;
mod pool;
mod rest;
mod value;

use std::{fmt, io, sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::Bytes,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(super) use self::infer::asked_for;
use self::pool::Pool;
use super::{
    access::Access,
    call_error::{CallError, reasons, too_large},
    dial::Dial,
    stream::{Message, Told},
    template::RequestTemplate,
    tls::tls_failure,
};
use crate::proto::HEADER_LENGTH;
use workload::{scenario::Compression, sequence::Step};

/// The most bytes of an answer, as it comes and taken apart, where the target says nothing else; more are not read.
const BODY_MAX: usize = 16 << 20;
static BYTES_AND_JSON: HeaderValue = HeaderValue::from_static("application/octet-stream");
static JSON: HeaderValue = HeaderValue::from_static("application/json");
/// A server may close a connection that has carried nothing for so long, whatever is on its way to it.
const MAY_LAPSE_AFTER: Duration = Duration::from_millis(10);
/// What stands in a path as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Connections to one endpoint, each made when all others carry a call. A call that is dropped takes its connection with it.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    pool: Arc<Pool>,
    host: HeaderValue,
}

/// How the steps of one context are called.
pub(super) struct Steps {
    connections: Connections,
    template: RequestTemplate,
    /// The header with the correlation ID, where the run sends one.
    sequence: Option<(HeaderName, HeaderValue)>,
    /// Whether tensors are bytes behind the JSON.
    binary: bool,
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
    /// There is no connection.
    Connect(io::Error),
    /// The connection did not bring an answer.
    Call(hyper::Error),
    /// The same of one that carried nothing for a while, so that the other end may have closed it just then, as HTTP lets it.
    Lapsed(hyper::Error),
    TooLarge(usize),
    Other(String),
}

impl Failure {
    fn of_call(error: hyper::Error, idle: Option<Duration>) -> Self {
        if error.is_incomplete_message() && idle.is_some_and(|idle| idle >= MAY_LAPSE_AFTER) {
            Self::Lapsed(error)
        } else {
            Self::Call(error)
        }
    }
}

/// A request's body.
#[derive(Debug, Default)]
struct Body {
    bytes: Vec<u8>,
    /// How many of them are JSON, where those of tensors follow.
    json_bytes: Option<usize>,
    /// Whether it is one that a server takes compressed, and answers so: only what is to be inferred is.
    is_inference: bool,
    /// What it carries besides what every request does.
    header: Option<(HeaderName, HeaderValue)>,
}

impl Connections {
    pub(super) fn new(dial: Dial) -> Self {
        let host = HeaderValue::try_from(dial.endpoint.address()).expect("an endpoint's host is one of a URI");
        Self { pool: Arc::new(Pool::new(dial)), host }
    }

    pub(super) fn dial(&self) -> &Dial {
        &self.pool.dial
    }

    pub(super) fn access(&self) -> &Access {
        &self.dial().dialer.access
    }

    async fn exchange(&self, method: Method, at: Uri, body: Body) -> Result<Answered, Failure> {
        let mut request = self.request(method, at, body)?;
        let (connection, response) = loop {
            let (mut connection, idle) = self.pool.take().await?;
            match connection.try_send_request(request).await {
                Ok(response) => break (connection, response),
                Err(mut error) => match error.take_message().filter(|_| idle.is_some()) {
                    // The other end had closed a connection that carried nothing, and none of the request was sent.
                    Some(again) => request = again,
                    // It is never sent again: a request that came twice would be two steps.
                    None => return Err(Failure::of_call(error.into_error(), idle)),
                },
            }
        };
        let (head, body) = response.into_parts();
        let most = self.access().terms.message_bytes_max.unwrap_or(BODY_MAX);
        let body = Limited::new(body, most).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { Failure::TooLarge(most) } else { Failure::Other(reasons(&*error)) }
        })?;
        self.pool.keep(connection);
        let body = taken_apart(&head.headers, body.to_bytes(), most)?;
        Ok(Answered { status: head.status, headers: head.headers, body })
    }

    fn request(&self, method: Method, at: Uri, body: Body) -> Result<Request<Full<Bytes>>, Failure> {
        let Body { bytes, json_bytes, is_inference, header } = body;
        let compression = if is_inference { self.access().terms.compression } else { Compression::None };
        let mut request = Request::builder().method(method).uri(at).header(HOST, &self.host);
        request = match json_bytes {
            Some(bytes) => request.header(CONTENT_TYPE, &BYTES_AND_JSON).header(HEADER_LENGTH, bytes),
            None if bytes.is_empty() => request,
            None => request.header(CONTENT_TYPE, &JSON),
        };
        if compression != Compression::None {
            request = request.header(CONTENT_ENCODING, compression.name()).header(ACCEPT_ENCODING, compression.name());
        }
        let body = Full::from(compression::compress(compression, bytes));
        let mut request = request.body(body).map_err(|error| Failure::Other(reasons(&error)))?;
        let more = &self.access().terms.headers;
        if !more.is_empty() {
            request.headers_mut().extend(more.clone());
        }
        request.headers_mut().extend(header);
        Ok(request)
    }
}

impl Steps {
    pub(super) fn new(connections: Connections, template: RequestTemplate, binary: bool) -> Self {
        let sequence = connections.access().sequence_header(&template);
        Self { connections, template, sequence, binary }
    }

    /// Sends a step, and brings what came of it.
    pub(super) async fn call(self: Arc<Self>, step: Step) -> Told {
        let (body, elsewhere) = infer::encode(&self.template, &step, self.binary);
        let body = Body { header: self.sequence.clone(), ..body };
        let at = elsewhere.unwrap_or_else(|| self.template.parts.place.clone());
        let (by, message) = match self.connections.exchange(Method::POST, at, body).await {
            Ok(answered) => (self.connections.access().server_of(&answered.headers), answer::message(&step, &answered)),
            Err(failure @ Failure::Lapsed(_)) => (None, Message::Lapsed(failure.to_string())),
            Err(failure) => (None, Message::Broken(failure.to_string())),
        };
        Told { by, message }
    }
}

/// An answer's body as it was before it was compressed.
fn taken_apart(headers: &HeaderMap, body: Bytes, most: usize) -> Result<Bytes, Failure> {
    let Some(encoding) = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes).map(String::from_utf8_lossy) else {
        return Ok(body);
    };
    let unknown = || Failure::Other(format!("the answer is compressed as '{encoding}', which is not known here"));
    let compression = compression::named(&encoding).ok_or_else(unknown)?;
    let unreadable = |error: io::Error| Failure::Other(format!("the answer is not {encoding}, as it says: {error}"));
    compression::decompress(compression, body, most).map_err(unreadable)?.ok_or(Failure::TooLarge(most))
}

/// What answers does not speak the protocol over HTTP.
fn over_http(why: &str) -> String {
    format!("HTTP/1.1 as an inference server ({why})")
}

/// The path of a model, and what comes below it.
pub(super) fn path_of(model: &str, below: &str) -> Uri {
    path_under("/v2/models", model, below)
}

/// The same of a version of the model; of none, where the server takes the newest.
pub(super) fn path_of_version(model: &str, version: &str, below: &str) -> Uri {
    let within = if version.is_empty() { below.to_owned() } else { format!("/versions/{version}{below}") };
    path_of(model, &within)
}

fn path_under(models: &str, model: &str, below: &str) -> Uri {
    let path = format!("{models}/{}{below}", utf8_percent_encode(model, UNRESERVED));
    path.parse().expect("what a path cannot hold is escaped")
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

    /// How many outputs there are, of an answer that is an error.
    fn outputs(&self) -> u32 {
        let json: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let outputs = json.as_ref().and_then(|json| json.get("outputs")?.as_array()).map_or(0, Vec::len);
        u32::try_from(outputs).unwrap_or(u32::MAX)
    }

    /// What an answer says that is none.
    fn rejection(&self) -> CallError {
        match (self.status, self.error()) {
            (status, error) if self.restricts() => {
                CallError::Restricted(error.unwrap_or_else(|| format!("HTTP status {status}")))
            }
            (_, Some(text)) => CallError::Rejected(text),
            (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, None) => CallError::Unimplemented,
            (status, None) => CallError::NotThisProtocol(over_http(&format!("status {status}"))),
        }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        match &failure {
            Failure::Connect(error) => {
                tls_failure(error).map_or(Self::Unreachable(failure.to_string()), Self::NotSecured)
            }
            Failure::TooLarge(most) => Self::TooLarge(*most),
            Failure::Lapsed(_) => Self::Unreachable(failure.to_string()),
            Failure::Call(_) | Failure::Other(_) => Self::NotThisProtocol(over_http(&failure.to_string())),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => f.write_str(&reasons(error)),
            Self::Call(error) | Self::Lapsed(error) => f.write_str(&reasons(error)),
            Self::TooLarge(most) => too_large(f, *most),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests;
