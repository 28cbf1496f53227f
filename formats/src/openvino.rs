//! OpenVINO IR, version 11: an XML of layers and the edges between them, and a file of constants.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    element::{ElementType, Scalar},
    error::Refusal,
    graph::{Graph, Kept, Node, Operation, Tensor, Value, Variable},
    shape::{Dim, Shape},
    widening::widened,
};

const FORMAT: &str = "OpenVINO IR";

/// The two files of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ir {
    /// `model.xml`.
    pub xml: String,
    /// `model.bin`.
    pub bin: Vec<u8>,
}

/// The files of a graph.
///
/// # Errors
/// When the graph has texts.
pub fn model(graph: &Graph) -> Result<Ir, Refusal> {
    if graph.elements().any(|element| element == ElementType::Text) {
        return Err(Refusal::new(FORMAT, "its operations neither read nor write numbers as texts"));
    }
    let graph = widened(graph, computed_in);
    Ok(Writer::new(&graph).model())
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

/// The type whose numbers are right when a graph has this one: those of more than 32 bits are computed in 32.
#[must_use]
pub fn exact_as(element: ElementType) -> ElementType {
    match element {
        ElementType::Int64 | ElementType::Uint64 => ElementType::Int32,
        ElementType::Fp64 => ElementType::Fp32,
        other => other,
    }
}

/// A type as attributes have it, and as ports have it.
fn names(element: ElementType) -> (&'static str, &'static str) {
    match element {
        ElementType::Bool => ("boolean", "BOOL"),
        ElementType::Int8 => ("i8", "I8"),
        ElementType::Int16 => ("i16", "I16"),
        ElementType::Int32 => ("i32", "I32"),
        ElementType::Int64 => ("i64", "I64"),
        ElementType::Uint8 => ("u8", "U8"),
        ElementType::Uint16 => ("u16", "U16"),
        ElementType::Uint32 => ("u32", "U32"),
        ElementType::Uint64 => ("u64", "U64"),
        ElementType::Fp16 => ("f16", "FP16"),
        ElementType::Bf16 => ("bf16", "BF16"),
        ElementType::Fp32 => ("f32", "FP32"),
        ElementType::Fp64 => ("f64", "FP64"),
        ElementType::Text => unreachable!("a graph with texts was refused"),
    }
}

/// An output port of a layer, and what comes out of it.
#[derive(Clone, Debug)]
struct Port {
    layer: usize,
    port: usize,
    tensor: Tensor,
}

struct Writer<'a> {
    graph: &'a Graph,
    layers: String,
    edges: String,
    bin: Vec<u8>,
    next: usize,
    /// Where each value comes out.
    values: Vec<Port>,
    /// All that each variable held before.
    kept: BTreeMap<usize, Port>,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            layers: String::new(),
            edges: String::new(),
            bin: Vec::new(),
            next: 0,
            values: Vec::new(),
            kept: BTreeMap::new(),
        }
    }

    fn model(mut self) -> Ir {
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
        let Self { graph, layers, edges, bin, .. } = self;
        let xml = format!(
            "<?xml version=\"1.0\"?>\n<net name=\"{}\" version=\"11\">\n<layers>\n{layers}</layers>\n<edges>\n{edges}</edges>\n</net>\n",
            graph.name
        );
        Ir { xml, bin }
    }

    fn port(&self, value: Value) -> Port {
        self.values[value.0].clone()
    }

    fn node(&mut self, node: &Node) -> Port {
        let operands: Vec<_> = node.operation.operands().into_iter().map(|operand| self.port(operand)).collect();
        let tensor = node.tensor.clone();
        match &node.operation {
            Operation::Input(name) => self.parameter(name, tensor),
            Operation::Constant(scalar) => self.constant(tensor, &scalar_bytes(scalar, node.tensor.element)),
            Operation::Cast(_) => self.cast(&operands[0], tensor),
            Operation::Add(..) => self.numpy("Add", &operands, tensor),
            Operation::Multiply(..) => self.numpy("Multiply", &operands, tensor),
            Operation::Not(_) => self.layer("LogicalNot", "opset1", "", &operands, Some(tensor)),
            Operation::And(..) => self.numpy("LogicalAnd", &operands, tensor),
            Operation::Select { .. } => self.select(&operands, tensor),
            Operation::RowSum(_) => self.row_sum(&operands[0], tensor),
            Operation::Spread(..) => self.spread(&operands[0], &operands[1], tensor),
            Operation::Read { variable, like } => self.read(*variable, &self.port(*like)),
            Operation::Parse(_) | Operation::Show(_) => unreachable!("a graph with texts was refused"),
        }
    }

    /// A layer with what goes in, and the port at which its one result comes out, if it has one.
    fn layer(&mut self, kind: &str, set: &str, data: &str, operands: &[Port], result: Option<Tensor>) -> Port {
        self.named_layer(kind, set, data, operands, result, None)
    }

    fn named_layer(
        &mut self,
        kind: &str,
        set: &str,
        data: &str,
        operands: &[Port],
        result: Option<Tensor>,
        name: Option<&str>,
    ) -> Port {
        let layer = self.next;
        self.next += 1;
        let default = format!("{kind}.{layer}");
        let known_as = name.unwrap_or(&default);
        write!(self.layers, "<layer id=\"{layer}\" name=\"{known_as}\" type=\"{kind}\" version=\"{set}\">")
            .expect(WRITABLE);
        if !data.is_empty() {
            write!(self.layers, "<data {data}/>").expect(WRITABLE);
        }
        let ports: String =
            operands.iter().enumerate().map(|(port, from)| port_xml(port, &from.tensor, None)).collect();
        if !ports.is_empty() {
            write!(self.layers, "<input>{ports}</input>").expect(WRITABLE);
        }
        let port = operands.len();
        if let Some(tensor) = &result {
            write!(self.layers, "<output>{}</output>", port_xml(port, tensor, name)).expect(WRITABLE);
        }
        self.layers.push_str("</layer>\n");
        for (to, from) in operands.iter().enumerate() {
            let (from_layer, from_port) = (from.layer, from.port);
            writeln!(
                self.edges,
                "<edge from-layer=\"{from_layer}\" from-port=\"{from_port}\" to-layer=\"{layer}\" to-port=\"{to}\"/>"
            )
            .expect(WRITABLE);
        }
        let tensor = result.unwrap_or_else(|| Tensor::new(ElementType::Bool, Shape::default()));
        Port { layer, port, tensor }
    }

    fn numpy(&mut self, kind: &str, operands: &[Port], tensor: Tensor) -> Port {
        self.layer(kind, "opset1", "auto_broadcast=\"numpy\"", operands, Some(tensor))
    }

    fn parameter(&mut self, name: &str, tensor: Tensor) -> Port {
        let sizes: Vec<_> = tensor.shape.dims().iter().map(|dim| dim.size().to_string()).collect();
        let data = format!("shape=\"{}\" element_type=\"{}\"", sizes.join(","), names(tensor.element).0);
        self.named_layer("Parameter", "opset1", &data, &[], Some(tensor), Some(name))
    }

    /// A result has a name of its own by a layer of its own, which does nothing: two may be of one value.
    fn result(&mut self, name: &str, of: Port) {
        let data = format!("destination_type=\"{}\"", names(of.tensor.element).0);
        let tensor = of.tensor.clone();
        let named = self.named_layer("Convert", "opset1", &data, &[of], Some(tensor), Some(name));
        self.layer("Result", "opset1", "", &[named], None);
    }

    fn constant(&mut self, tensor: Tensor, bytes: &[u8]) -> Port {
        // Readers want elements where their type may begin.
        self.bin.resize(self.bin.len().next_multiple_of(8), 0);
        let (offset, size, element) = (self.bin.len(), bytes.len(), names(tensor.element).0);
        self.bin.extend_from_slice(bytes);
        let sizes: Vec<_> = tensor.shape.dims().iter().map(|dim| dim.size().to_string()).collect();
        let data =
            format!("element_type=\"{element}\" shape=\"{}\" offset=\"{offset}\" size=\"{size}\"", sizes.join(","));
        self.layer("Const", "opset1", &data, &[], Some(tensor))
    }

    /// A list of numbers of 64 bits.
    fn integers(&mut self, numbers: &[i64]) -> Port {
        let length = u32::try_from(numbers.len()).expect("a list is short");
        let tensor = Tensor::new(ElementType::Int64, Shape::new(vec![Dim::Fixed(length)]));
        let bytes: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(tensor, &bytes)
    }

    fn cast(&mut self, of: &Port, tensor: Tensor) -> Port {
        let data = format!("destination_type=\"{}\"", names(tensor.element).0);
        self.layer("Convert", "opset1", &data, std::slice::from_ref(of), Some(tensor))
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
        let axes = self.integers(&axes);
        self.layer("ReduceSum", "opset1", "keep_dims=\"true\"", &[of.clone(), axes], Some(tensor))
    }

    /// The last of the partial sums, because the CPU plugin's `ReduceSum` adds whole numbers as floating-point ones. A row needs an
    /// element for that.
    fn whole_row_sum(&mut self, of: &Port, axes: &[i64]) -> Port {
        axes.iter().fold(of.clone(), |summed, axis| {
            let along = self.integer(*axis);
            let partial =
                self.layer("CumSum", "opset3", "", &[summed.clone(), along.clone()], Some(summed.tensor.clone()));
            let last = self.integers(&[-1]);
            let size = |(index, dim): (i64, &Dim)| if index == *axis { Dim::Fixed(1) } else { *dim };
            let dims = (0..).zip(summed.tensor.shape.dims()).map(size).collect();
            let tensor = Tensor::new(summed.tensor.element, Shape::new(dims));
            self.layer("Gather", "opset8", "batch_dims=\"0\"", &[partial, last, along], Some(tensor))
        })
    }

    fn integer(&mut self, number: i64) -> Port {
        self.constant(Tensor::new(ElementType::Int64, Shape::default()), &number.to_le_bytes())
    }

    fn shape_of(&mut self, of: &Port) -> Port {
        let rank = u32::try_from(of.tensor.shape.dims().len()).expect("axes are few");
        let tensor = Tensor::new(ElementType::Int64, Shape::new(vec![Dim::Fixed(rank)]));
        self.layer("ShapeOf", "opset3", "output_type=\"i64\"", std::slice::from_ref(of), Some(tensor))
    }

    fn spread(&mut self, of: &Port, like: &Port, tensor: Tensor) -> Port {
        let shape = self.shape_of(like);
        self.layer("Broadcast", "opset3", "mode=\"numpy\"", &[of.clone(), shape], Some(tensor))
    }

    fn read(&mut self, variable: Variable, like: &Port) -> Port {
        let kept = &self.graph.variables[variable.0];
        let whole = Tensor::new(kept.element, Shape::new(kept.dims().into_iter().map(Dim::Fixed).collect()));
        let initial = self.constant(whole.clone(), &kept.bytes());
        let all = self.layer("ReadValue", "opset6", &variable_data(kept), &[initial], Some(whole));
        self.kept.insert(variable.0, all.clone());
        if kept.slots.is_none() {
            return all;
        }
        let rows = self.rows(like);
        let zero = self.integers(&[0]);
        self.slice(all, zero, rows)
    }

    /// How many rows there are, as a list of one.
    fn rows(&mut self, like: &Port) -> Port {
        let shape = self.shape_of(like);
        let [zero, one] = [0, 1].map(|number| self.integers(&[number]));
        let axis = self.integers(&[0]);
        let tensor = Tensor::new(ElementType::Int64, Shape::new(vec![Dim::Fixed(1)]));
        let operands = [shape, zero, one.clone(), one, axis];
        self.layer("Slice", "opset8", "", &operands, Some(tensor))
    }

    /// The rows from one number to another.
    fn slice(&mut self, of: Port, from: Port, to: Port) -> Port {
        let tensor = Tensor::new(of.tensor.element, Shape::one(true));
        let [axis, step] = [0, 1].map(|number| self.integers(&[number]));
        self.layer("Slice", "opset8", "", &[of, from, to, step, axis], Some(tensor))
    }

    /// The rows that were in the batch, and behind them those that were not, as they were.
    fn assign(&mut self, index: usize, kept: &Kept) {
        let mut next = self.port(kept.next);
        if let Some(slots) = kept.slots {
            let all = self.kept[&index].clone();
            let whole = all.tensor.clone();
            let rows = self.rows(&next);
            let end = self.integers(&[slots.into()]);
            let others = self.slice(all, rows, end);
            next = self.layer("Concat", "opset1", "axis=\"0\"", &[next, others], Some(whole));
        }
        self.layer("Assign", "opset6", &variable_data(kept), &[next], None);
    }
}

/// A `String` takes whatever is written to it.
const WRITABLE: &str = "a string takes everything";

fn variable_data(kept: &Kept) -> String {
    let (name, element) = (&kept.name, names(kept.element).0);
    let sizes: Vec<_> = kept.dims().iter().map(u32::to_string).collect();
    format!("variable_id=\"{name}\" variable_type=\"{element}\" variable_shape=\"{}\"", sizes.join(","))
}

fn scalar_bytes(scalar: &Scalar, element: ElementType) -> Vec<u8> {
    scalar.bytes(element).expect("the builder checked it")
}

/// A port, with the name by which the tensor is known outside.
fn port_xml(port: usize, tensor: &Tensor, name: Option<&str>) -> String {
    let dims: String = tensor.shape.dims().iter().map(|dim| format!("<dim>{}</dim>", dim.size())).collect();
    let names_of = name.map(|name| format!(" names=\"{name}\"")).unwrap_or_default();
    format!("<port id=\"{port}\" precision=\"{}\"{names_of}>{dims}</port>", names(tensor.element).1)
}

#[cfg(test)]
mod tests {
    use super::model;
    use crate::{
        element::ElementType::Text,
        formulas::{Formula, Options, graph},
    };

    #[test]
    fn texts_are_refused() {
        for options in
            [Options { element: Text, ..Options::default() }, Options { corrid: Some(Text), ..Options::default() }]
        {
            let graph = graph(Formula::Stateless, &options).expect("it has one");
            let refusal = model(&graph).expect_err("it is refused").to_string();
            assert_eq!(refusal, "OpenVINO IR: its operations neither read nor write numbers as texts");
        }
    }
}
