//! Streams that are cut, and what may still come of what was under way on them.

use super::*;

/// A sequence of which two steps are under way when its stream is cut, and the next one.
fn cut_and_begun_anew() -> Conversation {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).tell(EventKind::Cut(Cut::ByClient));
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[10, 20, 30])
        .answer("0-0-1-0", 10);
    c
}

#[test]
fn after_a_cut_stragglers_may_be_added_and_may_end_the_sequence() {
    let mut c = cut_and_begun_anew();
    // The straggler 2 was added, and 3 with its END came then.
    c.answer("0-0-1-1", 32);
    assert!(c.judged());
    c.reject("0-0-1-2");
    assert!(!c.judged());
    c.assert(&[]);
    let mut c = cut_and_begun_anew();
    c.answer("0-0-1-1", 30).answer("0-0-1-2", 62).assert(&[]);
    assert!(c.judged());
}

#[test]
fn after_a_cut_a_sum_that_no_stragglers_make_is_wrong() {
    for sum in [31, 33, 35, 52] {
        let mut c = cut_and_begun_anew();
        c.answer("0-0-1-1", sum).assert(&[ViolationKind::WrongSum]);
    }
    // Once it was added it is not added again.
    let mut c = cut_and_begun_anew();
    c.answer("0-0-1-1", 32).answer("0-0-1-2", 64).assert(&[ViolationKind::WrongSum]);
}

#[test]
fn after_a_cut_start_a_step_may_be_rejected_or_go_on_and_else_its_sum_is_wrong() {
    let cut = || {
        let mut c = Conversation::new();
        c.send(true, true, &[1]).answer("0-0-0-0", 1).send(true, false, &[10]).tell(EventKind::Cut(Cut::Deadline));
        c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(false, true, &[20]);
        c
    };
    let mut rejected = cut();
    rejected.reject("0-0-2-0").assert(&[]);
    let mut went_on = cut();
    went_on.answer("0-0-2-0", 30).assert(&[]);
    // It may have been accepted, so nobody can say that it had to be rejected.
    let mut wrong = cut();
    wrong.answer("0-0-2-0", 31).assert(&[ViolationKind::WrongSum]);
}

#[test]
fn stragglers_come_until_a_time_limit() {
    for (waited, lawful) in [(2999, true), (3001, false)] {
        let mut c = Conversation::new();
        c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).tell(EventKind::Cut(Cut::ByClient));
        // What was sent in that time may have met them, whenever its answer comes.
        c.wait(waited)
            .tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
            .send(true, true, &[10, 20])
            .wait(2);
        c.answer("0-0-1-0", 10).answer("0-0-1-1", 32);
        c.assert(if lawful { &[] } else { &[ViolationKind::WrongSum] });
    }
}

#[test]
fn in_doubt_a_start_that_does_not_begin_anew_is_seen() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2]).answer("0-0-0-0", 1).tell(EventKind::Cut(Cut::ByClient));
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, false, &[10]).answer("0-0-1-0", 11);
    c.assert(&[ViolationKind::WrongSum]);
}

#[test]
fn a_cut_says_nothing_against_the_server_unless_the_server_did_it() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).tell(EventKind::Cut(Cut::Interrupted)).assert(&[]);
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[1])
        .tell(EventKind::Cut(Cut::Broken("reset".into())));
    c.assert(&[ViolationKind::StreamBroken]);
    c.tell(EventKind::NotClosed).assert(&[ViolationKind::StreamBroken, ViolationKind::StreamNotClosed]);
}

#[test]
fn what_is_missing_may_have_been_anything() {
    // A sequence that ended before, and one that went on: behind the gap either is whatever happened in it.
    for end in [true, false] {
        let mut c = Conversation::new();
        c.send(true, end, &[5]).answer("0-0-0-0", 5);
        c.wait(1).tell(EventKind::Cut(Cut::Interrupted)).wait(1);
        c.send(false, false, &[7]).answer("0-0-1-0", 100).assert(&[]);
        c.wait(1).send(false, true, &[7]).reject("0-0-2-0").assert(&[]);
        // What may be under way of it has an end, and a START is judged at once.
        c.send(true, false, &[1]).answer("0-0-3-0", 2).assert(&[ViolationKind::WrongSum]);
        c.wait(3001).send(true, false, &[1]).answer("0-0-4-0", 1);
        c.send(false, true, &[1]).answer("0-0-5-0", 3).assert(&[ViolationKind::WrongSum, ViolationKind::WrongSum]);
    }
}
