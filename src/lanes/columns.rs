//! The lanes as columns of numbers, which take little room.

use std::{collections::HashMap, io::BufWriter, iter};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::{Compression, write::ZlibEncoder};
use serde::Serialize;

use super::{
    Answer, End, Exchange, Key, Lanes, Mark, MarkKind, Sequence, StepSeen,
    assign::{Hold, assign},
};
use oracle::Outcome;
use workload::{event::Nanos, number::Number, scenario::ServerAction, sequence::Pattern};

/// Who had which slot when. Times are in µs. A column has an element for each sequence, step or mark; names stand in a list, and a
/// column has their places in it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LaneData {
    /// The model's slots, where they are known.
    slots: Option<u32>,
    /// Whether the model reported in which slot it saw a step. If not, a sequence is in a lane that is free for as long as it certainly had
    /// a slot.
    told: bool,
    /// The spans between exchanges of the model or the server: the model may have another number of slots in each.
    stretches: Vec<Stretch>,
    /// How many lanes there are.
    lanes: u32,
    from_us: u64,
    until_us: u64,
    /// Spans without events.
    gaps: Vec<(u64, u64)>,
    /// Sequences and marks that a bound left out.
    left_out: u64,
    marks_left_out: u64,
    patterns: Vec<&'static str>,
    ends: &'static [&'static str],
    outcomes: &'static [&'static str],
    sequences: Sequences,
    steps: Steps,
    marks: Marks,
}

/// A span in which the server had one model loaded all the time.
#[derive(Clone, Debug, Serialize)]
struct Stretch {
    from_us: u64,
    until_us: u64,
    slots: Option<u32>,
    told: bool,
    lanes: u32,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Sequences {
    worker: Vec<u32>,
    context: Vec<u32>,
    /// The sequence's number in its worker.
    number: Vec<u32>,
    id: Vec<String>,
    pattern: Vec<usize>,
    end: Vec<usize>,
    /// -1: it never certainly had a slot.
    lane: Vec<i64>,
    /// The first one since the run began; each other one since the one before.
    begun: Vec<u64>,
    /// Since it began: from when it certainly had a slot, and until when, or until the response to its END. -1: never.
    held: Vec<i64>,
    over: Vec<i64>,
    violations: Vec<u32>,
    /// The place of its first step that is here, or -1, and how many are here.
    step: Vec<i64>,
    steps: Vec<usize>,
    /// How many it sent.
    sent: Vec<u32>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Steps {
    /// The step's index in its sequence.
    number: Vec<u32>,
    /// Since its sequence began.
    sent: Vec<u64>,
    /// Until its response; -1: none.
    took: Vec<i64>,
    value: Vec<Shown>,
    answer: Vec<Option<Shown>>,
    outcome: Vec<usize>,
    /// 1 START, 2 END.
    flags: Vec<u8>,
    /// The slot that the model saw; -1: not known.
    slot: Vec<i64>,
}

/// A number, or a text: of an error, of a state, or of a number that is not exact in 64-bit floating point.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Shown {
    Number(i64),
    Text(String),
}

/// The default level, 6, takes longer, and makes a page 4 % smaller.
const LEVEL: Compression = Compression::new(3);
/// So much text is packed at a time.
const TEXT_BYTES: usize = 1 << 16;
/// The largest number up to which whole numbers are exact in 64-bit floating point.
const EXACT_MAX: u64 = 1 << 53;

impl From<Number> for Shown {
    fn from(number: Number) -> Self {
        // The code of a state is no number in words either.
        let text = number.to_string();
        text.parse().ok().filter(|it: &i64| it.unsigned_abs() <= EXACT_MAX).map_or(Self::Text(text), Self::Number)
    }
}

#[derive(Clone, Debug, Default, Serialize)]
struct Marks {
    at: Vec<u64>,
    kind: Vec<&'static str>,
    /// The sequence's place; -1: none.
    sequence: Vec<i64>,
    /// The violation's place in the result; -1: none.
    violation: Vec<i64>,
    /// What it means.
    text: Vec<&'static str>,
}

const ENDS: &[&str] = &["open", "ended", "idle", "rejected", "cut", "replaced", "disturbed"];
const OUTCOMES: &[&str] = &["completed", "rejected", "failed", "indeterminate", "unanswered"];

fn end(end: End) -> usize {
    match end {
        End::Open => 0,
        End::Ended => 1,
        End::Idle => 2,
        End::Rejected => 3,
        End::Cut => 4,
        End::Replaced => 5,
        End::Disturbed => 6,
    }
}

fn outcome(outcome: Option<Outcome>) -> usize {
    match outcome {
        Some(Outcome::Completed) => 0,
        Some(Outcome::Rejected | Outcome::Expired) => 1,
        Some(Outcome::Failed) => 2,
        Some(Outcome::Indeterminate) => 3,
        None => 4,
    }
}

fn mark(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Reap => "reap",
        MarkKind::Cancel => "cancel",
        MarkKind::Cut => "cut",
        MarkKind::Violation => "violation",
    }
}

fn meaning(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Reap => "the server had ended the sequence, which was idle for the idle limit or longer",
        MarkKind::Cancel => "the client cancelled the stream",
        MarkKind::Cut => "the stream was cut",
        MarkKind::Violation => "a violation",
    }
}

fn micros(ns: Nanos) -> u64 {
    ns / 1000
}

/// A place or a number, or -1 where there is none.
fn or_none(number: Option<u64>) -> i64 {
    number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX))
}

/// So many µs between two times.
fn between(from: Nanos, until: Nanos) -> u64 {
    micros(until).saturating_sub(micros(from))
}

pub(super) fn of(lanes: Lanes) -> LaneData {
    let Lanes { slots, near, last, left_out, mut marks, marks_left_out, gaps, until, exchanges, .. } = lanes;
    let mut all: Vec<_> = near.into_iter().chain(last).collect();
    all.sort_by_key(|sequence| sequence.begun);
    marks.sort_by_key(|mark| mark.at);
    let from = all.first().map_or(0, |first| first.begun);
    let mut lane = vec![None; all.len()];
    let stretches: Vec<_> =
        spans(exchanges.all(), slots, from, until).map(|span| stretch(&all, span, &mut lane)).collect();
    let places: HashMap<Key, usize> = all.iter().enumerate().map(|(place, sequence)| (sequence.key, place)).collect();
    let (mut sequences, mut steps) = (Sequences::default(), Steps::default());
    let mut before = 0;
    for (sequence, lane) in all.iter().zip(lane) {
        sequences.push(sequence, lane, before, steps.sent.len());
        before = micros(sequence.begun);
        sequence.near.iter().chain(&sequence.steps).for_each(|step| steps.push(step, sequence.begun));
    }
    LaneData {
        slots,
        told: stretches.iter().any(|stretch| stretch.told),
        lanes: stretches.iter().map(|stretch| stretch.lanes).max().unwrap_or(0),
        stretches,
        from_us: micros(from),
        until_us: micros(until),
        gaps: gaps.into_iter().map(|(from, until)| (micros(from), micros(until))).collect(),
        left_out,
        marks_left_out,
        patterns: Pattern::ALL.iter().map(|pattern| pattern.name()).collect(),
        ends: ENDS,
        outcomes: OUTCOMES,
        sequences,
        steps,
        marks: marks_of(&marks, exchanges.all(), &places),
    }
}

/// From when until when the server had one model loaded, and how many slots it had.
type Loaded = (Nanos, Nanos, Option<u32>);

fn spans(
    exchanges: &[Exchange],
    slots: Option<u32>,
    from: Nanos,
    until: Nanos,
) -> impl Iterator<Item = Loaded> + use<'_> {
    // Nothing is known of a model that nobody saw serving.
    let begins = exchanges.iter().map(|exchange| (exchange.until, exchange.slots));
    let ends = exchanges.iter().map(|exchange| exchange.from).chain([until]);
    iter::once((Some(from), slots)).chain(begins).zip(ends).filter_map(|((from, slots), until)| {
        let from = from?;
        Some((from, until.max(from), slots))
    })
}

/// Puts the sequences that had a slot in a span into lanes. In a span in which the model reports its slots, one without a slot has no lane.
fn stretch(all: &[Sequence], (from, until, slots): Loaded, lane: &mut [Option<u32>]) -> Stretch {
    let is_in = |place: &usize| all[*place].held.is_some_and(|held| (from..=until).contains(&held));
    let mut holders: Vec<_> = (0..all.len()).filter(is_in).collect();
    let told = holders.iter().any(|place| all[*place].slot.is_some());
    holders.retain(|place| all[*place].slot.is_some() == told);
    holders.sort_by_key(|place| all[*place].held);
    let hold = |place: &usize| {
        let sequence = &all[*place];
        let from = sequence.held.expect("only these are taken");
        let until = sequence.over.unwrap_or(from);
        Hold { from, until, shown_until: sequence.ended.unwrap_or(until).max(until), slot: sequence.slot }
    };
    let holds: Vec<_> = holders.iter().map(hold).collect();
    let (assigned, lanes) = assign(&holds, slots.unwrap_or(0));
    holders.into_iter().zip(assigned).for_each(|(place, its)| lane[place] = Some(its));
    Stretch { from_us: micros(from), until_us: micros(until), slots, told, lanes }
}

fn marks_of(marks: &[Mark], exchanges: &[Exchange], places: &HashMap<Key, usize>) -> Marks {
    let place = |key: Key| places.get(&key).map(|place| *place as u64);
    let mut all = Marks {
        at: marks.iter().map(|its| micros(its.at)).collect(),
        kind: marks.iter().map(|its| mark(its.kind)).collect(),
        sequence: marks.iter().map(|its| or_none(its.sequence.and_then(place))).collect(),
        text: marks.iter().map(|its| meaning(its.kind)).collect(),
        violation: marks.iter().map(|its| or_none(its.violation.map(|place| place as u64))).collect(),
    };
    for Exchange { from, action, .. } in exchanges {
        let is_reload = action.is_some_and(|action| action != ServerAction::Restart);
        all.at.push(micros(*from));
        all.kind.push(if is_reload { "reload" } else { "restart" });
        all.sequence.push(-1);
        all.text.push(action.map_or("the server was away", ServerAction::done));
        all.violation.push(-1);
    }
    all
}

impl Sequences {
    fn push(&mut self, sequence: &Sequence, lane: Option<u32>, before: u64, step: usize) {
        let (context, number) = sequence.key;
        let since = |at: Option<Nanos>| or_none(at.map(|at| between(sequence.begun, at)));
        let pattern = Pattern::ALL.iter().position(|pattern| *pattern == sequence.pattern);
        self.worker.push(context.worker);
        self.context.push(context.context);
        self.number.push(number);
        self.id.push(sequence.correlation_id.0.to_string());
        self.pattern.push(pattern.expect("all patterns are there"));
        self.end.push(end(sequence.end));
        self.lane.push(or_none(lane.map(u64::from)));
        self.begun.push(micros(sequence.begun) - before);
        self.held.push(since(sequence.held));
        // The last thing that it did in its slot was its END, which may have been executed long after it was sent.
        self.over.push(since(sequence.ended.max(sequence.over)));
        self.violations.push(sequence.violations);
        self.step.push(if sequence.kept() == 0 { -1 } else { or_none(Some(step as u64)) });
        self.steps.push(sequence.kept());
        self.sent.push(sequence.sent);
    }
}

impl Steps {
    fn push(&mut self, its: &StepSeen, begun: Nanos) {
        let answer = its.answer.as_ref().map(|answer| match answer {
            Answer::Sum(sum) => Shown::from(*sum),
            Answer::Error(text) => Shown::Text(text.clone()),
        });
        self.number.push(its.step.request.step);
        self.sent.push(between(begun, its.sent));
        self.took.push(or_none(its.settled.map(|(at, _)| between(its.sent, at))));
        self.value.push(its.step.value.into());
        self.answer.push(answer);
        self.outcome.push(outcome(its.settled.map(|(_, outcome)| outcome)));
        self.flags.push(u8::from(its.step.start) + 2 * u8::from(its.step.end));
        self.slot.push(or_none(its.slot.map(u64::from)));
    }
}

impl LaneData {
    /// Compressed (zlib) and in base64.
    pub(crate) fn packed(&self) -> String {
        let packing = ZlibEncoder::new(Vec::new(), LEVEL);
        // For each of its bytes alone the encoder would clear a buffer.
        let mut text = BufWriter::with_capacity(TEXT_BYTES, packing);
        serde_json::to_writer(&mut text, self).expect("the keys are texts");
        let packing = text.into_inner().map_err(|_| ()).expect("a Vec takes everything");
        BASE64_STANDARD.encode(packing.finish().expect("a Vec takes everything"))
    }
}
