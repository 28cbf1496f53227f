//! The clocks of two processes, and how far they are apart.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A time on a process's own clock, which goes evenly and begins anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(system::now_ns())
    }

    /// The moment on the clock of the standard library.
    pub(crate) fn instant(self) -> Option<Instant> {
        let (now, then) = (Instant::now(), Self::now());
        match u64::try_from(then.0 - self.0) {
            Ok(ago) => now.checked_sub(Duration::from_nanos(ago)),
            Err(_) => now.checked_add(Duration::from_nanos(self.0.abs_diff(then.0))),
        }
    }

    pub(crate) fn of(instant: Instant) -> Self {
        let (now, then) = (Instant::now(), Self::now());
        let ago = i64::try_from(now.saturating_duration_since(instant).as_nanos()).unwrap_or(i64::MAX);
        Self(then.0 - ago)
    }
}

/// Which clock it is: two processes of one machine that was not started anew meanwhile have the same.
pub(crate) fn identity() -> Option<String> {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(read.trim().to_owned()).filter(|id| !id.is_empty())
}

/// How far another process's clock is ahead of this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) ns: i64,
    /// How far off that may be.
    pub(crate) uncertainty_ns: u64,
}

impl Offset {
    /// After a question that was sent and answered at these times of this clock, and answered at that time of the other one.
    pub(crate) fn after(sent: Moment, answered: Moment, theirs: Moment) -> Self {
        let trip = answered.0.saturating_sub(sent.0).max(0);
        Self { ns: theirs.0 - (sent.0 + trip / 2), uncertainty_ns: trip.unsigned_abs().div_ceil(2) }
    }

    /// The better of two measurements.
    pub(crate) fn or(self, other: Option<Self>) -> Self {
        other.filter(|other| other.uncertainty_ns <= self.uncertainty_ns).unwrap_or(self)
    }

    /// Of a clock that is said to be the same one: exactly none, unless the measurement contradicts that.
    pub(crate) fn of_the_same_clock(self) -> Self {
        if self.ns.unsigned_abs() <= self.uncertainty_ns { Self { ns: 0, uncertainty_ns: 0 } } else { self }
    }

    /// The same moment on the other clock.
    pub(crate) fn theirs(self, ours: Moment) -> Moment {
        Moment(ours.0 + self.ns)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use nix::time::{ClockId, clock_gettime};

    /// The clock of [`std::time::Instant`], which all processes of a machine share.
    pub(super) fn now_ns() -> i64 {
        clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{sync::LazyLock, time::Instant};

    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

    pub(super) fn now_ns() -> i64 {
        i64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_question_tells_how_far_a_clock_is_ahead() {
        let offset = Offset::after(Moment(1000), Moment(1400), Moment(51_200));
        assert_eq!(offset, Offset { ns: 50_000, uncertainty_ns: 200 });
        assert_eq!(offset.theirs(Moment(2000)), Moment(52_000));
        let quicker = Offset::after(Moment(5000), Moment(5100), Moment(55_070));
        assert_eq!((offset.or(Some(quicker)), quicker.or(Some(offset)), offset.or(None)), (quicker, quicker, offset));
    }

    #[test]
    fn one_clock_has_no_offset_unless_it_is_seen_not_to_be_one() {
        let near = Offset { ns: -150, uncertainty_ns: 200 };
        assert_eq!(near.of_the_same_clock(), Offset { ns: 0, uncertainty_ns: 0 });
        let far = Offset { ns: 50_000, uncertainty_ns: 200 };
        assert_eq!(far.of_the_same_clock(), far);
    }

    #[test]
    fn a_moment_is_the_same_on_both_clocks_of_a_process() {
        let began = Instant::now();
        let again = Moment::of(began).instant().expect("it is near");
        let apart = again.max(began).duration_since(again.min(began));
        assert!(apart < Duration::from_secs(1), "{apart:?}");
    }
}
