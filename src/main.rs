//! The `sequence-stress` command.

use std::process::ExitCode;

/// Each request allocates, and another thread frees: the allocators of glibc and of musl need more time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    take_inherited_files();
    sequence_stress::commands::main()
}

/// Takes note of the files that this process inherited, where a launcher of ranks passes one on.
#[cfg(unix)]
#[expect(unsafe_code, reason = "nothing else in this process has a file so far")]
fn take_inherited_files() {
    if std::env::var_os("PMI_FD").is_some() {
        // SAFETY: this is the first thing that the process does. Where it fails, the file is missing when it is asked for.
        let _ = unsafe { command_fds::inherited::init_inherited_fds() };
    }
}

#[cfg(not(unix))]
fn take_inherited_files() {}
