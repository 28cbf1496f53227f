use rand::{Rng, RngExt as _, seq::SliceRandom as _};

use super::*;
use workload::{seed::Seed, sequence::Pattern};

fn step(number: u32, start: bool, end: bool, value: i32) -> Step {
    let request = RequestId { worker: 0, context: 0, sequence: number, step: 0 };
    Step { request, pattern: Pattern::Concurrent, start, end, value: value.into(), of: 1, special: None }
}

/// What a correct server answers, and the state after it.
pub(crate) fn serve(state: State, step: &Step) -> (State, Answer) {
    let sum = match state {
        _ if step.start => step.value,
        State::Live(Some(sum)) => sum.wrapping_add(step.value),
        _ => return (State::Absent, Answer::Rejected),
    };
    (if step.end { State::Absent } else { State::Live(Some(sum)) }, Answer::Sum(sum))
}

/// Steps that overlap, with the answers of one order, of which some may be spoiled or missing.
pub(crate) fn random_operations(random: &mut impl Rng, count: u32, span: u64) -> Vec<Operation> {
    let mut state = State::Absent;
    let mut operations: Vec<_> = (0..count)
        .map(|number| {
            let start = number == 0 || random.random_bool(0.1);
            let value = random.random_range(-3..4);
            let step = step(number, start, random.random_bool(0.1), value);
            let (then, answer) = serve(state, &step);
            state = then;
            let taken_at = u64::from(number) * 10 + 1000;
            let sent_at = taken_at - random.random_range(0..span);
            Operation { step, sent_at, answer: Some((taken_at + random.random_range(1..span), answer)) }
        })
        .collect();
    operations.shuffle(random);
    operations
}

pub(crate) fn spoil(random: &mut impl Rng, operations: &mut [Operation]) {
    for operation in operations {
        match random.random_range(0..12) {
            0 => operation.answer = None,
            1 => {
                operation.answer = operation.answer.map(|(at, _)| (at, Answer::Sum(random.random_range(-5..6).into())));
            }
            2 => operation.answer = operation.answer.map(|(at, _)| (at, Answer::Rejected)),
            _ => {}
        }
    }
}

/// Tries every order, with and without the steps that have no answer.
fn brute_force(operations: &[Operation], state: State) -> bool {
    if operations.iter().all(|operation| operation.answer.is_none()) {
        return true;
    }
    (0..operations.len()).any(|next| {
        let Operation { step, sent_at, answer } = operations[next];
        let comes_late = |other: &Operation| other.answer.is_some_and(|(at, _)| at < sent_at);
        let (then, right) = serve(state, &step);
        let is_right = answer.is_none_or(|(_, answer)| answer == right);
        let mut others = operations.to_vec();
        others.remove(next);
        is_right && !operations.iter().any(comes_late) && brute_force(&others, then)
    })
}

#[test]
fn it_agrees_with_trying_every_order() {
    let (mut right, mut wrong) = (0, 0);
    let mut random = Seed(5).generator(0);
    for case in 0..6000 {
        let count = random.random_range(1..=6);
        let mut operations = random_operations(&mut random, count, 60);
        if case % 3 > 0 {
            spoil(&mut random, &mut operations);
        }
        let verdict = decide(&operations, State::Absent);
        let expected = brute_force(&operations, State::Absent);
        assert_eq!(matches!(verdict, OrderFound::Explained(_)), expected, "case {case}: {verdict:?} {operations:#?}");
        assert_ne!(verdict, OrderFound::Undecided);
        *(if expected { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 1000 && wrong > 1000, "{right} {wrong}");
}

/// Steps of one sequence over some streams, with values as they are in a run.
fn many(count: u32) -> Vec<Operation> {
    let mut random = Seed(6).generator(0);
    let mut operations = random_operations(&mut random, count, 100);
    operations.sort_by_key(|operation| operation.step.request);
    let mut state = State::Absent;
    for (number, operation) in operations.iter_mut().enumerate() {
        let last = number + 1 == count as usize;
        operation.step = Step { start: number == 0, end: last, value: random.random::<i32>().into(), ..operation.step };
        let (then, answer) = serve(state, &operation.step);
        state = then;
        operation.answer = operation.answer.map(|(at, _)| (at, answer));
    }
    operations.shuffle(&mut random);
    operations
}

/// What is decided, and how many steps were looked at for that.
fn decide_and_count(operations: &[Operation]) -> (OrderFound, usize) {
    let mut search = Search::new(operations);
    (search.run(State::Absent), search.looked_at.get())
}

#[test]
fn ten_thousand_steps_are_decided_soon() {
    let mut operations = many(10_000);
    let (OrderFound::Explained(order), looked_at) = decide_and_count(&operations) else { panic!("no order was found") };
    assert!(looked_at <= 2 * operations.len(), "{looked_at} steps were looked at");
    assert!(order.is_sorted_by_key(|taken| taken.request) && order.len() == 10_000);
    let wrong = &mut operations[5000];
    let name = wrong.step.request;
    wrong.answer = wrong.answer.map(|(at, _)| (at, Answer::Sum(1.into())));
    let (OrderFound::Contradiction(Disorder { prefix, unexplained, .. }), looked_at) = decide_and_count(&operations)
    else {
        panic!("a wrong sum")
    };
    assert!(looked_at <= 4 * operations.len(), "{looked_at} steps were looked at");
    assert!(unexplained.iter().any(|taken| taken.request == name) && prefix.len() == name.sequence as usize);
}
