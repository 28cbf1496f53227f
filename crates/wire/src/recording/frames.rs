//! HTTP/2 from the client, and the messages of gRPC in it.

use std::{collections::BTreeMap, mem, sync::Arc};

use super::{
    Form, Loss,
    budget::{Budget, Held, keep},
    tap::{Unreadable, Whole},
};

/// What a connection begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The bytes of a frame's head, and those before a message.
const HEAD: usize = 9;
const PREFIX: usize = 5;
/// The types of frames that are looked at: those with headers only to see whether they end a stream.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;
/// The most streams of a connection that are remembered; a server has less open.
const STREAMS_MAX: usize = 10_000;

/// The frames of a connection behind its preface.
#[derive(Debug, Default)]
pub(super) struct Frames {
    part: Part,
    /// Streams of which data came, until they end.
    streams: BTreeMap<u32, Messages>,
}

/// What comes next.
#[derive(Debug)]
enum Part {
    /// A frame's head, of which so many bytes are here.
    Head([u8; HEAD], usize),
    /// How many bytes a data frame ends with that are no data; it has so many behind this one.
    Padding(Frame),
    Data(Frame),
    /// What is not looked at.
    Rest(usize),
}

/// A data frame.
#[derive(Clone, Copy, Debug)]
struct Frame {
    stream: u32,
    /// Bytes of data that are to come.
    left: usize,
    padding: usize,
    ends: bool,
}

/// The messages of a stream.
#[derive(Debug)]
enum Messages {
    /// So many bytes of what stands before a message.
    Prefix([u8; PREFIX], usize),
    Message {
        is_compressed: bool,
        left: usize,
        held: Result<Held, Loss>,
    },
    /// What comes is no gRPC.
    Others,
}

impl Default for Part {
    fn default() -> Self {
        Self::Head([0; HEAD], 0)
    }
}

impl Frames {
    pub(super) fn came(
        &mut self,
        mut bytes: &[u8],
        budget: &Arc<Budget>,
        whole: &mut impl FnMut(Whole),
    ) -> Result<(), Unreadable> {
        while !bytes.is_empty() {
            match &mut self.part {
                Part::Head(head, there) => {
                    let piece = split(&mut bytes, HEAD - *there);
                    head[*there..][..piece.len()].copy_from_slice(piece);
                    *there += piece.len();
                    if *there == HEAD {
                        let head = *head;
                        self.begin(head);
                    }
                }
                Part::Padding(frame) => {
                    let padding = usize::from(split(&mut bytes, 1)[0]);
                    let left = frame.left.checked_sub(padding).ok_or(Unreadable)?;
                    self.part = Part::Data(Frame { left, padding, ..*frame });
                    self.end_of_data();
                }
                Part::Data(frame) => {
                    let piece = split(&mut bytes, frame.left);
                    frame.left -= piece.len();
                    if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&frame.stream) {
                        self.streams.pop_first();
                    }
                    let stream = frame.stream;
                    self.streams.entry(stream).or_default().came(piece, budget, &mut |form, held| {
                        whole((stream, form, held));
                    });
                    self.end_of_data();
                }
                Part::Rest(left) => {
                    *left -= split(&mut bytes, *left).len();
                    if *left == 0 {
                        self.part = Part::default();
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, [a, b, c, kind, flags, stream @ ..]: [u8; HEAD]) {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        let ends = flags & END_STREAM != 0;
        let frame = Frame { stream, left: length, padding: 0, ends };
        self.part = match kind {
            DATA if flags & PADDED != 0 && length > 0 => Part::Padding(Frame { left: length - 1, ..frame }),
            DATA => Part::Data(frame),
            _ if length == 0 => Part::default(),
            _ => Part::Rest(length),
        };
        match kind {
            DATA => self.end_of_data(),
            RST_STREAM => _ = self.streams.remove(&stream),
            HEADERS if ends => _ = self.streams.remove(&stream),
            _ => {}
        }
    }

    /// Goes on behind a data frame, where that is over.
    fn end_of_data(&mut self) {
        if let Part::Data(Frame { stream, left: 0, padding, ends }) = self.part {
            if ends {
                self.streams.remove(&stream);
            }
            self.part = if padding == 0 { Part::default() } else { Part::Rest(padding) };
        }
    }
}

impl Default for Messages {
    fn default() -> Self {
        Self::Prefix([0; PREFIX], 0)
    }
}

impl Messages {
    fn came(&mut self, mut bytes: &[u8], budget: &Arc<Budget>, whole: &mut impl FnMut(Form, Result<Held, Loss>)) {
        loop {
            match self {
                Self::Prefix(prefix, there) => {
                    let piece = split(&mut bytes, PREFIX - *there);
                    prefix[*there..][..piece.len()].copy_from_slice(piece);
                    *there += piece.len();
                    if *there < PREFIX {
                        return;
                    }
                    let [flag, length @ ..] = *prefix;
                    let left = u32::from_be_bytes(length) as usize;
                    *self = if flag > 1 {
                        Self::Others
                    } else {
                        Self::Message { is_compressed: flag == 1, left, held: Held::new(budget) }
                    };
                }
                Self::Message { is_compressed, left, held } => {
                    let piece = split(&mut bytes, *left);
                    *left -= piece.len();
                    keep(held, piece);
                    if *left > 0 {
                        return;
                    }
                    let form = Form::Message { is_compressed: *is_compressed };
                    if let Self::Message { held, .. } = mem::take(self) {
                        whole(form, held);
                    }
                }
                Self::Others => return,
            }
        }
    }
}

/// Takes off so many bytes, or as many as there are.
fn split<'b>(bytes: &mut &'b [u8], most: usize) -> &'b [u8] {
    let (piece, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: usize = 1 << 20;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    fn message(flag: u8, text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).expect("short").to_be_bytes();
        [&[flag], &length[..], text.as_bytes()].concat()
    }

    type Found = (u32, bool, String);

    /// The messages found, where the bytes come in pieces of this size, and how many streams are left.
    fn found(bytes: &[u8], piece: usize) -> Result<(Vec<Found>, usize), Unreadable> {
        let (mut frames, budget, mut all) = (Frames::default(), Arc::new(Budget::new(MEMORY)), Vec::new());
        for bytes in bytes.chunks(piece) {
            frames.came(bytes, &budget, &mut |(stream, form, held)| {
                let text = String::from_utf8(held.expect("room").bytes().to_vec()).expect("UTF-8");
                all.push((stream, form == Form::Message { is_compressed: true }, text));
            })?;
        }
        Ok((all, frames.streams.len()))
    }

    #[test]
    fn messages_are_found_whatever_their_frames_and_pieces() {
        let long = "x".repeat(300);
        let both = [message(0, "one"), message(1, &long)].concat();
        let padded = [&[3][..], &both[200..], &[9; 3]].concat();
        let bytes = [
            frame(4, 0, 0, &[0; 12]),
            frame(HEADERS, 4, 1, b"never looked at"),
            frame(DATA, 0, 1, &both[..4]),
            frame(HEADERS, 4, 3, b""),
            frame(DATA, 0, 3, &message(0, "")),
            frame(DATA, 0, 1, &both[4..200]),
            frame(DATA, 0, 1, b""),
            frame(8, 0, 0, &[0; 4]),
            frame(DATA, PADDED | END_STREAM, 1, &padded),
            frame(DATA, PADDED, 3, &[0]),
            frame(DATA, PADDED, 3, &[2, 0, 0]),
            frame(DATA, 0, 3, &message(0, "two")),
            frame(DATA, END_STREAM, 3, b""),
        ]
        .concat();
        let expected =
            [(3, false, String::new()), (1, false, "one".into()), (1, true, long), (3, false, "two".to_owned())];
        for piece in [1, 2, 3, 7, 64, bytes.len()] {
            let (mut all, left) = found(&bytes, piece).expect("it is HTTP/2");
            // In large pieces a message is found where its last byte is.
            all.sort_by_key(|(_, _, text)| expected.iter().position(|(_, _, other)| other == text));
            assert_eq!((all, left), (expected.to_vec(), 0), "{piece}");
        }
    }

    #[test]
    fn ended_streams_are_forgotten_with_what_they_began() {
        let begun = &message(0, "never whole")[..8];
        for (kind, flags, payload) in [(RST_STREAM, 0, &[0; 4][..]), (HEADERS, 4 | END_STREAM, b"trailers")] {
            let bytes = [frame(DATA, 0, 1, begun), frame(kind, flags, 1, payload)].concat();
            assert_eq!(found(&bytes, 5), Ok((Vec::new(), 0)));
        }
        let bytes: Vec<u8> = (1..40_001).step_by(2).flat_map(|stream| frame(DATA, 0, stream, begun)).collect();
        assert_eq!(found(&bytes, 4096).map(|(_, left)| left), Ok(STREAMS_MAX));
    }

    #[test]
    fn what_is_no_grpc_is_not_looked_at_and_wrong_padding_ends_it() {
        let bytes = [frame(DATA, 0, 1, b"{\"json\": 1}"), frame(DATA, 0, 3, &message(0, "one"))].concat();
        assert_eq!(found(&bytes, 4), Ok((vec![(3, false, "one".to_owned())], 2)));
        assert_eq!(found(&frame(DATA, PADDED, 1, &[2, 0]), 4), Err(Unreadable));
    }

    #[test]
    fn a_message_that_there_is_no_room_for_is_told_and_the_next_one_is_kept() {
        let (mut frames, budget, mut all) = (Frames::default(), Arc::new(Budget::new(1000)), Vec::new());
        let texts = ["x".repeat(2000), "one".to_owned()].map(|text| frame(DATA, 0, 1, &message(0, &text)));
        for bytes in texts.concat().chunks(100) {
            frames.came(bytes, &budget, &mut |(_, _, held)| all.push(held.map(drop))).expect("it is HTTP/2");
        }
        assert_eq!(all, [Err(Loss::NoRoom), Ok(())]);
    }
}
