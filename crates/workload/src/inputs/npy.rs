//! Arrays that NumPy wrote: `.npy` and `.npz` files, and folders of them.

mod array;
mod folder;

use std::{io::BufReader, path::Path};

use zip::ZipArchive;

use self::array::Array;
pub(super) use self::folder::read as read_folder;
use super::{
    Budget, InputTensor, Options, Track, no_input,
    read::{all, contents, in_one_line, open, shown, stem},
    shape::{known, with_batch},
};
use crate::tensor::{TensorSpec, elements};

/// What may be in a file besides elements.
const HEADER_MAX: u64 = 1 << 16;

struct Reader<'r> {
    declared: &'r [TensorSpec],
    options: &'r Options,
    budget: Budget,
}

/// Reads one `.npz` file: a track, with an array for each input.
pub(super) fn read_npz(
    path: &Path,
    declared: &[TensorSpec],
    options: &Options,
) -> Result<(Vec<Track>, Vec<String>), String> {
    let mut notes = Vec::new();
    let track = Reader::new(declared, options).archive(path, &mut notes)?;
    Ok((vec![track], notes))
}

/// Reads one `.npy` file: a track of a model with one input.
pub(super) fn read_npy(
    path: &Path,
    declared: &[TensorSpec],
    options: &Options,
) -> Result<(Vec<Track>, Vec<String>), String> {
    let track = Reader::new(declared, options).only_input(path)?;
    Ok((vec![track], Vec::new()))
}

impl<'r> Reader<'r> {
    fn new(declared: &'r [TensorSpec], options: &'r Options) -> Self {
        Self { declared, options, budget: Budget::whole() }
    }

    /// The most bytes that the next file of a track may have, behind these arrays of it.
    fn most(&self, arrays: &[(String, Array)]) -> u64 {
        let there: u64 = arrays.iter().map(|(_, array)| array.bytes() as u64).sum();
        (self.budget.0 as u64).saturating_sub(there) + HEADER_MAX
    }

    fn archive(&mut self, path: &Path, notes: &mut Vec<String>) -> Result<Track, String> {
        let damaged = |error| format!("it is no .npz file, or is damaged: {error}");
        let file = open(path)?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
        let mut arrays = Vec::new();
        for place in 0..archive.len() {
            let entry = archive.by_index(place).map_err(damaged)?;
            let name = entry.name().map_err(damaged)?.into_owned();
            let Some(input) = name.strip_suffix(".npy") else {
                notes.push(format!("'{}' in '{}' is not used: it is no array", name.escape_debug(), shown(path)));
                continue;
            };
            let of_input = |problem| format!("input '{}': {problem}", input.escape_debug());
            let bytes =
                all(entry, self.most(&arrays)).map_err(|error| of_input(format!("it cannot be unpacked: {error}")))?;
            let bytes = bytes.ok_or_else(|| of_input(Budget::too_much()))?;
            arrays.push((input.to_owned(), Array::read(&bytes).map_err(of_input)?));
        }
        self.track(path, arrays)
    }

    fn only_input(&mut self, path: &Path) -> Result<Track, String> {
        let input = self.only_name()?.to_owned();
        let array = self.file(path, &[])?;
        self.track(path, vec![(input, array)])
    }

    /// The input that an array without its name is for: the only one, or the only one that the model needs.
    fn only_name(&self) -> Result<&'r str, String> {
        let is_needed = |spec: &&TensorSpec| !self.options.optional.contains(&spec.name);
        let mut needed = self.declared.iter().filter(is_needed);
        match (self.declared, needed.next(), needed.next()) {
            ([spec], ..) | (_, Some(spec), None) => Ok(&spec.name),
            _ => {
                let names: Vec<_> = self.declared.iter().map(|spec| spec.name.as_str()).collect();
                let names = names.join(", ");
                Err(format!(
                    "the model has several inputs ({names}): write an .npz file, or a folder with INPUT.npy for each"
                ))
            }
        }
    }

    /// Reads one file of a track, behind these arrays of it.
    fn file(&self, path: &Path, arrays: &[(String, Array)]) -> Result<Array, String> {
        Array::read(&contents(path, self.most(arrays))?)
    }

    /// A track of an array for each input, whose first dimension is the steps. It has the name of the file or folder.
    fn track(&mut self, path: &Path, arrays: Vec<(String, Array)>) -> Result<Track, String> {
        let mut steps: Vec<Vec<InputTensor>> = Vec::new();
        let mut first: Option<(String, usize)> = None;
        for (input, array) in arrays {
            let spec =
                self.declared.iter().find(|spec| spec.name == input).ok_or_else(|| no_input(&input, self.declared))?;
            let of = |problem| format!("input '{input}': {problem}");
            let count = array.steps();
            match &first {
                Some((other, others)) if *others != count => {
                    return Err(of(format!("it has {count} steps, and input '{other}' has {others}")));
                }
                Some(_) => {}
                None => {
                    // Each step takes memory before its elements do.
                    if count > self.budget.0 / Budget::OF_A_TENSOR {
                        return Err(Budget::too_much());
                    }
                    steps.resize_with(count, Vec::new);
                    first = Some((input.clone(), count));
                }
            }
            let shape = self.shape(&array, spec).map_err(of)?;
            let datatype = array.datatype();
            for ((number, step), data) in (1..).zip(&mut steps).zip(array.into_steps()) {
                let data = data.map_err(|problem| format!("step {number}, input '{input}': {problem}"))?;
                self.budget.take(data.len())?;
                step.push(InputTensor { name: input.clone(), datatype, shape: shape.clone(), data });
            }
        }
        if steps.is_empty() {
            return Err("it has no arrays: a track needs one for each input".to_owned());
        }
        let steps = steps.into_iter().map(Into::into).collect();
        Ok(Track { name: in_one_line(&stem(path)), steps, pauses: Vec::new() })
    }

    /// The shape of a step. One element less deep than the model takes, as in `numpy.arange(5)`, is as good where the number of elements
    /// leaves no doubt.
    fn shape(&self, array: &Array, spec: &TensorSpec) -> Result<Vec<i64>, String> {
        let of_step = array.shape_of_step();
        let shape = with_batch(&of_step, spec, self.options.batches);
        if shape.as_ref().is_ok_and(|shape| shape.len() == spec.shape.len()) {
            return shape;
        }
        let known = known(spec, self.options).ok().filter(|known| elements(known) == elements(&of_step));
        known.map_or(shape, Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use tempfile::TempDir;
    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;
    use crate::inputs::tests::options;

    #[test]
    fn what_unpacks_to_too_much_is_not_unpacked() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("large.npz");
        let mut archive = ZipWriter::new(File::create(&path).expect("a file"));
        archive.start_file("I.npy", SimpleFileOptions::default()).expect("an entry");
        archive.write_all(&vec![0; 200_000]).expect("it is written");
        archive.finish().expect("it is whole");
        let declared = [TensorSpec { name: "I".into(), datatype: "UINT8".into(), shape: vec![1] }];
        let options = options();
        let with = |budget: usize| {
            let mut reader = Reader { budget: Budget(budget), ..Reader::new(&declared, &options) };
            reader.archive(&path, &mut Vec::new()).err().unwrap_or_default()
        };
        assert_eq!(with(100_000), format!("input 'I': {}", Budget::too_much()));
        assert_eq!(with(150_000), "input 'I': it is no .npy file, or is damaged: it does not begin as one");
    }

    #[test]
    fn arrays_of_one_archive_share_what_may_be_unpacked() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("many.npz");
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 80000), }\n";
        let length = u16::try_from(header.len()).expect("short").to_le_bytes();
        let array = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &vec![0; 80_000]].concat();
        let mut archive = ZipWriter::new(File::create(&path).expect("a file"));
        for name in ["I.npy", "J.npy", "K.npy"] {
            archive.start_file(name, SimpleFileOptions::default()).expect("an entry");
            archive.write_all(&array).expect("it is written");
        }
        archive.finish().expect("it is whole");
        let options = options();
        let mut reader = Reader { budget: Budget(100_000), ..Reader::new(&[], &options) };
        let error = reader.archive(&path, &mut Vec::new()).err().unwrap_or_default();
        assert_eq!(error, format!("input 'K': {}", Budget::too_much()));
        // Steps of a byte take more than their bytes.
        let declared = [TensorSpec { name: "I".into(), datatype: "UINT8".into(), shape: vec![] }];
        let bytes = header.replace("(1, 80000)", "(80000, 1)");
        let bytes = [b"\x93NUMPY\x01\x00", &length[..], bytes.as_bytes(), &vec![0; 80_000]].concat();
        let array = Array::read(&bytes).expect("an array");
        let mut reader = Reader { budget: Budget(100_000), ..Reader::new(&declared, &options) };
        assert_eq!(reader.track(&path, vec![("I".to_owned(), array)]), Err(Budget::too_much()));
    }
}
