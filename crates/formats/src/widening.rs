//! A graph for a runtime that computes in fewer types than it stores.

use crate::{
    builder::GraphBuilder,
    element::ElementType,
    graph::{Graph, Kept, Node, Operation, Value},
};

/// The same graph, with everything that is computed or kept in a type computed or kept in the one that `wider` gives for it, and each result
/// brought back. Whole numbers wrap in their own width all the same.
pub(crate) fn widened(graph: &Graph, wider: impl Fn(ElementType) -> ElementType) -> Graph {
    Widening { wider, values: Vec::new(), reads: Vec::new() }
        .graph(graph)
        .expect("the types of a graph still fit, one for one")
}

type Made<T> = Result<T, String>;

struct Widening<W> {
    wider: W,
    /// For each value of the old graph the one of the new.
    values: Vec<Value>,
    /// The reads of the variables, as they are kept.
    reads: Vec<Value>,
}

impl<W: Fn(ElementType) -> ElementType> Widening<W> {
    fn graph(mut self, graph: &Graph) -> Made<Graph> {
        let mut new = GraphBuilder::new(&graph.name)?;
        for node in &graph.nodes {
            let value = self.node(&mut new, node, &graph.variables)?;
            self.values.push(value);
        }
        for (kept, read) in graph.variables.iter().zip(&self.reads) {
            let next = self.wide(&mut new, kept.next)?;
            new.assign(*read, next)?;
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
    fn wide(&self, new: &mut GraphBuilder, value: Value) -> Made<Value> {
        let value = self.again(value);
        let wider = (self.wider)(new.tensor(value)?.element);
        new.cast(value, wider)
    }

    /// What a node takes: in the type that it is computed in what is added up or handed on, and all else as it was.
    fn operands(&self, new: &mut GraphBuilder, node: &Node) -> Made<Vec<Value>> {
        let is_wide = |place| match node.operation {
            Operation::Add | Operation::Multiply | Operation::Select | Operation::RowSum => true,
            Operation::Spread => place == 0,
            _ => false,
        };
        let operands = node.operands.iter().enumerate();
        let new =
            operands.map(|(place, value)| if is_wide(place) { self.wide(new, *value) } else { Ok(self.again(*value)) });
        new.collect()
    }

    fn node(&mut self, new: &mut GraphBuilder, node: &Node, variables: &[Kept]) -> Made<Value> {
        let element = node.tensor.element;
        let of = self.operands(new, node)?;
        let wide = match &node.operation {
            Operation::Input(name) => new.input(name, node.tensor.clone()),
            Operation::Constant(scalar) => new.constant(element, scalar.clone()),
            Operation::Cast => new.cast(of[0], element),
            Operation::Add => new.add(of[0], of[1]),
            Operation::Multiply => new.multiply(of[0], of[1]),
            Operation::Not => new.not(of[0]),
            Operation::And => new.and(of[0], of[1]),
            Operation::Select => new.select(of[0], of[1], of[2]),
            Operation::RowSum => new.row_sum(of[0]),
            Operation::Spread => new.spread(of[0], of[1]),
            Operation::Parse => new.parse(of[0], element),
            Operation::Show => new.show(of[0]),
            Operation::Read(variable) => {
                let Kept { name, element, slots, initial, .. } = &variables[*variable];
                let read = new.variable(name, (self.wider)(*element), *slots, initial.clone(), of[0]);
                self.reads.extend(&read);
                read
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
            [(Operation::Input(_), Int8), (Operation::Cast, Int32), (Operation::Add, Int32), (Operation::Cast, Int8)]
        ));
        assert_eq!(widened(&graph, |element| element), graph);
    }
}
