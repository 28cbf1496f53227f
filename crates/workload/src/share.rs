//! Which part of a scenario falls to one of several processes that carry it out together.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::scenario::{Population, Scenario};

/// The workers, and the iterations of a rate, that fall to one process: each `of`-th, from the `rank`-th on. The plan of a worker does not
/// depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The process's number, from 0.
    pub rank: u32,
    /// How many processes there are.
    pub of: NonZeroU32,
}

impl Share {
    /// That of a process that is alone.
    pub const WHOLE: Self = Self { rank: 0, of: NonZeroU32::MIN };

    /// Whether there are other processes.
    pub fn is_one_of_several(self) -> bool {
        self.of > NonZeroU32::MIN
    }

    /// The process that has a worker.
    pub fn rank_of(self, worker: u32) -> u32 {
        worker % self.of
    }

    /// Whether a worker is this process's.
    pub fn has(self, worker: u32) -> bool {
        self.rank_of(worker) == self.rank
    }

    /// A worker's place among those of its process, from 0.
    pub fn place_of(self, worker: u32) -> u32 {
        worker / self.of
    }

    /// The next worker of the same process, in a circle.
    pub fn next_to(self, worker: u32, workers: u32) -> u32 {
        worker.checked_add(self.of.get()).filter(|next| *next < workers).unwrap_or(self.rank_of(worker))
    }

    /// How many of a scenario's workers are this process's.
    pub fn workers(self, scenario: &Scenario) -> u32 {
        self.below(scenario.workers())
    }

    /// How many workers of each of a scenario's populations are this process's.
    pub fn of_populations(self, scenario: &Scenario) -> impl Iterator<Item = (&Population, u32)> {
        let mut first = 0;
        scenario.populations.iter().map(move |population| {
            let behind = first + population.load.workers.get();
            let its = self.below(behind) - self.below(first);
            first = behind;
            (population, its)
        })
    }

    /// How many of the workers before this one are this process's.
    fn below(self, worker: u32) -> u32 {
        worker / self.of + u32::from(worker % self.of > self.rank)
    }
}

/// How many correlation IDs an attempt leaves free behind those of its workers: for the tool's own sequences.
const BEHIND: u64 = 10_000;

/// How far the correlation IDs of two attempts are apart, whatever their load, unless that has more.
const APART: u64 = 1_000_000;

/// The first and the last correlation ID that is reserved for a run of this scenario.
pub fn reserved(scenario: &Scenario) -> [u64; 2] {
    let first = scenario.correlation_ids.first.get();
    [first, first.saturating_add(span(scenario) - 1)]
}

/// The same scenario on the correlation IDs of another attempt, which no earlier attempt had. None where there are not so many.
pub fn of_attempt(mut scenario: Scenario, attempt: u32) -> Option<Scenario> {
    let ahead = span(&scenario).max(APART).checked_mul(attempt.into())?;
    let ids = &mut scenario.correlation_ids;
    ids.first = ids.first.checked_add(ahead)?;
    let [_, last] = reserved(&scenario);
    (last < u64::MAX).then_some(scenario)
}

/// How many correlation IDs an attempt has.
fn span(scenario: &Scenario) -> u64 {
    let block = u64::from(scenario.correlation_ids.block.get());
    (u64::from(scenario.workers()) * block).saturating_add(BEHIND)
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Overrides, Source};

    fn of(ranks: u32) -> Vec<Share> {
        let of = NonZeroU32::new(ranks).expect("not zero");
        (0..ranks).map(|rank| Share { rank, of }).collect()
    }

    #[test]
    fn each_worker_is_one_processs() {
        for (ranks, workers) in [(1, 8), (3, 8), (4, 8), (8, 8), (5, 64)] {
            for worker in 0..workers {
                let its: Vec<_> = of(ranks).into_iter().filter(|share| share.has(worker)).collect();
                assert_eq!(its.len(), 1, "{worker} of {workers}, {ranks} ranks");
                let before = (0..worker).filter(|other| its[0].has(*other)).count();
                assert_eq!(its[0].place_of(worker) as usize, before);
            }
            let all: u32 = of(ranks).iter().map(|share| share.below(workers)).sum();
            assert_eq!(all, workers);
        }
    }

    #[test]
    fn the_next_worker_of_the_last_one_is_the_first_one_of_its_process() {
        let [_, second, _] = of(3)[..] else { panic!("three") };
        let circle: Vec<_> =
            std::iter::successors(Some(1), |worker| Some(second.next_to(*worker, 8))).take(5).collect();
        assert_eq!(circle, [1, 4, 7, 1, 4]);
        assert_eq!(Share::WHOLE.next_to(7, 8), 0);
        assert_eq!(of(9)[8].next_to(8, 9), 8);
    }

    #[test]
    fn no_two_attempts_have_a_correlation_id_in_common() {
        let text = "load.workers = 3\ncorrelation_ids = { first = 5, block = 10 }";
        let scenario = Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default()).expect("a scenario");
        assert_eq!(reserved(&scenario), [5, 10_034]);
        let second = of_attempt(scenario.clone(), 1).expect("there is room");
        assert_eq!(reserved(&second), [1_000_005, 1_010_034]);
        let mut last = scenario;
        last.correlation_ids.first = (u64::MAX - 1_005_000).try_into().expect("not zero");
        assert!(of_attempt(last.clone(), 0).is_some() && of_attempt(last, 1).is_none());
    }

    #[test]
    fn a_part_of_each_population_falls_to_each_process() {
        let text = "[[population]]\nname = 'a'\nload.workers = 5\n[[population]]\nname = 'b'\nload.workers = 2\n";
        let scenario = Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default()).expect("a scenario");
        let parts = |share: Share| share.of_populations(&scenario).map(|(_, workers)| workers).collect::<Vec<_>>();
        assert_eq!(of(3).into_iter().map(parts).collect::<Vec<_>>(), [vec![2, 1], vec![2, 0], vec![1, 1]]);
        assert_eq!(of(3).iter().map(|share| share.workers(&scenario)).collect::<Vec<_>>(), [3, 2, 2]);
    }
}
