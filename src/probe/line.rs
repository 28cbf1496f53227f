//! One stream to the model for a sequence besides those of the run.

use std::time::Duration;

use tokio::time::timeout;

use wire::transport::{CallError, Incoming, Link, Message, Outgoing, RequestTemplate, Stream};
use workload::{
    conversation::Transport,
    event::{Cut, EventKind},
    model::Model,
    sequence::{RequestId, Step, WireId},
};

/// A stream that carries one sequence.
pub(super) struct Line {
    /// None when no further step follows.
    pub(super) outgoing: Option<Outgoing>,
    pub(super) incoming: Incoming,
}

impl Line {
    /// Opens one over `link`, if that leads to where this transport is spoken.
    pub(super) fn open(model: &Model, link: &Link, by: Transport, id: WireId) -> Result<Self, CallError> {
        let Stream { outgoing, incoming } = Stream::open(link, by, RequestTemplate::of(model, id))?;
        Ok(Self { outgoing: Some(outgoing), incoming })
    }

    /// Hands over a step. Returns whether there was room for it.
    pub(super) fn send(&self, step: Step) -> bool {
        let room = self.outgoing.as_ref().and_then(Outgoing::room_now);
        room.map(|room| room.send(step)).is_some()
    }

    /// What comes within `limit` of now, or that nothing has come in answer to `request`.
    pub(super) async fn answer(&mut self, request: RequestId, limit: Duration) -> EventKind {
        let Ok(message) = timeout(limit, self.incoming.next()).await else {
            // Some of what it is answered with may have come.
            let part = self.incoming.unfinished(request);
            return part.map_or(EventKind::GaveUp, |received| EventKind::Received(Box::new(received)));
        };
        match message {
            Message::Received(received) => EventKind::Received(Box::new(received)),
            Message::End => EventKind::Cut(Cut::Ended),
            Message::Broken(reason) => EventKind::Cut(Cut::Broken(reason)),
            Message::Lapsed(_) => EventKind::Cut(Cut::Lapsed),
        }
    }
}
