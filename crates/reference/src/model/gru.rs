//! A gated recurrent unit: a layer of floating-point numbers whose weights are drawn from a seed.

use std::sync::Arc;

use tonic::Status;

use super::{
    super::{fault::Faults, parameters::AtEnd, spec::Spec, tensor::Tensor},
    Computes, ModelRow, Outputs, Told,
    noise::Draws,
    outputs::{floats, results, slip, to_bytes, to_floats},
};

/// The most inputs, and the most states, that a unit looks at: those beside it. So a wide model is no slow one.
const FAN_MAX: usize = 16;
/// The bias of the first unit's keep gate, and of the last unit's. Without inputs, the first unit keeps 62 % of its state with each step,
/// and the last unit 97 %. So an output depends on the last step, and on one 32 steps before.
const KEEPS: [f32; 2] = [0.5, 3.5];

/// What a unit's gates are.
#[derive(Clone, Copy, Debug)]
enum Gate {
    Keep,
    Reset,
    Candidate,
}

/// The weights of a layer.
#[derive(Debug)]
pub(in super::super) struct Weights {
    width: usize,
    fan: usize,
    /// For inputs and for states: of each gate, of each unit, one for each that it looks at.
    inputs: Vec<f32>,
    states: Vec<f32>,
    /// Of each unit.
    keeps: Vec<f32>,
}

impl Weights {
    #[expect(clippy::cast_precision_loss, reason = "a layer is not that wide")]
    pub(in super::super) fn draw(width: usize, seed: u64) -> Self {
        let fan = width.min(FAN_MAX);
        let mut draws = Draws::new(seed);
        // As large as lets a sum of so many be of the size of one.
        let scale = (3.0 / fan as f32).sqrt();
        let mut layer = || (0..3 * width * fan).map(|_| draws.symmetric() * scale).collect();
        let (inputs, states) = (layer(), layer());
        let [first, last] = KEEPS;
        let share = |unit: usize| unit as f32 / width.saturating_sub(1).max(1) as f32;
        Self {
            width,
            fan,
            inputs,
            states,
            keeps: (0..width).map(|unit| first + (last - first) * share(unit)).collect(),
        }
    }

    fn sum(&self, weights: &[f32], gate: Gate, unit: usize, source: &[f32]) -> f32 {
        let first = (gate as usize * self.width + unit) * self.fan;
        let beside = source[unit..].iter().chain(source);
        weights[first..first + self.fan].iter().zip(beside).map(|(weight, value)| weight * value).sum()
    }

    fn step(&self, state: &[f32], input: &[f32]) -> Vec<f32> {
        let unit = |(unit, old): (usize, &f32)| {
            let [of_keep, of_reset, of_candidate] = [Gate::Keep, Gate::Reset, Gate::Candidate]
                .map(|gate| (self.sum(&self.inputs, gate, unit, input), self.sum(&self.states, gate, unit, state)));
            let keep = sigmoid(self.keeps[unit] + 0.5 * (of_keep.0 + of_keep.1));
            let reset = sigmoid(of_reset.0 + of_reset.1);
            let candidate = (of_candidate.0 + reset * of_candidate.1).tanh();
            keep * old + (1.0 - keep) * candidate
        };
        state.iter().enumerate().map(unit).collect()
    }
}

fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + (-value).exp())
}

/// A layer: its state is its output. A decoupled one has as many responses to a step as the bits of its input say, each of the state
/// turned by one unit more.
#[derive(Debug)]
pub(super) struct Gru {
    spec: Arc<Spec>,
}

/// What goes in, and how many responses come out.
#[derive(Debug)]
pub(super) struct Input {
    values: Vec<f32>,
    responses: usize,
}

impl Gru {
    pub(super) fn new(spec: Arc<Spec>) -> Self {
        Self { spec }
    }

    fn width(&self) -> usize {
        self.spec.inputs[0].elements()
    }
}

/// What the outputs have of a state.
fn at_end(effect: AtEnd, told: &Told, state: &[f32]) -> Vec<f32> {
    // The lowest bits of an ID make a number below 1.
    let corrid = || f32::from(told.id_bits.to_le_bytes()[0]) / 256.0;
    match effect {
        AtEnd::Negates if told.end => state.iter().map(|number| -number).collect(),
        AtEnd::AddsCorrid if told.end => state.iter().map(|number| number + corrid()).collect(),
        AtEnd::Nothing | AtEnd::Negates | AtEnd::AddsCorrid => state.to_vec(),
    }
}

impl Computes for Gru {
    type State = Vec<f32>;
    type Input = Input;

    fn blank(&self) -> Vec<f32> {
        vec![0.0; self.width()]
    }

    fn load(&self, tensors: &[&Tensor]) -> Option<Vec<f32>> {
        tensors.first().map(|tensor| to_floats(&tensor.data))
    }

    fn store(&self, state: &Vec<f32>) -> Vec<Vec<u8>> {
        vec![to_bytes(state)]
    }

    fn floats<'a>(&self, state: &'a mut Vec<f32>) -> Vec<&'a mut [f32]> {
        vec![state]
    }

    fn read(&self, row: &ModelRow) -> Result<Input, Status> {
        let values = floats(row, &self.spec.inputs[0].name, self.width());
        let responses = match self.spec.parameters.responses_up_to {
            None => 1,
            Some(most) => {
                let bits: Vec<_> = values.iter().map(|value| value.to_bits().into()).collect();
                usize::try_from(Draws::of(&bits).bits() % (u64::from(most) + 1)).unwrap_or(1)
            }
        };
        Ok(Input { values, responses })
    }

    fn advance(&self, state: &Vec<f32>, input: &Input) -> Vec<f32> {
        self.spec.weights().step(state, &input.values)
    }

    fn answer(&self, row: &ModelRow, told: &Told, state: &Vec<f32>, input: &Input, faults: &Faults) -> Vec<Outputs> {
        let shown = at_end(self.spec.parameters.at_end, told, state);
        let response = |number: usize| {
            let mut turned = shown.clone();
            turned.rotate_left(number % state.len());
            results(&self.spec, row, |_, _| to_bytes(&turned))
        };
        let mut responses: Vec<_> = (0..input.responses).map(response).collect();
        slip(faults, &mut responses);
        responses
    }
}
