use super::{
    super::expect::{Expecting, Lawful, Sent},
    *,
};

/// A script's own ID: what each step has to be answered with, all of them sent on one stream at once.
fn dues(steps: &[(bool, bool)]) -> Vec<Option<Due>> {
    let mut its = Expecting::new(Arithmetic::default(), None);
    its.open(Lane::FIRST);
    steps.iter().map(|&(start, end)| due(&mut its, Lane::FIRST, plain(start, end, 5))).collect()
}

/// What a step has to be answered with, as it is sent.
pub(super) fn due(its: &mut Expecting, lane: Lane, sent: Sent) -> Option<Due> {
    let token = its.send(lane, sent);
    its.lawful(token).and_then(Lawful::only)
}

fn plain(start: bool, end: bool, value: i64) -> Sent {
    Sent { start, end, value: Arithmetic::default().number(value), special: None }
}

fn sum(sum: i32) -> Due {
    Due::Sum(sum.into())
}

#[test]
fn what_has_to_come_follows_from_what_was_sent() {
    let rejected = Some(Due::Rejection);
    assert_eq!(dues(&[(true, false), (false, false), (false, true)]), [sum(5), sum(10), sum(15)].map(Some));
    assert_eq!(
        dues(&[(false, false), (true, true), (false, false)]),
        [Due::Rejection, sum(5), Due::Rejection].map(Some)
    );
    assert_eq!(dues(&[(true, false), (true, false), (false, true)]), [sum(5), sum(5), sum(10)].map(Some));

    // A sum wraps. After a pause its sequence may be gone.
    let mut paused = Expecting::new(Arithmetic::default(), None);
    paused.open(Lane::FIRST);
    assert_eq!(due(&mut paused, Lane::FIRST, plain(true, false, i32::MAX.into())), Some(sum(i32::MAX)));
    assert_eq!(due(&mut paused, Lane::FIRST, plain(false, false, 1)), Some(sum(i32::MIN)));
    paused.take(Lane::FIRST, 0);
    paused.pause();
    assert_eq!(due(&mut paused, Lane::FIRST, plain(false, false, 1)), None);
    assert_eq!(due(&mut paused, Lane::FIRST, plain(true, false, 2)), Some(sum(2)));

    // What is under way on another stream may come before or after.
    let mut two = Expecting::new(Arithmetic::default(), None);
    two.open(Lane::FIRST);
    two.open(Lane(1));
    assert_eq!(due(&mut two, Lane::FIRST, plain(true, false, 1)), Some(sum(1)));
    assert_eq!(due(&mut two, Lane(1), plain(false, false, 2)), None);

    // What was cut may arrive later; where nothing was under way nothing does.
    let mut cut = Expecting::new(Arithmetic::default(), None);
    cut.open(Lane::FIRST);
    cut.cut(Lane::FIRST);
    cut.open(Lane::FIRST);
    assert_eq!(due(&mut cut, Lane::FIRST, plain(false, false, 1)), rejected);
    cut.cut(Lane::FIRST);
    cut.open(Lane::FIRST);
    assert_eq!(due(&mut cut, Lane::FIRST, plain(true, false, 1)), Some(sum(1)));
    assert_eq!(due(&mut cut, Lane::FIRST, plain(false, false, 1)), None);

    // A step that waits for too long is rejected with its whole sequence, and a flaw changes nothing.
    let mut special = Expecting::new(Arithmetic::default(), None);
    special.open(Lane::FIRST);
    let flaw = Sent { special: Some(Special::Flaw(Flaw::IdZero)), ..plain(false, false, 9) };
    assert_eq!(due(&mut special, Lane::FIRST, plain(true, false, 1)), Some(sum(1)));
    assert_eq!(due(&mut special, Lane::FIRST, flaw), None);
    assert_eq!(due(&mut special, Lane::FIRST, plain(false, false, 2)), Some(sum(3)));
    let limited = Sent { special: Some(Special::TimeoutUs(5)), ..plain(false, false, 4) };
    assert_eq!(due(&mut special, Lane::FIRST, limited), None);
    assert_eq!(due(&mut special, Lane::FIRST, plain(false, false, 2)), None);
}

#[test]
fn calls_beside_each_other_come_in_any_order() {
    let beside = |first: Sent, second: Sent| {
        let mut its = Expecting::new(Arithmetic::default(), None);
        its.open(Lane::FIRST);
        its.open(Lane(1));
        its.send(Lane::FIRST, plain(true, false, 1));
        its.take(Lane::FIRST, 0);
        let tokens = [its.send(Lane::FIRST, first), its.send(Lane(1), second)];
        its.take(Lane::FIRST, 0);
        its.take(Lane(1), 0);
        tokens.map(|token| its.lawful(token).cloned())
    };
    let lawful = |sums: &[i32], may_be_rejected| {
        Some(Lawful { sums: sums.iter().map(|sum| (*sum).into()).collect(), may_be_rejected })
    };
    let end_and_start = beside(plain(false, true, 2), plain(true, false, 10));
    assert_eq!(end_and_start, [lawful(&[3, 12], false), lawful(&[10], false)]);
    // Each is told for itself: which of the two came first, the other's answer does not say here.
    let step_and_end = beside(plain(false, false, 2), plain(false, true, 10));
    assert_eq!(step_and_end, [lawful(&[3], true), lawful(&[11, 13], false)]);

    // What is sent meanwhile may come before a step that is under way.
    let mut its = Expecting::new(Arithmetic::default(), None);
    for lane in [Lane::FIRST, Lane(1)] {
        its.open(lane);
    }
    its.send(Lane::FIRST, plain(true, false, 1));
    its.take(Lane::FIRST, 0);
    let [_, step] = [(Lane::FIRST, true), (Lane(1), false)].map(|(lane, end)| its.send(lane, plain(false, end, 10)));
    its.take(Lane::FIRST, 0);
    its.send(Lane::FIRST, plain(true, false, 5));
    its.take(Lane(1), 0);
    assert_eq!(its.lawful(step), None, "it may go on from 5");

    let acts = [
        "send 0 START 1",
        "await 0",
        "open 1 over fresh",
        "send 0 END 2",
        "send 1 START 10",
        "await 0",
        "await 1",
        "send 1 END 1",
    ];
    let text = script(&known(failure(vec![conversation(0, &acts)])));
    for expected in [
        "stream_0_0.send(2, sequence_end=True, expect=(3, 12))",
        "stream_0_1.send(10, sequence_start=True, expect=10)",
        "return any(is_right(seen, sum, shape) for sum in expect if not isinstance(sum, str))",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// The answer to END has the correlation ID in it, and the script chooses that when it runs.
#[test]
fn an_answer_with_the_correlation_id_is_not_known() {
    let arithmetic = Arithmetic { formula: Formula::RunningSumPlusCorrid, ..Arithmetic::default() };
    let mut its = Expecting::new(arithmetic, None);
    its.open(Lane::FIRST);
    assert_eq!(due(&mut its, Lane::FIRST, plain(true, false, 5)), Some(sum(5)));
    assert_eq!(due(&mut its, Lane::FIRST, plain(false, true, 5)), None);
    assert_eq!(due(&mut its, Lane::FIRST, plain(false, true, 5)), Some(Due::Rejection));
}
