//! Small neural networks with state that is kept outside. Their weights are drawn from a seed: the same network has the same ones always.

use crate::{
    builder::GraphBuilder,
    element::ElementType::{Fp32, Int64},
    graph::{Graph, Tensor, Value},
    shape::{Dim, Shape},
};

/// What INPUT and OUTPUT are called.
pub const INPUT: &str = "INPUT";
/// See [`INPUT`].
pub const OUTPUT: &str = "OUTPUT";
/// The second output of [`Network::TwoState`]: how many steps the sequence has had, as one INT64.
pub const COUNT: &str = "COUNT";
/// The most elements of INPUT and OUTPUT.
pub const WIDTH_MAX: u32 = 1024;
/// The elements of the states of GRU and LSTM.
const HIDDEN: u32 = 32;
/// The frames of INPUT that the convolution sees besides the newest one.
const CACHED: u32 = 32;
const SEED: u64 = 20;

/// A network of one step: INPUT and states before it go in, OUTPUT and the states after it come out. OUTPUT is within -1 and 1, and what
/// a step leaves in it does not vanish within 32 further steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Gated recurrent units.
    Gru,
    /// Long short-term memory, with two states of one size.
    Lstm,
    /// A causal convolution, whose state is the frames that it saw.
    Conv,
    /// Two states of different sizes, and a second output.
    TwoState,
}

/// A state that is kept outside, which begins with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What goes in.
    pub input: &'static str,
    /// What comes out.
    pub output: &'static str,
    /// The axes, without that of the batch.
    pub dims: Vec<u32>,
}

impl Network {
    /// The states, in the order in which the graph has them.
    pub fn states(self, width: u32) -> Vec<State> {
        let state = |input, output, dims| State { input, output, dims };
        match self {
            Self::Gru => vec![state("INPUT_STATE", "OUTPUT_STATE", vec![HIDDEN])],
            Self::Lstm => vec![
                state("INPUT_HIDDEN", "OUTPUT_HIDDEN", vec![HIDDEN]),
                state("INPUT_CELL", "OUTPUT_CELL", vec![HIDDEN]),
            ],
            Self::Conv => vec![state("INPUT_CACHE", "OUTPUT_CACHE", vec![width, CACHED])],
            // The order is not that of the alphabet, by which a server may sort them.
            Self::TwoState => {
                vec![state("ZETA_STATE", "ZETA_STATE_OUT", vec![2]), state("ALPHA_STATE", "ALPHA_STATE_OUT", vec![5])]
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gru => "gru",
            Self::Lstm => "lstm",
            Self::Conv => "conv",
            Self::TwoState => "two_state",
        }
    }
}

/// The graph of a network for as many elements of INPUT and OUTPUT. Its inputs are INPUT and the states, its outputs OUTPUT, for
/// [`Network::TwoState`] [`COUNT`], and the states.
///
/// # Errors
/// When there are no elements, or more than [`WIDTH_MAX`].
pub fn graph(network: Network, batches: bool, width: u32) -> Result<Graph, String> {
    if !(1..=WIDTH_MAX).contains(&width) {
        return Err(format!("a network of {width} elements: INPUT has 1 to {WIDTH_MAX}"));
    }
    let mut model = Model { graph: GraphBuilder::new(network.name())?, batches, width, draws: Draws(SEED) };
    let input = model.input(INPUT, &[width])?;
    let states = network.states(width);
    let before = states.iter().map(|state| model.input(state.input, &state.dims)).collect::<Result<Vec<_>, _>>()?;
    let (output, after) = match network {
        Network::Gru => model.gru(input, before[0])?,
        Network::Lstm => model.lstm(input, before[0], before[1])?,
        Network::Conv => model.conv(input, before[0])?,
        Network::TwoState => model.two_state(input, before[0], before[1])?,
    };
    model.output(OUTPUT, output)?;
    if network == Network::TwoState {
        let count = model.graph.slice(after[0], 1, 0, 1)?;
        let count = model.without_row(count)?;
        let count = model.graph.cast(count, Int64)?;
        model.graph.output(COUNT, count)?;
    }
    for (state, value) in states.iter().zip(after) {
        model.output(state.output, value)?;
    }
    model.graph.finish()
}

/// What a step makes: the output, and the states.
type Step = Result<(Value, Vec<Value>), String>;

/// A network in the making, in which every value has an axis of rows: one row where there is no batch.
struct Model {
    graph: GraphBuilder,
    batches: bool,
    width: u32,
    draws: Draws,
}

impl Model {
    fn input(&mut self, name: &str, dims: &[u32]) -> Result<Value, String> {
        let batch = self.batches.then_some(Dim::Batch);
        let shape = Shape::new(batch.into_iter().chain(dims.iter().copied().map(Dim::Fixed)).collect());
        let input = self.graph.input(name, Tensor::new(Fp32, shape))?;
        if self.batches { Ok(input) } else { self.graph.unsqueeze(input, 0) }
    }

    fn without_row(&mut self, value: Value) -> Result<Value, String> {
        if self.batches { Ok(value) } else { self.graph.squeeze(value, 0) }
    }

    fn output(&mut self, name: &str, value: Value) -> Result<(), String> {
        let value = self.without_row(value)?;
        self.graph.output(name, value)
    }

    fn weights(&mut self, name: &str, sizes: &[u32], scale: f32) -> Result<Value, String> {
        let values = self.draws.values(sizes.iter().product(), scale);
        self.graph.weights(name, sizes, &values)
    }

    /// `value` times a matrix of so many columns, whose rows are of the size of `value`.
    fn times(&mut self, name: &str, value: Value, sizes: [u32; 2], scale: f32) -> Result<Value, String> {
        let matrix = self.weights(name, &sizes, scale)?;
        self.graph.matmul(value, matrix)
    }

    /// The output of a layer of so many elements.
    fn head(&mut self, value: Value, size: u32, scale: f32) -> Result<Value, String> {
        let product = self.times("head.weight", value, [size, self.width], scale)?;
        let bias = self.weights("head.bias", &[self.width], 0.1)?;
        let sum = self.graph.add(product, bias)?;
        self.graph.tanh(sum)
    }

    /// The weights of a recurrent layer: `begin` gives what is added to the bias of a gate, of a unit.
    fn recurrent(&mut self, gates: u32, begin: impl Fn(u32, u32) -> f32) -> Result<[Value; 3], String> {
        let of_input = self.weights("cell.W", &[1, gates * HIDDEN, self.width], spread(self.width))?;
        let of_state = self.weights("cell.R", &[1, gates * HIDDEN, HIDDEN], 0.5 * spread(HIDDEN))?;
        let mut bias = self.draws.values(2 * gates * HIDDEN, 0.1);
        let units = (0..gates).flat_map(|gate| (0..HIDDEN).map(move |unit| (gate, unit)));
        for (bias, (gate, unit)) in bias.iter_mut().zip(units) {
            *bias += begin(gate, unit);
        }
        let bias = self.graph.weights("cell.B", &[1, 2 * gates * HIDDEN], &bias)?;
        Ok([of_input, of_state, bias])
    }

    fn gru(&mut self, input: Value, state: Value) -> Step {
        let weights = self.recurrent(3, |gate, unit| if gate == 0 { remembers(unit) } else { 0.0 })?;
        let (input, state) = (self.graph.unsqueeze(input, 0)?, self.graph.unsqueeze(state, 0)?);
        let state = self.graph.gru(input, state, weights)?;
        let state = self.graph.squeeze(state, 0)?;
        Ok((self.head(state, HIDDEN, 1.0)?, vec![state]))
    }

    fn lstm(&mut self, input: Value, hidden: Value, cell: Value) -> Step {
        // What is kept long is written little, so that the cell stays small.
        let begin = |gate, unit| match gate {
            0 => -remembers(unit),
            2 => remembers(unit),
            _ => 0.0,
        };
        let weights = self.recurrent(4, begin)?;
        let [input, hidden, cell] = [input, hidden, cell].map(|value| self.graph.unsqueeze(value, 0));
        let (hidden, cell) = self.graph.lstm(input?, hidden?, cell?, weights)?;
        let (hidden, cell) = (self.graph.squeeze(hidden, 0)?, self.graph.squeeze(cell, 0)?);
        Ok((self.head(hidden, HIDDEN, 1.5)?, vec![hidden, cell]))
    }

    /// Each element has a kernel over time of its own, and then all elements are mixed.
    fn conv(&mut self, input: Value, cache: Value) -> Step {
        let frame = self.graph.unsqueeze(input, 2)?;
        let frames = self.graph.concat(cache, frame, 2)?;
        let kernel = self.weights("conv.weight", &[self.width, 1, CACHED + 1], spread(CACHED + 1))?;
        let bias = self.weights("conv.bias", &[self.width], 0.1)?;
        let mixed = self.graph.conv(frames, kernel, bias, self.width)?;
        let mixed = self.graph.squeeze(mixed, 2)?;
        let output = self.head(mixed, self.width, spread(self.width))?;
        Ok((output, vec![self.graph.slice(frames, 2, 1, CACHED + 1)?]))
    }

    /// The one state counts steps and has a sum that fades, the other has five sums that fade more or less fast.
    fn two_state(&mut self, input: Value, zeta: Value, alpha: Value) -> Step {
        let fade = self.graph.weights("zeta.fade", &[2], &[1.0, 0.97])?;
        let kept = self.graph.multiply(zeta, fade)?;
        let mut of_input = self.draws.values(2 * self.width, spread(self.width));
        // INPUT does not count.
        of_input.iter_mut().step_by(2).for_each(|weight| *weight = 0.0);
        let of_input = self.graph.weights("zeta.weight", &[self.width, 2], &of_input)?;
        let added = self.graph.matmul(input, of_input)?;
        let one = self.graph.weights("zeta.bias", &[2], &[1.0, 0.0])?;
        let added = self.graph.add(added, one)?;
        let zeta = self.graph.add(kept, added)?;

        let fade = self.graph.weights("alpha.fade", &[5], &[0.9, 0.93, 0.95, 0.97, 0.98])?;
        let kept = self.graph.multiply(alpha, fade)?;
        let added = self.times("alpha.weight", input, [self.width, 5], spread(self.width))?;
        let added = self.graph.tanh(added)?;
        let share = self.graph.weights("alpha.share", &[5], &[0.3; 5])?;
        let added = self.graph.multiply(added, share)?;
        let alpha = self.graph.add(kept, added)?;

        // Of a count of dozens the tangent would be 1.
        let mut of_zeta = self.draws.values(2 * self.width, 0.2);
        of_zeta[..usize::try_from(self.width).expect("it is small")].iter_mut().for_each(|weight| *weight *= 0.05);
        let of_zeta = self.graph.weights("head.zeta", &[2, self.width], &of_zeta)?;
        let of_zeta = self.graph.matmul(zeta, of_zeta)?;
        let of_alpha = self.times("head.alpha", alpha, [5, self.width], 0.5)?;
        let of_states = self.graph.add(of_zeta, of_alpha)?;
        let of_input = self.times("head.input", input, [self.width, self.width], 0.3 * spread(self.width))?;
        let sum = self.graph.add(of_states, of_input)?;
        Ok((self.graph.tanh(sum)?, vec![zeta, alpha]))
    }
}

/// What weights of so many inputs may be, so that sums over them are neither all but 0 nor so large that the tangent is 1.
#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn spread(inputs: u32) -> f32 {
    (3.0 / inputs as f32).sqrt()
}

/// What is added to the bias of a gate that keeps the state: from one unit to the next it is kept longer, up to some 50 steps.
#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn remembers(unit: u32) -> f32 {
    1.0 + 3.0 * unit as f32 / HIDDEN as f32
}

/// Numbers that are drawn, by `SplitMix64`: the same ones on each machine.
struct Draws(u64);

impl Draws {
    fn values(&mut self, count: u32, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.unit() * scale).collect()
    }

    /// A number from -1 to 1.
    #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Network, graph};

    #[test]
    fn inputs_and_outputs_are_in_the_order_that_is_promised() {
        let graph = graph(Network::TwoState, true, 16).expect("it has one");
        assert_eq!(graph.inputs().map(|(name, _)| name).collect::<Vec<_>>(), ["INPUT", "ZETA_STATE", "ALPHA_STATE"]);
        let outputs: Vec<_> = graph.outputs().map(|(name, tensor)| (name, tensor.shape.to_string())).collect();
        let expected = [("OUTPUT", "[batch, 16]"), ("COUNT", "[batch, 1]"), ("ZETA_STATE_OUT", "[batch, 2]")];
        assert_eq!(outputs[..3], expected.map(|(name, shape)| (name, shape.to_owned())));
        assert_eq!(outputs[3], ("ALPHA_STATE_OUT", "[batch, 5]".to_owned()));
    }

    #[test]
    fn a_width_that_no_network_has_is_rejected() {
        for width in [0, 1025] {
            let rejection = graph(Network::Gru, true, width).expect_err("it is rejected");
            assert_eq!(rejection, format!("a network of {width} elements: INPUT has 1 to 1024"));
        }
    }
}
