use std::num::NonZeroU64;

use super::*;
use crate::{
    Evidence, Place, ViolationKind,
    diagnosis::{Cause, Clue},
};
use workload::{
    conversation::Lane,
    event::{ContextId, EventKind},
    sequence::{CorrelationId, Pattern, RequestId, Step},
};

const MS: Nanos = 1_000_000;

fn id() -> CorrelationId {
    CorrelationId(NonZeroU64::MIN)
}

fn entry(at: Nanos, context: u32, what: EventKind) -> Entry {
    Entry { at, context: ContextId { worker: 0, context }, correlation_id: id(), lane: Lane::FIRST, what }
}

fn request(context: u32) -> RequestId {
    RequestId { worker: 0, context, sequence: 0, step: 0 }
}

fn sent(at: Nanos, context: u32) -> Entry {
    let step = Step {
        request: request(context),
        pattern: Pattern::Valid,
        start: true,
        end: true,
        value: 1.into(),
        of: 1,
        special: None,
    };
    entry(at, context, EventKind::Sent(step))
}

fn answered(at: Nanos, context: u32) -> Entry {
    entry(at, context, EventKind::Answered(request(context), 1.into(), None))
}

fn violation(at_ns: Nanos, context: u32) -> Violation {
    let place = Place::new(ContextId { worker: 0, context }, id(), None);
    Violation::at(place, ViolationKind::WrongSum, at_ns, Evidence::Overtaken)
}

fn explainer() -> Explainer {
    let explain: Explain = |_, window, _| {
        assert!(window.is_sorted_by_key(|entry| entry.at), "{window:?}");
        // The times are what these tests look at.
        let times: Vec<_> = window.iter().map(|entry| Clue::RejectedAfter { ms: entry.at / MS }).collect();
        vec![Explanation::new(Cause::Unexplained, times)]
    };
    Explainer { explain, ..Explainer::new(ModelFacts::default(), Duration::ZERO) }
}

impl Explainer {
    fn one(&mut self, entry: Entry) {
        let bytes = entry.memory();
        self.take(vec![entry], bytes);
    }
}

/// The times, in ms, of what the next violation is explained by.
fn seen(explainer: &mut Explainer, now_ms: u64) -> Option<Vec<u64>> {
    let violation = explainer.explained(Duration::from_millis(now_ms), false)?;
    let times = violation.explanations[0].clues.iter().map(|clue| match clue {
        Clue::RejectedAfter { ms } => *ms,
        _ => panic!("{clue:?}"),
    });
    Some(times.collect())
}

#[test]
fn a_violation_waits_for_what_follows_on_any_context_and_not_for_more() {
    let mut e = explainer();
    e.one(sent(MS, 0));
    e.accuse(violation(2 * MS, 0), Duration::from_secs(1));
    e.one(answered(3 * MS, 1));
    e.one(answered(302 * MS, 0));
    e.one(answered(303 * MS, 0));
    assert_eq!(e.waits(Duration::from_millis(1100)), Some(Duration::from_millis(200)));
    assert_eq!(seen(&mut e, 1299), None);
    assert_eq!(seen(&mut e, 1300).expect("it has waited"), [1, 3, 302]);
}

#[test]
fn it_does_not_wait_beyond_the_end_and_violations_stay_in_order() {
    let mut e = explainer();
    e.accuse(violation(2 * MS, 0), Duration::ZERO);
    e.accuse(violation(3 * MS, 1), Duration::ZERO);
    let first = e.explained(Duration::ZERO, true).expect("the first");
    let second = e.explained(Duration::ZERO, true).expect("the second");
    assert_eq!((first.at_ns, second.at_ns), (2 * MS, 3 * MS));
}

#[test]
fn the_window_is_bounded_and_in_order_of_time() {
    let mut e = explainer();
    e.one(sent(0, 0));
    e.one(sent(20_000 * MS, 0));
    e.one(sent(19_999 * MS, 1));
    e.accuse(violation(20_000 * MS, 2), Duration::ZERO);
    assert_eq!(seen(&mut e, 300).expect("it has waited"), [19999, 20000]);
    for _ in 0..ENTRIES + 100 {
        e.one(answered(20_000 * MS, 0));
    }
    e.sort();
    assert_eq!((e.entries, e.sorted.len()), (ENTRIES, ENTRIES));
}

#[test]
fn nothing_is_concluded_from_what_is_beyond_a_gap() {
    let mut e = explainer();
    for ms in [1, 5, 9, 12, 15, 20, 25] {
        e.one(sent(ms * MS, 0));
    }
    e.gap(6 * MS, 10 * MS);
    e.gap(4 * MS, 7 * MS);
    e.gap(18 * MS, 22 * MS);
    for (at_ms, seen_there) in [(2, vec![1]), (8, vec![12, 15]), (13, vec![12, 15]), (19, vec![25]), (23, vec![25])] {
        e.accuse(violation(at_ms * MS, 1), Duration::ZERO);
        assert_eq!(seen(&mut e, 300), Some(seen_there), "at {at_ms} ms");
    }
    e.one(sent(20_000 * MS, 0));
    assert!(e.gaps.is_empty(), "{:?}", e.gaps);
}

#[test]
fn so_many_violations_are_explained_and_so_many_kept() {
    let mut e = explainer();
    (0..VIOLATIONS_KEPT as u64 + 10).for_each(|at| e.accuse(violation(at, 0), Duration::ZERO));
    let all: Vec<_> = std::iter::from_fn(|| e.explained(Duration::ZERO, true)).collect();
    assert_eq!(all.len(), VIOLATIONS_KEPT);
    assert_eq!(all.iter().filter(|violation| !violation.explanations.is_empty()).count(), EXPLAINED);
}

#[test]
fn the_scene_is_that_of_the_first_violation_and_tells_what_began_before_it() {
    let mut explainer = explainer();
    explainer.one(sent(0, 0));
    for ms in [20_000, 40_000, 40_001] {
        explainer.one(sent(ms * MS, 1));
    }
    explainer.accuse(violation(40_001 * MS, 7), Duration::ZERO);
    assert!(explainer.explained(Duration::ZERO, true).is_some());
    explainer.one(sent(40_002 * MS, 2));
    explainer.accuse(violation(40_002 * MS, 7), Duration::ZERO);
    assert!(explainer.explained(Duration::ZERO, true).is_some());
    let scene = explainer.into_scene();
    let at = |begun: &Begun| begun.at / MS;
    assert_eq!(scene.entries.iter().map(|entry| entry.at / MS).collect::<Vec<_>>(), [40_000, 40_001]);
    assert_eq!(scene.before.iter().map(at).collect::<Vec<_>>(), [0, 20_000]);
    assert_eq!(scene.begun().map(|begun| begun.at / MS).collect::<Vec<_>>(), [0, 20_000, 40_000, 40_001]);
}

#[test]
fn without_a_violation_the_scene_is_the_end_and_what_began_has_a_limit() {
    let mut explainer = explainer();
    for ms in 0..30_000 {
        explainer.one(sent(ms * 100 * MS, 0));
    }
    let scene = explainer.into_scene();
    assert_eq!(scene.entries.last().map(|entry| entry.at), Some(29_999 * 100 * MS));
    assert_eq!(scene.before.len(), BEGUN);
    assert_eq!(scene.before.last().map(|begun| begun.at < scene.entries[0].at), Some(true));
}

#[test]
fn the_sequence_of_a_violation_is_told_in_order_of_time() {
    let mut explainer = explainer();
    for entry in [sent(10 * MS, 1), sent(5 * MS, 0), answered(20 * MS, 1), answered(15 * MS, 0)] {
        explainer.one(entry);
    }
    let context = ContextId { worker: 0, context: 1 };
    explainer.one(entry(30 * MS, 1, EventKind::Closed));
    let of_request =
        Violation { place: Some(Place::new(context, id(), None).of_request(request(1))), ..violation(20 * MS, 1) };
    assert_eq!(explainer.sequence_of(&of_request), [sent(10 * MS, 1), answered(20 * MS, 1)]);
    let other = RequestId { sequence: 1, ..request(1) };
    let of_another =
        Violation { place: Some(Place::new(context, id(), None).of_request(other)), ..violation(20 * MS, 1) };
    assert_eq!(explainer.sequence_of(&of_another), []);
    assert_eq!(explainer.sequence_of(&violation(20 * MS, 1)), [], "it concerns no request");
}
