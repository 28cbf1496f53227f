//! All tracks of a run, with a code for each input: what the rest of the tool has in place of a value that is added up.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use sha2::{Digest as _, Sha256};

use super::{InputTensor, Track};
use crate::{
    arithmetic::Arithmetic,
    number::{Datatype, Number},
    sequence::RequestId,
};

/// The inputs that a run draws from. An input has a code, a number of 64 bits that its tensors alone decide. The state behind some steps
/// is the sum of their codes: so it is told apart from every other one as a running sum is, whatever the model computes.
#[derive(Debug)]
pub struct InputSet {
    tracks: Vec<Coded>,
    by_code: HashMap<i64, Arc<[InputTensor]>>,
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

/// A track as codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// What a report calls it.
    pub name: String,
    /// The code of each step's input.
    pub codes: Vec<i64>,
}

impl InputSet {
    /// The type in which codes are added up.
    pub const DATATYPE: Datatype = Datatype::State;

    /// The set of these tracks.
    pub fn new(tracks: Vec<Track>) -> Self {
        let mut by_code = HashMap::new();
        let mut of_all = Sha256::new();
        let mut all = Vec::new();
        for Track { name, steps, .. } in tracks {
            let mut codes = Vec::with_capacity(steps.len());
            for step in steps {
                let (code, digest) = coded_step(&step);
                of_all.update(digest);
                by_code.entry(code).or_insert_with(|| step.into());
                codes.push(code);
            }
            of_all.update(u64::try_from(codes.len()).unwrap_or(u64::MAX).to_le_bytes());
            all.push(Coded { name, codes });
        }
        Self { tracks: all, by_code, digest: hex(&of_all.finalize()) }
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
        self.by_code.len()
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

    /// The tracks again.
    pub fn to_tracks(&self) -> Vec<Track> {
        let tensors = |code: &i64| self.by_code.get(code).map(|step| step.to_vec()).unwrap_or_default();
        let track = |Coded { name, codes }: &Coded| Track {
            name: name.clone(),
            steps: codes.iter().map(tensors).collect(),
            pauses: Vec::new(),
        };
        self.tracks.iter().map(track).collect()
    }
}

/// The code of an input, and the digest that it is from. No code is nought, so that each step changes the sum.
fn coded_step(step: &[InputTensor]) -> (i64, [u8; 32]) {
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
    let digest: [u8; 32] = hasher.finalize().into();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    (i64::from_le_bytes(bytes) | 1, digest)
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
        Track { name: name.into(), steps: values.iter().copied().map(step).collect(), pauses: Vec::new() }
    }

    #[test]
    fn equal_inputs_have_one_code_and_others_another() {
        let set = InputSet::new(vec![track("a", &[1, 2, 1]), track("b", &[1, 3])]);
        let [a, b] = set.tracks() else { panic!("two tracks") };
        assert_eq!((a.codes[0], a.codes[0]), (a.codes[2], b.codes[0]));
        assert!(a.codes[1] != b.codes[1] && a.codes[0] != a.codes[1]);
        assert_eq!((set.len(), set.tensors(b.codes[1])), (3, Some(&step(3)[..])));
        assert_eq!((set.tensors(7), set.number(1, 2).value()), (None, b.codes[0]));
        assert_eq!(set.to_tracks(), vec![track("a", &[1, 2, 1]), track("b", &[1, 3])]);
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
            digest(vec![Track { name: "t".into(), steps: vec![tensors], pauses: Vec::new() }])
        };
        assert_eq!(two(false), two(true));
    }
}
