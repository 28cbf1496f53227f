//! Answers of another form, in the wrong place, or that did not come.

use super::{super::windows::request, *};
use crate::{Place, diagnosis::know_that_slots_are_free};
use workload::{
    controls::{Difference, Flag},
    conversation::{Connection, Transport},
    event::{ContextId, EventKind},
    tensor::Held,
};

#[test]
fn what_the_model_saw_names_the_signal_and_the_slot() {
    let explained = |kind, evidence| {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).answer(0, 0, 0, &sums(&A));
        causes(&tale.explain(&known(), kind, (0, 0, 2), evidence))
    };
    let flag = |control, told, said| Difference::Flag { control, told, said };
    for (difference, cause) in [
        (flag(Flag::Start, Some(true), false), StartTold),
        (flag(Flag::Start, None, true), StartNotTold),
        (flag(Flag::End, Some(true), false), EndTold),
        (flag(Flag::End, Some(false), true), EndNotTold),
        (flag(Flag::Ready, Some(false), true), ReadyNotTold),
        (Difference::Corrid { told: 6, said: 5 }, CorridWrong),
    ] {
        let evidence = Evidence::Controls { differences: vec![difference], answer: Some(7.into()) };
        assert_eq!(explained(ViolationKind::WrongControl, evidence), [cause]);
    }
    let (output, datatype, shape) = ("SEEN".to_owned(), "INT32".to_owned(), vec![1]);
    let unreadable = Evidence::ControlsUnreadable { output, datatype, shape, seen: Held::Bytes(4) };
    assert_eq!(explained(ViolationKind::WrongControl, unreadable), []);
    let slot = |evidence| explained(ViolationKind::WrongSlot, evidence);
    let holder = Tale::default().send(1, 0, &B).entries[0].correlation_id;
    assert_eq!(slot(Evidence::NoSuchSlot { slots: 8, seen: 9 }), [ExtraSlot]);
    assert_eq!(slot(Evidence::OtherSlot { expected: 7, seen: 9 }), [SlotWrong]);
    assert_eq!(slot(Evidence::TakenSlot { slot: 9, holder, held_ms: 5 }), [SharedState, SlotWrong]);
}

#[test]
fn answers_of_another_form() {
    let named = |name: &str| workload::tensor::Tensor { name: name.to_owned(), ..output(4) };
    let of_a_byte = |bytes| workload::tensor::Tensor { datatype: "INT8".to_owned(), ..output(bytes) };
    for (kind, outputs, expected) in [
        (ViolationKind::WrongOutputName, vec![named("OTHER")], OutputName),
        (ViolationKind::WrongOutputName, vec![output(4), named("OTHER")], OutputSurplus),
        (ViolationKind::WrongOutputName, vec![output(4), output(4)], OutputSurplus),
        (ViolationKind::WrongVersion, vec![output(4)], OtherVersion),
        (ViolationKind::WrongOutputType, vec![output(4)], OutputType),
        (ViolationKind::WrongOutputShape, vec![output(4)], OutputShape),
        (ViolationKind::WrongOutputSize, vec![output(8)], OutputTooLong),
        (ViolationKind::WrongOutputSize, vec![output(3)], OutputTooShort),
        // What a model without a formula has is of any type.
        (ViolationKind::WrongOutputSize, vec![of_a_byte(2)], OutputTooLong),
        (ViolationKind::WrongOutputSize, vec![of_a_byte(1), of_a_byte(0)], OutputTooShort),
        (ViolationKind::WrongModel, vec![output(4)], OtherModelsName),
    ] {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).malformed(0, 0, 0, outputs);
        assert_eq!(causes(&tale.other(kind, (0, 0, 0))), [expected]);
    }
}

#[test]
fn an_error_that_names_another_live_id() {
    let told = |id: u32| {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).send(4, 0, &B).answer(0, 0, 0, &[A[0]]).answer(4, 0, 0, &[B[0]]);
        let text = format!(
            "inference request for sequence {id} to model 'm' must specify the START flag on the first request"
        );
        tale.error(0, 0, 1, &text);
        causes(&tale.other(ViolationKind::UnexpectedError, (0, 0, 1)))
    };
    assert_eq!(told(5), [IdTakenForAnother, ErrorText]);
    assert_eq!(told(77), [ErrorText, SpuriousRejection]);
}

#[test]
fn an_answer_without_output_was_executed_or_not() {
    for (state, expected) in [(sums(&A)[1], OutputMissing), (sums(&A)[0], ReadyNotTold)] {
        for outputs in [Vec::new(), vec![Tensor { name: "SEEN".to_owned(), ..output(40) }]] {
            let mut tale = Tale::default();
            tale.send(0, 0, &A).answer(0, 0, 0, &[A[0]]).malformed(0, 0, 1, outputs);
            tale.answer(0, 0, 2, &sums_from(state, &A[2..]));
            assert_eq!(causes(&tale.other(ViolationKind::WrongOutputName, (0, 0, 1))), [expected]);
            // A request that another client's cancel took along is not executed, either.
            let mut cut = Tale::default();
            cut.tell(2, EventKind::Cut(Cut::Cancelled));
            cut.entries[0].at = 0;
            tale.entries.insert(0, cut.entries.remove(0));
            let explanations = tale.other(ViolationKind::WrongOutputName, (0, 0, 1));
            assert_eq!(causes(&explanations)[0], OutputMissing, "{explanations:?}");
            let is_told = explanations[0].clues.iter().any(|clue| matches!(clue, Clue::CutBefore { .. }));
            assert_eq!(is_told, expected == ReadyNotTold, "{explanations:?}");
        }
    }
}

#[test]
fn answers_in_the_wrong_place() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).send(1, 0, &B).answer(0, 0, 0, &[A[0], 3]);
    for (kind, expected) in [(ViolationKind::Duplicate, AnsweredTwice), (ViolationKind::Reordered, ResponsesReordered)]
    {
        assert_eq!(causes(&tale.other(kind, (0, 0, 0))), [expected]);
    }
    let misaddressed = |what: EventKind| {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).send(1, 0, &B).tell(0, what);
        let place = Place::new(ContextId { worker: 0, context: 0 }, tale.entries[0].correlation_id, None);
        let violation = Violation::at(place, ViolationKind::Misaddressed, tale.now, Evidence::Overtaken);
        explain(&violation, &tale.entries, &known())
    };
    let elsewhere = misaddressed(EventKind::Answered(request(1, 0, 2), 5.into(), None));
    assert_eq!(causes(&elsewhere), [ResponseElsewhere]);
    let context = Some(ContextId { worker: 1, context: 0 });
    let told = |clue: &Clue| matches!(clue, Clue::AnswerTo { request: its, context: of, .. } if (*its, *of) == (request(1, 0, 2), context));
    assert!(elsewhere[0].clues.iter().any(told), "{elsewhere:?}");
    assert_eq!(causes(&misaddressed(EventKind::Answered(request(99, 0, 2), 5.into(), None))), [UnknownRequestId]);
}

#[test]
fn a_slot_that_is_free_after_the_run_did_not_leak() {
    // So many sequences are live, and perhaps another START waits, too.
    let explained = |live: u32, waits: bool, slots: u32| {
        let mut tale = Tale::default();
        for worker in 10..10 + live {
            tale.send_part(worker, 0, 0, 3, &A[..1]).answer(worker, 0, 0, &sums(&A)[..1]);
        }
        tale.send(0, 0, &A);
        if waits {
            tale.send(8, 0, &A);
        }
        tale.send(9, 0, &B).answer(9, 0, 0, &sums(&B)).wait(1000).open(9);
        let mut violation = Violation::of_the_run(ViolationKind::Lost, tale.now, Evidence::Overtaken);
        violation.explanations = tale.other(ViolationKind::Lost, (0, 0, 0));
        let at_first = causes(&violation.explanations);
        know_that_slots_are_free(&mut violation, slots);
        (at_first, causes(&violation.explanations))
    };
    assert_eq!(explained(0, false, 8), (vec![SlotLeak, Stall], vec![ResponseLate, Stall]));
    assert_eq!(explained(0, true, 8).1[0], MissingReap);
    assert_eq!(explained(2, false, 2).1[0], MissingReap);
    let mut other = Violation::of_the_run(ViolationKind::SlotLeak, 0, Evidence::Overtaken);
    other.explanations = vec![Explanation::new(SlotLeak, [])];
    know_that_slots_are_free(&mut other, 8);
    assert_eq!(causes(&other.explanations), [SlotLeak]);
}

fn lost(tale: &Tale, step: u32) -> Vec<Cause> {
    let place = (0, 0, step);
    causes(&tale.other(ViolationKind::Lost, place))
}

#[test]
fn answers_that_did_not_come() {
    let mut dropped = Tale::default();
    dropped.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).answer(0, 0, 3, &sums(&A)[3..]).wait(1000).open(1);
    assert_eq!(lost(&dropped, 2), [ResponseDropped]);
    let mut elsewhere = Tale::default();
    elsewhere.send(0, 0, &A).tell(1, EventKind::Answered(request(0, 0, 0), 1.into(), None)).wait(1000).open(1);
    assert_eq!(lost(&elsewhere, 0), [ResponseElsewhere]);
    let mut late = Tale::default();
    late.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(1);
    assert_eq!(lost(&late, 2)[..2], [ResponseLate, StreamDead]);
    // A call has no stream.
    let mut call = Tale::default();
    (0..2).for_each(|worker| _ = call.tell(worker, EventKind::Opened(Connection::Own, Transport::Http)));
    call.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(1);
    assert_eq!(lost(&call, 2), [ResponseLate, Stall]);
    let mut stall = Tale::default();
    stall.send(0, 0, &A).send(2, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).answer(2, 0, 0, &sums(&A)[..2]);
    stall.send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(1);
    assert_eq!(lost(&stall, 2)[0], Stall);
    let calls_wait = |served: Transport, waits: Transport| {
        let by = |its: Transport| EventKind::Opened(Connection::Own, its);
        let mut tale = Tale::default();
        for (worker, its) in [(0, Transport::GrpcUnary), (1, served), (2, waits)] {
            tale.tell(worker, by(its));
        }
        tale.send(2, 0, &A).answer(2, 0, 0, &sums(&A)[..2]).send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]);
        tale.send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(1);
        lost(&tale, 2)[0]
    };
    assert_eq!(calls_wait(Transport::GrpcStream, Transport::GrpcUnary), CallsDead);
    assert_eq!(calls_wait(Transport::GrpcUnary, Transport::GrpcUnary), Stall);
    assert_eq!(calls_wait(Transport::GrpcStream, Transport::GrpcStream), Stall);
    // One call waits, and calls before it were given up or answered.
    let call_waits = |before: &dyn Fn(&mut Tale)| {
        let mut tale = Tale::default();
        tale.tell(0, EventKind::Opened(Connection::Own, Transport::GrpcUnary));
        tale.tell(2, EventKind::Opened(Connection::Own, Transport::GrpcUnary)).open(1);
        before(&mut tale);
        tale.send(0, 0, &A[..1]).send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(3);
        lost(&tale, 0)[0]
    };
    let given_up = |tale: &mut Tale| _ = tale.send(2, 0, &A).tell(2, EventKind::Cut(Cut::Deadline));
    assert_eq!(call_waits(&given_up), CallsDead);
    assert_ne!(call_waits(&|tale: &mut Tale| _ = tale.send(2, 0, &A).answer(2, 0, 0, &sums(&A))), CallsDead);
    let long_before = |tale: &mut Tale| {
        given_up(tale);
        tale.wait(1500);
    };
    assert_ne!(call_waits(&long_before), CallsDead);
    let answered_since = |tale: &mut Tale| {
        given_up(tale);
        tale.tell(2, EventKind::Opened(Connection::Own, Transport::GrpcUnary));
        tale.send(2, 1, &B).answer(2, 1, 0, &sums(&B));
    };
    assert_ne!(call_waits(&answered_since), CallsDead);
    let given_up_again = |tale: &mut Tale| {
        answered_since(tale);
        tale.send(2, 2, &A).tell(2, EventKind::Cut(Cut::Deadline));
    };
    assert_eq!(call_waits(&given_up_again), CallsDead);
    // Nobody waits any more for what another stream had asked before.
    for given_up in [EventKind::GaveUp, EventKind::Cut(Cut::ByClient), EventKind::Cut(Cut::Cancelled)] {
        let mut late = Tale::default();
        late.send_part(2, 0, 0, 3, &A[..2]).answer(2, 0, 0, &sums(&A)[..1]).wait(1000).tell(2, given_up);
        late.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).send(1, 0, &B).answer(1, 0, 0, &sums(&B));
        assert_eq!(lost(late.wait(1000).open(1), 2)[0], ResponseLate);
    }
    let mut hang = Tale::default();
    hang.send(0, 0, &A).wait(1000).open(1);
    assert_eq!(lost(&hang, 0)[0], ServerHang);
}

#[test]
fn sequences_that_get_no_slot() {
    let before = |tale: &mut Tale| {
        for worker in [1, 2] {
            tale.send_part(worker, 0, 0, 5, &B[..2]).answer(worker, 0, 0, &sums(&B)[..2]);
        }
        tale.send(0, 0, &A);
    };
    let mut starved = Tale::default();
    before(&mut starved);
    starved.wait(300).send(3, 0, &B).answer(3, 0, 0, &sums(&B)).wait(1000).open(1);
    assert_eq!(lost(&starved, 0)[0], Starvation);
    let mut leaked = Tale::default();
    before(&mut leaked);
    leaked.send(3, 0, &B).answer(3, 0, 0, &sums(&B)).wait(1000).open(1);
    assert_eq!(lost(&leaked, 0)[0], SlotLeak);
    // Who had a slot was served to its end, and nobody gets one any more.
    let mut all_leaked = Tale::default();
    all_leaked.send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(10).send(0, 0, &A).send(2, 0, &B).wait(1000).open(1);
    assert_eq!(lost(&all_leaked, 0)[0], SlotLeak);
}

#[test]
fn nobody_is_answered_any_more() {
    let hang = |tale: &Tale| {
        let sent = Sent { requests: 2, answered: 1 };
        let evidence = Evidence::Silence { sent, seconds: 5 };
        let violation = Violation::of_the_run(ViolationKind::Hang, tale.now, evidence);
        causes(&explain(&violation, &tale.entries, &known()))
    };
    // Who had a slot was served to its end, and then there was none.
    let mut all_leaked = Tale::default();
    all_leaked.send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(10).send(0, 0, &A).send(2, 0, &B).wait(1000).open(1);
    assert_eq!(hang(&all_leaked)[..2], [SlotLeak, MissingReap]);
    // What is not waited for any more does not count.
    let mut cut = Tale::default();
    cut.send(1, 0, &B).tell(1, EventKind::Cut(Cut::ByClient)).wait(10).send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]);
    cut.wait(1000).open(1);
    assert_eq!(hang(&cut)[0], ServerHang);
    // The last call follows one whose deadline passed, and streams are served.
    let mut dead = Tale::default();
    let call = || EventKind::Opened(Connection::Own, Transport::GrpcUnary);
    dead.tell(2, call()).send_part(2, 0, 0, 4, &A[..1]).tell(2, EventKind::Cut(Cut::Deadline));
    dead.tell(2, call()).send_part(2, 0, 1, 4, &A[1..2]).open(1);
    dead.send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(3);
    assert_eq!(hang(&dead)[0], CallsDead);
    assert_eq!(hang(&Tale::default()), [ServerHang]);
}

#[test]
fn an_answer_that_did_not_come_to_a_step_of_which_nothing_is_known() {
    let other = Tale::default().other(ViolationKind::Lost, (0, 0, 3));
    assert_eq!(causes(&other)[0], Stall);
}

#[test]
fn answers_that_took_longer_and_longer() {
    let slower = |by: u64| {
        let mut tale = Tale::default();
        tale.open(0).open(1);
        let mut state = 0_i32;
        for step in 0..60_u32 {
            let value = A[step as usize % A.len()];
            state = state.wrapping_add(value);
            tale.send_part(0, 0, step, 99, &[value]).wait(5 + by * u64::from(step)).answer(0, 0, step, &[state]);
        }
        tale.send(1, 0, &B).wait(4000);
        causes(&tale.other(ViolationKind::Lost, (1, 0, 0)))
    };
    assert_eq!(slower(12), [SlowingDown]);
    assert!(!slower(0).contains(&SlowingDown), "answers took as long as before");
    assert!(!slower(1).contains(&SlowingDown), "65 ms are no reason to lose an answer after 4 s");
}

#[test]
fn a_stream_that_brings_no_more_while_others_do() {
    let mut tale = Tale::default();
    tale.open(0).open(1).send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]);
    for step in 0..5_u32 {
        let index = step as usize;
        tale.send_part(1, 0, step, 5, &B[index..=index]).wait(700).answer(1, 0, step, &sums(&B)[index..=index]);
    }
    assert_eq!(causes(&tale.other(ViolationKind::Lost, (0, 0, 2)))[..2], [ResponseLate, StreamDead]);
}

#[test]
fn an_error_with_outputs() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A);
    let received = Received { id: request(0, 0, 0).to_string(), result: Err("no".to_owned()), code: None, outputs: 1 };
    tale.tell(0, EventKind::Received(Box::new(received)));
    assert_eq!(causes(&tale.other(ViolationKind::WrongOutputName, (0, 0, 0))), [OutputBesideError]);
}
