//! The faults of state, controls, results and scheduling change what models without a formula answer.

use super::*;

#[test]
fn faults_happen_to_models_without_a_formula_and_change_their_outputs() {
    use Fault::{
        CorridOther, CorridZero, EndSpurious, ExchangeStates, ExecuteTwice, KeepState, OffByOne, ReadyMissing,
        ResetState, SkipStep, StaleState, StartMissing, StartSpurious, StateNotSaved, StateOfAnotherSlot, SwapStates,
        WrongElement,
    };
    const BY_SLOT: &[&str] = &["gru_float32", "gru_decoupled_float32", "two_state_float32", "any_tensors"];
    const BY_ID: &[&str] = &["gru_oldest_float32"];
    const IMPLICIT: &[&str] = &["gru_implicit_float32", "two_state_implicit_float32"];
    const TWO: &[&str] = &["two_state_float32", "two_state_implicit_float32"];
    for (faults, models) in [
        (
            &[OffByOne, WrongElement, ResetState, SwapStates, ExecuteTwice, SkipStep][..],
            &[BY_SLOT, BY_ID, IMPLICIT][..],
        ),
        (&[KeepState, StartMissing, StartSpurious, ReadyMissing], &[BY_SLOT, BY_ID, IMPLICIT]),
        (&[StaleState], &[BY_SLOT, BY_ID]),
        (&[StateNotSaved, StateOfAnotherSlot], &[IMPLICIT]),
        (&[CorridZero, CorridOther, EndSpurious], &[BY_ID]),
        (&[ExchangeStates], &[TWO]),
    ] {
        for (fault, model) in
            faults.iter().flat_map(|fault| models.iter().copied().flatten().map(move |m| (*fault, *m)))
        {
            let right = World::of(model).converse();
            // With one commission only, so that it shows by itself.
            let mut changed = 0;
            for chance in 1..4 {
                let mut world = World::new(config(model), &[Planted::once(fault, chance)]);
                let is_other = world.converse() != right;
                changed += u64::from(is_other && world.committed(fault) == 1);
            }
            assert!(changed > 0, "{fault} does not show on {model}");
            let mut world = World::new(config(model), &[Planted::always(fault)]);
            assert_ne!(world.converse(), right, "{fault} on {model}");
            assert!(world.committed(fault) > 0, "{fault} on {model}");
        }
    }
}

#[test]
fn a_step_that_changes_no_state_is_no_chance_to_skip_it_or_to_execute_it_twice() {
    for fault in [Fault::SkipStep, Fault::ExecuteTwice] {
        let mut world = World::new(config("gru_float32"), &[Planted::once(fault, 1)]);
        let mut zeros = world.step(1, "S", 0);
        zeros.inputs[0].1.data.fill(0);
        let _ = world.send(&[zeros]);
        assert_eq!(world.committed(fault), 0, "{fault}");
        let step = world.step(1, "", 1);
        let _ = world.send(&[step]);
        assert_eq!(world.committed(fault), 1, "{fault}");
    }
}

#[test]
fn faults_of_the_scheduler_change_outputs_too() {
    let steps = |world: &mut World| {
        let first = [world.step(1, "SE", 1)];
        let mut answers = world.send(&first);
        // Two sequences that share a slot where it was released twice, and steps that wait for those before them.
        let rest = [(2, "S", 2), (3, "S", 3), (2, "", 4), (2, "", 5), (2, "E", 6), (3, "E", 7)];
        let rest = rest.map(|(id, flags, number)| world.step(id, flags, number));
        answers.extend(world.send(&rest));
        answers
    };
    let models = ["gru_float32", "gru_implicit_float32", "two_state_float32", "any_tensors"];
    for model in models {
        let right = steps(&mut World::of(model));
        for fault in [Fault::DoubleRelease, Fault::OutOfOrder, Fault::EndBeforeLast] {
            let mut world = World::new(config(model), &[Planted::once(fault, 1)]);
            let wrong = steps(&mut world);
            assert!(world.committed(fault) == 1 && wrong != right, "{fault} on {model}");
        }
    }
}

#[test]
fn a_slip_changes_one_element_and_no_state() {
    for model in ["gru_float32", "two_state_implicit_float32", "any_tensors"] {
        let right = World::of(model).converse();
        for (fault, is_first) in [(Fault::OffByOne, true), (Fault::WrongElement, false)] {
            let wrong = World::new(config(model), &[Planted::once(fault, 5)]).converse();
            let differ: Vec<_> = (0..right.len()).filter(|step| right[*step] != wrong[*step]).collect();
            assert_eq!(differ, [4], "{model} {fault}");
            let outputs = right[4][0].iter().zip(&wrong[4][0]);
            let differ: Vec<_> = outputs.filter(|(right, wrong)| right != wrong).collect();
            let [(right, wrong)] = differ[..] else { panic!("{model} {fault}: {differ:?}") };
            let size = right.1.datatype.size().expect("a size");
            let [right, wrong] = [right, wrong].map(|(_, tensor)| tensor.data.chunks(size).collect::<Vec<_>>());
            let at: Vec<_> = (0..right.len()).filter(|at| right[*at] != wrong[*at]).collect();
            assert_eq!(at, [if is_first { 0 } else { right.len() - 1 }], "{model} {fault}");
        }
    }
    // An element of each type changes, and differs clearly.
    for datatype in Datatype::ALL {
        let data =
            if datatype == Datatype::Bytes { text_element(b"a") } else { vec![0; datatype.size().expect("a size")] };
        let tensor = Tensor { datatype, shape: vec![1, 1], data };
        let mut responses = [vec![("OUTPUT".into(), tensor.clone())]];
        outputs::slip(&Faults::new(&[Planted::always(Fault::OffByOne)], Seed(0)), &mut responses);
        assert_ne!(responses[0][0].1.data, tensor.data, "{datatype}");
    }
}
