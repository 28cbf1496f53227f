//! The clock of the server's statistics.

#![forbid(unsafe_code)]

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock, as the server counts them; 0, which no right time is, should there be no such clock.
pub(crate) fn now() -> u64 {
    #[cfg(test)]
    super::mock::tick();
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
