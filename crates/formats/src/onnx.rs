//! ONNX: a `ModelProto`.
//!
//! Operator set 13 (IR 8), and 20 (IR 9) where texts are read, because before that there is no way to ask whether a text is a number.

mod layers;
mod proto;

use prost::Message as _;

use crate::{
    decimal,
    element::{ElementType, Scalar},
    graph::{Graph, Node, Operation, Tensor, Value},
    shape::Dim,
    widening::widened,
};

/// The file of a graph, which keeps no state.
pub(crate) fn model(graph: &Graph) -> Result<Vec<u8>, String> {
    if graph.has_state() {
        return Err(
            "ONNX: a graph keeps nothing from one execution to the next; let the server keep the state (implicit state)"
                .to_owned(),
        );
    }
    // Of these onnxruntime has kernels on a CPU for `Add`, `Mul`, `Where`, `CumSum` and `Expand`.
    let graph = widened(graph, ElementType::widened);
    let reads_texts = graph.nodes.iter().any(|node| node.operation == Operation::Parse);
    let (ir_version, version) = if reads_texts { (9, 20) } else { (8, 13) };
    let written = proto::Graph { name: graph.name.clone(), ..proto::Graph::default() };
    let model = proto::Model {
        ir_version,
        producer_name: "sequence-stress".into(),
        graph: Some(Writer { graph: &graph, written }.graph()),
        opset_import: vec![proto::OperatorSet { domain: String::new(), version }],
    };
    Ok(model.encode_to_vec())
}

struct Writer<'a> {
    graph: &'a Graph,
    written: proto::Graph,
}

impl Writer<'_> {
    fn graph(mut self) -> proto::Graph {
        for (value, node) in self.graph.values() {
            self.node(value, node);
        }
        for (name, value) in &self.graph.outputs {
            // Two outputs may be one value, and each needs a name of its own.
            self.operator("Identity", &[self.graph.value_name(*value)], name.clone(), Vec::new());
        }
        self.written.input = self.graph.inputs().map(|(name, tensor)| described(name, tensor)).collect();
        self.written.output = self.graph.outputs().map(|(name, tensor)| described(name, tensor)).collect();
        self.written
    }

    fn node(&mut self, value: Value, node: &Node) {
        let made = self.graph.value_name(value);
        let operands: Vec<_> = node.operands.iter().map(|operand| self.graph.value_name(*operand)).collect();
        let element = node.tensor.element;
        match &node.operation {
            Operation::Input(_) => {}
            Operation::Constant(scalar) => self.initializer(made, element, scalar),
            Operation::Cast | Operation::Show => self.cast(&operands, made, element),
            Operation::Add => self.operator("Add", &operands, made, Vec::new()),
            Operation::Multiply => self.operator("Mul", &operands, made, Vec::new()),
            Operation::Not => self.operator("Not", &operands, made, Vec::new()),
            Operation::And => self.operator("And", &operands, made, Vec::new()),
            Operation::Select => self.operator("Where", &operands, made, Vec::new()),
            Operation::RowSum => self.row_sum(node.operands[0], made),
            Operation::Spread => self.spread(&operands, made),
            Operation::Parse => self.parse(&operands[0], made, element),
            Operation::Read(_) => unreachable!("a graph with state was rejected"),
            Operation::Weights(_, bytes) => self.weights(made, &node.tensor, bytes),
            Operation::Layer(layer) => self.layer(layer, &operands, made),
        }
    }

    fn operator(&mut self, kind: &str, input: &[String], output: String, attribute: Vec<proto::Attribute>) {
        let node = proto::Node {
            name: format!("{output}.{kind}"),
            input: input.to_vec(),
            output: vec![output],
            op_type: kind.into(),
            attribute,
        };
        self.written.node.push(node);
    }

    fn cast(&mut self, operands: &[String], made: String, to: ElementType) {
        self.operator("Cast", operands, made, vec![proto::Attribute::integer("to", to.row().onnx.into())]);
    }

    /// A constant of one element.
    fn initializer(&mut self, name: String, element: ElementType, scalar: &Scalar) {
        let bytes = scalar.bytes(element).expect("the builder checked it");
        let (raw_data, string_data) =
            if element == ElementType::Text { (None, vec![bytes]) } else { (Some(bytes), Vec::new()) };
        let tensor = proto::Tensor { dims: Vec::new(), data_type: element.row().onnx, string_data, name, raw_data };
        self.written.initializer.push(tensor);
    }

    fn row_sum(&mut self, of: Value, made: String) {
        let tensor = self.graph.tensor(of);
        let axes: Vec<_> = tensor.shape.row_axes().collect();
        if tensor.element.range().is_some() {
            return self.whole_row_sum(of, &axes, &made);
        }
        let all = format!("{made}.axes");
        self.integers(all.clone(), &axes);
        let keeps = proto::Attribute::integer("keepdims", 1);
        self.operator("ReduceSum", &[self.graph.value_name(of), all], made, vec![keeps]);
    }

    /// The last of the partial sums, because onnxruntime's `ReduceSum` adds whole numbers as floating-point ones, which neither wrap
    /// nor have 64 bits. A row needs an element for that.
    fn whole_row_sum(&mut self, of: Value, axes: &[i64], made: &str) {
        let last = format!("{made}.last");
        self.integers(last.clone(), &[-1]);
        let mut summed = self.graph.value_name(of);
        for axis in axes {
            let [along, partial] = ["axis", "partial"].map(|part| format!("{made}.{part}.{axis}"));
            self.initializer(along.clone(), ElementType::Int64, &Scalar::Whole((*axis).into()));
            self.operator("CumSum", &[summed, along], partial.clone(), Vec::new());
            summed = if Some(axis) == axes.last() { made.to_owned() } else { format!("{made}.sum.{axis}") };
            let from = proto::Attribute::integer("axis", *axis);
            self.operator("Gather", &[partial, last.clone()], summed.clone(), vec![from]);
        }
    }

    /// A constant list.
    fn integers(&mut self, name: String, numbers: &[i64]) {
        self.written.initializer.push(proto::Tensor {
            dims: vec![i64::try_from(numbers.len()).expect("a list is short")],
            data_type: ElementType::Int64.row().onnx,
            name,
            raw_data: Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect()),
            ..proto::Tensor::default()
        });
    }

    fn spread(&mut self, operands: &[String], made: String) {
        let shape = format!("{made}.shape");
        self.operator("Shape", &operands[1..], shape.clone(), Vec::new());
        self.operator("Expand", &[operands[0].clone(), shape], made, Vec::new());
    }

    /// What is no number is put aside before the cast, which would fail at it.
    fn parse(&mut self, text: &String, made: String, element: ElementType) {
        let [is_number, zero, number] = ["is_number", "zero", "number"].map(|part| format!("{made}.{part}"));
        let (least, greatest) = element.range().expect("the builder takes whole numbers alone");
        let pattern = proto::Attribute::text("pattern", &decimal::pattern(least, greatest));
        self.operator("RegexFullMatch", std::slice::from_ref(text), is_number.clone(), vec![pattern]);
        self.initializer(zero.clone(), ElementType::Text, &Scalar::Text("0".into()));
        self.operator("Where", &[is_number, text.clone(), zero], number.clone(), Vec::new());
        self.cast(&[number], made, element);
    }
}

fn described(name: &str, tensor: &Tensor) -> proto::ValueInfo {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => proto::Size::Fixed((*size).into()),
        Dim::Batch => proto::Size::Named("batch".into()),
        Dim::Open => proto::Size::Named("elements".into()),
    };
    let dim = tensor.shape.dims().iter().map(|dim| proto::Dimension { size: Some(size(dim)) }).collect();
    let tensor = proto::TensorType { elem_type: tensor.element.row().onnx, shape: Some(proto::Shape { dim }) };
    proto::ValueInfo { name: name.into(), kind: Some(proto::Type { tensor: Some(tensor) }) }
}

#[cfg(test)]
mod tests {
    use super::model;
    use crate::formulas::{Formula, Options, graph};

    #[test]
    fn a_graph_with_state_is_rejected() {
        let stateful = graph(Formula::Stateful { initial: 0 }, &Options::default()).expect("it has one");
        let rejection = model(&stateful).expect_err("it is rejected");
        assert_eq!(
            rejection,
            "ONNX: a graph keeps nothing from one execution to the next; let the server keep the state (implicit state)"
        );
    }
}
