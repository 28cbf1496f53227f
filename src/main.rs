//! The `sequence-stress` command.

use std::process::ExitCode;

/// musl's own allocator is slow where several threads allocate.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sequence_stress::commands::main()
}
