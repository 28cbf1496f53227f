//! Networks run by rten, step by step: what a step leaves in later outputs, and that rows of a batch do not meet. What they compute
//! `scripts/verify-models` computes once more.

use std::collections::BTreeMap;

use formats::{
    format::Format,
    networks::{COUNT, INPUT, Network, OUTPUT, graph},
};
use rten::{Value, ValueOrView};
use rten_tensor::AsView as _;

const WIDTH: usize = 16;
const ALL: [Network; 4] = [Network::Gru, Network::Lstm, Network::Conv, Network::TwoState];
/// How many further steps have to show a step.
const SHOWN: usize = 32;

/// What a step gives: OUTPUT, and COUNT where there is one, by row.
type Step = (Vec<f32>, Vec<i32>);

/// A network, and how many rows each of its executions has; none without a batch.
struct Runner {
    model: rten::Model,
    network: Network,
    rows: Option<usize>,
    states: BTreeMap<&'static str, Vec<f32>>,
}

impl Runner {
    fn new(network: Network, rows: Option<usize>) -> Self {
        let graph = graph(network, rows.is_some(), 16).expect("it has one");
        let files = Format::Onnx.files(&graph).expect("ONNX has it");
        let model = rten::Model::load(files[0].bytes.clone()).expect("it is a model");
        let mut runner = Self { model, network, rows, states: BTreeMap::new() };
        runner.start();
        runner
    }

    /// Begins a sequence in each row.
    fn start(&mut self) {
        for state in self.network.states(16) {
            let size: u32 = state.dims.iter().product();
            let zeros = vec![0.0; usize::try_from(size).expect("it is small") * self.rows.unwrap_or(1)];
            self.states.insert(state.input, zeros);
        }
    }

    fn tensor(&self, sizes: &[usize], values: &[f32]) -> ValueOrView<'static> {
        let shape: Vec<_> = self.rows.iter().chain(sizes).copied().collect();
        Value::from_shape(&shape, values.to_vec()).expect("the numbers fill the shape").into()
    }

    fn step(&mut self, input: &[f32]) -> Step {
        let node = |name: &str| self.model.node_id(name).expect("the graph has this name");
        let states = self.network.states(16);
        let mut inputs = vec![(node(INPUT), self.tensor(&[WIDTH], input))];
        let mut outputs = vec![node(OUTPUT)];
        for state in &states {
            let sizes: Vec<_> = state.dims.iter().map(|size| usize::try_from(*size).expect("it is small")).collect();
            inputs.push((node(state.input), self.tensor(&sizes, &self.states[state.input])));
            outputs.push(node(state.output));
        }
        outputs.extend((self.network == Network::TwoState).then(|| node(COUNT)));
        let mut answers = self.model.run(inputs, &outputs, None).expect("it runs").into_iter();
        let output = floats(&answers.next().expect("OUTPUT"));
        for state in &states {
            self.states.insert(state.input, floats(&answers.next().expect("a state")));
        }
        let count = answers.next().map_or_else(Vec::new, |count| match count {
            Value::Int32Tensor(tensor) => tensor.iter().copied().collect(),
            other => panic!("{other:?} is no count"),
        });
        (output, count)
    }

    /// The outputs of a sequence from its beginning, in one row.
    fn sequence(&mut self, inputs: &[Vec<f32>]) -> Vec<Step> {
        self.start();
        inputs.iter().map(|input| self.step(input)).collect()
    }
}

fn floats(value: &Value) -> Vec<f32> {
    match value {
        Value::FloatTensor(tensor) => tensor.iter().copied().collect(),
        other => panic!("{other:?} is not of FP32"),
    }
}

/// Inputs from -1 to 1 that differ from sequence to sequence and from step to step.
fn inputs(sequence: u32, steps: usize) -> Vec<Vec<f32>> {
    let mut at = sequence.wrapping_mul(0x9e37_79b9) | 1;
    let mut one = || {
        at ^= at << 13;
        at ^= at >> 17;
        at ^= at << 5;
        f32::from(u16::try_from(at >> 16).expect("16 bits")) / 32768.0 - 1.0
    };
    (0..steps).map(|_| (0..WIDTH).map(|_| one()).collect()).collect()
}

/// The largest difference of two outputs.
fn apart(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

#[test]
fn a_step_shows_in_all_outputs_of_the_next_32_steps() {
    for network in ALL {
        let mut runner = Runner::new(network, Some(1));
        let given = inputs(1, SHOWN + 2);
        let outputs = runner.sequence(&given);
        let largest = outputs.iter().map(|(output, _)| apart(output, &[0.0; WIDTH]));
        assert!(largest.clone().all(|largest| (0.01..=1.0).contains(&largest)), "{network:?}: {largest:?}");
        let mut other = given.clone();
        other[1].clone_from(&inputs(2, 1)[0]);
        let others = runner.sequence(&other);
        assert!(apart(&outputs[0].0, &others[0].0) < f32::EPSILON);
        let least = (1..=1 + SHOWN).map(|step| apart(&outputs[step].0, &others[step].0)).fold(1.0, f32::min);
        assert!(least > 2e-3, "{network:?}: {least}");
        // Skipped, executed twice, and two in the other order.
        let twice: Vec<_> = given[..2].iter().chain(&given[1..]).cloned().collect();
        let skipped: Vec<_> = given[..1].iter().chain(&given[2..]).cloned().collect();
        let mut exchanged = given.clone();
        exchanged.swap(1, 2);
        for (others, step, of_other) in [(twice, 2, 3), (skipped, 2, 1), (exchanged, 3, 3)] {
            let other = runner.sequence(&others);
            let least = (0..16).map(|more| apart(&outputs[step + more].0, &other[of_other + more].0));
            assert!(least.clone().all(|apart| apart > 2e-3), "{network:?}: {:?}", least.collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_row_of_a_batch_is_what_it_is_alone() {
    for network in ALL {
        let [one, other] = [1, 2].map(|sequence| inputs(sequence, 8));
        let alone = Runner::new(network, None).sequence(&one);
        let of_other = Runner::new(network, None).sequence(&other);
        let mut batch = Runner::new(network, Some(2));
        for step in 0..one.len() {
            let (output, count) = batch.step(&[one[step].clone(), other[step].clone()].concat());
            let [first, second] = [&alone[step], &of_other[step]];
            assert!(apart(&output, &[first.0.clone(), second.0.clone()].concat()) < 1e-5, "{network:?} {step}");
            assert_eq!(count, [first.1.clone(), second.1.clone()].concat());
            let counts: &[i32] =
                if network == Network::TwoState { &[1 + i32::try_from(step).expect("few")] } else { &[] };
            assert_eq!(first.1, counts);
            assert!(apart(&first.0, &second.0) > 0.05, "{network:?} {step}");
        }
    }
}

#[test]
fn each_state_counts() {
    for network in ALL {
        for state in network.states(16) {
            let mut runner = Runner::new(network, None);
            let given = inputs(1, 5);
            let right = runner.sequence(&given);
            runner.sequence(&given[..4]);
            runner.states.get_mut(state.input).expect("it is there").fill(0.0);
            let (output, _) = runner.step(&given[4]);
            assert!(apart(&output, &right[4].0) > 1e-2, "{network:?} {}", state.input);
        }
    }
}
