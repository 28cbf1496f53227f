//! Models on disk: whole, or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    time::SystemTime,
};

use formats::format::File;

use super::{
    backend::Backend,
    config::NO_FORMULA,
    model::{CONFIGURATION, Model, VERSION},
    tensorrt::{self, Plan},
};
use workload::{arithmetic::Formula, model::Strategy};

/// A model with all that is written of it.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// Its backend.
    pub backend: Backend,
    /// What it computes; none where that is no formula.
    pub formula: Option<Formula>,
    /// How sequences are put into batches.
    pub strategy: Strategy,
    /// How many versions it has.
    pub versions: u32,
    /// Its files.
    pub files: Vec<File>,
}

impl Written {
    pub(super) fn new(model: &Model<'_>, files: Vec<File>) -> Self {
        let versions = model.options.models.versions;
        let Model { formula, strategy, .. } = *model;
        Self { name: model.name(), backend: model.run_by(), formula, strategy, versions, files }
    }

    /// The models that a model hands its requests to.
    pub(super) fn steps(model: &Model<'_>) -> Result<Vec<Self>, String> {
        model.each_step(|step, name| {
            let files = step.files_as(name.clone())?;
            Ok(Self { name, ..Self::new(step, files) })
        })
    }

    /// What it is, in words.
    pub(super) fn about(&self) -> String {
        format!("{} ({})", self.backend.name(), self.formula_name())
    }

    /// What its configuration calls the formula.
    pub fn formula_name(&self) -> &'static str {
        self.formula.map_or(NO_FORMULA, Formula::name)
    }

    /// The command that makes its plan, where it needs one.
    pub fn trtexec(&self) -> Option<&str> {
        let config = self.files.first().filter(|_| self.backend == Backend::Tensorrt)?;
        str::from_utf8(&config.bytes).ok()?.lines().next()?.strip_prefix("# ")
    }

    fn write(&self, repository: &Path) -> io::Result<()> {
        let folder = repository.join(&self.name);
        (1..=self.versions).try_for_each(|version| fs::create_dir_all(folder.join(version.to_string())))?;
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
/// A plan stays where the file that it is made of and the command are the same as before.
///
/// # Errors
/// Why nothing was written, in one line.
pub fn write(folder: &Path, models: &[Written], force: bool) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot write the models into '{}': {error}", folder.display());
    let is_there = folder.try_exists().map_err(cannot)?;
    if !is_there && folder.is_symlink() {
        return Err(format!("'{}' is a link to nothing: name a folder for the models", folder.display()));
    }
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
    let mut there = models.iter().map(|model| folder.join(&model.name));
    if let Some(other) = there.find(|place| place.is_symlink() || place.exists() && !place.is_dir()) {
        return Err(format!("'{}' is no folder, and so no model to replace: move it away", other.display()));
    }
    let place = Staging::new(folder, is_there).map_err(cannot)?;
    models.iter().try_for_each(|model| model.write(&place.new)).map_err(cannot)?;
    if is_there { place.move_each(folder, models) } else { fs::rename(&place.new, folder) }.map_err(cannot)
}

/// A folder where all is made before any of it shows, and which goes whatever happens: within the one that is wanted, which may be on a disk
/// of its own, or beside it where it is not there yet.
struct Staging {
    scratch: PathBuf,
    new: PathBuf,
    /// What stood where something new is.
    old: PathBuf,
}

impl Staging {
    fn new(folder: &Path, is_there: bool) -> io::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let parent = if is_there { &folder } else { folder.parent().unwrap_or(&folder) };
        fs::create_dir_all(parent)?;
        // A process of the same number may have been ended here before.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let scratch = parent.join(format!(".sequence-stress.{}.{now}.partial", process::id()));
        let place = Self { new: scratch.join("new"), old: scratch.join("old"), scratch };
        fs::create_dir(&place.scratch)?;
        fs::create_dir(&place.new)?;
        fs::create_dir(&place.old)?;
        Ok(place)
    }

    /// Moves all models into the folder, or none.
    fn move_each(&self, folder: &Path, models: &[Written]) -> io::Result<()> {
        for (count, model) in models.iter().enumerate() {
            if let Err(error) = self.replace(folder, &model.name) {
                for moved in &models[..count] {
                    self.put_back(folder, &moved.name)?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn replace(&self, folder: &Path, name: &str) -> io::Result<()> {
        let place = folder.join(name);
        let is_there = place.try_exists()?;
        if is_there {
            self.keep_plan(&place, name)?;
            fs::rename(&place, self.old.join(name))?;
        }
        fs::rename(self.new.join(name), &place).inspect_err(|_| {
            if is_there {
                // What was there stays with what is told of the error.
                let _ = fs::rename(self.old.join(name), &place);
            }
        })
    }

    /// Takes a plan over that was made of the same file by the same command.
    fn keep_plan(&self, before: &Path, name: &str) -> io::Result<()> {
        let of = |folder: &Path| {
            let config = fs::read_to_string(folder.join(CONFIGURATION)).ok()?;
            let command = config.lines().next()?.strip_prefix("# ").map(str::to_owned)?;
            Some((command, fs::read(folder.join(VERSION).join("model.onnx")).ok()?))
        };
        let now = self.new.join(name);
        let plan = before.join(tensorrt::PLAN);
        if plan.is_file() && of(before).is_some() && of(before) == of(&now) {
            fs::copy(plan, now.join(tensorrt::PLAN))?;
        }
        Ok(())
    }

    fn put_back(&self, folder: &Path, name: &str) -> io::Result<()> {
        let place = folder.join(name);
        fs::rename(&place, self.new.join(name))?;
        let old = self.old.join(name);
        if old.try_exists()? { fs::rename(old, place) } else { Ok(()) }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed is told by its name.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Makes the plans of TensorRT's models that are written, where it is there; tells each that it makes, and why some are not made. Whether
/// nothing failed: that it is not there is no failure.
pub fn make_plans(repository: &Path, models: &[Written], tell: impl Fn(&str)) -> bool {
    let mut all_is_well = true;
    let has_none = |model: &&Written| !repository.join(&model.name).join(tensorrt::PLAN).is_file();
    let of_tensorrt = models.iter().filter(|model| model.backend == Backend::Tensorrt);
    let plans: Vec<_> = of_tensorrt.filter(has_none).filter_map(|model| Some((model, model.trtexec()?))).collect();
    for (model, command) in &plans {
        let words: Vec<_> = command.split(' ').collect();
        match tensorrt::make(&repository.join(&model.name), &words) {
            Ok(Plan::Made) => tell(&format!("tensorrt: made the plan of model '{}'", model.name)),
            Ok(Plan::NoProgram) => {
                tell(&format!(
                    "tensorrt: there is no trtexec here, so that {} {} no plan yet: run the command at the top of the config.pbtxt in each one's folder, where the GPU is",
                    plans.len(),
                    if plans.len() == 1 { "model has" } else { "models have" }
                ));
                break;
            }
            Err(why) => {
                all_is_well = false;
                tell(&format!("tensorrt: model '{}' has no plan: {why}", model.name));
            }
        }
    }
    all_is_well
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Family, Form, Options};

    fn written(dtype: Dtype) -> Written {
        let (form, options) = (Form::of(Family::Sequence), Options::default());
        let model = Model::new(Backend::Native, dtype, &form, &options).expect("there is one");
        Written::new(&model, model.files().expect("it has files"))
    }

    #[test]
    fn where_one_model_cannot_be_moved_all_is_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let models = [written(Dtype::Int32), written(Dtype::Int64), written(Dtype::Float32)];
        let note = |model: &Written| folder.path().join(&model.name).join("note");
        for model in [&models[1], &models[2]] {
            fs::create_dir(folder.path().join(&model.name)).expect("it is made");
            fs::write(note(model), "of before").expect("it is written");
        }
        let place = Staging::new(folder.path(), true).expect("it is made");
        for model in &models[..2] {
            model.write(&place.new).expect("it is written");
        }
        place.move_each(folder.path(), &models).expect_err("the last one was never written");
        for model in [&models[1], &models[2]] {
            assert_eq!(fs::read_to_string(note(model)).expect("it is there"), "of before", "{}", model.name);
        }
        drop(place);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "the first is gone again");
    }
}
