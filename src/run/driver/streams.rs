//! The open streams of a driver, and what each was opened over.

use std::{future::poll_fn, task::Poll, time::Duration};

use wire::{
    net::Marks,
    transport::{Incoming, Message, Outgoing, Severer},
};
use workload::{
    conversation::{Lane, Transport},
    event::Cut,
};

/// How long after a connection is gone a stream that still waits was certainly not on it: it would have been told.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// The open streams, by lane.
#[derive(Default)]
pub(super) struct Streams {
    /// None where the stream is half-closed, or not open.
    pub(super) outgoing: Vec<Option<Outgoing>>,
    pub(super) incoming: Vec<Option<Incoming>>,
    ways: Vec<Option<Way>>,
}

/// What a stream was opened over.
pub(super) struct Way {
    /// Ends the connection, where it was made for the stream.
    severer: Option<Severer>,
    /// Which connections the network took.
    taken: Marks,
    /// The first connection that it may be on, counted from 1; 0 where none had been made when it was opened.
    made: u64,
    /// The latest connection that was taken when it was opened, from 1: the stream has nothing of what came over that.
    taken_before: u64,
    /// Whether each call may take another connection.
    changes: bool,
}

impl Way {
    pub(super) fn new(taken: Marks, severer: Option<Severer>, by: Transport) -> Self {
        // Of several connections each call may take any that is left.
        let made = if by.is_http() { 0 } else { taken.made() };
        Self { severer, made, taken_before: taken.latest(), changes: by.is_http(), taken }
    }
}

impl Streams {
    pub(super) fn put(&mut self, lane: Lane, outgoing: Outgoing, incoming: Incoming, way: Way) {
        let index = lane.index();
        if self.incoming.len() <= index {
            self.outgoing.resize_with(index + 1, || None);
            self.incoming.resize_with(index + 1, || None);
            self.ways.resize_with(index + 1, || None);
        }
        (self.outgoing[index], self.incoming[index], self.ways[index]) = (Some(outgoing), Some(incoming), Some(way));
    }

    pub(super) fn severer(&self, lane: Lane) -> Option<&Severer> {
        self.ways.get(lane.index())?.as_ref()?.severer.as_ref()
    }

    /// The server said something on a stream: nothing of that came over a connection that was taken before the stream was
    /// opened, because nothing of the stream went over it.
    pub(super) fn heard_of(&mut self, lane: Lane) {
        let way = self.ways.get_mut(lane.index()).and_then(Option::as_mut);
        if let Some(way) = way.filter(|way| !way.changes) {
            way.made = way.made.max(way.taken_before + 1);
        }
    }

    /// A stream has been waited for while its thread was not held up. Had it been on the connection that was taken before,
    /// it would have been told so by now.
    pub(super) fn waited_long(&mut self, lane: Lane) {
        let gone_for = |way: &Way| way.taken.gone_for(way.taken_before);
        let way = self.ways.get(lane.index()).and_then(Option::as_ref);
        if way.and_then(gone_for).is_some_and(|gone_for| gone_for >= TOLD_AFTER) {
            self.heard_of(lane);
        }
    }

    /// How a stream's connection was taken from it, where that was not the server's doing.
    pub(super) fn taken_on_purpose(&self, lane: Lane) -> Option<Cut> {
        let way = self.ways.get(lane.index())?.as_ref()?;
        if way.taken.since(way.made) {
            Some(Cut::ByNetwork)
        } else {
            way.severer.as_ref().filter(|severer| severer.has_failed()).map(|_| Cut::Killed)
        }
    }

    pub(super) fn is_open(&self, lane: Lane) -> bool {
        self.incoming.get(lane.index()).is_some_and(Option::is_some)
    }

    pub(super) fn is_half_closed(&self, lane: Lane) -> bool {
        self.outgoing.get(lane.index()).is_none_or(Option::is_none)
    }

    pub(super) fn open_lanes(&self) -> Vec<Lane> {
        (0..).zip(&self.incoming).filter(|(_, stream)| stream.is_some()).map(|(lane, _)| Lane(lane)).collect()
    }

    /// Drops a stream, which cancels it where it has not ended; whether there was one.
    pub(super) fn drop_lane(&mut self, lane: Lane) -> bool {
        let index = lane.index();
        if index >= self.incoming.len() {
            return false;
        }
        (self.outgoing[index], self.ways[index]) = (None, None);
        self.incoming[index].take().is_some()
    }
}

pub(super) async fn next_message(incoming: &mut [Option<Incoming>]) -> (Lane, Message) {
    poll_fn(|context| {
        for (lane, stream) in (0..).zip(&mut *incoming) {
            if let Some(stream) = stream
                && let Poll::Ready(message) = stream.poll_next(context)
            {
                return Poll::Ready((Lane(lane), message));
            }
        }
        Poll::Pending
    })
    .await
}
