//! Reading inputs from a path, whatever form they have there.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use super::{Budget, Options, Track, check, name_apart, npy, perf_analyzer, recording, shape::with_batch};
use crate::{tensor::TensorSpec, wording::counted};

/// Reads inputs from a file or a folder, for a model with these inputs: the tracks, and what there is to say about the files.
///
/// The form follows from the path: a folder and `.npz` and `.npy` files have arrays of NumPy, `.json` is `perf_analyzer`'s, and `.jsonl` is
/// a recording of the proxy. The tracks fit the model's inputs, and no two have the same name.
///
/// # Errors
/// When the files cannot be read, are damaged or too large, or do not fit the model; when a flag does not. In one line that names the
/// file and, where there is one, track, step and input.
pub fn read(path: &Path, declared: &[TensorSpec], options: &Options) -> Result<(Vec<Track>, Vec<String>), String> {
    options.check(declared)?;
    if let Some(range) = options.ranges.first() {
        return Err(format!("--range {range} is for random inputs: leave it out, or leave out the path of the inputs"));
    }
    let of = |problem: String| format!("cannot read inputs from '{}': {problem}", shown(path));
    let (mut tracks, mut notes) = in_its_form(path, declared, options).map_err(of)?;
    name_apart(&mut tracks);
    check(&tracks, declared, &options.optional).map_err(of)?;
    if let Some(wanted) = options.tracks {
        let wanted = wanted.get();
        if tracks.len() < wanted {
            let has = counted(tracks.len() as u64, "track");
            notes.push(format!("'{}' has {has}, fewer than the {wanted} of --tracks", shown(path)));
        }
        tracks.truncate(wanted);
    }
    if let Some(steps) = options.steps {
        bound(&tracks, steps.get()).map_err(of)?;
        tracks = tracks.into_iter().map(|track| track.extended(steps)).collect();
    }
    Ok((tracks, notes))
}

/// Checks that tracks of so many steps are not too large.
fn bound(tracks: &[Track], steps: usize) -> Result<(), String> {
    let mut budget = Budget::whole();
    for track in tracks {
        // As many tensors as are there at most, whatever the flag says.
        for step in track.steps.iter().cycle().take(steps) {
            for tensor in step.iter() {
                budget.take(tensor.data.len()).map_err(|problem| format!("with --steps {steps} {problem}"))?;
            }
        }
    }
    Ok(())
}

fn in_its_form(path: &Path, declared: &[TensorSpec], options: &Options) -> Result<(Vec<Track>, Vec<String>), String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if about.is_dir() {
        return npy::read_folder(path, declared, options);
    }
    if !about.is_file() {
        return Err("it is neither a file nor a folder: write the inputs into a file".to_owned());
    }
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => perf_analyzer::read(&contents(path, Budget::MAX as u64)?, declared, options),
        Some("jsonl") => recorded(&contents(path, Budget::MAX as u64)?, declared, options),
        Some("npz") => npy::read_npz(path, declared, options),
        Some("npy") => npy::read_npy(path, declared, options),
        _ => Err("its form is not known: inputs are a folder, or a .json, .jsonl, .npz or .npy file".to_owned()),
    }
}

/// What the proxy recorded of a model.
fn recorded(bytes: &[u8], declared: &[TensorSpec], options: &Options) -> Result<(Vec<Track>, Vec<String>), String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is no text, and so no recording".to_owned())?;
    let recording = recording::read(text)?;
    let mut notes = Vec::new();
    if recording.lost > 0 {
        notes.push(format!("the proxy did not record {} of the traffic", counted(recording.lost, "request")));
    }
    if recording.is_cut {
        notes.push("the recording ends in the middle of a line, and is read up to the line before".to_owned());
    }
    let recorded = recording.into_model(options.model.as_deref())?;
    if recorded.without_start > 0 {
        notes.push(format!(
            "{} of the recording came after no START, and are left out",
            counted(recorded.without_start, "request")
        ));
    }
    for Track { name, steps, .. } in &recorded.tracks {
        for (number, tensor) in
            (1..).zip(steps).flat_map(|(number, step)| step.iter().map(move |tensor| (number, tensor)))
        {
            // The server refused a batch of another size.
            if let Some(spec) = declared.iter().find(|spec| spec.name == tensor.name) {
                with_batch(&tensor.shape, spec, options.batches)
                    .map_err(|problem| format!("'{name}', step {number}: input '{}': {problem}", tensor.name))?;
            }
        }
    }
    Ok((recorded.tracks, notes))
}

/// Opens a file for reading.
pub(super) fn open(path: &Path) -> Result<File, String> {
    // Opening a pipe would wait for a writer.
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    File::open(path).map_err(|error| error.to_string())
}

/// The contents of a file that has at most so many bytes.
pub(super) fn contents(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    all(open(path)?, most).map_err(|error| error.to_string())?.ok_or_else(Budget::too_much)
}

/// All that comes, where it is at most so many bytes, whatever it says about its size.
pub(super) fn all(source: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let length = source.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|_| length as u64 <= most))
}

/// A path in a message.
pub(super) fn shown(path: &Path) -> String {
    in_one_line(&path.to_string_lossy())
}

/// A name without what would make several lines of a message.
pub(super) fn in_one_line(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

/// The name of a file without its ending, or of a folder.
pub(super) fn stem(path: &Path) -> String {
    // `.` and `..` have names only as what they lead to.
    let whole = fs::canonicalize(path).ok();
    let path = if path.file_name().is_some() { Some(path) } else { whole.as_deref() };
    let name = path.and_then(|path| if path.is_dir() { path.file_name() } else { path.file_stem() });
    name.map_or_else(|| "inputs".to_owned(), |name| name.to_string_lossy().into_owned())
}
#[cfg(test)]
mod tests;
