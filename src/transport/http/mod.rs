//! Calls over HTTP: one request each, over connections that are kept for the next ones.

mod answer;
mod infer;
mod pool;
mod rest;
mod value;

use std::{fmt, io, sync::Arc};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HOST, HeaderValue},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pool::Pool;
pub(super) use rest::Rest;

use super::{
    access::Access,
    client::{CallError, reasons},
    codec::RequestTemplate,
    dial::Connector,
    stream::Message,
    tls::tls_failure,
};
use crate::{endpoint::Endpoint, sequence::Step};

/// The most bytes of an answer; more are not read.
const BODY_MAX: usize = 16 << 20;
/// How many bytes of a request or an answer are JSON, where bytes of tensors follow.
const HEADER_LENGTH: &str = "inference-header-content-length";
/// What stands in a path as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Connections to one endpoint, each made when all others carry a call. A call that is dropped takes its connection with it.
#[derive(Clone)]
pub(super) struct Connections {
    pool: Arc<Pool>,
    host: HeaderValue,
    access: Access,
}

/// How the steps of one context are called.
pub(super) struct Steps {
    connections: Connections,
    template: RequestTemplate,
    /// Where they go.
    place: Uri,
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
    Other(String),
}

impl Connections {
    pub(super) fn new(endpoint: &Endpoint, connector: Connector) -> Self {
        let access = connector.0.access.clone();
        let host = HeaderValue::try_from(endpoint.address()).expect("an endpoint's host is one of a URI");
        Self { pool: Arc::new(Pool::new(connector)), host, access }
    }

    /// What it takes to be let in.
    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    async fn exchange(
        &self,
        method: Method,
        path: impl TryInto<Uri, Error: Into<hyper::http::Error>>,
        json_bytes: Option<usize>,
        body: Vec<u8>,
    ) -> Result<Answered, Failure> {
        let other = |error: &dyn std::error::Error| Failure::Other(reasons(error));
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        request = match json_bytes {
            Some(bytes) => request.header(CONTENT_TYPE, "application/octet-stream").header(HEADER_LENGTH, bytes),
            None if body.is_empty() => request,
            None => request.header(CONTENT_TYPE, "application/json"),
        };
        let mut request = request.body(Full::from(body)).map_err(|error| other(&error))?;
        if !self.access.headers().is_empty() {
            request.headers_mut().extend(self.access.headers().clone());
        }
        let mut connection = self.pool.take().await?;
        // It is never sent again: a request that came twice would be two steps.
        let (head, body) = connection.send_request(request).await.map_err(Failure::Call)?.into_parts();
        let body = Limited::new(body, BODY_MAX).collect().await.map_err(|error| other(&*error))?;
        self.pool.keep(connection);
        Ok(Answered { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

impl Steps {
    pub(super) fn new(connections: Connections, template: RequestTemplate, binary: bool) -> Self {
        Self { place: infer::place_of(&template.parts), connections, template, binary }
    }

    /// Sends a step, and brings what came of it.
    pub(super) async fn call(self: Arc<Self>, step: Step) -> Message {
        let infer::Encoded { elsewhere, json_bytes, body } = infer::encode(&self.template.parts, &step, self.binary);
        let answered = match elsewhere {
            None => self.connections.exchange(Method::POST, self.place.clone(), json_bytes, body).await,
            Some(path) => self.connections.exchange(Method::POST, path, json_bytes, body).await,
        };
        match answered {
            Ok(answered) => answer::message(&step, &answered),
            Err(failure) => Message::Broken(failure.to_string()),
        }
    }
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
    /// What the server says is wrong, where it says that as the protocol has it.
    fn error(&self) -> Option<String> {
        let json: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        Some(json.get("error")?.as_str()?.to_owned())
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        match &failure {
            Failure::Connect(error) => {
                tls_failure(error).map_or(Self::Unreachable(failure.to_string()), Self::NotSecured)
            }
            Failure::Call(_) | Failure::Other(_) => Self::NotThisProtocol(over_http(&failure.to_string())),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => f.write_str(&reasons(error)),
            Self::Call(error) => f.write_str(&reasons(error)),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.host).finish()
    }
}

#[cfg(test)]
mod tests;
