//! Makes graphs, and only such as are right.

mod layers;

use crate::{
    element::{ElementType, Scalar},
    graph::{Graph, Kept, Operation, Tensor, Value},
    shape::{Dim, Shape},
};

/// A graph in the making. Whatever is added is checked at once; what is there already is not added again.
///
/// Values and variables are of the builder that gave them: those of another one are rejected, or mean something else.
#[derive(Clone, Debug)]
pub struct GraphBuilder(Graph);

/// A value, or what was tried and does not fit, on one line.
type Made = Result<Value, String>;

impl GraphBuilder {
    /// An empty graph with this name.
    ///
    /// # Errors
    /// When it is no name: letters, digits and `_`, a letter first.
    pub fn new(name: &str) -> Result<Self, String> {
        check_name(name)?;
        Ok(Self(Graph::new(name)))
    }

    /// One more input.
    ///
    /// # Errors
    /// When it is no name, or not the only one of this name, or the batch is not the first axis.
    pub fn input(&mut self, name: &str, tensor: Tensor) -> Made {
        self.check_new_name(name)?;
        if !tensor.shape.is_in_order() {
            return Err(format!("input '{name}' of {}: the batch has to be the first axis", tensor.shape));
        }
        Ok(self.0.add(Operation::Input(name.into()), &[], tensor))
    }

    /// A constant of a single element, which has no axes.
    ///
    /// # Errors
    /// When the type does not have this value.
    pub fn constant(&mut self, element: ElementType, scalar: Scalar) -> Made {
        check_scalar(&scalar, element)?;
        Ok(self.0.add(Operation::Constant(scalar), &[], Tensor::new(element, Shape::default())))
    }

    /// A whole number as a constant.
    ///
    /// # Errors
    /// When the type does not have this number.
    pub fn number(&mut self, element: ElementType, number: i128) -> Made {
        self.constant(element, Scalar::Whole(number))
    }

    /// `value` in another type: truth values as 0 and 1, numbers as whether they are other than 0; of whole numbers the low bits.
    ///
    /// # Errors
    /// When either is of texts.
    pub fn cast(&mut self, value: Value, element: ElementType) -> Made {
        let from = self.tensor(value)?.element;
        if from != element && [from, element].contains(&ElementType::Text) {
            return Err(format!("cast of {from} to {element}: texts are parsed and shown"));
        }
        Ok(self.0.cast(value, element))
    }

    /// The sum of two values, element by element.
    ///
    /// # Errors
    /// When they are not numbers of one type, or their shapes do not fit.
    pub fn add(&mut self, one: Value, other: Value) -> Made {
        let tensor = self.joined("add", one, other)?;
        check_number("add", tensor.element)?;
        Ok(self.0.add(Operation::Add, &[one, other], tensor))
    }

    /// The product of two values, element by element.
    ///
    /// # Errors
    /// As with [`Self::add`].
    pub fn multiply(&mut self, one: Value, other: Value) -> Made {
        let tensor = self.joined("multiply", one, other)?;
        check_number("multiply", tensor.element)?;
        Ok(self.0.add(Operation::Multiply, &[one, other], tensor))
    }

    /// What is not true.
    ///
    /// # Errors
    /// When it is not of truth values.
    pub fn not(&mut self, value: Value) -> Made {
        let tensor = self.tensor(value)?;
        check_truth("not", tensor.element)?;
        Ok(self.0.add(Operation::Not, &[value], tensor))
    }

    /// What is true of both.
    ///
    /// # Errors
    /// When they are not of truth values, or their shapes do not fit.
    pub fn and(&mut self, one: Value, other: Value) -> Made {
        let tensor = self.joined("and", one, other)?;
        check_truth("and", tensor.element)?;
        Ok(self.0.add(Operation::And, &[one, other], tensor))
    }

    /// `then` where the condition is true, else `otherwise`.
    ///
    /// # Errors
    /// When the condition is not of truth values, the others are not of one type, or the shapes do not fit.
    pub fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Made {
        let decides = self.tensor(condition)?;
        check_truth("select", decides.element)?;
        let chosen = self.joined("select", then, otherwise)?;
        let shape = joined("select", &decides.shape, &chosen.shape)?;
        Ok(self.0.add(Operation::Select, &[condition, then, otherwise], Tensor::new(chosen.element, shape)))
    }

    /// The sum over all axes but that of the batch, which become 1.
    ///
    /// # Errors
    /// When it is not of numbers.
    pub fn row_sum(&mut self, value: Value) -> Made {
        let tensor = self.tensor(value)?;
        check_number("sum", tensor.element)?;
        let shape = tensor.shape.of_row_sum();
        if shape == tensor.shape {
            return Ok(value);
        }
        Ok(self.0.add(Operation::RowSum, &[value], Tensor::new(tensor.element, shape)))
    }

    /// `value`, repeated to the shape of `like`.
    ///
    /// # Errors
    /// When it cannot be repeated so.
    pub fn spread(&mut self, value: Value, like: Value) -> Made {
        let (tensor, wanted) = (self.tensor(value)?, self.tensor(like)?.shape);
        if tensor.shape == wanted && !wanted.dims().contains(&Dim::Open) {
            return Ok(value);
        }
        if joined("spread", &tensor.shape, &wanted)? != wanted {
            return Err(format!("spread: {} is larger than {wanted}", tensor.shape));
        }
        Ok(self.0.add(Operation::Spread, &[value, like], Tensor::new(tensor.element, wanted)))
    }

    /// The whole number that a text is in decimal; 0 where it is none that the type has.
    ///
    /// # Errors
    /// When it is not of texts, or `element` not a type of whole numbers.
    pub fn parse(&mut self, text: Value, element: ElementType) -> Made {
        let tensor = self.tensor(text)?;
        check_text("parse", tensor.element, element)?;
        Ok(self.0.add(Operation::Parse, &[text], Tensor::new(element, tensor.shape)))
    }

    /// A whole number in decimal.
    ///
    /// # Errors
    /// When it is not of whole numbers.
    pub fn show(&mut self, number: Value) -> Made {
        let tensor = self.tensor(number)?;
        check_text("show", ElementType::Text, tensor.element)?;
        Ok(self.0.add(Operation::Show, &[number], Tensor::new(ElementType::Text, tensor.shape)))
    }

    /// What a variable held before this execution, which has one element, or one for each slot, and begins with `initial`: of one with slots
    /// the first ones, as many as `like` has rows.
    ///
    /// # Errors
    /// When it is no name, or not the only one of this name, there are no slots, the type does not have the value, or `like` has no batch
    /// and the variable has slots, or the other way round.
    pub fn variable(
        &mut self,
        name: &str,
        element: ElementType,
        slots: Option<u32>,
        initial: Scalar,
        like: Value,
    ) -> Made {
        self.check_new_name(name)?;
        check_scalar(&initial, element)?;
        if slots == Some(0) {
            return Err(format!("variable '{name}': it needs at least one slot"));
        }
        let rows = self.tensor(like)?.shape;
        if rows.is_batch() != slots.is_some() {
            return Err(format!("read of '{name}': slots are the rows of a batch, and {rows} is other"));
        }
        let tensor = Tensor::new(element, Shape::one(slots.is_some()));
        let read = self.0.add(Operation::Read(self.0.variables.len()), &[like], tensor);
        // Until something is assigned to it it stays as it was read.
        self.0.variables.push(Kept { name: name.into(), element, slots, initial, read, next: read });
        Ok(read)
    }

    /// What a variable, of which this was read, holds after this execution, in the slots that were in the batch; the others stay.
    ///
    /// # Errors
    /// When no variable was read so, it has its value already, or is of another type or shape.
    pub fn assign(&mut self, read: Value, value: Value) -> Result<(), String> {
        let (wanted, tensor) = (self.tensor(read)?, self.tensor(value)?);
        let kept =
            self.0.variables.iter_mut().find(|kept| kept.read == read).ok_or("assignment to what is no variable")?;
        let failed = |why: String| Err(format!("assignment to '{}': {why}", kept.name));
        if kept.next != read {
            return failed("it is assigned to once".into());
        }
        if tensor != wanted {
            return failed(format!("{} {} is not {} {}", tensor.element, tensor.shape, wanted.element, wanted.shape));
        }
        kept.next = value;
        Ok(())
    }

    /// One more output.
    ///
    /// # Errors
    /// When it is no name, or not the only one of this name.
    pub fn output(&mut self, name: &str, value: Value) -> Result<(), String> {
        self.check_new_name(name)?;
        self.tensor(value)?;
        self.0.outputs.push((name.into(), value));
        Ok(())
    }

    /// The graph.
    ///
    /// # Errors
    /// When it has no output, or a variable to which nothing is assigned.
    pub fn finish(self) -> Result<Graph, String> {
        if self.0.outputs.is_empty() {
            return Err(format!("graph '{}' has no output", self.0.name));
        }
        if let Some(kept) = self.0.variables.iter().find(|kept| kept.next == kept.read) {
            return Err(format!("variable '{}' is not assigned to", kept.name));
        }
        Ok(self.0)
    }

    fn tensor(&self, value: Value) -> Result<Tensor, String> {
        let node = self.0.nodes.get(value.0).ok_or("this value is of another graph")?;
        Ok(node.tensor.clone())
    }

    /// The tensor that comes of two of one type, element by element.
    fn joined(&self, what: &str, one: Value, other: Value) -> Result<Tensor, String> {
        let (one, other) = (self.tensor(one)?, self.tensor(other)?);
        if one.element != other.element {
            return Err(format!("{what}: {} and {} are not one type", one.element, other.element));
        }
        Ok(Tensor::new(one.element, joined(what, &one.shape, &other.shape)?))
    }

    fn check_new_name(&self, name: &str) -> Result<(), String> {
        check_name(name)?;
        let tensors = self.0.inputs().chain(self.0.outputs()).map(|(known, _)| known);
        let variables = self.0.variables.iter().map(|kept| kept.name.as_str());
        if tensors.chain(variables).any(|known| known == name) {
            return Err(format!("there are two tensors of the name '{name}'"));
        }
        Ok(())
    }
}

/// Formats take these names for nodes, and TorchScript as words of its language.
fn check_name(name: &str) -> Result<(), String> {
    let is_word = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_word && name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Ok(());
    }
    Err(format!("'{name}' is no name: use letters, digits and '_', a letter first"))
}

fn check_scalar(value: &Scalar, element: ElementType) -> Result<(), String> {
    let bytes = value.bytes(element);
    bytes.map(|_| ()).ok_or_else(|| format!("{element} does not have the value {value:?}"))
}

fn check_number(what: &str, element: ElementType) -> Result<(), String> {
    if element.is_number() { Ok(()) } else { Err(format!("{what}: {element} has no arithmetic")) }
}

fn check_truth(what: &str, element: ElementType) -> Result<(), String> {
    let is_truth = element == ElementType::Bool;
    if is_truth { Ok(()) } else { Err(format!("{what}: {element} is not {}", ElementType::Bool)) }
}

fn check_text(what: &str, text: ElementType, number: ElementType) -> Result<(), String> {
    if text == ElementType::Text && number.range().is_some() {
        return Ok(());
    }
    Err(format!("{what}: {text} and {number} are not texts and whole numbers"))
}

fn joined(what: &str, one: &Shape, other: &Shape) -> Result<Shape, String> {
    one.joined(other).ok_or_else(|| format!("{what}: the shapes {one} and {other} do not fit"))
}

#[cfg(test)]
mod tests {
    use super::GraphBuilder;
    use crate::{
        element::{
            ElementType::{Bool, Fp32, Int8, Int32, Text},
            Scalar,
        },
        graph::Tensor,
        shape::{Dim, Shape},
    };

    fn builder() -> GraphBuilder {
        GraphBuilder::new("test").expect("a name")
    }

    fn rows(width: u32) -> Shape {
        Shape::new(vec![Dim::Batch, Dim::Fixed(width)])
    }

    /// The error of whatever is made in a graph with inputs of INT32, FP32, BOOL and TEXT.
    fn rejected<T: std::fmt::Debug>(
        make: impl FnOnce(&mut GraphBuilder, [super::Value; 4]) -> Result<T, String>,
    ) -> String {
        let mut graph = builder();
        let inputs = [("A", Int32), ("B", Fp32), ("C", Bool), ("D", Text)]
            .map(|(name, element)| graph.input(name, Tensor::new(element, rows(2))).expect("a good input"));
        make(&mut graph, inputs).expect_err("it is rejected")
    }

    #[test]
    fn what_is_not_of_the_right_type_is_rejected() {
        assert_eq!(rejected(|graph, [a, b, ..]| graph.add(a, b)), "add: INT32 and FP32 are not one type");
        assert_eq!(rejected(|graph, [_, _, c, _]| graph.multiply(c, c)), "multiply: BOOL has no arithmetic");
        assert_eq!(rejected(|graph, [a, ..]| graph.not(a)), "not: INT32 is not BOOL");
        assert_eq!(rejected(|graph, [a, b, ..]| graph.select(a, b, b)), "select: INT32 is not BOOL");
        assert_eq!(rejected(|graph, [_, _, _, d]| graph.row_sum(d)), "sum: TEXT has no arithmetic");
        assert_eq!(
            rejected(|graph, [.., d]| graph.cast(d, Int32)),
            "cast of TEXT to INT32: texts are parsed and shown"
        );
        assert_eq!(
            rejected(|graph, [.., d]| graph.parse(d, Fp32)),
            "parse: TEXT and FP32 are not texts and whole numbers"
        );
        assert_eq!(rejected(|graph, _| graph.number(Int8, 128)), "INT8 does not have the value Whole(128)");
    }

    #[test]
    fn what_does_not_fit_is_rejected() {
        let other = |graph: &mut GraphBuilder| graph.input("E", Tensor::new(Int32, rows(3)));
        let sum = rejected(|graph, [a, ..]| other(graph).and_then(|e| graph.add(a, e)));
        assert_eq!(sum, "add: the shapes [batch, 2] and [batch, 3] do not fit");
        let late = Tensor::new(Int32, Shape::new(vec![Dim::Fixed(1), Dim::Batch]));
        assert_eq!(
            rejected(|graph, _| graph.input("E", late)),
            "input 'E' of [1, batch]: the batch has to be the first axis"
        );
        let smaller = rejected(|graph, [a, ..]| graph.row_sum(a).and_then(|sum| graph.spread(a, sum)));
        assert_eq!(smaller, "spread: [batch, 2] is larger than [batch, 1]");
    }

    #[test]
    fn names_are_words_and_there_is_one_of_each() {
        let again = rejected(|graph, _| graph.input("A", Tensor::new(Int32, rows(2))));
        assert_eq!(again, "there are two tensors of the name 'A'");
        assert_eq!(rejected(|graph, [a, ..]| graph.output("B", a)), "there are two tensors of the name 'B'");
        for name in ["", "1A", "A-B", "Ä", "_A"] {
            let expected = format!("'{name}' is no name: use letters, digits and '_', a letter first");
            assert_eq!(rejected(|graph, [a, ..]| graph.output(name, a)), expected);
        }
    }

    #[test]
    fn a_variable_is_read_and_then_assigned_to_once() {
        let state = |graph: &mut GraphBuilder, a| graph.variable("STATE", Int32, Some(4), Scalar::Whole(0), a);
        let unread = rejected(|graph, [a, ..]| graph.assign(a, a));
        assert_eq!(unread, "assignment to what is no variable");
        let twice = rejected(|graph, [a, ..]| {
            let (read, sum) = (state(graph, a)?, graph.row_sum(a)?);
            graph.assign(read, sum)?;
            graph.assign(read, sum)
        });
        assert_eq!(twice, "assignment to 'STATE': it is assigned to once");
        let wide = rejected(|graph, [a, ..]| state(graph, a).and_then(|read| graph.assign(read, a)));
        assert_eq!(wide, "assignment to 'STATE': INT32 [batch, 2] is not INT32 [batch, 1]");
        assert_eq!(
            rejected(|graph, [a, ..]| graph.variable("STATE", Int32, Some(0), Scalar::Whole(0), a)),
            "variable 'STATE': it needs at least one slot"
        );
        let forgotten = rejected(|graph, [a, ..]| {
            state(graph, a)?;
            graph.output("OUTPUT", a)?;
            graph.clone().finish()
        });
        assert_eq!(forgotten, "variable 'STATE' is not assigned to");
        assert_eq!(rejected(|graph, _| graph.clone().finish()), "graph 'test' has no output");
    }

    #[test]
    fn the_same_is_made_once() {
        let mut graph = builder();
        let input = graph.input("A", Tensor::new(Int32, rows(2))).expect("a good input");
        let one = graph.number(Int32, 1).and_then(|one| graph.add(input, one));
        let again = graph.number(Int32, 1).and_then(|one| graph.add(input, one));
        assert_eq!(one, again);
        assert_eq!(graph.cast(input, Int32), Ok(input));
        assert_eq!(graph.spread(input, input), Ok(input));
    }
}
