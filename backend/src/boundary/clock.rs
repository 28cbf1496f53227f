//! The clock of the server's statistics, and waiting.

#![forbid(unsafe_code)]

use std::{thread, time::Duration};

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock, as the server counts them; 0, which no right time is, should there be no such clock.
pub(crate) fn now() -> u64 {
    #[cfg(test)]
    super::tests::mock::tick();
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Blocks the thread for `time`.
pub(crate) fn sleep(time: Duration) {
    #[cfg(test)]
    if super::tests::mock::sleep(time) {
        return;
    }
    thread::sleep(time);
}

/// Blocks the thread for ever.
pub(crate) fn hang() -> ! {
    #[cfg(test)]
    super::tests::mock::hangs();
    // A parked thread may wake without a reason.
    loop {
        thread::park();
    }
}
