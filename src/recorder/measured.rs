//! What the seconds of a run have come to so far, for whoever adds up counts that only rise.

use super::{Tally, Times, series::Second};

/// Bounds of the buckets, in µs: one to each doubling up to a millisecond, two from there to a second, and one from there to two minutes.
const BOUNDS_US: [u64; BOUNDS] = [
    64,
    128,
    256,
    512,
    1_024,
    1_448,
    2_048,
    2_896,
    4_096,
    5_793,
    8_192,
    11_585,
    16_384,
    23_170,
    32_768,
    46_341,
    65_536,
    92_682,
    131_072,
    185_364,
    262_144,
    370_728,
    524_288,
    741_455,
    1_048_576,
    2_097_152,
    4_194_304,
    8_388_608,
    16_777_216,
    33_554_432,
    67_108_864,
    134_217_728,
];
const BOUNDS: usize = 32;

/// How many times are in each bucket, and their sums. The last bucket has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distribution {
    counts: [u64; BOUNDS + 1],
    sums_us: [u64; BOUNDS + 1],
}

impl Default for Distribution {
    fn default() -> Self {
        Self { counts: [0; BOUNDS + 1], sums_us: [0; BOUNDS + 1] }
    }
}

impl Distribution {
    /// Adds these times: a time lies in the first bucket whose bound it does not pass, within the accuracy of the histogram.
    pub(crate) fn add_times(&mut self, times: &Times) {
        let histogram = times.histogram();
        for recorded in histogram.iter_recorded() {
            let (us, count) = (recorded.value_iterated_to(), recorded.count_at_value());
            let place = BOUNDS_US.partition_point(|bound| *bound < us);
            self.counts[place] += count;
            let sum = &mut self.sums_us[place];
            *sum = sum.saturating_add(histogram.median_equivalent(us).saturating_mul(count));
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.sums_us.iter_mut().zip(&other.sums_us).for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
    }

    /// The upper bound of each bucket in µs, and how many times lie in it alone.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        BOUNDS_US.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times, in µs.
    pub(crate) fn sum_us(&self) -> u64 {
        self.sums_us.iter().fold(0, |all, sum| all.saturating_add(*sum))
    }

    /// What was added since an earlier look: for each bucket a time in µs that lies in it, and how many times. Together they have the sum of
    /// what was added.
    #[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "only OTLP records times again"))]
    pub(crate) fn since(&self, earlier: &Self) -> impl Iterator<Item = (u64, u64)> {
        let lower = [0].into_iter().chain(BOUNDS_US).map(|bound| bound + 1);
        let upper = BOUNDS_US.into_iter().chain([u64::MAX]);
        let counts = self.counts.into_iter().zip(earlier.counts).map(|(now, then)| now.saturating_sub(then));
        let sums = self.sums_us.into_iter().zip(earlier.sums_us).map(|(now, then)| now.saturating_sub(then));
        let each = lower.zip(upper).zip(counts.zip(sums)).filter(|(_, (count, _))| *count > 0);
        each.map(|((lower, upper), (count, sum))| ((sum / count).clamp(lower, upper), count))
    }
}

/// The bounds of the buckets, in µs.
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "the text has them with the buckets"))]
pub(crate) fn bounds_us() -> impl Iterator<Item = u64> {
    BOUNDS_US.into_iter()
}

impl From<&Times> for Distribution {
    fn from(times: &Times) -> Self {
        let mut all = Self::default();
        all.add_times(times);
        all
    }
}

/// What was measured since the run began, as of the last second that all threads have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Responses that were good.
    pub(crate) good: u64,
    pub(crate) step: Distribution,
    pub(crate) sequence: Distribution,
    pub(crate) slot_wait: Distribution,
    /// Sequences that were begun and not over at the end of the last second of which that is known, and the number of that second.
    live: Option<(u64, u64)>,
}

impl Measured {
    /// Takes in what a thread left.
    pub(crate) fn hold(&mut self, second: &Second) {
        let interval = &second.interval;
        self.good += interval.counted.good;
        for (all, packed) in [
            (&mut self.step, &interval.times.step),
            (&mut self.sequence, &interval.times.sequence),
            (&mut self.slot_wait, &interval.times.slot),
        ] {
            if !packed.is_empty() {
                all.add_times(&packed.times());
            }
        }
        if let Some(live) = interval.offered.live {
            let is_newest = self.live.is_none_or(|(number, _)| number <= second.number);
            self.live = if is_newest { Some((second.number, live)) } else { self.live };
        }
    }

    /// Adds what another run measured.
    pub(crate) fn add(&mut self, other: &Self) {
        self.good += other.good;
        self.step.add(&other.step);
        self.sequence.add(&other.sequence);
        self.slot_wait.add(&other.slot_wait);
    }

    /// The same of a run that is over: nothing lives any more.
    pub(crate) fn in_all(tally: &Tally) -> Self {
        Self {
            good: tally.good(),
            step: (&tally.step).into(),
            sequence: (&tally.waits.sequence).into(),
            slot_wait: (&tally.waits.slot).into(),
            live: None,
        }
    }

    pub(crate) fn live_sequences(&self) -> Option<u64> {
        self.live.map(|(_, live)| live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::series::{Counted, Now};

    /// A second in which steps took so many µs.
    fn second(number: u64, us: &[u64]) -> Second {
        let mut now = Now::new(&[]);
        let count = now.of(0, None).next().expect("there is one");
        count.counted = Counted { requests: 1, good: us.len() as u64, ..Counted::default() };
        for us in us {
            count.times.step.record(0, us * 1000);
        }
        Second { number, interval: now.end().expect("something").interval, parts: Vec::new() }
    }

    #[test]
    fn bounds_are_among_those_of_the_results_rows() {
        for bound in BOUNDS_US {
            #[expect(clippy::cast_precision_loss)]
            let quarters = (bound as f64).log2() * 4.0;
            assert!((quarters - quarters.round()).abs() < 1e-3, "{bound}");
        }
        assert!(BOUNDS_US.is_sorted());
    }

    #[test]
    fn a_time_lies_in_the_first_bucket_whose_bound_it_does_not_pass() {
        let mut times = Times::default();
        for us in [1, 64, 65, 1_000, 1_100, 3_000_000_000] {
            times.record(0, us * 1000);
        }
        let all = Distribution::from(&times);
        let told: Vec<_> = all.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(told, [(Some(64), 2), (Some(128), 1), (Some(1_024), 1), (Some(1_448), 1), (None, 1)]);
        assert_eq!(all.count(), 6);
        let added: Vec<_> = all.since(&Distribution::default()).collect();
        let expected = [(32, 2), (65, 1), (1_000, 1), (1_100, 1), (3_000_000_000, 1)];
        assert!(
            added.iter().zip(expected).all(|(its, (us, count))| its.1 == count && its.0.abs_diff(us) <= us / 1000 + 1)
        );
        assert_eq!((added.len(), all.since(&all).count()), (expected.len(), 0), "{added:?}");
        assert!(all.sum_us().abs_diff(3_000_002_230) < 3_000_000, "{}", all.sum_us());
    }

    #[test]
    fn seconds_come_to_what_the_whole_run_does() {
        let seconds = [second(0, &[100, 200, 5_000]), second(0, &[90_000]), second(1, &[100, 2_500_000])];
        let (mut measured, mut tally) = (Measured::default(), Tally::default());
        for second in &seconds {
            measured.hold(second);
            tally.step.add(&second.interval.times.step.times());
        }
        assert_eq!(measured, Measured::in_all(&tally));
        assert_eq!((measured.good, measured.step.count()), (6, 6));
    }

    #[test]
    fn the_newest_second_says_what_lives() {
        let mut measured = Measured::default();
        for (number, live) in [(3, Some(30)), (2, Some(20)), (4, None)] {
            let mut second = second(number, &[]);
            second.interval.offered.live = live;
            measured.hold(&second);
        }
        assert_eq!(measured.live_sequences(), Some(30));
    }
}
