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
    #[must_use]
    pub fn new(element: ElementType, shape: Shape) -> Self {
        Self { element, shape }
    }
}

/// One value of a graph: the number of the node that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) usize);

/// One variable of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variable(pub(crate) usize);

/// How a value is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is given, by this name.
    Input(String),
    Constant(Scalar),
    /// The same in another type: of truth values, 0 and 1 and all that is not 0; of whole numbers, the low bits.
    Cast(Value),
    /// Whole numbers wrap.
    Add(Value, Value),
    /// Whole numbers wrap.
    Multiply(Value, Value),
    Not(Value),
    And(Value, Value),
    Select {
        condition: Value,
        then: Value,
        otherwise: Value,
    },
    /// The sum over all axes but that of the batch, which become 1.
    RowSum(Value),
    /// The first value, repeated to the shape of the second.
    Spread(Value, Value),
    /// The whole number that a text is in decimal, 0 where it is none that the type has.
    Parse(Value),
    /// A whole number in decimal.
    Show(Value),
    /// What a variable held before this execution: of one with slots, as many rows as `like` has.
    Read {
        variable: Variable,
        like: Value,
    },
}

impl Operation {
    /// The values that it takes.
    pub(crate) fn operands(&self) -> Vec<Value> {
        match self {
            Self::Input(_) | Self::Constant(_) => Vec::new(),
            Self::Cast(one) | Self::Not(one) | Self::RowSum(one) | Self::Parse(one) | Self::Show(one) => vec![*one],
            Self::Read { like, .. } => vec![*like],
            Self::Add(one, other) | Self::Multiply(one, other) | Self::And(one, other) | Self::Spread(one, other) => {
                vec![*one, *other]
            }
            Self::Select { condition, then, otherwise } => vec![*condition, *then, *otherwise],
        }
    }
}

/// A value with how it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) operation: Operation,
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
    /// What is kept after an execution, of the slots that were in the batch.
    pub(crate) next: Value,
    /// The read of it.
    pub(crate) read: Value,
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
    #[must_use]
    pub fn has_state(&self) -> bool {
        !self.variables.is_empty()
    }

    /// The element types of all of its values.
    pub(crate) fn elements(&self) -> impl Iterator<Item = ElementType> {
        self.nodes.iter().map(|node| node.tensor.element)
    }

    pub(crate) fn tensor(&self, value: Value) -> &Tensor {
        &self.nodes[value.0].tensor
    }

    /// The nodes in order, each with its value.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Value, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (Value(index), node))
    }
}
