//! A graph for a runtime that computes in fewer types than it stores.

use crate::{
    element::ElementType,
    graph::{Graph, Kept, Node, Operation, Tensor, Value},
};

/// The same graph, with everything that is computed or kept in a type computed or kept in the one that `wider` gives for it, and each result
/// brought back. Whole numbers wrap in their own width all the same.
pub(crate) fn widened(graph: &Graph, wider: impl Fn(ElementType) -> ElementType) -> Graph {
    let mut widening = Widening { wider, new: Graph::new(&graph.name), values: Vec::new() };
    for node in &graph.nodes {
        let value = widening.node(node, &graph.variables);
        widening.values.push(value);
    }
    for (index, kept) in graph.variables.iter().enumerate() {
        widening.new.variables[index].next = widening.wide(kept.next);
    }
    let outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), widening.values[value.0])).collect();
    Graph { outputs, ..widening.new }
}

struct Widening<W> {
    wider: W,
    new: Graph,
    /// For each value of the old graph the one of the new.
    values: Vec<Value>,
}

impl<W: Fn(ElementType) -> ElementType> Widening<W> {
    /// The value in the type that it is computed in.
    fn wide(&mut self, value: Value) -> Value {
        let value = self.values[value.0];
        let wider = (self.wider)(self.new.tensor(value).element);
        self.new.cast(value, wider)
    }

    /// The same value, brought back from the type that it is computed in.
    fn node(&mut self, node: &Node, variables: &[Kept]) -> Value {
        // Added up or handed on are the first operands; the second of a spread only has the shape, and what is read is no operand.
        let wide = match &node.operation {
            Operation::Add | Operation::Multiply | Operation::Select | Operation::RowSum => node.operands.len(),
            Operation::Spread => 1,
            _ => 0,
        };
        let operands = node.operands.iter().enumerate();
        let operands: Vec<_> = operands
            .map(|(place, value)| if place < wide { self.wide(*value) } else { self.values[value.0] })
            .collect();
        let is_kept = matches!(node.operation, Operation::Read(_));
        let Tensor { element, shape } = node.tensor.clone();
        let computed = if wide > 0 || is_kept { (self.wider)(element) } else { element };
        let made = self.new.add(node.operation.clone(), &operands, Tensor::new(computed, shape));
        if let Operation::Read(variable) = node.operation {
            // What is next is not there yet.
            let kept = Kept { element: computed, read: made, next: made, ..variables[variable].clone() };
            self.new.variables.push(kept);
        }
        self.new.cast(made, element)
    }
}

#[cfg(test)]
mod tests {
    use super::widened;
    use crate::{
        builder::GraphBuilder,
        element::ElementType::{Int8, Int32},
        graph::{Operation, Tensor},
        shape::Shape,
    };

    #[test]
    fn each_result_comes_back_to_its_own_type() {
        let mut graph = GraphBuilder::new("test").expect("a name");
        let input = graph.input("A", Tensor::new(Int8, Shape::one(true))).expect("a good input");
        let sum = graph.add(input, input).expect("one type");
        graph.output("B", sum).expect("a name");
        let graph = graph.finish().expect("a whole graph");
        let wide = widened(&graph, |element| if element == Int8 { Int32 } else { element });
        let operations: Vec<_> = wide.nodes.iter().map(|node| (&node.operation, node.tensor.element)).collect();
        assert!(matches!(
            operations[..],
            [(Operation::Input(_), Int8), (Operation::Cast, Int32), (Operation::Add, Int32), (Operation::Cast, Int8)]
        ));
        assert_eq!(widened(&graph, |element| element), graph);
    }
}
