//! What differs between the results of runs by more than noise.

mod measure;
mod noise;
mod read;

use std::collections::BTreeMap;

use self::{
    measure::Worse,
    noise::{BLOCKS_MIN, corrected, of_pairs, of_runs, of_seconds},
};
pub(crate) use self::{
    measure::{Measure, Quantity},
    noise::{CONFIDENCE, Estimate, RUNS_MIN, Silent},
    read::{Ran, difference, what_is_sent},
};
use crate::verdict::Verdict;

/// If the latencies of steps may be so many times as long, too little is known to say that there is no regression.
const BLIND: f64 = 1.25;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    /// The least difference that counts, as a share of the old value.
    pub(crate) least: f64,
    /// How many seconds of each run do not count.
    pub(crate) warm_up_s: u64,
}

/// What an observation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// Blocks of seconds of one run a side: so many whole seconds, old and new.
    Blocks { old: usize, new: usize },
    /// Runs, so many old and new.
    Runs { old: usize, new: usize },
    /// Pairs of runs with the same seed.
    Pairs(usize),
}

workload::table! {
    /// How a measure differs.
    pub enum Difference {
        /// It is certainly worse, and by as much as counts.
        Worse = "worse";
        /// It is certainly better, and by as much as counts.
        Better = "better";
        /// It certainly differs, and neither direction is worse by itself.
        Other = "differs";
        /// It certainly differs, and by less than counts.
        Slight = "slight";
        /// It does not differ by more than noise.
        None = "none";
    }
}

workload::table! {
    /// What a comparison comes to.
    pub enum Finding {
        /// A measure that a user feels is worse.
        Regression = "regression";
        /// None of them is.
        NoRegression = "no-regression";
        /// Too little was measured to say.
        Unknown = "unknown";
    }
}

/// A measure of both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) measure: Measure,
    /// How much it differs, or why that is not known.
    pub(crate) estimate: Result<Estimate, Silent>,
    /// How probable such a difference would be if nothing differed, corrected for the number of measures.
    pub(crate) p: f64,
    pub(crate) difference: Difference,
}

/// An old and a new side.
#[derive(Clone, Debug)]
pub(crate) struct Comparison<'r> {
    pub(crate) old: Vec<&'r Ran>,
    pub(crate) new: Vec<&'r Ran>,
    pub(crate) observed: Observed,
    pub(crate) rows: Vec<Compared>,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No latency of steps was measured on both sides.
    NothingMeasured,
    /// So many blocks are too few.
    FewBlocks { blocks: usize, least: usize },
    /// So many runs a side are too few.
    FewRuns { runs: usize, least: usize },
    /// The intervals of steps are so wide that a difference that a user feels may hide in them.
    TooNoisy,
}

impl<'r> Comparison<'r> {
    /// Compares two sides, neither of which is empty.
    ///
    /// # Errors
    /// In one line, when results are of different things, or when one run is on one side and several are on the other.
    pub(crate) fn of(old: &'r [Ran], new: &'r [Ran], asked: Asked) -> Result<Self, String> {
        let (first, others) = old.split_first().expect("a side is not empty");
        for other in others.iter().chain(new) {
            if let Some(unlike) = first.unlike(other) {
                let (one, other) = (first.file.display(), other.file.display());
                return Err(format!(
                    "cannot compare {one} with {other}: {unlike}; both runs need the same model and the same scenario"
                ));
            }
        }
        let [old, new] = [old, new].map(|side| side.iter().collect::<Vec<_>>());
        let (observed, pairs) = match (&old[..], &new[..]) {
            ([one], [other]) => {
                let [old, new] = [one, other].map(|ran| ran.whole_seconds(asked.warm_up_s).count());
                (Observed::Blocks { old, new }, Vec::new())
            }
            (old @ ([_] | [_, _, ..]), new @ ([_] | [_, _, ..])) if old.len().min(new.len()) == 1 => {
                return Err(format!(
                    "cannot compare {} with {}: give one result against one, or several on each side (--vs)",
                    old.len(),
                    new.len()
                ));
            }
            (old, new) => match paired(old, new) {
                Some(pairs) => (Observed::Pairs(pairs.len()), pairs),
                None => (Observed::Runs { old: old.len(), new: new.len() }, Vec::new()),
            },
        };
        // The p99 of two seconds is not that of one.
        let lengths =
            || old.iter().chain(&new).flat_map(|ran| ran.whole_seconds(asked.warm_up_s)).map(|its| its.lasts_s);
        let are_alike = lengths().all(|length| Some(length) == lengths().next());
        let measures = Measure::ALL.into_iter().filter(|its| !(first.has_a_rate && its.is_fixed_by_a_rate()));
        let measures = measures.filter(|its| are_alike || !its.is_a_percentile());
        let estimates = measures.map(|measure| {
            let values = |ran: &Ran| -> Vec<f64> {
                ran.whole_seconds(asked.warm_up_s).filter_map(|second| measure.of(second)).collect()
            };
            let of_run = |ran: &Ran| mean(&values(ran));
            let of_side = |side: &[&Ran]| side.iter().filter_map(|ran| of_run(ran)).collect::<Vec<_>>();
            let estimate = match observed {
                Observed::Blocks { .. } => of_seconds(&values(old[0]), &values(new[0])),
                Observed::Runs { .. } => of_runs(&of_side(&old), &of_side(&new)),
                Observed::Pairs(_) => {
                    let both = |(old, new): &(&Ran, &Ran)| of_run(old).zip(of_run(new));
                    of_pairs(&pairs.iter().filter_map(both).collect::<Vec<_>>())
                }
            };
            (measure, estimate)
        });
        let rows = judged(estimates.collect(), asked.least);
        Ok(Self { old, new, observed, rows })
    }

    /// The measures that a user feels, and that are worse.
    pub(crate) fn regressions(&self) -> impl Iterator<Item = &Compared> {
        self.felt().filter(|row| row.difference == Difference::Worse)
    }

    /// The measures that a user feels, and that have an estimate.
    pub(crate) fn felt(&self) -> impl Iterator<Item = &Compared> {
        self.rows.iter().filter(|row| row.measure.is_felt() && row.estimate.is_ok())
    }

    /// What the comparison comes to.
    pub(crate) fn finding(&self) -> Finding {
        match (self.regressions().next(), self.doubt()) {
            (Some(_), _) => Finding::Regression,
            (None, Some(_)) => Finding::Unknown,
            (None, None) => Finding::NoRegression,
        }
    }

    /// Why it is not known whether there is a regression, where none was found; none where it is known.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        let steps =
            || self.rows.iter().filter(|row| row.measure == Measure::StepMean || row.measure == Measure::StepP50);
        if steps().all(|row| row.estimate.is_err()) {
            let few = steps().find_map(|row| match row.estimate {
                Err(Silent::TooFew(few)) => Some(few),
                _ => None,
            });
            return Some(match (few, self.observed) {
                (None, _) => Doubt::NothingMeasured,
                (Some(blocks), Observed::Blocks { .. }) => Doubt::FewBlocks { blocks, least: BLOCKS_MIN },
                (Some(runs), Observed::Runs { .. } | Observed::Pairs(_)) => Doubt::FewRuns { runs, least: RUNS_MIN },
            });
        }
        let is_blind = |estimate: Estimate| estimate.high > BLIND;
        steps().filter_map(|row| row.estimate.ok()).all(is_blind).then_some(Doubt::TooNoisy)
    }

    /// Each run once, the old ones first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &'r Ran> {
        self.old.iter().chain(&self.new).copied()
    }

    /// Whether a run found violations.
    pub(crate) fn has_violations(&self) -> bool {
        self.runs().any(|ran| ran.verdict == Verdict::Invalid)
    }
}

/// The runs of both sides by their seed, if each seed is on each side once.
fn paired<'r>(old: &[&'r Ran], new: &[&'r Ran]) -> Option<Vec<(&'r Ran, &'r Ran)>> {
    let by_seed = |side: &[&'r Ran]| side.iter().map(|ran| (ran.seed.0, *ran)).collect::<BTreeMap<_, _>>();
    let (by_old, by_new) = (by_seed(old), by_seed(new));
    let is_once = by_old.len() == old.len() && by_new.len() == new.len() && by_old.keys().eq(by_new.keys());
    is_once.then(|| by_old.into_values().zip(by_new.into_values()).collect())
}

/// The mean; none of nothing.
#[expect(clippy::cast_precision_loss)]
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Says of each measure how it differs. Those that a user feels are corrected for their number, and so are the others.
fn judged(estimates: Vec<(Measure, Result<Estimate, Silent>)>, least: f64) -> Vec<Compared> {
    let mut rows: Vec<_> = estimates
        .into_iter()
        .map(|(measure, estimate)| Compared { measure, estimate, p: 1.0, difference: Difference::None })
        .collect();
    for is_felt in [true, false] {
        let family = rows.iter_mut().filter(|row| row.measure.is_felt() == is_felt);
        let mut known: Vec<_> = family.filter_map(|row| Some((row.estimate.ok()?, row))).collect();
        let probabilities = corrected(&known.iter().map(|(estimate, _)| estimate.p).collect::<Vec<_>>());
        for ((estimate, row), p) in known.iter_mut().zip(probabilities) {
            row.p = p;
            row.difference = difference_of(row.measure, estimate, p, least);
        }
    }
    rows
}

fn difference_of(measure: Measure, estimate: &Estimate, p: f64, least: f64) -> Difference {
    if p > 1.0 - CONFIDENCE {
        return Difference::None;
    }
    if (estimate.ratio - 1.0).abs() < least {
        return Difference::Slight;
    }
    match (measure.worse(), estimate.ratio > 1.0) {
        (None, _) => Difference::Other,
        (Some(Worse::More), true) | (Some(Worse::Less), false) => Difference::Worse,
        (Some(Worse::More), false) | (Some(Worse::Less), true) => Difference::Better,
    }
}

#[cfg(test)]
pub(crate) mod tests;
