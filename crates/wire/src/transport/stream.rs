//! One `ModelStreamInfer` stream, or calls that stand in its place.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};

use tonic::Status;

use super::{
    access::Access,
    call_error::CallError,
    codec::{Piece, StepCodec},
    conduit::{Conduit, Went, path_of, told_code},
    connection::Link,
    deadline,
    frugal::Frugal,
    gathered::{Gathered, Outstanding},
    goaway::Began,
    http::Steps,
    queue::{Outgoing, Queue},
    template::RequestTemplate,
};
use workload::{
    conversation::Transport,
    event::{Code, Received, ServerName},
    sequence::{RequestId, Step},
};

/// An open stream; dropping it cancels what it carries.
pub struct Stream {
    /// Takes steps.
    pub outgoing: Outgoing,
    /// Brings answers.
    pub incoming: Incoming,
}

/// The end of a stream that brings answers.
pub struct Incoming {
    pieces: Pieces,
    /// Where a request has several answers.
    gathered: Option<Gathered>,
    access: Access,
}

/// What comes: pieces of answers, and, as errors, messages that are whole.
pub(super) type Pieces = BoxStream<'static, Result<Piece, Message>>;

/// What came of a call, and who answered it, where that is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) by: Option<ServerName>,
    pub(super) message: Message,
}

/// What a stream brings.
#[derive(Debug)]
pub enum Message {
    /// What follows was answered by this server; nobody knows by which where there is none. It comes where that changes.
    ServedBy(Option<ServerName>),
    /// An answer.
    Received(Received),
    /// The end, in good order.
    End,
    /// The end, with the code and the text of a request's error, where the transport has that.
    Status(Code, String),
    /// The end, for the reason given.
    Broken(String),
    /// The end, for the reason given, which is nobody's fault: the connection ended in good order.
    Lapsed(String),
    /// The end of the stream, or of the call in its place, because its deadline passed.
    DeadlinePassed,
}

impl Stream {
    /// Opens a stream for one context's requests, or what stands in its place: calls, one after the other, which end when the client
    /// closed it and all are answered. The first [`Incoming::next`] sets it going.
    ///
    /// # Errors
    /// When the link does not lead to where this is spoken.
    pub fn open(link: &Link, by: Transport, template: RequestTemplate) -> Result<Self, CallError> {
        Self::open_within(link, by, template, None)
    }

    /// The same, where the stream, or each call, may take as long as `within` says; over gRPC the server is told that.
    ///
    /// # Errors
    /// When the link does not lead to where this is spoken.
    pub fn open_within(
        link: &Link,
        by: Transport,
        template: RequestTemplate,
        within: Option<Duration>,
    ) -> Result<Self, CallError> {
        let answers = template.parts.answers;
        let access = if by.is_http() { link.connections()?.access() } else { link.conduit()?.access() }.clone();
        let outstanding = (by.is_stream() && answers.are_series()).then(Outstanding::default);
        let gathered = outstanding.clone().map(|outstanding| Gathered::new(answers.count(), outstanding));
        let (outgoing, steps) = Queue::new(outstanding);
        let pieces = match by {
            Transport::GrpcStream | Transport::GrpcStatus => {
                let conduit = link.conduit()?.of_sequences(&template).within(within);
                let conduit = if by == Transport::GrpcStatus { conduit.ending_with_errors() } else { conduit };
                let pieces = streaming(conduit, template, steps);
                match within {
                    Some(within) => deadline::of_a_stream(pieces, within),
                    None => pieces,
                }
            }
            Transport::GrpcUnary => {
                let conduit = link.conduit()?.of_sequences(&template).within(within);
                calls(steps, move |step| deadline::of_a_call(conduit.clone().infer(template.clone(), step), within))
            }
            Transport::Http | Transport::HttpBinary => {
                let caller = Arc::new(Steps::new(link.connections()?.clone(), template, !by.is_json()));
                calls(steps, move |step| deadline::of_a_call(Arc::clone(&caller).call(step), within))
            }
        };
        Ok(Self { outgoing, incoming: Incoming { pieces, gathered, access } })
    }
}

/// A server may send no headers before its first response, so steps are sent while the stream is still being opened.
fn streaming(conduit: Conduit, template: RequestTemplate, steps: Queue) -> Pieces {
    let ends_with_errors = conduit.ends_with_errors;
    let failed = move |began: &Began, status: &Status| match told_code(status) {
        Some(code) if ends_with_errors => {
            began.lapsed(status).unwrap_or_else(|| Message::Status(code, status.message().to_owned()))
        }
        _ => began.failed(status),
    };
    let opening = async move {
        let open = conduit.tried(Frugal, |mut grpc| {
            let (request, codec) = (conduit.request(steps.sending()), StepCodec::of_streams(template.clone()));
            async move { grpc.streaming(request, path_of("ModelStreamInfer"), codec).await }
        });
        match open.await {
            (Ok(streaming), Went { began, by }) => {
                steps.are_taken_in();
                let told = stream::iter(by.map(|by| Message::ServedBy(Some(by)))).map(Err);
                Ok(told.chain(streaming.map_err(move |status| failed(&began, &status))))
            }
            (Err(status), went) => Err(failed(&went.began, &status)),
        }
    };
    stream::once(opening).try_flatten().boxed()
}

/// One call after the other, each when the one before it is answered. Dropping them cancels the one that is under way.
fn calls<F>(steps: Queue, call: impl FnMut(Step) -> F + Send + 'static) -> Pieces
where
    F: Future<Output = Told> + Send + 'static,
{
    let mut last = None;
    let told = move |Told { by, message }| {
        let changes = by != last;
        last.clone_from(&by);
        stream::iter(changes.then_some(Message::ServedBy(by)).into_iter().chain([message]).map(Err))
    };
    // A call that is tried again has its own copy of the step.
    steps.sent_once().then(call).flat_map(told).boxed()
}

impl Incoming {
    /// The next message but those that only tell who answers.
    ///
    /// Cancel safe. After [`Message::End`] or [`Message::Broken`] there is nothing to wait for.
    pub async fn next(&mut self) -> Message {
        loop {
            match self.told().await {
                Message::ServedBy(_) => {}
                message => return message,
            }
        }
    }

    /// The next message. Cancel safe.
    pub async fn told(&mut self) -> Message {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// What has come of the answer to a request that is not waited for any longer, if it is a part of it.
    pub fn unfinished(&mut self, request: RequestId) -> Option<Received> {
        self.gathered.as_mut()?.give_up(request)
    }

    /// As [`Self::told`], for those who wait for several streams.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Message> {
        let said = ready!(self.poll_said(context));
        Poll::Ready(match said {
            Message::Received(Received { id, result: Err(text), code, outputs }) => {
                Message::Received(Received { id, result: Err(self.access.shown(text)), code, outputs })
            }
            Message::Status(code, text) => Message::Status(code, self.access.shown(text)),
            Message::Broken(reason) => Message::Broken(self.access.shown(reason)),
            Message::Lapsed(reason) => Message::Lapsed(self.access.shown(reason)),
            other => other,
        })
    }

    fn poll_said(&mut self, context: &mut Context<'_>) -> Poll<Message> {
        while let Some(piece) = ready!(self.pieces.poll_next_unpin(context)) {
            let received = match (piece, &mut self.gathered) {
                (Err(message), _) => return Poll::Ready(message),
                (Ok(piece), None) => Some(piece.received),
                (Ok(piece), Some(gathered)) => gathered.take(piece),
            };
            if let Some(received) = received {
                return Poll::Ready(Message::Received(received));
            }
        }
        // What else there is to tell of a stream that ended in good order.
        Poll::Ready(self.gathered.as_mut().and_then(Gathered::left).map_or(Message::End, Message::Received))
    }
}
