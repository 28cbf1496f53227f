//! Which state an answer's outputs belong to.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    FaultKind, Gathered, Golden, Lineage, Output, Word,
    compare::{is_number, numbers},
    relations::repeatable,
};
use workload::{
    event::Response,
    inputs::InputSet,
    number::Number,
    tensor::{Tensor, TensorData, elements},
};

/// What an answer tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// The state with this sum.
    State(Number),
    /// One of several states that the outputs do not tell apart, and of which none is expected.
    Ambiguous,
    /// No state that is known; and where it differs from what is expected, if one thing is.
    Unlike(Option<Misfit>),
    /// Outputs of other names, types or shapes than the model's.
    Malformed,
}

/// How an answer is not the golden one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Misfit {
    /// A step has another number of responses.
    Responses {
        /// How many it has to have.
        expected: usize,
        /// How many came.
        seen: usize,
    },
    /// An output differs.
    Output(Deviation),
}

impl Misfit {
    /// How the golden answer is not this one.
    pub fn reversed(self) -> Self {
        match self {
            Self::Responses { expected, seen } => Self::Responses { expected: seen, seen: expected },
            Self::Output(deviation) => {
                let what = match deviation.what {
                    Differs::Shape { expected, seen } => Differs::Shape { expected: seen, seen: expected },
                    Differs::Number { element, expected, seen, apart, tolerance, differing, of } => {
                        Differs::Number { element, expected: seen, seen: expected, apart, tolerance, differing, of }
                    }
                    what @ Differs::Element { .. } => what,
                };
                Self::Output(Deviation { what, ..deviation })
            }
        }
    }
}

/// What the responses to a step are of those that it has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arranged {
    /// All of them: their numbers, from 1, in the order in which they came.
    InOrder(Vec<usize>),
    /// Some of them.
    Fewer { expected: usize, seen: usize },
    /// All of them, and some again.
    More { expected: usize, seen: usize },
}

/// Where an answer differs from the golden one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deviation {
    /// The response, from 1, where a step has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<usize>,
    /// The output.
    pub output: String,
    /// What differs there.
    #[serde(flatten)]
    pub what: Differs,
}

/// What differs in an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Differs {
    /// Its shape.
    Shape {
        /// The golden one.
        expected: Vec<i64>,
        /// That of the response.
        seen: Vec<i64>,
    },
    /// A number in it, by more than the tolerance.
    Number {
        /// The element, from 0.
        element: usize,
        /// The golden number, in decimal, because JSON has not all of them.
        expected: String,
        /// That of the response.
        seen: String,
        /// How far they are apart, by the rule's measure; in decimal.
        apart: String,
        /// How far they may be.
        tolerance: f64,
        /// How many elements are so far apart, where each is compared by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        differing: Option<usize>,
        /// How many elements there are.
        of: usize,
    },
    /// An element that is no number.
    Element {
        /// The element, from 0.
        element: usize,
    },
}

/// What is wrong with the form of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormProblem {
    /// Its type.
    Datatype,
    /// Its shape.
    Shape,
    /// It has not as many elements as its shape says, which are so many.
    Size(usize),
}

/// The bytes of a tensor as the protocol's raw contents have them.
fn bytes_of(data: &TensorData) -> Cow<'_, [u8]> {
    match data {
        TensorData::Raw(bytes) => bytes.into(),
        TensorData::Int32(elements) => elements.iter().flat_map(|element| element.to_le_bytes()).collect(),
        TensorData::Absent => Cow::default(),
    }
}

/// Responses to a step, in their order: for each its outputs in the order of the golden's, as shape and bytes.
pub(super) type Answer<'a> = Vec<Vec<Seen<'a>>>;

/// A tensor's shape and bytes.
pub(super) type Seen<'a> = (&'a [i64], Cow<'a, [u8]>);

pub(super) fn of_gathered(gathered: &Gathered) -> Answer<'_> {
    gathered
        .iter()
        .map(|outputs| outputs.iter().map(|(shape, bytes)| (shape.as_slice(), bytes.as_slice().into())).collect())
        .collect()
}

/// Where the responses to a step, which is the how-manieth of its sequence, are not the known ones.
pub(super) fn misfit(outputs: &[Output], steps: u32, known: &Answer, answer: &Answer) -> Option<Misfit> {
    if known.len() != answer.len() {
        return Some(Misfit::Responses { expected: known.len(), seen: answer.len() });
    }
    for (number, (known, seen)) in (1..).zip(known.iter().zip(answer)) {
        for ((output, known), seen) in outputs.iter().zip(known).zip(seen).filter(|((output, _), _)| output.is_judged())
        {
            if let Some(what) = output.differs(steps, known, seen) {
                let response = (answer.len() > 1).then_some(number);
                return Some(Misfit::Output(Deviation { response, output: output.spec.name.clone(), what }));
            }
        }
    }
    None
}

impl Golden {
    /// Reads the responses to a step, in their order. `expected` are the sums that a correct server's states may have then.
    pub fn read<'r>(
        &self,
        expected: impl Iterator<Item = Number>,
        responses: impl Iterator<Item = &'r Response>,
    ) -> Reading {
        let Some(answer) = self.answer(responses) else { return Reading::Malformed };
        let mut hints = Vec::new();
        let mut known = Vec::new();
        for sum in expected {
            if let Some(word) = self.word(sum) {
                if self.is_of(word, &answer) {
                    return Reading::State(sum);
                }
                known.push(word);
            }
            hints.push(sum);
        }
        // Without an output that is judged, all states look alike.
        if !self.judges() {
            return Reading::Unlike(None);
        }
        let misfit = || match known[..] {
            [alone] => self.misfit(alone, &answer),
            _ => None,
        };
        let mut found: Option<Number> = None;
        for place in self.index.candidates(self, &answer) {
            let word = &self.words[place];
            if !self.is_of(word, &answer) {
                continue;
            }
            let sum = word.lineage.number(&self.inputs);
            // The same steps in another order have the same sum; its outputs are others.
            if matches!(word.lineage, Lineage::Fault { kind: FaultKind::Exchanged, .. }) && hints.contains(&sum) {
                continue;
            }
            match found {
                // Whichever it is: it is none of those that may come.
                Some(other) if other != sum && known.len() == hints.len() && !known.is_empty() => {
                    return Reading::Unlike(misfit());
                }
                Some(known) if known != sum => return Reading::Ambiguous,
                _ => found = Some(sum),
            }
        }
        found.map_or_else(|| Reading::Unlike(misfit()), Reading::State)
    }

    /// Responses as they are compared; none where one is not of the model's form.
    fn answer<'r>(&self, responses: impl Iterator<Item = &'r Response>) -> Option<Answer<'r>> {
        responses.map(|response| self.tensors(response)).collect()
    }

    fn tensors<'r>(&self, response: &'r Response) -> Option<Vec<Seen<'r>>> {
        if response.outputs.len() != self.outputs.len() {
            return None;
        }
        let in_order = self.outputs.iter().enumerate().map(|(place, output)| {
            let at = response.outputs.get(place).filter(|tensor| tensor.name == output.spec.name);
            let tensor = at.or_else(|| response.outputs.iter().find(|tensor| tensor.name == output.spec.name))?;
            output.problem(tensor).is_none().then(|| (tensor.shape.as_slice(), bytes_of(&tensor.data)))
        });
        in_order.collect()
    }

    /// The responses to a step as they are kept; none where one is not of the model's form.
    pub fn gathered(&self, first: &Response) -> Option<Gathered> {
        let owned = |(shape, bytes): Seen| (shape.to_vec(), bytes.into_owned());
        let answer = self.answer(first.all())?;
        Some(answer.into_iter().map(|outputs| outputs.into_iter().map(owned).collect()).collect())
    }

    fn is_of(&self, word: &Word, answer: &Answer) -> bool {
        self.tolerances_apart(word.lineage.length(), &of_gathered(&word.responses), answer) <= 1.0
    }

    fn misfit(&self, word: &Word, answer: &Answer) -> Option<Misfit> {
        misfit(&self.outputs, word.lineage.length(), &of_gathered(&word.responses), answer)
    }

    /// In what responses differ from those of the state with this sum; none where they do not, or it is not known.
    pub fn differs_from(&self, sum: Number, gathered: &Gathered) -> Option<Misfit> {
        self.misfit(self.word(sum)?, &of_gathered(gathered))
    }

    /// What responses are of those of the state with this sum; none where one of them is none of those.
    pub(crate) fn arranged<'r>(&self, sum: Number, responses: impl Iterator<Item = &'r Response>) -> Option<Arranged> {
        let (word, answer) = (self.word(sum)?, self.answer(responses)?);
        let known = of_gathered(&word.responses);
        let (expected, came) = (known.len(), answer.len());
        let is_it = |known: &[_], seen: &[_]| {
            let (known, seen) = ([known.to_vec()].into(), [seen.to_vec()].into());
            self.tolerances_apart(word.lineage.length(), &known, &seen) <= 1.0
        };
        let mut left: Vec<_> = (1..).zip(&known).collect();
        let mut numbers = Vec::new();
        for seen in &answer {
            if let Some(place) = left.iter().position(|(_, known)| is_it(known, seen)) {
                numbers.push(left.remove(place).0);
            } else if !known.iter().any(|known| is_it(known, seen)) {
                return None;
            }
        }
        match (came < expected, left.is_empty()) {
            (true, _) if numbers.len() == came => Some(Arranged::Fewer { expected, seen: came }),
            (false, true) if came > expected => Some(Arranged::More { expected, seen: came }),
            (false, true) => Some(Arranged::InOrder(numbers)),
            _ => None,
        }
    }

    /// How far the responses of two states are apart, in tolerances of the less exact one, by the output that shows it best; infinite where
    /// their number or shapes differ, or what differs is no number.
    pub fn apart(&self, one: &Word, other: &Word) -> f64 {
        let steps = one.lineage.length().max(other.lineage.length());
        self.tolerances_apart(steps, &of_gathered(&one.responses), &of_gathered(&other.responses))
    }

    /// The same of the state with this sum and of responses that came; none where that state's are not known.
    pub fn apart_from(&self, sum: Number, gathered: &Gathered) -> Option<f64> {
        let word = self.word(sum)?;
        Some(self.tolerances_apart(word.lineage.length(), &of_gathered(&word.responses), &of_gathered(gathered)))
    }

    /// Whether two answers to a step, which is the how-manieth of its sequence, are the same within the tolerances; not where no output is
    /// judged.
    pub fn are_the_same(&self, one: &Gathered, other: &Gathered, steps: u32) -> bool {
        if self.judges() {
            return self.tolerances_apart(steps, &of_gathered(one), &of_gathered(other)) <= 1.0;
        }
        let outputs = repeatable(self, steps);
        outputs.iter().any(Output::is_judged)
            && misfit(&outputs, steps, &of_gathered(one), &of_gathered(other)).is_none()
    }

    fn tolerances_apart(&self, steps: u32, one: &Answer, other: &Answer) -> f64 {
        if one.len() != other.len() {
            return f64::INFINITY;
        }
        let outputs = one.iter().zip(other).flat_map(|(one, other)| self.outputs.iter().zip(one).zip(other));
        let judged = outputs.filter(|((output, _), _)| output.is_judged());
        judged.map(|((output, one), other)| output.tolerances_apart(steps, one, other)).fold(0.0, f64::max)
    }
}

impl Output {
    fn tolerances_apart(&self, steps: u32, one: &Seen, other: &Seen) -> f64 {
        if one.0 != other.0 {
            return f64::INFINITY;
        }
        match (self.compare.distance(self.datatype, &one.1, &other.1), self.tolerance(steps)) {
            (0.0, _) => 0.0,
            // Where nothing may differ, whatever differs is far apart.
            (_, 0.0) => f64::INFINITY,
            (by, tolerance) => by / tolerance,
        }
    }

    /// What differs in a tensor by more than it may.
    fn differs(&self, steps: u32, known: &Seen, seen: &Seen) -> Option<Differs> {
        if self.tolerances_apart(steps, known, seen) <= 1.0 {
            return None;
        }
        let ((shape, expected), (its, bytes)) = (known, seen);
        if shape != its {
            return Some(Differs::Shape { expected: shape.to_vec(), seen: its.to_vec() });
        }
        let tolerance = self.tolerance(steps);
        let worst = self.compare.worst(self.datatype, expected, bytes, tolerance);
        let element = worst.map_or(0, |(element, _)| element);
        if !is_number(self.datatype) {
            return Some(Differs::Element { element });
        }
        let number = |bytes: &[u8]| {
            numbers(self.datatype, bytes)
                .nth(element)
                .map_or_else(|| "nothing".to_owned(), |number| format!("{number:?}"))
        };
        Some(Differs::Number {
            element,
            expected: number(expected),
            seen: number(bytes),
            apart: format!("{:.1e}", self.compare.distance(self.datatype, expected, bytes)),
            tolerance,
            differing: worst.map(|(_, differing)| differing),
            of: numbers(self.datatype, expected).count(),
        })
    }

    /// What is wrong with the form of a tensor, if something is.
    pub(crate) fn problem(&self, tensor: &Tensor) -> Option<FormProblem> {
        let is_as = |(size, declared): (&i64, &i64)| *size >= 0 && (*declared == -1 || size == declared);
        if tensor.datatype != self.spec.datatype {
            return Some(FormProblem::Datatype);
        }
        let has_shape =
            tensor.shape.len() == self.spec.shape.len() && tensor.shape.iter().zip(&self.spec.shape).all(is_as);
        if !has_shape {
            return Some(FormProblem::Shape);
        }
        let count = elements(&tensor.shape);
        (self.datatype.count(&bytes_of(&tensor.data)) != Some(count)).then_some(FormProblem::Size(count))
    }
}

/// A number that stands for an answer like nothing known. A state has it as its sum by chance in 1 of 2^64 cases.
pub fn unlike() -> Number {
    InputSet::DATATYPE.number(0x5eed_0f0d_dba1_1000)
}
