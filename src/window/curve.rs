//! How often a failure fails at each length of a gap, and in which lengths it fails more often than in others by more than chance.
//!
//! A *scan* looks at every run of neighbouring lengths and takes the one whose rate differs most from that of the others, by the likelihood
//! ratio. Whether it differs by more than chance says a permutation test: the outcomes of all runs are dealt out to the lengths anew, and the
//! scan is repeated. So it is no matter how many runs of lengths were looked at. What is found is scanned again, and so is what is left of it
//! on both sides.

use rand::{Rng, seq::SliceRandom as _};
use statrs::distribution::{Beta, ContinuousCDF as _};

use super::Gap;

/// How certain an interval is to have the true probability in it, and a gap that is said to matter to do so.
pub const CONFIDENCE: f64 = 0.95;
/// How often outcomes are dealt out anew.
const DEALS: u32 = 1999;
/// So many deals that look as unequal as what was seen are enough to call it chance.
const ENOUGH: u32 = 40;
/// How improbable a part of a gap that matters has to be by chance, to count as one.
const PART: f64 = 0.01;

/// How many runs there were, and what they came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All runs.
    pub runs: u32,
    /// Those with the failure.
    pub failed: u32,
    /// Those with another violation.
    pub otherwise: u32,
}

impl Count {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            failed: self.failed + other.failed,
            otherwise: self.otherwise + other.otherwise,
        }
    }

    /// How many of the runs failed, from 0 to 1; 0 where there were none.
    pub fn rate(self) -> f64 {
        if self.runs == 0 { 0.0 } else { f64::from(self.failed) / f64::from(self.runs) }
    }

    /// The interval that has the true probability of failing in it (Clopper and Pearson), from 0 to 1.
    pub fn interval(self) -> (f64, f64) {
        let (failed, passed) = (f64::from(self.failed), f64::from(self.runs - self.failed));
        let quantile = |a: f64, b: f64, at: f64| Beta::new(a, b).map_or(at, |beta| beta.inverse_cdf(at));
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let low = if self.failed == 0 { 0.0 } else { quantile(failed, passed + 1.0, tail) };
        let high = if self.failed == self.runs { 1.0 } else { quantile(failed + 1.0, passed, 1.0 - tail) };
        (low, high)
    }
}

/// A length of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The length in microseconds.
    pub us: u64,
    /// What its runs came to.
    pub count: Count,
}

/// Neighbouring lengths at which a failure fails more often than at the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// The shortest of them, in microseconds.
    pub from_us: u64,
    /// The longest of them.
    pub until_us: u64,
    /// The next shorter length that was tried; none where there is none.
    pub below_us: Option<u64>,
    /// The next longer length that was tried.
    pub above_us: Option<u64>,
    /// What the runs of these lengths came to.
    pub count: Count,
}

/// What is known of a gap.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The gap.
    pub gap: Gap,
    /// The lengths that have runs, the shortest first.
    pub points: Vec<Point>,
    /// How probable it is to see lengths differ so much by chance alone, corrected for the number of gaps; none where only one length has runs.
    pub p: Option<f64>,
    /// In which lengths it fails; none where the gap does not matter as far as is known.
    pub windows: Vec<Window>,
}

impl Curve {
    /// What is known from these points, of one gap of so many.
    pub(super) fn of(gap: Gap, points: Vec<Point>, gaps: usize, random: &mut impl Rng) -> Self {
        let points: Vec<_> = points.into_iter().filter(|point| point.count.runs > 0).collect();
        let counts: Vec<_> = points.iter().map(|point| point.count).collect();
        if counts.len() < 2 {
            return Self { gap, points, p: None, windows: Vec::new() };
        }
        let (part, p) = scan(&counts, random);
        #[expect(clippy::cast_precision_loss, reason = "gaps are few")]
        let p = (p * gaps as f64).min(1.0);
        let windows = match part {
            Some(part) if p <= 1.0 - CONFIDENCE => {
                let mut edges = vec![0, counts.len()];
                divide(&counts, 0, part, &mut edges, random);
                edges.sort_unstable();
                edges.dedup();
                windows(&points, &edges)
            }
            _ => Vec::new(),
        };
        Self { gap, points, p: Some(p), windows }
    }

    /// Whether the probability of failing depends on the gap, by more than chance.
    pub fn matters(&self) -> bool {
        !self.windows.is_empty()
    }

    /// All runs together.
    pub fn all(&self) -> Count {
        all(&self.points)
    }

    /// The runs outside of the windows.
    pub fn outside(&self) -> Count {
        let is_inside =
            |point: &&Point| self.windows.iter().any(|its| (its.from_us..=its.until_us).contains(&point.us));
        self.points.iter().filter(|point| !is_inside(point)).fold(Count::default(), |all, point| all.and(point.count))
    }
}

fn all(points: &[Point]) -> Count {
    points.iter().fold(Count::default(), |all, point| all.and(point.count))
}

/// Neighbouring places in a list: the first, and the one behind the last.
type Part = (usize, usize);

/// Divides a list where its parts differ: at the ends of this part, and further within the part and beside it.
fn divide(counts: &[Count], offset: usize, (first, end): Part, edges: &mut Vec<usize>, random: &mut impl Rng) {
    edges.extend([offset + first, offset + end]);
    for (first, end) in [(0, first), (first, end), (end, counts.len())] {
        let counts = &counts[first..end];
        if counts.len() < 2 {
            continue;
        }
        if let (Some(part), p) = scan(counts, random)
            && p <= PART
        {
            divide(counts, offset + first, part, edges, random);
        }
    }
}

/// The part of a list that differs most from the rest, and how probable it is by chance that any part differs so much. None where all are
/// the same.
fn scan(counts: &[Count], random: &mut impl Rng) -> (Option<Part>, f64) {
    let runs: Vec<_> = counts.iter().map(|count| count.runs).collect();
    let failed: Vec<_> = counts.iter().map(|count| count.failed).collect();
    let (total, of_total) = (runs.iter().sum::<u32>(), failed.iter().sum::<u32>());
    if of_total == 0 || of_total == total {
        return (None, 1.0);
    }
    let logs: Vec<_> = (0..=total).map(|number| f64::from(number.max(1)).ln() * f64::from(number)).collect();
    let (part, seen) = most_unequal(&runs, &failed, &logs);
    let mut outcomes: Vec<_> = (0..total).map(|run| run < of_total).collect();
    let (mut dealt, mut as_unequal) = (0_u32, 0_u32);
    while dealt < DEALS && as_unequal < ENOUGH {
        outcomes.shuffle(random);
        let mut rest = outcomes.as_slice();
        let each = runs.iter().map(|runs| {
            let (own, others) = rest.split_at(*runs as usize);
            rest = others;
            u32::try_from(own.iter().filter(|failed| **failed).count()).expect("no more than runs")
        });
        let (_, statistic) = most_unequal(&runs, &each.collect::<Vec<_>>(), &logs);
        dealt += 1;
        as_unequal += u32::from(statistic >= seen - 1e-9);
    }
    (Some(part), f64::from(as_unequal + 1) / f64::from(dealt + 1))
}

/// The part whose rate differs most from that of the rest, and by how much, as the logarithm of the likelihood ratio. `logs` has `n ln n`.
fn most_unequal(runs: &[u32], failed: &[u32], logs: &[f64]) -> (Part, f64) {
    let of = |failed: u32, runs: u32| logs[failed as usize] + logs[(runs - failed) as usize] - logs[runs as usize];
    let (total, of_total) = (runs.iter().sum::<u32>(), failed.iter().sum::<u32>());
    let mut most = ((0, 1), f64::MIN);
    for first in 0..runs.len() {
        let (mut inside, mut of_inside) = (0, 0);
        for end in first + 1..=runs.len() {
            inside += runs[end - 1];
            of_inside += failed[end - 1];
            if end - first == runs.len() {
                continue;
            }
            let ratio = of(of_inside, inside) + of(of_total - of_inside, total - inside) - of(of_total, total);
            if ratio > most.1 {
                most = ((first, end), ratio);
            }
        }
    }
    most
}

/// The parts between edges with a rate that is nearer to the highest than to the lowest; those beside each other are one.
fn windows(points: &[Point], edges: &[usize]) -> Vec<Window> {
    let parts: Vec<_> = edges.windows(2).map(|two| (two[0], two[1])).collect();
    let rates: Vec<_> = parts.iter().map(|(first, end)| all(&points[*first..*end]).rate()).collect();
    let (least, most) =
        rates.iter().fold((1.0_f64, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    let mut inside: Vec<Part> = Vec::new();
    for ((first, end), rate) in parts.into_iter().zip(rates) {
        if rate <= f64::midpoint(least, most) {
            continue;
        }
        match inside.last_mut() {
            Some(before) if before.1 == first => before.1 = end,
            _ => inside.push((first, end)),
        }
    }
    let window = |(first, end): Part| Window {
        from_us: points[first].us,
        until_us: points[end - 1].us,
        below_us: first.checked_sub(1).map(|before| points[before].us),
        above_us: points.get(end).map(|after| after.us),
        count: all(&points[first..end]),
    };
    inside.into_iter().map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::gaps::tests::any_gap;
    use workload::seed::Seed;

    fn count(failed: u32, runs: u32) -> Count {
        Count { runs, failed, otherwise: 0 }
    }

    /// A curve with these failures of ten runs each, at 0, 1, 2 … µs.
    fn curve(failed: &[u32], gaps: usize) -> Curve {
        let points = (0..).zip(failed).map(|(us, failed)| Point { us, count: count(*failed, 10) }).collect();
        Curve::of(any_gap(), points, gaps, &mut Seed(1).generator(0))
    }

    fn spans(curve: &Curve) -> Vec<(u64, u64)> {
        curve.windows.iter().map(|window| (window.from_us, window.until_us)).collect()
    }

    #[test]
    fn intervals_are_those_of_clopper_and_pearson() {
        let close = |(low, high): (f64, f64), (wanted_low, wanted_high): (f64, f64)| {
            (low - wanted_low).abs() < 5e-4 && (high - wanted_high).abs() < 5e-4
        };
        for (failed, runs, interval) in [
            (0, 10, (0.0, 0.3085)),
            (10, 10, (0.6915, 1.0)),
            (5, 10, (0.1871, 0.8129)),
            (1, 20, (0.0013, 0.2487)),
            (0, 1, (0.0, 0.975)),
        ] {
            let seen = count(failed, runs).interval();
            assert!(close(seen, interval), "{failed} of {runs}: {seen:?}");
        }
        assert_eq!(Count::default().interval(), (0.0, 1.0));
    }

    #[test]
    fn a_window_is_found_with_what_is_beside_it() {
        let found = curve(&[0, 0, 10, 10, 9, 0, 0], 5);
        assert_eq!(spans(&found), [(2, 4)]);
        let window = found.windows[0];
        assert_eq!((window.below_us, window.above_us, window.count), (Some(1), Some(5), count(29, 30)));
        assert_eq!(found.outside(), count(0, 40));
        assert!(found.p.is_some_and(|p| p < 0.01), "{:?}", found.p);
        // At either end nothing is beside it.
        let [low, high] = [&[10, 10, 1, 0, 0][..], &[0, 0, 1, 10, 10]].map(|failed| curve(failed, 1));
        assert_eq!((spans(&low), low.windows[0].below_us, low.windows[0].above_us), (vec![(0, 1)], None, Some(2)));
        assert_eq!((spans(&high), high.windows[0].below_us, high.windows[0].above_us), (vec![(3, 4)], Some(2), None));
    }

    #[test]
    fn what_fails_everywhere_but_in_one_place_has_two_windows() {
        assert_eq!(spans(&curve(&[10, 10, 0, 0, 10, 10], 1)), [(0, 1), (4, 5)]);
        assert_eq!(spans(&curve(&[0, 10, 10, 0, 0, 10, 10, 0], 1)), [(1, 2), (5, 6)]);
    }

    #[test]
    fn what_differs_by_chance_does_not_matter() {
        for failed in [&[10; 6][..], &[0; 6], &[5, 6, 4, 5, 7, 5], &[1, 0, 0, 1, 0, 0, 2], &[10]] {
            let found = curve(failed, 1);
            assert!(!found.matters(), "{failed:?}: {found:?}");
        }
        // A difference that one gap shows by chance in one of a hundred cases, some of many gaps show.
        let (one, of_many) = (curve(&[4, 0, 0, 0, 0, 0], 1), curve(&[4, 0, 0, 0, 0, 0], 100));
        assert!(one.matters() && !of_many.matters(), "{one:?} {of_many:?}");
    }

    #[test]
    fn flat_curves_are_seldom_called_otherwise() {
        use rand::RngExt as _;
        let mut random = Seed(7).generator(0);
        let wrong = (0..200).filter(|_| {
            let mut drawn = || (0..10).filter(|_| random.random_bool(0.4)).count();
            let failed: Vec<_> = (0..8).map(|_| u32::try_from(drawn()).expect("at most 10")).collect();
            let points = (0..).zip(&failed).map(|(us, failed)| Point { us, count: count(*failed, 10) }).collect();
            Curve::of(any_gap(), points, 1, &mut random).matters()
        });
        let wrong = wrong.count();
        assert!((1..=20).contains(&wrong), "{wrong} of 200");
    }
}
