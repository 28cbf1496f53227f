//! A model or a server that is exchanged while sequences are under way.

use super::*;

/// What a model says of a sequence that began before it was loaded anew, and what it says later.
#[test]
fn while_a_model_is_exchanged_anything_may_become_of_what_is_under_way_and_nothing_of_what_begins_afterwards() {
    let stopping = "Server is stopping, scheduler for model has stopped accepting new inference requests";
    let disturbed = || {
        let mut c = Conversation::new();
        c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
            .send(true, false, &[1, 2, 3, 4])
            .answer("0-0-0-0", 1);
        c.tell(EventKind::Disturbed(Disturbance::Begins)).wait(100).reject("0-0-0-1");
        c.receive("0-0-0-2", Err(stopping.to_owned()));
        c.tell(EventKind::Disturbed(Disturbance::IsOver)).answer("0-0-0-3", 77);
        assert!(!c.judged());
        c.wait(100);
        c
    };
    // The sequence may have lived on, or not.
    let mut c = disturbed();
    c.send(false, false, &[1]).reject("0-0-1-0").assert(&[]);
    let mut c = disturbed();
    c.send(false, false, &[1]).answer("0-0-1-0", 78).assert(&[]);
    // A new one is as ever.
    let mut c = disturbed();
    c.send(true, true, &[1, 2]).answer("0-0-1-0", 1).answer("0-0-1-1", 4).assert(&[ViolationKind::WrongSum]);
    let mut c = disturbed();
    c.send(true, false, &[1, 2]).answer("0-0-1-0", 1).reject("0-0-1-1").assert(&[ViolationKind::SpuriousStartError]);
    let mut c = disturbed();
    c.send(true, false, &[1]).receive("0-0-1-0", Err(stopping.to_owned())).assert(&[ViolationKind::UnexpectedError]);
    let mut c = disturbed();
    c.send(false, false, &[1]).receive("0-0-1-0", Err("other".to_owned())).assert(&[ViolationKind::UnexpectedError]);
    // What was sent before may be lost, and what is sent afterwards may not.
    let mut c = disturbed();
    c.send(true, false, &[1]).tell(EventKind::GaveUp).assert(&[ViolationKind::Lost]);
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, false, &[1])
        .tell(EventKind::Disturbed(Disturbance::Begins));
    c.wait(100).tell(EventKind::Disturbed(Disturbance::IsOver)).wait(5000).tell(EventKind::GaveUp).assert(&[]);
    // A stream need not end that was there before.
    c.tell(EventKind::NotClosed).assert(&[]);
    // A stream may break that was there before.
    let mut c = disturbed();
    c.tell(EventKind::Cut(Cut::Broken("reset".into()))).assert(&[]);
    // One that was opened soon afterwards may be on a connection whose end has not arrived yet, until it is answered.
    let opened_after = |ms| {
        let mut c = disturbed();
        c.tell(EventKind::Cut(Cut::ByClient))
            .wait(ms)
            .tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
            .send(true, false, &[1, 2]);
        c
    };
    let broken = || EventKind::Cut(Cut::Broken("reset".into()));
    opened_after(1).tell(broken()).assert(&[]);
    opened_after(1).answer("0-0-1-0", 1).tell(broken()).assert(&[ViolationKind::StreamBroken]);
    opened_after(3000).tell(broken()).assert(&[ViolationKind::StreamBroken]);
    // Of the stream that comes after one that was answered nothing is known.
    let mut c = opened_after(1);
    c.answer("0-0-1-0", 1)
        .tell(EventKind::Cut(Cut::ByClient))
        .tell(EventKind::Opened(Connection::Own, Transport::GrpcStream));
    c.send(true, false, &[1]).tell(broken()).assert(&[]);
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, false, &[1]).tell(broken());
    c.assert(&[ViolationKind::StreamBroken]);
}

#[test]
fn what_was_cut_before_an_exchange_may_still_come_after_it() {
    let mut c = Conversation::new();
    c.send(true, false, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).tell(EventKind::Cut(Cut::ByClient));
    c.tell(EventKind::Disturbed(Disturbance::Begins)).wait(100).tell(EventKind::Disturbed(Disturbance::IsOver));
    c.wait(1).tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, false, &[10, 20]);
    c.answer("0-0-2-0", 10).answer("0-0-2-1", 35).assert(&[]);
    c.wait(3000).send(true, false, &[10, 20]).answer("0-0-3-0", 10).answer("0-0-3-1", 35);
    c.assert(&[ViolationKind::WrongSum]);
}

const STUB_IS_GONE: &str = "Stub process 'custom_sequence_int32_0_0' is not healthy.";

/// A sequence with the sum 3, of whose last two steps the instance fails.
fn failing() -> Conversation {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, false, &[1, 2, 4, 8]);
    c.answer("0-0-0-0", 1).answer("0-0-0-1", 3).tell(EventKind::Disturbed(Disturbance::InstanceFails)).wait(100);
    c.receive("0-0-0-2", Err(STUB_IS_GONE.to_owned()));
    c
}

#[test]
fn where_an_instance_fails_a_sequence_is_lost_or_goes_on_from_its_own_state() {
    let over = || EventKind::Disturbed(Disturbance::IsOver);
    // It is lost: soon, or later.
    let mut c = failing();
    c.receive("0-0-0-3", Err(STUB_IS_GONE.to_owned())).tell(over()).wait(10);
    c.send(false, false, &[1]).reject("0-0-1-0").assert(&[]);
    let mut c = failing();
    c.reject("0-0-0-3").tell(over()).wait(10).send(false, false, &[1]).reject("0-0-1-0").assert(&[]);
    // It is kept elsewhere, and knows nothing of the step that failed.
    let mut c = failing();
    c.answer("0-0-0-3", 11).tell(over()).wait(10).send(false, true, &[1]).answer("0-0-1-0", 12).assert(&[]);
    // It goes on from nothing, or from another's state, while the instance is away and afterwards.
    for wrong in [8, 15, 108] {
        let mut c = failing();
        c.answer("0-0-0-3", wrong).tell(over()).assert(&[ViolationKind::WrongSum]);
        let mut c = failing();
        c.receive("0-0-0-3", Err(STUB_IS_GONE.to_owned())).tell(over()).wait(10);
        c.send(false, false, &[8]).answer("0-0-1-0", wrong).assert(&[ViolationKind::WrongSum]);
    }
    // Nobody goes on with what was lost.
    let mut c = failing();
    c.reject("0-0-0-3").tell(over()).wait(10);
    c.send(false, false, &[8]).answer("0-0-1-0", 8).assert(&[ViolationKind::MissingStartError]);
}

#[test]
fn a_start_that_an_instance_failed_with_begins_nothing() {
    let failed = || {
        let mut c = failing();
        c.reject("0-0-0-3").send(true, false, &[5, 6]).receive("0-0-1-0", Err(STUB_IS_GONE.to_owned()));
        c
    };
    failed().reject("0-0-1-1").assert(&[]);
    failed().answer("0-0-1-1", 6).assert(&[ViolationKind::MissingStartError]);
}

#[test]
fn what_begins_when_the_instance_is_back_is_judged_as_ever() {
    let back = || {
        let mut c = failing();
        c.reject("0-0-0-3")
            .send(true, false, &[1])
            .wait(1)
            .tell(EventKind::Disturbed(Disturbance::IsOver))
            .answer("0-0-1-0", 1);
        c.wait(10);
        c
    };
    // What was sent before may be lost up to its first sign of life, and no longer.
    back().send(false, false, &[1]).reject("0-0-2-0").assert(&[]);
    let mut c = back();
    c.send(false, false, &[1]).answer("0-0-2-0", 2).send(false, false, &[1]).reject("0-0-3-0");
    c.assert(&[ViolationKind::SpuriousStartError]);
    let mut c = back();
    c.send(true, false, &[1, 2]).answer("0-0-2-0", 1).reject("0-0-2-1").assert(&[ViolationKind::SpuriousStartError]);
    let mut c = back();
    c.send(true, false, &[1]).receive("0-0-2-0", Err(STUB_IS_GONE.to_owned()));
    c.assert(&[ViolationKind::UnexpectedError]);
}

#[test]
fn of_an_id_on_several_streams_nothing_is_known_while_an_instance_fails() {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, false, &[1, 2]).answer("0-0-0-0", 1);
    c.tell(EventKind::Cut(Cut::ByClient)).tell(EventKind::Opened(Connection::Own, Transport::GrpcStream));
    c.tell(EventKind::Disturbed(Disturbance::InstanceFails)).send(false, false, &[4]).answer("0-0-1-0", 4);
    assert!(!c.judged());
    c.tell(EventKind::Disturbed(Disturbance::IsOver)).wait(3000);
    c.send(true, false, &[1, 2]).answer("0-0-2-0", 1).answer("0-0-2-1", 2).assert(&[ViolationKind::WrongSum]);
}
