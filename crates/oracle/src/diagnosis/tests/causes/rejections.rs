//! Rejections and other errors, and those that did not come.

use super::*;

const START_ERROR: &str =
    "inference request for sequence 1 to model 'm' must specify the START flag on the first request";

fn rejected(tale: &Tale, step: u32) -> Vec<Cause> {
    causes(&tale.other(ViolationKind::SpuriousStartError, (0, 0, step)))
}

#[test]
fn rejections_in_the_middle_of_a_sequence() {
    let mut lone = Tale::default();
    lone.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).error(0, 0, 2, START_ERROR);
    lone.answer(0, 0, 3, &sums_from(sums(&A)[1], &A[3..]));
    assert_eq!(rejected(&lone, 2), [SpuriousRejection]);
    let mut early = Tale::default();
    early.send_part(0, 0, 0, 5, &A[..2]).answer(0, 0, 0, &sums(&A)[..2]).wait(200);
    early.send_part(0, 0, 2, 5, &A[2..]).error(0, 0, 2, START_ERROR).error(0, 0, 3, START_ERROR);
    assert_eq!(rejected(&early, 2)[0], PrematureReap);
    let clues = &early.other(ViolationKind::SpuriousStartError, (0, 0, 2))[0].clues;
    assert!(matches!(clues[..], [Clue::Idle { limit_ms: Some(500), went_on: Some(false), .. }]), "{clues:?}");
    // No pause before the rejected step: what tells is whether START was 500 ms ago by then, and not yet at the step before.
    let steady = |wait| {
        let mut tale = Tale::default();
        tale.send_part(0, 0, 0, 5, &A[..1]).answer(0, 0, 0, &sums(&A)[..1]).wait(wait);
        tale.send_part(0, 0, 1, 5, &A[1..2]).answer(0, 0, 1, &sums(&A)[1..2]).wait(40);
        tale.send_part(0, 0, 2, 5, &A[2..3]).error(0, 0, 2, START_ERROR);
        tale.send_part(0, 0, 3, 5, &A[3..]).error(0, 0, 3, START_ERROR);
        let first = tale.other(ViolationKind::SpuriousStartError, (0, 0, 2)).remove(0);
        (first.cause, first.clues.iter().any(|clue| matches!(clue, Clue::LimitSinceStart { .. })))
    };
    assert_eq!([steady(470), steady(100)], [(PrematureReap, true), (SpuriousRejection, false)]);
    let mut start = Tale::default();
    start.send(0, 0, &A).error(0, 0, 0, START_ERROR);
    assert_eq!(rejected(&start, 0), [StartRejected]);
}

#[test]
fn rejections_of_steps_over_another_connection() {
    let elsewhere = |went_on: bool| {
        let mut tale = Tale::default();
        tale.open(0).send_part(0, 0, 0, 5, &A[..2]).answer(0, 0, 0, &sums(&A)[..2]);
        tale.open_elsewhere(0).send_part(0, 0, 2, 5, &A[2..]).error(0, 0, 2, START_ERROR).error(0, 0, 3, START_ERROR);
        tale.open(1).send_part(1, 0, 0, 5, &B[..2]).answer(1, 0, 0, &sums(&B)[..2]);
        tale.open_elsewhere(1).send_part(1, 0, 2, 5, &B[2..]);
        if went_on {
            tale.answer(1, 0, 2, &sums(&B)[2..]);
        }
        rejected(&tale, 2)
    };
    assert_eq!(elsewhere(false), [BoundToConnection, PrematureReap]);
    assert!(!elsewhere(true).contains(&BoundToConnection), "another sequence went on over another connection");

    // A step over the first connection was rejected, too.
    let mut tale = Tale::default();
    tale.open(0).send_part(0, 0, 0, 5, &A[..3]).answer(0, 0, 0, &sums(&A)[..2]).error(0, 0, 2, START_ERROR);
    tale.open_elsewhere(0).send_part(0, 0, 3, 5, &A[3..]).error(0, 0, 3, START_ERROR);
    assert!(!rejected(&tale, 3).contains(&BoundToConnection));
}

#[test]
fn a_sequence_that_another_id_ended() {
    // Workers 2 and 3 have the IDs 3 and 4, of which one bit differs in that form.
    let rejected = |form: IdForm| {
        let mut tale = Tale::default();
        tale.send_part(2, 0, 0, 5, &A[..2]).answer(2, 0, 0, &sums(&A)[..2]);
        tale.send(3, 0, &B).answer(3, 0, 0, &sums(&B));
        tale.send_part(2, 0, 2, 5, &A[2..]).error(2, 0, 2, START_ERROR).error(2, 0, 3, START_ERROR);
        let known = ModelFacts { id_forms: vec![form], ..known() };
        causes(&tale.explain(&known, ViolationKind::SpuriousStartError, (2, 0, 2), Evidence::Overtaken))
    };
    assert_eq!(rejected(IdForm::OneBit), [IdTakenForAnother, PrematureReap]);
    assert!(!rejected(IdForm::Integer).contains(&IdTakenForAnother));
}

#[test]
fn rejections_that_should_have_come() {
    let step = |sum: i32, end: bool| {
        let mut tale = Tale::default();
        let last = if end { 5 } else { 4 };
        tale.send_part(0, 0, 0, 5, &A[..last]).answer(0, 0, 0, &sums(&A)[..last]).wait(900);
        tale.send_part(0, 1, 1, 3, &[B[0]]).answer(0, 1, 1, &[sum]);
        causes(&tale.other(ViolationKind::MissingStartError, (0, 1, 1)))
    };
    assert_eq!(step(B[0], true), [RejectionMissing]);
    assert_eq!(step(sums(&A)[4].wrapping_add(B[0]), true), [EndNotTold, RejectionMissing]);
    assert_eq!(step(sums(&A)[3].wrapping_add(B[0]), false), [MissingReap, RejectionMissing]);
    assert_eq!(step(12_345_678, true), [RejectionMissing]);
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
        ("unexpected inference output 'OUTPUT_2' for model 'm'", OutputRejected),
        ("must specify the START flag", ErrorText),
        ("no memory", ModelError),
        ("", OutputMissing),
    ] {
        let mut tale = Tale::default();
        tale.send(0, 0, &A).error(0, 0, 2, text);
        assert_eq!(causes(&tale.other(ViolationKind::UnexpectedError, (0, 0, 2)))[0], expected, "{text}");
    }
}

#[test]
fn a_flaw_that_only_the_lack_of_a_sequence_was_rejected_for() {
    for (text, expected) in [("must specify the START flag", FlawTaken), ("bad request", ErrorText)] {
        let mut tale = Tale::default();
        tale.send_flawed(0, 0, 2, Flaw::ALL[0]).error(0, 0, 2, text);
        assert_eq!(causes(&tale.other(ViolationKind::UnexpectedError, (0, 0, 2)))[0], expected, "{text}");
    }
}

#[test]
fn a_rejection_after_which_the_sequence_is_there() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).error(0, 0, 2, START_ERROR);
    tale.answer(0, 0, 3, &[sums(&A)[1].wrapping_add(A[3])]);
    let explained = tale.other(ViolationKind::MissingStartError, (0, 0, 3));
    assert_eq!(causes(&explained), [SpuriousRejection, RejectionMissing]);
}
