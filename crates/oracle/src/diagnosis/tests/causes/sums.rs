//! Wrong sums.

use super::{super::windows::request, *};
use crate::diagnosis::SequenceId;

/// Worker 0 sends A, and is answered with these sums; the answer at `step` is the wrong one.
fn alone(known: &ModelFacts, answers: &[i32], step: usize) -> Vec<Cause> {
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
    assert_eq!(alone(&known(), &answers, 2), [WrongArithmetic, CorridAdded], "its ID is 1");
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
fn a_step_that_was_executed_once_more_when_it_was_answered() {
    let state = sums(&A)[2].wrapping_add(A[1]);
    let answers = from_step(2, &[&[state][..], &sums_from(state, &A[3..])].concat());
    assert_eq!(alone(&known(), &answers, 2)[0], ExecutedTwice);
}

#[test]
fn a_step_that_nobody_was_told_of_and_that_was_executed_twice() {
    let state = A[0].wrapping_add(A[1].wrapping_mul(2));
    let mut tale = Tale::default();
    tale.send_part(0, 0, 0, 5, &A[..3]).answer(0, 0, 0, &A[..1]).tell(0, EventKind::Cut(Cut::Deadline));
    tale.send_part(0, 0, 3, 5, &A[3..]).answer(0, 0, 3, &sums_from(state, &A[3..]));
    let expected = A[0].wrapping_add(A[3]);
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 0, 3), expected))[0], ExecutedTwice);
}

#[test]
fn a_start_that_was_cancelled_and_dropped() {
    let cut = |cut: Cut, found: i32| {
        let mut tale = Tale::default();
        tale.send_part(0, 0, 0, 3, &A[..1]).tell(0, EventKind::Cut(cut));
        tale.send_part(0, 0, 1, 3, &A[1..3]).answer(0, 0, 1, &sums_from(found, &A[1..3]));
        causes(&tale.wrong_sum(&known(), (0, 0, 1), A[0].wrapping_add(A[1])))[0]
    };
    // The model has no state, or what lies in memory.
    assert_eq!([cut(Cut::Cancelled, 0), cut(Cut::Deadline, -29_704_177)], [StartDropped; 2]);
    // What lies in memory may be the same again.
    let mut tale = Tale::default();
    for worker in [0, 1] {
        tale.send_part(worker, 0, 0, 3, &A[..1]).tell(worker, EventKind::Cut(Cut::Deadline));
        tale.send_part(worker, 0, 1, 3, &A[1..3]).answer(worker, 0, 1, &sums_from(268_435_632, &A[1..3]));
    }
    let right = A[0].wrapping_add(A[1]);
    assert_eq!(causes(&tale.wrong_sum(&known(), (1, 0, 1), right))[0], StartDropped);
    // A START that was answered was executed.
    let mut tale = Tale::default();
    tale.send(0, 0, &A[..3]).answer(0, 0, 0, &[&A[..1], &sums(&A[1..3])].concat());
    assert_ne!(causes(&tale.wrong_sum(&known(), (0, 0, 1), sums(&A)[1]))[0], StartDropped);
}

#[test]
fn an_answer_with_something_in_it() {
    let wrong_by = |wrong: i32| {
        let mut answers = sums(&A);
        answers[2] = wrong;
        alone(&known(), &answers, 2)[0]
    };
    assert_eq!(wrong_by(sums(&A)[2] ^ (1 << 20)), BitFlipped);
    assert_eq!(wrong_by(i32::MAX), Saturated);
    assert_eq!(wrong_by(i32::MIN), Saturated);
    let mut tale = Tale::default();
    tale.send(30, 0, &A).answer(30, 0, 0, &[A[0].wrapping_add(31)]);
    assert_eq!(causes(&tale.wrong_sum(&known(), (30, 0, 0), A[0]))[0], CorridAdded);
}

#[test]
fn two_states_that_were_exchanged() {
    let known = ModelFacts { keeps_count: true, ..known() };
    // Once: the second step finds one step, and its sum is kept; or always, so that what a step adds shows in the one after the next.
    let once = from_step(1, &sums_from(1, &A[1..]));
    assert_eq!(alone(&known, &once, 1)[0], ExchangedStates);
    let always = [A[0], 1 + A[1], A[0] + 1 + A[2], 1 + A[1] + 1 + A[3]];
    for step in 1..4 {
        assert_eq!(alone(&known, &always, step)[0], ExchangedStates, "{step}");
    }
    let of_one_state = alone(&self::known(), &once, 1);
    assert!(!of_one_state.contains(&ExchangedStates), "it has none to exchange: {of_one_state:?}");
    // A state that is reset, and one that is not kept, are none of the two.
    assert_eq!(alone(&known, &from_step(1, &sums_from(0, &A[1..])), 1)[0], StateReset);
    assert_eq!(alone(&known, &from_step(2, &sums_from(A[0], &A[2..])), 2)[0], EffectLost);
}

#[test]
fn errors_that_tell_of_states() {
    for (text, expected) in [
        ("states are exchanged: 'CACHE' holds 'CACHE_LEN', 'CACHE_LEN' holds 'CACHE'", ExchangedStates),
        (
            "states are not of one step: 'A' is 5, so that 'B' has to be 15 of dims [5], and it is 9 of shape [1, 5]",
            StatesOfSeveralSteps,
        ),
        ("the states of the sequence are not what they have to be", ModelError),
    ] {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).answer(0, 0, 0, &A[..1]).error(0, 0, 1, text);
        assert_eq!(causes(&tale.other(ViolationKind::UnexpectedError, (0, 0, 1)))[0], expected, "{text}");
    }
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
    let told = matches!(explanations[0].clues[0], Clue::StaleState { step: 5, sequence: OF_B, .. });
    assert!(told, "{explanations:?}");
}

/// The first sequence of worker 1.
const OF_B: SequenceId = SequenceId { worker: 1, context: 0, sequence: 0 };

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
    let told = matches!(explanations[0].clues[0], Clue::StateOf { step: 2, sequence: OF_B, .. });
    assert!(told, "{explanations:?}");
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
    let cancel = |explanations: &[Explanation]| {
        explanations[0].clues.iter().find_map(|clue| match clue {
            Clue::AfterACancel { context, .. } => Some(context.worker),
            _ => None,
        })
    };
    assert_eq!(cancel(&explanations), None, "{explanations:?}");
    // A cancel before it may be what led to it, and is told.
    let mut after_cut = Tale::default();
    after_cut.tell(2, EventKind::Cut(Cut::Cancelled));
    tale.entries.insert(0, after_cut.entries.remove(0));
    tale.entries[0].at = 0;
    let explanations = tale.wrong_sum(&known(), (0, 0, 1), sums(&A)[1]);
    assert_eq!(cancel(&explanations), Some(2), "{explanations:?}");
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
    cut.tell(2, EventKind::Cut(Cut::Reset));
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
fn a_step_that_was_given_up_and_executed_in_another_slot() {
    let (a, b) = (sums(&A), sums(&B));
    let mut tale = Tale::default();
    tale.send(1, 0, &B);
    tale.send_part(0, 0, 0, 5, &A[..2]).answer(0, 0, 0, &a[..2]).answer(1, 0, 0, &b[..3]);
    tale.tell(1, EventKind::Cut(Cut::Cancelled));
    tale.send_part(0, 0, 2, 5, &A[2..]).answer(0, 0, 2, &sums_from(a[1].wrapping_add(B[3]), &A[2..]));
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 0, 2), a[2]))[..2], [StrayStep, ReadyTold]);
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
    // One that was executed before the START took nothing away, although the START was sent before its response came.
    let mut tale = Tale::default();
    tale.send(0, 0, &A).send(0, 1, &B).answer(0, 0, 0, &sums(&A)).answer(0, 1, 0, &[B[0]]).answer(
        0,
        1,
        1,
        &sums(&B[1..]),
    );
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (0, 1, 1), sums(&B)[1]))[0], StateReset);
}

#[test]
fn another_sequence_that_had_the_same_inputs_is_no_culprit() {
    // It has the state that this one lost by right.
    let right = sums(&A);
    let mut tale = Tale::default();
    tale.send(0, 0, &A)
        .send(1, 0, &A)
        .answer(0, 0, 0, &right[..2])
        .answer(0, 0, 2, &sums(&A[2..]))
        .answer(1, 0, 0, &right);
    assert_eq!(causes(&tale.wrong_sum(&keyed(), (0, 0, 2), right[2]))[0], StateReset);
    // One that is over left what START went on from, and not one that has it as well and goes on.
    let (left, longer) = (sums(&B), [&B[..], &A].concat());
    let last = *left.last().expect("it has steps");
    let mut tale = Tale::default();
    tale.send(1, 0, &B).send(2, 0, &longer).answer(1, 0, 0, &left).answer(2, 0, 0, &sums(&longer)[..=B.len()]);
    let behind = u32::try_from(left.len() + 1).expect("few");
    tale.send(0, 0, &A).answer(0, 0, 0, &sums_from(last, &A)).answer(2, 0, behind, &sums(&longer)[left.len() + 1..]);
    assert_eq!(causes(&tale.wrong_sum(&known(), (0, 0, 0), right[0]))[0], StaleStateOfSlot);
}

#[test]
fn the_answer_of_another_request() {
    let (mut a, mut b) = (sums(&A), sums(&B));
    std::mem::swap(&mut a[2], &mut b[2]);
    let explanations = in_turn(&a, &b).wrong_sum(&known(), (0, 0, 2), sums(&A)[2]);
    assert_eq!(causes(&explanations)[0], ResponseOfAnother);
    let told = |clue: &Clue| matches!(clue, Clue::BelongsTo { request: its, .. } if *its == request(1, 0, 2));
    assert!(explanations[0].clues.iter().any(told), "{explanations:?}");
}
