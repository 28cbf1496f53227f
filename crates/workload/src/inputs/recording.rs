//! Recordings of real traffic: the lines that `sequence-stress proxy --record` writes, and the tracks that they are.
//!
//! A recording is JSON lines. The first is a [`Header`]; then there is a line for each request of a sequence ([`Request`]), and one
//! wherever requests were not recorded ([`Lost`]). docs/RECORDING.md describes the keys.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Budget, ElementType, InputTensor, Track};

/// What the first line says the file is.
const KIND: &str = "recording";
/// The version of the format.
const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    #[serde(rename = "sequence-stress")]
    kind: String,
    version: u32,
    /// The model of all requests; without one each request names its own.
    pub model: Option<String>,
}

/// A request of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// When the client had sent it, in µs since the recording began.
    pub us: u64,
    /// The client's connection, counted from 1.
    pub connection: u64,
    /// The HTTP/2 stream; of a connection of HTTP/1.1 the request, counted from 1.
    pub stream: u32,
    /// Its model, where the header names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What stands for the correlation ID: a number from 1, which requests have in common as long as their sequence goes on.
    pub sequence: u64,
    /// Whether the correlation ID was a text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text: bool,
    /// Whether it has START.
    pub start: bool,
    /// Whether it has END.
    pub end: bool,
    /// Its inputs; none where they were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Why its inputs were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// An input of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub datatype: ElementType,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its raw contents.
    #[serde(rename = "b64", serialize_with = "encode", deserialize_with = "decode")]
    pub data: Vec<u8>,
}

/// Requests that were not recorded, of sequences that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// When the first request after them was sent, in µs since the recording began.
    pub us: u64,
    /// How many they are.
    pub lost: u64,
}

fn encode<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(|error| D::Error::custom(format!("b64 is no base64: {error}")))
}

impl Header {
    /// The header of a recording of one model, or of several.
    pub fn new(model: Option<String>) -> Self {
        Self { kind: KIND.to_owned(), version: VERSION, model }
    }
}

/// What a recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// What was sent to each model.
    pub models: BTreeMap<String, Recorded>,
    /// How many requests the proxy did not record, of whatever sequences.
    pub lost: u64,
    /// Whether its last line is not whole, as after the proxy was killed.
    pub is_cut: bool,
}

/// What was sent to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// A track for each sequence from its START on, in the order of the STARTs.
    pub tracks: Vec<Track>,
    /// How many of the tracks have no END, because the sequence went on behind what was recorded, began again or has a gap there.
    pub without_end: u64,
    /// How many requests were left out because no START came before them, or because they come after a gap.
    pub without_start: u64,
}

impl Recording {
    /// What was sent to a model: to this one, or to the only one where none is named.
    ///
    /// # Errors
    /// When nothing was, or when several models were recorded and none is named; in one line that names those that were.
    pub fn into_model(mut self, name: Option<&str>) -> Result<Recorded, String> {
        let only = (self.models.len() == 1).then(|| self.models.keys().next().cloned()).flatten();
        let names = self.models.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        if self.models.is_empty() {
            return Err("the recording has no request of a sequence: record requests with a correlation ID".to_owned());
        }
        let Some(name) = name.map(str::to_owned).or(only) else {
            return Err(format!("the recording has {names}: name one model with -m MODEL"));
        };
        self.models
            .remove(&name)
            .ok_or_else(|| format!("the recording has nothing of the model '{name}': it has {names}"))
    }
}

/// Reads a recording. A last line that does not end is left out.
///
/// # Errors
/// When the text is no recording, or one of another version, or a line is damaged, or the inputs are too large; in one line.
pub fn read(text: &str) -> Result<Recording, String> {
    let (whole, rest) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
    let mut lines = (1_u64..).zip(whole.lines());
    let Header { model, .. } = header(lines.next().map_or(rest, |(_, line)| line))?;
    let mut reader = Reader::new(model);
    for (number, line) in lines {
        reader.line(line).map_err(|problem| format!("line {number} of the recording is damaged: {problem}"))?;
    }
    Ok(reader.finish(!rest.is_empty()))
}

fn header(line: &str) -> Result<Header, String> {
    let other = |why: String| format!("this is no recording of `sequence-stress proxy --record`: its first line {why}");
    let header: Header = serde_json::from_str(line).map_err(|error| other(format!("is no header ({error})")))?;
    if header.kind != KIND {
        return Err(other(format!("says that it is a {}", header.kind)));
    }
    if header.version != VERSION {
        let Header { version, .. } = header;
        return Err(format!(
            "the recording has version {version}, and this program reads version {VERSION}: record it again, or use another program"
        ));
    }
    Ok(header)
}

struct Reader {
    model: Option<String>,
    budget: Budget,
    /// Sequences that go on, by model and number.
    open: HashMap<(String, u64), Open>,
    /// Tracks that came to their end, with the place of their START.
    closed: Vec<(String, u64, Track)>,
    recording: Recording,
    /// How many STARTs there were.
    starts: u64,
    /// How many there were of each sequence's number.
    names: HashMap<(String, u64), u64>,
}

struct Open {
    place: u64,
    track: Track,
    last_us: u64,
}

impl Reader {
    fn new(model: Option<String>) -> Self {
        Self {
            model,
            budget: Budget::whole(),
            open: HashMap::new(),
            closed: Vec::new(),
            recording: Recording::default(),
            starts: 0,
            names: HashMap::new(),
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Ok(Lost { lost, .. }) = serde_json::from_str(line) {
            self.recording.lost += lost;
            // Whose they are is not known, so that each sequence may have a gap here.
            for ((model, _), open) in mem::take(&mut self.open) {
                self.close(model, open, false);
            }
            return Ok(());
        }
        let request: Request = serde_json::from_str(line).map_err(|error| error.to_string())?;
        self.request(request)
    }

    fn request(&mut self, request: Request) -> Result<(), String> {
        let Request { us, sequence, start, end, inputs, left_out, model, .. } = request;
        let model = model.or_else(|| self.model.clone()).ok_or("neither it nor the first line names a model")?;
        let key = (model.clone(), sequence);
        if (start || left_out.is_some())
            && let Some(open) = self.open.remove(&key)
        {
            self.close(model.clone(), open, false);
        }
        if left_out.is_some() {
            self.recorded(&model).without_start += 1;
            return Ok(());
        }
        if inputs.is_empty() {
            return Err("it has neither inputs nor the reason why they were left out".to_owned());
        }
        if start {
            let open = Open { place: self.starts, track: self.begun(&key), last_us: us };
            self.starts += 1;
            self.open.insert(key.clone(), open);
        }
        let Some(open) = self.open.get_mut(&key) else {
            self.recorded(&model).without_start += 1;
            return Ok(());
        };
        if !start {
            open.track.pauses.push(Duration::from_micros(us.saturating_sub(open.last_us)));
        }
        open.last_us = us;
        inputs.iter().try_for_each(|input| self.budget.take(input.data.len()))?;
        open.track.steps.push(inputs.into_iter().map(InputTensor::from).collect());
        if end && let Some(open) = self.open.remove(&key) {
            self.close(model, open, true);
        }
        Ok(())
    }

    /// A track for a sequence that begins; its name is the number, with another one where it began before.
    fn begun(&mut self, key: &(String, u64)) -> Track {
        let times = self.names.entry(key.clone()).or_default();
        *times += 1;
        let name = if *times == 1 { format!("sequence {}", key.1) } else { format!("sequence {} ({times})", key.1) };
        Track { name, ..Track::default() }
    }

    fn close(&mut self, model: String, Open { place, track, .. }: Open, has_end: bool) {
        self.recorded(&model).without_end += u64::from(!has_end);
        self.closed.push((model, place, track));
    }

    fn recorded(&mut self, model: &str) -> &mut Recorded {
        self.recording.models.entry(model.to_owned()).or_default()
    }

    fn finish(mut self, is_cut: bool) -> Recording {
        for ((model, _), open) in mem::take(&mut self.open) {
            self.close(model, open, false);
        }
        let mut closed = mem::take(&mut self.closed);
        closed.sort_by_key(|(_, place, _)| *place);
        for (model, _, track) in closed {
            self.recorded(&model).tracks.push(track);
        }
        Recording { is_cut, ..self.recording }
    }
}

impl From<Input> for InputTensor {
    fn from(Input { name, datatype, shape, data }: Input) -> Self {
        Self { name, datatype, shape, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"sequence-stress":"recording","version":1,"model":null}"#;

    fn request(us: u64, sequence: u64, flags: &str, value: u8) -> Request {
        let data = vec![value, 0, 0, 0];
        let input = Input { name: "INPUT".into(), datatype: ElementType::Int32, shape: vec![1, 1], data };
        let [start, end] = ["S", "E"].map(|flag| flags.contains(flag));
        let model = Some("m".to_owned());
        Request { us, connection: 1, stream: 1, model, sequence, start, end, inputs: vec![input], ..Request::default() }
    }

    fn text(requests: &[Request]) -> String {
        let line = |request: &Request| serde_json::to_string(request).expect("JSON") + "\n";
        format!("{HEADER}\n{}", requests.iter().map(line).collect::<String>())
    }

    /// The values of each track.
    fn values(recorded: &Recorded) -> Vec<Vec<u8>> {
        let of = |track: &Track| track.steps.iter().map(|step| step[0].data[0]).collect();
        recorded.tracks.iter().map(of).collect()
    }

    #[test]
    fn a_line_is_as_documented() {
        let header = serde_json::to_string(&Header::new(None)).expect("JSON");
        assert_eq!(header, HEADER);
        let of_text = Request { text: true, ..request(5, 2, "S", 7) };
        assert_eq!(
            serde_json::to_string(&of_text).expect("JSON"),
            r#"{"us":5,"connection":1,"stream":1,"model":"m","sequence":2,"text":true,"start":true,"end":false,"inputs":[{"name":"INPUT","datatype":"INT32","shape":[1,1],"b64":"BwAAAA=="}]}"#
        );
    }

    #[test]
    fn each_sequence_is_a_track_with_its_pauses() {
        let requests = [
            request(10, 1, "S", 1),
            request(15, 2, "S", 2),
            request(30, 1, "", 3),
            request(31, 2, "E", 4),
            request(90, 1, "E", 5),
            request(95, 3, "SE", 6),
        ];
        let recording = read(&text(&requests)).expect("a recording");
        let recorded = recording.into_model(None).expect("one model");
        assert_eq!(values(&recorded), [vec![1, 3, 5], vec![2, 4], vec![6]]);
        assert_eq!((recorded.without_end, recorded.without_start), (0, 0));
        let Track { name, pauses, .. } = &recorded.tracks[0];
        assert_eq!((name.as_str(), pauses.as_slice()), ("sequence 1", &[20, 60].map(Duration::from_micros)[..]));
        assert_eq!(recorded.tracks[2].pauses, []);
    }

    #[test]
    fn what_has_no_start_is_counted_and_what_has_no_end_is_kept() {
        let left_out = Request { inputs: Vec::new(), left_out: Some("why".into()), ..request(6, 4, "", 0) };
        let requests = [
            request(1, 1, "", 1),
            request(2, 2, "S", 2),
            request(3, 3, "S", 3),
            request(4, 3, "S", 4),
            request(5, 4, "S", 5),
            left_out,
            request(7, 4, "E", 6),
        ];
        let recorded = read(&text(&requests)).expect("a recording").into_model(Some("m")).expect("the model");
        assert_eq!(values(&recorded), [[2], [3], [4], [5]]);
        assert_eq!((recorded.without_end, recorded.without_start), (4, 3));
        let names: Vec<_> = recorded.tracks.iter().map(|track| track.name.as_str()).collect();
        assert_eq!(names, ["sequence 2", "sequence 3", "sequence 3 (2)", "sequence 4"]);
    }

    #[test]
    fn no_track_goes_over_a_gap() {
        let lost = serde_json::to_string(&Lost { us: 3, lost: 2 }).expect("JSON");
        let after = serde_json::to_string(&request(4, 1, "E", 2)).expect("JSON");
        let recording = read(&format!("{}{lost}\n{after}\n", text(&[request(1, 1, "S", 1)]))).expect("a recording");
        assert_eq!(recording.lost, 2);
        let recorded = recording.into_model(None).expect("one model");
        assert_eq!((values(&recorded), recorded.without_end, recorded.without_start), (vec![vec![1]], 1, 1));
    }

    #[test]
    fn a_last_line_that_does_not_end_is_left_out() {
        let whole = text(&[request(1, 1, "S", 1), request(2, 1, "", 2)]);
        let last = whole.trim_end().rfind('\n').expect("three lines") + 1;
        for end in last + 1..whole.len() {
            let recording = read(&whole[..end]).expect("a recording");
            assert!(recording.is_cut);
            assert_eq!(values(&recording.into_model(None).expect("one model")), [[1]]);
        }
        assert!(!read(&whole[..last]).expect("a recording").is_cut);
        let alone = read(HEADER).expect("a recording");
        assert_eq!(
            alone.into_model(None).expect_err("nothing is there"),
            "the recording has no request of a sequence: record requests with a correlation ID"
        );
    }

    #[test]
    fn models_are_kept_apart() {
        let other = Request { model: Some("n".to_owned()), ..request(2, 1, "SE", 2) };
        let both = read(&text(&[request(1, 1, "SE", 1), other])).expect("a recording");
        assert_eq!(values(&both.clone().into_model(Some("n")).expect("the model")), [[2]]);
        assert_eq!(
            both.clone().into_model(None).expect_err("two models"),
            "the recording has m, n: name one model with -m MODEL"
        );
        assert_eq!(
            both.into_model(Some("o")).expect_err("another"),
            "the recording has nothing of the model 'o': it has m, n"
        );
        let named = text(&[Request { model: None, ..request(1, 1, "SE", 1) }]).replace("null", "\"k\"");
        assert!(read(&named).expect("a recording").models.contains_key("k"));
    }

    #[test]
    fn what_is_no_recording_is_told_in_one_line() {
        let damaged = |line: &str| format!("{HEADER}\n{line}\n");
        for (text, said) in [
            (String::new(), "this is no recording of `sequence-stress proxy --record`: its first line is no header"),
            ("{}\n".to_owned(), "its first line is no header"),
            (HEADER.replace("recording", "history"), "its first line says that it is a history"),
            (HEADER.replace(":1", ":2"), "the recording has version 2, and this program reads version 1"),
            (damaged("{"), "line 2 of the recording is damaged"),
            (damaged(r#"{"us":1,"connection":1,"stream":1,"sequence":1,"start":true,"end":true}"#), "names a model"),
            (
                damaged(r#"{"us":1,"connection":1,"stream":1,"model":"m","sequence":1,"start":true,"end":true}"#),
                "neither inputs nor",
            ),
            (text(&[request(1, 1, "S", 1)]).replace("INT32", "INT31"), "unknown variant `INT31`"),
            (text(&[request(1, 1, "S", 1)]).replace("AQAAAA==", "?"), "b64 is no base64"),
        ] {
            let problem = read(&text).expect_err(said);
            assert!(problem.contains(said) && !problem.contains('\n'), "{problem}");
        }
    }
}
