//! What a job of GitHub Actions shows of a result: a summary, and annotations.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
};

use super::output::{print, say_error};
use crate::{
    cli::SUMMARY_VARIABLE,
    reading::Written,
    report::{annotations, to_markdown},
};

/// GitHub shows no summary of a step that is larger, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Shows a result to people who look at the job, where this process is part of one. A summary that cannot be written changes nothing else.
pub(super) fn show(written: impl FnOnce() -> Written) {
    let Some(path) = env::var_os(SUMMARY_VARIABLE).filter(|path| !path.is_empty()) else { return };
    let (path, written) = (Path::new(&path), written());
    print(|out| annotations(&written).iter().try_for_each(|line| writeln!(out, "{line}")));
    if let Err(why) = append(path, &written) {
        say_error(&format!(
            "cannot add the result to the job's summary {} ({SUMMARY_VARIABLE}): {why}",
            path.display()
        ));
    }
}

/// Adds the result to what earlier commands of the step wrote.
fn append(path: &Path, written: &Written) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let there = file.metadata()?.len();
    let before = if there == 0 { "" } else { "\n" };
    // One byte less: the file has to stay below the limit.
    let room = LARGEST.saturating_sub(there + before.len() as u64 + 1);
    let text = to_markdown(written, usize::try_from(room).unwrap_or(usize::MAX));
    if text.is_empty() {
        return Err(io::Error::other(format!("it has {there} bytes, and GitHub takes 1 MiB of a step")));
    }
    file.write_all(format!("{before}{text}").as_bytes())
}
