//! The `sequence-stress` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sequence_stress::commands::main()
}
