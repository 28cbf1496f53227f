//! Calls over HTTP: one request each, over connections that are kept for the next ones.

mod answer;
mod infer;
mod rest;
mod value;

use std::{fmt, sync::Arc};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{HeaderMap, Method, Request, StatusCode, body::Bytes, header::CONTENT_TYPE};
use hyper_util::{
    client::legacy::{Client as Legacy, Error as LegacyError},
    rt::TokioExecutor,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
pub(super) use rest::Rest;

use super::{
    access::Access,
    call_error::{CallError, reasons},
    codec::RequestTemplate,
    dial::Connector,
    stream::Message,
    tls::tls_failure,
};
use crate::{endpoint::Endpoint, sequence::Step};

/// How many connections are kept that carry nothing just now.
const IDLE_MAX: usize = 4;
/// The most bytes of an answer; more are not read.
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
    Other(String),
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
        match self.exchange(Method::POST, &path, json_bytes, body).await {
            Ok(answered) => answer::message(&step, &answered),
            Err(failure) => Message::Broken(failure.to_string()),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        json_bytes: Option<usize>,
        body: Vec<u8>,
    ) -> Result<Answered, Failure> {
        let other = |error: &dyn std::error::Error| Failure::Other(reasons(error));
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = match json_bytes {
            Some(bytes) => request.header(CONTENT_TYPE, "application/octet-stream").header(HEADER_LENGTH, bytes),
            None if body.is_empty() => request,
            None => request.header(CONTENT_TYPE, "application/json"),
        };
        let mut request = request.body(Full::from(body)).map_err(|error| other(&error))?;
        request.headers_mut().extend(self.access.headers().clone());
        let response = self.client.request(request).await.map_err(Failure::Request)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_MAX).collect().await.map_err(|error| other(&*error))?;
        Ok(Answered { status: head.status, headers: head.headers, body: body.to_bytes() })
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
        if let Failure::Request(error) = &failure
            && let Some(why) = tls_failure(error)
        {
            return Self::NotSecured(why);
        }
        let is_connect = matches!(&failure, Failure::Request(error) if error.is_connect());
        let text = failure.to_string();
        if is_connect { Self::Unreachable(text) } else { Self::NotThisProtocol(over_http(&text)) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => f.write_str(&reasons(error)),
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
