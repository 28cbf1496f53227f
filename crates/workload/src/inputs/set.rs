//! All tracks of a run, with a code for each input: what the rest of the tool has in place of a value that is added up.

use std::{collections::HashMap, fmt::Write as _, sync::Arc, time::Duration};

use sha2::{Digest as _, Sha256};

use super::{InputTensor, Track};
use crate::{
    arithmetic::Arithmetic,
    number::{Datatype, Number},
    sequence::RequestId,
};

/// The inputs that a run draws from. A step of a track has a code, a number of 64 bits that its tensors and those of the steps before it
/// decide. The state behind some steps is the sum of their codes: so it is told apart from every other one as a running sum is, whatever
/// the model computes. Tracks that begin alike have the same codes there, and those with the same inputs in another order have others.
#[derive(Debug)]
pub struct InputSet {
    tracks: Vec<Coded>,
    by_code: HashMap<i64, Arc<[InputTensor]>>,
    /// How many inputs differ.
    inputs: usize,
    digest: String,
}

/// What steps send: numbers that are added up, or inputs by their codes.
#[derive(Clone, Debug)]
pub struct Values {
    arithmetic: Arithmetic,
    inputs: Option<Arc<InputSet>>,
}

impl Values {
    /// Numbers of this arithmetic; where there are inputs, those.
    pub fn new(arithmetic: Arithmetic, inputs: Option<Arc<InputSet>>) -> Self {
        Self { arithmetic, inputs }
    }

    /// What a step of one of the tool's own sequences sends: this number, or the input of that step of a track that the sequence decides.
    pub fn of(&self, request: RequestId, number: i64) -> Number {
        let RequestId { worker, context, sequence, step } = request;
        let track = || worker as usize + context as usize + sequence as usize;
        match &self.inputs {
            Some(inputs) => inputs.number(track(), step as usize),
            None => self.arithmetic.number(number),
        }
    }
}

/// What sequences send, and how fast.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The inputs.
    pub inputs: Arc<InputSet>,
    /// How fast recorded tracks are sent; none where each step follows as soon as it can.
    pub pace: Option<Pace>,
}

/// How fast recorded tracks are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// How many times as fast as they were recorded.
    pub times: f64,
    /// The longest pause that is kept.
    pub longest: Duration,
}

impl Pace {
    /// How long the client pauses before a step of a track, in ms. Behind the recorded ones the last pause comes again.
    pub fn before(self, inputs: &InputSet, track: usize, step: usize) -> u32 {
        let pauses = &inputs.tracks[track % inputs.tracks.len()].pauses;
        let recorded = pauses.get(step.saturating_sub(1)).or(pauses.last()).copied().unwrap_or_default();
        let pause = recorded.div_f64(self.times.max(f64::MIN_POSITIVE)).min(self.longest);
        u32::try_from(pause.as_millis()).unwrap_or(u32::MAX)
    }
}

/// A track as codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// What a report calls it.
    pub name: String,
    /// The code of each step's input.
    pub codes: Vec<i64>,
    /// How long after the one before it each step but the first was sent, where that was recorded; else empty.
    pub pauses: Vec<Duration>,
}

impl InputSet {
    /// The type in which codes are added up.
    pub const DATATYPE: Datatype = Datatype::State;

    /// The set of these tracks.
    pub fn new(tracks: Vec<Track>) -> Self {
        let mut by_code = HashMap::new();
        let mut by_digest: HashMap<_, Arc<[InputTensor]>> = HashMap::new();
        let mut of_all = Sha256::new();
        let mut all = Vec::new();
        for Track { name, steps, pauses } in tracks {
            let mut codes = Vec::with_capacity(steps.len());
            let mut so_far = Sha256::new();
            for step in steps {
                let digest = digest_of(&step);
                of_all.update(digest);
                so_far.update(digest);
                let tensors = by_digest.entry(digest).or_insert(step);
                let code = code(&so_far.clone().finalize());
                by_code.entry(code).or_insert_with(|| Arc::clone(tensors));
                codes.push(code);
            }
            of_all.update(u64::try_from(codes.len()).unwrap_or(u64::MAX).to_le_bytes());
            all.push(Coded { name, codes, pauses });
        }
        Self { tracks: all, by_code, inputs: by_digest.len(), digest: hex(&of_all.finalize()) }
    }

    /// Its tracks.
    pub fn tracks(&self) -> &[Coded] {
        &self.tracks
    }

    /// The tensors of the input with this code.
    pub fn tensors(&self, code: i64) -> Option<&[InputTensor]> {
        self.by_code.get(&code).map(|tensors| &**tensors)
    }

    /// How many inputs there are that differ.
    pub fn len(&self) -> usize {
        self.inputs
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_code.is_empty()
    }

    /// The SHA-256 of all tensors, in the order of tracks and steps; names of tracks do not count.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The code of a step of a track, as the number that the step adds. A track that is shorter goes on from its beginning.
    pub fn number(&self, track: usize, step: usize) -> Number {
        let codes = &self.tracks[track % self.tracks.len()].codes;
        Self::DATATYPE.number(codes[step % codes.len()])
    }

    /// Where an input is first, in words.
    pub fn place(&self, code: Number) -> Option<String> {
        self.tracks.iter().find_map(|track| {
            let step = track.codes.iter().position(|its| *its == code.value())?;
            Some(format!("step {} of '{}'", step + 1, track.name))
        })
    }

    /// The tracks again.
    pub fn to_tracks(&self) -> Vec<Track> {
        let tensors = |code: &i64| self.by_code.get(code).cloned().unwrap_or_default();
        let track = |Coded { name, codes, pauses }: &Coded| Track {
            name: name.clone(),
            steps: codes.iter().map(tensors).collect(),
            pauses: pauses.clone(),
        };
        self.tracks.iter().map(track).collect()
    }
}

/// The digest of an input.
fn digest_of(step: &[InputTensor]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let mut tensors: Vec<_> = step.iter().collect();
    tensors.sort_by(|one, other| one.name.cmp(&other.name));
    for InputTensor { name, datatype, shape, data } in tensors {
        let length = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX).to_le_bytes();
        hasher.update(length(name.len()));
        hasher.update(name);
        hasher.update(datatype.name());
        hasher.update(length(shape.len()));
        for size in shape {
            hasher.update(size.to_le_bytes());
        }
        hasher.update(length(data.len()));
        hasher.update(data);
    }
    hasher.finalize().into()
}

/// A code from a digest. None is nought, so that each step changes the sum.
fn code(digest: &[u8]) -> i64 {
    let bytes = digest.first_chunk().copied().unwrap_or_default();
    i64::from_le_bytes(bytes) | 1
}

/// A digest as text.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::ElementType;

    fn step(value: u8) -> Vec<InputTensor> {
        let data = vec![value];
        vec![InputTensor { name: "INPUT".into(), datatype: ElementType::Uint8, shape: vec![1, 1], data }]
    }

    fn track(name: &str, values: &[u8]) -> Track {
        let steps = values.iter().map(|value| step(*value).into()).collect();
        Track { name: name.into(), steps, pauses: Vec::new() }
    }

    #[test]
    fn equal_beginnings_have_the_same_codes_and_another_order_has_others() {
        let all = || vec![track("a", &[1, 2, 1]), track("b", &[1, 3]), track("c", &[2, 1])];
        let set = InputSet::new(all());
        let [a, b, c] = set.tracks() else { panic!("three tracks") };
        assert_eq!(a.codes[0], b.codes[0]);
        let others = [a.codes[1], a.codes[2], b.codes[1], c.codes[0], c.codes[1]];
        assert!(others.iter().all(|code| *code != a.codes[0]) && a.codes[1] != b.codes[1]);
        let sum = |codes: &[i64]| codes.iter().fold(0_i64, |sum, code| sum.wrapping_add(*code));
        assert_ne!(sum(&a.codes[..2]), sum(&c.codes), "the same inputs, and another state");
        assert_eq!(
            (set.len(), set.tensors(a.codes[2]), set.tensors(c.codes[1])),
            (3, Some(&step(1)[..]), Some(&step(1)[..]))
        );
        assert_eq!((set.tensors(7), set.number(1, 2).value()), (None, b.codes[0]));
        assert_eq!(set.to_tracks(), all());
    }

    #[test]
    fn the_digest_is_of_tensors_in_their_order_and_not_of_names() {
        let digest = |tracks: Vec<Track>| InputSet::new(tracks).digest().to_owned();
        let all = || vec![track("a", &[1, 2]), track("b", &[3])];
        assert_eq!(digest(all()), digest(vec![track("x", &[1, 2]), track("y", &[3])]));
        for other in [vec![track("a", &[2, 1]), track("b", &[3])], vec![track("a", &[1, 2, 3])], vec![]] {
            assert_ne!(digest(all()), digest(other));
        }
        // The order of a step's tensors is no difference to a server.
        let two = |reversed: bool| {
            let mut tensors = [step(1), step(2)].concat();
            tensors[1].name = "SECOND".into();
            if reversed {
                tensors.reverse();
            }
            digest(vec![Track { name: "t".into(), steps: vec![tensors.into()], pauses: Vec::new() }])
        };
        assert_eq!(two(false), two(true));
    }
}
