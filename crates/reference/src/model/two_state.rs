//! A model with two states of different sizes, whose outputs tell of both.

use std::sync::Arc;

use tonic::Status;

use super::{
    super::{
        fault::Faults,
        spec::{ALPHA_STATE, Spec, TensorSpec},
        tensor::{Datatype, Tensor, text_element},
    },
    Computes, ModelRow, Outputs, Told,
    outputs::{floats, results, slip, to_bytes, to_floats},
};

const ZETA: usize = 2;
const ALPHA: usize = 5;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// What all inputs of the last ten steps were like, and how that went with the newest.
    zeta: [f32; ZETA],
    /// What four single inputs of the last twenty steps were like, and the number of steps.
    alpha: [f32; ALPHA],
}

#[derive(Debug)]
pub(super) struct TwoState {
    spec: Arc<Spec>,
}

impl TwoState {
    pub(super) fn new(spec: Arc<Spec>) -> Self {
        Self { spec }
    }

    /// The bytes that an output has.
    fn output(output: &TensorSpec, state: &State, input: &[f32]) -> Vec<u8> {
        let State { zeta: [level, trend], alpha } = state;
        let [singles @ .., steps] = alpha;
        match output.datatype {
            Datatype::Fp32 => {
                let each = (0..input.len()).map(|index| {
                    let (own, next) = (singles[index % singles.len()], singles[(index + 1) % singles.len()]);
                    own + 0.5 * level - 0.25 * trend * next
                });
                to_bytes(&each.collect::<Vec<_>>())
            }
            Datatype::Bytes => {
                text_element(format!("{} {}", whole(*steps), if *level < 0.0 { "low" } else { "high" }).as_bytes())
            }
            _ => whole(*steps).to_le_bytes().to_vec(),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is rounded, and what is too large is the largest")]
fn whole(number: f32) -> i64 {
    number.round() as i64
}

/// As many numbers as a state has; the rest of them where there are fewer.
fn exactly<const N: usize>(numbers: &[f32]) -> [f32; N] {
    let mut own = [0.0; N];
    own.iter_mut().zip(numbers).for_each(|(own, number)| *own = *number);
    own
}

/// As many numbers as another state has, from the beginning again where there are fewer.
fn around<const N: usize>(numbers: &[f32]) -> [f32; N] {
    let mut own = [0.0; N];
    own.iter_mut().zip(numbers.iter().cycle()).for_each(|(own, number)| *own = *number);
    own
}

impl Computes for TwoState {
    type State = State;
    type Input = Vec<f32>;

    fn blank(&self) -> State {
        State { zeta: [0.0; ZETA], alpha: [0.0; ALPHA] }
    }

    fn load(&self, tensors: &[&Tensor]) -> Option<State> {
        let mut state = self.blank();
        for (spec, tensor) in self.spec.states.iter().zip(tensors) {
            let numbers = to_floats(&tensor.data);
            if &*spec.tensor.name == ALPHA_STATE {
                state.alpha = exactly(&numbers);
            } else {
                state.zeta = exactly(&numbers);
            }
        }
        Some(state)
    }

    fn store(&self, State { zeta, alpha }: &State) -> Vec<Vec<u8>> {
        let bytes = |name: &str| if name == ALPHA_STATE { to_bytes(alpha) } else { to_bytes(zeta) };
        self.spec.states.iter().map(|spec| bytes(&spec.tensor.name)).collect()
    }

    fn exchanged(&self, State { zeta, alpha }: &State) -> Option<State> {
        Some(State { zeta: around(alpha), alpha: around(zeta) })
    }

    fn floats<'a>(&self, State { zeta, alpha }: &'a mut State) -> Vec<&'a mut [f32]> {
        vec![zeta, alpha]
    }

    fn read(&self, row: &ModelRow) -> Result<Vec<f32>, Status> {
        let input = &self.spec.inputs[0];
        Ok(floats(row, &input.name, input.elements()))
    }

    fn advance(&self, state: &State, input: &Vec<f32>) -> State {
        let weights = (1_u16..).map(|place| 1.0 / f32::from(place));
        let drive = weights.zip(input).map(|(weight, value)| weight * value).sum::<f32>().tanh();
        let [level, trend] = state.zeta;
        let level = 0.9 * level + 0.1 * drive;
        let trend = 0.7 * trend + 0.3 * level * drive;
        let mut alpha = state.alpha;
        let [singles @ .., steps] = &mut alpha;
        for (single, value) in singles.iter_mut().zip(input.iter().cycle()) {
            *single = 0.95 * *single + 0.05 * (value + trend).tanh();
        }
        *steps += 1.0;
        State { zeta: [level, trend], alpha }
    }

    fn answer(&self, row: &ModelRow, _: &Told, state: &State, input: &Vec<f32>, faults: &Faults) -> Vec<Outputs> {
        let mut responses = vec![results(&self.spec, row, |_, output| Self::output(output, state, input))];
        slip(faults, &mut responses);
        responses
    }
}
