//! Where the server's memory is read.

use std::fmt;

use super::process::{check, taken};
use workload::endpoint::Endpoint;

/// Where the server's memory is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemorySource {
    /// The resident memory of the process with this ID, on this machine, and of its descendants.
    Process(u32),
    /// A gauge of the server's metrics, in bytes; of several with one name the sum.
    Gauge(String),
}

impl MemorySource {
    /// Whether it is a process that has ended, such as a server that was restarted.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Process(pid) if taken(*pid).is_err())
    }

    /// Says in one line why it is a process that cannot be the server at these endpoints, if that is certain.
    ///
    /// # Errors
    /// When it is none: there is no such process, it is no server, or the server of another endpoint.
    pub fn check(&self, endpoints: &[Endpoint]) -> Result<(), String> {
        match self {
            Self::Process(pid) => check(*pid, endpoints),
            Self::Gauge(_) => Ok(()),
        }
    }
}

/// The flag that names it.
impl fmt::Display for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "--server-pid {pid}"),
            Self::Gauge(name) => write!(f, "--server-memory {name}"),
        }
    }
}
