//! Which lengths of which gaps are tried next.
//!
//! The first round tries a few lengths of each gap, far from each other. Each later one tries lengths between neighbours of which one is in a
//! window and the other is not, until they are close. In a round each length has a run in turn, in an order that is drawn anew each time: what
//! else changes on the machine meanwhile meets all lengths alike. The lengths that the failure has are in every round.

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::{Count, Curve, Gap, Point};
use workload::seed::Seed;

/// Neighbours at the edge of a window are close where they differ by less, in microseconds.
const CLOSE_US: u64 = 50;
/// Or by less than such a part of themselves.
const CLOSE: u64 = 50;
/// How many rounds there are at most.
const ROUNDS: u32 = 12;
/// The shortest time that lengths are chosen by, in microseconds.
const SCALE_LEAST_US: u64 = 5_000;

/// A length of a gap to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The failure as it is.
    AsRecorded,
    /// With another length of one gap.
    Changed {
        /// The gap's index.
        gap: usize,
        /// The length in microseconds.
        us: u64,
    },
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The failure.
    Failed,
    /// Another violation.
    Otherwise,
    /// Nothing.
    Passed,
}

/// A search for the windows of a failure.
pub struct Search {
    gaps: Vec<Gap>,
    /// How many runs each length gets.
    runs: u32,
    /// The lengths of each gap but those of the failure, and what they came to.
    points: Vec<BTreeMap<u64, Count>>,
    as_recorded: Count,
    /// The lengths of this round.
    round: Vec<Trial>,
    rounds: u32,
    /// How often each of them is still to be tried after those that are due.
    passes_left: u32,
    due: Vec<Trial>,
    random: ChaCha8Rng,
}

impl Search {
    /// Begins one over these gaps, with so many runs for each length. `execution_us` is how long the model takes to execute a request, where
    /// that is known: it says which lengths are worth a try.
    pub fn new(gaps: Vec<Gap>, runs: u32, execution_us: Option<f64>, seed: Seed) -> Self {
        let mut round = vec![Trial::AsRecorded];
        let mut points = Vec::new();
        for (gap, its) in gaps.iter().enumerate() {
            let lengths = lengths(its.recorded_us, execution_us);
            round.extend(lengths.iter().map(|us| Trial::Changed { gap, us: *us }));
            points.push(lengths.into_iter().map(|us| (us, Count::default())).collect());
        }
        let as_recorded = Count::default();
        let random = seed.generator(0);
        Self { gaps, runs, points, as_recorded, round, rounds: 1, passes_left: runs, due: Vec::new(), random }
    }

    /// The next trials, at most so many; they may be had at the same time. None where no more are worth it. Each has to be told before the
    /// next ones are asked for, unless it came to nothing.
    pub fn next(&mut self, most: usize) -> Vec<Trial> {
        if self.due.is_empty() && self.passes_left == 0 {
            self.begin_round();
        }
        if self.due.is_empty() && self.passes_left > 0 {
            self.passes_left -= 1;
            self.due.clone_from(&self.round);
            self.due.shuffle(&mut self.random);
        }
        self.due.split_off(self.due.len().saturating_sub(most))
    }

    /// Takes in what came of a trial.
    pub fn tell(&mut self, trial: Trial, came: Came) {
        let count = match trial {
            Trial::AsRecorded => &mut self.as_recorded,
            Trial::Changed { gap, us } => self.points[gap].entry(us).or_default(),
        };
        count.runs += 1;
        count.failed += u32::from(came == Came::Failed);
        count.otherwise += u32::from(came == Came::Otherwise);
    }

    /// Which round this is, from 1, and how many runs are left in it.
    pub fn left(&self) -> (u32, usize) {
        (self.rounds, self.due.len() + self.round.len() * self.passes_left as usize)
    }

    /// What the failure as it is came to.
    pub fn as_recorded(&self) -> Count {
        self.as_recorded
    }

    /// What all runs came to.
    pub fn all(&self) -> Count {
        self.points.iter().flat_map(BTreeMap::values).fold(self.as_recorded, |all, count| all.and(*count))
    }

    /// What is known of each gap.
    pub fn curves(&self) -> Vec<Curve> {
        // Draws of its own, so that looking changes nothing.
        let mut random = self.random.clone();
        let curve = |(gap, points): (&Gap, &BTreeMap<u64, Count>)| {
            let mut points = points.clone();
            points.insert(gap.recorded_us, self.as_recorded);
            let points = points.into_iter().map(|(us, count)| Point { us, count }).collect();
            Curve::of(gap.clone(), points, self.gaps.len(), &mut random)
        };
        self.gaps.iter().zip(&self.points).map(curve).collect()
    }

    /// Looks where it is worth it to try lengths in between.
    fn begin_round(&mut self) {
        self.round = if self.rounds < ROUNDS { self.between() } else { Vec::new() };
        if !self.round.is_empty() {
            self.round.push(Trial::AsRecorded);
            self.rounds += 1;
            self.passes_left = self.runs;
        }
    }

    fn between(&mut self) -> Vec<Trial> {
        let mut found = Vec::new();
        for (gap, curve) in self.curves().into_iter().enumerate() {
            let edges = curve.windows.iter().flat_map(|window| {
                let below = window.below_us.map(|below| (below, window.from_us));
                [below, window.above_us.map(|above| (window.until_us, above))]
            });
            let middles = edges.flatten().filter_map(|(low, high)| middle(low, high));
            found.extend(middles.map(|us| Trial::Changed { gap, us }));
        }
        found.dedup();
        found
    }
}

/// The lengths of a gap that are tried first, but that of the failure: none at all, and each four times the one before. They surround the gap's
/// own length and the time of an execution.
fn lengths(recorded_us: u64, execution_us: Option<f64>) -> Vec<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates, and is no number below 0"
    )]
    let execution = execution_us.map_or(0, |us| us as u64);
    let longest = execution.max(SCALE_LEAST_US).max(recorded_us).saturating_mul(4);
    let of_recorded = [recorded_us / 16, recorded_us / 4, recorded_us / 2, recorded_us.saturating_mul(2)];
    let mut lengths = vec![0];
    // What is close to a length that is there already says nothing new.
    let is_new = |lengths: &[u64], us: u64| {
        let is_close = |other: u64| us.max(other) < us.min(other).saturating_add(us.min(other) / 2);
        us >= CLOSE_US && !is_close(recorded_us) && !lengths.iter().any(|other| is_close(*other))
    };
    let of_execution = (0..5).map(|step| longest >> (2 * step));
    for us in of_recorded.into_iter().chain(of_execution) {
        if is_new(&lengths, us) {
            lengths.push(us);
        }
    }
    lengths.sort_unstable();
    lengths.retain(|us| *us != recorded_us);
    lengths
}

/// A length between two, unless they are close.
fn middle(low: u64, high: u64) -> Option<u64> {
    if high - low <= CLOSE_US.max(high / CLOSE) {
        return None;
    }
    // Far from each other they are halved on a logarithmic scale.
    let half = low + (high - low) / 2;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a length between two others"
    )]
    let middle = if low >= CLOSE_US && high / low > 2 { ((low as f64) * (high as f64)).sqrt() as u64 } else { half };
    Some(middle).filter(|middle| (low + 1..high).contains(middle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::gaps::tests::any_gap;

    /// Searches in gaps that fail as `fails` says.
    fn searched(gaps: Vec<Gap>, execution_us: Option<f64>, fails: impl Fn(Trial) -> bool) -> Search {
        let mut search = Search::new(gaps, 8, execution_us, Seed(3));
        loop {
            let trials = search.next(3);
            if trials.is_empty() {
                return search;
            }
            for trial in trials {
                search.tell(trial, if fails(trial) { Came::Failed } else { Came::Passed });
            }
        }
    }

    #[test]
    fn the_edges_of_a_window_are_found() {
        let gaps = vec![Gap { recorded_us: 0, ..any_gap() }, Gap { number: 2, recorded_us: 17_000, ..any_gap() }];
        let search = searched(gaps, Some(20_000.0), |trial| match trial {
            Trial::AsRecorded | Trial::Changed { gap: 0, .. } => true,
            Trial::Changed { us, .. } => (15_900..19_700).contains(&us),
        });
        let curves = search.curves();
        assert!(!curves[0].matters(), "{curves:?}");
        let [window] = curves[1].windows.as_slice() else { panic!("{curves:?}") };
        let (below, above) = (window.below_us.expect("a length"), window.above_us.expect("a length"));
        assert!(below < 15_900 && window.from_us >= 15_900 && window.from_us - below <= 400, "{window:?}");
        assert!(window.until_us < 19_700 && above >= 19_700 && above - window.until_us <= 400, "{window:?}");
        // Each length has as many runs, and the failure as it is has as many in each round.
        assert!(curves[1].points.iter().all(|point| point.count.runs % 8 == 0), "{curves:?}");
        assert!(search.as_recorded().runs > 8 && search.all().runs < 400, "{:?}", search.all());
    }

    #[test]
    fn what_never_depends_on_time_is_tried_in_one_round() {
        for fails in [true, false] {
            let search = searched(vec![any_gap()], None, |_| fails);
            assert_eq!(search.left(), (1, 0));
            assert!(!search.curves()[0].matters());
        }
    }

    #[test]
    fn trials_of_a_round_are_mixed_and_each_comes_once_in_a_pass() {
        let gaps: Vec<_> = (1..4).map(|number| Gap { number, ..any_gap() }).collect();
        let mut search = Search::new(gaps, 2, None, Seed(1));
        let (_, planned) = search.left();
        let [first, second] = [(); 2].map(|()| search.next(planned / 2));
        assert_eq!((first.len(), second.len()), (planned / 2, planned / 2));
        assert!(first != second && first.iter().all(|trial| second.contains(trial)), "{first:?} {second:?}");
    }

    #[test]
    fn lengths_surround_that_of_the_failure_and_that_of_an_execution() {
        assert_eq!(lengths(0, Some(400_000.0)), [6_250, 25_000, 100_000, 400_000, 1_600_000]);
        assert_eq!(lengths(0, None), [78, 312, 1_250, 5_000, 20_000]);
        let around = lengths(1_000, Some(20_000.0));
        assert!(around.contains(&250) && around.contains(&2_000) && around.contains(&80_000), "{around:?}");
        assert!(!around.contains(&1_000) && around.iter().filter(|us| **us == 0).count() == 1, "{around:?}");
        assert!(lengths(u64::MAX, None).len() > 2);
    }
}
