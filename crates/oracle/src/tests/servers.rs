//! Sequences that several servers answer.

use super::*;
use workload::event::ServerName;

fn by(name: &str) -> EventKind {
    EventKind::ServedBy(Some(ServerName::new(name)))
}

fn split(first: u32, last: u32) -> (ViolationKind, Evidence) {
    let (expected, seen) = (ServerName::new("a"), ServerName::new("b"));
    (ViolationKind::SequenceSplit, Evidence::Split { expected, first, last, seen })
}

#[test]
fn what_a_second_server_says_of_a_sequence_is_one_violation_whatever_it_says() {
    let mut rejected = Conversation::new();
    rejected.tell(by("a")).send(true, true, &[1, 2, 3, 4]).answer("0-0-0-0", 1).answer("0-0-0-1", 3);
    rejected.tell(by("b")).reject("0-0-0-2").tell(by("a")).answer("0-0-0-3", 7);
    rejected.assert_evidence(Some(split(1, 2)));
    // A state of an earlier sequence was left on the other server.
    let mut added = Conversation::new();
    added.tell(by("a")).send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1);
    added.tell(by("b")).answer("0-0-0-1", 102).answer("0-0-0-2", 105);
    added.assert_evidence(Some(split(1, 1)));
    // Nothing is known of what either server has until the next START.
    added.send(false, false, &[5]).answer("0-0-1-0", 77).send(true, false, &[9, 1]).answer("0-0-2-0", 9);
    added.answer("0-0-2-1", 11);
    let kinds = added.violations();
    assert_eq!(kinds, [ViolationKind::SequenceSplit, ViolationKind::WrongSum]);
}

#[test]
fn sequences_of_one_id_may_be_on_different_servers() {
    let mut c = Conversation::new();
    c.tell(by("a")).send(true, true, &[1, 2]).answer("0-0-0-0", 1).answer("0-0-0-1", 3);
    c.tell(by("b")).send(true, true, &[4, 5]).answer("0-0-1-0", 4).answer("0-0-1-1", 9);
    c.assert(&[]);
    assert!(c.judged());
}

#[test]
fn a_stream_that_does_not_tell_its_server_splits_nothing() {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).tell(by("a"));
    c.send(true, false, &[1]).answer("0-0-0-0", 1);
    c.on(1).tell(EventKind::Opened(Connection::Fresh, Transport::GrpcStream));
    c.send(false, true, &[2]).answer("0-0-1-0", 3);
    c.assert(&[]);
}

#[test]
fn a_server_that_goes_away_takes_its_sequences_with_it() {
    let mut c = Conversation::new();
    c.tell(by("a")).send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1);
    c.wait(1).tell(EventKind::Disturbed(Disturbance::Begins)).wait(1).tell(EventKind::Disturbed(Disturbance::IsOver));
    c.tell(by("b")).reject("0-0-0-1").reject("0-0-0-2").assert(&[]);
    // A sequence that began behind it has no such excuse.
    c.wait(10).tell(by("a")).send(true, true, &[1, 2]).answer("0-0-1-0", 1).tell(by("b")).reject("0-0-1-1");
    c.assert_evidence(Some(split(1, 1)));
}
