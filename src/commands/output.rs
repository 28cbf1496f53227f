//! Where output goes: results and violations to standard output, the rest to standard error. Colours only where a terminal
//! shows them and `NO_COLOR` does not forbid them.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal as _, Write},
    path::{self, Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use super::{Failure as CommandFailure, WRONG_INPUT};
use crate::{
    cli::FileArgs,
    failure::{Facts, Failure, Run},
    report::{Format, Pictured, Summary, Verdict, describe},
};
use oracle::history::Spool;
use reference::{Planted, ServerSetup, When};
use workload::{whole_file::write_whole, wording::wrapped};

/// Says on standard error what went wrong.
pub(super) fn say_error(problem: &str) {
    // Nothing can be done where nobody reads it.
    let _ = writeln!(anstream::stderr(), "sequence-stress: {problem}");
}

/// Says that a run waits for responses, for so long at most.
pub(super) fn say_interrupted(drain: Duration) {
    say_error(&format!(
        "interrupted: waiting up to {drain:?} for responses to requests already sent; interrupt again to end at once"
    ));
}

/// Writes to standard output.
pub(super) fn print(write: impl FnOnce(&mut anstream::AutoStream<io::Stdout>) -> io::Result<()>) {
    let mut out = anstream::stdout();
    // Where nobody reads it any more the exit code still tells.
    let _ = write(&mut out).and_then(|()| out.flush());
}

/// Writes to standard error.
pub(super) fn print_beside(write: impl FnOnce(&mut anstream::AutoStream<io::Stderr>) -> io::Result<()>) {
    let mut out = anstream::stderr();
    // Nothing can be done where nobody reads it.
    let _ = write(&mut out).and_then(|()| out.flush());
}

/// The columns that a list has on a terminal.
const COLUMNS: usize = 80;

/// Writes a list to standard output: a label of some width, and what it is. On a terminal a text that is wide goes on below itself; a file or
/// a pipe gets a line for each entry, as `grep` and `awk` like it.
pub(super) fn print_list(entries: impl IntoIterator<Item = (String, String)>) {
    let columns = io::stdout().is_terminal().then_some(COLUMNS);
    print(|out| entries.into_iter().try_for_each(|(label, text)| writeln!(out, "{}", entry(&label, &text, columns))));
}

fn entry(label: &str, text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return format!("{label}{text}") };
    let indent = label.chars().count();
    let below = format!("\n{:indent$}", "");
    format!("{label}{}", wrapped(text, columns.saturating_sub(indent)).join(&below))
}

/// Writes to standard output what is the whole point of a command.
///
/// # Errors
/// When it cannot be written. That nobody reads on is none.
pub(super) fn write_all(
    write: impl FnOnce(&mut anstream::AutoStream<io::Stdout>) -> io::Result<()>,
) -> Result<(), CommandFailure> {
    let mut out = anstream::stdout();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandFailure::wrong_input(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A file for what a command leaves. What is wrong with it shows before the run; what it held stays until it is written, and a
/// file that is not there yet is not made before.
#[derive(Debug)]
pub(super) struct ResultFile {
    path: PathBuf,
    /// What it is for, as messages have it.
    what: &'static str,
    /// Whether it has a checkpoint of this run.
    has_checkpoint: AtomicBool,
}

impl ResultFile {
    /// Makes sure that the file that a flag names can be written.
    pub(super) fn check(flag: &str, what: &'static str, path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Err(format!("--{flag} needs a file: '-' is not standard output here; /dev/stdout is"));
        }
        check_writable(path).map_err(|error| not_writable(flag, what, path, &error))?;
        Ok(Self { path: path.to_owned(), what, has_checkpoint: AtomicBool::new(false) })
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), String> {
        self.write_by(|file| file.write_all(bytes))
    }

    /// Writes what is too large to be in memory once more.
    pub(super) fn write_by(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
        write_whole(&self.path, write).map_err(|error| {
            let stale =
                if self.path.is_file() { format!("; the file that is there {}", self.old()) } else { String::new() };
            format!("{}{stale}", cannot_write(self.what, &self.path, &error))
        })
    }

    /// Writes what the next content takes the place of. What is no file, such as a pipe, would have both.
    fn write_checkpoint(&self, bytes: &[u8]) -> Result<(), String> {
        if self.path.exists() && !self.path.is_file() {
            return Ok(());
        }
        self.write(bytes)?;
        self.has_checkpoint.store(true, Relaxed);
        Ok(())
    }

    /// What a file is that is there although it was not written.
    fn old(&self) -> &'static str {
        if self.has_checkpoint.load(Relaxed) { "has the last checkpoint" } else { "is from before" }
    }

    /// Says why the file is not written, and that one of its name is not of this run.
    fn leave(&self, why: &str) {
        let path = self.path.display();
        let stale = if self.path.exists() { format!("; the one that is there {}", self.old()) } else { String::new() };
        say_error(&format!("{why}: {path} is not written{stale}"));
    }
}

/// The files that a run leaves, where they are asked for.
#[derive(Debug, Default)]
pub(super) struct Files {
    results: Vec<(Format, ResultFile)>,
    failure: Option<ResultFile>,
}

impl Files {
    /// Makes sure that each of these files can be written.
    pub(super) fn check(args: &FileArgs) -> Result<Self, String> {
        let result =
            |(format, path): &(Format, PathBuf)| Ok((*format, ResultFile::check(format.name(), "the result", path)?));
        let results = args.results.0.iter().map(result).collect::<Result<_, String>>()?;
        let failure = args.failure.as_deref().map(|path| ResultFile::check("failure", "the failure", path));
        Ok(Self { results, failure: failure.transpose()? })
    }

    /// Whether a result is to be written.
    pub(super) fn have_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// Where a page with the run's slots is to be written.
    pub(super) fn page(&self) -> Option<&Path> {
        self.results.iter().find(|(format, _)| *format == Format::Html).map(|(_, file)| file.path.as_path())
    }

    /// Writes what the run has shown so far where the result will be.
    pub(super) fn write_checkpoint(&self, so_far: &Summary) -> Result<(), String> {
        let note = "this is a checkpoint: who had which slot is in the page of the whole run, or of its history";
        let pictured = Pictured { lanes: None, note: Some(note.to_owned()) };
        let written = self.results.iter().map(|(format, file)| file.write_checkpoint(&format.of(so_far, &pictured)));
        let problems: Vec<_> = written.filter_map(Result::err).collect();
        let goes_on = "the run goes on, and a killed run leaves no newer result";
        if problems.is_empty() { Ok(()) } else { Err(format!("{}: {goes_on}", problems.join("; "))) }
    }

    /// Says of each of them that is there that it is of an earlier run, or a checkpoint of this one.
    pub(super) fn leave(&self) {
        let files = self.results.iter().map(|(_, file)| file).chain(&self.failure);
        files.filter(|file| file.path.exists()).for_each(|file| file.leave("nothing was tested"));
    }

    /// Says of the failure file that there is no failure.
    pub(super) fn leave_failure(&self) {
        self.failure.iter().for_each(|file| file.leave("no violation was found"));
    }

    /// Writes them, and returns the exit code. What was found counts for more than a file that cannot be written. `embedded` is how the
    /// reference server was.
    pub(super) fn write(
        &self,
        summary: &Summary,
        pictured: &Pictured,
        embedded: Option<&ServerSetup>,
        quiet: bool,
    ) -> u8 {
        let write = |(format, file): &(Format, ResultFile)| file.write(&format.of(summary, pictured));
        let results: Vec<_> = self.results.iter().map(write).collect();
        let failure = self.failure.as_ref().map(|file| write_failure(summary, embedded, file, quiet));
        let mut exit_code = summary.exit_code();
        for problem in results.into_iter().chain(failure).filter_map(Result::err) {
            say_error(&problem);
            exit_code = if summary.verdict() == Verdict::Invalid { exit_code } else { WRONG_INPUT };
        }
        exit_code
    }
}

/// Makes sure that no two flags name the same file.
pub(super) fn check_different<'f>(files: impl Iterator<Item = (&'static str, &'f Path)>) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for (flag, file) in files {
        let file = path::absolute(file).map_err(|error| cannot_write(&format!("--{flag}"), file, &error))?;
        if let Some(other) = seen.insert(file, flag) {
            return Err(format!("--{other} and --{flag} name the same file"));
        }
    }
    Ok(())
}

/// Makes sure that a history can be written, as [`ResultFile::check`] does for a result.
pub(super) fn check_history_file(path: &Path) -> Result<(), String> {
    if path == Path::new("-") {
        return Err("--history needs a file: it is put together of parts that are written beside it".to_owned());
    }
    check_writable(path).map_err(|error| not_writable("history", "the history", path, &error))?;
    Spool::check(path)
}

fn check_writable(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    // What was made, where the path is a link: the link was there before.
    if is_new { fs::remove_file(fs::canonicalize(path)?) } else { Ok(()) }
}

/// The same before anything is done, with what to do next.
fn not_writable(flag: &str, what: &str, path: &Path, error: &io::Error) -> String {
    let next = if error.kind() == io::ErrorKind::NotFound { "make its folder first, or name" } else { "name" };
    format!("{}; {next} another file (--{flag})", cannot_write(what, path, error))
}

fn cannot_write(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot write {what} to {}: {error}", path.display())
}

/// Writes the first violation as a failure that can be had again, or says why not.
fn write_failure(
    summary: &Summary,
    embedded: Option<&ServerSetup>,
    file: &ResultFile,
    quiet: bool,
) -> Result<(), String> {
    let Summary { scenario, seed, result, .. } = summary;
    let Some(violation) = result.violations.first() else {
        file.leave("no violation");
        return Ok(());
    };
    let run = Run {
        scenario,
        seed: *seed,
        manner: result.preflight.manner(),
        arithmetic: result.preflight.model.arithmetic,
        scene: &result.scene,
        embedded,
        inputs: result.preflight.model.tensors.as_ref().map(|tensors| &tensors.sent),
    };
    let Some(failure) = Failure::found(violation, describe(violation), &run) else {
        file.leave("it is not known what had been sent before the violation");
        return Ok(());
    };
    let failure = Failure { facts: Facts::of(&result.preflight), ..failure };
    let path = file.path.display().to_string();
    file.write(failure.to_text().as_bytes())?;
    if !quiet {
        // Whoever judged by a golden file knows its name.
        let golden = if result.preflight.golden.is_some() { " --golden FILE" } else { "" };
        // With a replay, chances come in another order.
        let is_by_chance = |planted: &&Planted| matches!(planted.when, When::Probability(share) if share < 1.0);
        let by_chance = embedded.and_then(|setup| setup.fault.iter().find(is_by_chance));
        let by_chance = by_chance.map_or_else(String::new, |planted| {
            format!(
                "; {planted} happens by chance, so a replay may not meet it: to repeat the run, use its replay line"
            )
        });
        say_error(&format!(
            "the first violation is in {path}; repeat it: sequence-stress replay {path}{golden}{by_chance}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_on_below_itself_on_a_terminal_alone() {
        assert_eq!(entry("name  ", "what it is and does", Some(16)), "name  what it is\n      and does");
        assert_eq!(entry("name  ", "what it is and does", None), "name  what it is and does");
    }
}
