//! Several states of a sequence: what a model makes of those that the server gives.

use models::{Backend, Dtype, Family, Form, InitialState, Model as Described, Options};

use super::{super::accumulator::Accumulator, *};

const FAMILIES: [Family; 4] =
    [Family::TwinState, Family::TwinStateCrossed, Family::TripleState, Family::TripleStateCrossed];

fn model(family: Family, dtype: Dtype) -> (Arc<Spec>, Accumulator) {
    let (form, options) = (Form::of(family), Options::default());
    let described = Described::new(Backend::Native, dtype, &form, &options).expect("there is one");
    let spec = Arc::new(Spec::new(described.config(), &Files::new()).expect("it is right"));
    let Formula::Sum(sum) = spec.parameters.formula else { panic!("it adds up") };
    (Arc::clone(&spec), Accumulator::new(spec, sum))
}

/// The states of a sequence whose sum is this number.
fn states(spec: &Spec, model: &Accumulator, sum: u64) -> Vec<Tensor> {
    let sum = model.load(&[&Tensor::filled(spec.datatype(), vec![1], 1, spec.number(sum))]).expect("a sum");
    let open_size = model.open_size(&sum);
    let tensors = spec.states.iter().zip(model.store(&sum)).map(|(state, data)| {
        let dims: Vec<_> = state.tensor.dims.iter().map(|size| if *size < 0 { open_size } else { *size }).collect();
        Tensor { datatype: state.tensor.datatype, shape: spec.shape(1, &dims), data }
    });
    tensors.collect()
}

/// What the model says of states.
fn said(model: &Accumulator, states: &[Tensor], start: bool) -> String {
    let states: Vec<_> = states.iter().collect();
    model.check(&states, start).err().map(|error| error.message().to_owned()).unwrap_or_default()
}

#[test]
fn each_exchange_and_each_state_of_another_step_is_told_in_each_type() {
    for (family, dtype) in FAMILIES.into_iter().flat_map(|family| Dtype::ALL.map(|dtype| (family, dtype))) {
        let (spec, model) = model(family, dtype);
        for sum in [0, 1, 100, 77] {
            assert_eq!(said(&model, &states(&spec, &model, sum), false), "", "{family} {dtype} {sum}");
        }
        let (right, other) = (states(&spec, &model, 100), states(&spec, &model, 77));
        for one in 0..right.len() {
            let mut stale = right.clone();
            stale[one].clone_from(&other[one]);
            let told = said(&model, &stale, false);
            assert!(
                told.starts_with("states are not of one step: 'Z")
                    || told.starts_with("states are not of one step: 'C"),
                "{family} {dtype} {one}: {told}"
            );
            // Without an initial state a sequence begins with anything.
            assert_eq!(said(&model, &stale, true), "", "{family} {dtype} {one}");
            for two in one + 1..right.len() {
                let mut exchanged = right.clone();
                exchanged.swap(one, two);
                let told = said(&model, &exchanged, false);
                let [one, two] = [one, two].map(|place| &spec.states[place].tensor.name);
                let expected = format!("states are exchanged: '{one}' holds '{two}', '{two}' holds '{one}'");
                assert_eq!(told, expected, "{family} {dtype}");
            }
        }
        let mut turned = right.clone();
        turned.rotate_left(1);
        assert!(said(&model, &turned, false).starts_with("states are exchanged: "), "{family} {dtype}");
    }
}

#[test]
fn a_state_of_open_shape_has_as_many_elements_as_the_sum_says() {
    let (spec, model) = model(Family::TripleState, Dtype::Int32);
    let shapes: Vec<_> = [0, 5, 63, 64, u64::MAX].map(|sum| states(&spec, &model, sum)[2].shape.clone()).into();
    assert_eq!(shapes, [[1, 1], [1, 6], [1, 64], [1, 1], [1, 64]]);
    let mut longer = states(&spec, &model, 5);
    longer[2] = Tensor::filled(Datatype::Uint32, vec![1, 7], 7, longer[2].numbers().expect("numbers")[0]);
    let expected = "states are not of one step: 'ZETA_STATE' is 5, so that 'MIDDLE_STATE' has to be 25 of size 6, and it is 25 of shape [1, 7]";
    assert_eq!(said(&model, &longer, false), expected);
}

#[test]
fn states_in_another_shape_or_type_are_told_where_they_are_no_other_states() {
    let (spec, model) = model(Family::TwinState, Dtype::Int32);
    let mut wrong = states(&spec, &model, 5);
    wrong[0].shape = vec![1, 3];
    let expected = "tensor 'ZETA_STATE': the server gives it the shape [1, 3], and its dims are [2]";
    assert_eq!((said(&model, &wrong, false), said(&model, &wrong, true)), (expected.to_owned(), expected.to_owned()));
    wrong[0].datatype = Datatype::Fp32;
    assert_eq!(said(&model, &wrong, false), "tensor 'ZETA_STATE': it is FP32 and not INT32");
}

#[test]
fn of_two_states_the_second_may_be_the_number_of_steps() {
    let (form, options) = (Form { initial: InitialState::Zero, ..Form::of(Family::TwoState) }, Options::default());
    let described = Described::new(Backend::Native, Dtype::Float32, &form, &options).expect("there is one");
    let mut world = World::new(described.config(), &[]);
    let sent = world.step(7, "S", 1);
    let answers =
        world.send(&[sent.clone(), Sent { start: false, ..sent.clone() }, Sent { start: false, end: true, ..sent }]);
    let counts: Vec<_> = answers
        .iter()
        .map(|step| step[0].iter().find(|(name, _)| &**name == "COUNT").map(|(_, its)| its.data[0]))
        .collect();
    assert_eq!(counts, [Some(1), Some(2), Some(3)]);
}
