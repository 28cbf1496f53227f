//! The clock by which events are timed.

use std::{sync::OnceLock, time::Duration};

use tokio::time::Instant;

use workload::event::Nanos;

/// Counts from when the first request could go out; until then it stands at zero.
#[derive(Debug, Default)]
pub(crate) struct Clock(OnceLock<Instant>);

impl Clock {
    /// One that counts from now.
    pub(super) fn started() -> Self {
        Self(Instant::now().into())
    }

    pub(crate) fn start(&self) {
        self.0.get_or_init(Instant::now);
    }

    pub(crate) fn has_started(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(crate) fn now(&self) -> Nanos {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
