//! HTTP/2 connections that the server ends in good order. The server tells the client to go away (GOAWAY, RFC 9113, 6.8), finishes some of
//! the streams, and closes the connection. Load balancers do this, and servers that limit the age of connections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};

use super::{
    access::Access,
    call_error::{chain, describe, describe_with_code, is_about_the_call, is_from_the_server},
    dial::Dial,
    stream::Message,
};
use crate::net::{Mark, Marks};

/// How often the client begins one stream or call again.
pub(super) const RETRIES_MAX: u32 = 8;

const GOAWAY: u8 = 7;
/// The last stream that the server takes in, and an error code.
const GOAWAY_BYTES: usize = 8;
const NO_ERROR: [u8; 4] = [0; 4];

/// What became of connections that the server ended in good order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoAways {
    /// Connections on which the server said GOAWAY without an error.
    pub connections: u64,
    /// Streams and calls that the client began again on another connection. The server had certainly not processed them.
    pub retried: u64,
    /// Streams and calls that broke with such a connection.
    pub cut: u64,
}

impl GoAways {
    /// Whether the server ended no connection so.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds those of another process.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.retried += other.retried;
        self.cut += other.cut;
    }
}

/// Which connection of a conduit a stream or call is on, as far as the client knows.
#[derive(Clone, Debug)]
pub(super) struct Began {
    told: Marks,
    access: Access,
    /// The first of them that the stream or call can be on. The library begins none on a connection with a GOAWAY.
    first: u64,
}

impl Began {
    pub(super) fn now(dial: &Dial) -> Self {
        Self::over(dial.told.clone(), dial.dialer.access.clone())
    }

    fn over(told: Marks, access: Access) -> Self {
        Self { first: told.made().max(told.latest() + 1), told, access }
    }

    /// The end of a stream that failed with this status.
    pub(super) fn failed(&self, status: &Status) -> Message {
        self.lapsed(status).unwrap_or_else(|| Message::Broken(describe_with_code(status)))
    }

    /// The end of a stream or call that broke with a connection that had a GOAWAY; none where the status tells another reason.
    pub(super) fn lapsed(&self, status: &Status) -> Option<Message> {
        let is_of_the_connection = !is_from_the_server(status) || is_of_the_servers_connection(status);
        if !is_of_the_connection || !self.told.since(self.first) {
            return None;
        }
        self.access.count(|went| went.cut += 1);
        Some(Message::Lapsed(describe(status)))
    }
}

/// Whether a status is that of the server's gRPC library, which ends a connection. A tritonserver's library says 'enter idle'. Other
/// libraries have other words, none of which name a request, a sequence or a model.
fn is_of_the_servers_connection(status: &Status) -> bool {
    status.code() == Code::Unavailable && !is_about_the_call(status)
}

/// Whether the server has certainly not processed a stream or call that failed with this status. Either it never left the client, or its
/// number is above the last one of the GOAWAY (RFC 9113, 6.8), or the server rejected it unread (RFC 9113, 8.7).
pub(super) fn is_unprocessed(status: &Status) -> bool {
    for cause in chain(status).skip(1) {
        if cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            let rejected = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let above_the_last = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            return error.is_remote() && (rejected || above_the_last);
        }
    }
    false
}

/// Watches the bytes that come over one connection, and marks the connection at a GOAWAY without an error.
#[derive(Debug)]
pub(super) struct Watch {
    frames: Frames,
    mark: Mark,
    access: Access,
    was_told: bool,
}

impl Watch {
    pub(super) fn new(mark: Mark, access: Access) -> Self {
        Self { frames: Frames::default(), mark, access, was_told: false }
    }

    /// Takes in bytes before the library does, which may then make another connection.
    pub(super) fn came(&mut self, bytes: &[u8]) {
        if self.frames.tell_to_go_away(bytes) && !self.was_told {
            self.was_told = true;
            self.mark.set();
            self.access.count(|went| went.connections += 1);
        }
    }
}

/// Where in its frames what a server sends is: a server begins with one, and has nothing between them.
#[derive(Debug, Default)]
struct Frames {
    /// What came of a frame's beginning: its header, and of a GOAWAY what it says.
    beginning: Vec<u8>,
    /// How many bytes come that are not looked at.
    skipped: usize,
}

impl Frames {
    /// Takes bytes in, in whatever pieces they come; whether they tell the client to go away, without an error.
    fn tell_to_go_away(&mut self, mut bytes: &[u8]) -> bool {
        let mut told = false;
        loop {
            let skipped = bytes.len().min(self.skipped);
            self.skipped -= skipped;
            bytes = &bytes[skipped..];
            let Some((byte, behind)) = bytes.split_first() else { return told };
            self.beginning.push(*byte);
            bytes = behind;
            let &[high, middle, low, kind, _, _, _, _, _, ref says @ ..] = self.beginning.as_slice() else { continue };
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            let looked_at = if kind == GOAWAY && length >= GOAWAY_BYTES { GOAWAY_BYTES } else { 0 };
            if says.len() == looked_at {
                told |= says.ends_with(&NO_ERROR);
                self.skipped = length - looked_at;
                self.beginning.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const HEADER_BYTES: usize = 9;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 0], payload].concat()
    }

    fn go_away(code: u8) -> Vec<u8> {
        frame(GOAWAY, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, code, b'm', b'a', b'x'])
    }

    #[test]
    fn a_goaway_is_seen_between_other_frames_however_they_are_cut_into_pieces() {
        let settings = frame(4, &[0; 12]);
        // A payload that looks like a GOAWAY is none.
        let data = frame(0, &go_away(0));
        let bytes = [settings.clone(), data.clone(), frame(4, &[]), go_away(0), data].concat();
        let told_at = settings.len() + frame(0, &go_away(0)).len() + HEADER_BYTES + HEADER_BYTES + GOAWAY_BYTES;
        for size in 1..=bytes.len() {
            let mut frames = Frames::default();
            let told: Vec<_> = bytes.chunks(size).map(|piece| frames.tell_to_go_away(piece)).collect();
            let expected = (told_at - 1) / size;
            assert_eq!(told.iter().position(|told| *told), Some(expected), "pieces of {size}");
            assert_eq!(told.iter().filter(|told| **told).count(), 1, "pieces of {size}");
        }
    }

    #[test]
    fn a_goaway_with_an_error_or_too_short_is_not_in_good_order() {
        let mut frames = Frames::default();
        let bytes = [go_away(2), frame(GOAWAY, &[0; 4]), frame(6, &[0; 8])].concat();
        assert!(!frames.tell_to_go_away(&bytes));
        assert!(frames.tell_to_go_away(&go_away(0)), "the frames behind them are seen");
    }

    #[test]
    fn what_begins_is_on_no_connection_that_was_told_before() {
        let (told, access) = (Marks::default(), Access::default());
        let began = || Began::over(told.clone(), access.clone());
        let is_lapsed = |began: &Began| {
            let lost = Status::from_error(Box::new(io::Error::from(io::ErrorKind::BrokenPipe)));
            matches!(began.failed(&lost), Message::Lapsed(_))
        };
        let before = began();
        let first = told.connection();
        let on_the_first = began();
        assert!(!is_lapsed(&before) && !is_lapsed(&on_the_first), "it was not told yet");
        first.set();
        let on_the_second = began();
        assert!(is_lapsed(&before) && is_lapsed(&on_the_first), "it was under way");
        assert!(!is_lapsed(&on_the_second), "it goes over the next");
        assert!(matches!(on_the_first.failed(&Status::internal("a word")), Message::Broken(_)), "the server says why");
        assert!(matches!(on_the_first.failed(&Status::unavailable("enter idle")), Message::Lapsed(_)));
        let timeout = "timeout of the corresponding sequence has been expired";
        assert!(on_the_first.lapsed(&Status::unavailable(timeout)).is_none(), "it is about the request");
        assert_eq!(access.gone_away(), GoAways { cut: 3, ..GoAways::default() });
    }

    #[test]
    fn what_was_rejected_unread_is_tried_again_and_nothing_else() {
        let of = |error: h2::Error| is_unprocessed(&Status::from_error(Box::new(error)));
        // Errors of h2 that came from the other end cannot be made by hand; the tests of whole runs have them.
        assert!(!of(h2::Reason::REFUSED_STREAM.into()), "it is the client's own");
        assert!(!is_unprocessed(&Status::unavailable("the server says so")));
    }
}
