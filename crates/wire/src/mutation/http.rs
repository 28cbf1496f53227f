//! Carries the calls of one connection over HTTP/1.1, each way message by message.

use std::{pin::pin, sync::Arc, time::Duration};

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
use tokio::{sync::Mutex, time::sleep};

use super::{
    Failure, Mutation, Mutations, Sent,
    change::{Changed, ERROR},
    frames::LONGEST,
    json::{Asked, Body, Said},
};
use crate::{net::Socket, proto::HEADER_LENGTH};

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
        match (request.method(), path.rsplit('/').next()) {
            _ if !path.starts_with("/v2/models/") => Self::Other,
            (&Method::POST, Some("infer")) => Self::Infer,
            (&Method::GET, Some("stats")) => Self::Statistics,
            (&Method::GET, Some("ready")) => Self::Ready,
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
    /// The last response that was no error, where one may come in the place of an error; with how many bytes of it are JSON.
    before: Option<(Bytes, Option<usize>)>,
}

/// The most headers of a message.
const HEADERS_MAX: usize = 1000;
/// For how long the client of a lost message is kept waiting. A client that leaves before is seen, unless it has sent another request.
const LOST_FOR: Duration = Duration::from_secs(600);

/// Carries a connection to its end.
pub(super) async fn carry(near: Socket, far: Socket, mutations: Arc<Mutations>) {
    let mut builder = client::conn::http1::Builder::new();
    builder.preserve_header_case(true).max_headers(HEADERS_MAX);
    let Ok((sender, connection)) = builder.handshake(TokioIo::new(far)).await else { return };
    let mut upwards = tokio::spawn(connection);
    let way = Arc::new(Way { upstream: Mutex::new(Upstream { sender, before: None }), mutations });
    let service = service_fn(move |request| Arc::clone(&way).forward(request));
    let mut builder = server::conn::http1::Builder::new();
    builder.preserve_header_case(true).auto_date_header(false).max_headers(HEADERS_MAX);
    let mut downwards = pin!(builder.serve_connection(TokioIo::new(near), service));
    // A client that is gone, or that speaks otherwise, is the end of it.
    tokio::select! {
        _ = downwards.as_mut() => {}
        _ = &mut upwards => {
            // A client sees that the server is gone, behind the call that is under way.
            downwards.as_mut().graceful_shutdown();
            let _ = downwards.await;
        }
    }
    upwards.abort();
}

/// Nothing comes of a call.
async fn lost() -> Failure {
    sleep(LOST_FOR).await;
    "it was lost".into()
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
    headers.get(HEADER_LENGTH)?.to_str().ok()?.parse().ok()
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
        Some(json) => _ = headers.insert(HEADER_LENGTH, json.into()),
        None => _ = headers.remove(HEADER_LENGTH),
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
                // Without its end the connection would be of no use any more.
                whole(response.into_body()).await?;
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
            return Err(lost().await);
        }
        if mutations.happens(Mutation::DelayRequest) {
            mutations.hold_back().await;
        }
        let request = || Request::from_parts(head.clone(), sent(bytes.clone()));
        let mut response = match read(upstream.send(request()).await?).await? {
            Ok(response) => response,
            Err(long) => return Ok(long),
        };
        if mutations.happens(Mutation::RepeatRequest) && upstream.repeat(request()).await.is_err() {
            // Behind the response there is no connection any more.
            mutations.retract(Mutation::RepeatRequest);
        }
        if mutations.happens(Mutation::LoseResponse) {
            return Err(lost().await);
        }
        if mutations.happens(Mutation::DelayResponse) {
            mutations.hold_back().await;
        }
        match Body::read(response.body(), json_length(response.headers())) {
            Some(body) if body.is_error() => self.error(upstream.before.as_ref(), &mut response, id.as_deref()),
            Some(body) => {
                upstream.before = mutations
                    .is_planted(Mutation::ResponseForError)
                    .then(|| (response.body().clone(), json_length(response.headers())));
                self.response(&mut response, body);
            }
            None => {}
        }
        Ok(finished(response))
    }

    fn error(&self, before: Option<&(Bytes, Option<usize>)>, response: &mut Response<Bytes>, id: Option<&str>) {
        if let Some(before) = before.and_then(|(bytes, json)| Body::read(bytes, *json))
            && self.mutations.happens(Mutation::ResponseForError)
        {
            return replace(response, StatusCode::OK, before.answering(id));
        }
        if self.mutations.happens(Mutation::OtherError) {
            replace(response, response.status(), Body::of_error(ERROR));
        }
    }

    fn response(&self, response: &mut Response<Bytes>, mut body: Body) {
        let is_changed = self.mutations.change_response(&mut Said(&mut body));
        if self.mutations.happens(Mutation::ErrorForResponse) {
            replace(response, StatusCode::INTERNAL_SERVER_ERROR, Body::of_error(ERROR));
        } else if is_changed {
            *response.body_mut() = write(response.headers_mut(), body);
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

    /// Sends a request again, and takes in what it is answered with.
    async fn repeat(&mut self, request: Request<Sent>) -> Result<(), Failure> {
        whole(self.send(request).await?.into_body()).await.map(drop)
    }
}

fn passed(response: Response<Incoming>) -> Response<Sent> {
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::mutation::Planted;
    use workload::seed::Seed;

    const INFER: &str = "POST /v2/models/m/infer HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n";

    /// The next message of a connection, as far as it comes.
    async fn message(connection: &mut TcpStream, is_head_alone: bool) -> String {
        let (mut text, mut byte) = (String::new(), [0]);
        let length = |text: &str| {
            let (head, body) = text.split_once("\r\n\r\n")?;
            let told = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = told.filter(|_| !is_head_alone).map_or(0, |told| told.parse().expect("a number"));
            Some(body.len() >= length)
        };
        while length(&text) != Some(true) && connection.read(&mut byte).await.is_ok_and(|count| count > 0) {
            text.push(char::from(byte[0]));
        }
        text
    }

    /// A server that answers each connection's first requests with these, and then closes the connection.
    async fn server(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                for answer in answers {
                    if !message(&mut connection, false).await.is_empty() {
                        connection.write_all(answer.as_bytes()).await.expect("the client is there");
                    }
                }
            }
        });
        address
    }

    /// What a client gets that sends these requests over one connection, one after the other, until the connection ends; and how often the
    /// mutation happened.
    async fn got(answers: &'static [&'static str], mutate: &str, requests: &[String]) -> (Vec<String>, u64) {
        let planted: Vec<Planted> = vec![mutate.parse().expect("a mutation")];
        let mutations = Arc::new(Mutations::new(&planted, Seed(1), Duration::ZERO));
        let to = server(answers).await;
        let near = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client = TcpStream::connect(near.local_addr().expect("an address")).await.expect("it listens");
        let (accepted, _) = near.accept().await.expect("a client");
        let far = Socket::connect(&to.to_string()).await.expect("a server");
        let carried = tokio::spawn(carry(accepted.into(), far, Arc::clone(&mutations)));
        let mut all = Vec::new();
        for request in requests {
            client.write_all(request.as_bytes()).await.expect("the proxy is there");
            all.push(message(&mut client, request.starts_with("HEAD")).await);
        }
        // The proxy ends the connection with the server's.
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        carried.await.expect("it ends");
        (all, mutations.happened()[0].times)
    }

    fn infer(more: &str) -> String {
        format!("{INFER}{more}\r\n{{}}")
    }

    #[tokio::test]
    async fn a_client_sees_that_the_server_closed_its_connection() {
        let (all, _) = got(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"], "lose-start", &[infer("")]).await;
        assert!(all[0].starts_with("HTTP/1.1 200 OK\r\n") && all[0].ends_with("\r\n\r\n{}"), "{all:?}");
        assert!(!all[0].contains("date:"), "{all:?}");
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_repeated_is_answered_all_the_same() {
        let closing = &["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"];
        let (all, times) = got(closing, "repeat-request", &[infer("connection: close\r\n")]).await;
        assert!(all[0].ends_with("\r\n\r\n{}"), "{all:?}");
        assert_eq!(times, 0);
    }

    #[tokio::test]
    async fn a_model_that_is_said_not_to_be_ready_leaves_the_connection_as_it_is() {
        let answers = &[
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"ready\":true}",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        ];
        let ready = "GET /v2/models/m/ready HTTP/1.1\r\nhost: h\r\n\r\n".to_owned();
        let (all, times) = got(answers, "say-not-ready:once@1", &[infer(""), ready, infer("")]).await;
        assert!(all[1].starts_with("HTTP/1.1 400 ") && all[2].ends_with("{}"), "{all:?}");
        assert_eq!(times, 1);
    }

    #[tokio::test]
    async fn the_length_of_what_was_only_asked_about_stays() {
        let answers = &["HTTP/1.1 200 OK\r\ncontent-length: 123\r\n\r\n"];
        let head = "HEAD /v2/models/m/stats HTTP/1.1\r\nhost: h\r\n\r\n".to_owned();
        let (all, _) = got(answers, "count-more", &[head]).await;
        assert!(all[0].contains("content-length: 123\r\n"), "{all:?}");
    }
}
