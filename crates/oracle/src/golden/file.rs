//! Golden outputs as a file: a line that names the form, a header in JSON with its length before it, the tensors of all inputs, those of
//! all states, and the SHA-256 of all that.

use std::{
    io::{self, BufWriter, ErrorKind, Read, Write},
    mem,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Facts, Gathered, Golden, Identity, Lineage, Output, Word};
use workload::inputs::{Coded, ElementType, InputSet, InputTensor, Track};

const MAGIC: &[u8] = b"sequence-stress golden 1\n";
const DIGEST: usize = 32;

/// Why a file is no golden file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    identity: Identity,
    /// Each input once.
    inputs: Vec<Vec<TensorAt>>,
    tracks: Vec<TrackOf>,
    outputs: Vec<Output>,
    facts: Facts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<String>,
    words: Vec<WordOf>,
}

#[derive(Serialize, Deserialize)]
struct TensorAt {
    name: String,
    datatype: ElementType,
    shape: Vec<i64>,
    bytes: usize,
}

#[derive(Serialize, Deserialize)]
struct TrackOf {
    name: String,
    /// By their places in `inputs`.
    steps: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pauses_us: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct WordOf {
    lineage: Lineage,
    /// By response and output: shape and bytes.
    responses: Vec<Vec<(Vec<i64>, usize)>>,
}

impl Golden {
    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_to(&self, to: impl Write) -> io::Result<()> {
        let mut places = std::collections::HashMap::new();
        let mut inputs: Vec<&[InputTensor]> = Vec::new();
        let mut tracks = Vec::new();
        for Coded { name, codes, pauses } in self.inputs.tracks() {
            let mut steps = Vec::with_capacity(codes.len());
            for code in codes {
                // Equal inputs are kept once, and have other codes in other places.
                let step = self.inputs.tensors(*code).unwrap_or_default();
                steps.push(*places.entry(step.as_ptr()).or_insert_with(|| {
                    inputs.push(step);
                    inputs.len() - 1
                }));
            }
            let pauses_us = pauses.iter().map(|pause| u64::try_from(pause.as_micros()).unwrap_or(u64::MAX)).collect();
            tracks.push(TrackOf { name: name.clone(), steps, pauses_us });
        }
        let tensor = |InputTensor { name, datatype, shape, data }: &InputTensor| TensorAt {
            name: name.clone(),
            datatype: *datatype,
            shape: shape.clone(),
            bytes: data.len(),
        };
        let word = |Word { lineage, responses }: &Word| {
            let of = |outputs: &Vec<(Vec<i64>, Vec<u8>)>| {
                outputs.iter().map(|(shape, bytes)| (shape.clone(), bytes.len())).collect()
            };
            WordOf { lineage: *lineage, responses: responses.iter().map(of).collect() }
        };
        let header = Header {
            identity: self.identity.clone(),
            inputs: inputs.iter().map(|step| step.iter().map(tensor).collect()).collect(),
            tracks,
            outputs: self.outputs.clone(),
            facts: self.facts.clone(),
            configuration: self.configuration.clone(),
            words: self.words.iter().map(word).collect(),
        };
        let header = serde_json::to_vec(&header).expect("it has nothing that JSON does not have");
        let mut to = BufWriter::new(to);
        let mut digest = Sha256::new();
        let mut put = |bytes: &[u8]| {
            digest.update(bytes);
            to.write_all(bytes)
        };
        put(MAGIC)?;
        put(&(header.len() as u64).to_le_bytes())?;
        put(&header)?;
        inputs.into_iter().flatten().try_for_each(|tensor| put(&tensor.data))?;
        let words = self.words.iter().flat_map(|word| word.responses.iter().flatten());
        words.into_iter().try_for_each(|(_, bytes)| put(bytes))?;
        to.write_all(&digest.finalize())?;
        to.flush()
    }

    /// Reads a file of so many bytes. Each tensor is in memory once, and nothing else of the file is kept.
    ///
    /// # Errors
    /// When it cannot be read, is no golden file, is cut short, or was changed.
    pub fn read_from(mut from: impl Read, size: u64) -> Result<Self, Damaged> {
        let mut magic = Vec::new();
        from.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if magic != MAGIC {
            return Err(Damaged(
                "it is no golden file, or one of another version of sequence-stress: 'sequence-stress golden' writes one"
                    .to_owned(),
            ));
        }
        let left =
            usize::try_from(size).ok().and_then(|size| size.checked_sub(MAGIC.len() + DIGEST)).ok_or_else(cut)?;
        let mut source = Source { from, left, digest: Sha256::new_with_prefix(MAGIC) };
        let read = source.header().and_then(|header| source.tensors(header));
        // What a file says that was changed is not looked at.
        source.finish()?;
        let (Header { identity, tracks, outputs, facts, configuration, .. }, inputs, seen) = read?;
        let track = |TrackOf { name, steps, pauses_us }: TrackOf| {
            let steps: Option<Vec<_>> = steps.into_iter().map(|place| inputs.get(place).cloned()).collect();
            let pauses = pauses_us.into_iter().map(Duration::from_micros).collect();
            Some(Track { name, steps: steps.filter(|steps| !steps.is_empty())?, pauses })
        };
        let tracks = tracks.into_iter().map(track).collect::<Option<Vec<_>>>().filter(|tracks| !tracks.is_empty());
        let inputs = InputSet::new(tracks.ok_or_else(cut)?);
        let is_whole = |responses: &Gathered| responses.iter().all(|response| response.len() == outputs.len());
        // No more steps than a track has: so many would be allocated.
        let longest = inputs.tracks().iter().map(|track| track.codes.len()).max().unwrap_or(0);
        let are_few = |lineage: Lineage| lineage.most_steps() as usize <= longest;
        let has_tracks = |lineage: Lineage| lineage.steps().iter().all(|(track, _)| *track < inputs.tracks().len());
        if !seen.iter().all(|(lineage, responses)| is_whole(responses) && are_few(*lineage) && has_tracks(*lineage)) {
            return Err(cut());
        }
        let is_bound = |tolerance: &f64| tolerance.is_finite() && *tolerance >= 0.0;
        if let Some(output) = outputs.iter().find(|output| !output.tolerances.iter().all(is_bound)) {
            return Err(Damaged(format!(
                "output '{}' has a tolerance that is none: write it anew with 'sequence-stress golden'",
                output.spec.name
            )));
        }
        Ok(Self { configuration, ..Self::new(identity, Arc::new(inputs), outputs, facts, seen) })
    }
}

fn cut() -> Damaged {
    Damaged(
        "it is cut short or was changed (its checksum does not fit): write it anew with 'sequence-stress golden'"
            .to_owned(),
    )
}

impl From<io::Error> for Damaged {
    fn from(problem: io::Error) -> Self {
        if problem.kind() == ErrorKind::UnexpectedEof { cut() } else { Self(problem.to_string()) }
    }
}

type Input = Arc<[InputTensor]>;
type State = (Lineage, Arc<Gathered>);

/// What is left of a file, and the digest of what was read.
struct Source<R> {
    from: R,
    /// How many bytes are left before the checksum.
    left: usize,
    digest: Sha256,
}

impl<R: Read> Source<R> {
    fn take(&mut self, bytes: usize) -> Result<Vec<u8>, Damaged> {
        self.left = self.left.checked_sub(bytes).ok_or_else(cut)?;
        let mut taken = vec![0; bytes];
        self.from.read_exact(&mut taken)?;
        self.digest.update(&taken);
        Ok(taken)
    }

    fn header(&mut self) -> Result<Header, Damaged> {
        let length = self.take(size_of::<u64>())?.try_into().map_err(|_| cut())?;
        let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| cut())?;
        serde_json::from_slice(&self.take(length)?).map_err(|why| {
            Damaged(format!("its header cannot be read ({why}): write it anew with 'sequence-stress golden'"))
        })
    }

    /// The header without what it says of tensors, and those: of each input, and of each state.
    fn tensors(&mut self, mut header: Header) -> Result<(Header, Vec<Input>, Vec<State>), Damaged> {
        let mut inputs = Vec::with_capacity(header.inputs.len());
        for step in mem::take(&mut header.inputs) {
            let tensor = |TensorAt { name, datatype, shape, bytes }: TensorAt| {
                Ok(InputTensor { name, datatype, shape, data: self.take(bytes)? })
            };
            inputs.push(step.into_iter().map(tensor).collect::<Result<_, Damaged>>()?);
        }
        let mut states = Vec::with_capacity(header.words.len());
        for WordOf { lineage, responses } in mem::take(&mut header.words) {
            let mut tensor = |(shape, length): (Vec<i64>, usize)| Ok((shape, self.take(length)?));
            let response = |outputs: Vec<_>| outputs.into_iter().map(&mut tensor).collect();
            let responses: Result<Gathered, Damaged> = responses.into_iter().map(response).collect();
            states.push((lineage, Arc::new(responses?)));
        }
        Ok((header, inputs, states))
    }

    /// Reads what is left, and compares the checksum.
    fn finish(mut self) -> Result<(), Damaged> {
        while self.left > 0 {
            self.take(self.left.min(1 << 16))?;
        }
        let mut digest = [0; DIGEST];
        self.from.read_exact(&mut digest)?;
        if self.digest.finalize()[..] == digest { Ok(()) } else { Err(cut()) }
    }
}
