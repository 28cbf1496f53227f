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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::recording::{MEMORY_MAX, Recorder, Summary};

    /// What is recorded of connections whose bytes come in pieces of this size.
    fn recorded(connections: &[&[u8]], piece: usize) -> Summary {
        let recorder = Recorder::start(io::sink(), Vec::new(), MEMORY_MAX, |_| ()).expect("a sink");
        for bytes in connections {
            let mut tap = recorder.tap();
            bytes.chunks(piece).for_each(|piece| tap.came(piece));
        }
        recorder.finish().expect("a sink")
    }

    #[test]
    fn each_protocol_is_told_by_how_it_begins() {
        let body = r#"{"parameters":{"sequence_id":1,"sequence_start":true},"inputs":[{"name":"A","shape":[1],"datatype":"INT8","data":[1]}]}"#;
        let http1 = format!("POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        // model_name, a parameter sequence_id of 7, and an input with raw contents.
        let message = b"\x0a\x01m\x22\x11\x0a\x0bsequence_id\x12\x02\x10\x07\x2a\x0c\x0a\x01A\x12\x04INT8\x1a\x01\x01\x3a\x01\x05";
        let length = u8::try_from(message.len()).expect("short");
        let frame = [&[0, 0, length + 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, length][..], message].concat();
        let http2 = [PREFACE, &frame].concat();
        for piece in [1, 3, 24, 1000] {
            let summary = recorded(&[http1.as_bytes(), &http2], piece);
            assert_eq!((summary.requests, summary.sequences, summary.unreadable_connections), (2, 1, 0), "{piece}");
            // Neither is TLS, nor what only begins as HTTP/2 does; what follows it is not looked at.
            let other = [&PREFACE[..20], http1.as_bytes()].concat();
            let summary = recorded(&[b"\x16\x03\x01\x02\x00\x01\x00", &other, b"PR"], piece);
            assert_eq!((summary.requests, summary.unreadable_connections), (0, 2), "{piece}");
        }
    }
}
