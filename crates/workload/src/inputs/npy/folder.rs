//! Folders of arrays: what is a track, and what an input.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    super::{
        Options, Track,
        read::{shown, stem},
    },
    Reader,
};
use crate::tensor::TensorSpec;

/// Reads a folder: a track for each `.npz` file, for each folder of `INPUT.npy` files, and, of a model with one input, for each `.npy`
/// file. A folder whose own `.npy` files all have the names of inputs is one track.
pub(in super::super) fn read(
    folder: &Path,
    declared: &[TensorSpec],
    options: &Options,
) -> Result<(Vec<Track>, Vec<String>), String> {
    let mut reader = Reader::new(declared, options);
    let mut notes = Vec::new();
    let mut tracks = Vec::new();
    let mut loose = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            match arrays_in(&path, &mut notes)? {
                files if files.is_empty() => notes.push(unused(&path, "it has no .npy files")),
                files => tracks.push(of_inputs(&mut reader, &path, &files)?),
            }
        } else if has_ending(&path, "npz") {
            tracks.push(reader.archive(&path, &mut notes).map_err(|problem| of(&path, &problem))?);
        } else if has_ending(&path, "npy") {
            loose.push(path);
        } else {
            notes.push(unused(&path, "it is neither .npy nor .npz"));
        }
    }
    let is_an_input = |path: &PathBuf| declared.iter().any(|spec| spec.name == stem(path));
    if !loose.is_empty() && loose.iter().all(is_an_input) {
        tracks.push(of_inputs(&mut reader, folder, &loose)?);
    } else {
        for path in &loose {
            tracks.push(reader.only_input(path).map_err(|problem| of(path, &problem))?);
        }
    }
    if tracks.is_empty() {
        return Err("the folder has no inputs: write TRACK.npz, or TRACK/INPUT.npy, into it".to_owned());
    }
    tracks.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((tracks, notes))
}

fn of_inputs(reader: &mut Reader<'_>, folder: &Path, files: &[PathBuf]) -> Result<Track, String> {
    let mut arrays = Vec::new();
    for path in files {
        let array = reader.file(path, &arrays).map_err(|problem| of(path, &problem))?;
        arrays.push((stem(path), array));
    }
    reader.track(folder, arrays).map_err(|problem| of(folder, &problem))
}

fn of(path: &Path, problem: &str) -> String {
    format!("'{}': {problem}", shown(path))
}

fn arrays_in(folder: &Path, notes: &mut Vec<String>) -> Result<Vec<PathBuf>, String> {
    let (arrays, others) = entries(folder)?.into_iter().partition(|path| has_ending(path, "npy"));
    let others: Vec<_> = others;
    notes.extend(others.iter().map(|path| unused(path, "it is no .npy file")));
    Ok(arrays)
}

fn unused(path: &Path, why: &str) -> String {
    format!("'{}' is not used: {why}", shown(path))
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension == ending)
}

/// What is in a folder, in the order of its names, without what is hidden.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| of(folder, &format!("the folder cannot be read: {error}"));
    let all = fs::read_dir(folder)
        .map_err(unreadable)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>();
    let is_shown = |path: &PathBuf| path.file_name().is_none_or(|name| !name.to_string_lossy().starts_with('.'));
    let mut paths: Vec<_> = all.map_err(unreadable)?.into_iter().filter(is_shown).collect();
    paths.sort();
    Ok(paths)
}
