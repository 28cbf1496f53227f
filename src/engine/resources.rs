//! What the process needs of the system.

use std::fmt;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};

use crate::scenario::{ConnectionOwner, Scenario};

/// Files that are open besides the connections: standard streams, event queues, reports, calls before and after the run.
const BESIDES: u64 = 64;

/// The system does not let the process have what the run needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceError {
    needed: u64,
    allowed: u64,
}

/// Raises the limit of open files as far as the scenario's connections need it.
///
/// # Errors
/// When the system does not allow that many.
pub(super) fn ensure_open_files(scenario: &Scenario) -> Result<(), ResourceError> {
    let workers = u64::from(scenario.load.workers.get());
    let connections = match scenario.sending.connection {
        ConnectionOwner::PerContext => workers * u64::from(scenario.contexts.count()),
        ConnectionOwner::PerWorker => workers,
    };
    let needed = connections + BESIDES;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= needed {
        return Ok(());
    }
    if hard >= needed && setrlimit(Resource::RLIMIT_NOFILE, needed, hard).is_ok() {
        return Ok(());
    }
    Err(ResourceError { needed, allowed: hard })
}

/// The CPU time that this process has used, user and system, in µs.
pub(super) fn cpu_us() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0 };
    let micros = |time: nix::sys::time::TimeVal| u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0);
    micros(usage.user_time()) + micros(usage.system_time())
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the scenario's connections need {} open files and this process may have {}: raise the limit (ulimit -Hn), set \
             sending.connection = \"per-worker\", or use fewer workers",
            self.needed, self.allowed
        )
    }
}

impl std::error::Error for ResourceError {}
