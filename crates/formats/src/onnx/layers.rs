//! The layers of neural networks as operators.

use super::{Writer, proto};
use crate::graph::{Layer, Tensor};

impl Writer<'_> {
    /// Constants of FP32.
    pub(super) fn weights(&mut self, name: String, tensor: &Tensor, bytes: &[u8]) {
        self.written.initializer.push(proto::Tensor {
            dims: tensor.shape.dims().iter().map(|dim| dim.size()).collect(),
            data_type: tensor.element.row().onnx,
            name,
            raw_data: Some(bytes.to_vec()),
            ..proto::Tensor::default()
        });
    }

    pub(super) fn layer(&mut self, layer: &Layer, operands: &[String], made: String) {
        let number = |name: &str, value: u32| proto::Attribute::integer(name, value.into());
        match layer {
            Layer::MatMul => self.operator("MatMul", operands, made, Vec::new()),
            Layer::Tanh => self.operator("Tanh", operands, made, Vec::new()),
            Layer::Concat(axis) => {
                self.operator("Concat", operands, made, vec![proto::Attribute::integer("axis", place(*axis))]);
            }
            Layer::Slice { axis, from, to } => {
                let bounds = [("from", i64::from(*from)), ("to", i64::from(*to)), ("axis", place(*axis))];
                let bounds = bounds.map(|(part, number)| self.list(&made, part, &[number]));
                self.operator("Slice", &[operands, &bounds].concat(), made, Vec::new());
            }
            Layer::Unsqueeze(axis) => self.with_axis("Unsqueeze", operands, made, *axis),
            Layer::Squeeze(axis) => self.with_axis("Squeeze", operands, made, *axis),
            Layer::Conv { groups, size } => {
                // All of these have defaults, which not every reader knows for convolutions along one axis.
                let lists = [
                    ("dilations", vec![1]),
                    ("kernel_shape", vec![i64::from(*size)]),
                    ("pads", vec![0, 0]),
                    ("strides", vec![1]),
                ];
                let lists = lists.map(|(name, values)| proto::Attribute::integers(name, &values));
                self.operator("Conv", operands, made, [vec![number("group", *groups)], lists.to_vec()].concat());
            }
            Layer::Gru { hidden } => {
                // PyTorch and cuDNN have the reset behind the product alone.
                let attributes = vec![number("hidden_size", *hidden), number("linear_before_reset", 1)];
                self.recurrent("GRU", operands, vec![made], attributes);
            }
            Layer::Lstm { hidden } => {
                let outputs = vec![made.clone(), cell(&made)];
                self.recurrent("LSTM", operands, outputs, vec![number("hidden_size", *hidden)]);
            }
            Layer::CellOf => self.operator("Identity", &[cell(&operands[0])], made, Vec::new()),
        }
    }

    /// The states after the step are the outputs behind the one of all steps, which nobody reads.
    fn recurrent(&mut self, kind: &str, operands: &[String], states: Vec<String>, attribute: Vec<proto::Attribute>) {
        let (of_states, weights) = (&operands[4..], &operands[..4]);
        let name = format!("{}.{kind}", states[0]);
        // How long each sequence is would stand in between: one step.
        let input = [weights, &[String::new()], of_states].concat();
        let output = [vec![String::new()], states].concat();
        self.written.node.push(proto::Node { name, input, output, op_type: kind.into(), attribute });
    }

    fn with_axis(&mut self, kind: &str, operands: &[String], made: String, axis: usize) {
        let list = self.list(&made, "axes", &[place(axis)]);
        self.operator(kind, &[operands[0].clone(), list], made, Vec::new());
    }

    /// A constant list, for an operator, and its name.
    fn list(&mut self, made: &str, part: &str, numbers: &[i64]) -> String {
        let name = format!("{made}.{part}");
        self.integers(name.clone(), numbers);
        name
    }
}

/// What the cell of an LSTM is called.
fn cell(lstm: &str) -> String {
    format!("{lstm}.cell")
}

fn place(axis: usize) -> i64 {
    i64::try_from(axis).expect("axes are few")
}
