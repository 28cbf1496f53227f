//! Golden outputs as a file: a line that names the form, a header in JSON with its length before it, the tensors of all inputs, those of
//! all states, and the SHA-256 of all that.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Facts, Golden, Identity, Known, Lineage, Output, Word};
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
    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut places = std::collections::HashMap::new();
        let mut inputs: Vec<Vec<TensorAt>> = Vec::new();
        let mut tensors = Vec::new();
        let mut tracks = Vec::new();
        for Coded { name, codes, pauses } in self.inputs.tracks() {
            let mut steps = Vec::with_capacity(codes.len());
            for code in codes {
                // Equal inputs are kept once, and have other codes in other places.
                let step = self.inputs.tensors(*code).unwrap_or_default();
                let place = *places.entry(step.as_ptr()).or_insert_with(|| {
                    let at = |InputTensor { name, datatype, shape, data }: &InputTensor| {
                        tensors.extend_from_slice(data);
                        TensorAt { name: name.clone(), datatype: *datatype, shape: shape.clone(), bytes: data.len() }
                    };
                    inputs.push(step.iter().map(at).collect());
                    inputs.len() - 1
                });
                steps.push(place);
            }
            let pauses_us = pauses.iter().map(|pause| u64::try_from(pause.as_micros()).unwrap_or(u64::MAX)).collect();
            tracks.push(TrackOf { name: name.clone(), steps, pauses_us });
        }
        let word = |Word { lineage, responses }: &Word| {
            let of = |outputs: &Vec<Known>| outputs.iter().map(|known| (known.shape.clone(), known.at.len())).collect();
            WordOf { lineage: *lineage, responses: responses.iter().map(of).collect() }
        };
        let header = Header {
            identity: self.identity.clone(),
            inputs,
            tracks,
            outputs: self.outputs.clone(),
            facts: self.facts.clone(),
            words: self.words.iter().map(word).collect(),
        };
        let header = serde_json::to_vec(&header).expect("it has nothing that JSON does not have");
        let mut all = MAGIC.to_vec();
        all.extend((header.len() as u64).to_le_bytes());
        all.extend(header);
        all.extend(tensors);
        all.extend(&self.data);
        let digest: [u8; DIGEST] = Sha256::digest(&all).into();
        all.extend(digest);
        all
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is no golden file, is cut short, or was changed.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Damaged> {
        let damaged = |why: &str| Damaged(why.to_owned());
        if !bytes.starts_with(MAGIC) {
            return Err(damaged(
                "it is no golden file of this version of sequence-stress: write it anew with 'sequence-stress golden'",
            ));
        }
        let cut = || {
            damaged(
                "it is cut short or was changed (its checksum does not fit): write it anew with 'sequence-stress golden'",
            )
        };
        let (body, digest) = bytes.split_last_chunk::<DIGEST>().ok_or_else(cut)?;
        if Sha256::digest(body)[..] != digest[..] {
            return Err(cut());
        }
        let (length, rest) = body[MAGIC.len()..].split_first_chunk().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (header, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let header: Header = serde_json::from_slice(header).map_err(|why| {
            Damaged(format!("its header cannot be read ({why}): write it anew with 'sequence-stress golden'"))
        })?;
        let Header { identity, inputs, tracks, outputs, facts, words } = header;
        let mut rest = rest;
        let mut take = |TensorAt { name, datatype, shape, bytes }: TensorAt| {
            let (data, behind) = rest.split_at_checked(bytes)?;
            rest = behind;
            Some(InputTensor { name, datatype, shape, data: data.to_vec() })
        };
        let inputs: Option<Vec<Vec<_>>> =
            inputs.into_iter().map(|step| step.into_iter().map(&mut take).collect()).collect();
        let inputs = inputs.ok_or_else(cut)?;
        let track = |TrackOf { name, steps, pauses_us }: TrackOf| {
            let steps: Option<Vec<_>> = steps.into_iter().map(|place| inputs.get(place).cloned()).collect();
            let pauses = pauses_us.into_iter().map(Duration::from_micros).collect();
            Some(Track { name, steps: steps.filter(|steps| !steps.is_empty())?, pauses })
        };
        let tracks = tracks.into_iter().map(track).collect::<Option<Vec<_>>>().filter(|tracks| !tracks.is_empty());
        let inputs = InputSet::new(tracks.ok_or_else(cut)?);
        let behind = rest.len();
        let mut from: usize = 0;
        let mut known = |(shape, length): (Vec<i64>, usize)| {
            let at = from..from.checked_add(length).filter(|end| *end <= behind)?;
            from = at.end;
            Some(Known { shape, at })
        };
        let mut word = |WordOf { lineage, responses }: WordOf| {
            let responses = responses.into_iter().map(|outputs| outputs.into_iter().map(&mut known).collect());
            Some(Word { lineage, responses: responses.collect::<Option<_>>()? })
        };
        let words = words.into_iter().map(&mut word).collect::<Option<Vec<_>>>().ok_or_else(cut)?;
        let is_whole = |word: &Word| word.responses.iter().all(|response| response.len() == outputs.len());
        let has_tracks = |word: &Word| word.lineage.steps().iter().all(|(track, _)| *track < inputs.tracks().len());
        if !words.iter().all(|word| is_whole(word) && has_tracks(word)) {
            return Err(cut());
        }
        // What is left of the file is what the states' tensors are, and is not copied again.
        let start = body.len() - behind;
        let end = body.len();
        let mut data = bytes;
        data.truncate(end);
        data.drain(..start);
        Ok(Self::of(identity, Arc::new(inputs), outputs, facts, words, data))
    }
}
