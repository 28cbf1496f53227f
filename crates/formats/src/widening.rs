//! A graph for a runtime that computes in fewer types than it stores.

use crate::{
    builder::GraphBuilder,
    element::ElementType,
    error::GraphError,
    graph::{Graph, Operation, Value, Variable},
};

/// The same graph, with everything that is computed or kept in a type computed or kept in the one that `wider` gives for it, and each result
/// brought back. Whole numbers wrap in their own width all the same.
pub(crate) fn widened(graph: &Graph, wider: impl Fn(ElementType) -> ElementType) -> Graph {
    Widening { wider, values: Vec::new() }.graph(graph).expect("the types of a graph still fit, one for one")
}

struct Widening<W> {
    wider: W,
    /// For each value of the old graph the one of the new.
    values: Vec<Value>,
}

impl<W: Fn(ElementType) -> ElementType> Widening<W> {
    fn graph(mut self, graph: &Graph) -> Result<Graph, GraphError> {
        let mut new = GraphBuilder::new(&graph.name)?;
        for kept in &graph.variables {
            new.variable(&kept.name, (self.wider)(kept.element), kept.slots, kept.initial.clone())?;
        }
        for node in &graph.nodes {
            let value = self.node(&mut new, &node.operation, graph, node.tensor.element)?;
            self.values.push(value);
        }
        for (index, kept) in graph.variables.iter().enumerate() {
            let next = self.wide(&mut new, kept.next)?;
            new.assign(Variable(index), next)?;
        }
        for (name, value) in &graph.outputs {
            new.output(name, self.again(*value))?;
        }
        new.finish()
    }

    fn again(&self, value: Value) -> Value {
        self.values[value.0]
    }

    /// The value in the type that it is computed in.
    fn wide(&self, new: &mut GraphBuilder, value: Value) -> Result<Value, GraphError> {
        let value = self.again(value);
        let wider = (self.wider)(new.tensor(value)?.element);
        new.cast(value, wider)
    }

    fn node(
        &self,
        new: &mut GraphBuilder,
        operation: &Operation,
        graph: &Graph,
        element: ElementType,
    ) -> Result<Value, GraphError> {
        let wide = match operation {
            Operation::Input(name) => {
                let (_, tensor) = graph.inputs().find(|(known, _)| known == name).expect("it is one of its inputs");
                new.input(name, tensor.clone())
            }
            Operation::Constant(scalar) => new.constant(element, scalar.clone()),
            Operation::Cast(value) => new.cast(self.again(*value), element),
            Operation::Not(value) => new.not(self.again(*value)),
            Operation::And(one, other) => new.and(self.again(*one), self.again(*other)),
            Operation::Parse(value) => new.parse(self.again(*value), element),
            Operation::Show(value) => new.show(self.again(*value)),
            Operation::Read { variable, like } => new.read(*variable, self.again(*like)),
            Operation::Add(one, other) => {
                let (one, other) = (self.wide(new, *one)?, self.wide(new, *other)?);
                new.add(one, other)
            }
            Operation::Multiply(one, other) => {
                let (one, other) = (self.wide(new, *one)?, self.wide(new, *other)?);
                new.multiply(one, other)
            }
            Operation::Select { condition, then, otherwise } => {
                let (then, otherwise) = (self.wide(new, *then)?, self.wide(new, *otherwise)?);
                new.select(self.again(*condition), then, otherwise)
            }
            Operation::RowSum(value) => {
                let value = self.wide(new, *value)?;
                new.row_sum(value)
            }
            Operation::Spread(value, like) => {
                let value = self.wide(new, *value)?;
                new.spread(value, self.again(*like))
            }
        }?;
        if element == ElementType::Text { Ok(wide) } else { new.cast(wide, element) }
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
            [
                (Operation::Input(_), Int8),
                (Operation::Cast(_), Int32),
                (Operation::Add(..), Int32),
                (Operation::Cast(_), Int8)
            ]
        ));
        assert_eq!(widened(&graph, |element| element), graph);
    }
}
