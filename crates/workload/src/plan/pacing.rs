//! When a worker starts its next pass.

use std::{num::NonZeroU64, time::Duration};

use crate::scenario::Load;

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Starts a pass.
    Go,
    /// Starts no more passes.
    Stop,
}

/// Decides from the time and the count alone when a worker has done enough.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    iterations: Option<NonZeroU64>,
    duration: Option<Duration>,
}

impl Pacer {
    /// The pacer of each worker under this load.
    #[must_use]
    pub fn new(load: &Load) -> Self {
        Self {
            iterations: load.iterations,
            duration: load.duration_s.map(|seconds| Duration::from_secs(seconds.get())),
        }
    }

    /// What to do when this much time has passed since the run began and the worker has started this many passes.
    #[must_use]
    pub fn pace(&self, elapsed: Duration, issued: u64) -> Pace {
        let enough = self.iterations.is_some_and(|most| issued >= most.get());
        let late = self.duration.is_some_and(|limit| elapsed >= limit);
        if enough || late { Pace::Stop } else { Pace::Go }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(iterations: u64, duration_s: u64) -> Pacer {
        Pacer {
            iterations: NonZeroU64::new(iterations),
            duration: NonZeroU64::new(duration_s).map(|s| Duration::from_secs(s.get())),
        }
    }

    #[test]
    fn the_count_the_time_or_whichever_comes_first_ends_a_run() {
        let (early, late) = (Duration::from_millis(9_999), Duration::from_secs(10));
        for (pacer, elapsed, issued, expected) in [
            (pacer(3, 0), late, 2, Pace::Go),
            (pacer(3, 0), early, 3, Pace::Stop),
            (pacer(0, 10), early, 1_000_000, Pace::Go),
            (pacer(0, 10), late, 0, Pace::Stop),
            (pacer(3, 10), early, 2, Pace::Go),
            (pacer(3, 10), early, 3, Pace::Stop),
            (pacer(3, 10), late, 2, Pace::Stop),
        ] {
            assert_eq!(pacer.pace(elapsed, issued), expected, "{pacer:?} after {elapsed:?} and {issued}");
        }
    }
}
