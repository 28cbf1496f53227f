use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;

/// How many simulated comparisons decide.
const TRIALS: u64 = 200;
/// Of these, at most one in twenty may be wrong.
const WRONG_MAX: usize = 10;

/// Values of a normal distribution with mean 0 and variance 1.
struct Noise(ChaCha8Rng);

impl Noise {
    fn of(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn next(&mut self) -> f64 {
        let [one, other]: [f64; 2] = [self.0.random(), self.0.random()];
        (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// Seconds around a mean that vary by a tenth of it, and of which each is like the one before by so much.
    fn seconds(&mut self, mean: f64, alike: f64, count: usize) -> Vec<f64> {
        let (mut last, rest) = (self.next(), (1.0 - alike * alike).sqrt());
        let values = (0..count).map(|_| {
            last = alike * last + rest * self.next();
            mean * (1.0 + 0.1 * last)
        });
        values.collect()
    }
}

/// Whether a latency is certainly worse, and by 5 % or more.
fn is_worse(estimate: Result<Estimate, Silent>) -> bool {
    estimate.is_ok_and(|its| its.p < 1.0 - CONFIDENCE && its.ratio >= 1.05)
}

fn worse_of(trial: impl Fn(&mut Noise) -> Result<Estimate, Silent>) -> usize {
    (0..TRIALS).filter(|seed| is_worse(trial(&mut Noise::of(*seed)))).count()
}

#[test]
fn seconds_that_are_alike_are_no_regression() {
    for (alike, count) in [(0.0, 28), (0.3, 58), (0.5, 58), (0.5, 118), (0.7, 118), (0.9, 298)] {
        let worse =
            worse_of(|noise| of_seconds(&noise.seconds(50.0, alike, count), &noise.seconds(50.0, alike, count)));
        assert!(worse <= WRONG_MAX, "{worse} of {TRIALS} for {count} seconds with {alike}");
    }
}

#[test]
fn without_blocks_seconds_that_are_alike_would_be_taken_for_a_regression() {
    let both = |noise: &mut Noise| [noise.seconds(50.0, 0.9, 118), noise.seconds(50.0, 0.9, 118)];
    let alone = worse_of(|noise| {
        let [old, new] = both(noise);
        independent(&old, &new)
    });
    let in_blocks = worse_of(|noise| {
        let [old, new] = both(noise);
        of_seconds(&old, &new)
    });
    assert!(alone > 3 * WRONG_MAX && in_blocks <= WRONG_MAX, "{alone} {in_blocks}");
}

#[test]
fn a_fifth_more_is_found() {
    for (alike, count) in [(0.0, 28), (0.3, 58), (0.5, 118)] {
        let worse =
            worse_of(|noise| of_seconds(&noise.seconds(50.0, alike, count), &noise.seconds(60.0, alike, count)));
        assert!(worse >= 200 - WRONG_MAX, "{worse} of {TRIALS} for {count} seconds with {alike}");
    }
}

#[test]
fn rounds_cancel_what_slows_both_runs() {
    // Rounds differ by half, and the runs of a round by a few percent.
    let pairs = |noise: &mut Noise, factor: f64| {
        let pair = |_| {
            let round = 50.0 * (0.5 * noise.next()).exp();
            let mut run = |mean: f64| mean * (0.04 * noise.next()).exp();
            (run(round), run(round * factor))
        };
        (0..5).map(pair).collect::<Vec<_>>()
    };
    let found = worse_of(|noise| of_pairs(&pairs(noise, 1.2)));
    let unpaired = worse_of(|noise| {
        let (old, new): (Vec<_>, Vec<_>) = pairs(noise, 1.2).into_iter().unzip();
        of_runs(&old, &new)
    });
    let false_alarms = worse_of(|noise| of_pairs(&pairs(noise, 1.0)));
    assert!(found >= 200 - WRONG_MAX && false_alarms <= WRONG_MAX, "{found} {false_alarms}");
    assert!(unpaired < 50, "{unpaired}: without pairs the rounds hide it");
}

#[test]
fn independent_runs_are_compared_too() {
    let runs = |noise: &mut Noise, mean: f64| (0..5).map(|_| mean * (0.05 * noise.next()).exp()).collect::<Vec<_>>();
    let found = worse_of(|noise| of_runs(&runs(noise, 50.0), &runs(noise, 60.0)));
    let false_alarms = worse_of(|noise| of_runs(&runs(noise, 50.0), &runs(noise, 50.0)));
    assert!(found >= 190 && false_alarms <= WRONG_MAX, "{found} {false_alarms}");
}

#[test]
fn intervals_have_the_true_ratio_in_them() {
    let covers = |seed: &u64| {
        let mut noise = Noise::of(*seed);
        let its = of_seconds(&noise.seconds(50.0, 0.3, 118), &noise.seconds(55.0, 0.3, 118)).expect("enough");
        its.low <= 1.1 && 1.1 <= its.high
    };
    let covered = (0..TRIALS).filter(covers).count();
    assert!((180..=198).contains(&covered), "{covered} of {TRIALS}");
}

#[test]
fn blocks_are_as_long_as_seconds_are_alike() {
    let length = |alike| {
        let mut noise = Noise::of(7);
        block_length(&noise.seconds(50.0, alike, 298), &noise.seconds(50.0, alike, 298))
    };
    let [independent, alike, very_alike] = [0.0, 0.5, 0.9].map(length);
    assert!(independent <= 2 && (3..15).contains(&alike) && very_alike > 10, "{independent} {alike} {very_alike}");
    assert_eq!(blocks(&[9.0, 1.0, 3.0, 5.0, 7.0], 2), [2.0, 6.0], "the rest is left out at the beginning");
    assert_eq!(blocks(&[1.0], 2), Vec::<f64>::new());
}

#[test]
fn too_little_is_no_estimate() {
    let one = |count: usize| vec![1.0; count];
    assert_eq!(of_seconds(&one(BLOCKS_MIN - 1), &one(99)), Err(Silent::TooFew(BLOCKS_MIN - 1)));
    assert!(of_seconds(&one(BLOCKS_MIN), &one(99)).is_ok());
    assert_eq!(of_seconds(&[], &one(99)), Err(Silent::NotMeasured));
    assert_eq!(of_runs(&one(2), &one(5)), Err(Silent::TooFew(2)));
    assert_eq!(of_pairs(&[(1.0, 1.0); 2]), Err(Silent::TooFew(2)));
    assert_eq!(of_pairs(&[]), Err(Silent::NotMeasured));
}

#[test]
fn values_that_do_not_vary_leave_no_doubt() {
    let of = |new: f64| of_seconds(&[10.0; 20], &[new; 20]).expect("enough");
    assert_eq!((of(10.0).p, of(10.0).ratio.total_cmp(&1.0)), (1.0, std::cmp::Ordering::Equal));
    assert!(of(12.0).p <= 0.0 && (of(12.0).low - 1.2).abs() < 1e-9 && (of(12.0).high - 1.2).abs() < 1e-9);
    // Nothing good comes back any more.
    assert!(of(0.0).p <= 0.0 && of(0.0).ratio <= 0.0);
    assert_eq!(of_seconds(&[0.0; 20], &[1.0; 20]), Err(Silent::NotMeasured), "there is no ratio to nothing");
    assert_eq!(of_pairs(&[(1.0, 0.0), (1.0, 1.0), (1.0, 1.0)]), Err(Silent::NotMeasured));
}

#[test]
fn many_measures_need_more_evidence_unless_they_differ_together() {
    let shown = |of: &[f64]| corrected(of).iter().map(|p| format!("{p:.3}")).collect::<Vec<_>>();
    assert_eq!(shown(&[0.03, 0.01, 0.5, 0.02]), ["0.040", "0.040", "0.500", "0.040"]);
    assert_eq!(shown(&[0.04, 0.5, 0.9, 0.8]), ["0.160", "0.900", "0.900", "0.900"], "one alone may be chance");
    assert_eq!(shown(&[0.04; 4]), ["0.040"; 4], "all of them are not");
    assert_eq!(shown(&[]), Vec::<String>::new());
}

#[test]
fn forged_figures_are_compared_without_a_panic() {
    let sides =
        [[1e-200, 2e-200, 3e-200], [5e-324, 5e-324, 1e-323], [1e300, 2e300, 1e308], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]];
    for old in &sides {
        for new in &sides {
            for estimate in [of_runs(old, new), of_seconds(&old.repeat(20), &new.repeat(20))].into_iter().flatten() {
                assert!(estimate.p >= 0.0, "{old:?} {new:?}: {estimate:?}");
            }
        }
    }
}
