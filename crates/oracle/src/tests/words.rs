//! Servers whose words are not known.

use super::*;
use workload::{
    event::{Code, EventKind},
    sequence::Flaw,
};

#[test]
fn an_error_where_a_rejection_is_due_is_taken_for_it_and_nothing_else() {
    // Its sequence is over.
    let mut due = Conversation::in_other_words();
    due.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).receive("0-0-1-0", Err("no".into()));
    due.assert(&[]);
    // It is live, and was not idle.
    let mut live = Conversation::in_other_words();
    live.send(true, false, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).receive("0-0-1-0", Err("no".into()));
    live.assert(&[ViolationKind::UnexpectedError]);
    let mut idle = Conversation::in_other_words();
    idle.send(true, false, &[1]).answer("0-0-0-0", 1).wait(2000).send(false, true, &[5]);
    idle.receive("0-0-1-0", Err("no".into()));
    idle.assert(&[]);
    let mut start = Conversation::in_other_words();
    start.send(true, true, &[1]).receive("0-0-0-0", Err("no".into()));
    start.assert(&[ViolationKind::UnexpectedError]);
}

#[test]
fn after_an_error_that_was_taken_for_a_rejection_nothing_was_executed() {
    let mut c = Conversation::in_other_words();
    c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).receive("0-0-1-0", Err("no".into()));
    c.send(false, false, &[7]).answer("0-0-2-0", 13);
    c.assert(&[ViolationKind::MissingStartError]);
}

#[test]
fn a_flaw_is_rejected_in_any_words_and_is_not_executed() {
    let flawed = Special::Flaw(Flaw::IdEmpty);
    let mut c = Conversation::in_other_words();
    c.send(true, false, &[1])
        .answer("0-0-0-0", 1)
        .send_special(false, false, &[5], &[Some(flawed)])
        .receive("0-0-1-0", Err("no".into()));
    c.assert(&[]);
    let mut executed = Conversation::in_other_words();
    executed.send_special(false, false, &[5], &[Some(flawed)]).answer("0-0-0-0", 1);
    executed.assert(&[ViolationKind::FlawAccepted]);
    // What servers say since 25.01 is known of all.
    let mut known = Conversation::new();
    let text = "sequence batching control 'CORRID' data-type is 'BYTES', but model 'm' expects 'UINT64'";
    known.send_special(false, false, &[5], &[Some(flawed)]).receive("0-0-0-0", Err(text.into()));
    known.assert(&[]);
}

#[test]
fn another_code_of_a_rejection_is_no_violation() {
    let rejected = |mut c: Conversation| {
        c.tell(EventKind::Opened(Connection::Own, Transport::GrpcUnary));
        c.send_special(false, false, &[1], &[None]);
        let code = Some(Code::Grpc(13));
        let received = Received { id: "0-0-0-0".into(), result: Err(START_ERROR.into()), code, outputs: 0 };
        c.tell(EventKind::Received(Box::new(received)));
        c
    };
    rejected(Conversation::in_other_words()).assert(&[]);
    rejected(Conversation::new()).assert(&[ViolationKind::UnexpectedError]);
}
