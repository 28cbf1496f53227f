//! `sequence-stress export`: a failure for people who do not have this tool.

use super::{Failure as CommandFailure, output::print};
use crate::{cli::ExportArgs, failure::Failure, report::write_python};

/// Prints the script, and returns the exit code.
pub(super) fn export(args: &ExportArgs) -> Result<u8, CommandFailure> {
    let failure = Failure::read(&args.file).map_err(CommandFailure::wrong_input)?;
    print(|out| write_python(&failure, out));
    Ok(0)
}
