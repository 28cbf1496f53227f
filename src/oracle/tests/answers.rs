//! Answers that do not come, that come where or when they should not, or that are not what was asked for.

use super::*;

#[test]
fn a_missing_answer_is_lost_and_the_rest_is_not_known() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).wait(20_000).tell(EventKind::GaveUp);
    c.assert(&[ViolationKind::Lost]);
    assert_eq!(
        c.rulings.last().and_then(|r| r.settled).map(|s| (s.step.request.step, s.outcome)),
        Some((1, Outcome::Indeterminate))
    );
    c.tell(EventKind::Cut(Cut::ByClient));
    assert_eq!(c.rulings.last().map(|r| r.abandoned), Some(1));
    c.assert(&[ViolationKind::Lost]);
}

#[test]
fn a_refusal_in_another_order_is_reordered_and_nothing_else() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).send(true, true, &[7, 8]);
    c.answer("0-0-2-0", 7).refuse("0-0-1-0").answer("0-0-2-1", 15);
    c.assert(&[ViolationKind::Reordered]);
}

#[test]
fn answers_in_another_order_are_one_violation_each_and_their_sums_are_checked() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-1", 3).answer("0-0-0-0", 1).answer("0-0-0-2", 6);
    c.assert(&[ViolationKind::Reordered]);
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-2", 6).answer("0-0-0-0", 2).answer("0-0-0-1", 3);
    c.assert(&[ViolationKind::Reordered, ViolationKind::WrongSum, ViolationKind::Reordered]);
}

#[test]
fn an_answer_that_was_overtaken_and_never_came_is_lost_and_not_reordered() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).answer("0-0-0-2", 6).wait(20_000).tell(EventKind::GaveUp);
    c.assert(&[ViolationKind::Lost]);
}

#[test]
fn a_second_answer_is_a_duplicate() {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[1, 2])
        .answer("0-0-0-0", 1)
        .answer("0-0-0-0", 1);
    c.assert(&[ViolationKind::Duplicate]);
    assert!(c.rulings.last().is_some_and(|ruling| ruling.distrust));
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[1])
        .answer("0-0-0-0", 1)
        .refuse("0-0-0-0");
    c.assert(&[ViolationKind::Duplicate]);
}

#[test]
fn an_answer_to_what_was_not_sent_on_the_stream_is_misaddressed() {
    for id in ["0-0-7-0", "3-0-0-0", "0-1-0-0", "", "nonsense", "0-0-0-1"] {
        let mut c = Conversation::new();
        c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, true, &[1]).answer(id, 1);
        c.assert(&[ViolationKind::Misaddressed]);
        assert!(c.rulings.last().is_some_and(|ruling| ruling.distrust && ruling.settled.is_none()));
    }
    // What an earlier stream carried.
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[1])
        .answer("0-0-0-0", 1)
        .tell(EventKind::Closed);
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, true, &[1]).answer("0-0-0-0", 1);
    c.assert(&[ViolationKind::Misaddressed]);
}

#[test]
fn a_response_has_to_be_what_was_asked_for() {
    type Spoil = fn(&mut Response);
    let cases: [(Spoil, ViolationKind); 7] = [
        (|r| r.model = "n".into(), ViolationKind::WrongModel),
        (|r| r.outputs[0].name = "OUTPU".into(), ViolationKind::WrongOutputName),
        (|r| r.outputs.clear(), ViolationKind::WrongOutputName),
        (|r| r.outputs[0].datatype = "UINT32".into(), ViolationKind::WrongOutputType),
        (|r| r.outputs[0].shape = vec![1], ViolationKind::WrongOutputShape),
        (|r| r.outputs[0].data = TensorData::Raw(vec![1, 0, 0]), ViolationKind::WrongOutputSize),
        (|r| r.outputs[0].data = TensorData::Absent, ViolationKind::WrongOutputSize),
    ];
    for (spoil, kind) in cases {
        let mut c = Conversation::new();
        let mut spoiled = response(1);
        spoil(&mut spoiled);
        c.send(true, true, &[1, 2]).receive("0-0-0-0", Ok(spoiled));
        c.assert(&[kind]);
        c.answer("0-0-0-1", 3).assert(&[kind]);
    }
}
