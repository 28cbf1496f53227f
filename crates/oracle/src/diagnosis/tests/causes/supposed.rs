//! What may have been executed where a response is like nothing known.

use super::{super::windows::request, *};
use crate::diagnosis::{suppositions, suppositions_of_exchange};
use workload::{
    arithmetic::{Arithmetic, Formula},
    number::Number,
};

fn numbers(values: &[i32]) -> Vec<Number> {
    values.iter().map(|value| Number::from(*value)).collect()
}

#[test]
fn the_other_one_of_two_that_exchanged_their_states_may_be_answered_much_later() {
    let mut tale = Tale::default();
    tale.open(0).open(1).send_part(0, 0, 0, 5, &A[..2]).send_part(1, 0, 0, 5, &B[..2]);
    tale.answer(0, 0, 0, &sums(&A[..1])).answer(1, 0, 0, &sums(&B[..1]));
    // Nobody knows what it is.
    let lost = [0x5a5a_5a5a];
    tale.answer(0, 0, 1, &lost).send_part(0, 0, 2, 5, &A[2..]).answer(0, 0, 2, &[1, 2, 3]).wait(500);
    tale.answer(1, 0, 1, &lost);
    let executed = numbers(&[B[0], A[1]]);
    assert!(suppositions(request(0, 0, 1), &tale.entries, &known()).contains(&executed));
    let other = suppositions_of_exchange(request(0, 0, 1), &executed, &tale.entries, &known());
    assert_eq!(other, [(request(1, 0, 1), numbers(&[A[0], B[1]]))]);
    // A response that is right exchanged nothing.
    let right = sums(&B[..2])[1];
    tale.entries.pop();
    tale.answer(1, 0, 1, &[right]);
    assert_eq!(suppositions_of_exchange(request(0, 0, 1), &executed, &tale.entries, &known()), []);
}

#[test]
fn a_state_that_start_did_not_save_is_told_from_one_that_leaked() {
    let without_formula = Arithmetic { formula: Formula::Golden, ..Arithmetic::default() };
    let golden = ModelFacts { arithmetic: without_formula, ..known() };
    let named = |is_over: bool| {
        let mut tale = Tale::default();
        // Two sequences with the same inputs: one is over where the other one goes on.
        tale.open(0).open(1).open(2);
        if is_over {
            tale.send(1, 0, &B).answer(1, 0, 0, &sums(&B));
        }
        tale.send_part(2, 0, 0, 9, &B).answer(2, 0, 0, &sums(&B));
        tale.send_part(0, 0, 0, 9, &A[..1]).answer(0, 0, 0, &A[..1]);
        // Its state was not saved: the step goes on from what the slot had.
        let wrong = sums_from(sums(&B)[4], &A[1..3]);
        tale.send_part(0, 0, 1, 9, &A[1..3]).answer(0, 0, 1, &wrong);
        tale.send_part(2, 0, 5, 9, &A[3..4]).answer(2, 0, 5, &sums_from(sums(&B)[4], &A[3..4]));
        causes(&tale.wrong_sum(&golden, (0, 0, 1), sums(&A)[1]))
    };
    assert_eq!(named(true)[0], EffectLost);
    assert_eq!(named(false)[0], LeakedState);
}

#[test]
fn start_is_first_supposed_to_meet_what_a_sequence_left() {
    let mut tale = Tale::default();
    for worker in 1..5 {
        tale.open(worker).send(worker, 0, &B).answer(worker, 0, 0, &sums(&B));
    }
    tale.open(0).send_part(0, 0, 0, 5, &A[..1]).answer(0, 0, 0, &[7]);
    let supposed = suppositions(request(0, 0, 0), &tale.entries, &known());
    let left = [B.as_slice(), &A[..1]].concat();
    let place = supposed.iter().position(|inputs| *inputs == numbers(&left));
    let own = supposed.iter().position(|inputs| inputs.len() > 2);
    assert!(place.is_some() && place == own, "{place:?} {own:?}");
}
