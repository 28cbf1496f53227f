//! Steps with a flaw, and sequences that wait for a slot for longer than they may.

use super::*;
use workload::{event::Code, sequence::Flaw};

const FLAWED: Option<Special> = Some(Special::Flaw(Flaw::BatchOfTwo));
const REFUSAL: &str =
    "inference request to model 'm' must specify batch-size 1 due to requirements of sequence batcher";
const EXPIRED: &str = "timeout of the corresponding sequence has been expired";
const TIMEOUT_MS: u64 = 20;

const TIMEOUT: Option<Special> = Some(Special::TimeoutUs(TIMEOUT_MS * 1000));

fn fails(c: &mut Conversation, id: &str, text: &str) {
    c.receive(id, Err(text.into()));
}

/// A sequence of four steps, of which the second one has a flaw, and the answers to the first two.
fn begun(rejection: Result<Response, String>) -> Conversation {
    let mut c = Conversation::new();
    c.send_special(true, true, &[1, 2, 4, 8], &[None, FLAWED]).answer("0-0-0-0", 1).receive("0-0-0-1", rejection);
    c
}

#[test]
fn a_step_with_a_flaw_is_rejected_and_changes_nothing() {
    let mut c = begun(Err(REFUSAL.into()));
    assert!(c.judged());
    c.answer("0-0-0-2", 5).answer("0-0-0-3", 13).assert(&[]);
}

#[test]
fn a_rejection_that_changes_something_is_seen_by_the_next_step() {
    begun(Err(REFUSAL.into())).answer("0-0-0-2", 4).assert(&[ViolationKind::WrongSum]);
    begun(Err(REFUSAL.into())).answer("0-0-0-2", 7).assert(&[ViolationKind::WrongSum]);
    begun(Err(REFUSAL.into())).reject("0-0-0-2").assert(&[ViolationKind::SpuriousStartError]);
}

#[test]
fn a_flaw_that_is_not_rejected_for_what_it_is_is_one_violation() {
    for (result, kind) in [
        (Ok(response(3)), ViolationKind::FlawAccepted),
        (Err(START_ERROR.to_owned()), ViolationKind::UnexpectedError),
        (Err("no".to_owned()), ViolationKind::UnexpectedError),
    ] {
        begun(result).answer("0-0-0-2", 7).answer("0-0-0-3", 15).assert(&[kind]);
    }
}

#[test]
fn a_start_with_a_flaw_begins_nothing() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).answer("0-0-0-0", 1);
    c.send_special(true, false, &[1, 2], &[FLAWED]);
    fails(&mut c, "0-0-1-0", REFUSAL);
    c.answer("0-0-1-1", 2).assert(&[ViolationKind::MissingStartError]);
}

#[test]
fn flaws_on_several_streams_at_once_change_nothing_either() {
    let mut c = Conversation::new();
    c.send(true, false, &[1]).answer("0-0-0-0", 1);
    c.on(0).send_special(false, false, &[10, 10], &[FLAWED]).on(1).send_special(false, false, &[5, 5], &[None, FLAWED]);
    fails(c.on(0), "0-0-1-0", REFUSAL);
    c.answer("0-0-1-1", 11).on(1).answer("0-0-2-0", 16);
    fails(&mut c, "0-0-2-1", REFUSAL);
    c.send(false, true, &[1]).answer("0-0-3-0", 17);
    assert!(c.judged());
    c.assert(&[]);
}

#[test]
fn a_cut_stream_leaves_no_step_with_a_flaw_behind() {
    let mut c = Conversation::new();
    c.send(true, false, &[1]).answer("0-0-0-0", 1).on(1).send_special(false, false, &[100], &[FLAWED]);
    c.tell(EventKind::Cut(workload::event::Cut::Cancelled));
    c.on(0).send(false, false, &[2]).answer("0-0-2-0", 103).assert(&[ViolationKind::WrongSum]);
}

#[test]
fn a_sequence_that_waited_for_too_long_is_rejected_as_a_whole_and_gone() {
    let mut c = Conversation::new();
    c.send_special(true, false, &[1, 2, 3], &[None, TIMEOUT]).wait(TIMEOUT_MS);
    for id in ["0-0-0-0", "0-0-0-1", "0-0-0-2"] {
        fails(&mut c, id, EXPIRED);
        assert!(c.judged());
    }
    c.send(false, false, &[4]).reject("0-0-1-0").send(true, true, &[5]).answer("0-0-2-0", 5).assert(&[]);
    // What was sent afterwards had no part in it.
    c.wait(1).send_special(true, false, &[1], &[]);
    fails(&mut c, "0-0-3-0", EXPIRED);
    c.assert(&[ViolationKind::SpuriousTimeout]);
}

#[test]
fn one_that_got_its_slot_in_time_is_answered_as_ever() {
    let mut c = Conversation::new();
    c.send_special(true, true, &[1, 2], &[TIMEOUT]).wait(TIMEOUT_MS * 2);
    c.answer("0-0-0-0", 1).answer("0-0-0-1", 3).assert(&[]);
}

#[test]
fn a_time_limit_that_has_not_passed_or_of_a_sequence_with_a_slot_is_no_cause() {
    let mut early = Conversation::new();
    early.send_special(true, true, &[1, 2], &[TIMEOUT]).wait(TIMEOUT_MS - 1);
    fails(&mut early, "0-0-0-0", EXPIRED);
    early.assert(&[ViolationKind::SpuriousTimeout]);

    let mut seated = Conversation::new();
    seated.send_special(true, true, &[1, 2], &[TIMEOUT]).wait(TIMEOUT_MS * 2).answer("0-0-0-0", 1);
    fails(&mut seated, "0-0-0-1", EXPIRED);
    seated.assert(&[ViolationKind::SpuriousTimeout]);

    let mut without = Conversation::new();
    without.send(true, true, &[1, 2]).wait(TIMEOUT_MS * 2);
    fails(&mut without, "0-0-0-0", EXPIRED);
    without.assert(&[ViolationKind::SpuriousTimeout]);
}

#[test]
fn of_an_expired_sequence_no_step_is_executed() {
    let mut c = Conversation::new();
    c.send_special(true, true, &[1, 2], &[TIMEOUT]).wait(TIMEOUT_MS);
    fails(&mut c, "0-0-0-0", EXPIRED);
    c.answer("0-0-0-1", 2).assert(&[ViolationKind::MissingStartError]);
}

#[test]
fn a_model_that_takes_one_element_may_say_that_first() {
    let text = "[request id: 0-0-0-1] inference request batch-size must be <= 1 for 'm'";
    let mut c = begun(Err(text.to_owned()));
    assert!(c.judged());
    c.answer("0-0-0-2", 5).answer("0-0-0-3", 13).assert(&[]);
}

#[test]
fn rejections_name_the_id_as_it_was_sent() {
    let mut c = Conversation::with_ids_as(IdForm::NonAscii);
    c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[1, 1]);
    let right = START_ERROR.replace("sequence 5 ", "sequence séquence-№5 ");
    fails(&mut c, "0-0-1-0", &right);
    c.assert(&[]);
    fails(&mut c, "0-0-1-1", START_ERROR);
    c.assert(&[ViolationKind::UnexpectedError]);
}

/// A sequence of three steps that may wait for a slot for a while, on a stream that errors end as its status.
fn on_a_stream_that_errors_end() -> Conversation {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStatus));
    c.send_special(true, true, &[1, 2, 4], &[TIMEOUT]);
    c
}

fn status(code: u16, text: &str) -> EventKind {
    EventKind::Cut(Cut::Status(Code::Grpc(code), text.to_owned()))
}

#[test]
fn an_error_that_was_due_ends_its_stream_and_nothing_is_known_of_the_others() {
    let mut c = on_a_stream_that_errors_end();
    c.wait(TIMEOUT_MS).tell(status(14, EXPIRED)).assert(&[]);
    let ruling = c.rulings.last().expect("of the end");
    let outcome = ruling.settled.as_ref().map(|settled| settled.outcome);
    assert_eq!((outcome, ruling.abandoned), (Some(Outcome::Expired), 2));
    // The others may have been executed, or not.
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStatus)).send(true, true, &[10, 20]);
    c.answer("0-0-1-0", 10).answer("0-0-1-1", 30).assert(&[]);
}

#[test]
fn an_error_that_was_not_due_and_ends_its_stream_is_told_as_within_it() {
    let end = |wait, status| {
        let mut c = on_a_stream_that_errors_end();
        c.wait(wait).tell(status).violations()
    };
    assert_eq!(end(TIMEOUT_MS - 1, status(14, EXPIRED)), [ViolationKind::SpuriousTimeout]);
    assert_eq!(end(TIMEOUT_MS, status(13, EXPIRED)), [ViolationKind::UnexpectedError], "another code");
    assert_eq!(end(TIMEOUT_MS, status(13, "the model failed")), [ViolationKind::UnexpectedError]);
    let mut c = on_a_stream_that_errors_end();
    c.answer("0-0-0-0", 1).answer("0-0-0-1", 3).answer("0-0-0-2", 7).tell(status(13, "gone"));
    c.assert(&[ViolationKind::StreamBroken]);
}

#[test]
fn an_error_that_ends_a_stream_must_not_come_within_it() {
    let mut c = on_a_stream_that_errors_end();
    c.wait(TIMEOUT_MS);
    fails(&mut c, "0-0-0-0", EXPIRED);
    c.assert(&[ViolationKind::StreamNotClosed]);
    // What is found before a request is taken in comes within it.
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStatus));
    c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[1]).reject("0-0-1-0").assert(&[]);
}
