//! Streams that break or do not end, servers that die, and counts that differ.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{
    Cause, Clue, Evidence, Question,
    hypothesis::{Hypothesis, in_order},
};
use crate::history::Entry;
use workload::event::{Cut, EventKind, Nanos};

/// Words of an error that a connection's end is told by.
const CONNECTION_ENDS: [&str; 4] = ["connection reset", "broken pipe", "connection closed", "connection error"];
/// Streams that break within this time break together.
const TOGETHER: Nanos = 500_000_000;

pub(super) fn broken(question: &Question) -> Vec<Hypothesis> {
    let (violation, story) = (question.violation, question.story);
    let together: BTreeSet<_> = story.broken_near(violation.at_ns, TOGETHER).map(|(entry, _)| entry.context).collect();
    let clues = [Clue::Seen, Clue::BrokeTogether { contexts: together.len() }];
    let Evidence::Broken { reason } = &violation.evidence else {
        // A server that closes a stream in good order is there, and means it.
        if !is_half_closed(question) {
            return in_order(&[Cause::StreamClosedEarly], clues);
        }
        let mut all = in_order(&[Cause::FinalResponsesLost, Cause::StreamClosedEarly], clues);
        all[0].clues.insert(0, Clue::HalfClosed);
        return all;
    };
    let waits = violation.request().is_some();
    let of_stream = if waits { Cause::StreamClosedEarly } else { Cause::StreamEndedBadly };
    // What takes a whole connection is more than a stream's end.
    let took_the_connection = CONNECTION_ENDS.iter().any(|text| reason.contains(text));
    if together.len() > 1 || took_the_connection {
        in_order(&[Cause::Restart, of_stream, Cause::Crash], clues)
    } else {
        in_order(&[of_stream, Cause::Restart, Cause::Crash], clues)
    }
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

/// No more requests can wait than have no response, and none for a slot that is free.
pub(super) fn pending(question: &Question) -> Vec<Hypothesis> {
    let Evidence::Pending { sent, seen, all_slots_free } = &question.violation.evidence else { return Vec::new() };
    let may_wait = *seen <= sent.requests.saturating_sub(sent.answered);
    let causes: &[Cause] = match (may_wait, all_slots_free) {
        (false, _) => &[Cause::StillCounted],
        (true, true) => &[Cause::StillCounted, Cause::Starvation],
        (true, false) => &[Cause::SlotLeak, Cause::Starvation, Cause::StillCounted],
    };
    in_order(causes, [Clue::Seen])
}

pub(super) fn statistics(question: &Question) -> Vec<Hypothesis> {
    let Evidence::Counts { seen, expected, .. } = &question.violation.evidence else { return Vec::new() };
    // What else stands before the model would decide it, and the model's own count.
    let causes = match seen.success.cmp(&expected.success_min) {
        Ordering::Greater => [Cause::CountedTwice, Cause::ExecutedBesides],
        Ordering::Less => [Cause::NotCounted, Cause::AnsweredElsewhere],
        Ordering::Equal => [Cause::CountedTwice, Cause::NotCounted],
    };
    in_order(&causes, [Clue::SeenAndExpected])
}
