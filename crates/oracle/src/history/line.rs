//! An entry as a line of JSON; `docs/HISTORY.md` describes it.

use std::{borrow::Cow, num::NonZeroU16};

use serde::{Deserialize, Serialize};

use super::Entry;
use workload::{
    controls::{self, Seen},
    conversation::{Connection, Lane, Transport},
    event::{Code, ContextId, Cut, Disturbance, Due, EventKind, Nanos, Received, Response, Series, ServerName},
    number::{Datatype, Number, Written},
    sequence::{CorrelationId, Pattern, RequestId, Special, Step},
    tensor::{Tensor, TensorData},
};

/// What each entry's line begins with, and no other line.
pub(super) const BEGINNING: &[u8] = b"{\"t\":";

/// Appends an entry's line.
///
/// By hand, because most of what a history costs is spent here: the two lines that there are of each request are numbers
/// and words that need no escaping.
pub fn write(entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(BEGINNING);
    number(entry.at, out);
    let ContextId { worker, context } = entry.context;
    count("w", worker, out);
    count("c", context, out);
    count("id", entry.correlation_id.0.get(), out);
    if entry.lane != Lane::FIRST {
        count("l", entry.lane.0, out);
    }
    match &entry.what {
        EventKind::Opened(connection, transport) => {
            word("e", "opened", out);
            json("over", connection, out);
            if *transport != Transport::default() {
                json("by", transport, out);
            }
        }
        EventKind::Due(Due { at, waited }) => {
            word("e", "due", out);
            count("at", *at, out);
            json("waited", waited, out);
        }
        EventKind::Sent(step) => sent(step, out),
        EventKind::Answered(request, sum, seen) => {
            word("e", "answered", out);
            request_id(*request, out);
            value("sum", *sum, out);
            if let Some(seen) = seen {
                saw(*seen, out);
            }
        }
        EventKind::Received(received) => {
            word("e", "received", out);
            json("r", &received.id, out);
            match &received.result {
                Ok(response) => json("answer", &Answer::of(response), out),
                Err(text) => json("error", text, out),
            }
            if let Some(code) = &received.code {
                json("code", code, out);
            }
            if received.outputs > 0 {
                count("outputs", received.outputs, out);
            }
        }
        EventKind::ServedBy(server) => {
            word("e", "served-by", out);
            if let Some(server) = server {
                json("server", server, out);
            }
        }
        EventKind::GaveUp => word("e", "gave-up", out),
        EventKind::HalfClosed => word("e", "half-closed", out),
        EventKind::StoppedReading(us) => {
            word("e", "stopped-reading", out);
            count("us", *us, out);
        }
        EventKind::Cut(cut) => {
            word("e", "cut", out);
            json("why", cut, out);
        }
        EventKind::Closed => word("e", "closed", out),
        EventKind::NotClosed => word("e", "not-closed", out),
        EventKind::Disturbed(Disturbance::Begins) => word("e", "disturbed", out),
        EventKind::Disturbed(Disturbance::InstanceFails) => word("e", "instance-fails", out),
        EventKind::Disturbed(Disturbance::IsOver) => word("e", "undisturbed", out),
    }
    out.extend_from_slice(b"}\n");
}

fn sent(step: &Step, out: &mut Vec<u8>) {
    word("e", "sent", out);
    request_id(step.request, out);
    count("of", step.of, out);
    value("v", step.value, out);
    word("p", step.pattern.name(), out);
    for (key, is_set) in [("start", step.start), ("end", step.end)] {
        if is_set {
            field(key, out);
            out.extend_from_slice(b"true");
        }
    }
    if let Some(special) = &step.special {
        json("special", special, out);
    }
}

fn saw(seen: Seen, out: &mut Vec<u8>) {
    field("saw", out);
    for (element, before) in seen.elements().into_iter().zip(b"[,,,,") {
        out.push(*before);
        number(element, out);
    }
    out.push(b']');
}

fn field(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn count(key: &str, value: impl itoa::Integer, out: &mut Vec<u8>) {
    field(key, out);
    number(value, out);
}

fn number(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// A number of a tensor's type, and behind it how many elements it is where it is several, and the type where that is not INT32.
fn value(key: &str, value: Number, out: &mut Vec<u8>) {
    match value.datatype() {
        Datatype::Uint64 => count(key, value.value().cast_unsigned(), out),
        _ => count(key, value.value(), out),
    }
    if value.elements() > NonZeroU16::MIN {
        count("n", value.elements().get(), out);
    }
    if value.datatype() != Datatype::Int32 {
        word("type", value.datatype().name(), out);
    }
}

/// A word that needs no escaping.
fn word(key: &str, word: &str, out: &mut Vec<u8>) {
    field(key, out);
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

fn request_id(RequestId { worker, context, sequence, step }: RequestId, out: &mut Vec<u8>) {
    field("r", out);
    out.push(b'"');
    for (index, value) in [worker, context, sequence, step].into_iter().enumerate() {
        if index > 0 {
            out.push(b'-');
        }
        number(value, out);
    }
    out.push(b'"');
}

fn json(key: &str, value: &impl Serialize, out: &mut Vec<u8>) {
    field(key, out);
    serde_json::to_writer(out, value).expect("a vector takes what is written, and these values are all JSON");
}

/// A line as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryLine<'l> {
    t: Nanos,
    w: u32,
    c: u32,
    id: CorrelationId,
    #[serde(default)]
    l: Lane,
    #[serde(borrow)]
    e: Cow<'l, str>,
    #[serde(borrow)]
    r: Option<Cow<'l, str>>,
    of: Option<u32>,
    v: Option<Written>,
    p: Option<Pattern>,
    #[serde(default)]
    start: bool,
    #[serde(default)]
    end: bool,
    special: Option<Special>,
    sum: Option<Written>,
    /// The type of `v` or `sum`.
    #[serde(default, rename = "type")]
    datatype: Datatype,
    /// How many elements `v` or `sum` is.
    n: Option<NonZeroU16>,
    us: Option<u64>,
    at: Option<Nanos>,
    #[serde(default)]
    waited: bool,
    saw: Option<[i64; controls::ELEMENTS]>,
    over: Option<Connection>,
    /// Older files know of streams alone.
    #[serde(default)]
    by: Transport,
    why: Option<Cut>,
    error: Option<String>,
    code: Option<Code>,
    #[serde(default)]
    outputs: u32,
    answer: Option<Answer>,
    server: Option<ServerName>,
}

/// A response whose form is not the one that was asked for.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    version: String,
    outputs: Vec<Output>,
    /// Further responses to the same request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    further: Vec<Self>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unfinished: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    name: String,
    #[serde(rename = "type")]
    datatype: String,
    shape: Vec<i64>,
    /// Bytes, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    int32: Option<Vec<i32>>,
}

/// Reads an entry's line.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &[u8]) -> Result<Entry, String> {
    let line: HistoryLine = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    Ok(Entry {
        at: line.t,
        context: ContextId { worker: line.w, context: line.c },
        correlation_id: line.id,
        lane: line.l,
        what: line.what()?,
    })
}

impl HistoryLine<'_> {
    fn what(self) -> Result<EventKind, String> {
        let event = self.e.clone();
        let wants = |key: &str| format!("an event '{event}' needs '{key}'");
        Ok(match &*event {
            "opened" => EventKind::Opened(self.over.ok_or_else(|| wants("over"))?, self.by),
            "due" => EventKind::Due(Due { at: self.at.ok_or_else(|| wants("at"))?, waited: self.waited }),
            "sent" => EventKind::Sent(Step {
                request: self.request()?,
                pattern: self.p.ok_or_else(|| wants("p"))?,
                start: self.start,
                end: self.end,
                value: self.number(self.v).ok_or_else(|| wants("v"))?,
                of: self.of.ok_or_else(|| wants("of"))?,
                special: self.special,
            }),
            "answered" => {
                EventKind::Answered(self.request()?, self.number(self.sum).ok_or_else(|| wants("sum"))?, self.seen()?)
            }
            "received" => {
                let result = match (self.answer, self.error) {
                    (Some(answer), None) => Ok(answer.response()?),
                    (None, Some(text)) => Err(text),
                    _ => return Err(wants("answer' or 'error")),
                };
                let id = self.r.ok_or_else(|| wants("r"))?.into_owned();
                EventKind::Received(Box::new(Received { id, result, code: self.code, outputs: self.outputs }))
            }
            "served-by" => EventKind::ServedBy(self.server),
            "gave-up" => EventKind::GaveUp,
            "half-closed" => EventKind::HalfClosed,
            "stopped-reading" => EventKind::StoppedReading(self.us.ok_or_else(|| wants("us"))?),
            "cut" => EventKind::Cut(self.why.ok_or_else(|| wants("why"))?),
            "closed" => EventKind::Closed,
            "not-closed" => EventKind::NotClosed,
            "disturbed" => EventKind::Disturbed(Disturbance::Begins),
            "instance-fails" => EventKind::Disturbed(Disturbance::InstanceFails),
            "undisturbed" => EventKind::Disturbed(Disturbance::IsOver),
            other => return Err(format!("no event is called '{other}'")),
        })
    }

    fn seen(&self) -> Result<Option<Seen>, String> {
        let read = |elements| Seen::from_elements(elements).ok_or_else(|| format!("'saw' cannot be {elements:?}"));
        self.saw.map(read).transpose()
    }

    fn number(&self, written: Option<Written>) -> Option<Number> {
        let elements = self.n.unwrap_or(NonZeroU16::MIN);
        written.map(|written| self.datatype.number(written.value()).of_elements(elements))
    }

    fn request(&self) -> Result<RequestId, String> {
        let text = self.r.as_deref().unwrap_or_default();
        text.parse().map_err(|_| format!("'{text}' is not the ID of a request"))
    }
}

impl Answer {
    fn of(response: &Response) -> Self {
        let output = |tensor: &Tensor| {
            let (raw, int32) = match &tensor.data {
                TensorData::Raw(bytes) => (Some(to_hex(bytes)), None),
                TensorData::Int32(elements) => (None, Some(elements.clone())),
                TensorData::Absent => (None, None),
            };
            let Tensor { name, datatype, shape, data: _ } = tensor.clone();
            Output { name, datatype, shape, raw, int32 }
        };
        let Series { further, is_unfinished, spread: _ } = &response.series;
        Self {
            model: response.model.clone(),
            version: response.version.clone(),
            outputs: response.outputs.iter().map(output).collect(),
            further: further.iter().map(Self::of).collect(),
            unfinished: *is_unfinished,
        }
    }

    fn response(self) -> Result<Response, String> {
        let tensor = |Output { name, datatype, shape, raw, int32 }| {
            let data = match (raw, int32) {
                (Some(digits), None) => TensorData::Raw(from_hex(&digits)?),
                (None, Some(elements)) => TensorData::Int32(elements),
                (None, None) => TensorData::Absent,
                (Some(_), Some(_)) => return Err("an output has 'raw' or 'int32', not both".to_owned()),
            };
            Ok(Tensor { name, datatype, shape, data })
        };
        let outputs = self.outputs.into_iter().map(tensor).collect::<Result<_, _>>()?;
        let further = self.further.into_iter().map(Self::response).collect::<Result<_, _>>()?;
        Ok(Response {
            model: self.model,
            version: self.version,
            outputs,
            series: Series { further, is_unfinished: self.unfinished, spread: None },
        })
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits are a digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(digits: &str) -> Result<Vec<u8>, String> {
    let wrong = || "'raw' is not bytes in hexadecimal digits".to_owned();
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(|pair| byte(pair).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::sequence::Flaw;

    fn every_kind() -> Vec<EventKind> {
        let request = RequestId { worker: 3, context: 1, sequence: 4_000_000_000, step: 2 };
        let step = Step {
            request,
            pattern: Pattern::ValidNoEnd,
            start: true,
            end: false,
            value: i32::MIN.into(),
            of: 3,
            special: None,
        };
        let tensor = |data| Tensor { name: "\"OUT\"\n".into(), datatype: "INT64".into(), shape: vec![-1, 2], data };
        let outputs = [TensorData::Raw(vec![0, 127, 255]), TensorData::Int32(vec![1, -2]), TensorData::Absent];
        let answer = Response {
            model: "ö".into(),
            version: "2".into(),
            outputs: outputs.map(tensor).into(),
            series: Series::default(),
        };
        let received = |id: &str, result| {
            EventKind::Received(Box::new(Received { id: id.into(), result, code: None, outputs: 0 }))
        };
        let mut all = vec![
            EventKind::Sent(step),
            EventKind::Sent(Step { start: false, end: true, value: 7.into(), pattern: Pattern::Concurrent, ..step }),
            EventKind::Sent(Step { start: true, end: true, ..step }),
            EventKind::Sent(Step { special: Some(Special::Flaw(Flaw::BatchOfTwo)), ..step }),
            EventKind::Sent(Step { special: Some(Special::TimeoutUs(u64::MAX)), ..step }),
            EventKind::Answered(request, (-1).into(), None),
            EventKind::Answered(
                request,
                2.into(),
                Some(Seen::new([Some(true), None, Some(false)], i64::MIN, Some(12))),
            ),
            EventKind::Answered(request, 2.into(), Some(Seen::new([None; 3], -1, None))),
            received("3-1-4-2", Ok(answer)),
            received("", Ok(Response::default())),
            received("what?", Err("an \u{0} error\n".into())),
            EventKind::Due(Due { at: u64::MAX, waited: true }),
            EventKind::Due(Due { at: 0, waited: false }),
            EventKind::ServedBy(Some(ServerName::new("a \"server\""))),
            EventKind::ServedBy(None),
            EventKind::GaveUp,
            EventKind::HalfClosed,
            EventKind::StoppedReading(u64::MAX),
            EventKind::Closed,
            EventKind::NotClosed,
            EventKind::Disturbed(Disturbance::Begins),
            EventKind::Disturbed(Disturbance::InstanceFails),
            EventKind::Disturbed(Disturbance::IsOver),
        ];
        for datatype in Datatype::ALL {
            all.push(EventKind::Answered(request, datatype.number(-1), None));
            all.push(EventKind::Sent(Step { value: datatype.number(i64::MAX), ..step }));
            let spread = datatype.number(-7).of_elements(NonZeroU16::MAX);
            all.push(EventKind::Sent(Step { value: spread, ..step }));
            all.push(EventKind::Answered(step.request, spread, None));
        }
        let connections =
            [Connection::Own, Connection::Fresh, Connection::Neighbour, Connection::Narrow, Connection::Process];
        all.extend(connections.map(|over| EventKind::Opened(over, Transport::GrpcStream)));
        all.extend(Transport::ALL.map(|by| EventKind::Opened(Connection::Own, by)));
        for code in [Code::Grpc(3), Code::Http(400)] {
            let received = Received { id: "3-1-4-2".into(), result: Err("no".into()), code: Some(code), outputs: 2 };
            all.push(EventKind::Received(Box::new(received)));
        }
        let cuts = [
            Cut::ByClient,
            Cut::Cancelled,
            Cut::Deadline,
            Cut::Reset,
            Cut::Killed,
            Cut::ByNetwork,
            Cut::Lapsed,
            Cut::Interrupted,
            Cut::Ended,
            Cut::Status(Code::Grpc(14), "an error".into()),
        ];
        all.extend(cuts.map(EventKind::Cut));
        all.push(EventKind::Cut(Cut::Broken("a \"reason\"\u{7f}".into())));
        all
    }

    #[test]
    fn every_kind_of_entry_is_read_back_as_it_was_written() {
        for what in every_kind() {
            for (at, lane) in [(0, Lane::FIRST), (u64::MAX, Lane(7))] {
                let entry = Entry {
                    at,
                    context: ContextId { worker: 3, context: 1 },
                    correlation_id: CorrelationId(u64::MAX.try_into().expect("not zero")),
                    lane,
                    what: what.clone(),
                };
                let mut line = Vec::new();
                write(&entry, &mut line);
                let text = String::from_utf8(line).expect("UTF-8");
                assert!(text.starts_with("{\"t\":") && text.lines().count() == 1, "{text}");
                let read = read(text.as_bytes()).expect("an entry");
                assert_eq!(read, entry, "{text}");
                // Numbers are equal however many elements they are.
                let mut again = Vec::new();
                write(&read, &mut again);
                assert_eq!(String::from_utf8(again), Ok(text));
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_told() {
        let line = |rest: &str| format!("{{\"t\":1,\"w\":0,\"c\":0,\"id\":1,{rest}}}");
        for (rest, expected) in [
            ("\"e\":\"sent\",\"r\":\"0-0-0-0\",\"of\":1,\"p\":\"valid\"", "an event 'sent' needs 'v'"),
            ("\"e\":\"answered\",\"r\":\"0-0-0\",\"sum\":1", "'0-0-0' is not the ID of a request"),
            ("\"e\":\"received\",\"r\":\"\"", "needs 'answer' or 'error'"),
            ("\"e\":\"closd\"", "no event is called 'closd'"),
            ("\"e\":\"closed\",\"x\":1", "unknown field `x`"),
            ("\"e\":\"cut\",\"why\":\"because\"", "unknown variant `because`"),
            ("\"e\":\"answered\",\"r\":\"0-0-0-0\",\"sum\":1,\"saw\":[2,0,0,0,0]", "'saw' cannot be [2, 0"),
            ("\"e\":\"closed\",\"l\":256", "invalid value"),
        ] {
            let error = read(line(rest).as_bytes()).expect_err(rest);
            assert!(error.contains(expected), "{rest}: {error}");
        }
    }
}
