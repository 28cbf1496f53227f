//! When and where a run was held.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When and where a run was held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// When the run began, in UTC, such as `2026-11-24T22:08:06Z`.
    pub started_at: String,
    /// The machine of the client.
    pub host: Host,
}

/// The machine of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its name; null if the system does not tell.
    pub name: Option<String>,
    /// Its operating system, such as `linux`.
    pub os: String,
    /// Its architecture, such as `x86_64`.
    pub arch: String,
    /// How many threads it runs at a time; null if the system does not tell.
    pub cpus: Option<u64>,
}

impl Origin {
    /// When the run began.
    pub(crate) fn started(&self) -> SystemTime {
        humantime::parse_rfc3339(&self.started_at).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Now, on this machine.
    pub(crate) fn here() -> Self {
        let cpus = std::thread::available_parallelism().ok().and_then(|cpus| u64::try_from(cpus.get()).ok());
        let (os, arch) = (std::env::consts::OS.to_owned(), std::env::consts::ARCH.to_owned());
        Self {
            started_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            host: Host { name: host_name(), os, arch, cpus },
        }
    }
}

#[cfg(unix)]
pub(crate) fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

#[cfg(not(unix))]
pub(crate) fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}
