//! Refusals and other errors, and those that did not come.

use super::*;

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
    assert_eq!(step(sums(&A)[4].wrapping_add(B[0]), true), [EndNotTold, RefusalMissing]);
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
fn a_refusal_after_which_the_sequence_is_there() {
    let mut tale = Tale::default();
    tale.send(0, 0, &A).answer(0, 0, 0, &sums(&A)[..2]).error(0, 0, 2, START_ERROR);
    tale.answer(0, 0, 3, &[sums(&A)[1].wrapping_add(A[3])]);
    let explained = tale.other(ViolationKind::MissingStartError, (0, 0, 3), "");
    assert_eq!(causes(&explained), [SpuriousRefusal, RefusalMissing]);
}
