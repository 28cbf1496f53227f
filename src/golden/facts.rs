//! What answers to the same inputs say about a model: tolerances, and whether its states can be told apart.

use std::{collections::BTreeMap, sync::Arc};

use oracle::golden::{Compare, Fingerprints, Gathered, Golden, Lineage, Noise, Output, Word};

/// How many times what was measured an answer may be off: what was measured is the largest of a sample.
const SAFETY: f64 = 8.0;
/// How many tolerances two states have to be apart to be told apart.
const DISTINCT: f64 = 10.0;
/// The most states whose pairs are compared.
const COMPARED: usize = 512;
/// The most states of a track that are compared with those of others.
const OF_A_TRACK: usize = 24;

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
fn typical(output: &Output, place: usize, known: &BTreeMap<(usize, usize), Arc<Gathered>>) -> f64 {
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
    known: &BTreeMap<(usize, usize), Arc<Gathered>>,
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
    known: &BTreeMap<(usize, usize), Arc<Gathered>>,
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
            has_nan: known.values().flat_map(|seen| seen.iter()).any(|outputs| output.has_nan(&outputs[place].1)),
        }
    };
    golden.outputs.iter().enumerate().map(of).collect()
}

/// How many pairs of states that differ can be told apart.
pub(super) fn fingerprints(golden: &Golden) -> Fingerprints {
    let of_tracks: Vec<_> = states(golden).map(|(_, word)| word).collect();
    let sample = some_of(&of_tracks, COMPARED);
    let mut found = Fingerprints::default();
    for (place, one) in sample.iter().enumerate() {
        sample[..place].iter().for_each(|other| compare(golden, one, other, &mut found));
    }
    found
}

/// The tracks whose states can be told apart from each other and from those of the tracks chosen before; all where none can.
pub(super) fn chosen(golden: &Golden) -> Vec<usize> {
    let mut by_track: BTreeMap<u32, Vec<&Word>> = BTreeMap::new();
    for (track, word) in states(golden) {
        by_track.entry(track).or_default().push(word);
    }
    let mut kept: Vec<Vec<&Word>> = Vec::new();
    let mut chosen = Vec::new();
    for (track, words) in &by_track {
        let words = some_of(words, OF_A_TRACK);
        let mut found = Fingerprints::default();
        for (place, one) in words.iter().enumerate() {
            let others = words[..place].iter().chain(kept.iter().flatten());
            others.for_each(|other| compare(golden, one, other, &mut found));
        }
        // A track of one step has no pair of its own.
        if found.pairs == 0 || found.are_enough() {
            chosen.push(*track as usize);
            kept.push(words);
        }
    }
    if chosen.is_empty() { by_track.into_keys().map(|track| track as usize).collect() } else { chosen }
}

/// The states of tracks, each with its track.
fn states(golden: &Golden) -> impl Iterator<Item = (u32, &Word)> {
    golden.words().iter().filter_map(|word| match word.lineage {
        Lineage::Track { track, .. } => Some((track, word)),
        _ => None,
    })
}

/// So many of some states at the most, spread over all.
fn some_of<'w>(words: &[&'w Word], most: usize) -> Vec<&'w Word> {
    words.iter().copied().step_by(words.len().div_ceil(most).max(1)).collect()
}

/// Counts two states that differ.
fn compare(golden: &Golden, one: &Word, other: &Word, found: &mut Fingerprints) {
    if one.lineage.sum(&golden.inputs) != other.lineage.sum(&golden.inputs) {
        found.pairs += 1;
        found.distinct += u64::from(golden.apart(one, other) >= DISTINCT);
    }
}
