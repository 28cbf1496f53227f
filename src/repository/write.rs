//! Models on disk: whole, or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

use super::{
    backend::Backend,
    model::{File, Model, VERSION},
    tensorrt::{self, Plan},
};
use crate::{arithmetic::Formula, model::Strategy};

/// A model with all that is written of it.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// Its backend.
    pub backend: Backend,
    /// What it computes.
    pub formula: Formula,
    /// How sequences are put into batches.
    pub strategy: Strategy,
    /// Its files.
    pub files: Vec<File>,
}

impl Written {
    pub(super) fn new(model: &Model<'_>, files: Vec<File>) -> Self {
        Self {
            name: model.name(),
            backend: model.backend(),
            formula: model.formula(),
            strategy: model.strategy(),
            files,
        }
    }

    /// What it is, in words.
    pub(super) fn about(&self) -> String {
        format!("{} ({})", self.backend.name(), self.formula.name())
    }

    /// The command that makes its plan, where it needs one.
    #[must_use]
    pub fn trtexec(&self) -> Option<&str> {
        let config = self.files.first().filter(|_| self.backend == Backend::Tensorrt)?;
        str::from_utf8(&config.bytes).ok()?.lines().next()?.strip_prefix("# ")
    }

    fn write(&self, repository: &Path) -> io::Result<()> {
        let folder = repository.join(&self.name);
        fs::create_dir_all(folder.join(VERSION))?;
        for file in &self.files {
            let path = folder.join(&file.name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, &file.bytes)?;
        }
        Ok(())
    }
}

/// Writes models into a folder that is not there yet, or empty; with `force` into any, where it replaces models of the same names.
/// The result says of each plan of TensorRT's that was not made why not, and how many that is.
///
/// # Errors
/// Why nothing was written, in one line.
pub fn write(folder: &Path, models: &[Written], force: bool) -> Result<Vec<String>, String> {
    let cannot = |error: io::Error| format!("cannot write the models into '{}': {error}", folder.display());
    let is_there = folder.try_exists().map_err(cannot)?;
    if is_there && !folder.is_dir() {
        return Err(format!("'{}' is a file: name a folder for the models", folder.display()));
    }
    let is_empty = !is_there || fs::read_dir(folder).map_err(cannot)?.next().is_none();
    if !is_empty && !force {
        return Err(format!(
            "'{}' exists and is not empty: name another folder, or replace models of the same names by --force",
            folder.display()
        ));
    }
    let place = Place::new(folder).map_err(cannot)?;
    models.iter().try_for_each(|model| model.write(&place.new)).map_err(cannot)?;
    let notes = make_plans(&place.new, models);
    if is_empty {
        // An empty folder is replaced by this.
        fs::rename(&place.new, folder).map_err(cannot)?;
    } else {
        models.iter().try_for_each(|model| place.replace(folder, &model.name)).map_err(cannot)?;
    }
    Ok(notes)
}

/// A folder beside the one that is wanted, where all is made before any of it shows, and which goes whatever happens.
struct Place {
    scratch: PathBuf,
    new: PathBuf,
    /// What stood where something new is.
    old: PathBuf,
}

impl Place {
    fn new(folder: &Path) -> io::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let parent = folder.parent().unwrap_or(&folder);
        fs::create_dir_all(parent)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let scratch = parent.join(format!(".{name}.{}.partial", process::id()));
        let place = Self { new: scratch.join("new"), old: scratch.join("old"), scratch };
        fs::create_dir(&place.scratch)?;
        fs::create_dir(&place.new)?;
        fs::create_dir(&place.old)?;
        Ok(place)
    }

    fn replace(&self, folder: &Path, name: &str) -> io::Result<()> {
        let place = folder.join(name);
        if place.try_exists()? {
            fs::rename(&place, self.old.join(name))?;
        }
        fs::rename(self.new.join(name), place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is told by its name.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Makes the plans of TensorRT's models, where it is there.
fn make_plans(repository: &Path, models: &[Written]) -> Vec<String> {
    let mut notes = Vec::new();
    let plans: Vec<_> = models.iter().filter_map(|model| Some((model, model.trtexec()?))).collect();
    for (model, command) in &plans {
        let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
        match tensorrt::make(&repository.join(&model.name), &words) {
            Plan::Made => {}
            Plan::NoProgram => {
                notes.push(format!(
                    "tensorrt: there is no trtexec here, so that {} {} no plan yet: run the command at the top of the config.pbtxt in each one's folder, where the GPU is",
                    plans.len(),
                    if plans.len() == 1 { "model has" } else { "models have" }
                ));
                break;
            }
            Plan::Failed(why) => notes.push(format!("tensorrt: model '{}' has no plan: {why}", model.name)),
        }
    }
    notes
}
