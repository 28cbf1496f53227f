//! The `sequence-stress` command.

use std::process::ExitCode;

/// Each request allocates, and another thread frees: the allocators of glibc and of musl need more time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sequence_stress::commands::main()
}
