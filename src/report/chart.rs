//! What was sent and answered around a violation, as a chart for people: a column for each stream, time running downward.

use std::{collections::BTreeMap, io};

use anstyle::Style;

use super::{
    Description,
    seats::write_seats,
    text::{BOLD, RED, shortened},
    write_violation,
};
use oracle::{
    Place, Violation,
    history::{Entry, Scene},
};
use workload::{
    controls::Seen,
    conversation::{Connection, Lane},
    event::{ContextId, Cut, Disturbance, EventKind, Nanos, Received},
    sequence::{CorrelationId, RequestId, Step},
};

/// It fits a screen of so many columns.
const WIDTH: usize = 100;
/// What the times take of them.
const TIMES: usize = 9;
/// The most rows with messages.
const ROWS: usize = 40;
/// Of so many messages of the accused ID the place among them is kept before others are looked at.
const OWN_ROWS: usize = 16;
/// So many streams have a column wide enough for words; of more there is a mark for each, and one column for the words.
const WIDE: usize = 4;
/// A column is no wider than this.
const WIDEST: usize = 60;
/// The most streams.
const COLUMNS: usize = 20;
/// A longer time without a message has a row of its own.
const GAP: Nanos = 20_000_000;

/// Writes what happened around a violation, what was expected, and what may be the cause.
pub(crate) fn write_chart(scene: &Scene, violation: &Violation, out: &mut impl io::Write) -> io::Result<()> {
    // When a step was due is the client's affair.
    let is_told = |entry: &&Entry| !matches!(entry.what, EventKind::Due(_));
    let entries: Vec<_> = scene.entries.iter().filter(is_told).cloned().collect();
    let chart = Chart::new(&entries, violation);
    chart.write(out)?;
    if let (Some(&first), Some(&last)) = (chart.shown.first(), chart.shown.last()) {
        write_seats(&entries, (chart.rows[first].at, chart.rows[last].at), WIDTH, out)?;
    }
    write_violation(violation, "✗ ", out)
}

/// A stream of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stream {
    context: ContextId,
    lane: Lane,
}

/// One thing that happened.
struct Row {
    at: Nanos,
    stream: Stream,
    words: String,
    /// Whether it is a request or an answer, and not what the stream itself does.
    is_message: bool,
    is_wrong: bool,
}

struct Chart {
    rows: Vec<Row>,
    /// Those of the rows that are shown, in order.
    shown: Vec<usize>,
    streams: BTreeMap<Stream, CorrelationId>,
    /// What had to come in place of what is wrong.
    expected: String,
}

impl Chart {
    fn new(entries: &[Entry], violation: &Violation) -> Self {
        let wrong = wrong_entry(entries, violation);
        let numbers = Numbers::new(entries);
        let row = |(place, entry): (usize, &Entry)| Row {
            at: entry.at,
            stream: stream(entry),
            words: numbers.words(entry),
            is_message: matches!(entry.what, EventKind::Sent(_) | EventKind::Answered(..) | EventKind::Received(_)),
            is_wrong: Some(place) == wrong,
        };
        let shown = shown(entries, violation, wrong);
        let ids = shown.iter().map(|&place| (stream(&entries[place]), entries[place].correlation_id));
        Self {
            streams: ids.collect(),
            rows: entries.iter().enumerate().map(row).collect(),
            shown,
            expected: Description::of(violation).expected,
        }
    }

    fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let Some(first) = self.shown.first().map(|&place| self.rows[place].at) else {
            return writeln!(out, "what was sent and answered is not known");
        };
        writeln!(out, "-> is sent by the client, <- by the server; #2 is the second request of its ID")?;
        let layout = Layout::new(&self.streams);
        layout.write_head(out)?;
        let mut before = None;
        for &place in &self.shown {
            let row = &self.rows[place];
            self.write_gap(before, place, out)?;
            layout.write_row(&milliseconds(row.at - first), row, None, out)?;
            if row.is_wrong {
                let expected = format!("✗ expected {}", self.expected);
                layout.write_row("", row, Some(&expected), out)?;
            }
            before = Some(place);
        }
        let left = messages(&self.rows[before.map_or(0, |place| place + 1)..]);
        if left > 0 { writeln!(out, "{:>TIMES$} {left} more", "…") } else { Ok(()) }
    }

    /// Tells what is left out before a row, or how long nothing happened.
    fn write_gap(&self, before: Option<usize>, place: usize, out: &mut impl io::Write) -> io::Result<()> {
        let left = messages(&self.rows[before.map_or(0, |before| before + 1)..place]);
        if left > 0 {
            writeln!(out, "{:>TIMES$} {left} more", "…")?;
        }
        let Some(before) = before else { return Ok(()) };
        let passed = self.rows[place].at.saturating_sub(self.rows[before].at);
        if passed >= GAP { writeln!(out, "{:>TIMES$} {} ms pass", "⋮", passed / 1_000_000) } else { Ok(()) }
    }
}

/// Where the words of each stream stand.
struct Layout {
    streams: Vec<(Stream, CorrelationId)>,
    /// How wide a stream's column is; none where the streams have marks.
    wide: Option<usize>,
}

impl Layout {
    fn new(streams: &BTreeMap<Stream, CorrelationId>) -> Self {
        let streams: Vec<_> = streams.iter().map(|(stream, id)| (*stream, *id)).collect();
        let wide = (streams.len() <= WIDE).then(|| ((WIDTH - TIMES) / streams.len() - 3).min(WIDEST));
        Self { streams, wide }
    }

    fn write_head(&self, out: &mut impl io::Write) -> io::Result<()> {
        let name = |(Stream { context, lane }, id): &(Stream, CorrelationId)| {
            if *lane == Lane::FIRST {
                format!("ID {id}, worker {}", context.worker)
            } else {
                format!("ID {id}, stream {}", lane.0 + 1)
            }
        };
        if let Some(width) = self.wide {
            write!(out, "{:>TIMES$}", "ms")?;
            let names: Vec<_> = self.streams.iter().map(|stream| cut(&name(stream), width)).collect();
            return writeln!(out, " │ {}", columns(&names, width, BOLD));
        }
        for (stream, letter) in self.streams.iter().zip('A'..='Z') {
            writeln!(out, "{:>TIMES$} {BOLD}{letter}{BOLD:#}: {}", "", name(stream))?;
        }
        let letters: String = ('A'..='Z').take(self.streams.len()).flat_map(|letter| [letter, ' ']).collect();
        writeln!(out, "{:>TIMES$} {BOLD}{letters}{BOLD:#}", "ms")
    }

    fn write_row(&self, ms: &str, row: &Row, instead: Option<&str>, out: &mut impl io::Write) -> io::Result<()> {
        let words = instead.unwrap_or(&row.words);
        let style = if row.is_wrong { RED } else { Style::new() };
        let place = self.streams.iter().position(|(stream, _)| *stream == row.stream).expect("each has a column");
        write!(out, "{ms:>TIMES$}")?;
        if let Some(width) = self.wide {
            let words = |its| if its == place { cut(words, width) } else { String::new() };
            let cells: Vec<_> = (0..self.streams.len()).map(words).collect();
            return writeln!(out, " │ {}", columns(&cells, width, style));
        }
        let marks: String =
            (0..self.streams.len()).flat_map(|its| [if its == place { '●' } else { '·' }, ' ']).collect();
        let room = WIDTH - TIMES - 1 - 2 * self.streams.len();
        writeln!(out, " {marks}{style}{}{style:#}", cut(words, room))
    }
}

/// Texts beside each other, with no blanks behind the last.
fn columns(texts: &[String], width: usize, style: Style) -> String {
    let blanks = |text: &String| " ".repeat(width - text.chars().count());
    let cell =
        |text: &String| if text.is_empty() { blanks(text) } else { format!("{style}{text}{style:#}{}", blanks(text)) };
    texts.iter().map(cell).collect::<Vec<_>>().join(" │ ").trim_end().to_owned()
}

fn stream(entry: &Entry) -> Stream {
    Stream { context: entry.context, lane: entry.lane }
}

fn messages(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.is_message).count()
}

/// The event in which the violation showed.
fn wrong_entry(entries: &[Entry], violation: &Violation) -> Option<usize> {
    let Place { worker, context, .. } = *violation.place.as_ref()?;
    let is_it = |entry: &Entry| {
        let shows = !matches!(entry.what, EventKind::Sent(_) | EventKind::Opened(..) | EventKind::HalfClosed);
        shows && entry.at == violation.at_ns && entry.context == ContextId { worker, context }
    };
    entries.iter().position(is_it)
}

/// What is shown: all, where there is room; else what has to do with the violation, and what is near to it.
fn shown(entries: &[Entry], violation: &Violation, wrong: Option<usize>) -> Vec<usize> {
    let around = wrong.or_else(|| entries.iter().rposition(|entry| entry.at <= violation.at_ns)).unwrap_or(0);
    let own = violation.place.as_ref().map(|place| ContextId { worker: place.worker, context: place.context });
    let request = violation.request();
    let is_needed = |place: usize| {
        let sent = match &entries[place].what {
            EventKind::Sent(Step { request, start, .. }) => Some((*request, *start)),
            _ => None,
        };
        let of_it = |request: RequestId| {
            sent.is_some_and(|(its, start)| {
                its == request || (start && its.worker == request.worker && its.sequence == request.sequence)
            })
        };
        Some(place) == wrong || request.is_some_and(of_it)
    };
    // What follows matters less than what came before.
    let distance = |place: usize| if place <= around { around - place } else { 4 * (place - around) };
    let mut order: Vec<_> = (0..entries.len()).collect();
    order.sort_by_key(|&place| distance(place));
    let is_own = |place: &usize| Some(entries[*place].context) == own;
    let needed = order.iter().copied().filter(|&place| is_needed(place)).take(4);
    let of_own = order.iter().copied().filter(is_own).take(OWN_ROWS);
    let mut streams = Vec::new();
    let mut shown = Vec::new();
    for place in needed.chain(of_own).chain(order.iter().copied()) {
        let stream = stream(&entries[place]);
        if shown.len() >= ROWS {
            break;
        }
        if shown.contains(&place) || (streams.len() >= COLUMNS && !streams.contains(&stream)) {
            continue;
        }
        if !streams.contains(&stream) {
            streams.push(stream);
        }
        shown.push(place);
    }
    shown.sort_unstable();
    shown
}

/// The requests of each ID, counted.
struct Numbers(BTreeMap<RequestId, usize>);

impl Numbers {
    fn new(entries: &[Entry]) -> Self {
        let mut counts: BTreeMap<ContextId, usize> = BTreeMap::new();
        let mut numbers = BTreeMap::new();
        for entry in entries {
            if let EventKind::Sent(step) = &entry.what {
                let count = counts.entry(entry.context).or_default();
                *count += 1;
                numbers.insert(step.request, *count);
            }
        }
        Self(numbers)
    }

    fn of(&self, request: Option<RequestId>, text: &str) -> String {
        match request.map(|request| self.0.get(&request).ok_or(request)) {
            Some(Ok(number)) => format!("#{number}"),
            Some(Err(request)) => format!("request {request}"),
            None if text.is_empty() => "no request".to_owned(),
            None => format!("request '{text}'"),
        }
    }

    fn words(&self, entry: &Entry) -> String {
        match &entry.what {
            EventKind::Opened(over, by) => format!(
                "{}{}",
                by.opens(),
                match over {
                    Connection::Own => "",
                    Connection::Fresh => ", new connection",
                    Connection::Neighbour => ", neighbour's connection",
                    Connection::Narrow => ", new connection with little room",
                    Connection::Process => ", through a process",
                }
            ),
            EventKind::Due(_) => "a step is due".to_owned(),
            EventKind::Sent(step) => {
                let flags = match (step.start, step.end) {
                    (true, true) => " START END",
                    (true, false) => " START",
                    (false, true) => " END",
                    (false, false) => "",
                };
                format!("#{}{flags} {} ->", self.0[&step.request], step.value)
            }
            EventKind::Answered(request, sum, seen) => {
                let slot = seen.and_then(Seen::slot).map_or_else(String::new, |slot| format!(", slot {slot}"));
                format!("<- {}: {sum}{slot}", self.of(Some(*request), ""))
            }
            EventKind::Received(received) => {
                format!("<- {}{}", self.of(received.request(), &received.id), result(received))
            }
            EventKind::ServedBy(Some(server)) => format!("<- server {server} answers"),
            EventKind::ServedBy(None) => "<- nothing tells the server".to_owned(),
            EventKind::GaveUp => "gives up waiting".to_owned(),
            EventKind::HalfClosed => "half-closes the stream".to_owned(),
            EventKind::StoppedReading(us) => format!("reads nothing for {} ms", us / 1000),
            EventKind::Cut(cut) => match cut {
                Cut::ByClient => "drops the stream, not to be trusted".to_owned(),
                Cut::Cancelled => "cancels the stream".to_owned(),
                Cut::Deadline => "the client's deadline passes".to_owned(),
                Cut::Reset => "resets the connection".to_owned(),
                Cut::Killed => "the client is killed".to_owned(),
                Cut::ByNetwork => "the network takes the connection".to_owned(),
                Cut::Lapsed => "<- the connection ends in good order".to_owned(),
                Cut::Interrupted => "the run ends".to_owned(),
                Cut::Ended => "<- the server ends the stream".to_owned(),
                Cut::Status(code, text) => format!("<- the stream ends with {code}: {text}"),
                Cut::Broken(reason) => format!("<- the stream breaks: {reason}"),
            },
            EventKind::Closed => "the stream is closed".to_owned(),
            EventKind::NotClosed => "the stream stays open".to_owned(),
            EventKind::Disturbed(Disturbance::Begins) => "the server is disturbed".to_owned(),
            EventKind::Disturbed(Disturbance::InstanceFails) => "an instance of the model fails".to_owned(),
            EventKind::Disturbed(Disturbance::IsOver) => "the disturbance is over".to_owned(),
        }
    }
}

/// What a message says that is no plain sum.
fn result(received: &Received) -> String {
    match &received.result {
        Err(text) if text.contains("must specify the START flag") => " rejected: no START".to_owned(),
        Err(text) if text.contains("timeout of the corresponding sequence") => " rejected: waited too long".to_owned(),
        Err(text) if text.is_empty() => " cancelled".to_owned(),
        Err(text) => format!(" error: {text}"),
        Ok(response) => match response.outputs.as_slice() {
            [] => " no output".to_owned(),
            outputs => {
                let named = |output: &workload::tensor::Tensor| {
                    format!(" {} {}{:?}", output.name, output.datatype, output.shape)
                };
                format!(":{} of {}", outputs.iter().map(named).collect::<String>(), response.model)
            }
        },
    }
}

#[expect(clippy::cast_precision_loss)]
fn milliseconds(nanos: Nanos) -> String {
    format!("{:.1}", nanos as f64 / 1e6)
}

/// A text that takes at most so many columns.
fn cut(text: &str, width: usize) -> String {
    shortened(text, width).chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests;
