use std::num::NonZeroU64;

use super::*;
use crate::{
    conversation::Lane,
    event::Cut,
    oracle::{Place, ViolationKind, diagnosis::Cause},
    sequence::{CorrelationId, Pattern, RequestId, Step},
};

const MS: Nanos = 1_000_000;

fn id() -> CorrelationId {
    CorrelationId(NonZeroU64::MIN)
}

fn entry(at: Nanos, context: u32, what: What) -> Entry {
    Entry { at, context: ContextId { worker: 0, context }, correlation_id: id(), lane: Lane::FIRST, what }
}

fn request(context: u32) -> RequestId {
    RequestId { worker: 0, context, sequence: 0, step: 0 }
}

fn sent(at: Nanos, context: u32) -> Entry {
    let step = Step { request: request(context), pattern: Pattern::Valid, start: true, end: true, value: 1, of: 1 };
    entry(at, context, What::Sent(step))
}

fn answered(at: Nanos, context: u32) -> Entry {
    entry(at, context, What::Answered(request(context), 1))
}

fn violation(at_ns: Nanos, context: u32) -> Violation {
    let place = Place { worker: 0, context, correlation_id: id(), request_id: None };
    let text = String::new;
    let of_run = Violation::of_the_run(ViolationKind::WrongSum, at_ns, text(), text(), text());
    Violation { place: Some(place), ..of_run }
}

fn evidence() -> Evidence {
    let explain: Explain = |_, window, _| {
        assert!(window.is_sorted_by_key(|entry| entry.at), "{window:?}");
        let times: Vec<_> = window.iter().map(|entry| entry.at / MS).collect();
        vec![Explanation { cause: Cause::Unexplained, evidence: format!("{times:?}") }]
    };
    Evidence { explain, ..Evidence::new(Known::default(), Duration::ZERO) }
}

impl Evidence {
    fn one(&mut self, entry: Entry) {
        let bytes = entry.memory();
        self.take(vec![entry], bytes);
    }
}

fn seen(evidence: &mut Evidence, now_ms: u64) -> Option<String> {
    let violation = evidence.explained(Duration::from_millis(now_ms), false)?;
    Some(violation.explanations[0].evidence.clone())
}

#[test]
fn a_violation_waits_until_nothing_is_under_way_on_its_context() {
    let mut e = evidence();
    e.one(sent(MS, 0));
    e.one(sent(2 * MS, 0));
    e.one(sent(2 * MS, 1));
    e.one(answered(3 * MS, 0));
    e.accuse(violation(3 * MS, 0), Duration::ZERO);
    assert_eq!(seen(&mut e, 0), None);
    e.one(answered(4 * MS, 1));
    assert_eq!(seen(&mut e, 0), None, "another context's answer tells nothing");
    e.one(answered(5 * MS, 0));
    assert_eq!(seen(&mut e, 0).expect("all is there"), "[1, 2, 2, 3, 4, 5]");
}

#[test]
fn it_waits_for_two_answers_at_most() {
    let mut e = evidence();
    (0..5).for_each(|at| e.one(sent(at * MS, 0)));
    e.accuse(violation(5 * MS, 0), Duration::ZERO);
    e.one(answered(6 * MS, 0));
    assert_eq!(seen(&mut e, 0), None);
    e.one(answered(7 * MS, 0));
    assert!(seen(&mut e, 0).is_some());
}

#[test]
fn it_waits_so_long_at_most_and_not_beyond_the_end() {
    let mut e = evidence();
    e.one(sent(MS, 0));
    e.accuse(violation(2 * MS, 0), Duration::from_secs(1));
    assert_eq!(e.waits(Duration::from_millis(1100)), Some(Duration::from_millis(200)));
    assert_eq!(seen(&mut e, 1299), None);
    assert!(seen(&mut e, 1300).is_some());
    e.accuse(violation(3 * MS, 0), Duration::from_secs(2));
    assert!(e.explained(Duration::from_secs(2), true).is_some());
}

#[test]
fn violations_stay_in_order_and_a_cut_leaves_nothing_to_wait_for() {
    let mut e = evidence();
    e.one(sent(MS, 0));
    e.accuse(violation(2 * MS, 0), Duration::ZERO);
    e.accuse(violation(3 * MS, 1), Duration::ZERO);
    assert_eq!(seen(&mut e, 0), None, "the second is known, and comes after the first");
    e.one(entry(4 * MS, 0, What::Cut(Cut::ByClient)));
    let first = e.explained(Duration::ZERO, false).expect("the first");
    let second = e.explained(Duration::ZERO, false).expect("the second");
    assert_eq!((first.at_ns, second.at_ns), (2 * MS, 3 * MS));
}

#[test]
fn the_window_is_bounded_and_in_order_of_time() {
    let mut e = evidence();
    e.one(sent(0, 0));
    e.one(sent(20_000 * MS, 0));
    e.one(sent(19_999 * MS, 1));
    e.accuse(violation(20_000 * MS, 2), Duration::ZERO);
    assert_eq!(seen(&mut e, 0).expect("it is known"), "[19999, 20000]");
    for _ in 0..ENTRIES + 100 {
        e.one(answered(20_000 * MS, 0));
    }
    e.sort();
    assert_eq!((e.entries, e.sorted.len()), (ENTRIES, ENTRIES));
}

#[test]
fn so_many_violations_are_explained_and_so_many_kept() {
    let mut e = evidence();
    (0..VIOLATIONS_KEPT as u64 + 10).for_each(|at| e.accuse(violation(at, 0), Duration::ZERO));
    let all: Vec<_> = std::iter::from_fn(|| e.explained(Duration::ZERO, false)).collect();
    assert_eq!(all.len(), VIOLATIONS_KEPT);
    assert_eq!(all.iter().filter(|violation| !violation.explanations.is_empty()).count(), EXPLAINED);
}
