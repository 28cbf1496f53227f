//! Causes of what happened all at the same time: the order of the events tells what their times do not.

use super::{super::windows::request, *};
use crate::Place;
use workload::event::{ContextId, EventKind};

/// The causes of a violation in what worker 0 was told last.
fn causes_now(tale: &Tale, kind: ViolationKind) -> Vec<Cause> {
    let place = Place::new(ContextId { worker: 0, context: 0 }, tale.entries[0].correlation_id, None);
    causes(&explain(&Violation::at(place, kind, tale.now, Evidence::Overtaken), &tale.entries, &known()))
}

#[test]
fn a_lost_answer_whose_followers_came() {
    let mut dropped = Tale::at_once();
    dropped.open(0).send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).answer(0, 0, 3, &sums(&A)[3..]).wait(1000).open(1);
    assert_eq!(causes(&dropped.other(ViolationKind::Lost, (0, 0, 2))), [ResponseDropped]);
    // What was sent before it and answered says nothing of it.
    let mut last = Tale::at_once();
    last.open(0).send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..4]).wait(1000).open(1);
    assert_eq!(causes(&last.other(ViolationKind::Lost, (0, 0, 4)))[0], ServerHang);
    // Nor does what is answered on the context's next stream, at the time at which the client gave this one up.
    let mut next = Tale::at_once();
    next.open(0).send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).wait(1000).tell(0, EventKind::Cut(Cut::ByClient));
    next.open(0).send(0, 1, &B).answer(0, 1, 0, &sums(&B));
    assert_eq!(causes(&next.other(ViolationKind::Lost, (0, 0, 2)))[0], ServerHang);
}

#[test]
fn an_answer_to_another_between_answers_to_this_one() {
    for (stray, expected) in [(request(1, 0, 2), ResponseElsewhere), (request(99, 0, 2), UnknownRequestId)] {
        let mut tale = Tale::at_once();
        tale.send(0, 0, &A).send(1, 0, &B).answer(0, 0, 0, &[A[0]]);
        tale.tell(0, EventKind::Answered(stray, 5.into(), None)).answer(0, 0, 1, &sums(&A)[1..]);
        assert_eq!(causes_now(&tale, ViolationKind::Misaddressed), [expected]);
    }
}

#[test]
fn an_answer_of_another_form_between_answers_to_this_one() {
    for (kind, outputs, expected) in [
        (ViolationKind::WrongOutputName, vec![], OutputMissing),
        (ViolationKind::WrongOutputSize, vec![output(8)], OutputTooLong),
        (ViolationKind::WrongOutputSize, vec![output(3)], OutputTooShort),
    ] {
        let mut tale = Tale::at_once();
        tale.send(0, 0, &A).answer(0, 0, 0, &[A[0]]).malformed(0, 0, 1, outputs).answer(0, 0, 2, &sums(&A)[2..]);
        assert_eq!(causes_now(&tale, kind)[0], expected);
    }
}

#[test]
fn a_stream_that_broke_at_its_half_close_before_the_next_was_opened() {
    let broken = |tale: &Tale| causes(&tale.of_break(Cut::Ended))[0];
    let mut half_closed = Tale::at_once();
    half_closed.open(0).send(0, 0, &A).tell(0, EventKind::HalfClosed).ended(0).open(0).send(0, 1, &B);
    assert_eq!(broken(&half_closed), FinalResponsesLost);
    let mut open = Tale::at_once();
    open.open(0).send(0, 0, &A).tell(0, EventKind::HalfClosed).tell(0, EventKind::Closed);
    open.open(0).send(0, 1, &B).ended(0).open(0).tell(0, EventKind::HalfClosed);
    assert_eq!(broken(&open), StreamClosedEarly);
}
