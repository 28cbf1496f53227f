//! `sequence-stress export`: a failure for people who do not have this tool.

use super::{Failure as CommandFailure, output::write_all};
use crate::{cli::ExportArgs, failure::Failure, report::ExportFormat};
use workload::answers::Answers;

/// Prints the failure in the form that is asked for, and returns the exit code.
pub(super) fn export(args: &ExportArgs) -> Result<u8, CommandFailure> {
    let failure = Failure::read(&args.file).map_err(CommandFailure::wrong_input)?;
    if args.format == ExportFormat::Python && failure.arithmetic.answers != Answers::One {
        return Err(CommandFailure::wrong_input(format!(
            "{}: a script is not written for a model that answers or executes a request several times: replay it (sequence-stress replay)",
            args.file.display()
        )));
    }
    if args.format == ExportFormat::Python && failure.arithmetic.formula.is_golden() {
        return Err(CommandFailure::wrong_input(format!(
            "{}: a script has no place for the inputs of a model without a formula: replay it (sequence-stress replay --golden FILE)",
            args.file.display()
        )));
    }
    write_all(|out| args.format.write(&failure, out))?;
    Ok(0)
}
