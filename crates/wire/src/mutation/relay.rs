//! Carries the calls of one connection over gRPC, each way message by message.

use std::sync::Arc;

use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Body as _, Bytes, Frame, Incoming},
    client, server,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    Changed, Failure, Mutation, Mutations, Sent,
    frames::{Frames, Piece, framed},
    lines::Item,
};
use crate::{
    net::Socket,
    proto::{
        ModelInferRequest, ModelInferResponse, ModelReadyResponse, ModelStatisticsResponse, ModelStreamInferResponse,
    },
};

/// How many messages of a call wait for whom they are for, before no more are read.
const ROOM: usize = 16;
/// Room for bytes that the other side has not read.
const WINDOW: u32 = 4 << 20;

type Upstream = client::conn::http2::SendRequest<Sent>;

/// What a call is, as far as that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Stream,
    Infer,
    Statistics,
    Ready,
    Other,
}

impl Call {
    fn of(path: &str) -> Self {
        match path.rsplit('/').next() {
            Some("ModelStreamInfer") => Self::Stream,
            Some("ModelInfer") => Self::Infer,
            Some("ModelStatistics") => Self::Statistics,
            Some("ModelReady") => Self::Ready,
            _ => Self::Other,
        }
    }

    fn is_inference(self) -> bool {
        matches!(self, Self::Stream | Self::Infer)
    }
}

/// Carries a connection to its end.
pub(super) async fn carry(near: Socket, far: Socket, mutations: Arc<Mutations>) {
    let mut builder = client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let Ok((upstream, connection)) = builder.handshake(TokioIo::new(far)).await else { return };
    let upwards = tokio::spawn(connection);
    let service = service_fn(move |request| forward(request, upstream.clone(), Arc::clone(&mutations)));
    let mut builder = server::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW).max_concurrent_streams(None);
    // A client that is gone, or that speaks otherwise, is the end of it.
    let _ = builder.serve_connection(TokioIo::new(near), service).await;
    upwards.abort();
}

fn body() -> (Sender<Item>, Sent) {
    let (sender, receiver): (_, Receiver<Item>) = channel(ROOM);
    (sender, StreamBody::new(ReceiverStream::new(receiver)).boxed_unsync())
}

/// Carries a call: its headers, and from then on each way by itself.
async fn forward(
    request: Request<Incoming>,
    mut upstream: Upstream,
    mutations: Arc<Mutations>,
) -> Result<Response<Sent>, hyper::Error> {
    let (head, requests) = request.into_parts();
    let call = Call::of(head.uri.path());
    let (up, up_body) = body();
    tokio::spawn(pass_requests(requests, up, call, Arc::clone(&mutations)));
    upstream.ready().await?;
    let response = upstream.send_request(Request::from_parts(head, up_body)).await?;
    let (head, responses) = response.into_parts();
    if responses.is_end_stream() {
        // A status without a message; clients look whether it is all that comes.
        return Ok(Response::from_parts(head, Empty::new().map_err(|never| match never {}).boxed_unsync()));
    }
    let (down, down_body) = body();
    tokio::spawn(async move {
        let line = (call == Call::Stream).then(|| mutations.lines.begin(&down));
        let way = Down { call, line, mutations: &mutations, held: None, before: None };
        // Whoever is not there any more needs nothing.
        let _ = way.pass(responses, &down).await;
        if let Some(line) = line {
            mutations.lines.end(line);
        }
    });
    Ok(Response::from_parts(head, down_body))
}

/// Nobody is there any more.
struct Gone;

/// What comes in one direction of a call, piece by piece.
struct Source {
    body: Incoming,
    frames: Frames,
}

/// What came.
enum Came {
    Piece(Piece),
    /// What stands behind all pieces.
    Trailers(Frame<Bytes>),
    /// The call ended otherwise than in good order.
    Broken(Failure),
}

impl Source {
    fn new(body: Incoming) -> Self {
        Self { body, frames: Frames::default() }
    }

    /// The next that comes; nothing at the end in good order. What waits for it may be dropped.
    async fn next(&mut self) -> Option<Came> {
        loop {
            if let Some(piece) = self.frames.next() {
                return Some(Came::Piece(piece));
            }
            let Some(frame) = self.body.frame().await else {
                // Less than a message.
                return Some(self.frames.take_rest())
                    .filter(|rest| !rest.is_empty())
                    .map(|rest| Came::Piece(Piece::Other(rest)));
            };
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => self.frames.push(&data),
                Ok(Err(trailers)) => return Some(Came::Trailers(trailers)),
                Err(error) => return Some(Came::Broken(error.into())),
            }
        }
    }
}

async fn send(to: &Sender<Item>, bytes: Bytes) -> Result<(), Gone> {
    to.send(Ok(Frame::data(bytes))).await.map_err(|_| Gone)
}

/// A message with what is changed in it, framed; as it was where nothing is.
fn changed<M: Message + Default>(bytes: &[u8], change: impl FnOnce(&mut M) -> Changed) -> Bytes {
    let Ok(mut message) = M::decode(bytes) else { return framed(bytes) };
    if change(&mut message) { framed(&message.encode_to_vec()) } else { framed(bytes) }
}

/// Passes on what a client sends in a call.
async fn pass_requests(from: Incoming, to: Sender<Item>, call: Call, mutations: Arc<Mutations>) {
    let passed = async {
        let (mut from, mut held) = (Source::new(from), None);
        while let Some(came) = from.next().await {
            match came {
                Came::Piece(piece) => request(piece, &to, call, &mutations, &mut held).await?,
                Came::Trailers(trailers) => to.send(Ok(trailers)).await.map_err(|_| Gone)?,
                // Not in good order here, so neither there.
                Came::Broken(error) => return to.send(Err(error)).await.map_err(|_| Gone),
            }
        }
        if let Some(held) = held {
            mutations.retract(Mutation::SwapRequests);
            send(&to, held).await?;
        }
        if call == Call::Stream && mutations.happens(Mutation::LoseHalfClose) {
            to.closed().await;
        }
        Ok(())
    };
    // Whoever is not there any more needs nothing.
    let _: Result<(), Gone> = passed.await;
}

async fn request(
    piece: Piece,
    to: &Sender<Item>,
    call: Call,
    mutations: &Mutations,
    held: &mut Option<Bytes>,
) -> Result<(), Gone> {
    let message = match piece {
        Piece::Message(message) if call.is_inference() => message,
        Piece::Message(message) => return send(to, framed(&message)).await,
        Piece::Other(bytes) => return send(to, bytes.into()).await,
    };
    let is_stream = call == Call::Stream;
    let bytes = changed(&message, |request: &mut ModelInferRequest| mutations.change_request(request));
    let is_lost = mutations.happens(Mutation::LoseRequest);
    if is_lost || (!is_stream && mutations.loses_call()) {
        if !is_stream {
            // A call without its message would be an error of the server's, so it stays open until the client gives it up.
            to.closed().await;
        }
        return Ok(());
    }
    if mutations.happens(Mutation::DelayRequest) {
        mutations.hold_back().await;
    }
    if is_stream && held.is_none() && mutations.happens(Mutation::SwapRequests) {
        *held = Some(bytes);
        return Ok(());
    }
    send(to, bytes.clone()).await?;
    if is_stream && mutations.happens(Mutation::RepeatRequest) {
        send(to, bytes).await?;
    }
    if let Some(held) = held.take() {
        send(to, held).await?;
    }
    Ok(())
}

/// The way from the server to the client in one call.
struct Down<'m> {
    call: Call,
    /// The number of a stream.
    line: Option<u64>,
    mutations: &'m Mutations,
    held: Option<Bytes>,
    /// The last response of the stream.
    before: Option<ModelInferResponse>,
}

/// What comes behind a message.
enum Then {
    GoesOn,
    /// The call ends with these trailers.
    Ends(HeaderMap),
}

fn trailers(status: &'static str) -> HeaderMap {
    HeaderMap::from_iter([("grpc-status".parse().expect("a name"), status.parse().expect("a value"))])
}

impl Down<'_> {
    async fn pass(mut self, from: Incoming, to: &Sender<Item>) -> Result<(), Gone> {
        let mut from = Source::new(from);
        loop {
            let came = tokio::select! {
                came = from.next() => came,
                // What the server has still to say nobody wants: it is told so, as by the client.
                () = to.closed() => return Err(Gone),
            };
            match came {
                Some(Came::Piece(piece)) => {
                    if let Then::Ends(trailers) = self.response(piece, to).await? {
                        return to.send(Ok(Frame::trailers(trailers))).await.map_err(|_| Gone);
                    }
                }
                Some(Came::Trailers(trailers)) => {
                    self.let_go(to).await?;
                    self.keep_open(to).await;
                    to.send(Ok(trailers)).await.map_err(|_| Gone)?;
                }
                Some(Came::Broken(error)) => return to.send(Err(error)).await.map_err(|_| Gone),
                None => return self.let_go(to).await,
            }
        }
    }

    /// What was to change places with the next one, and there is none.
    async fn let_go(&mut self, to: &Sender<Item>) -> Result<(), Gone> {
        let Some(held) = self.held.take() else { return Ok(()) };
        self.mutations.retract(Mutation::SwapResponses);
        send(to, held).await
    }

    async fn keep_open(&self, to: &Sender<Item>) {
        if self.call == Call::Stream && self.mutations.happens(Mutation::KeepOpen) {
            to.closed().await;
        }
    }

    async fn response(&mut self, piece: Piece, to: &Sender<Item>) -> Result<Then, Gone> {
        let message = match piece {
            Piece::Message(message) => message,
            Piece::Other(bytes) => return send(to, bytes.into()).await.map(|()| Then::GoesOn),
        };
        let mutations = self.mutations;
        let bytes = match self.call {
            Call::Stream => self.of_stream(&message),
            Call::Infer => changed(&message, |its: &mut ModelInferResponse| mutations.change_response(its)),
            Call::Statistics => changed(&message, |its: &mut ModelStatisticsResponse| mutations.change_statistics(its)),
            Call::Ready => changed(&message, |its: &mut ModelReadyResponse| mutations.change_readiness(its)),
            Call::Other => framed(&message),
        };
        if !self.call.is_inference() {
            return send(to, bytes).await.map(|()| Then::GoesOn);
        }
        if mutations.happens(Mutation::LoseResponse) {
            if self.call == Call::Infer {
                to.closed().await;
            }
            return Ok(Then::GoesOn);
        }
        if mutations.happens(Mutation::DelayResponse) {
            mutations.hold_back().await;
        }
        let Some(line) = self.line else { return send(to, bytes).await.map(|()| Then::GoesOn) };
        if let Some(other) = mutations.lines.other(line)
            && mutations.happens(Mutation::CrossResponses)
        {
            // If it is gone by now, the response is lost.
            let _ = send(&other, bytes).await;
            return Ok(Then::GoesOn);
        }
        if self.held.is_none() && mutations.happens(Mutation::SwapResponses) {
            self.held = Some(bytes);
            return Ok(Then::GoesOn);
        }
        send(to, bytes.clone()).await?;
        if mutations.happens(Mutation::RepeatResponse) {
            send(to, bytes).await?;
        }
        if let Some(held) = self.held.take() {
            send(to, held).await?;
        }
        if mutations.happens(Mutation::EndStream) {
            return Ok(Then::Ends(trailers("0")));
        }
        if mutations.happens(Mutation::BreakStream) {
            return Ok(Then::Ends(trailers("14")));
        }
        Ok(Then::GoesOn)
    }

    fn of_stream(&mut self, message: &[u8]) -> Bytes {
        let Ok(mut decoded) = ModelStreamInferResponse::decode(message) else { return framed(message) };
        let before = (decoded.error_message.is_empty()).then(|| decoded.infer_response.clone()).flatten();
        let changed = self.mutations.change_stream(&mut decoded, self.before.as_ref());
        self.before = before.filter(|response| !response.outputs.is_empty()).or(self.before.take());
        if changed { framed(&decoded.encode_to_vec()) } else { framed(message) }
    }
}
