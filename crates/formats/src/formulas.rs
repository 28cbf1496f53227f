//! The formulas of sequence models, as graphs.

use crate::{
    builder::GraphBuilder,
    element::{
        ElementType::{self, Bool, Fp32, Int32, Int64, Text, Uint32, Uint64},
        Scalar,
    },
    graph::{Graph, Tensor, Value},
    shape::{Dim, Shape},
};

/// What a model computes. INPUT is the sum of the elements of a row; OUTPUT has the result in each of as many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// OUTPUT = `OUTPUT_STATE` = INPUT + `INPUT_STATE`, the latter only where READY and not START. The state is kept outside.
    Implicit,
    /// OUTPUT = `OUTPUT_STATE` = INPUT + `INPUT_STATE`: what is outside sets the state when a sequence begins.
    ImplicitWithInitialState,
    /// OUTPUT = READY * (INPUT + START).
    Stateless,
    /// The running sum, kept inside by row: where READY, OUTPUT = INPUT + (START ? initial : the row's sum); where not, OUTPUT
    /// is 0 and the sum stays.
    Stateful {
        /// What a sequence begins with.
        initial: i128,
    },
}

/// What tensors are called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are called so where nobody calls them otherwise")]
pub struct Names {
    pub input: String,
    pub input_state: String,
    pub start: String,
    pub end: String,
    pub ready: String,
    pub corrid: String,
    pub output: String,
    pub output_state: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            input: "INPUT".into(),
            input_state: "INPUT_STATE".into(),
            start: "START".into(),
            end: "END".into(),
            ready: "READY".into(),
            corrid: "CORRID".into(),
            output: "OUTPUT".into(),
            output_state: "OUTPUT_STATE".into(),
        }
    }
}

/// The types and shapes of a model's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What INPUT, OUTPUT and the state are made of. Texts are INT32 in decimal.
    pub element: ElementType,
    /// The most rows of a batch; none where there is no batch axis.
    pub batch: Option<u32>,
    /// How many elements a row of INPUT and OUTPUT has; none where it may be any number.
    pub width: Option<u32>,
    /// The type of START, END and READY: INT32, FP32 or BOOL. Whatever is not 0 is true.
    pub control: ElementType,
    /// With END and CORRID, of this type, as inputs.
    pub corrid: Option<ElementType>,
    /// Where END, CORRID is added to OUTPUT and not to the state, with all its bits where the numbers have 64, else with its low
    /// 32 as INT32. Of texts the decimal number, 0 where it is none. Without CORRID, nothing is.
    pub adds_corrid: bool,
    /// What the tensors are called.
    pub names: Names,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            element: Int32,
            batch: Some(8),
            width: Some(1),
            control: Int32,
            corrid: None,
            adds_corrid: true,
            names: Names::default(),
        }
    }
}

/// The graph of a formula. Its inputs are, as far as it has them, INPUT, `INPUT_STATE`, START, END, READY and CORRID in this order; its
/// outputs OUTPUT and `OUTPUT_STATE`. State and controls have one element for each row.
///
/// # Errors
/// When a type has no sum, is no type of a control or of CORRID, or a name is none.
pub fn graph(formula: Formula, options: &Options) -> Result<Graph, String> {
    check(options)?;
    let mut model = Model::new(options, formula)?;
    let numbers = model.parsed(model.input)?;
    let sum = model.graph.row_sum(numbers)?;
    let result = match formula {
        Formula::Implicit => model.implicit(sum)?,
        Formula::ImplicitWithInitialState => model.graph.add(sum, model.input_state())?,
        Formula::Stateless => model.stateless(sum)?,
        Formula::Stateful { initial } => model.stateful(sum, initial)?,
    };
    model.finish(result)
}

fn check(options: &Options) -> Result<(), String> {
    if options.element == Bool {
        return Err("INPUT of BOOL: it has no sum; use BOOL for the controls".to_owned());
    }
    if ![Int32, Fp32, Bool].contains(&options.control) {
        return Err(format!("controls of {}: they are INT32, FP32 or BOOL", options.control));
    }
    if let Some(corrid) = options.corrid.filter(|corrid| ![Int32, Uint32, Int64, Uint64, Text].contains(corrid)) {
        return Err(format!("CORRID of {corrid}: it is INT32, UINT32, INT64, UINT64 or TEXT"));
    }
    if options.batch == Some(0) || options.width == Some(0) {
        return Err("a batch of no rows, or rows of no elements: there would be nothing to add up".to_owned());
    }
    Ok(())
}

/// A formula's graph in the making.
struct Model<'a> {
    options: &'a Options,
    graph: GraphBuilder,
    /// The type that is computed in.
    number: ElementType,
    input: Value,
    state: Option<Value>,
    start: Value,
    ready: Value,
    end_and_corrid: Option<(Value, Value)>,
}

impl<'a> Model<'a> {
    fn new(options: &'a Options, formula: Formula) -> Result<Self, String> {
        let names = &options.names;
        let mut graph = GraphBuilder::new("model")?;
        let is_batch = options.batch.is_some();
        let width = options.width.map_or(Dim::Open, Dim::Fixed);
        let shape = Shape::new(if is_batch { vec![Dim::Batch, width] } else { vec![width] });
        let one = |element| Tensor::new(element, Shape::one(is_batch));
        let input = graph.input(&names.input, Tensor::new(options.element, shape))?;
        let is_implicit = matches!(formula, Formula::Implicit | Formula::ImplicitWithInitialState);
        let state = is_implicit.then(|| graph.input(&names.input_state, one(options.element))).transpose()?;
        let start = graph.input(&names.start, one(options.control))?;
        let end = options.corrid.map(|_| graph.input(&names.end, one(options.control))).transpose()?;
        let ready = graph.input(&names.ready, one(options.control))?;
        let corrid = options.corrid.map(|element| graph.input(&names.corrid, one(element))).transpose()?;
        let number = if options.element == Text { Int32 } else { options.element };
        let mut model = Self { options, graph, number, input, state, start, ready, end_and_corrid: end.zip(corrid) };
        model.state = model.state.map(|state| model.parsed(state)).transpose()?;
        Ok(model)
    }

    /// A value of the model's type as a number.
    fn parsed(&mut self, value: Value) -> Result<Value, String> {
        if self.options.element == Text { self.graph.parse(value, Int32) } else { Ok(value) }
    }

    fn shown(&mut self, value: Value) -> Result<Value, String> {
        if self.options.element == Text { self.graph.show(value) } else { Ok(value) }
    }

    fn truth(&mut self, control: Value) -> Result<Value, String> {
        self.graph.cast(control, Bool)
    }

    /// 0 or 1 as the model's number.
    fn count(&mut self, control: Value) -> Result<Value, String> {
        let truth = self.truth(control)?;
        self.graph.cast(truth, self.number)
    }

    fn input_state(&self) -> Value {
        self.state.expect("models with implicit state have it as an input")
    }

    fn implicit(&mut self, sum: Value) -> Result<Value, String> {
        let (start, ready) = (self.truth(self.start)?, self.truth(self.ready)?);
        let goes_on = self.graph.not(start)?;
        let takes_state = self.graph.and(ready, goes_on)?;
        let zero = self.graph.number(self.number, 0)?;
        let before = self.graph.select(takes_state, self.input_state(), zero)?;
        self.graph.add(sum, before)
    }

    fn stateless(&mut self, sum: Value) -> Result<Value, String> {
        let (start, ready) = (self.count(self.start)?, self.count(self.ready)?);
        let sum = self.graph.add(sum, start)?;
        self.graph.multiply(ready, sum)
    }

    fn stateful(&mut self, sum: Value, initial: i128) -> Result<Value, String> {
        let (start, ready) = (self.truth(self.start)?, self.truth(self.ready)?);
        let begins = Scalar::Whole(initial);
        let kept = self.graph.variable("STATE", self.number, self.options.batch, begins, self.input)?;
        let initial = self.graph.number(self.number, initial)?;
        let before = self.graph.select(start, initial, kept)?;
        let after = self.graph.add(before, sum)?;
        let next = self.graph.select(ready, after, kept)?;
        self.graph.assign(kept, next)?;
        let zero = self.graph.number(self.number, 0)?;
        self.graph.select(ready, after, zero)
    }

    /// The result with CORRID added where the sequence ends.
    fn with_corrid(&mut self, result: Value, end: Value, corrid: Value) -> Result<Value, String> {
        let number = self.number;
        let has_64_bits = matches!(number, Int64 | Uint64);
        let low_bits = if has_64_bits { number } else { Int32 };
        let id = if self.options.corrid == Some(Text) { self.graph.parse(corrid, Uint64)? } else { corrid };
        let id = self.graph.cast(id, low_bits)?;
        // Between the two casts, because onnxruntime 1.15 makes one of two that follow each other, with other bits.
        let end = self.truth(end)?;
        let end = self.graph.cast(end, low_bits)?;
        let added = self.graph.multiply(end, id)?;
        let added = self.graph.cast(added, number)?;
        self.graph.add(result, added)
    }

    fn finish(mut self, result: Value) -> Result<Graph, String> {
        let next_state = self.state.map(|_| self.shown(result)).transpose()?;
        let result = match self.end_and_corrid.filter(|_| self.options.adds_corrid) {
            Some((end, corrid)) => self.with_corrid(result, end, corrid)?,
            None => result,
        };
        let text_or_number = self.shown(result)?;
        let output = self.graph.spread(text_or_number, self.input)?;
        self.graph.output(&self.options.names.output, output)?;
        if let Some(state) = next_state {
            self.graph.output(&self.options.names.output_state, state)?;
        }
        self.graph.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Formula, Options, graph};
    use crate::{
        element::ElementType::{Bool, Fp64, Int32, Int64, Text},
        graph::Graph,
    };

    fn names(graph: &Graph) -> (Vec<&str>, Vec<&str>) {
        (graph.inputs().map(|(name, _)| name).collect(), graph.outputs().map(|(name, _)| name).collect())
    }

    #[test]
    fn inputs_are_in_the_order_that_is_promised() {
        let implicit = graph(Formula::Implicit, &Options::default()).expect("it has one");
        assert_eq!(names(&implicit), (vec!["INPUT", "INPUT_STATE", "START", "READY"], vec!["OUTPUT", "OUTPUT_STATE"]));
        let dyna = Options { corrid: Some(Int64), ..Options::default() };
        let stateful = graph(Formula::Stateful { initial: 0 }, &dyna).expect("it has one");
        assert_eq!(names(&stateful), (vec!["INPUT", "START", "END", "READY", "CORRID"], vec!["OUTPUT"]));
        assert!(stateful.has_state() && !implicit.has_state());
    }

    #[test]
    fn what_has_no_formula_is_rejected() {
        let rejected = |options| graph(Formula::Stateless, &options).expect_err("it is rejected");
        let default = Options::default;
        assert_eq!(
            rejected(Options { element: Bool, ..default() }),
            "INPUT of BOOL: it has no sum; use BOOL for the controls"
        );
        assert_eq!(
            rejected(Options { control: Int64, ..default() }),
            "controls of INT64: they are INT32, FP32 or BOOL"
        );
        assert_eq!(
            rejected(Options { corrid: Some(Fp64), ..default() }),
            "CORRID of FP64: it is INT32, UINT32, INT64, UINT64 or TEXT"
        );
        assert_eq!(
            rejected(Options { width: Some(0), ..default() }),
            "a batch of no rows, or rows of no elements: there would be nothing to add up"
        );
        let too_large = graph(Formula::Stateful { initial: 1 << 31 }, &Options { element: Text, ..default() });
        assert_eq!(too_large.expect_err("it is rejected"), "INT32 does not have the value Whole(2147483648)");
        assert!(graph(Formula::Stateless, &Options { element: Int32, ..default() }).is_ok());
    }
}
