//! TensorFlow: a `SavedModel` with a signature, or a frozen `GraphDef`.
//!
//! State is variables of a `SavedModel`, which its initialization sets: there is no checkpoint to read.

mod nodes;
mod proto;

use std::collections::BTreeMap;

use prost::Message as _;

use crate::{
    decimal,
    element::{ElementType, Scalar},
    graph::{Graph, Kept, Node, Operation, Tensor, Value},
    shape::Shape,
    widening::widened,
};
use nodes::{Nodes, of_type, shape};

const SIGNATURE: &str = "serving_default";
/// Both the signature and its output have this name, by which loaders find what to run once.
const INITIALIZATION: &str = "__saved_model_init_op";
const INITIALIZER: &str = "initialize.variables";
/// TensorFlow 2.3, which has all the operations.
const PRODUCER: i32 = 440;

/// The `saved_model.pb` of a graph.
pub(crate) fn saved_model(graph: &Graph) -> Vec<u8> {
    let graph = widened(graph, ElementType::widened);
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

/// The frozen `GraphDef` of a graph, which keeps no state: nothing initializes its variables. Inputs and outputs are nodes of their names.
pub(crate) fn graph_def(graph: &Graph) -> Result<Vec<u8>, String> {
    if graph.has_state() {
        return Err("TensorFlow GraphDef: a frozen graph has no variables; a SavedModel has".to_owned());
    }
    let graph = widened(graph, ElementType::widened);
    Ok(Writer::new(&graph).graph().encode_to_vec())
}

fn signature(graph: &Graph) -> proto::Signature {
    let described = |(name, tensor): (&str, &Tensor)| {
        let info = proto::TensorInfo {
            name: format!("{name}:0"),
            dtype: tensor.element.row().tensorflow,
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

struct Writer<'a> {
    graph: &'a Graph,
    nodes: Nodes,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self { graph, nodes: Nodes::default() }
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
            self.nodes.operation(INITIALIZER, "NoOp", &set, &[]);
        }
        let assigned: Vec<_> = self.graph.variables.iter().map(|kept| format!("^{}.assign", kept.name)).collect();
        for (name, value) in &self.graph.outputs {
            // Whoever asks for an output has the variables assigned to.
            let inputs = [vec![self.graph.value_name(*value)], assigned.clone()].concat();
            self.nodes.operation(name, "Identity", &inputs, &[("T", of_type(self.graph.tensor(*value).element))]);
        }
        proto::Graph { node: self.nodes.0, versions: Some(proto::Versions { producer: PRODUCER }) }
    }

    fn node(&mut self, value: Value, node: &Node) {
        let made = self.graph.value_name(value);
        let operands = &node.operands;
        let names: Vec<_> = operands.iter().map(|operand| self.graph.value_name(*operand)).collect();
        let element_of = |operand: usize| self.graph.tensor(operands[operand]).element;
        let element = node.tensor.element;
        let of_element = ("T", of_type(element));
        match &node.operation {
            Operation::Input(name) => self.nodes.operation(
                name,
                "Placeholder",
                &[],
                &[("dtype", of_type(element)), ("shape", proto::Given::Shape(shape(&node.tensor.shape)))],
            ),
            Operation::Constant(scalar) => self.nodes.scalar(&made, element, scalar),
            Operation::Cast => self.nodes.cast(&made, names[0].clone(), element_of(0), element),
            Operation::Add => self.nodes.operation(&made, "AddV2", &names, &[of_element]),
            Operation::Multiply => self.nodes.operation(&made, "Mul", &names, &[of_element]),
            Operation::Not => self.nodes.operation(&made, "LogicalNot", &names, &[]),
            Operation::And => self.nodes.operation(&made, "LogicalAnd", &names, &[]),
            Operation::Select => self.select(&made, &names, element),
            Operation::RowSum => self.row_sum(&made, operands[0]),
            Operation::Spread => self.spread(&made, &names, element, operands[1]),
            Operation::Parse => self.parse(&made, &names[0], element),
            Operation::Show => self.nodes.operation(&made, "AsString", &names, &[("T", of_type(element_of(0)))]),
            Operation::Read(variable) => self.read(&made, *variable, node.operands[0]),
            Operation::Weights(..) | Operation::Layer(_) => unreachable!("a network was rejected"),
        }
    }

    /// `otherwise + condition * (then - otherwise)`, of whole numbers: OpenVINO, which reads these files too, may choose among them as
    /// floating-point ones.
    fn select(&mut self, made: &str, names: &[String], element: ElementType) {
        let [condition, then, otherwise] = names else { unreachable!("there are three") };
        let of_element = ("T", of_type(element));
        if element.range().is_none() {
            return self.nodes.operation(made, "SelectV2", names, &[of_element]);
        }
        let [count, apart, chosen] = ["count", "apart", "chosen"].map(|part| format!("{made}.{part}"));
        self.nodes.cast(&count, condition.clone(), ElementType::Bool, element);
        self.nodes.operation(&apart, "Sub", &[then.clone(), otherwise.clone()], std::slice::from_ref(&of_element));
        self.nodes.operation(&chosen, "Mul", &[count, apart], std::slice::from_ref(&of_element));
        self.nodes.operation(made, "AddV2", &[otherwise.clone(), chosen], &[of_element]);
    }

    fn row_sum(&mut self, made: &str, of: Value) {
        let tensor = self.graph.tensor(of);
        let axes: Vec<_> = tensor.shape.row_axes().map(|axis| i32::try_from(axis).expect("axes are few")).collect();
        let element = tensor.element;
        let indexes = ("Tidx", of_type(ElementType::Int32));
        if element.range().is_some() {
            return self.whole_row_sum(made, self.graph.value_name(of), element, &axes, tensor.shape.dims().len());
        }
        let all = self.nodes.integers(format!("{made}.axes"), &axes);
        let keeps = ("keep_dims", proto::Given::Truth(true));
        let operands = [self.graph.value_name(of), all];
        self.nodes.operation(made, "Sum", &operands, &[("T", of_type(element)), indexes, keeps]);
    }

    /// The last of the partial sums, because OpenVINO adds whole numbers as floating-point ones otherwise. A row needs an element for
    /// that.
    fn whole_row_sum(&mut self, made: &str, of: String, element: ElementType, axes: &[i32], rank: usize) {
        let mut summed = of;
        for axis in axes {
            let part = |part: &str| format!("{made}.{part}.{axis}");
            self.nodes.scalar(&part("axis"), ElementType::Int32, &Scalar::Whole((*axis).into()));
            let along = [summed, part("axis")];
            let types = [("T", of_type(element)), ("Tidx", of_type(ElementType::Int32))];
            self.nodes.operation(&part("partial"), "Cumsum", &along, &types);
            let place = usize::try_from(*axis).expect("axes are not negative");
            let begin: Vec<_> = (0..rank).map(|other| if other == place { -1 } else { 0 }).collect();
            let begin = self.nodes.integers(part("begin"), &begin);
            let end = self.nodes.integers(part("end"), &vec![0; rank]);
            let step = self.nodes.integers(part("step"), &vec![1; rank]);
            // All of the other axes, and this one from its last element on.
            let all = (1_i64 << rank) - 1;
            summed = if Some(axis) == axes.last() { made.to_owned() } else { part("sum") };
            self.nodes.strided(&summed, &[part("partial"), begin, end, step], element, all & !(1 << place), all);
        }
    }

    fn shape_of(&mut self, made: &str, of: Value) {
        let types = [("T", of_type(self.graph.tensor(of).element)), ("out_type", of_type(ElementType::Int32))];
        self.nodes.operation(made, "Shape", &[self.graph.value_name(of)], &types);
    }

    fn spread(&mut self, made: &str, names: &[String], element: ElementType, like: Value) {
        let shape = format!("{made}.shape");
        self.shape_of(&shape, like);
        let types = [("T", of_type(element)), ("Tidx", of_type(ElementType::Int32))];
        self.nodes.operation(made, "BroadcastTo", &[names[0].clone(), shape], &types);
    }

    /// What is no number is put aside before it is read, which would fail at it.
    fn parse(&mut self, made: &str, text: &str, element: ElementType) {
        let [is_number, zero, number] = ["is_number", "zero", "number"].map(|part| format!("{made}.{part}"));
        let (least, greatest) = element.range().expect("the builder takes whole numbers alone");
        let pattern = proto::Given::Text(decimal::pattern(least, greatest).into_bytes());
        self.nodes.operation(&is_number, "StaticRegexFullMatch", &[text.to_owned()], &[("pattern", pattern)]);
        self.nodes.scalar(&zero, ElementType::Text, &Scalar::Text("0".into()));
        let of_text = ("T", of_type(ElementType::Text));
        self.nodes.operation(&number, "SelectV2", &[is_number, text.to_owned(), zero], &[of_text]);
        match element {
            ElementType::Int32 | ElementType::Int64 => self.nodes.read_text(made, &number, element),
            ElementType::Uint64 => self.nodes.read_long_text(made, &number),
            _ => {
                let wide = format!("{made}.wide");
                self.nodes.read_text(&wide, &number, ElementType::Int64);
                self.nodes.cast(made, wide, ElementType::Int64, element);
            }
        }
    }

    /// All that is kept, and of it as many rows as `like` has.
    fn read(&mut self, made: &str, variable: usize, like: Value) {
        let kept = &self.graph.variables[variable];
        let part = |part: &str| format!("{}.{part}", kept.name);
        let dtype = ("dtype", of_type(kept.element));
        let dims = kept.dims();
        let whole = shape(&Shape::fixed(dims.clone()));
        let name = proto::Given::Text(kept.name.clone().into_bytes());
        let variable = [dtype.clone(), ("shape", proto::Given::Shape(whole)), ("shared_name", name)];
        self.nodes.operation(&part("handle"), "VarHandleOp", &[], &variable);
        self.nodes.constant(&part("initial"), kept.element, &dims, kept.bytes());
        let set = [part("handle"), part("initial")];
        self.nodes.operation(&part("initialize"), "AssignVariableOp", &set, std::slice::from_ref(&dtype));
        if kept.slots.is_none() {
            return self.nodes.operation(made, "ReadVariableOp", &[part("handle")], &[dtype]);
        }
        self.nodes.operation(&part("all"), "ReadVariableOp", &[part("handle")], &[dtype]);
        let rows = self.rows(&kept.name, like);
        let from = self.nodes.integers(part("first"), &[0]);
        let step = self.nodes.integers(part("step"), &[1]);
        self.nodes.strided(made, &[part("all"), from, rows, step], kept.element, 1, 0);
    }

    /// How many rows there are, as a list of one.
    fn rows(&mut self, of: &str, like: Value) -> String {
        let part = |part: &str| format!("{of}.rows.{part}");
        self.shape_of(&part("shape"), like);
        let [zero, one] = [0, 1].map(|number| self.nodes.integers(part(&number.to_string()), &[number]));
        let made = format!("{of}.rows");
        self.nodes.strided(&made, &[part("shape"), zero, one.clone(), one], ElementType::Int32, 0, 0);
        made
    }

    /// The rows that were in the batch, and behind them those that were not, as they were.
    fn assign(&mut self, kept: &Kept) {
        let part = |part: &str| format!("{}.{part}", kept.name);
        let mut next = self.graph.value_name(kept.next);
        if kept.slots.is_some() {
            let inputs = [part("all"), part("rows"), part("rows"), part("step")];
            self.nodes.strided(&part("others"), &inputs, kept.element, 0, 1);
            self.nodes.scalar(&part("axis"), ElementType::Int32, &Scalar::Whole(0));
            let types =
                [("T", of_type(kept.element)), ("N", proto::Given::Integer(2)), ("Tidx", of_type(ElementType::Int32))];
            self.nodes.operation(&part("next"), "ConcatV2", &[next, part("others"), part("axis")], &types);
            next = part("next");
        }
        let dtype = ("dtype", of_type(kept.element));
        self.nodes.operation(&part("assign"), "AssignVariableOp", &[part("handle"), next], &[dtype]);
    }
}

#[cfg(test)]
mod tests {
    use super::graph_def;
    use crate::formulas::{Formula, Options, graph};

    #[test]
    fn a_frozen_graph_with_state_is_rejected() {
        let stateful = graph(Formula::Stateful { initial: 0 }, &Options::default()).expect("it has one");
        let rejection = graph_def(&stateful).expect_err("it is rejected");
        assert_eq!(rejection, "TensorFlow GraphDef: a frozen graph has no variables; a SavedModel has");
    }
}
