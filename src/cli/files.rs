//! The files that a command leaves.

use std::path::{Path, PathBuf};

use clap::Args;

/// The files that a run, or the check of a history, leaves.
#[derive(Clone, Debug, Args)]
pub struct FileArgs {
    /// Write the result to FILE as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write the first violation to FILE
    ///
    /// `sequence-stress replay FILE` repeats the failure. Without a violation the tool says so and leaves FILE untouched.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub failure: Option<PathBuf>,
}

impl FileArgs {
    /// Each file that is asked for, with its flag.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [("json", &self.json), ("failure", &self.failure)];
        files.into_iter().filter_map(|(flag, file)| Some((flag, file.as_deref()?)))
    }
}
