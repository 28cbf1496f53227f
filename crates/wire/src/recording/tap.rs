//! A copy of one connection, from the client to the server.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    Form, Loss, Shared,
    budget::Held,
    frames::{Frames, PREFACE},
    http1::Requests,
};

/// Reads a copy of what one client sends on one connection, and hands complete requests to the recorder.
#[derive(Debug)]
pub struct Tap {
    shared: Arc<Shared>,
    connection: u64,
    speaks: Speaks,
}

#[derive(Debug)]
enum Speaks {
    /// What came so far is the beginning of HTTP/2's preface, so long.
    NotKnown(usize),
    Http2(Frames),
    Http1(Requests),
    /// What cannot be read.
    Other,
}

/// What is no HTTP, or no HTTP that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// A request whose bytes are there, or could not be kept.
pub(super) type Whole = (u32, Form, Result<Held, Loss>);

impl Tap {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let connection = shared.connections.fetch_add(1, Relaxed) + 1;
        Self { shared, connection, speaks: Speaks::NotKnown(0) }
    }

    /// Takes in the bytes that come next. What cannot be read is counted once, and the rest of the connection is not looked at.
    pub fn came(&mut self, bytes: &[u8]) {
        if self.read(bytes).is_err() {
            self.speaks = Speaks::Other;
            self.shared.unreadable.fetch_add(1, Relaxed);
        }
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Unreadable> {
        let Self { shared, connection, speaks } = self;
        let mut whole = |(stream, form, held): Whole| match held {
            Ok(held) => shared.came(*connection, stream, form, held),
            Err(loss) => shared.lose(loss),
        };
        if let Speaks::NotKnown(before) = speaks {
            let same = PREFACE[*before..].iter().zip(bytes).take_while(|(one, other)| one == other).count();
            let known = *before + same;
            if known < PREFACE.len() && same == bytes.len() {
                *before = known;
                return Ok(());
            }
            if known == PREFACE.len() {
                *speaks = Speaks::Http2(Frames::default());
                bytes = &bytes[same..];
            } else {
                let mut requests = Requests::default();
                requests.came(&PREFACE[..*before], &shared.budget, &mut whole)?;
                *speaks = Speaks::Http1(requests);
            }
        }
        match speaks {
            Speaks::Http2(frames) => frames.came(bytes, &shared.budget, &mut whole),
            Speaks::Http1(requests) => requests.came(bytes, &shared.budget, &mut whole),
            Speaks::NotKnown(_) | Speaks::Other => Ok(()),
        }
    }
}
