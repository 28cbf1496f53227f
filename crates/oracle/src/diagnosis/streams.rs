//! Streams that break or do not end, servers that die, and counts that differ.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{
    Cause, Clue, Evidence, Question, ViolationKind,
    hypothesis::{Fit, Hypothesis},
};
use crate::history::Entry;
use workload::event::{Cut, EventKind, Nanos};

/// Words of an error that a connection's end is told by.
const CONNECTION_ENDS: [&str; 4] = ["connection reset", "broken pipe", "connection closed", "connection error"];
/// Streams that break within this time break together.
const TOGETHER: Nanos = 500_000_000;

fn new(cause: Cause, rank: usize, clue: Clue) -> Hypothesis {
    Hypothesis::of_rank(cause, rank, Fit::NotKnown, [clue])
}

/// What may explain a violation that is not of one answer.
pub(super) fn explain(question: &Question) -> Vec<Hypothesis> {
    let seen = |causes: &[Cause]| (1..).zip(causes).map(|(rank, cause)| new(*cause, rank, Clue::Seen)).collect();
    match question.violation.kind {
        ViolationKind::StreamBroken => broken(question),
        ViolationKind::StreamNotClosed => seen(&[Cause::StreamKeptOpen]),
        ViolationKind::ServerDied => seen(&[Cause::Crash]),
        ViolationKind::Statistics => statistics(question),
        ViolationKind::SlotLeak => seen(&[Cause::SlotLeak, Cause::MissingReap]),
        // Where the state is the slot's, two sequences of one slot would have got wrong sums.
        ViolationKind::SlotReleasedTwice if question.known.keyed_by_id => seen(&[Cause::SharedState, Cause::ExtraSlot]),
        ViolationKind::SlotReleasedTwice => seen(&[Cause::ExtraSlot, Cause::SharedState]),
        ViolationKind::SlotWithheld => seen(&[Cause::SlotKept, Cause::EndNotTold]),
        ViolationKind::MissingReap => seen(&[Cause::MissingReap]),
        ViolationKind::PendingLeft => seen(&[Cause::SlotLeak, Cause::Starvation]),
        _ => Vec::new(),
    }
}

fn broken(question: &Question) -> Vec<Hypothesis> {
    let (violation, story) = (question.violation, question.story);
    let together: BTreeSet<_> = story.broken_near(violation.at_ns, TOGETHER).map(|(entry, _)| entry.context).collect();
    let clues = [Clue::Seen, Clue::BrokeTogether { contexts: together.len() }];
    let new = |cause, rank| Hypothesis::of_rank(cause, rank, Fit::NotKnown, clues.clone());
    let Evidence::Broken { reason } = &violation.evidence else {
        // A server that closes a stream in good order is there, and means it.
        let half_closed = is_half_closed(question);
        let (final_answers, early) = if half_closed { (1, 2) } else { (2, 1) };
        let mut all = vec![new(Cause::StreamClosedEarly, early)];
        if half_closed {
            let mut lost = new(Cause::FinalAnswersLost, final_answers);
            lost.clues.insert(0, Clue::HalfClosed);
            all.push(lost);
        }
        return all;
    };
    let waits = violation.request().is_some();
    // What takes a whole connection is more than a stream's end.
    let took_the_connection = CONNECTION_ENDS.iter().any(|text| reason.contains(text));
    let (restart, early) = if together.len() > 1 || took_the_connection { (1, 3) } else { (2, 1) };
    let of_stream = if waits { Cause::StreamClosedEarly } else { Cause::StreamEndedBadly };
    vec![new(Cause::Restart, restart), new(of_stream, early), new(Cause::Crash, 4)]
}

/// Whether the client had half-closed the stream that broke.
fn is_half_closed(question: &Question) -> bool {
    let Some(place) = &question.violation.place else { return false };
    let here = |entry: &&Entry| (entry.context.worker, entry.context.context) == (place.worker, place.context);
    // The client may open its next stream at the time of the break. So the break is found first, and then what came before it.
    let is_break = |entry: &&Entry| {
        entry.at == question.violation.at_ns && matches!(entry.what, EventKind::Cut(Cut::Broken(_) | Cut::Ended))
    };
    let before = question.story.window.iter().rev().filter(here).skip_while(|entry| !is_break(entry));
    let mut acts = before.filter(|entry| {
        matches!(entry.what, EventKind::Opened(..) | EventKind::HalfClosed | EventKind::Closed | EventKind::Sent(_))
    });
    acts.next().is_some_and(|entry| matches!(entry.what, EventKind::HalfClosed))
}

fn statistics(question: &Question) -> Vec<Hypothesis> {
    let Evidence::Counts { seen, expected, .. } = &question.violation.evidence else { return Vec::new() };
    // What else stands before the model would decide it, and the model's own count.
    let more = [(Cause::CountedTwice, 1), (Cause::ExecutedBesides, 2)];
    let less = [(Cause::NotCounted, 1), (Cause::AnsweredElsewhere, 2)];
    let causes = match seen.success.cmp(&expected.success_min) {
        Ordering::Greater => more.to_vec(),
        Ordering::Less => less.to_vec(),
        Ordering::Equal => [more[0], less[0]].to_vec(),
    };
    causes.into_iter().map(|(cause, rank)| new(cause, rank, Clue::SeenAndExpected)).collect()
}
