//! Streams that break or do not end, servers that die, and counts that differ.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{
    Cause, Question, ViolationKind,
    hypothesis::{Fit, Hypothesis},
};
use crate::{
    event::{Cut, Nanos},
    history::{Entry, What},
};

/// Words of an error that a connection's end is told by.
const CONNECTION_ENDS: [&str; 4] = ["connection reset", "broken pipe", "connection closed", "connection error"];
/// Streams that break within this time break together.
const TOGETHER: Nanos = 500_000_000;

fn new(cause: Cause, tried: usize, evidence: String) -> Hypothesis {
    Hypothesis::of_rank(cause, tried, Fit::NotKnown, evidence)
}

/// What may explain a violation that is not of one answer.
pub(super) fn explain(question: &Question) -> Vec<Hypothesis> {
    let violation = question.violation;
    let seen = violation.seen.clone();
    match violation.kind {
        ViolationKind::StreamBroken => broken(question),
        ViolationKind::StreamNotClosed => vec![new(Cause::StreamKeptOpen, 1, seen)],
        ViolationKind::ServerDied => vec![new(Cause::Crash, 1, seen)],
        ViolationKind::Statistics => statistics(question),
        // By their names, because not every oracle has them.
        kind => match kind.name() {
            "slot-leak" => vec![new(Cause::SlotLeak, 1, seen.clone()), new(Cause::MissingReap, 2, seen)],
            "slot-released-twice" => released_twice(question),
            "slot-withheld" => vec![new(Cause::SlotKept, 1, seen.clone()), new(Cause::EndNotTold, 2, seen)],
            "missing-reap" => vec![new(Cause::MissingReap, 1, seen)],
            "pending-left" => vec![new(Cause::SlotLeak, 1, seen.clone()), new(Cause::Starvation, 2, seen)],
            _ => Vec::new(),
        },
    }
}

/// Where the state is the slot's, two sequences of one slot would have got wrong sums.
fn released_twice(question: &Question) -> Vec<Hypothesis> {
    let seen = &question.violation.seen;
    let (shared, extra) = if question.known.keyed_by_id { (1, 2) } else { (2, 1) };
    vec![new(Cause::SharedState, shared, seen.clone()), new(Cause::ExtraSlot, extra, seen.clone())]
}

fn broken(question: &Question) -> Vec<Hypothesis> {
    let (violation, story) = (question.violation, question.story);
    let reason = &violation.seen;
    let together: BTreeSet<_> = story.broken_near(violation.at_ns, TOGETHER).map(|(entry, _)| entry.context).collect();
    // A server that closes a stream in good order is there, and means it.
    let in_good_order = reason.contains("the server ended the stream");
    let evidence = format!("{reason}; streams of {} contexts broke within half a second", together.len());
    if in_good_order {
        let half_closed = is_half_closed(question);
        let (final_answers, early) = if half_closed { (1, 2) } else { (2, 1) };
        let mut all = vec![new(Cause::StreamClosedEarly, early, evidence.clone())];
        if half_closed {
            all.push(new(Cause::FinalAnswersLost, final_answers, format!("the client had half-closed it; {evidence}")));
        }
        return all;
    }
    let waits = violation.place.as_ref().is_some_and(|place| place.request_id.is_some());
    // What takes a whole connection is more than a stream's end.
    let took_the_connection = CONNECTION_ENDS.iter().any(|text| reason.contains(text));
    let (restart, early) = if together.len() > 1 || took_the_connection { (1, 3) } else { (2, 1) };
    let of_stream = if waits { Cause::StreamClosedEarly } else { Cause::StreamEndedBadly };
    vec![
        new(Cause::Restart, restart, evidence.clone()),
        new(of_stream, early, evidence.clone()),
        new(Cause::Crash, 4, evidence),
    ]
}

/// Whether the client had half-closed the stream that broke.
fn is_half_closed(question: &Question) -> bool {
    let Some(place) = &question.violation.place else { return false };
    let here = |entry: &&Entry| (entry.context.worker, entry.context.context) == (place.worker, place.context);
    // The client may open its next stream at the time of the break. So the break is found first, and then what came before it.
    let is_break =
        |entry: &&Entry| entry.at == question.violation.at_ns && matches!(entry.what, What::Cut(Cut::Broken(_)));
    let before = question.story.window.iter().rev().filter(here).skip_while(|entry| !is_break(entry));
    let mut acts =
        before.filter(|entry| matches!(entry.what, What::Opened(..) | What::HalfClosed | What::Closed | What::Sent(_)));
    acts.next().is_some_and(|entry| matches!(entry.what, What::HalfClosed))
}

fn statistics(question: &Question) -> Vec<Hypothesis> {
    let violation = question.violation;
    let evidence = format!("the counts rose by {}, and had to by {}", violation.seen, violation.expected);
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let (Some(seen), Some(expected)) = (number(&violation.seen), number(&violation.expected)) else {
        return Vec::new();
    };
    // What else stands before the model would decide it, and the model's own count.
    let more = [(Cause::CountedTwice, 1), (Cause::ExecutedBesides, 2)];
    let less = [(Cause::NotCounted, 1), (Cause::AnsweredElsewhere, 2)];
    let causes = match seen.cmp(&expected) {
        Ordering::Greater => more.to_vec(),
        Ordering::Less => less.to_vec(),
        Ordering::Equal => [more[0], less[0]].to_vec(),
    };
    causes.into_iter().map(|(cause, rank)| new(cause, rank, evidence.clone())).collect()
}
