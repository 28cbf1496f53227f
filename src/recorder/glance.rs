//! What somebody sees who looks at a run a few times a second: little, so that it costs little.

use std::collections::BTreeMap;

use super::{
    Counts, Tally, Times,
    series::{Counted, SECOND, Second},
    snapshots::Part,
};
use workload::{event::Nanos, sequence::Pattern};

/// After so long no thread leaves a second any more that is over, unless it was kept from running.
const LEFT_WITHIN: Nanos = 500_000_000;
/// The most seconds that are told at a time.
const SECONDS_MAX: u64 = 600;

/// What was counted of each pattern, in the order of [`Pattern::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternCounts {
    /// What was sent, and what became of it.
    pub counts: Counts,
    /// Violations that the threads of the run saw.
    pub violations: u64,
}

/// The same, of all patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(pub Vec<PatternCounts>);

impl Patterns {
    /// Those of a tally.
    pub(crate) fn of(tally: &Tally) -> Self {
        let both = tally.patterns.iter().zip(&tally.wrong);
        Self(both.map(|(counts, violations)| PatternCounts { counts: *counts, violations: *violations }).collect())
    }

    /// Adds what another run counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.merge(other);
    }

    /// The counts of all patterns together.
    pub(crate) fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.0.iter().for_each(|its| total.add(&its.counts));
        total
    }

    /// Each pattern that was sent, in the order of the table.
    pub fn sent(&self) -> impl Iterator<Item = (Pattern, PatternCounts)> {
        let all = Pattern::ALL.iter().copied().zip(self.0.iter().copied());
        all.filter(|(_, its)| its.counts.requests > 0)
    }
}

impl Part for Patterns {
    fn merge(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), PatternCounts::default());
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.counts.add(&theirs.counts);
            mine.violations += theirs.violations;
        }
    }
}

/// A second of a run that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PastSecond {
    /// How many seconds of the run are before it.
    pub number: u64,
    /// Responses that came in it.
    pub responses: u64,
    /// Of these, good ones.
    pub good: u64,
    /// p50 and p99 of the steps that were answered in it, in µs; none where none was.
    pub step_us: Option<[u64; 2]>,
}

/// Puts the seconds of all threads together.
#[derive(Clone, Debug, Default)]
pub(crate) struct PastSeconds {
    /// The number of the first second that was not told.
    next: u64,
    held: BTreeMap<u64, (Counted, Option<Box<Times>>)>,
}

impl PastSeconds {
    /// Takes in what a thread left. What comes too late is left out.
    pub(crate) fn hold(&mut self, second: &Second) {
        if second.number < self.next {
            return;
        }
        let (counted, times) = self.held.entry(second.number).or_default();
        counted.add(&second.interval.counted);
        let step = &second.interval.times.step;
        if !step.is_empty() {
            times.get_or_insert_default().add(&step.times());
        }
    }

    /// The seconds that are over by now and were not told before, without gaps.
    pub(crate) fn over(&mut self, now: Nanos) -> Vec<PastSecond> {
        let end = now.saturating_sub(LEFT_WITHIN) / SECOND;
        // Whoever slept for long is told the last ones.
        self.next = self.next.max(end.saturating_sub(SECONDS_MAX));
        self.held = self.held.split_off(&self.next);
        let mut told = Vec::new();
        while self.next < end {
            let (Counted { responses, good, .. }, times) = self.held.remove(&self.next).unwrap_or_default();
            let step_us = times.map(|times| [0.5, 0.99].map(|quantile| times.at_quantile_us(quantile)));
            told.push(PastSecond { number: self.next, responses, good, step_us });
            self.next += 1;
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::{Interval, series::Now};

    fn second(number: u64, ms: &[u64], good: u64) -> Second {
        let mut now = Now::new(&[]);
        let count = now.of(0, None).next().expect("there is one");
        count.counted = Counted { responses: ms.len() as u64, good, ..Counted::default() };
        for ms in ms {
            count.times.step.record(0, ms * 1_000_000);
        }
        let interval = now.end().map_or_else(Interval::default, |second| second.interval);
        Second { number, interval, parts: Vec::new() }
    }

    #[test]
    fn a_second_is_told_once_when_all_threads_have_left_it() {
        let mut past = PastSeconds::default();
        past.hold(&second(0, &[1, 2, 3], 3));
        past.hold(&second(0, &[100], 0));
        past.hold(&second(2, &[5], 1));
        assert_eq!(past.over(1_400_000_000), []);
        let told = past.over(1_500_000_000);
        let [PastSecond { number: 0, responses: 4, good: 3, step_us: Some([p50, p99]) }] = told[..] else {
            panic!("{told:?}")
        };
        assert!((2000..2010).contains(&p50) && (99_900..100_200).contains(&p99), "{p50} {p99}");
        past.hold(&second(0, &[7], 1));
        let told: Vec<_> = past.over(3_500_000_000).iter().map(|its| (its.number, its.responses)).collect();
        assert_eq!(told, [(1, 0), (2, 1)], "a second in which nothing happened is one, too");
    }

    #[test]
    fn no_more_seconds_are_told_than_a_screen_has_room_for() {
        let mut past = PastSeconds::default();
        past.hold(&second(0, &[1], 1));
        let told = past.over(5000 * SECOND);
        assert_eq!((told.len() as u64, told[0].number, told[599].number), (SECONDS_MAX, 4399, 4998));
        assert!(past.held.is_empty());
    }

    #[test]
    fn patterns_of_several_threads_are_added() {
        let mut tally = Tally::default();
        tally.patterns[Pattern::NoEnd.index()].requests = 3;
        tally.wrong[Pattern::NoEnd.index()] = 1;
        let mut all = Patterns::default();
        all.merge(&Patterns::of(&tally));
        all.merge(&Patterns::of(&tally));
        let sent: Vec<_> = all.sent().map(|(pattern, its)| (pattern, its.counts.requests, its.violations)).collect();
        assert_eq!(sent, [(Pattern::NoEnd, 6, 2)]);
    }
}
