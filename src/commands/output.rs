//! Where output goes: results and violations to standard output, the rest to standard error. Colours only where a terminal
//! shows them and `NO_COLOR` does not forbid them.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::Failure as CommandFailure;
use crate::{
    failure::{Failure, Run},
    history::Spool,
    report::Summary,
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

/// A file for the result. What is wrong with it shows before the run; what it held stays until the result is written, and a
/// file that is not there yet is not made before.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
}

impl ResultFile {
    /// Makes sure that the file can be written.
    pub(super) fn check(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Err("--json needs a file: '-' is not standard output here; /dev/stdout is".to_owned());
        }
        check_writable(path).map_err(|error| problem(path, &error))?;
        Ok(Self { path: path.to_owned() })
    }

    pub(super) fn write(self, bytes: &[u8]) -> Result<(), String> {
        fs::write(&self.path, bytes).map_err(|error| problem(&self.path, &error))
    }
}

/// Makes sure that a history can be written, as [`ResultFile::check`] does for a result.
pub(super) fn check_history_file(path: &Path) -> Result<(), String> {
    if path == Path::new("-") {
        return Err("--history needs a file: it is put together of parts that are written beside it".to_owned());
    }
    check_writable(path).map_err(|error| format!("cannot write the history to {}: {error}", path.display()))?;
    Spool::check(path)
}

fn check_writable(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    open.and_then(|_| if is_new { fs::remove_file(path) } else { Ok(()) })
}

fn problem(path: &Path, error: &io::Error) -> String {
    format!("cannot write the result to {}: {error}", path.display())
}

/// Writes the first violation as a failure that can be had again, if there is one. `embedded` is how the reference server was.
pub(super) fn write_failure(
    summary: &Summary,
    embedded: Option<&[String]>,
    file: ResultFile,
) -> Result<(), CommandFailure> {
    let Summary { scenario, seed, result, .. } = summary;
    let Some(violation) = result.violations.first() else { return Ok(()) };
    let run = Run { scenario, seed: *seed, manner: result.preflight.manner(scenario), scene: &result.scene, embedded };
    let Some(failure) = Failure::found(violation, &run) else {
        say_error("no failure file was written: it is not known what had been sent");
        return Ok(());
    };
    file.write(failure.to_text().as_bytes()).map_err(CommandFailure::wrong_input)
}
