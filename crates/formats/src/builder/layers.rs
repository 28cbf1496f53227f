//! The layers of neural networks, which compute in FP32.

use super::{GraphBuilder, Made, check_name};
use crate::{
    element::ElementType::Fp32,
    graph::{Layer, Operation, Tensor, Value},
    shape::{Dim, Shape},
};

impl GraphBuilder {
    /// Constants of FP32 with axes of these sizes, which files have by this name.
    ///
    /// # Errors
    /// When the name is not two names with a dot between them, or there are more or fewer values than the axes have.
    pub fn weights(&mut self, name: &str, sizes: &[u32], values: &[f32]) -> Made {
        let (layer, part) = name.split_once('.').ok_or_else(|| format!("weights '{name}': call them LAYER.PART"))?;
        // Values that have no name of their own are called by this one and their number.
        if layer == "value" {
            return Err(format!("weights '{name}': 'value' is a name of the files' own"));
        }
        check_name(layer).and_then(|()| check_name(part))?;
        let known =
            |node: &crate::graph::Node| matches!(&node.operation, Operation::Weights(known, _) if known == name);
        if self.0.nodes.iter().any(known) {
            return Err(format!("there are two weights of the name '{name}'"));
        }
        let count: u64 = sizes.iter().map(|size| u64::from(*size)).product();
        if u64::try_from(values.len()) != Ok(count) {
            return Err(format!("weights '{name}': {} values, and the axes have {count}", values.len()));
        }
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::new(Fp32, Shape::fixed(sizes.iter().copied()));
        Ok(self.0.add(Operation::Weights(name.to_owned(), bytes), &[], tensor))
    }

    /// The product of rows and a matrix: `[…, n]` and `[n, m]` make `[…, m]`.
    ///
    /// # Errors
    /// When the axes do not fit.
    pub fn matmul(&mut self, rows: Value, matrix: Value) -> Made {
        let (of_rows, of_matrix) = (self.floats("matmul", rows)?, self.floats("matmul", matrix)?);
        match (of_rows.split_last(), &of_matrix[..]) {
            (Some((inner, outer)), [height, width]) if inner == height => {
                let dims = [outer, &[*width]].concat();
                Ok(self.layer(Layer::MatMul, &[rows, matrix], dims))
            }
            _ => Err(format!("matmul: the shapes {} and {} do not fit", Shape::new(of_rows), Shape::new(of_matrix))),
        }
    }

    /// The hyperbolic tangent of each element.
    ///
    /// # Errors
    /// When it is not of FP32.
    pub fn tanh(&mut self, value: Value) -> Made {
        let dims = self.floats("tanh", value)?;
        Ok(self.layer(Layer::Tanh, &[value], dims))
    }

    /// Two values one behind the other along an axis.
    ///
    /// # Errors
    /// When they have no such axis of a fixed size, or differ in another one.
    pub fn concat(&mut self, first: Value, second: Value, axis: usize) -> Made {
        let (one, other) = (self.floats("concat", first)?, self.floats("concat", second)?);
        let fits = one.len() == other.len() && (0..one.len()).all(|place| place == axis || one[place] == other[place]);
        let (Some(Dim::Fixed(long)), Some(Dim::Fixed(more)), true) = (one.get(axis), other.get(axis), fits) else {
            let (one, other) = (Shape::new(one), Shape::new(other));
            return Err(format!("concat along axis {axis}: the shapes {one} and {other} do not fit"));
        };
        let mut dims = one.clone();
        dims[axis] = Dim::Fixed(long + more);
        Ok(self.layer(Layer::Concat(axis), &[first, second], dims))
    }

    /// Along an axis, the elements from number `from` on, and before `to`.
    ///
    /// # Errors
    /// When there is no such axis of a fixed size, or there are no such elements.
    pub fn slice(&mut self, value: Value, axis: usize, from: u32, to: u32) -> Made {
        let mut dims = self.floats("slice", value)?;
        match dims.get(axis) {
            Some(Dim::Fixed(size)) if from < to && to <= *size => dims[axis] = Dim::Fixed(to - from),
            _ => return Err(format!("slice {from} to {to} along axis {axis}: not of {}", Shape::new(dims))),
        }
        Ok(self.layer(Layer::Slice { axis, from, to }, &[value], dims))
    }

    /// `value` with a new axis of size 1 at this place of the result.
    ///
    /// # Errors
    /// When the result would have no such place.
    pub fn unsqueeze(&mut self, value: Value, axis: usize) -> Made {
        let mut dims = self.floats("unsqueeze", value)?;
        if axis > dims.len() {
            return Err(format!("unsqueeze: {} has no place for an axis {axis}", Shape::new(dims)));
        }
        dims.insert(axis, Dim::Fixed(1));
        Ok(self.layer(Layer::Unsqueeze(axis), &[value], dims))
    }

    /// `value` without this axis.
    ///
    /// # Errors
    /// When there is no such axis, or its size is not 1.
    pub fn squeeze(&mut self, value: Value, axis: usize) -> Made {
        let mut dims = self.floats("squeeze", value)?;
        if dims.get(axis) != Some(&Dim::Fixed(1)) {
            return Err(format!("squeeze: axis {axis} of {} is not of size 1", Shape::new(dims)));
        }
        dims.remove(axis);
        Ok(self.layer(Layer::Squeeze(axis), &[value], dims))
    }

    /// A convolution along the last axis: `[rows, groups * n, long]` by `[m, n, size]`, with `[m]` added, makes
    /// `[rows, m, long - size + 1]`.
    ///
    /// # Errors
    /// When the axes do not fit.
    pub fn conv(&mut self, frames: Value, kernel: Value, bias: Value, groups: u32) -> Made {
        let dims = [frames, kernel, bias].map(|value| self.floats("conv", value));
        let [frames_dims, kernel_dims, bias_dims] = dims;
        let (of_frames, of_kernel, of_bias) = (frames_dims?, kernel_dims?, bias_dims?);
        if let ([rows, Dim::Fixed(given), Dim::Fixed(long)], [made, Dim::Fixed(each), Dim::Fixed(size)], [added]) =
            (&of_frames[..], &of_kernel[..], &of_bias[..])
            && u64::from(groups) * u64::from(*each) == u64::from(*given)
            && (1..=*long).contains(size)
            && made == added
        {
            let dims = vec![*rows, *made, Dim::Fixed(long - size + 1)];
            return Ok(self.layer(Layer::Conv { groups, size: *size }, &[frames, kernel, bias], dims));
        }
        let [frames, kernel, bias] = [of_frames, of_kernel, of_bias].map(Shape::new);
        Err(format!("conv of {groups} groups: the shapes {frames}, {kernel} and {bias} do not fit"))
    }

    /// Gated recurrent units over one step: `input` of `[1, rows, n]` and the state before it of `[1, rows, hidden]`, by the weights
    /// `[1, 3 * hidden, n]` and `[1, 3 * hidden, hidden]` and the biases of both, `[1, 6 * hidden]`. The gates are in the order update,
    /// reset, new, and the reset comes behind the product. The state after the step.
    ///
    /// # Errors
    /// When the axes do not fit.
    pub fn gru(&mut self, input: Value, state: Value, weights: [Value; 3]) -> Made {
        let (hidden, dims) = self.recurrent("gru", 3, input, state, weights)?;
        let [of_input, of_state, bias] = weights;
        Ok(self.layer(Layer::Gru { hidden }, &[input, of_input, of_state, bias, state], dims))
    }

    /// Long short-term memory over one step, as [`Self::gru`]; the gates are in the order input, output, forget, cell. The hidden state
    /// and the cell after the step.
    ///
    /// # Errors
    /// When the axes do not fit.
    pub fn lstm(
        &mut self,
        input: Value,
        hidden: Value,
        cell: Value,
        weights: [Value; 3],
    ) -> Result<(Value, Value), String> {
        let (size, dims) = self.recurrent("lstm", 4, input, hidden, weights)?;
        if self.floats("lstm", cell)? != dims {
            return Err("lstm: the hidden state and the cell have to be of one shape".to_owned());
        }
        let [of_input, of_state, bias] = weights;
        let operands = [input, of_input, of_state, bias, hidden, cell];
        let next = self.layer(Layer::Lstm { hidden: size }, &operands, dims.clone());
        Ok((next, self.layer(Layer::CellOf, &[next], dims)))
    }

    /// The size of the state, and the axes of the state, of a layer with as many gates.
    fn recurrent(
        &self,
        what: &str,
        gates: u32,
        input: Value,
        state: Value,
        weights: [Value; 3],
    ) -> Result<(u32, Vec<Dim>), String> {
        let dims = [input, state, weights[0], weights[1], weights[2]].map(|value| self.floats(what, value));
        let dims = dims.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let ([one, rows, Dim::Fixed(width)], [_, _, Dim::Fixed(hidden)]) = (&dims[0][..], &dims[1][..])
            && *one == Dim::Fixed(1)
            && dims[1] == [*one, *rows, Dim::Fixed(*hidden)]
            && dims[2] == [1, gates * hidden, *width].map(Dim::Fixed)
            && dims[3] == [1, gates * hidden, *hidden].map(Dim::Fixed)
            && dims[4] == [1, 2 * gates * hidden].map(Dim::Fixed)
        {
            return Ok((*hidden, dims[1].clone()));
        }
        let shapes: Vec<_> = dims.into_iter().map(|dims| Shape::new(dims).to_string()).collect();
        Err(format!("{what}: the shapes {} do not fit", shapes.join(", ")))
    }

    /// The axes of a value, which has to be of FP32.
    fn floats(&self, what: &str, value: Value) -> Result<Vec<Dim>, String> {
        let tensor = self.tensor(value)?;
        if tensor.element != Fp32 {
            return Err(format!("{what}: {} is not {Fp32}", tensor.element));
        }
        Ok(tensor.shape.dims().to_vec())
    }

    fn layer(&mut self, layer: Layer, operands: &[Value], dims: Vec<Dim>) -> Value {
        self.0.add(Operation::Layer(layer), operands, Tensor::new(Fp32, Shape::new(dims)))
    }
}

#[cfg(test)]
mod tests {
    use super::GraphBuilder;
    use crate::{
        element::ElementType::{Fp32, Int32},
        graph::{Tensor, Value},
        shape::{Dim, Shape},
    };

    /// The error of whatever is made of FP32[batch, 4] and a matrix [4, 2].
    fn rejected<T: std::fmt::Debug>(make: impl FnOnce(&mut GraphBuilder, Value, Value) -> Result<T, String>) -> String {
        let mut graph = GraphBuilder::new("test").expect("a name");
        let shape = Shape::new(vec![Dim::Batch, Dim::Fixed(4)]);
        let input = graph.input("A", Tensor::new(Fp32, shape)).expect("a good input");
        let matrix = graph.weights("a.matrix", &[4, 2], &[0.0; 8]).expect("good weights");
        make(&mut graph, input, matrix).expect_err("it is rejected")
    }

    #[test]
    fn shapes_that_do_not_fit_are_rejected() {
        assert_eq!(
            rejected(|graph, input, matrix| graph.matmul(matrix, input)),
            "matmul: the shapes [4, 2] and [batch, 4] do not fit"
        );
        assert_eq!(
            rejected(|graph, input, matrix| graph.concat(input, matrix, 0)),
            "concat along axis 0: the shapes [batch, 4] and [4, 2] do not fit"
        );
        assert_eq!(
            rejected(|graph, input, _| graph.slice(input, 1, 3, 5)),
            "slice 3 to 5 along axis 1: not of [batch, 4]"
        );
        assert_eq!(
            rejected(|graph, input, _| graph.squeeze(input, 0)),
            "squeeze: axis 0 of [batch, 4] is not of size 1"
        );
        assert_eq!(
            rejected(|graph, input, _| graph.unsqueeze(input, 3)),
            "unsqueeze: [batch, 4] has no place for an axis 3"
        );
        assert_eq!(
            rejected(|graph, input, matrix| graph.conv(input, matrix, matrix, 1)),
            "conv of 1 groups: the shapes [batch, 4], [4, 2] and [4, 2] do not fit"
        );
        assert_eq!(
            rejected(|graph, input, matrix| graph.gru(input, input, [matrix; 3])),
            "gru: the shapes [batch, 4], [batch, 4], [4, 2], [4, 2], [4, 2] do not fit"
        );
    }

    #[test]
    fn weights_have_a_name_and_as_many_values_as_their_axes() {
        assert_eq!(rejected(|graph, _, _| graph.weights("b", &[1], &[0.0])), "weights 'b': call them LAYER.PART");
        assert_eq!(
            rejected(|graph, _, _| graph.weights("value.b", &[1], &[0.0])),
            "weights 'value.b': 'value' is a name of the files' own"
        );
        assert_eq!(
            rejected(|graph, _, _| graph.weights("a.matrix", &[1], &[0.0])),
            "there are two weights of the name 'a.matrix'"
        );
        assert_eq!(
            rejected(|graph, _, _| graph.weights("a.b", &[2, 2], &[0.0])),
            "weights 'a.b': 1 values, and the axes have 4"
        );
    }

    #[test]
    fn layers_are_of_fp32() {
        let whole = rejected(|graph, _, _| {
            let whole = graph.input("B", Tensor::new(Int32, Shape::one(true))).expect("a good input");
            graph.tanh(whole)
        });
        assert_eq!(whole, "tanh: INT32 is not FP32");
    }
}
