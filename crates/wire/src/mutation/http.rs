//! Carries the calls of one connection over HTTP/1.1, each way message by message.

use std::{future::pending, sync::Arc};

use futures_util::{StreamExt as _, future::ready, stream};
use http_body_util::{BodyExt as _, BodyStream, Empty, Full, StreamBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Bytes, Frame, Incoming},
    client,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING},
    server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;

use super::{
    Failure, Mutation, Mutations, Sent,
    change::{Changed, ERROR},
    frames::LONGEST,
    json::{Asked, Body, Said},
};
use crate::{net::Socket, transport::HEADER_LENGTH};

/// What a call is, as far as that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Infer,
    Statistics,
    Ready,
    Other,
}

impl Call {
    fn of<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        match path.rsplit('/').next() {
            _ if !path.starts_with("/v2/models/") => Self::Other,
            Some("infer") if request.method() == Method::POST => Self::Infer,
            Some("stats") => Self::Statistics,
            Some("ready") => Self::Ready,
            _ => Self::Other,
        }
    }
}

/// A connection: its calls follow one another.
struct Way {
    upstream: Mutex<Upstream>,
    mutations: Arc<Mutations>,
}

struct Upstream {
    sender: client::conn::http1::SendRequest<Sent>,
    /// The last response that was no error.
    before: Option<Body>,
}

/// Carries a connection to its end.
pub(super) async fn carry(near: Socket, far: Socket, mutations: Arc<Mutations>) {
    let mut builder = client::conn::http1::Builder::new();
    builder.preserve_header_case(true);
    let Ok((sender, connection)) = builder.handshake(TokioIo::new(far)).await else { return };
    let upwards = tokio::spawn(connection);
    let way = Arc::new(Way { upstream: Mutex::new(Upstream { sender, before: None }), mutations });
    let service = service_fn(move |request| Arc::clone(&way).forward(request));
    let mut builder = server::conn::http1::Builder::new();
    builder.preserve_header_case(true);
    // A client that is gone, or that speaks otherwise, is the end of it.
    let _ = builder.serve_connection(TokioIo::new(near), service).await;
    upwards.abort();
}

/// A message's body.
enum Whole {
    Read(Bytes),
    /// It is longer than what is looked at, and passes as it is.
    Long(Sent),
}

async fn whole(mut body: Incoming) -> Result<Whole, Failure> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > LONGEST {
            let begin = stream::once(ready(Ok(Frame::data(read.into()))));
            return Ok(Whole::Long(
                StreamBody::new(begin.chain(BodyStream::new(body))).map_err(Into::into).boxed_unsync(),
            ));
        }
    }
    Ok(Whole::Read(read.into()))
}

fn sent(bytes: Bytes) -> Sent {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// How many bytes of a body are JSON, where others are behind it.
fn json_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(&HEADER_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Changes what is in a message, where that can be read.
fn change(headers: &mut HeaderMap, bytes: &mut Bytes, change: impl FnOnce(&mut Body) -> Changed) {
    let is_compressed = headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
    let body = if is_compressed { None } else { Body::read(bytes, json_length(headers)) };
    if let Some(mut body) = body
        && change(&mut body)
    {
        *bytes = write(headers, body);
    }
}

/// The bytes of a body, of which a head says how many are JSON.
fn write(headers: &mut HeaderMap, body: Body) -> Bytes {
    let (bytes, json) = body.write();
    match json {
        Some(json) => _ = headers.insert(&HEADER_LENGTH, json.into()),
        None => _ = headers.remove(&HEADER_LENGTH),
    }
    bytes.into()
}

/// Has a head say how long the body is that was read as a whole.
fn measure(headers: &mut HeaderMap, bytes: &Bytes) {
    headers.remove(TRANSFER_ENCODING);
    headers.insert(CONTENT_LENGTH, bytes.len().into());
}

/// Reads a response as a whole; one that is too long is passed on.
async fn read(response: Response<Incoming>) -> Result<Result<Response<Bytes>, Response<Sent>>, Failure> {
    let (head, body) = response.into_parts();
    Ok(match whole(body).await? {
        Whole::Read(bytes) => Ok(Response::from_parts(head, bytes)),
        Whole::Long(body) => Err(Response::from_parts(head, body)),
    })
}

/// Has a response say this in place of what it says.
fn replace(response: &mut Response<Bytes>, status: StatusCode, body: Body) {
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = write(response.headers_mut(), body);
}

fn finished(mut response: Response<Bytes>) -> Response<Sent> {
    let bytes = response.body().clone();
    measure(response.headers_mut(), &bytes);
    response.map(sent)
}

impl Way {
    async fn forward(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Sent>, Failure> {
        let mut upstream = self.upstream.lock().await;
        let call = Call::of(&request);
        let (head, body) = request.into_parts();
        if call == Call::Infer {
            return match whole(body).await? {
                Whole::Read(bytes) => self.infer(&mut upstream, Request::from_parts(head, bytes)).await,
                Whole::Long(body) => upstream.send(Request::from_parts(head, body)).await.map(passed),
            };
        }
        let response = upstream.send(Request::from_parts(head, body.map_err(Into::into).boxed_unsync())).await?;
        let is_good = response.status() == StatusCode::OK;
        match call {
            Call::Statistics if is_good => self.counts(response).await,
            Call::Ready if is_good && self.mutations.says_not_ready() => {
                let refused = Response::builder().status(StatusCode::BAD_REQUEST);
                Ok(refused.body(Empty::new().map_err(|never| match never {}).boxed_unsync())?)
            }
            _ => Ok(passed(response)),
        }
    }

    async fn infer(&self, upstream: &mut Upstream, request: Request<Bytes>) -> Result<Response<Sent>, Failure> {
        let mutations = &*self.mutations;
        let (mut head, mut bytes) = request.into_parts();
        let mut id = None;
        change(&mut head.headers, &mut bytes, |body| {
            id = body.id().map(str::to_owned);
            mutations.change_request(&mut Asked(body))
        });
        measure(&mut head.headers, &bytes);
        let is_lost = mutations.happens(Mutation::LoseRequest);
        if mutations.loses_call() || is_lost {
            // Until the client gives it up.
            return pending().await;
        }
        if mutations.happens(Mutation::DelayRequest) {
            mutations.hold_back().await;
        }
        let request = || Request::from_parts(head.clone(), sent(bytes.clone()));
        let mut response = match read(upstream.send(request()).await?).await? {
            Ok(response) => response,
            Err(long) => return Ok(long),
        };
        if mutations.happens(Mutation::RepeatRequest) {
            // It has to be over before the next one.
            upstream.send(request()).await?.into_body().collect().await?;
        }
        if mutations.happens(Mutation::LoseResponse) {
            return pending().await;
        }
        if mutations.happens(Mutation::DelayResponse) {
            mutations.hold_back().await;
        }
        match Body::read(response.body(), json_length(response.headers())) {
            Some(body) if body.is_error() => self.error(upstream.before.as_ref(), &mut response, id.as_deref()),
            Some(body) => self.response(&mut upstream.before, &mut response, body),
            None => {}
        }
        Ok(finished(response))
    }

    fn error(&self, before: Option<&Body>, response: &mut Response<Bytes>, id: Option<&str>) {
        if let Some(before) = before
            && self.mutations.happens(Mutation::ResponseForError)
        {
            return replace(response, StatusCode::OK, before.clone().answering(id));
        }
        if self.mutations.happens(Mutation::OtherError) {
            replace(response, response.status(), Body::of_error(ERROR));
        }
    }

    fn response(&self, before: &mut Option<Body>, response: &mut Response<Bytes>, body: Body) {
        let mut changed = body.clone();
        *before = Some(body);
        let is_changed = self.mutations.change_response(&mut Said(&mut changed));
        if self.mutations.happens(Mutation::ErrorForResponse) {
            replace(response, StatusCode::INTERNAL_SERVER_ERROR, Body::of_error(ERROR));
        } else if is_changed {
            *response.body_mut() = write(response.headers_mut(), changed);
        }
    }

    async fn counts(&self, response: Response<Incoming>) -> Result<Response<Sent>, Failure> {
        let response = match read(response).await? {
            Ok(response) => response,
            Err(long) => return Ok(long),
        };
        let (mut head, mut bytes) = response.into_parts();
        change(&mut head.headers, &mut bytes, |body| self.mutations.change_counts(body));
        Ok(finished(Response::from_parts(head, bytes)))
    }
}

impl Upstream {
    async fn send(&mut self, request: Request<Sent>) -> Result<Response<Incoming>, Failure> {
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

fn passed(response: Response<Incoming>) -> Response<Sent> {
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
