//! How long steps took, in buckets that other threads read while the run goes on.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Buckets for each doubling of the time: a percentile is right within an eighth.
const STEPS: usize = 8;
/// Up to 2^26 µs, which is a minute.
const DOUBLINGS: u32 = 26;
const COUNT: usize = DOUBLINGS as usize * STEPS;

/// What one thread counts. A bucket holds 2^32 steps.
#[derive(Debug)]
pub(super) struct Buckets([AtomicU32; COUNT]);

impl Default for Buckets {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; COUNT])
    }
}

impl Buckets {
    pub(super) fn record(&self, us: u64) {
        // The thread that counts is the only one that writes.
        let bucket = &self.0[index(us)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// The bucket of a time.
fn index(us: u64) -> usize {
    let us = usize::try_from(us).unwrap_or(usize::MAX).clamp(1, (1 << DOUBLINGS) - 1);
    let doubling = us.ilog2();
    // The bits below the highest one say where between two powers of two the time lies.
    let within = ((us * STEPS) >> doubling) % STEPS;
    doubling as usize * STEPS + within
}

/// The largest time of a bucket, in µs.
fn upper_us(index: usize) -> u64 {
    let (doubling, within) = ((index + 1) / STEPS, (index + 1) % STEPS);
    (((STEPS + within) << doubling) / STEPS) as u64
}

/// How many steps took how long: all so far, or those between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies(Vec<u32>);

impl<'b> FromIterator<&'b Buckets> for Latencies {
    fn from_iter<I: IntoIterator<Item = &'b Buckets>>(threads: I) -> Self {
        let mut all = vec![0_u32; COUNT];
        for Buckets(buckets) in threads {
            for (sum, count) in all.iter_mut().zip(buckets) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
        Self(all)
    }
}

impl Latencies {
    /// Adds those of another process.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (sum, count) in self.0.iter_mut().zip(&other.0) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// Those that came since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.0.iter().chain(std::iter::repeat(&0));
        Self(self.0.iter().zip(before).map(|(now, then)| now.wrapping_sub(*then)).collect())
    }

    /// The time in µs that this share of the steps, from 0 to 1, does not pass; `None` where there are none.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    pub fn percentile_us(&self, share: f64) -> Option<u64> {
        let all: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        at.filter(|_| all > 0).map(upper_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_within_an_eighth() {
        for us in [1, 2, 3, 7, 8, 100, 999, 5_000, 123_456, 9_999_999, 60_000_000] {
            let buckets = Buckets::default();
            buckets.record(us);
            let told = [&buckets].into_iter().collect::<Latencies>().percentile_us(0.5).expect("a step");
            assert!(us <= told && told <= us + us / 8 + 1, "{us} µs: {told}");
        }
    }

    #[test]
    fn a_window_has_what_came_in_it() {
        let buckets = Buckets::default();
        let look = || [&buckets].into_iter().collect::<Latencies>();
        assert_eq!((Latencies::default().percentile_us(0.5), look().percentile_us(0.99)), (None, None));
        (0..1000).for_each(|_| buckets.record(100));
        let before = look();
        (0..99).for_each(|_| buckets.record(1_000));
        buckets.record(50_000);
        let window = look().since(&before);
        let percentiles = [0.5, 0.99, 1.0].map(|share| window.percentile_us(share).expect("steps"));
        assert!(percentiles[0] < 1200 && percentiles[1] < 1200 && percentiles[2] >= 50_000, "{percentiles:?}");
        assert!(look().percentile_us(0.5).expect("steps") < 120);
    }
}
