//! The sequences of a run as lanes, from its history.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tempfile::TempDir;

use super::output::say_error;
use crate::{
    check::{Checked, check_by},
    lanes::{Accused, Lanes},
    report::{Pictured, Summary},
};
use oracle::{
    golden::Golden,
    history::{Keep, Options},
};

/// The largest history that is kept for a page alone: what the page shows has a bound, too.
const LIMIT: u64 = 256 << 20;

/// The folders of histories that go with their pages.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what is there of such histories, where the process ends at once.
pub(super) fn discard_all() {
    for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // The history may get a part meanwhile. Nothing more can be done for a folder that stays.
        let _ = (0..3).any(|_| fs::remove_dir_all(&folder).is_ok());
    }
}

/// A history that is kept as long as the page is not written.
pub(super) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// Beside the page; of a page that goes to what is no file, such as a pipe, among the system's temporary files.
    pub(super) fn beside(page: &Path) -> Result<Self, String> {
        let temporary = env::temp_dir();
        let is_file = page.is_file() || !page.exists();
        let folder = if is_file { page.parent().unwrap_or(Path::new("")) } else { &temporary };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Self::within(folder)
    }

    /// Among the system's temporary files.
    pub(super) fn temporary() -> Result<Self, String> {
        Self::within(&env::temp_dir())
    }

    fn within(folder: &Path) -> Result<Self, String> {
        let made = tempfile::Builder::new().prefix(".sequence-stress-").tempdir_in(folder);
        let folder = made.map_err(|error| {
            format!("cannot make a folder for the run's events in {}: {error}; name another folder", folder.display())
        })?;
        FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder.path().to_owned());
        Ok(Self { folder })
    }

    /// Where the history of a run is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.jsonl.zst"))
    }

    /// How it is written.
    pub(super) fn options(&self, name: &str) -> Options {
        Options { path: self.path(name), keep: Keep::DEFAULT, limit: LIMIT, part: Options::PART }
    }

    /// How all of it is written.
    pub(super) fn whole(&self, name: &str) -> Options {
        Options { keep: Keep::All, ..self.options(name) }
    }

    /// Reads who had which slot in a run that has ended; nothing of the history is left.
    pub(super) fn take(&self, name: &str, golden: Option<&Arc<Golden>>, summary: &Summary) -> Pictured {
        let pictured = pictured(&self.path(name), golden, summary.result.violations.iter().map(Accused::of));
        // The folder goes in the end; until then a suite has no more than what is under way.
        let _ = fs::remove_file(self.path(name));
        pictured
    }
}

/// Says what was wrong with a run's history. One that goes with its page is in no result.
pub(super) fn tell_problem(summary: &mut Summary, goes: bool) {
    let problem = summary.result.recorded.as_ref().and_then(|recorded| recorded.kept.problem.as_ref());
    if let Some(problem) = problem {
        say_error(problem);
    }
    if goes {
        summary.result.recorded = None;
    }
}

/// Reads who had which slot from a history; the violations are those of the result that is shown.
pub(super) fn pictured(
    history: &Path,
    golden: Option<&Arc<Golden>>,
    violations: impl IntoIterator<Item = Accused>,
) -> Pictured {
    let mut lanes = Lanes::default();
    match check_by(golden, history, &mut lanes) {
        Ok(checked) => of(lanes, &checked, violations),
        Err(damage) => Pictured { lanes: None, note: Some(format!("{}: {damage}", history.display())) },
    }
}

/// The same of a history that was read.
pub(super) fn of(lanes: Lanes, checked: &Checked, violations: impl IntoIterator<Item = Accused>) -> Pictured {
    let damage = checked.damage.as_ref().map(|damage| format!("the history is damaged or cut off: {damage}"));
    let left_out = checked.footer.as_ref().filter(|footer| footer.kept.left_out + footer.kept.lost > 0);
    let parts = left_out
        .map(|_| "the history has only parts of the run: --history FILE --history-keep all keeps all of it".to_owned());
    let lanes = lanes.conclude(violations, &checked.result.phases);
    Pictured { lanes: Some(lanes.packed()), note: damage.or(parts) }
}
