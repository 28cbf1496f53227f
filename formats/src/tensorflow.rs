//! TensorFlow: a `SavedModel` with a signature, or a frozen `GraphDef`.
//!
//! State is variables of a `SavedModel`, which its initialization sets: there is no checkpoint to read.

mod proto;

use std::collections::BTreeMap;

use prost::Message as _;

use crate::{
    decimal,
    element::{ElementType, Scalar},
    error::Refusal,
    graph::{Graph, Kept, Node, Operation, Tensor, Value, Variable},
    shape::{Dim, Shape},
    widening::widened,
};

const SIGNATURE: &str = "serving_default";
/// Both the signature and its output have this name, by which loaders find what to run once.
const INITIALIZATION: &str = "__saved_model_init_op";
const INITIALIZER: &str = "initialize.variables";
/// TensorFlow 2.3, which has all the operations.
const PRODUCER: i32 = 440;

/// The `saved_model.pb` of a graph.
#[must_use]
pub fn saved_model(graph: &Graph) -> Vec<u8> {
    let graph = widened(graph, computed_in);
    let mut signatures = BTreeMap::from([(SIGNATURE.to_owned(), signature(&graph))]);
    if graph.has_state() {
        signatures.insert(INITIALIZATION.into(), initialization());
    }
    let meta_graph = proto::MetaGraph {
        meta_info: Some(proto::MetaInfo { tags: vec!["serve".into()] }),
        graph: Some(Writer::new(&graph).graph()),
        signatures,
    };
    proto::SavedModel { schema_version: 1, meta_graphs: vec![meta_graph] }.encode_to_vec()
}

/// The frozen `GraphDef` of a graph: inputs and outputs are nodes of their names.
///
/// # Errors
/// When the graph keeps state, because nothing initializes a frozen graph's variables.
pub fn graph_def(graph: &Graph) -> Result<Vec<u8>, Refusal> {
    if graph.has_state() {
        return Err(Refusal::new("TensorFlow GraphDef", "a frozen graph has no variables; a SavedModel has"));
    }
    let graph = widened(graph, computed_in);
    Ok(Writer::new(&graph).graph().encode_to_vec())
}

/// The types that everything has a kernel for.
fn computed_in(element: ElementType) -> ElementType {
    match element {
        ElementType::Int8 | ElementType::Int16 | ElementType::Uint8 | ElementType::Uint16 => ElementType::Int32,
        ElementType::Uint32 | ElementType::Uint64 => ElementType::Int64,
        ElementType::Fp16 | ElementType::Bf16 => ElementType::Fp32,
        other => other,
    }
}

/// The number of a type in `DataType`.
fn code(element: ElementType) -> i32 {
    match element {
        ElementType::Fp32 => 1,
        ElementType::Fp64 => 2,
        ElementType::Int32 => 3,
        ElementType::Uint8 => 4,
        ElementType::Int16 => 5,
        ElementType::Int8 => 6,
        ElementType::Text => 7,
        ElementType::Int64 => 9,
        ElementType::Bool => 10,
        ElementType::Bf16 => 14,
        ElementType::Uint16 => 17,
        ElementType::Fp16 => 19,
        ElementType::Uint32 => 22,
        ElementType::Uint64 => 23,
    }
}

fn shape(shape: &Shape) -> proto::Shape {
    proto::Shape { dim: shape.dims().iter().map(|dim| proto::Dimension { size: dim.size() }).collect() }
}

fn signature(graph: &Graph) -> proto::Signature {
    let described = |(name, tensor): (&str, &Tensor)| {
        let info = proto::TensorInfo {
            name: format!("{name}:0"),
            dtype: code(tensor.element),
            shape: Some(shape(&tensor.shape)),
        };
        (name.to_owned(), info)
    };
    proto::Signature {
        inputs: graph.inputs().map(described).collect(),
        outputs: graph.outputs().map(described).collect(),
        method: "tensorflow/serving/predict".into(),
    }
}

fn initialization() -> proto::Signature {
    let info = proto::TensorInfo {
        name: INITIALIZER.into(),
        // No tensor comes of it.
        dtype: 0,
        shape: Some(proto::Shape::default()),
    };
    proto::Signature { outputs: BTreeMap::from([(INITIALIZATION.into(), info)]), ..proto::Signature::default() }
}

/// Attributes, by their names.
type Attributes<'a> = &'a [(&'static str, proto::Given)];

fn of_type(element: ElementType) -> proto::Given {
    proto::Given::Type(code(element))
}

struct Writer<'a> {
    graph: &'a Graph,
    nodes: Vec<proto::Node>,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self { graph, nodes: Vec::new() }
    }

    fn graph(mut self) -> proto::Graph {
        for (value, node) in self.graph.values() {
            self.node(value, node);
        }
        for kept in &self.graph.variables {
            self.assign(kept);
        }
        if self.graph.has_state() {
            let set: Vec<_> = self.graph.variables.iter().map(|kept| format!("^{}.initialize", kept.name)).collect();
            self.operation(INITIALIZER, "NoOp", &set, &[]);
        }
        let assigned: Vec<_> = self.graph.variables.iter().map(|kept| format!("^{}.assign", kept.name)).collect();
        for (name, value) in &self.graph.outputs {
            // Whoever asks for an output has the variables assigned to.
            let inputs = [vec![self.name(*value)], assigned.clone()].concat();
            self.operation(name, "Identity", &inputs, &[("T", of_type(self.graph.tensor(*value).element))]);
        }
        proto::Graph { node: self.nodes, versions: Some(proto::Versions { producer: PRODUCER }) }
    }

    /// What a value is called. Inputs have no dots in their names.
    fn name(&self, value: Value) -> String {
        match &self.graph.nodes[value.0].operation {
            Operation::Input(name) => name.clone(),
            _ => format!("value.{}", value.0),
        }
    }

    fn operation(&mut self, name: &str, op: &str, inputs: &[String], attributes: Attributes) {
        let attr =
            attributes.iter().map(|(name, given)| ((*name).into(), proto::Attribute { given: Some(given.clone()) }));
        self.nodes.push(proto::Node { name: name.into(), op: op.into(), input: inputs.to_vec(), attr: attr.collect() });
    }

    fn node(&mut self, value: Value, node: &Node) {
        let made = self.name(value);
        let operands = node.operation.operands();
        let names: Vec<_> = operands.iter().map(|operand| self.name(*operand)).collect();
        let element = node.tensor.element;
        let of_element = ("T", of_type(element));
        match &node.operation {
            Operation::Input(name) => self.operation(
                name,
                "Placeholder",
                &[],
                &[("dtype", of_type(element)), ("shape", proto::Given::Shape(shape(&node.tensor.shape)))],
            ),
            Operation::Constant(scalar) => self.scalar(&made, element, scalar),
            Operation::Cast(of) => self.cast(&made, self.name(*of), self.graph.tensor(*of).element, element),
            Operation::Add(..) => self.operation(&made, "AddV2", &names, &[of_element]),
            Operation::Multiply(..) => self.operation(&made, "Mul", &names, &[of_element]),
            Operation::Not(_) => self.operation(&made, "LogicalNot", &names, &[]),
            Operation::And(..) => self.operation(&made, "LogicalAnd", &names, &[]),
            Operation::Select { .. } => self.select(&made, &names, element),
            Operation::RowSum(of) => self.row_sum(&made, *of),
            Operation::Spread(_, like) => self.spread(&made, &names, element, *like),
            Operation::Parse(_) => self.parse(&made, &names[0], element),
            Operation::Show(of) => {
                self.operation(&made, "AsString", &names, &[("T", of_type(self.graph.tensor(*of).element))]);
            }
            Operation::Read { variable, like } => self.read(&made, *variable, *like),
        }
    }

    fn constant(&mut self, name: &str, element: ElementType, dims: &[u32], content: Vec<u8>) {
        let shape = shape(&Shape::new(dims.iter().copied().map(Dim::Fixed).collect()));
        let is_text = element == ElementType::Text;
        let (content, texts) = if is_text { (Vec::new(), vec![content]) } else { (content, Vec::new()) };
        let tensor = proto::Tensor { dtype: code(element), shape: Some(shape), content, texts };
        self.operation(name, "Const", &[], &[("dtype", of_type(element)), ("value", proto::Given::Tensor(tensor))]);
    }

    fn scalar(&mut self, name: &str, element: ElementType, scalar: &Scalar) {
        self.constant(name, element, &[], scalar.bytes(element).expect("the builder checked it"));
    }

    /// A list of numbers of 32 bits; its name.
    fn integers(&mut self, name: String, numbers: &[i32]) -> String {
        let length = u32::try_from(numbers.len()).expect("a list is short");
        let content = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(&name, ElementType::Int32, &[length], content);
        name
    }

    fn cast(&mut self, made: &str, of: String, from: ElementType, to: ElementType) {
        self.operation(made, "Cast", &[of], &[("SrcT", of_type(from)), ("DstT", of_type(to))]);
    }

    /// `otherwise + condition * (then - otherwise)`, of whole numbers: OpenVINO, which reads these files too, may choose among them as
    /// floating-point ones.
    fn select(&mut self, made: &str, names: &[String], element: ElementType) {
        let [condition, then, otherwise] = names else { unreachable!("there are three") };
        let of_element = ("T", of_type(element));
        if element.range().is_none() {
            return self.operation(made, "SelectV2", names, &[of_element]);
        }
        let [count, apart, chosen] = ["count", "apart", "chosen"].map(|part| format!("{made}.{part}"));
        self.cast(&count, condition.clone(), ElementType::Bool, element);
        self.operation(&apart, "Sub", &[then.clone(), otherwise.clone()], std::slice::from_ref(&of_element));
        self.operation(&chosen, "Mul", &[count, apart], std::slice::from_ref(&of_element));
        self.operation(made, "AddV2", &[otherwise.clone(), chosen], &[of_element]);
    }

    fn row_sum(&mut self, made: &str, of: Value) {
        let tensor = self.graph.tensor(of);
        let axes: Vec<_> = tensor.shape.row_axes().map(|axis| i32::try_from(axis).expect("axes are few")).collect();
        let element = tensor.element;
        let indexes = ("Tidx", of_type(ElementType::Int32));
        if element.range().is_some() {
            return self.whole_row_sum(made, self.name(of), element, &axes, tensor.shape.dims().len());
        }
        let all = self.integers(format!("{made}.axes"), &axes);
        let keeps = ("keep_dims", proto::Given::Truth(true));
        self.operation(made, "Sum", &[self.name(of), all], &[("T", of_type(element)), indexes, keeps]);
    }

    /// The last of the partial sums, because OpenVINO adds whole numbers as floating-point ones otherwise. A row needs an element for
    /// that.
    fn whole_row_sum(&mut self, made: &str, of: String, element: ElementType, axes: &[i32], rank: usize) {
        let mut summed = of;
        for axis in axes {
            let part = |part: &str| format!("{made}.{part}.{axis}");
            self.scalar(&part("axis"), ElementType::Int32, &Scalar::Whole((*axis).into()));
            let along = [summed, part("axis")];
            self.operation(
                &part("partial"),
                "Cumsum",
                &along,
                &[("T", of_type(element)), ("Tidx", of_type(ElementType::Int32))],
            );
            let place = usize::try_from(*axis).expect("axes are not negative");
            let begin: Vec<_> = (0..rank).map(|other| if other == place { -1 } else { 0 }).collect();
            let begin = self.integers(part("begin"), &begin);
            let end = self.integers(part("end"), &vec![0; rank]);
            let step = self.integers(part("step"), &vec![1; rank]);
            // All of the other axes, and this one from its last element on.
            let all = (1_i64 << rank) - 1;
            summed = if Some(axis) == axes.last() { made.to_owned() } else { part("sum") };
            self.strided(&summed, &[part("partial"), begin, end, step], element, all & !(1 << place), all);
        }
    }

    fn strided(&mut self, made: &str, inputs: &[String], element: ElementType, begin: i64, end: i64) {
        self.operation(
            made,
            "StridedSlice",
            inputs,
            &[
                ("T", of_type(element)),
                ("Index", of_type(ElementType::Int32)),
                ("begin_mask", proto::Given::Integer(begin)),
                ("end_mask", proto::Given::Integer(end)),
            ],
        );
    }

    fn shape_of(&mut self, made: &str, of: Value) {
        let types = [("T", of_type(self.graph.tensor(of).element)), ("out_type", of_type(ElementType::Int32))];
        self.operation(made, "Shape", &[self.name(of)], &types);
    }

    fn spread(&mut self, made: &str, names: &[String], element: ElementType, like: Value) {
        let shape = format!("{made}.shape");
        self.shape_of(&shape, like);
        let types = [("T", of_type(element)), ("Tidx", of_type(ElementType::Int32))];
        self.operation(made, "BroadcastTo", &[names[0].clone(), shape], &types);
    }

    /// What is no number is put aside before it is read, which would fail at it.
    fn parse(&mut self, made: &str, text: &str, element: ElementType) {
        let [is_number, zero, number] = ["is_number", "zero", "number"].map(|part| format!("{made}.{part}"));
        let (least, greatest) = element.range().expect("the builder takes whole numbers alone");
        let pattern = proto::Given::Text(decimal::pattern(least, greatest).into_bytes());
        self.operation(&is_number, "StaticRegexFullMatch", &[text.to_owned()], &[("pattern", pattern)]);
        self.scalar(&zero, ElementType::Text, &Scalar::Text("0".into()));
        self.operation(&number, "SelectV2", &[is_number, text.to_owned(), zero], &[("T", of_type(ElementType::Text))]);
        match element {
            ElementType::Int32 | ElementType::Int64 => self.read_text(made, &number, element),
            ElementType::Uint64 => self.read_long_text(made, &number),
            _ => {
                let wide = format!("{made}.wide");
                self.read_text(&wide, &number, ElementType::Int64);
                self.cast(made, wide, ElementType::Int64, element);
            }
        }
    }

    fn read_text(&mut self, made: &str, text: &str, element: ElementType) {
        self.operation(made, "StringToNumber", &[text.to_owned()], &[("out_type", of_type(element))]);
    }

    /// Numbers of 64 bits without a sign, as ten times all digits but the last, and the last: up to 2.13 at least no larger numbers are
    /// read than those of INT64, which wraps.
    fn read_long_text(&mut self, made: &str, text: &str) {
        let part = |part: &str| format!("{made}.{part}");
        for (digits, rewrite) in [("tens", r"0\1"), ("ones", r"\2")] {
            let attributes = [
                ("pattern", proto::Given::Text(b"^[+]?([0-9]*)([0-9])$".to_vec())),
                ("rewrite", proto::Given::Text(rewrite.into())),
            ];
            let digits = part(digits);
            self.operation(&format!("{digits}.text"), "StaticRegexReplace", &[text.to_owned()], &attributes);
            self.read_text(&digits, &format!("{digits}.text"), ElementType::Int64);
        }
        let of_element = [("T", of_type(ElementType::Int64))];
        self.scalar(&part("ten"), ElementType::Int64, &Scalar::Whole(10));
        self.operation(&part("shifted"), "Mul", &[part("tens"), part("ten")], &of_element);
        self.operation(&part("low"), "AddV2", &[part("shifted"), part("ones")], &of_element);
        self.cast(made, part("low"), ElementType::Int64, ElementType::Uint64);
    }

    /// All that is kept, and of it as many rows as `like` has.
    fn read(&mut self, made: &str, variable: Variable, like: Value) {
        let kept = &self.graph.variables[variable.0];
        let part = |part: &str| format!("{}.{part}", kept.name);
        let dtype = ("dtype", of_type(kept.element));
        let dims = kept.dims();
        let whole = shape(&Shape::new(dims.iter().copied().map(Dim::Fixed).collect()));
        self.operation(
            &part("handle"),
            "VarHandleOp",
            &[],
            &[
                dtype.clone(),
                ("shape", proto::Given::Shape(whole)),
                ("shared_name", proto::Given::Text(kept.name.clone().into_bytes())),
            ],
        );
        self.constant(&part("initial"), kept.element, &dims, kept.bytes());
        self.operation(
            &part("initialize"),
            "AssignVariableOp",
            &[part("handle"), part("initial")],
            std::slice::from_ref(&dtype),
        );
        if kept.slots.is_none() {
            return self.operation(made, "ReadVariableOp", &[part("handle")], &[dtype]);
        }
        self.operation(&part("all"), "ReadVariableOp", &[part("handle")], &[dtype]);
        let rows = self.rows(&kept.name, like);
        let from = self.integers(part("first"), &[0]);
        let step = self.integers(part("step"), &[1]);
        self.strided(made, &[part("all"), from, rows, step], kept.element, 1, 0);
    }

    /// How many rows there are, as a list of one.
    fn rows(&mut self, of: &str, like: Value) -> String {
        let part = |part: &str| format!("{of}.rows.{part}");
        self.shape_of(&part("shape"), like);
        let [zero, one] = [0, 1].map(|number| self.integers(part(&number.to_string()), &[number]));
        let made = format!("{of}.rows");
        self.strided(&made, &[part("shape"), zero, one.clone(), one], ElementType::Int32, 0, 0);
        made
    }

    /// The rows that were in the batch, and behind them those that were not, as they were.
    fn assign(&mut self, kept: &Kept) {
        let part = |part: &str| format!("{}.{part}", kept.name);
        let mut next = self.name(kept.next);
        if kept.slots.is_some() {
            let inputs = [part("all"), part("rows"), part("rows"), part("step")];
            self.strided(&part("others"), &inputs, kept.element, 0, 1);
            self.scalar(&part("axis"), ElementType::Int32, &Scalar::Whole(0));
            let types =
                [("T", of_type(kept.element)), ("N", proto::Given::Integer(2)), ("Tidx", of_type(ElementType::Int32))];
            self.operation(&part("next"), "ConcatV2", &[next, part("others"), part("axis")], &types);
            next = part("next");
        }
        let dtype = ("dtype", of_type(kept.element));
        self.operation(&part("assign"), "AssignVariableOp", &[part("handle"), next], &[dtype]);
    }
}

#[cfg(test)]
mod tests {
    use super::graph_def;
    use crate::formulas::{Formula, Options, graph};

    #[test]
    fn a_frozen_graph_with_state_is_refused() {
        let stateful = graph(Formula::Stateful { initial: 0 }, &Options::default()).expect("it has one");
        let refusal = graph_def(&stateful).expect_err("it is refused").to_string();
        assert_eq!(refusal, "TensorFlow GraphDef: a frozen graph has no variables; a SavedModel has");
    }
}
