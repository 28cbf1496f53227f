//! Where output goes: results and violations to standard output, the rest to standard error. Colours only where a terminal
//! shows them and `NO_COLOR` does not forbid them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Says on standard error what went wrong.
pub(super) fn say_error(problem: &str) {
    // Nothing can be done where nobody reads it.
    let _ = writeln!(anstream::stderr(), "sequence-stress: {problem}");
}

/// Writes to standard output.
pub(super) fn print(write: impl FnOnce(&mut anstream::AutoStream<io::Stdout>) -> io::Result<()>) {
    let mut out = anstream::stdout();
    // Where nobody reads it any more the exit code still tells.
    let _ = write(&mut out).and_then(|()| out.flush());
}

/// A file for the result, opened before the run so that what is wrong with it shows in time. What it held before stays until
/// the result is written; a file that was made for it goes again where there is no result.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
    file: File,
    remove: bool,
}

impl ResultFile {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let is_new = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| format!("cannot write the result to {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, remove: is_new })
    }

    pub(super) fn write(mut self, bytes: &[u8]) -> Result<(), String> {
        self.remove = false;
        // A pipe or a device has no length to be set.
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        emptied
            .and_then(|()| self.file.write_all(bytes))
            .map_err(|error| format!("cannot write the result to {}: {error}", self.path.display()))
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if self.remove {
            // It is empty; that it stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}
