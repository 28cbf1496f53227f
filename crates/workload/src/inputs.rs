//! What is sent to a model that has no formula: tracks of tensors, from wherever they come.
//!
//! [`read`] reads tracks from files, and [`random::draw`] draws them from a seed. Both take [`Options`], and both check what they return
//! against the model's metadata.

mod element;
mod npy;
mod perf_analyzer;
pub mod random;
mod read;
pub mod recording;
mod set;
pub mod shape;

use std::{collections::HashSet, fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use crate::{
    number::Datatype,
    seed::Seed,
    tensor::{TensorSpec, elements},
};

pub use self::{
    element::{Element, append_text, texts},
    read::read,
    set::{Coded, InputSet, Pace, Sent, Values, hex},
};
use self::{random::RangeArg, shape::ShapeArg};

table! {
    /// The type of a tensor's elements, in the protocol's spelling.
    pub enum ElementType: Option<usize> {
        /// True or false, a byte each.
        Bool = "BOOL", Some(1);
        /// Whole numbers of 8 bits without a sign.
        Uint8 = "UINT8", Some(1);
        /// Whole numbers of 16 bits without a sign.
        Uint16 = "UINT16", Some(2);
        /// Whole numbers of 32 bits without a sign.
        Uint32 = "UINT32", Some(4);
        /// Whole numbers of 64 bits without a sign.
        Uint64 = "UINT64", Some(8);
        /// Whole numbers of 8 bits.
        Int8 = "INT8", Some(1);
        /// Whole numbers of 16 bits.
        Int16 = "INT16", Some(2);
        /// Whole numbers of 32 bits.
        Int32 = "INT32", Some(4);
        /// Whole numbers of 64 bits.
        Int64 = "INT64", Some(8);
        /// Floating-point numbers of 16 bits.
        Fp16 = "FP16", Some(2);
        /// Floating-point numbers of 32 bits.
        Fp32 = "FP32", Some(4);
        /// Floating-point numbers of 64 bits.
        Fp64 = "FP64", Some(8);
        /// Floating-point numbers of 16 bits with the exponent of 32.
        Bf16 = "BF16", Some(2);
        /// Texts or any other bytes, each with its length in 4 bytes before it.
        Bytes = "BYTES", None;
    }
}

impl ElementType {
    /// How many bytes an element has; none where each has a length of its own.
    pub fn size(self) -> Option<usize> {
        *self.row()
    }

    /// How many bytes an element has, in words.
    pub fn size_in_words(self) -> &'static str {
        match self.size() {
            Some(1) => "1 byte",
            Some(2) => "2 bytes",
            Some(4) => "4 bytes",
            Some(_) => "8 bytes",
            None => "a length of 4 bytes and so many bytes",
        }
    }

    /// The type of a model's input.
    fn of(spec: &TensorSpec) -> Result<Self, String> {
        let none = || {
            format!("the type {} of input {spec} is not supported: one of {} is", spec.datatype, Self::NAMES.join(", "))
        };
        Self::named(&spec.datatype).ok_or_else(none)
    }

    /// How many elements these bytes are; none where they are no whole number of elements.
    pub fn count(self, bytes: &[u8]) -> Option<usize> {
        match self.size() {
            Some(size) => bytes.len().is_multiple_of(size).then_some(bytes.len() / size),
            None => texts(bytes).try_fold(0, |count, text| text.map(|_| count + 1)),
        }
    }
}

/// The type as the protocol has it. States are of no such type.
impl From<Datatype> for ElementType {
    fn from(datatype: Datatype) -> Self {
        Self::named(datatype.name()).unwrap_or(Self::Int64)
    }
}

/// A tensor that is sent.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct InputTensor {
    /// The input's name.
    pub name: String,
    /// Its type.
    pub datatype: ElementType,
    /// Its shape, with the batch dimension where the model batches.
    pub shape: Vec<i64>,
    /// Its elements as the protocol's raw contents have them: little-endian, BOOL a byte, texts with their lengths.
    pub data: Vec<u8>,
}

impl fmt::Debug for InputTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{:?} of {} bytes", self.name, self.datatype, self.shape, self.data.len())
    }
}

/// The inputs of one sequence: what each of its steps sends, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// What a report calls it; no two tracks of a set have the same.
    pub name: String,
    /// The tensors of each step; never empty, and none of its steps is. Steps that send the same can share them.
    pub steps: Vec<Arc<[InputTensor]>>,
    /// How long after the one before it each step but the first was sent, where it was recorded; else empty.
    pub pauses: Vec<Duration>,
}

impl Track {
    /// The track with exactly so many steps: a longer one ends there, and a shorter one goes on from its beginning, again and again.
    ///
    /// Where pauses are recorded, the pause before a new beginning is as long as the last one that was recorded.
    pub fn extended(mut self, steps: NonZeroUsize) -> Self {
        let (has, wanted) = (self.steps.len(), steps.get());
        self.steps.truncate(wanted);
        self.steps.reserve_exact(wanted.saturating_sub(has));
        for place in has..wanted {
            self.steps.push(self.steps[place % has].clone());
        }
        if let Some(last) = self.pauses.last() {
            let round: Vec<_> = self.pauses.iter().chain([last]).copied().collect();
            self.pauses = round.into_iter().cycle().take(wanted - 1).collect();
        }
        self
    }
}

/// Gives each track that has the name of one before it a name of its own, such as `speech (2)`.
pub fn name_apart(tracks: &mut [Track]) {
    let mut taken: HashSet<String> = HashSet::new();
    let mut given: HashSet<String> = tracks.iter().map(|track| track.name.clone()).collect();
    for Track { name, .. } in tracks {
        if taken.insert(name.clone()) {
            continue;
        }
        let mut number: u64 = 2;
        while given.contains(&format!("{name} ({number})")) {
            number += 1;
        }
        *name = format!("{name} ({number})");
        given.insert(name.clone());
        taken.insert(name.clone());
    }
}

/// What a user says about inputs beside where they come from.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the model batches: the metadata's shapes then begin with the batch dimension, and those of files and flags do not.
    pub batches: bool,
    /// The model's name: a recording may have the traffic of several.
    pub model: Option<String>,
    /// The inputs that the model does not need.
    pub optional: Vec<String>,
    /// `--shape`: the sizes of open dimensions.
    pub shapes: Vec<ShapeArg>,
    /// `--range`: from where to where the elements of random inputs are.
    pub ranges: Vec<RangeArg>,
    /// `--tracks`: how many tracks; by default those of a file, or [`random::TRACKS`].
    pub tracks: Option<NonZeroUsize>,
    /// `--steps`: how many steps each track has; by default those of a file, or [`random::STEPS`].
    pub steps: Option<NonZeroUsize>,
    /// What random inputs are drawn from.
    pub seed: Seed,
}

impl Options {
    /// Whether a flag names this input.
    fn names(&self, input: &str) -> bool {
        let mut named = self.shapes.iter().map(|its| &its.input).chain(self.ranges.iter().map(|its| &its.input));
        named.any(|its| its == input)
    }

    /// Checks the flags against a model's inputs.
    ///
    /// # Errors
    /// When a flag names no input of the model, or an input twice, or does not fit the input that it names.
    pub fn check(&self, declared: &[TensorSpec]) -> Result<(), String> {
        for (place, arg) in self.shapes.iter().enumerate() {
            let before = self.shapes[..place].iter().any(|other| other.input == arg.input);
            let spec = named(&arg.input, before, declared).map_err(|problem| format!("--shape {arg}: {problem}"))?;
            arg.check(spec, self.batches)?;
        }
        for (place, arg) in self.ranges.iter().enumerate() {
            let before = self.ranges[..place].iter().any(|other| other.input == arg.input);
            let spec = named(&arg.input, before, declared).map_err(|problem| format!("--range {arg}: {problem}"))?;
            arg.check(spec)?;
        }
        Ok(())
    }
}

fn named<'d>(name: &str, before: bool, declared: &'d [TensorSpec]) -> Result<&'d TensorSpec, String> {
    if before {
        return Err(format!("input '{}' is there twice: give each input once", name.escape_debug()));
    }
    declared.iter().find(|spec| spec.name == name).ok_or_else(|| no_input(name, declared))
}

/// The message about a name that no input has.
fn no_input(name: &str, declared: &[TensorSpec]) -> String {
    let names: Vec<_> = declared.iter().map(|spec| spec.name.as_str()).collect();
    format!("the model has no input '{}': it has {}", name.escape_debug(), names.join(", "))
}

/// How much of a set of inputs may still be read: files say what they like about their sizes.
#[derive(Debug)]
struct Budget(usize);

impl Budget {
    /// The most bytes that a set of inputs has.
    const MAX: usize = 1 << 30;

    /// What a tensor takes beside its elements, about.
    const OF_A_TENSOR: usize = 128;

    fn whole() -> Self {
        Self(Self::MAX)
    }

    /// Takes away what a tensor of so many bytes needs.
    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = bytes.checked_add(Self::OF_A_TENSOR).and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = left.ok_or_else(Self::too_much)?;
        Ok(())
    }

    fn too_much() -> String {
        format!("the inputs take more than {} MiB: use fewer or smaller ones", Self::MAX >> 20)
    }
}

/// Checks tracks against a model's inputs, of which those in `optional` may be left out.
///
/// # Errors
/// When a tensor is none of the model's, has another type or shape, or not as many elements as its shape says; when a step lacks an
/// input; when there is no track, or one has no steps. In one line that names track, step and tensor.
pub fn check(tracks: &[Track], declared: &[TensorSpec], optional: &[String]) -> Result<(), String> {
    if tracks.is_empty() {
        return Err("there are no inputs: a set of inputs needs at least one sequence of steps".to_owned());
    }
    for Track { name, steps, .. } in tracks {
        if steps.is_empty() {
            return Err(format!("'{name}' has no steps: each sequence of inputs needs at least one"));
        }
        for (number, step) in (1..).zip(steps) {
            let of = |problem| format!("'{name}', step {number}: {problem}");
            check_step(step, declared, optional).map_err(of)?;
        }
    }
    Ok(())
}

fn check_step(step: &[InputTensor], declared: &[TensorSpec], optional: &[String]) -> Result<(), String> {
    if step.is_empty() && !declared.is_empty() && declared.iter().all(|spec| optional.contains(&spec.name)) {
        return Err("it has no inputs: give at least one of those that the model may be sent".to_owned());
    }
    for (place, tensor) in step.iter().enumerate() {
        let Some(spec) = declared.iter().find(|spec| spec.name == tensor.name) else {
            return Err(no_input(&tensor.name, declared));
        };
        if step[..place].iter().any(|other| other.name == tensor.name) {
            return Err(format!("input '{}' is there twice", tensor.name));
        }
        check_tensor(tensor, spec)?;
    }
    let is_missing =
        |spec: &&TensorSpec| !optional.contains(&spec.name) && step.iter().all(|tensor| tensor.name != spec.name);
    match declared.iter().find(is_missing) {
        Some(spec) => Err(format!("input {spec} is missing")),
        None => Ok(()),
    }
}

fn check_tensor(tensor: &InputTensor, spec: &TensorSpec) -> Result<(), String> {
    let InputTensor { name, datatype, shape, data } = tensor;
    if datatype.name() != spec.datatype {
        return Err(format!("input '{name}' has type {datatype}, and the model takes {spec}"));
    }
    let is_as = |(size, declared): (&i64, &i64)| *size >= 0 && (*declared == -1 || size == declared);
    if shape.len() != spec.shape.len() || !shape.iter().zip(&spec.shape).all(is_as) {
        return Err(format!("input '{name}' has shape {shape:?}, and the model takes {spec}"));
    }
    let expected = elements(shape);
    match datatype.count(data) {
        Some(count) if count == expected => Ok(()),
        Some(count) => Err(format!("input '{name}' has {count} elements, and its shape {shape:?} has {expected}")),
        None => Err(format!("input '{name}' has {} bytes, which are no elements of type {datatype}", data.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nobody says anything about.
    pub(super) fn options() -> Options {
        Options {
            model: None,
            batches: false,
            optional: Vec::new(),
            shapes: Vec::new(),
            ranges: Vec::new(),
            tracks: None,
            steps: None,
            seed: Seed(7),
        }
    }

    fn spec(name: &str, datatype: &str, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), datatype: datatype.into(), shape: shape.to_vec() }
    }

    fn tensor(name: &str, datatype: ElementType, shape: &[i64], data: &[u8]) -> InputTensor {
        InputTensor { name: name.into(), datatype, shape: shape.to_vec(), data: data.to_vec() }
    }

    fn problem(steps: Vec<Vec<InputTensor>>) -> String {
        let declared = [spec("A", "FP16", &[-1, 2]), spec("B", "BYTES", &[1])];
        let steps = steps.into_iter().map(Into::into).collect();
        let track = Track { name: "t".into(), steps, pauses: Vec::new() };
        check(&[track], &declared, &["B".to_owned()]).err().unwrap_or_default()
    }

    #[test]
    fn what_a_model_does_not_take_is_named() {
        let right = tensor("A", ElementType::Fp16, &[1, 2], &[0; 4]);
        let text = tensor("B", ElementType::Bytes, &[1], b"\x02\0\0\0ab");
        assert_eq!(problem(vec![vec![right.clone(), text.clone()], vec![right.clone()]]), "");
        let with = |tensor: InputTensor| problem(vec![vec![right.clone()], vec![tensor]]);
        for (tensor, expected) in [
            (tensor("C", ElementType::Fp16, &[1, 2], &[0; 4]), "'t', step 2: the model has no input 'C': it has A, B"),
            (text.clone(), "'t', step 2: input A FP16[-1, 2] is missing"),
            (
                tensor("A", ElementType::Bf16, &[1, 2], &[0; 4]),
                "'t', step 2: input 'A' has type BF16, and the model takes A FP16[-1, 2]",
            ),
            (
                tensor("A", ElementType::Fp16, &[1, 3], &[0; 6]),
                "'t', step 2: input 'A' has shape [1, 3], and the model takes A FP16[-1, 2]",
            ),
            (
                tensor("A", ElementType::Fp16, &[2, 2], &[0; 4]),
                "'t', step 2: input 'A' has 2 elements, and its shape [2, 2] has 4",
            ),
            (
                tensor("A", ElementType::Fp16, &[1, 2], &[0; 3]),
                "'t', step 2: input 'A' has 3 bytes, which are no elements of type FP16",
            ),
        ] {
            assert_eq!(with(tensor), expected);
        }
        assert_eq!(problem(Vec::new()), "'t' has no steps: each sequence of inputs needs at least one");
        assert_eq!(problem(vec![vec![right.clone(), right]]), "'t', step 1: input 'A' is there twice");
        assert!(check(&[], &[], &[]).is_err());
        let track = Track { name: "t".into(), steps: vec![Arc::new([])], pauses: Vec::new() };
        let nothing = check(&[track], &[spec("A", "FP16", &[1])], &["A".to_owned()]);
        let expected = "'t', step 1: it has no inputs: give at least one of those that the model may be sent";
        assert_eq!(nothing, Err(expected.to_owned()));
    }

    #[test]
    fn a_track_goes_on_from_its_beginning_or_ends_early() {
        let step = |number: u8| [tensor("A", ElementType::Uint8, &[1], &[number])].into();
        let pause = Duration::from_millis;
        let recorded = Track { name: "t".into(), steps: (1..=3).map(step).collect(), pauses: vec![pause(1), pause(2)] };
        let of = |track: &Track, steps| {
            let track = track.clone().extended(NonZeroUsize::new(steps).expect("not 0"));
            let numbers: Vec<_> = track.steps.iter().map(|step| step[0].data[0]).collect();
            (numbers, track.pauses.iter().map(Duration::as_millis).collect::<Vec<_>>())
        };
        assert_eq!(of(&recorded, 7), (vec![1, 2, 3, 1, 2, 3, 1], vec![1, 2, 2, 1, 2, 2]));
        assert_eq!(of(&recorded, 3), (vec![1, 2, 3], vec![1, 2]));
        assert_eq!(of(&recorded, 1), (vec![1], vec![]));
        let read = Track { pauses: Vec::new(), ..recorded };
        assert_eq!(of(&read, 4), (vec![1, 2, 3, 1], vec![]));
    }

    #[test]
    fn names_that_are_there_twice_get_numbers() {
        let mut tracks: Vec<_> = ["a", "a (2)", "a", "b", "a"]
            .iter()
            .map(|name| Track { name: (*name).into(), ..Track::default() })
            .collect();
        name_apart(&mut tracks);
        let names: Vec<_> = tracks.iter().map(|track| track.name.as_str()).collect();
        assert_eq!(names, ["a", "a (2)", "a (3)", "b", "a (4)"]);
    }

    #[test]
    fn texts_are_counted_by_their_lengths() {
        for (bytes, expected) in [
            (&b""[..], Some(0)),
            (b"\0\0\0\0", Some(1)),
            (b"\x02\0\0\0ab\0\0\0\0", Some(2)),
            (b"\x03\0\0\0ab", None),
            (b"\0\0", None),
        ] {
            assert_eq!(ElementType::Bytes.count(bytes), expected, "{bytes:?}");
        }
    }
}
