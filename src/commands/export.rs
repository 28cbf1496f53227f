//! `sequence-stress export`: a failure for people who do not have this tool.

use std::{io::Write as _, sync::Arc};

use super::{Failure as CommandFailure, output::write_all};
use crate::{cli::ExportArgs, failure::Failure, golden::read_file};

/// Prints the failure in the form that is asked for, and returns the exit code.
pub(super) fn export(args: &ExportArgs) -> Result<u8, CommandFailure> {
    let of_file = |problem: String| CommandFailure::wrong_input(format!("{}: {problem}", args.file.display()));
    let failure = Failure::read(&args.file).map_err(CommandFailure::wrong_input)?;
    let golden = args.golden.as_deref().map(read_file).transpose().map_err(CommandFailure::wrong_input)?.map(Arc::new);
    if let Some(problem) = golden.as_ref().and_then(|golden| failure.rejects(golden)) {
        return Err(of_file(problem));
    }
    let failure = failure.fitted().map_err(of_file)?;
    let text = args.format.text(&failure, golden.as_ref()).map_err(of_file)?;
    write_all(|out| out.write_all(text.as_bytes()))?;
    Ok(0)
}
