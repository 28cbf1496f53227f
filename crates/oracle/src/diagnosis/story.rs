//! What became of each sequence of a window.

use std::collections::HashMap;

use super::{Readings, SequenceId};
use crate::history::Entry;
use workload::{
    arithmetic::Arithmetic,
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, EventKind, Nanos},
    number::Number,
    sequence::{CorrelationId, RequestId, Step},
};

#[derive(Debug, Default)]
pub(super) struct Story<'w> {
    pub(super) window: &'w [Entry],
    /// In the order of their first steps.
    pub(super) sequences: Vec<Told<'w>>,
    /// By worker and serial number.
    by_serial: HashMap<(u32, u32), usize>,
    /// Answers that came on a context that did not ask for them.
    pub(super) strays: Vec<(RequestId, &'w Entry)>,
    /// How many random bits a value has.
    pub(super) bits: u32,
    /// Over which connections each context opened streams in each lane.
    opened: HashMap<(ContextId, Lane), Vec<(Connection, Transport)>>,
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<usize>,
}

/// No conversation has more sequences under way.
const UNDER_WAY_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Told<'w> {
    pub(super) context: ContextId,
    pub(super) correlation_id: CorrelationId,
    pub(super) serial: u32,
    /// By their index in the sequence; the first ones may have been sent before the window begins.
    pub(super) steps: Vec<Asked<'w>>,
}

/// A step, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Asked<'w> {
    pub(super) step: Step,
    pub(super) lane: Lane,
    /// Which of its lane's streams it was sent on.
    stream: usize,
    /// Over which connection that is.
    over: Connection,
    /// What it travelled over.
    pub(super) by: Transport,
    pub(super) sent_at: Nanos,
    pub(super) answer: Option<(Nanos, Said<'w>)>,
    /// When the client stopped waiting for an answer that had not come.
    pub(super) given_up: Option<Nanos>,
    /// The sum that had to come, as far as the window tells; of a step that was not executed the state as it was.
    pub(super) right: Option<Number>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Said<'w> {
    Sum(Number),
    Error(&'w str),
    Malformed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) sequence: usize,
    pub(super) step: usize,
}

impl Asked<'_> {
    pub(super) fn sum(&self) -> Option<Number> {
        match self.answer {
            Some((_, Said::Sum(sum))) => Some(sum),
            _ => None,
        }
    }

    /// The state that it was executed on, as far as its answer tells.
    pub(super) fn base(&self) -> Option<Number> {
        self.sum().map(|sum| sum.wrapping_sub(self.step.value))
    }

    /// For how much of a time an answer was waited for that did not come.
    pub(super) fn waited(&self, since: Nanos, until: Nanos) -> Nanos {
        let given_up = if self.answer.is_some() { Some(0) } else { self.given_up };
        given_up.map_or(until, |at| at.min(until)).saturating_sub(self.sent_at.max(since))
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.answer, Some((_, Said::Error(_))))
    }

    /// Whether it was sent later on the same stream of one context. The stream's order tells that where times are equal.
    pub(super) fn is_behind(&self, other: &Self) -> bool {
        (self.lane, self.stream) == (other.lane, other.stream) && self.step.request > other.step.request
    }

    /// Whether it was sent over the same connection, by a context.
    pub(super) fn is_over_the_connection_of(&self, other: &Self) -> bool {
        let own = |its: &Self| its.over.is_made_for_it().then_some((its.lane, its.stream));
        self.over == other.over && own(self) == own(other)
    }

    /// When it was answered, or else sent.
    pub(super) fn at(&self) -> Nanos {
        self.answer.as_ref().map_or(self.sent_at, |(at, _)| *at)
    }
}

impl Told<'_> {
    pub(super) fn first_sent(&self) -> Nanos {
        self.steps.first().map_or(0, |asked| asked.sent_at)
    }

    /// When it was last heard of.
    pub(super) fn last_at(&self) -> Nanos {
        self.steps.iter().map(Asked::at).max().unwrap_or(0)
    }

    /// Whether a step was never answered, so that it may be executed at any time.
    pub(super) fn is_open(&self) -> bool {
        self.steps.iter().any(|asked| asked.answer.is_none())
    }

    /// Whether END was sent and answered.
    pub(super) fn has_ended(&self) -> bool {
        self.steps.last().is_some_and(|last| last.step.end && last.sum().is_some())
    }

    pub(super) fn id(&self) -> SequenceId {
        let ContextId { worker, context } = self.context;
        SequenceId { worker, context, sequence: self.serial }
    }

    fn find_right_sums(&mut self) {
        let from_zero = |first: &&Asked| first.step.start;
        let mut state = self.steps.first().filter(from_zero).map(|first| first.step.value.zero());
        for asked in &mut self.steps {
            if asked.has_failed() || asked.step.flaw().is_some() {
                asked.right = state;
                continue;
            }
            // A window that begins in the middle of a sequence has to believe its first answer.
            state = state.map_or(asked.sum(), |state| Some(state.wrapping_add(asked.step.value)));
            asked.right = state;
        }
    }
}

impl<'w> Story<'w> {
    /// The story of a window; `readings` are answers that are like nothing known and were found to be those of states all the same.
    pub(super) fn new(window: &'w [Entry], arithmetic: Arithmetic, readings: &Readings) -> Self {
        let mut story = Self { window, bits: bits_of(window), ..Self::default() };
        for entry in window {
            match &entry.what {
                EventKind::Opened(over, by) => {
                    story.opened.entry((entry.context, entry.lane)).or_default().push((*over, *by));
                }
                EventKind::Sent(step) => story.sent(entry, step),
                EventKind::Answered(request, answer, _) => {
                    let asked = story.find(*request).map(|spot| story.asked(spot).step);
                    // What else is in an answer tells nothing of what befell the sum.
                    let sum = asked.map_or(*answer, |step| arithmetic.sum(*answer, &step, entry.correlation_id));
                    story.answered(entry, *request, Said::Sum(sum));
                }
                EventKind::Received(received) => {
                    let said = received.result.as_ref().map_or_else(|text| Said::Error(text), |_| Said::Malformed);
                    if let Some(request) = received.request() {
                        let said = readings
                            .get(&request)
                            .filter(|_| received.result.is_ok())
                            .map_or(said, |sum| Said::Sum(*sum));
                        story.answered(entry, request, said);
                    }
                }
                EventKind::GaveUp => story.gave_up(entry, 1),
                EventKind::Cut(_) => story.gave_up(entry, usize::MAX),
                _ => {}
            }
        }
        story.sequences.iter_mut().for_each(Told::find_right_sums);
        story
    }

    fn sent(&mut self, entry: &Entry, step: &Step) {
        let key = (step.request.worker, step.request.sequence);
        let index = *self.by_serial.entry(key).or_insert(self.sequences.len());
        if index == self.sequences.len() {
            let Entry { context, correlation_id, .. } = *entry;
            let serial = step.request.sequence;
            self.sequences.push(Told { context, correlation_id, serial, steps: Vec::new() });
        }
        let (lane, sent_at) = (entry.lane, entry.at);
        let opened = self.opened.get(&(entry.context, lane)).map_or(&[][..], Vec::as_slice);
        let (over, by) = opened.last().copied().unwrap_or_default();
        let stream = opened.len();
        self.sequences[index].steps.push(Asked {
            step: *step,
            lane,
            stream,
            over,
            by,
            sent_at,
            answer: None,
            given_up: None,
            right: None,
        });
    }

    /// The oldest so many steps of a stream are not waited for any more.
    fn gave_up(&mut self, entry: &Entry, steps: usize) {
        let own = self.sequences.iter_mut().rev().filter(|told| told.context == entry.context);
        let own: Vec<_> = own.take(UNDER_WAY_MAX).collect();
        let waits = |asked: &&mut Asked| asked.lane == entry.lane && asked.answer.is_none() && asked.given_up.is_none();
        let waiting = own.into_iter().rev().flat_map(|told| &mut told.steps).filter(waits).take(steps);
        waiting.for_each(|asked| asked.given_up = Some(entry.at));
    }

    fn answered(&mut self, entry: &'w Entry, request: RequestId, said: Said<'w>) {
        let own = self.find(request).filter(|spot| self.told(*spot).context == entry.context);
        match own {
            Some(Spot { sequence, step }) => {
                self.sequences[sequence].steps[step].answer.get_or_insert((entry.at, said));
            }
            None => self.strays.push((request, entry)),
        }
    }

    pub(super) fn find(&self, request: RequestId) -> Option<Spot> {
        let sequence = *self.by_serial.get(&(request.worker, request.sequence))?;
        let steps = &self.sequences[sequence].steps;
        let step = steps.binary_search_by_key(&request.step, |asked| asked.step.request.step).ok()?;
        (steps[step].step.request == request).then_some(Spot { sequence, step })
    }

    pub(super) fn told(&self, spot: Spot) -> &Told<'w> {
        &self.sequences[spot.sequence]
    }

    pub(super) fn asked(&self, spot: Spot) -> &Asked<'w> {
        #[cfg(test)]
        self.looks.update(|looks| looks + 1);
        &self.sequences[spot.sequence].steps[spot.step]
    }

    pub(super) fn next(&self, spot: Spot) -> Option<&Asked<'w>> {
        self.told(spot).steps.get(spot.step + 1)
    }

    /// The step before it in the same sequence.
    pub(super) fn previous(&self, spot: Spot) -> Option<&Asked<'w>> {
        spot.step.checked_sub(1).map(|step| &self.told(spot).steps[step])
    }

    /// The state that the next step of the same sequence found.
    pub(super) fn found_next(&self, spot: Spot) -> Option<Number> {
        self.next(spot)?.base()
    }

    /// The ID's sequence before this one.
    pub(super) fn predecessor(&self, sequence: usize) -> Option<usize> {
        let context = self.sequences[sequence].context;
        (0..sequence).rev().find(|other| self.sequences[*other].context == context)
    }

    /// The other sequences, with their indices.
    pub(super) fn besides(&self, than: usize) -> impl Iterator<Item = (usize, &Told<'w>)> {
        self.sequences.iter().enumerate().filter(move |(index, _)| *index != than)
    }

    pub(super) fn spots(&self) -> impl Iterator<Item = Spot> + '_ {
        let steps = |(sequence, told): (usize, &Told)| (0..told.steps.len()).map(move |step| Spot { sequence, step });
        self.sequences.iter().enumerate().flat_map(steps)
    }

    /// Each step of the other sequences.
    pub(super) fn others(&self, than: usize) -> impl Iterator<Item = Spot> + '_ {
        self.spots().filter(move |spot| spot.sequence != than)
    }

    /// How many steps of other sequences were answered no further from `at` than `near` was: so many quantities had a
    /// chance to match before it.
    pub(super) fn nearer(&self, than: usize, at: Nanos, near: Nanos) -> usize {
        let distance = at.abs_diff(near);
        self.others(than).filter(|spot| self.asked(*spot).at().abs_diff(at) <= distance).count()
    }

    /// The latest stream before a time that was cut, and not by an error, with requests under way or not.
    pub(super) fn cut_before(&self, at: Nanos) -> Option<&'w Entry> {
        let before = self.window.iter().rev().filter(|entry| entry.at < at);
        before.into_iter().find(|entry| matches!(&entry.what, EventKind::Cut(cut) if cut.is_blameless()))
    }

    /// The streams that the server or the network ended within so long of a moment, with the reason where that was an error.
    pub(super) fn broken_near(&self, at: Nanos, within: Nanos) -> impl Iterator<Item = (&'w Entry, Option<&'w str>)> {
        let near = self.window.iter().filter(move |entry| entry.at.abs_diff(at) <= within);
        near.filter_map(|entry| match &entry.what {
            EventKind::Cut(Cut::Broken(reason) | Cut::Status(_, reason)) => Some((entry, Some(reason.as_str()))),
            EventKind::Cut(Cut::Ended) => Some((entry, None)),
            _ => None,
        })
    }
}

/// How many random bits the values have, from the range that they are seen in.
fn bits_of(window: &[Entry]) -> u32 {
    let values = window.iter().filter_map(|entry| match &entry.what {
        EventKind::Sent(step) => Some(step.value.value()),
        _ => None,
    });
    let (least, most) = values.fold((i64::MAX, i64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    if least >= most { 1 } else { most.abs_diff(least).ilog2() + 1 }
}
