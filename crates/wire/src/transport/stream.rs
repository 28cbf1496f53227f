//! One `ModelStreamInfer` stream, or calls that stand in its place.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::mpsc;
use tokio_stream::Stream as _;
use tonic::{Streaming, codegen::http::uri::PathAndQuery};

use super::{
    access::Access,
    call_error::{CallError, reasons},
    calls::{Caller, Calls},
    codec::{Piece, StepCodec},
    connection::Link,
    gathered::{Gathered, Outstanding},
    goaway::{Again, Began},
    http::Steps,
    queue::Queue,
    template::RequestTemplate,
};
use workload::{
    conversation::Transport,
    event::Received,
    sequence::{RequestId, Step},
};

const PATH: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// How many steps may be handed over and not be on the wire yet; more wait.
const QUEUE: usize = 128;

/// An open stream; dropping it cancels what it carries.
#[derive(Debug)]
pub struct Stream {
    /// Takes steps.
    pub outgoing: Outgoing,
    /// Brings answers.
    pub incoming: Incoming,
}

/// The end of a stream that takes steps; dropping it says that no further step follows.
#[derive(Debug)]
pub struct Outgoing(mpsc::Sender<Step>);

/// The end of a stream that brings answers.
pub struct Incoming {
    state: State,
    /// Where a request has several answers.
    gathered: Option<Gathered>,
    access: Access,
    /// Whether the server ended it.
    ended: bool,
}

type Opening = Pin<Box<dyn Future<Output = Result<(Streaming<Piece>, Began), Message>> + Send>>;

enum State {
    /// A server may send no headers before its first response, so steps are sent while this is still under way.
    Opening(Opening),
    Open(Box<Streaming<Piece>>, Began),
    Calls(Box<Calls>),
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Opening(_) => "Opening",
            State::Open(..) => "Open",
            State::Calls(_) => "Calls",
        })
    }
}

/// What a stream brings.
#[derive(Debug)]
pub enum Message {
    /// An answer.
    Received(Received),
    /// The end, in good order.
    End,
    /// The end, for the reason given.
    Broken(String),
    /// The end, for the reason given, which is nobody's fault: the connection ended in good order.
    Lapsed(String),
}

impl Stream {
    /// Opens a stream for one context's requests, or what stands in its place: calls, one after the other, which end when the client
    /// closed it and all are answered. The first [`Incoming::next`] sets it going.
    ///
    /// # Errors
    /// When the link does not lead to where this is spoken.
    pub fn open(link: &Link, by: Transport, template: RequestTemplate) -> Result<Self, CallError> {
        let (outgoing, steps) = mpsc::channel(QUEUE);
        let answers = template.parts.answers;
        let access = if by.is_http() { link.connections()?.access() } else { &link.conduit()?.access }.clone();
        let outstanding = Outstanding::default();
        let gathered = answers.are_series().then(|| Gathered::new(answers.count(), outstanding.clone()));
        let state = match by {
            Transport::GrpcStream => {
                Self::streaming(link, template, steps, answers.are_series().then_some(outstanding))?
            }
            Transport::GrpcUnary => {
                State::Calls(Box::new(Calls::new(steps, Caller::Grpc(link.conduit()?.clone(), template))))
            }
            Transport::Http | Transport::HttpBinary => {
                let caller = Steps::new(link.connections()?.clone(), template, by == Transport::HttpBinary);
                State::Calls(Box::new(Calls::new(steps, Caller::Http(Arc::new(caller)))))
            }
        };
        Ok(Self { outgoing: Outgoing(outgoing), incoming: Incoming { state, gathered, access, ended: false } })
    }

    fn streaming(
        link: &Link,
        template: RequestTemplate,
        steps: mpsc::Receiver<Step>,
        outstanding: Option<Outstanding>,
    ) -> Result<State, CallError> {
        let conduit = link.conduit()?.clone();
        let steps = Queue::new(steps, outstanding);
        let opening = async move {
            let mut again = Again::default();
            loop {
                let (mut client, began) = (conduit.grpc(), Began::now(&conduit));
                if let Err(error) = client.ready().await {
                    return Err(Message::Broken(reasons(&error)));
                }
                let (request, path) = (conduit.request(steps.sending()), PathAndQuery::from_static(PATH));
                match client.streaming(request, path, StepCodec::of_streams(template.clone())).await {
                    Ok(response) => {
                        steps.are_taken_in();
                        return Ok((response.into_inner(), began));
                    }
                    Err(status) if again.may_be_tried(&status, &conduit) => {}
                    Err(status) => return Err(began.failed(&status)),
                }
            }
        };
        Ok(State::Opening(Box::pin(opening)))
    }
}

impl Outgoing {
    /// Room for one step more, if there is some now.
    #[must_use]
    pub fn room_now(&self) -> Option<mpsc::Permit<'_, Step>> {
        self.0.try_reserve().ok()
    }

    /// Waits until there is room, or the stream is broken.
    ///
    /// Cancel safe.
    pub async fn room(&self) {
        if self.0.reserve().await.is_err() {
            // Why it broke is for the other end to tell.
            std::future::pending::<()>().await;
        }
    }
}

impl Incoming {
    /// The next message.
    ///
    /// Cancel safe. After [`Message::End`] or [`Message::Broken`] there is nothing to wait for.
    pub async fn next(&mut self) -> Message {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// What has come of the answer to a request that is not waited for any longer, if it is a part of it.
    pub fn unfinished(&mut self, request: RequestId) -> Option<Received> {
        self.gathered.as_mut()?.give_up(request)
    }

    /// As [`Self::next`], for those who wait for several streams.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Message> {
        let said = ready!(self.poll_said(context));
        Poll::Ready(match said {
            Message::Received(Received { id, result: Err(text), code, outputs }) => {
                Message::Received(Received { id, result: Err(self.access.shown(text)), code, outputs })
            }
            Message::Broken(reason) => Message::Broken(self.access.shown(reason)),
            Message::Lapsed(reason) => Message::Lapsed(self.access.shown(reason)),
            other => other,
        })
    }

    /// What else there is to tell of a stream that ended in good order.
    fn end(&mut self) -> Message {
        self.gathered.as_mut().and_then(Gathered::left).map_or(Message::End, Message::Received)
    }

    fn poll_said(&mut self, context: &mut Context<'_>) -> Poll<Message> {
        loop {
            match &mut self.state {
                State::Opening(opening) => match ready!(opening.as_mut().poll(context)) {
                    Ok((streaming, began)) => self.state = State::Open(Box::new(streaming), began),
                    Err(message) => return Poll::Ready(message),
                },
                State::Calls(calls) => return calls.poll_next(context),
                State::Open(streaming, began) => {
                    if self.ended {
                        return Poll::Ready(self.end());
                    }
                    return Poll::Ready(match ready!(Pin::new(streaming.as_mut()).poll_next(context)) {
                        Some(Ok(piece)) => match &mut self.gathered {
                            None => Message::Received(piece.received),
                            Some(gathered) => match gathered.take(piece) {
                                Some(received) => Message::Received(received),
                                None => continue,
                            },
                        },
                        None => {
                            self.ended = true;
                            self.end()
                        }
                        Some(Err(status)) => began.failed(&status),
                    });
                }
            }
        }
    }
}
