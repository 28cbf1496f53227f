//! gRPC's messages within the bytes of a body.

use hyper::body::Bytes;

/// What stands before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// A longer message passes as it is.
pub(super) const LONGEST: usize = 16 << 20;

/// A message, or bytes that are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A message that is not compressed, without its prefix.
    Message(Vec<u8>),
    /// What passes as it is: a compressed message, or a part of one that is very long.
    Other(Vec<u8>),
}

/// Finds messages in a body.
#[derive(Debug, Default)]
pub(super) struct Frames {
    waiting: Vec<u8>,
    /// How much of a long message has still to pass.
    passing: usize,
}

impl Frames {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.waiting.extend_from_slice(data);
    }

    /// The next whole piece, if it is there.
    pub(super) fn next(&mut self) -> Option<Piece> {
        if self.passing > 0 {
            let part = self.passing.min(self.waiting.len());
            self.passing -= part;
            return (part > 0).then(|| Piece::Other(self.waiting.drain(..part).collect()));
        }
        let [flag, length @ ..] = *self.waiting.first_chunk::<PREFIX>()?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST {
            self.passing = PREFIX.saturating_add(length);
            return self.next();
        }
        let whole = PREFIX + length;
        if self.waiting.len() < whole {
            return None;
        }
        let mut piece: Vec<u8> = self.waiting.drain(..whole).collect();
        Some(if flag == 0 { Piece::Message(piece.split_off(PREFIX)) } else { Piece::Other(piece) })
    }

    /// What is left when no more comes.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.waiting)
    }
}

/// A message with its prefix.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let parts = [&[0][..], &length.to_be_bytes(), message];
    parts.concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(data: &[&[u8]]) -> (Vec<Piece>, Vec<u8>) {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for part in data {
            frames.push(part);
            while let Some(piece) = frames.next() {
                found.push(piece);
            }
        }
        (found, frames.take_rest())
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let body = [&framed(b"one")[..], &framed(b""), &framed(b"three")].concat();
        let expected: Vec<_> = [&b"one"[..], b"", b"three"].map(|message| Piece::Message(message.into())).into();
        assert_eq!(pieces(&[&body]), (expected.clone(), Vec::new()));
        for at in 0..body.len() {
            let (head, rest) = body.split_at(at);
            assert_eq!(pieces(&[head, rest]), (expected.clone(), Vec::new()), "cut at {at}");
        }
        assert_eq!(pieces(&[&body[..body.len() - 1]]), (expected[..2].to_vec(), body[13..body.len() - 1].to_vec()));
    }

    #[test]
    fn what_is_compressed_or_very_long_passes_as_it_is() {
        let mut compressed = framed(b"zip").to_vec();
        compressed[0] = 1;
        let body = [&compressed[..], &framed(b"plain")].concat();
        assert_eq!(pieces(&[&body]).0, [Piece::Other(compressed), Piece::Message(b"plain".into())]);
        let length = u32::try_from(LONGEST + 1).expect("it fits").to_be_bytes();
        let head = [&[0][..], &length, b"begins"].concat();
        assert_eq!(pieces(&[&head, b"goes on"]).0, [Piece::Other(head.clone()), Piece::Other(b"goes on".into())]);
    }
}
