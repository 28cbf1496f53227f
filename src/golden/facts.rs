//! What answers to the same inputs say about a model: tolerances, and whether its states can be told apart.

use std::{collections::BTreeMap, sync::Arc};

use oracle::golden::{Compare, Fingerprints, Gathered, Golden, Lineage, Noise, Output, Word};

/// How many tolerances two states have to be apart to be told apart.
const DISTINCT: f64 = 10.0;
/// The most states whose pairs are compared.
const COMPARED: usize = 512;
/// The most states of a track that are compared with those of others.
const OF_A_TRACK: usize = 24;

/// What was other when the same was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Nothing.
    Alone,
    /// The correlation ID.
    OtherId,
    /// The sequences beside it.
    Beside,
}

/// How far answers to the same were apart, by output and step.
pub(super) struct Deviations {
    /// By output: by step, alone, with another correlation ID, and beside others.
    outputs: Vec<Vec<[f64; 3]>>,
}

impl Deviations {
    pub(super) fn new(outputs: usize) -> Self {
        Self { outputs: vec![Vec::new(); outputs] }
    }

    /// Takes in a second answer to the same step.
    pub(super) fn add(&mut self, outputs: &[Output], step: usize, known: &Gathered, seen: &Gathered, again: Again) {
        for (place, output) in outputs.iter().enumerate() {
            let steps = &mut self.outputs[place];
            if steps.len() <= step {
                steps.resize(step + 1, [0.0; 3]);
            }
            let by = apart(output, place, known, seen);
            let worst = &mut steps[step][again as usize];
            *worst = worst.max(by);
        }
    }

    /// The most of all by step.
    fn worst(&self, output: usize) -> impl Iterator<Item = f64> {
        self.outputs[output].iter().map(|apart| apart.iter().copied().fold(0.0, f64::max))
    }

    /// The most of one kind.
    fn most(&self, output: usize, again: Again) -> f64 {
        self.outputs[output].iter().map(|apart| apart[again as usize]).fold(0.0, f64::max)
    }
}

/// How far an output may be off by the rule that the user set.
fn bound(output: &Output) -> Option<f64> {
    match output.compare {
        Compare::Rtol(bound) | Compare::Atol(bound) | Compare::Cosine(bound) => Some(bound),
        Compare::Exact => Some(0.0),
        Compare::Measured | Compare::Ignore => None,
    }
}

/// Whether two answers have as many responses, of the same shapes.
fn are_of_one_form(one: &Gathered, other: &Gathered) -> bool {
    let is_alike =
        |place: usize| one[place].iter().map(|(shape, _)| shape).eq(other[place].iter().map(|(shape, _)| shape));
    one.len() == other.len() && (0..one.len()).all(is_alike)
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

/// How far outputs of states that differ are apart, in the middle of neighbouring ones of one form, by step and by track; 0 where no two
/// have one form, so that nothing is known of it.
fn typical(output: &Output, place: usize, known: &BTreeMap<(usize, usize), Arc<Gathered>>) -> f64 {
    let neighbours = known.iter().flat_map(|((track, step), one)| {
        let next = [(*track, step + 1), (track + 1, *step)];
        next.into_iter().filter_map(|next| Some((&**one, &**known.get(&next)?))).collect::<Vec<_>>()
    });
    let alike = neighbours.filter(|(one, other)| are_of_one_form(one, other)).take(2 * COMPARED);
    let mut distances: Vec<_> = alike.map(|(one, other)| apart(output, place, one, other)).collect();
    distances.sort_by(f64::total_cmp);
    distances.get(distances.len() / 2).copied().unwrap_or(0.0)
}

/// How far each output may be from the golden one, by step; none where the same inputs have outputs as far apart as others.
pub(super) fn tolerances(golden: &Golden, deviations: &Deviations, noise: &[Noise]) -> Vec<Vec<f64>> {
    let longest = deviations.outputs.iter().map(Vec::len).max().unwrap_or(1);
    let of = |(place, (output, noise)): (usize, (&Output, &Noise))| {
        let bound = bound(output);
        // How far an output is with a third correlation ID nobody knows.
        if noise.is_of_ids() && bound.is_none_or(|bound| noise.ids > bound) {
            return Vec::new();
        }
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
            Noise::SAFETY * most
        });
        let mut tolerances: Vec<_> = growing.collect();
        tolerances.resize(longest, Noise::SAFETY * most);
        let is_noise = most.is_infinite() || Noise::SAFETY * most * DISTINCT > noise.typical;
        if is_noise { Vec::new() } else { tolerances }
    };
    golden.outputs.iter().zip(noise).enumerate().map(of).collect()
}

/// How far answers to the same inputs were apart, for people.
pub(super) fn noise(
    golden: &Golden,
    deviations: &Deviations,
    known: &BTreeMap<(usize, usize), Arc<Gathered>>,
) -> Vec<Noise> {
    let of = |(place, output): (usize, &Output)| {
        let [run, ids, batch] =
            [Again::Alone, Again::OtherId, Again::Beside].map(|again| deviations.most(place, again));
        let most = run.max(ids).max(batch);
        let at = deviations.worst(place).position(|apart| apart >= most).unwrap_or(0);
        Noise {
            output: output.spec.name.clone(),
            run,
            batch,
            ids,
            at_step: u32::try_from(at + 1).unwrap_or(u32::MAX),
            typical: typical(output, place, known),
            has_nan: known.values().flat_map(|seen| seen.iter()).any(|outputs| output.has_nan(&outputs[place].1)),
        }
    };
    golden.outputs.iter().enumerate().map(of).collect()
}

/// How many pairs of states that differ can be told apart. Those of one form count: that two states have other forms says nothing of the
/// numbers, by which those of one form are told apart.
pub(super) fn fingerprints(golden: &Golden) -> Fingerprints {
    let of_tracks: Vec<_> = states(golden).map(|(_, word)| word).collect();
    let sample = some_of(&of_tracks, COMPARED);
    let mut found = Compared::default();
    for (place, one) in sample.iter().enumerate() {
        sample[..place].iter().for_each(|other| found.compare(golden, one, other));
    }
    found.fingerprints()
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
        let mut compared = Compared::default();
        for (place, one) in words.iter().enumerate() {
            let others = words[..place].iter().chain(kept.iter().flatten());
            others.for_each(|other| compared.compare(golden, one, other));
        }
        let found = compared.fingerprints();
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

/// Pairs of states that differ.
#[derive(Default)]
struct Compared {
    of_one_form: Fingerprints,
    of_two: Fingerprints,
}

impl Compared {
    fn compare(&mut self, golden: &Golden, one: &Word, other: &Word) {
        if one.lineage.sum(&golden.inputs) != other.lineage.sum(&golden.inputs) {
            let alike = are_of_one_form(&one.responses, &other.responses);
            let found = if alike { &mut self.of_one_form } else { &mut self.of_two };
            found.pairs += 1;
            found.distinct += u64::from(golden.apart(one, other) >= DISTINCT);
        }
    }

    fn fingerprints(self) -> Fingerprints {
        if self.of_one_form.pairs > 0 { self.of_one_form } else { self.of_two }
    }
}

#[cfg(test)]
mod tests {
    use oracle::golden::{Facts, Identity};
    use workload::{
        inputs::{ElementType, InputSet, InputTensor, Track},
        tensor::TensorSpec,
    };

    use super::*;
    use crate::golden::calibration::{EACH_SIZE, groups};

    const STEPS: usize = 6;

    fn golden(known: &BTreeMap<(usize, usize), Arc<Gathered>>, compare: Compare) -> Golden {
        let input = |number: usize| InputTensor {
            name: "INPUT".into(),
            datatype: ElementType::Int64,
            shape: vec![1, 1],
            data: number.to_le_bytes().to_vec(),
        };
        let track = |track: usize| Track {
            name: track.to_string(),
            steps: (0..STEPS).map(|step| [input(track * STEPS + step)].into()).collect(),
            pauses: Vec::new(),
        };
        let inputs = Arc::new(InputSet::new((0..4).map(track).collect()));
        let identity =
            Identity { model: "m".into(), version: None, server: None, configuration: None, inputs: String::new() };
        let spec = TensorSpec { name: "OUTPUT".into(), datatype: "FP64".into(), shape: vec![-1, -1] };
        let output = Output { spec, datatype: ElementType::Fp64, compare, tolerances: vec![0.0] };
        let number = |count: usize| u32::try_from(count).expect("few");
        let lineage = |(track, step): (usize, usize)| Lineage::Track { track: number(track), steps: number(step + 1) };
        let seen = known.iter().map(|(place, seen)| (lineage(*place), Arc::clone(seen)));
        Golden::new(identity, inputs, vec![output], Facts::default(), seen)
    }

    /// Responses whose outputs grow with each step; all elements of one are this.
    fn growing(element: impl Fn(usize, usize) -> f64) -> BTreeMap<(usize, usize), Arc<Gathered>> {
        let places = (0..4).flat_map(|track| (0..STEPS).map(move |step| (track, step)));
        let size = |step: usize| i64::try_from(step + 1).expect("few");
        let answer = |(track, step): (usize, usize)| {
            let data: Vec<_> = (0..=step).flat_map(|_| element(track, step).to_le_bytes()).collect();
            vec![vec![(vec![1, size(step)], data)]].into()
        };
        places.map(|place| (place, answer(place))).collect()
    }

    fn tolerances_of(noise: f64) -> Vec<f64> {
        let number = |track: usize, step: usize| f64::from(u32::try_from(track * 31 + step * 7).expect("few")).sin();
        let known = growing(number);
        let golden = golden(&known, Compare::Measured);
        let mut deviations = Deviations::new(1);
        for ((track, step), seen) in growing(|track, step| number(track, step) + noise) {
            deviations.add(&golden.outputs, step, &known[&(track, step)], &seen, Again::Alone);
        }
        tolerances(&golden, &deviations, &super::noise(&golden, &deviations, &known)).remove(0)
    }

    #[test]
    fn noise_is_held_against_states_of_the_same_form() {
        assert!(tolerances_of(1e-6).iter().all(|tolerance| (7e-6..9e-6).contains(tolerance)));
        // By their sizes alone all states could be told apart, and any number would pass.
        assert_eq!(tolerances_of(1.0), Vec::<f64>::new());
    }

    #[test]
    fn an_output_is_not_judged_that_is_another_with_another_id() {
        let known = growing(|track, step| f64::from(u32::try_from(track * 31 + step * 7).expect("few")).sin());
        for (compare, beside, is_judged) in [
            (Compare::Measured, 0.0, false),
            (Compare::Measured, 1e-3, true),
            (Compare::Exact, 0.0, false),
            (Compare::Atol(1e-4), 0.0, false),
            (Compare::Atol(1e-2), 0.0, true),
        ] {
            let golden = golden(&known, compare);
            let mut deviations = Deviations::new(1);
            for (off, again) in [(1e-3, Again::OtherId), (beside, Again::Beside)] {
                let moved = |seen: &Gathered| {
                    let element = |bytes: &[u8; 8]| (f64::from_le_bytes(*bytes) + off).to_le_bytes();
                    let (shape, bytes) = &seen[0][0];
                    let bytes: Vec<_> = bytes.as_chunks().0.iter().flat_map(element).collect();
                    vec![vec![(shape.clone(), bytes)]]
                };
                for ((_, step), seen) in &known {
                    deviations.add(&golden.outputs, *step, seen, &moved(seen), again);
                }
            }
            let tolerances = tolerances(&golden, &deviations, &noise(&golden, &deviations, &known)).remove(0);
            assert_eq!(!tolerances.is_empty(), is_judged, "{compare:?} {beside}: {tolerances:?}");
        }
    }

    #[test]
    fn states_that_differ_in_form_alone_are_too_few() {
        let known = growing(|_, _| 0.5);
        let alike = golden(&known, Compare::Measured);
        assert_eq!(fingerprints(&alike), Fingerprints { pairs: 6 * 6, distinct: 0 });
        let known = growing(|track, _| f64::from(u32::try_from(track).expect("few")));
        assert!(fingerprints(&golden(&known, Compare::Measured)).are_enough());
    }

    #[test]
    fn tracks_come_in_batches_of_each_size() {
        for (tracks, width) in [(32, 8), (3, 8), (1, 4), (40, 2), (64, 64), (32, 50), (5, 1)] {
            let groups = groups(tracks, width);
            let largest = width.min(tracks);
            for size in (2..=largest.min(EACH_SIZE)).chain([largest]) {
                assert!(groups.iter().any(|group| group.len() == size), "{size} of {width}: {groups:?}");
            }
            assert!(groups.len() <= 3 * tracks.div_ceil(width) + 2 * EACH_SIZE.max(tracks), "{}", groups.len());
            assert!((0..tracks).all(|track| groups.iter().filter(|group| group.contains(&track)).count() >= 3));
        }
    }
}
