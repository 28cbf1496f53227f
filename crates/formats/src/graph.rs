//! A computation graph: what goes in, what is done with it, what comes out, and what is kept from one execution to the next.

use crate::{
    element::{ElementType, Scalar},
    shape::Shape,
};

/// The type and shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// What its elements are.
    pub element: ElementType,
    /// Its axes.
    pub shape: Shape,
}

impl Tensor {
    /// A tensor of this type and shape.
    pub fn new(element: ElementType, shape: Shape) -> Self {
        Self { element, shape }
    }
}

/// One value of a graph: the number of the node that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) usize);

/// How a value is made of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is given, by this name.
    Input(String),
    Constant(Scalar),
    /// The same in another type: of truth values, 0 and 1 and all that is not 0; of whole numbers, the low bits.
    Cast,
    /// Whole numbers wrap.
    Add,
    /// Whole numbers wrap.
    Multiply,
    Not,
    And,
    /// The second value where the first is true, else the third.
    Select,
    /// The sum over all axes but that of the batch, which become 1.
    RowSum,
    /// The first value, repeated to the shape of the second.
    Spread,
    /// The whole number that a text is in decimal, 0 where it is none that the type has.
    Parse,
    /// A whole number in decimal.
    Show,
    /// What the variable with this number held before this execution: of one with slots, as many rows as the operand has.
    Read(usize),
    /// Constants of FP32, by the name that files have of them.
    Weights(String, Vec<u8>),
    Layer(Layer),
}

/// What a neural network computes, in FP32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The product of two matrices.
    MatMul,
    Tanh,
    /// The operands one behind the other along this axis.
    Concat(usize),
    /// Along an axis, the elements from the first number on, and before the second.
    Slice {
        axis: usize,
        from: u32,
        to: u32,
    },
    /// A new axis of size 1 at this place.
    Unsqueeze(usize),
    /// Without this axis, whose size is 1.
    Squeeze(usize),
    /// A convolution along the last axis, with as many groups, by kernels of this size.
    Conv {
        groups: u32,
        size: u32,
    },
    /// Gated recurrent units with as many elements in their state; the state after one step.
    Gru {
        hidden: u32,
    },
    /// Long short-term memory with as many elements in each of its two states; the hidden one after one step.
    Lstm {
        hidden: u32,
    },
    /// The cell of the LSTM that is the operand.
    CellOf,
}

/// A value with how it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) operation: Operation,
    /// The values that it takes.
    pub(crate) operands: Vec<Value>,
    pub(crate) tensor: Tensor,
}

/// What is kept from one execution to the next: one element, or one for each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) element: ElementType,
    /// How many slots there are: the most rows that a batch may have. None where there is no batch.
    pub(crate) slots: Option<u32>,
    /// What each element begins with.
    pub(crate) initial: Scalar,
    /// The read of it.
    pub(crate) read: Value,
    /// What is kept after an execution, of the slots that were in the batch.
    pub(crate) next: Value,
}

impl Kept {
    /// The axes of all that is kept, which are fixed.
    pub(crate) fn dims(&self) -> Vec<u32> {
        self.slots.map_or_else(|| vec![1], |slots| vec![slots, 1])
    }

    /// The bytes of all that is kept when nothing was executed yet.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let element = self.initial.bytes(self.element).expect("the builder checked it");
        element.repeat(self.slots.map_or(1, |slots| usize::try_from(slots).expect("slots are few")))
    }
}

/// A graph that is right in itself: see [`GraphBuilder`](crate::builder::GraphBuilder).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    pub(crate) name: String,
    /// Each uses only those before it.
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<(String, Value)>,
    pub(crate) variables: Vec<Kept>,
}

impl Graph {
    /// An empty graph with this name.
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), nodes: Vec::new(), outputs: Vec::new(), variables: Vec::new() }
    }

    /// The value of a node, which is not added again where it is there already.
    pub(crate) fn add(&mut self, operation: Operation, operands: &[Value], tensor: Tensor) -> Value {
        let node = Node { operation, operands: operands.to_vec(), tensor };
        let known = self.nodes.iter().position(|known| *known == node);
        Value(known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        }))
    }

    /// A value in a type, of which neither is texts, or both are.
    pub(crate) fn cast(&mut self, value: Value, element: ElementType) -> Value {
        let Tensor { element: from, shape } = self.tensor(value).clone();
        if from == element { value } else { self.add(Operation::Cast, &[value], Tensor::new(element, shape)) }
    }

    /// What goes in, by name and in order.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.nodes.iter().filter_map(|node| match &node.operation {
            Operation::Input(name) => Some((name.as_str(), &node.tensor)),
            _ => None,
        })
    }

    /// What comes out, by name and in order.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.outputs.iter().map(|(name, value)| (name.as_str(), self.tensor(*value)))
    }

    /// It keeps something from one execution to the next.
    pub fn has_state(&self) -> bool {
        !self.variables.is_empty()
    }

    /// It has layers of a network, which ONNX alone is written with.
    pub(crate) fn is_network(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.operation, Operation::Weights(..) | Operation::Layer(_)))
    }

    /// The element types of all of its values.
    pub(crate) fn elements(&self) -> impl Iterator<Item = ElementType> {
        self.nodes.iter().map(|node| node.tensor.element)
    }

    pub(crate) fn tensor(&self, value: Value) -> &Tensor {
        &self.nodes[value.0].tensor
    }

    /// What a value is called in files: an input by its name, which has no dots, weights by theirs, which has one, and others by their
    /// number.
    pub(crate) fn value_name(&self, value: Value) -> String {
        match &self.nodes[value.0].operation {
            Operation::Input(name) | Operation::Weights(name, _) => name.clone(),
            _ => format!("value.{}", value.0),
        }
    }

    /// The nodes in order, each with its value.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Value, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (Value(index), node))
    }
}
