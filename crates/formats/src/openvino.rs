//! OpenVINO IR, version 11: an XML of layers and the edges between them, and a file of constants.

mod document;

use crate::{
    element::{ElementType, Scalar},
    graph::{Graph, Kept, Node, Operation, Tensor, Value},
    shape::{Dim, Shape},
    widening::widened,
};
use document::{Document, Layer, Port, names, sizes};

const BROADCAST: &str = "auto_broadcast=\"numpy\"";

/// The files of a graph, which has no texts: the XML, and the constants.
pub(crate) fn model(graph: &Graph) -> Result<(String, Vec<u8>), String> {
    if graph.elements().any(|element| element.row().openvino.is_none()) {
        return Err("OpenVINO IR: its operations neither read nor write numbers as texts".to_owned());
    }
    let graph = widened(graph, computed_in);
    let writer = Writer { graph: &graph, document: Document::default(), values: Vec::new(), kept: Vec::new() };
    Ok(writer.model())
}

/// The types that OpenVINO's CPU plugin computes in and can keep: whatever a file says, it has at most 32 bits. Of the smaller types it
/// takes the nearest number where one is too large, unless they are computed in these and cast.
fn computed_in(element: ElementType) -> ElementType {
    if element.range().is_some() {
        ElementType::Int32
    } else if element.is_number() {
        ElementType::Fp32
    } else {
        element
    }
}

struct Writer<'a> {
    graph: &'a Graph,
    document: Document,
    /// Where each value comes out.
    values: Vec<Port>,
    /// All that each variable held before, in the order of the variables, which is that of their reads.
    kept: Vec<Port>,
}

impl Writer<'_> {
    fn model(mut self) -> (String, Vec<u8>) {
        for node in &self.graph.nodes {
            let port = self.node(node);
            self.values.push(port);
        }
        for (name, value) in &self.graph.outputs {
            self.result(name, self.port(*value));
        }
        for (index, kept) in self.graph.variables.iter().enumerate() {
            self.assign(index, kept);
        }
        self.document.finish(&self.graph.name)
    }

    fn port(&self, value: Value) -> Port {
        self.values[value.0].clone()
    }

    fn node(&mut self, node: &Node) -> Port {
        let operands: Vec<_> = node.operands.iter().map(|operand| self.port(*operand)).collect();
        let tensor = node.tensor.clone();
        match &node.operation {
            Operation::Input(name) => self.parameter(name, tensor),
            Operation::Constant(scalar) => self.document.constant(tensor, &scalar_bytes(scalar, node.tensor.element)),
            Operation::Cast => self.cast(&operands[0], tensor),
            Operation::Add => self.numpy("Add", &operands, tensor),
            Operation::Multiply => self.numpy("Multiply", &operands, tensor),
            Operation::Not => self.layer("LogicalNot", "opset1", "", &operands, tensor),
            Operation::And => self.numpy("LogicalAnd", &operands, tensor),
            Operation::Select => self.select(&operands, tensor),
            Operation::RowSum => self.row_sum(&operands[0], tensor),
            Operation::Spread => self.spread(&operands[0], &operands[1], tensor),
            Operation::Read(variable) => self.read(*variable, &operands[0]),
            Operation::Parse | Operation::Show => unreachable!("a graph with texts was rejected"),
            Operation::Weights(..) | Operation::Layer(_) => unreachable!("a network was rejected"),
        }
    }

    fn layer(&mut self, kind: &str, set: &str, data: &str, operands: &[Port], tensor: Tensor) -> Port {
        self.document.add(Layer { kind, set, data, name: None }, operands, tensor)
    }

    fn numpy(&mut self, kind: &str, operands: &[Port], tensor: Tensor) -> Port {
        self.layer(kind, "opset1", BROADCAST, operands, tensor)
    }

    fn parameter(&mut self, name: &str, tensor: Tensor) -> Port {
        let data = format!("shape=\"{}\" element_type=\"{}\"", sizes(&tensor.shape), names(tensor.element).0);
        self.document.add(Layer { kind: "Parameter", set: "opset1", data: &data, name: Some(name) }, &[], tensor)
    }

    /// A result has a name of its own by a layer of its own, which does nothing: two may be of one value.
    fn result(&mut self, name: &str, of: Port) {
        let data = format!("destination_type=\"{}\"", names(of.tensor.element).0);
        let tensor = of.tensor.clone();
        let layer = Layer { kind: "Convert", set: "opset1", data: &data, name: Some(name) };
        let named = self.document.add(layer, &[of], tensor);
        self.document.add_last(Layer { kind: "Result", set: "opset1", data: "", name: None }, &[named]);
    }

    fn cast(&mut self, of: &Port, tensor: Tensor) -> Port {
        let data = format!("destination_type=\"{}\"", names(tensor.element).0);
        let of = self.low_bits(of, tensor.element);
        self.layer("Convert", "opset1", &data, &[of], tensor)
    }

    /// A value within the range of a type of at most 16 bits, which has the same low bits: up to OpenVINO 2024 `Convert` takes the nearest
    /// number in place of these.
    fn low_bits(&mut self, of: &Port, element: ElementType) -> Port {
        let width = |(least, greatest): (i128, i128)| (greatest - least).count_ones();
        let (Some(from), Some(to)) = (of.tensor.element.range(), element.range()) else { return of.clone() };
        if width(to) > 16 || width(from) <= width(to) {
            return of.clone();
        }
        let (least, greatest) = to;
        let mask = self.number(of.tensor.element, greatest - least);
        let low = self.layer("BitwiseAnd", "opset13", BROADCAST, &[of.clone(), mask], of.tensor.clone());
        if least == 0 {
            return low;
        }
        // The highest bit counts as negative.
        let sign = self.number(of.tensor.element, -least);
        let high = self.layer("BitwiseAnd", "opset13", BROADCAST, &[low.clone(), sign], of.tensor.clone());
        let rest = self.numpy("Subtract", &[low, high.clone()], of.tensor.clone());
        self.numpy("Subtract", &[rest, high], of.tensor.clone())
    }

    fn number(&mut self, element: ElementType, number: i128) -> Port {
        self.document.constant(Tensor::new(element, Shape::default()), &scalar_bytes(&Scalar::Whole(number), element))
    }

    /// `otherwise + condition * (then - otherwise)`, of whole numbers: the CPU plugin may choose among them as floating-point ones, of
    /// 24 bits.
    fn select(&mut self, operands: &[Port], tensor: Tensor) -> Port {
        let [condition, then, otherwise] = operands else { unreachable!("there are three") };
        if tensor.element.range().is_none() {
            return self.numpy("Select", operands, tensor);
        }
        let with = |shape: &Shape| Tensor::new(tensor.element, shape.clone());
        let count = self.cast(condition, with(&condition.tensor.shape));
        let apart = then.tensor.shape.joined(&otherwise.tensor.shape).expect("the builder checked it");
        let apart = self.numpy("Subtract", &[then.clone(), otherwise.clone()], with(&apart));
        let chosen = self.numpy("Multiply", &[count, apart], tensor.clone());
        self.numpy("Add", &[otherwise.clone(), chosen], tensor)
    }

    fn row_sum(&mut self, of: &Port, tensor: Tensor) -> Port {
        let axes: Vec<_> = of.tensor.shape.row_axes().collect();
        if tensor.element.range().is_some() {
            return self.whole_row_sum(of, &axes);
        }
        let axes = self.document.integers(&axes);
        self.layer("ReduceSum", "opset1", "keep_dims=\"true\"", &[of.clone(), axes], tensor)
    }

    /// The last of the partial sums, because the CPU plugin's `ReduceSum` adds whole numbers as floating-point ones. A row needs an
    /// element for that.
    fn whole_row_sum(&mut self, of: &Port, axes: &[i64]) -> Port {
        axes.iter().fold(of.clone(), |summed, axis| {
            let along = self.number(ElementType::Int64, (*axis).into());
            let partial = self.layer("CumSum", "opset3", "", &[summed.clone(), along.clone()], summed.tensor.clone());
            let last = self.document.integers(&[-1]);
            let size = |(index, dim): (i64, &Dim)| if index == *axis { Dim::Fixed(1) } else { *dim };
            let dims = (0..).zip(summed.tensor.shape.dims()).map(size).collect();
            let tensor = Tensor::new(summed.tensor.element, Shape::new(dims));
            self.layer("Gather", "opset8", "batch_dims=\"0\"", &[partial, last, along], tensor)
        })
    }

    fn shape_of(&mut self, of: &Port) -> Port {
        let rank = u32::try_from(of.tensor.shape.dims().len()).expect("axes are few");
        let tensor = Tensor::new(ElementType::Int64, Shape::fixed([rank]));
        self.layer("ShapeOf", "opset3", "output_type=\"i64\"", std::slice::from_ref(of), tensor)
    }

    fn spread(&mut self, of: &Port, like: &Port, tensor: Tensor) -> Port {
        let shape = self.shape_of(like);
        self.layer("Broadcast", "opset3", "mode=\"numpy\"", &[of.clone(), shape], tensor)
    }

    fn read(&mut self, variable: usize, like: &Port) -> Port {
        let kept = &self.graph.variables[variable];
        let whole = Tensor::new(kept.element, Shape::fixed(kept.dims()));
        let initial = self.document.constant(whole.clone(), &kept.bytes());
        let all = self.layer("ReadValue", "opset6", &variable_data(kept), &[initial], whole);
        self.kept.push(all.clone());
        if kept.slots.is_none() {
            return all;
        }
        let rows = self.rows(like);
        let zero = self.document.integers(&[0]);
        self.slice(all, zero, rows)
    }

    /// How many rows there are, as a list of one.
    fn rows(&mut self, like: &Port) -> Port {
        let shape = self.shape_of(like);
        let [zero, one] = [0, 1].map(|number| self.document.integers(&[number]));
        let axis = self.document.integers(&[0]);
        let tensor = Tensor::new(ElementType::Int64, Shape::one(false));
        let operands = [shape, zero, one.clone(), one, axis];
        self.layer("Slice", "opset8", "", &operands, tensor)
    }

    /// The rows from one number to another.
    fn slice(&mut self, of: Port, from: Port, to: Port) -> Port {
        let tensor = Tensor::new(of.tensor.element, Shape::one(true));
        let [axis, step] = [0, 1].map(|number| self.document.integers(&[number]));
        self.layer("Slice", "opset8", "", &[of, from, to, step, axis], tensor)
    }

    /// The rows that were in the batch, and behind them those that were not, as they were.
    fn assign(&mut self, index: usize, kept: &Kept) {
        let mut next = self.port(kept.next);
        if let Some(slots) = kept.slots {
            let all = self.kept[index].clone();
            let whole = all.tensor.clone();
            let rows = self.rows(&next);
            let end = self.document.integers(&[slots.into()]);
            let others = self.slice(all, rows, end);
            next = self.layer("Concat", "opset1", "axis=\"0\"", &[next, others], whole);
        }
        self.document
            .add_last(Layer { kind: "Assign", set: "opset6", data: &variable_data(kept), name: None }, &[next]);
    }
}

fn variable_data(kept: &Kept) -> String {
    let (name, element) = (&kept.name, names(kept.element).0);
    let sizes: Vec<_> = kept.dims().iter().map(u32::to_string).collect();
    format!("variable_id=\"{name}\" variable_type=\"{element}\" variable_shape=\"{}\"", sizes.join(","))
}

fn scalar_bytes(scalar: &Scalar, element: ElementType) -> Vec<u8> {
    scalar.bytes(element).expect("the builder checked it")
}

#[cfg(test)]
mod tests {
    use super::model;
    use crate::{
        element::ElementType::Text,
        formulas::{Formula, Options, graph},
    };

    #[test]
    fn texts_are_rejected() {
        for options in
            [Options { element: Text, ..Options::default() }, Options { corrid: Some(Text), ..Options::default() }]
        {
            let graph = graph(Formula::Stateless, &options).expect("it has one");
            let rejection = model(&graph).expect_err("it is rejected");
            assert_eq!(rejection, "OpenVINO IR: its operations neither read nor write numbers as texts");
        }
    }
}
