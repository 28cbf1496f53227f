//! Finds a state by its outputs.

use std::collections::HashMap;

use super::{
    Compare, Golden, Output,
    compare::{is_float, numbers},
    read::Answer,
};
use workload::inputs::ElementType;

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
                Some((output, (_, bytes))) => {
                    let datatype = golden.outputs[output].datatype;
                    let key = projection(datatype, bytes);
                    let elements = numbers(datatype, bytes).count();
                    #[expect(clippy::cast_precision_loss, reason = "tensors are not that large")]
                    let elements = elements as f64;
                    index.elements = index.elements.max(elements);
                    if key.is_finite() { index.keys.push((key, place)) } else { index.rest.push(place) }
                }
                None if index.output.is_none() && all_exact => {
                    let tensors = word.responses.iter().map(|outputs| outputs.iter().map(|(_, bytes)| &**bytes));
                    index.exact.entry(hashed(golden, tensors)).or_default().push(place);
                }
                None => index.rest.push(place),
            }
        }
        index.keys.sort_by(|one, other| one.0.total_cmp(&other.0));
        index
    }

    /// The states that an answer may belong to.
    pub(super) fn candidates(&self, golden: &Golden, answer: &Answer) -> Vec<usize> {
        let mut all = self.rest.clone();
        let first = self.output.and_then(|output| Some((output, answer.first()?.get(output)?)));
        if let Some((output, (_, bytes))) = first {
            let output = &golden.outputs[output];
            let key = projection(output.datatype, bytes);
            let tolerance = output.tolerances.iter().copied().fold(0.0, f64::max);
            let near = tolerance * self.elements + key.abs() * 1e-9 + f64::MIN_POSITIVE;
            let from = self.keys.partition_point(|(other, _)| *other < key - near);
            all.extend(self.keys[from..].iter().take_while(|(other, _)| *other <= key + near).map(|(_, place)| *place));
        } else if !self.exact.is_empty() {
            let hash = hashed(golden, answer.iter().map(|outputs| outputs.iter().map(|(_, bytes)| &**bytes)));
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
