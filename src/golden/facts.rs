//! What answers to the same inputs say about a model: tolerances, and whether its states can be told apart.

use std::collections::BTreeMap;

use oracle::golden::{Compare, Fingerprints, Gathered, Golden, Lineage, Noise, Output, Word};

/// How many times what was measured an answer may be off: what was measured is the largest of a sample.
const SAFETY: f64 = 8.0;
/// How many tolerances two states have to be apart to be told apart.
const DISTINCT: f64 = 10.0;
/// The most states whose pairs are compared.
const COMPARED: usize = 512;

/// How far answers to the same were apart, by output and step.
pub(super) struct Deviations {
    /// By output: by step, alone and beside others.
    outputs: Vec<Vec<(f64, f64)>>,
}

impl Deviations {
    pub(super) fn new(outputs: usize) -> Self {
        Self { outputs: vec![Vec::new(); outputs] }
    }

    /// Takes in a second answer to the same step.
    pub(super) fn add(&mut self, outputs: &[Output], step: usize, known: &Gathered, seen: &Gathered, alone: bool) {
        for (place, output) in outputs.iter().enumerate() {
            let steps = &mut self.outputs[place];
            if steps.len() <= step {
                steps.resize(step + 1, (0.0, 0.0));
            }
            let by = apart(output, place, known, seen);
            let worst = if alone { &mut steps[step].0 } else { &mut steps[step].1 };
            *worst = worst.max(by);
        }
    }

    /// The most of both by step.
    fn worst(&self, output: usize) -> impl Iterator<Item = f64> {
        self.outputs[output].iter().map(|(alone, beside)| alone.max(*beside))
    }
}

/// How far one output of two answers is apart; infinite where they have another number of responses, or other shapes.
fn apart(output: &Output, place: usize, one: &Gathered, other: &Gathered) -> f64 {
    if one.len() != other.len() {
        return f64::INFINITY;
    }
    let each = one.iter().zip(other).map(|(one, other)| {
        let ((shape, bytes), (its, seen)) = (&one[place], &other[place]);
        if shape == its { output.compare.distance(output.datatype, bytes, seen) } else { f64::INFINITY }
    });
    each.fold(0.0, f64::max)
}

/// How far outputs of states that differ are apart, in the middle of neighbouring ones.
fn typical(output: &Output, place: usize, known: &BTreeMap<(usize, usize), Gathered>) -> f64 {
    let all: Vec<_> = known.values().collect();
    let mut distances: Vec<_> =
        all.windows(2).take(COMPARED).map(|pair| apart(output, place, pair[0], pair[1])).collect();
    distances.sort_by(f64::total_cmp);
    distances.get(distances.len() / 2).copied().unwrap_or(0.0)
}

/// How far each output may be from the golden one, by step; none where the same inputs have outputs as far apart as others.
pub(super) fn tolerances(
    golden: &Golden,
    deviations: &Deviations,
    known: &BTreeMap<(usize, usize), Gathered>,
) -> Vec<Vec<f64>> {
    let longest = known.keys().map(|(_, step)| step + 1).max().unwrap_or(1);
    let of = |(place, output): (usize, &Output)| {
        let bound = match output.compare {
            Compare::Rtol(bound) | Compare::Atol(bound) | Compare::Cosine(bound) => Some(bound),
            Compare::Exact => Some(0.0),
            Compare::Measured | Compare::Ignore => None,
        };
        if let Some(bound) = bound {
            return vec![bound; longest];
        }
        let least = deviations.worst(place).filter(|by| *by > 0.0).fold(f64::INFINITY, f64::min);
        if least.is_infinite() {
            // Nothing differs, or what differs is no number.
            let differs = deviations.worst(place).any(|by| by > 0.0);
            return if differs { Vec::new() } else { vec![0.0; longest] };
        }
        let mut most = least;
        let growing = deviations.worst(place).map(|by| {
            most = most.max(by);
            SAFETY * most
        });
        let mut tolerances: Vec<_> = growing.collect();
        tolerances.resize(longest, SAFETY * most);
        let is_noise = most.is_infinite() || SAFETY * most * DISTINCT > typical(output, place, known);
        if is_noise { Vec::new() } else { tolerances }
    };
    golden.outputs.iter().enumerate().map(of).collect()
}

/// How far answers to the same inputs were apart, for people.
pub(super) fn noise(
    golden: &Golden,
    deviations: &Deviations,
    known: &BTreeMap<(usize, usize), Gathered>,
) -> Vec<Noise> {
    let of = |(place, output): (usize, &Output)| {
        let steps = &deviations.outputs[place];
        let (run, batch) = steps
            .iter()
            .fold((0.0_f64, 0.0_f64), |(run, batch), (alone, beside)| (run.max(*alone), batch.max(*beside)));
        let at = steps.iter().position(|(alone, beside)| alone.max(*beside) >= run.max(batch)).unwrap_or(0);
        Noise {
            output: output.spec.name.clone(),
            run,
            batch,
            at_step: u32::try_from(at + 1).unwrap_or(u32::MAX),
            typical: typical(output, place, known),
            has_nan: known.values().flatten().any(|outputs| output.has_nan(&outputs[place].1)),
        }
    };
    golden.outputs.iter().enumerate().map(of).collect()
}

/// How many pairs of states that differ can be told apart.
pub(super) fn fingerprints(golden: &Golden) -> Fingerprints {
    let of_tracks: Vec<&Word> =
        golden.words().iter().filter(|word| matches!(word.lineage, Lineage::Track { .. })).collect();
    // Of many a part, spread over all.
    let every = of_tracks.len().div_ceil(COMPARED).max(1);
    let sample: Vec<_> = of_tracks.into_iter().step_by(every).collect();
    let mut found = Fingerprints::default();
    for (place, one) in sample.iter().enumerate() {
        for other in &sample[..place] {
            if one.lineage.sum(&golden.inputs) == other.lineage.sum(&golden.inputs) {
                continue;
            }
            found.pairs += 1;
            found.distinct += u64::from(golden.apart(one, other) >= DISTINCT);
        }
    }
    found
}
