//! Which state an answer's outputs belong to.

use std::{borrow::Cow, collections::HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Compare, FaultKind, Golden, Known, Lineage, Output, Word,
    compare::{Apart, is_float, is_number, numbers},
};
use workload::{
    event::Response,
    inputs::{ElementType, InputSet},
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
    Unlike(Option<Deviation>),
    /// Outputs of other names, types or shapes than the model's.
    Malformed,
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

/// Finds a state by its outputs.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The output whose projection is in `keys`; none where no output is compared by how far its numbers are apart.
    output: Option<usize>,
    /// The projection of each state's first response, in order.
    keys: Vec<(f64, usize)>,
    /// Where no output has a projection: states by what their outputs are.
    exact: HashMap<u64, Vec<usize>>,
    /// States that are in neither.
    rest: Vec<usize>,
    /// How far projections may be apart for each unit of tolerance: the most elements that the output has.
    elements: f64,
}

impl Index {
    pub(super) fn of(golden: &Golden) -> Self {
        let by_distance = |output: &Output| {
            output.is_judged()
                && is_float(output.datatype)
                && matches!(output.compare, Compare::Measured | Compare::Atol(_))
        };
        let mut index = Self { output: golden.outputs.iter().position(by_distance), ..Self::default() };
        let is_exact = |output: &Output| {
            !output.is_judged()
                || output.compare == Compare::Exact
                || (output.tolerance(u32::MAX) == 0.0 && !is_float(output.datatype))
        };
        let all_exact = golden.outputs.iter().all(is_exact);
        for (place, word) in golden.words.iter().enumerate() {
            let first = index.output.and_then(|output| Some((output, word.responses.first()?.get(output)?)));
            match first {
                Some((output, known)) => {
                    let datatype = golden.outputs[output].datatype;
                    let bytes = golden.bytes(known);
                    let key = projection(datatype, bytes);
                    let elements = numbers(datatype, bytes).count();
                    #[expect(clippy::cast_precision_loss, reason = "tensors are not that large")]
                    let elements = elements as f64;
                    index.elements = index.elements.max(elements);
                    if key.is_finite() { index.keys.push((key, place)) } else { index.rest.push(place) }
                }
                None if index.output.is_none() && all_exact => {
                    let tensors = word.responses.iter().map(|outputs| outputs.iter().map(|known| golden.bytes(known)));
                    index.exact.entry(hashed(golden, tensors)).or_default().push(place);
                }
                None => index.rest.push(place),
            }
        }
        index.keys.sort_by(|one, other| one.0.total_cmp(&other.0));
        index
    }

    /// The states that an answer may belong to.
    fn candidates(&self, golden: &Golden, answer: &[Vec<&Tensor>]) -> Vec<usize> {
        let mut all = self.rest.clone();
        let first = self.output.and_then(|output| Some((output, answer.first()?.get(output)?)));
        if let Some((output, tensor)) = first {
            let output = &golden.outputs[output];
            let key = projection(output.datatype, &bytes_of(&tensor.data));
            let tolerance = output.tolerances.iter().copied().fold(0.0, f64::max);
            let near = tolerance * self.elements + key.abs() * 1e-9 + f64::MIN_POSITIVE;
            let from = self.keys.partition_point(|(other, _)| *other < key - near);
            all.extend(self.keys[from..].iter().take_while(|(other, _)| *other <= key + near).map(|(_, place)| *place));
        } else if !self.exact.is_empty() {
            let tensors: Vec<Vec<_>> =
                answer.iter().map(|outputs| outputs.iter().map(|tensor| bytes_of(&tensor.data)).collect()).collect();
            let hash = hashed(golden, tensors.iter().map(|outputs| outputs.iter().map(|bytes| &**bytes)));
            all.extend(self.exact.get(&hash).into_iter().flatten());
        }
        all
    }
}

/// A number that is nearly the same for tensors that are: their elements added up, each with a sign that its place decides.
fn projection(datatype: ElementType, bytes: &[u8]) -> f64 {
    let signed = |(place, number): (u64, f64)| {
        // The finalizer of SplitMix64 decides.
        let mut bits = place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        if (bits ^ (bits >> 27)).count_ones().is_multiple_of(2) { number } else { -number }
    };
    // Sums of what is no number would be none, and find nothing: the rest is compared one by one.
    (0..).zip(numbers(datatype, bytes)).filter(|(_, number)| number.is_finite()).map(signed).sum()
}

/// A hash of all tensors that are judged; floating-point numbers that are equal count as the same.
fn hashed<'b, O: Iterator<Item = &'b [u8]>>(golden: &Golden, responses: impl Iterator<Item = O>) -> u64 {
    fn mixed(hash: u64, bits: u64) -> u64 {
        let bits = (hash ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits ^ (bits >> 29)
    }
    let mut hash = 0;
    for outputs in responses {
        for (output, bytes) in golden.outputs.iter().zip(outputs).filter(|(output, _)| output.is_judged()) {
            hash = if is_float(output.datatype) {
                let canonical =
                    |number: f64| if number.is_nan() { f64::NAN.to_bits() } else { (number + 0.0).to_bits() };
                numbers(output.datatype, bytes).map(canonical).fold(hash, mixed)
            } else {
                bytes.iter().map(|byte| u64::from(*byte)).fold(hash, mixed)
            };
            hash = mixed(hash, bytes.len() as u64);
        }
        hash = mixed(hash, u64::MAX);
    }
    hash
}

/// The bytes of a tensor as the protocol's raw contents have them.
fn bytes_of(data: &TensorData) -> Cow<'_, [u8]> {
    match data {
        TensorData::Raw(bytes) => bytes.into(),
        TensorData::Int32(elements) => elements.iter().flat_map(|element| element.to_le_bytes()).collect(),
        TensorData::Absent => Cow::default(),
    }
}

impl Golden {
    /// Reads the responses to a step, in their order. `expected` are the sums that a correct server's states may have then.
    pub fn read<'r>(
        &self,
        expected: impl Iterator<Item = Number>,
        responses: impl Iterator<Item = &'r Response>,
    ) -> Reading {
        let Some(answer) = responses.map(|response| self.tensors(response)).collect::<Option<Vec<_>>>() else {
            return Reading::Malformed;
        };
        let mut difference = None;
        let mut others = 0;
        let mut hints = Vec::new();
        for sum in expected {
            if let Some(word) = self.word(sum) {
                match self.fits(word, &answer) {
                    Ok(()) => return Reading::State(sum),
                    Err(its) => difference = its.map(|its| *its),
                }
                others += 1;
            }
            hints.push(sum);
        }
        let difference = difference.filter(|_| others == 1);
        let mut found: Option<Number> = None;
        for place in self.index.candidates(self, &answer) {
            let word = &self.words[place];
            if self.fits(word, &answer).is_err() {
                continue;
            }
            let sum = word.lineage.number(&self.inputs);
            // The same steps in another order have the same sum; its outputs are others.
            if matches!(word.lineage, Lineage::Fault { kind: FaultKind::Exchanged, .. }) && hints.contains(&sum) {
                continue;
            }
            match found {
                Some(known) if known != sum => return Reading::Ambiguous,
                _ => found = Some(sum),
            }
        }
        found.map_or(Reading::Unlike(difference), Reading::State)
    }

    /// The tensors of a response in the order of the outputs; none where it is not one of the model's.
    fn tensors<'r>(&self, response: &'r Response) -> Option<Vec<&'r Tensor>> {
        if response.outputs.len() != self.outputs.len() {
            return None;
        }
        let in_order = self.outputs.iter().enumerate().map(|(place, output)| {
            let at = response.outputs.get(place).filter(|tensor| tensor.name == output.spec.name);
            let tensor = at.or_else(|| response.outputs.iter().find(|tensor| tensor.name == output.spec.name))?;
            output.problem(tensor).is_none().then_some(tensor)
        });
        in_order.collect()
    }

    /// Whether an answer is that of a state, or where it is not.
    fn fits(&self, word: &Word, answer: &[Vec<&Tensor>]) -> Result<(), Option<Box<Deviation>>> {
        if word.responses.len() != answer.len() {
            return Err(None);
        }
        let several = answer.len() > 1;
        for (number, (known, seen)) in (1..).zip(word.responses.iter().zip(answer)) {
            for ((output, known), seen) in self.outputs.iter().zip(known).zip(seen) {
                if !output.is_judged() {
                    continue;
                }
                if let Some(what) = self.differs(output, word, known, seen) {
                    let response = several.then_some(number);
                    return Err(Some(Box::new(Deviation { response, output: output.spec.name.clone(), what })));
                }
            }
        }
        Ok(())
    }

    fn differs(&self, output: &Output, word: &Word, known: &Known, seen: &Tensor) -> Option<Differs> {
        if known.shape != seen.shape {
            return Some(Differs::Shape { expected: known.shape.clone(), seen: seen.shape.clone() });
        }
        let (expected, bytes) = (self.bytes(known), bytes_of(&seen.data));
        let Apart { by, element } = output.compare.apart(output.datatype, expected, &bytes);
        let tolerance = output.tolerance(word.lineage.length());
        if by <= tolerance {
            return None;
        }
        if !is_number(output.datatype) {
            return Some(Differs::Element { element });
        }
        let number = |bytes: &[u8]| {
            numbers(output.datatype, bytes)
                .nth(element)
                .map_or_else(|| "nothing".to_owned(), |number| format!("{number:?}"))
        };
        Some(Differs::Number {
            element,
            expected: number(expected),
            seen: number(&bytes),
            apart: format!("{by:e}"),
            tolerance,
        })
    }

    /// The responses to a step as they are kept; none where one is not of the model's form.
    pub fn gathered(&self, first: &Response) -> Option<super::Gathered> {
        let tensors = |response| {
            let all = self.tensors(response)?;
            Some(all.into_iter().map(|tensor| (tensor.shape.clone(), bytes_of(&tensor.data).into_owned())).collect())
        };
        first.all().map(tensors).collect()
    }

    /// In what responses differ from those of the state with this sum, in words; none where they do not, or it is not known.
    pub fn differs_from(&self, sum: Number, gathered: &super::Gathered) -> Option<String> {
        let word = self.word(sum)?;
        let (expected, seen) = (word.responses.len(), gathered.len());
        if expected != seen {
            return Some(format!("{seen} responses in place of {expected}"));
        }
        for (known, seen) in word.responses.iter().zip(gathered) {
            for ((output, known), (shape, bytes)) in self.outputs.iter().zip(known).zip(seen) {
                let name = &output.spec.name;
                if output.is_judged() && known.shape != *shape {
                    return Some(format!("output '{name}' has shape {shape:?} in place of {:?}", known.shape));
                }
                let Apart { by, element } = output.compare.apart(output.datatype, self.bytes(known), bytes);
                let tolerance = output.tolerance(word.lineage.length());
                if output.is_judged() && by > tolerance {
                    return Some(format!("output '{name}', element {element}: {by:e} off, tolerance {tolerance:e}"));
                }
            }
        }
        None
    }

    /// Whether the responses are those of the state with this sum, in another order: then their numbers, from 1, in the order in which they
    /// came. Or how many it has, where it has another number.
    pub(crate) fn arranged<'r>(
        &self,
        sum: Number,
        responses: impl Iterator<Item = &'r Response>,
    ) -> Result<Option<Vec<usize>>, usize> {
        let answer: Option<Vec<_>> = responses.map(|response| self.tensors(response)).collect();
        let (Some(word), Some(answer)) = (self.word(sum), answer) else { return Ok(None) };
        if word.responses.len() != answer.len() {
            return Err(word.responses.len());
        }
        let fits = |known: &[Known], seen: &[&Tensor]| {
            let mut all = self.outputs.iter().zip(known).zip(seen).filter(|((output, _), _)| output.is_judged());
            all.all(|((output, known), seen)| self.differs(output, word, known, seen).is_none())
        };
        let mut left: Vec<_> = (1..).zip(&word.responses).collect();
        let in_order = answer.iter().map(|seen| {
            let place = left.iter().position(|(_, known)| fits(known, seen))?;
            Some(left.remove(place).0)
        });
        Ok(in_order.collect())
    }

    /// How far the responses of two states are apart, in tolerances of the less exact one, by the output that shows it best; infinite where
    /// their number or shapes differ, or what differs is no number.
    pub fn apart(&self, one: &Word, other: &Word) -> f64 {
        let steps = one.lineage.length().max(other.lineage.length());
        let tensors = |word: &Word| -> Vec<Vec<_>> {
            let of =
                |outputs: &Vec<Known>| outputs.iter().map(|known| (known.shape.clone(), self.bytes(known))).collect();
            word.responses.iter().map(of).collect()
        };
        self.tolerances_apart(steps, &tensors(one), &tensors(other))
    }

    /// The same of the state with this sum and of responses that came; none where that state's are not known.
    pub fn apart_from(&self, sum: Number, gathered: &super::Gathered) -> Option<f64> {
        let word = self.word(sum)?;
        let of = |outputs: &Vec<Known>| outputs.iter().map(|known| (known.shape.clone(), self.bytes(known))).collect();
        let known: Vec<Vec<_>> = word.responses.iter().map(of).collect();
        let seen: Vec<Vec<_>> = gathered
            .iter()
            .map(|outputs| outputs.iter().map(|(shape, bytes)| (shape.clone(), bytes.as_slice())).collect())
            .collect();
        Some(self.tolerances_apart(word.lineage.length(), &known, &seen))
    }

    fn tolerances_apart(&self, steps: u32, one: &[Vec<(Vec<i64>, &[u8])>], other: &[Vec<(Vec<i64>, &[u8])>]) -> f64 {
        if one.len() != other.len() {
            return f64::INFINITY;
        }
        let mut most = 0.0_f64;
        for (one, other) in one.iter().zip(other) {
            for ((output, one), other) in
                self.outputs.iter().zip(one).zip(other).filter(|((output, _), _)| output.is_judged())
            {
                if one.0 != other.0 {
                    return f64::INFINITY;
                }
                let by = output.compare.apart(output.datatype, one.1, other.1).by;
                let tolerance = output.tolerance(steps);
                // Where nothing may differ, whatever differs is far apart.
                let its = match by {
                    0.0 => 0.0,
                    by if tolerance == 0.0 => by * f64::INFINITY,
                    by => by / tolerance,
                };
                most = most.max(its);
            }
        }
        most
    }
}

impl Output {
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

/// A number that no state has: what an answer is taken for that is like nothing known.
pub(crate) fn unlike() -> Number {
    // Each code is odd, and so is the sum of an odd number of them; this is as likely a sum as any other number of 64 bits.
    InputSet::DATATYPE.number(0x5eed_0f0d_dba1_1000)
}
