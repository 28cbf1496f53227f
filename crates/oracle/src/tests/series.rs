//! Models that answer a request several times.

use super::*;
use workload::{answers::Answers, event::Series};

fn of(answers: Answers) -> Conversation {
    Conversation::with_model(Arithmetic { answers, ..Arithmetic::default() })
}

fn decoupled() -> Conversation {
    of(Answers::Several(3))
}

/// The responses to one request, the last of which was marked or not.
fn responses(sums: &[i32], is_unfinished: bool) -> Response {
    let Some((first, further)) = sums.split_first() else { return nothing() };
    let series = Series { further: further.iter().map(|sum| response(*sum)).collect(), is_unfinished, spread: None };
    Response { series, ..response(*first) }
}

impl Conversation {
    fn answers(&mut self, id: &str, sums: &[i32]) -> &mut Self {
        self.receive(id, Ok(responses(sums, false)))
    }
}

#[test]
fn the_answers_of_a_correct_model_are_not_accused_though_those_to_requests_overtake_each_other() {
    let mut c = decoupled();
    c.send(true, true, &[5, 6, 7]).answers("0-0-0-1", &[11, 12, 13]).answers("0-0-0-0", &[5, 6, 7]);
    c.answers("0-0-0-2", &[18, 19, 20]).send(false, false, &[1]).reject("0-0-1-0");
    c.assert(&[]);
    assert!(c.judged());
}

#[test]
fn what_is_wrong_with_the_answers_to_a_request_is_one_violation() {
    let numbers = |numbers: [i32; 3]| numbers.map(Number::from).to_vec();
    let responses = |seen| Evidence::Responses { expected: 3, seen, is_unfinished: false };
    let sums_of = |expected, seen| Evidence::Sums { expected: numbers(expected), seen: numbers(seen) };
    let one_of = |response, expected: i32, seen: i32| Evidence::SumOfResponse {
        response,
        of: 3,
        expected: expected.into(),
        seen: seen.into(),
    };
    let sum = Evidence::Sum { expected: vec![5.into()], seen: 8.into(), disorder: None };
    for (sums, kind, evidence) in [
        (&[6, 7][..], ViolationKind::Lost, responses(2)),
        (&[], ViolationKind::Lost, responses(0)),
        (&[5, 5, 6, 7], ViolationKind::Duplicate, responses(4)),
        (&[7, 6, 5], ViolationKind::Reordered, sums_of([5, 6, 7], [7, 6, 5])),
        (&[5, 9, 7], ViolationKind::WrongSum, one_of(2, 6, 9)),
        (&[0, 6, 7], ViolationKind::WrongSum, one_of(1, 5, 0)),
        (&[8, 9, 10], ViolationKind::WrongSum, sum),
        (&[5, 50, 500], ViolationKind::WrongSum, sums_of([5, 6, 7], [5, 50, 500])),
    ] {
        let mut c = decoupled();
        c.send(true, false, &[5]).answers("0-0-0-0", sums);
        c.assert_evidence(Some((kind, evidence)));
        // The sequence is there all the same.
        c.send(false, true, &[2]).answers("0-0-1-0", if sums[..] == [8, 9, 10] { &[10, 11, 12] } else { &[7, 8, 9] });
        c.assert(&[kind]);
    }
}

#[test]
fn a_last_answer_that_is_not_marked_is_lost() {
    let mut c = decoupled();
    c.send(true, true, &[5]).wait(5000).receive("0-0-0-0", Ok(responses(&[5, 6, 7], true)));
    c.assert(&[ViolationKind::Lost]);
    assert_eq!(c.first().evidence, Evidence::Responses { expected: 3, seen: 3, is_unfinished: true });
}

#[test]
fn each_of_the_answers_is_looked_at() {
    let mut c = decoupled();
    let mut first = responses(&[5, 6, 7], false);
    first.series.further[1].outputs[0].name = "OTHER".to_owned();
    c.send(true, false, &[5]).receive("0-0-0-0", Ok(first));
    c.assert(&[ViolationKind::WrongOutputName]);
}

#[test]
fn a_cancelled_request_may_have_some_of_its_answers_or_none() {
    for sums in [&[5][..], &[]] {
        let mut c = decoupled();
        c.send(true, false, &[1]).answers("0-0-0-0", &[1, 2, 3]).send(false, false, &[2]);
        c.tell(EventKind::Cut(Cut::Cancelled)).on(1).send(false, false, &[4]).answers("0-0-2-0", sums);
        c.assert(&[]);
        assert!(!c.judged());
    }
}

#[test]
fn the_executions_of_an_iterative_request_each_add_its_input() {
    // As the engine has it: a request is a whole sequence.
    let mut c = of(Answers::EachOf(3));
    c.send(true, true, &[-4])
        .answers("0-0-0-0", &[-4, -8, -12])
        .send(true, true, &[5])
        .answers("0-0-1-0", &[5, 10, 15]);
    c.send(false, false, &[1]).reject("0-0-2-0");
    c.assert(&[]);
    c.send(true, true, &[5]).answers("0-0-3-0", &[1, 6, 11]).send(true, true, &[5]).answers("0-0-4-0", &[5, 10, 14]);
    c.assert(&[ViolationKind::WrongSum, ViolationKind::WrongSum]);
    let mut c = of(Answers::LastOf(3));
    c.send(true, true, &[-4]).answer("0-0-0-0", -12).send(true, true, &[5]).answer("0-0-1-0", 10);
    c.assert(&[ViolationKind::WrongSum]);
    assert_eq!(c.first().evidence, Evidence::Sum { expected: vec![15.into()], seen: 10.into(), disorder: None });
}

#[test]
fn the_end_of_one_iterative_request_may_meet_the_next_one_for_a_while() {
    let mut c = of(Answers::EachOf(2));
    c.wait(5000).send(true, true, &[5]).answers("0-0-0-0", &[5, 10]).wait(10).send(true, true, &[7]).reject("0-0-1-0");
    c.assert(&[]);
    assert!(!c.judged());
    c.send(true, true, &[7]).reject("0-0-2-0");
    c.assert(&[ViolationKind::SpuriousStartError]);
    // Later than that it is none of its business.
    let mut c = of(Answers::EachOf(2));
    c.send(true, true, &[5]).answers("0-0-0-0", &[5, 10]).wait(30).send(true, true, &[7]).reject("0-0-1-0");
    c.assert(&[ViolationKind::SpuriousStartError]);
}

#[test]
fn behind_a_cut_the_executions_of_two_requests_may_be_mixed_for_a_while() {
    let mut c = of(Answers::EachOf(2));
    c.send(true, true, &[5]).tell(EventKind::Cut(Cut::ByNetwork)).on(1);
    c.send(true, true, &[7]).answers("0-0-1-0", &[7, 19]).send(true, true, &[7]).reject("0-0-2-0");
    c.assert(&[]);
    c.wait(4000).send(true, true, &[7]).answers("0-0-3-0", &[7, 19]);
    c.assert(&[ViolationKind::WrongSum]);
}
