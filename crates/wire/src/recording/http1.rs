//! HTTP/1.1 from the client: its requests, and the bodies of those that are inferences.

use std::{borrow::Cow, sync::Arc};

use httparse::{EMPTY_HEADER, Status, parse_chunk_size};
use percent_encoding::percent_decode_str;

use super::{
    Form, Loss,
    budget::{Budget, Held, keep},
    tap::{Unreadable, Whole},
};
use crate::proto::HEADER_LENGTH;

/// The most bytes of a request's head, and of a line between the pieces of a body.
const HEAD_MAX: usize = 64 << 10;
const LINE_MAX: usize = 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 256;

/// The requests of a connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    part: Part,
    /// The body that comes, if it is one that is wanted.
    body: Option<(Form, Result<Held, Loss>)>,
    /// How many requests began.
    begun: u32,
}

/// What comes next.
#[derive(Debug)]
enum Part {
    /// A request's head, as far as it is here.
    Head(Vec<u8>),
    /// A body, or a piece of one behind which the next one is told.
    Data { left: u64, is_piece: bool },
    /// How long the next piece of a body is.
    Size(Vec<u8>),
    /// The end of a piece, of so many bytes.
    PieceEnd(u8),
    /// What stands behind the last piece, line by line.
    Trailer(Vec<u8>),
}

/// What a head says of its body.
struct Head {
    form: Option<Form>,
    length: Length,
}

#[derive(Clone, Copy)]
enum Length {
    Known(u64),
    InPieces,
}

impl Default for Part {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

impl Requests {
    pub(super) fn came(
        &mut self,
        mut bytes: &[u8],
        budget: &Arc<Budget>,
        whole: &mut impl FnMut(Whole),
    ) -> Result<(), Unreadable> {
        while !bytes.is_empty() {
            match &mut self.part {
                Part::Head(head) => {
                    let before = head.len();
                    head.extend(&bytes[..bytes.len().min(HEAD_MAX - before)]);
                    match read_head(head)? {
                        Some((end, read)) => {
                            bytes = &bytes[end - before..];
                            self.begin(read, budget, whole);
                        }
                        None if head.len() == HEAD_MAX => return Err(Unreadable),
                        None => return Ok(()),
                    }
                }
                Part::Data { left, is_piece } => {
                    let here = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    let (data, rest) = bytes.split_at(here);
                    if let Some((_, held)) = &mut self.body {
                        keep(held, data);
                    }
                    bytes = rest;
                    *left -= here as u64;
                    if *left == 0 {
                        if *is_piece {
                            self.part = Part::PieceEnd(2);
                        } else {
                            self.end(whole);
                        }
                    }
                }
                Part::Size(line) => {
                    if !take_line(&mut bytes, line)? {
                        return Ok(());
                    }
                    let Ok(Status::Complete((_, left))) = parse_chunk_size(line) else { return Err(Unreadable) };
                    self.part = if left == 0 { Part::Trailer(Vec::new()) } else { Part::Data { left, is_piece: true } };
                }
                Part::PieceEnd(left) => {
                    *left -= 1;
                    let expected = if *left == 1 { b'\r' } else { b'\n' };
                    if bytes[0] != expected {
                        return Err(Unreadable);
                    }
                    bytes = &bytes[1..];
                    if *left == 0 {
                        self.part = Part::Size(Vec::new());
                    }
                }
                Part::Trailer(line) => {
                    if !take_line(&mut bytes, line)? {
                        return Ok(());
                    }
                    if line.trim_ascii().is_empty() {
                        self.end(whole);
                    } else {
                        line.clear();
                    }
                }
            }
        }
        Ok(())
    }

    /// Goes on behind a head.
    fn begin(&mut self, Head { form, length }: Head, budget: &Arc<Budget>, whole: &mut impl FnMut(Whole)) {
        self.begun = self.begun.saturating_add(1);
        self.body = form.map(|form| (form, Held::new(budget)));
        match length {
            Length::Known(0) => self.end(whole),
            Length::Known(left) => self.part = Part::Data { left, is_piece: false },
            Length::InPieces => self.part = Part::Size(Vec::new()),
        }
    }

    /// Goes on behind a body.
    fn end(&mut self, whole: &mut impl FnMut(Whole)) {
        self.part = Part::default();
        if let Some((form, held)) = self.body.take() {
            whole((self.begun, form, held));
        }
    }
}

/// Adds to a line what comes of it, and returns whether it is whole.
fn take_line(bytes: &mut &[u8], line: &mut Vec<u8>) -> Result<bool, Unreadable> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (piece, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
    line.extend(piece);
    *bytes = rest;
    if line.len() > LINE_MAX { Err(Unreadable) } else { Ok(end.is_some()) }
}

/// Reads a head, and says where it ends; none where it is not whole.
fn read_head(bytes: &[u8]) -> Result<Option<(usize, Head)>, Unreadable> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let end = match request.parse(bytes) {
        Ok(Status::Complete(end)) => end,
        Ok(Status::Partial) => return Ok(None),
        Err(_) => return Err(Unreadable),
    };
    let named = |name: &str| {
        let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        str::from_utf8(header.value).ok().map(str::trim)
    };
    // What comes behind it may be another protocol.
    if named("upgrade").is_some() || request.method == Some("CONNECT") {
        return Err(Unreadable);
    }
    let length = match (named("transfer-encoding"), named("content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Length::InPieces,
        (Some(_), _) => return Err(Unreadable),
        (None, Some(length)) => Length::Known(length.parse().map_err(|_| Unreadable)?),
        (None, None) => Length::Known(0),
    };
    let is_compressed = named("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity"));
    let json = named(HEADER_LENGTH).and_then(|length| length.parse().ok());
    let model = request.path.filter(|_| request.method == Some("POST")).and_then(model_of);
    let form = model.map(|model| Form::Body { model, json, is_compressed });
    Ok(Some((end, Head { form, length })))
}

/// The model that a request to this path infers with, if that is what it does.
fn model_of(path: &str) -> Option<String> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    // A client may name the host besides.
    let path = path.split_once("://").map_or(path, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let rest = path.strip_prefix("/v2/models/")?.strip_suffix("/infer")?;
    let model = match rest.split_once('/') {
        None => rest,
        Some((model, version)) => {
            version.strip_prefix("versions/").filter(|version| !version.contains('/')).map(|_| model)?
        }
    };
    percent_decode_str(model).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = (u32, Form, Result<String, Loss>);

    fn found_with(bytes: &[u8], piece: usize, memory: usize) -> Result<Vec<Found>, Unreadable> {
        let (mut requests, budget, mut all) = (Requests::default(), Arc::new(Budget::new(memory)), Vec::new());
        for bytes in bytes.chunks(piece) {
            requests.came(bytes, &budget, &mut |(number, form, held)| {
                let text = held.map(|held| String::from_utf8(held.bytes().to_vec()).expect("UTF-8"));
                all.push((number, form, text));
            })?;
        }
        Ok(all)
    }

    fn found(bytes: &str) -> Result<Vec<Found>, Unreadable> {
        let whole = found_with(bytes.as_bytes(), usize::MAX, 1 << 20);
        for piece in [1, 2, 5, 50] {
            assert_eq!(found_with(bytes.as_bytes(), piece, 1 << 20), whole, "{piece}");
        }
        whole
    }

    fn body(number: u32, text: &str, json: Option<usize>, is_compressed: bool) -> Found {
        (number, Form::Body { model: "a model".to_owned(), json, is_compressed }, Ok(text.to_owned()))
    }

    const POST: &str = "POST /v2/models/a%20model/infer HTTP/1.1\r\nHost: h\r\n";

    #[test]
    fn bodies_of_inferences_are_found() {
        let text = [
            "GET /v2/health/ready HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer hunter2\r\n\r\n",
            &format!("{POST}Content-Length: 3\r\n\r\none"),
            "POST /v2/repository/index HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
            &format!("{POST}TRANSFER-ENCODING: Chunked\r\ncontent-encoding: gzip\r\n\r\n2;x=y\r\ntw\r\n1\r\no\r\n0\r\nx: y\r\n\r\n"),
            "POST /v2/models/a%20model/versions/7/infer?key=hunter2 HTTP/1.1\nInference-Header-Content-Length: 4\nContent-Length: 5\n\nthree",
            "POST /v2/models/m/generate HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
            &format!("{POST}\r\n"),
            &format!("{POST}Content-Length: 99\r\n\r\nnot whole"),
        ]
        .concat();
        let expected = [
            body(2, "one", None, false),
            body(4, "two", None, true),
            body(5, "three", Some(4), false),
            body(7, "", None, false),
        ];
        assert_eq!(found(&text), Ok(expected.to_vec()));
    }

    #[test]
    fn what_cannot_be_followed_is_given_up() {
        for text in [
            "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
            "CONNECT h:1 HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab",
            "\u{16}\u{3}\u{1}\u{2}",
        ] {
            assert_eq!(found(text), Err(Unreadable), "{text}");
        }
        let endless = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(HEAD_MAX));
        assert_eq!(found_with(endless.as_bytes(), 4096, 1 << 20), Err(Unreadable));
    }

    #[test]
    fn paths_of_inferences_are_known() {
        for (path, model) in [
            ("/v2/models/m/infer", Some("m")),
            ("/v2/models/m/versions/3/infer?a=/infer", Some("m")),
            ("http://h:8000/v2/models/m%2Fn/infer", Some("m/n")),
            ("/v2/models/m/versions/3/4/infer", None),
            ("/v2/models/m/other/infer", None),
            ("/v2/models/m/ready", None),
            ("/v2/models/infer", None),
            ("/", None),
        ] {
            assert_eq!(model_of(path).as_deref(), model, "{path}");
        }
    }

    #[test]
    fn a_body_that_there_is_no_room_for_is_told_and_the_next_one_is_kept() {
        let text = format!("{POST}Content-Length: 900\r\n\r\n{}{POST}Content-Length: 3\r\n\r\none", "x".repeat(900));
        let all = found_with(text.as_bytes(), 100, 1000).expect("it is HTTP");
        assert_eq!(all.into_iter().map(|(.., held)| held).collect::<Vec<_>>(), [Err(Loss::NoRoom), Ok("one".into())]);
    }
}
