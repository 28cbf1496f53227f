//! Each cause, from a window that is written by hand.

use super::{
    super::{
        Cause::{self, *},
        Known,
    },
    windows::{MS, Tale, causes, keyed, known, output},
};
use crate::{
    event::Cut,
    history::What,
    oracle::{Violation, ViolationKind, diagnosis::explain},
    sequence::Flaw,
    tensor::Tensor,
};

/// Values without a pattern, of some 31 bits.
const A: [i32; 5] = [1_203_884_101, -987_600_413, 431_999_017, 1_870_010_233, -1_555_123_987];
const B: [i32; 5] = [-1_700_400_911, 650_120_333, 99_123_457, -403_221_119, 1_313_131_007];

/// The running sums of values, from a state on.
fn sums_from(state: i32, values: &[i32]) -> Vec<i32> {
    let mut sum = state;
    let add = |value: &i32| {
        sum = sum.wrapping_add(*value);
        sum
    };
    values.iter().map(add).collect()
}

fn sums(values: &[i32]) -> Vec<i32> {
    sums_from(0, values)
}

/// Worker 0 sends A, and is answered with these sums; the answer at `step` is the wrong one.
fn alone(known: &super::super::Known, answers: &[i32], step: usize) -> Vec<Cause> {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).answer(0, 0, 0, answers);
    let place = (0, 0, u32::try_from(step).expect("short"));
    causes(&tale.wrong_sum(known, place, sums(&A)[step]))
}

/// The right sums of A up to a step, and then others.
fn from_step(step: usize, rest: &[i32]) -> Vec<i32> {
    sums(&A)[..step].iter().chain(rest).copied().collect()
}

#[test]
fn an_answer_that_is_a_little_too_high() {
    let mut answers = sums(&A);
    answers[2] += 1;
    assert_eq!(alone(&known(), &answers, 2), [WrongArithmetic]);
}

#[test]
fn a_step_that_was_executed_twice() {
    let state = sums(&A)[2].wrapping_add(A[2]);
    let answers = from_step(2, &[&[state][..], &sums_from(state, &A[3..])].concat());
    assert_eq!(alone(&known(), &answers, 2), [ExecutedTwice]);
}

#[test]
fn a_step_that_was_not_executed() {
    let state = sums(&A)[1];
    let answers = from_step(2, &[&[state][..], &sums_from(state, &A[3..])].concat());
    assert_eq!(alone(&known(), &answers, 2), [NotExecuted]);
}

#[test]
fn a_state_that_was_reset() {
    let answers = from_step(2, &sums(&A[2..]));
    assert_eq!(alone(&known(), &answers, 2)[..2], [StateReset, StartTold]);
    assert_eq!(alone(&keyed(), &answers, 2)[..3], [StateReset, StartTold, EndTold]);
}

#[test]
fn a_step_of_another_id() {
    // The step found nothing, and what it found it left alone.
    let answers = from_step(2, &[&[A[2]][..], &sums_from(sums(&A)[1], &A[3..])].concat());
    assert_eq!(alone(&keyed(), &answers, 2)[0], CorridWrong);
}

#[test]
fn a_state_that_was_not_kept() {
    let answers = from_step(3, &sums_from(sums(&A)[1], &A[3..]));
    assert_eq!(alone(&known(), &answers, 3), [EffectLost]);
}

#[test]
fn steps_that_changed_places() {
    let mut answers = sums(&A);
    answers[2] = answers[1].wrapping_add(A[2]).wrapping_add(A[3]);
    answers[3] = answers[1].wrapping_add(A[3]);
    for step in [2, 3] {
        assert_eq!(alone(&known(), &answers, step)[0], OutOfOrder, "step {step}");
    }
}

#[test]
fn an_end_that_came_before_its_step() {
    let mut answers = sums(&A);
    answers[3] = answers[4];
    answers[4] = answers[2].wrapping_add(A[4]);
    assert_eq!(alone(&known(), &answers, 3)[0], EndBeforeLast);
    // A model that keeps state by ID has forgotten it by then.
    answers[3] = A[3];
    assert_eq!(alone(&keyed(), &answers, 3)[0], EndBeforeLast);
}

#[test]
fn a_sum_that_nothing_explains() {
    let answers = from_step(2, &sums_from(777_777_777, &A[2..]));
    assert_eq!(alone(&known(), &answers, 2), [Unexplained]);
}

#[test]
fn a_start_that_went_on_from_the_ids_previous_sequence() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).answer(0, 0, 0, &sums(&A));
    tale.send(0, 1, &B).answer(0, 1, 0, &sums_from(sums(&A)[4], &B));
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 1, 0), B[0]))[..2], [StaleStateOfId, StaleStateOfSlot]);
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (0, 1, 0), B[0])), [StaleStateOfId, StartNotTold]);
}

#[test]
fn a_start_that_went_on_from_another_sequence_in_its_slot() {
    let mut tale = Tale::default();
    tale.send(1, 0, &A).answer(1, 0, 0, &sums(&A));
    tale.send(0, 0, &B).answer(0, 0, 0, &sums_from(sums(&A)[4], &B));
    let explanations = tale.wrong_sum(&known(), (0, 0, 0), B[0]);
    assert_eq!(causes(&explanations), [StaleStateOfSlot, StartNotTold]);
    assert!(explanations[0].evidence.contains("1-0-0"), "{explanations:?}");
}

/// A and B, each answered step by step in turn with these sums.
fn in_turn(a: &[i32], b: &[i32]) -> Tale {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).send(1, 0, &B);
    for (step, (a, b)) in (0..).zip(a.iter().zip(b)) {
        tale.answer(0, 0, step, &[*a]).answer(1, 0, step, &[*b]);
    }
    tale
}

#[test]
fn two_sequences_that_were_given_each_others_states() {
    let (a, b) = (sums(&A), sums(&B));
    let of_a = [&a[..2], &sums_from(b[1], &A[2..])].concat();
    let of_b = [&b[..2], &sums_from(a[1], &B[2..])].concat();
    let tale = in_turn(&of_a, &of_b);
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 0, 2), a[2]))[0], SwappedStates);
    assert_eq!(causes(&tale.wrong_sum(&known(), (1, 0, 2), b[2]))[0], SwappedStates);
}

#[test]
fn a_state_that_leaked() {
    let (a, b) = (sums(&A), sums(&B));
    let of_a = [&a[..2], &sums_from(b[1], &A[2..])].concat();
    let explanations = in_turn(&of_a, &b).wrong_sum(&known(), (0, 0, 2), a[2]);
    assert_eq!(causes(&explanations), [LeakedState]);
    let evidence = &explanations[0].evidence;
    assert!(evidence.contains("sequence 1-0-0 (worker 1, context 0, correlation ID 2) after step 2"), "{evidence}");
}

#[test]
fn two_sequences_in_one_slot() {
    let (mut state, mut of_a, mut of_b) = (0_i32, Vec::new(), Vec::new());
    for step in 0..5 {
        state = state.wrapping_add(A[step]);
        of_a.push(state);
        state = if step == 0 { B[0] } else { state.wrapping_add(B[step]) };
        of_b.push(state);
    }
    let mut tale = in_turn(&of_a, &of_b);
    let explanations = tale.wrong_sum(&known(), (0, 0, 1), sums(&A)[1]);
    assert_eq!(causes(&explanations)[0], SharedState);
    assert!(!explanations[0].evidence.contains("cancel"), "{explanations:?}");
    // A cancel before it may be what led to it, and is told.
    let mut after_cut = Tale::default();
    after_cut.tell(2, What::Cut(Cut::Cancelled));
    tale.entries.insert(0, after_cut.entries.remove(0));
    tale.entries[0].at = 0;
    let explanations = tale.wrong_sum(&known(), (0, 0, 1), sums(&A)[1]);
    assert!(
        explanations[0].evidence.contains("after a cancel: worker 2 cut its stream of context 0"),
        "{explanations:?}"
    );
    // Where the model is told IDs, a wrong one does the same.
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (0, 0, 1), sums(&A)[1]))[..2], [CorridWrong, SharedState]);
}

#[test]
fn a_state_of_a_sequence_of_one_step_leaked_or_after_a_cancel_was_shared() {
    // B's one step left its state where A's second went on; B has none that could tell who had the state.
    let mut tale = Tale::default();
    tale.send(0, 0, &A[..2]).send_part(1, 0, 0, 2, &B[..1]).answer(0, 0, 0, &[A[0]]).answer(1, 0, 0, &[B[0]]);
    tale.answer(0, 0, 1, &[B[0].wrapping_add(A[1])]);
    let right = A[0].wrapping_add(A[1]);
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 0, 1), right))[0], LeakedState);
    let mut cut = Tale::default();
    cut.tell(2, What::Cut(Cut::Reset));
    cut.entries[0].at = 0;
    tale.entries.insert(0, cut.entries.remove(0));
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 0, 1), right))[..2], [SharedState, LeakedState]);
}

#[test]
fn a_step_that_was_executed_as_another_sequences() {
    let (a, b) = (sums(&A), sums(&B));
    let shared = a[2].wrapping_add(B[2]);
    let of_a = [&a[..3], &sums_from(shared, &A[3..])].concat();
    let of_b = [&b[..2], &[shared], &sums_from(b[1], &B[3..])[..]].concat();
    let tale = in_turn(&of_a, &of_b);
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (1, 0, 2), b[2]))[0], CorridWrong);
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (0, 0, 3), a[3]))[0], CorridWrong);
}

#[test]
fn a_step_of_another_sequence_in_an_idle_slot() {
    let (a, b) = (sums(&A), sums(&B));
    let mut tale = Tale::default();
    tale.send(1, 0, &B);
    tale.send_part(0, 0, 0, 5, &A[..2]).answer(0, 0, 0, &a[..2]).answer(1, 0, 0, &b);
    tale.send_part(0, 0, 2, 5, &A[2..]).answer(0, 0, 2, &sums_from(a[1].wrapping_add(B[3]), &A[2..]));
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 0, 2), a[2]))[..2], [ReadyTold, StrayStep]);
}

#[test]
fn a_step_of_a_stream_that_was_cut() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).send(0, 1, &B);
    let answers = [&[B[0]][..], &sums_from(B[0].wrapping_add(A[2]), &B[1..])].concat();
    tale.answer(0, 1, 0, &answers);
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 1, 1), sums(&B)[1]))[0], Straggler);
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (0, 1, 1), sums(&B)[1]))[0], Overlap);
}

#[test]
fn two_sequences_of_one_id_in_a_model_that_keeps_state_by_id() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).send(0, 1, &B);
    // The second START resets what the first sequence goes on from.
    tale.answer(0, 0, 0, &[A[0]]).answer(0, 1, 0, &[B[0]]).answer(0, 0, 1, &sums_from(B[0], &A[1..]));
    let explanations = tale.wrong_sum(&keyed(), (0, 0, 1), sums(&A)[1]);
    assert_eq!(causes(&explanations)[0], Overlap);
    assert!(Overlap.what().contains("which the server allows"));
    // Its END takes the state away.
    let mut tale = Tale::default();
    tale.send(0, 0, &A).send(0, 1, &B).answer(0, 1, 0, &[B[0]]).answer(0, 0, 0, &sums(&A)).answer(
        0,
        1,
        1,
        &sums(&B[1..]),
    );
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (0, 1, 1), sums(&B)[1]))[0], Overlap);
    assert_ne!(causes(&tale.wrong_sum(&known(), (0, 1, 1), sums(&B)[1]))[0], Overlap);
}

#[test]
fn the_answer_of_another_request() {
    let (mut a, mut b) = (sums(&A), sums(&B));
    std::mem::swap(&mut a[2], &mut b[2]);
    let explanations = in_turn(&a, &b).wrong_sum(&known(), (0, 0, 2), sums(&A)[2]);
    assert_eq!(causes(&explanations)[0], AnswerOfAnother);
    assert!(explanations[0].evidence.contains("request 1-0-0-2"), "{explanations:?}");
}

const START_ERROR: &str =
    "inference request for sequence 1 to model 'm' must specify the START flag on the first request";

fn refused(tale: &Tale, step: u32) -> Vec<Cause> {
    causes(&tale.other(ViolationKind::SpuriousStartError, (0, 0, step), START_ERROR))
}

#[test]
fn refusals_in_the_middle_of_a_sequence() {
    let mut lone = Tale::default();
    lone.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).error(0, 0, 2, START_ERROR);
    lone.answer(0, 0, 3, &sums_from(sums(&A)[1], &A[3..]));
    assert_eq!(refused(&lone, 2), [SpuriousRefusal]);
    let mut early = Tale::default();
    early.send_part(0, 0, 0, 5, &A[..2]).answer(0, 0, 0, &sums(&A)[..2]).wait(200);
    early.send_part(0, 0, 2, 5, &A[2..]).error(0, 0, 2, START_ERROR).error(0, 0, 3, START_ERROR);
    assert_eq!(refused(&early, 2)[0], PrematureReap);
    let evidence = &early.other(ViolationKind::SpuriousStartError, (0, 0, 2), "")[0].evidence;
    assert!(evidence.contains("of 500 ms that it may be idle"), "{evidence}");
    let mut start = Tale::default();
    start.send(0, 0, &A).error(0, 0, 0, START_ERROR);
    assert_eq!(refused(&start, 0), [StartRefused]);
}

#[test]
fn refusals_that_should_have_come() {
    let step = |sum: i32, end: bool| {
        let mut tale = Tale::default();
        let last = if end { 5 } else { 4 };
        tale.send_part(0, 0, 0, 5, &A[..last]).answer(0, 0, 0, &sums(&A)[..last]).wait(900);
        tale.send_part(0, 1, 1, 3, &[B[0]]).answer(0, 1, 1, &[sum]);
        causes(&tale.other(ViolationKind::MissingStartError, (0, 1, 1), ""))
    };
    assert_eq!(step(B[0], true), [RefusalMissing]);
    assert_eq!(step(sums(&A)[4].wrapping_add(B[0]), true), [RefusalMissing, EndNotTold]);
    assert_eq!(step(sums(&A)[3].wrapping_add(B[0]), false), [MissingReap, RefusalMissing]);
    assert_eq!(step(12_345_678, true), [RefusalMissing]);
}

#[test]
fn errors_by_what_they_say() {
    for (text, expected) in [
        ("control 'START' says false to the model and the request says true", StartNotTold),
        ("control 'START' says true to the model and the request says false", StartTold),
        ("control 'END' says false to the model and the request says true", EndNotTold),
        ("control 'END' says true to the model and the request says false", EndTold),
        ("control 'READY' says false to the model and the request says true", ReadyNotTold),
        ("slot 3 is idle: control 'READY' says true to the model and the request says false", ReadyTold),
        ("control 'CORRID' says 0 to the model and the request says 7", CorridWrong),
        ("unexpected inference output 'OUTPUT_2' for model 'm'", OutputRefused),
        ("must specify the START flag", ErrorText),
        ("no memory", ModelError),
    ] {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).error(0, 0, 2, text);
        assert_eq!(causes(&tale.other(ViolationKind::UnexpectedError, (0, 0, 2), text))[0], expected, "{text}");
    }
}

#[test]
fn a_flaw_that_only_the_lack_of_a_sequence_was_refused_for() {
    for (text, expected) in [("must specify the START flag", FlawTaken), ("bad request", ErrorText)] {
        let mut tale = Tale::default();
        tale.send_flawed(0, 0, 2, Flaw::ALL[0]).error(0, 0, 2, text);
        assert_eq!(causes(&tale.other(ViolationKind::UnexpectedError, (0, 0, 2), text))[0], expected, "{text}");
    }
}

#[test]
fn what_the_model_saw_names_the_signal_and_the_slot() {
    let explained = |kind, expected: &str, seen: &str| {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).answer(0, 0, 0, &sums(&A));
        causes(&tale.explain(&known(), kind, (0, 0, 2), expected, seen))
    };
    let seen = "control 'END' says false to the model and the request says true; the answer is 7";
    assert_eq!(explained(ViolationKind::WrongControl, "", seen), [EndNotTold]);
    assert_eq!(explained(ViolationKind::WrongControl, "", "INT32[1] of 4 bytes"), []);
    let slot = |expected| explained(ViolationKind::WrongSlot, expected, "slot 9");
    assert_eq!(slot("one of the 8 slots, 0 to 7"), [ExtraSlot]);
    assert_eq!(slot("slot 7, in which the sequence's step before was"), [SlotWrong]);
    assert_eq!(slot("not slot 9: the sequence of correlation ID 2 has had it for 5 ms"), [SharedState, SlotWrong]);
}

#[test]
fn answers_of_another_form() {
    let named = |name: &str| crate::tensor::Tensor { name: name.to_owned(), ..output(4) };
    for (kind, outputs, expected) in [
        (ViolationKind::WrongOutputName, vec![named("OTHER")], OutputName),
        (ViolationKind::WrongOutputType, vec![output(4)], OutputType),
        (ViolationKind::WrongOutputShape, vec![output(4)], OutputShape),
        (ViolationKind::WrongOutputSize, vec![output(8)], OutputTooLong),
        (ViolationKind::WrongOutputSize, vec![output(3)], OutputTooShort),
        (ViolationKind::WrongModel, vec![output(4)], OtherModelsName),
    ] {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).malformed(0, 0, 0, outputs);
        assert_eq!(causes(&tale.other(kind, (0, 0, 0), "")), [expected]);
    }
}

#[test]
fn an_answer_without_output_was_executed_or_not() {
    for (state, expected) in [(sums(&A)[1], OutputMissing), (sums(&A)[0], ReadyNotTold)] {
        for outputs in [Vec::new(), vec![Tensor { name: "SEEN".to_owned(), ..output(40) }]] {
            let mut tale = Tale::default();
            tale.send(0, 0, &A).answer(0, 0, 0, &[A[0]]).malformed(0, 0, 1, outputs);
            tale.answer(0, 0, 2, &sums_from(state, &A[2..]));
            assert_eq!(causes(&tale.other(ViolationKind::WrongOutputName, (0, 0, 1), "")), [expected]);
        }
    }
}

#[test]
fn answers_in_the_wrong_place() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).send(1, 0, &B).answer(0, 0, 0, &[A[0], 3]);
    for (kind, expected) in [(ViolationKind::Duplicate, AnsweredTwice), (ViolationKind::Reordered, AnswersReordered)] {
        assert_eq!(causes(&tale.other(kind, (0, 0, 0), "an answer")), [expected]);
    }
    let misaddressed = |what: What| {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).send(1, 0, &B).tell(0, what);
        let mut violation = Violation::of_the_run(
            ViolationKind::Misaddressed,
            tale.now,
            String::new(),
            String::new(),
            "an answer".to_owned(),
        );
        violation.place = Some(crate::oracle::Place {
            worker: 0,
            context: 0,
            correlation_id: tale.entries[0].correlation_id,
            request_id: None,
        });
        explain(&violation, &tale.entries, &known())
    };
    let elsewhere = misaddressed(What::Answered(super::windows::request(1, 0, 2), 5, None));
    assert_eq!(causes(&elsewhere), [AnswerElsewhere]);
    assert!(elsewhere[0].evidence.contains("request 1-0-0-2, of worker 1 context 0"), "{elsewhere:?}");
    assert_eq!(causes(&misaddressed(What::Answered(super::windows::request(99, 0, 2), 5, None))), [UnknownRequestId]);
}

fn lost(tale: &Tale, step: u32) -> Vec<Cause> {
    let place = (0, 0, step);
    causes(&tale.other(ViolationKind::Lost, place, "none"))
}

#[test]
fn answers_that_did_not_come() {
    let mut dropped = Tale::default();
    dropped.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).answer(0, 0, 3, &sums(&A)[3..]).wait(1000).open(1);
    assert_eq!(lost(&dropped, 2), [AnswerDropped]);
    let mut elsewhere = Tale::default();
    elsewhere.send(0, 0, &A).tell(1, What::Answered(super::windows::request(0, 0, 0), 1, None)).wait(1000).open(1);
    assert_eq!(lost(&elsewhere, 0), [AnswerElsewhere]);
    let mut late = Tale::default();
    late.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(1);
    assert_eq!(lost(&late, 2)[0], AnswerLate);
    let mut stall = Tale::default();
    stall.send(0, 0, &A).send(2, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).answer(2, 0, 0, &sums(&A)[..2]);
    stall.send(1, 0, &B).answer(1, 0, 0, &sums(&B)).wait(1000).open(1);
    assert_eq!(lost(&stall, 2)[0], Stall);
    // Nobody waits any more for what another stream had asked before.
    for given_up in [What::GaveUp, What::Cut(Cut::ByClient), What::Cut(Cut::Cancelled)] {
        let mut late = Tale::default();
        late.send_part(2, 0, 0, 3, &A[..2]).answer(2, 0, 0, &sums(&A)[..1]).wait(1000).tell(2, given_up);
        late.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).send(1, 0, &B).answer(1, 0, 0, &sums(&B));
        assert_eq!(lost(late.wait(1000).open(1), 2)[0], AnswerLate);
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
fn an_answer_that_did_not_come_to_a_step_of_which_nothing_is_known() {
    let other = Tale::default().other(ViolationKind::Lost, (0, 0, 3), "none");
    assert_eq!(causes(&other)[0], Stall);
}

#[test]
fn a_slot_for_more_sequences_than_there_are_slots() {
    let causes_where = |keyed_by_id| {
        let kind = ViolationKind::SlotReleasedTwice;
        let violation = Violation::of_the_run(kind, MS, String::new(), String::new(), "an answer".to_owned());
        causes(&explain(&violation, &[], &Known { keyed_by_id, ..known() }))
    };
    assert_eq!(causes_where(false), [ExtraSlot, SharedState], "two sequences of one slot get wrong sums");
    assert_eq!(causes_where(true), [SharedState, ExtraSlot]);
}

#[test]
fn a_refusal_after_which_the_sequence_is_there() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).error(0, 0, 2, START_ERROR);
    tale.answer(0, 0, 3, &[sums(&A)[1].wrapping_add(A[3])]);
    let explained = tale.other(ViolationKind::MissingStartError, (0, 0, 3), "");
    assert_eq!(causes(&explained), [SpuriousRefusal, RefusalMissing]);
}

#[test]
fn streams_that_broke_and_servers_that_died() {
    let broken = |reason: &str, others: u32| {
        let mut tale = Tale::default();
        tale.open(0).send(0, 0, &A).broken(0, reason);
        (1..=others).for_each(|other| _ = tale.broken(other, reason));
        causes(&tale.other(ViolationKind::StreamBroken, (0, 0, 0), reason))
    };
    assert_eq!(broken("the server ended the stream", 0), [StreamClosedEarly]);
    assert_eq!(broken("connection reset", 3)[0], Restart);
    assert_eq!(broken("connection reset", 0)[0], Restart, "a connection is more than its stream");
    assert_eq!(broken("stream error received", 0)[0], StreamClosedEarly);
    let mut half_closed = Tale::default();
    half_closed.open(0).send(0, 0, &A).tell(0, What::HalfClosed).broken(0, "the server ended the stream");
    let seen = "the server ended the stream";
    assert_eq!(causes(&half_closed.other(ViolationKind::StreamBroken, (0, 0, 0), seen))[0], FinalAnswersLost);
    for (kind, expected) in [
        (ViolationKind::StreamNotClosed, StreamKeptOpen),
        (ViolationKind::ServerDied, Crash),
        (ViolationKind::Hang, ServerHang),
    ] {
        assert_eq!(causes(&Tale::default().other(kind, (0, 0, 0), "")), [expected]);
    }
}

#[test]
fn counts_that_differ() {
    let differ = |expected: &str, seen: &str| {
        let (expected, seen) = (expected.to_owned(), seen.to_owned());
        let kind = ViolationKind::Statistics;
        causes(&explain(&Violation::of_the_run(kind, MS, String::new(), expected, seen), &[], &known()))
    };
    assert_eq!(differ("10 successes and as many inferences", "11 successes"), [CountedTwice]);
    assert_eq!(differ("10 to 12 successes", "9 successes"), [NotCounted]);
    assert_eq!(differ("nothing", "something"), []);
    // That is no match of values, so there are no odds.
    let violation =
        Violation::of_the_run(ViolationKind::Hang, MS, String::new(), String::new(), "none for 5 s".to_owned());
    assert_eq!(explain(&violation, &[], &known())[0].evidence, "none for 5 s");
}

#[test]
fn a_window_that_does_not_have_the_step_explains_nothing() {
    assert_eq!(causes(&Tale::default().wrong_sum(&known(), (0, 0, 2), 5)), []);
}

#[test]
fn each_cause_has_its_own_name_and_a_class() {
    let names: std::collections::BTreeSet<_> = Cause::ALL.iter().map(|one| one.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
    for one in Cause::ALL {
        assert!(!one.class().is_empty() && one.what().ends_with('.'), "{one}");
        assert_eq!(serde_json::to_value(one).expect("a name"), one.name());
    }
}
