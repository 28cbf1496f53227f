//! How much two sides differ, and how certain that is.
//!
//! One run a side: seconds that follow each other are alike, so a second is no observation of its own. The seconds are put together in blocks
//! that are so long that they are nearly independent, and Welch's test compares the means of the blocks. Several runs a side: a run is an
//! observation. Runs with the same seeds on both sides are pairs: what was sent is the same in both. If they were interleaved, most of what
//! else the machine did is the same, too.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// With fewer blocks than this on a side, nobody can say how much they vary.
pub(super) const BLOCKS_MIN: usize = 8;
/// With fewer runs than this on a side, nobody can say how much they vary.
pub(crate) const RUNS_MIN: usize = 3;
/// How certain an interval is to have the true ratio in it.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// How much two sides differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The mean of the old side.
    pub(crate) old: f64,
    /// The mean of the new side.
    pub(crate) new: f64,
    /// New by old.
    pub(crate) ratio: f64,
    /// The interval that has the true ratio in it with 95 % confidence.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// How probable a difference of this size would be if there were none.
    pub(super) p: f64,
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    /// It was not measured on both sides.
    NotMeasured,
    /// A side has only so many blocks or runs.
    TooFew(usize),
}

#[expect(clippy::cast_precision_loss)]
fn count(of: usize) -> f64 {
    of as f64
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len())
}

/// The variance of the mean of independent values, of which there are two or more.
fn variance_of_mean(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / count(values.len() - 1) / count(values.len())
}

/// The estimate with this logarithm of the ratio and its standard error.
fn estimate(old: f64, new: f64, log: f64, error: f64, freedom: f64) -> Estimate {
    let ratio = log.exp();
    // Values that are all the same leave no doubt. Forged figures may be beyond what can be computed.
    let is_computable = log.is_finite() && error.is_finite() && freedom.is_finite();
    if error <= 0.0 || !is_computable || (log / error).abs() > 1e6 {
        let p = if log.abs() > 0.0 { 0.0 } else { 1.0 };
        return Estimate { old, new, ratio, low: ratio, high: ratio, p };
    }
    let t = StudentsT::new(0.0, 1.0, freedom.max(1.0)).expect("a scale and degrees of freedom above 0");
    let reach = t.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)) * error;
    let p = 2.0 * t.cdf(-(log / error).abs());
    Estimate { old, new, ratio, low: (log - reach).exp(), high: (log + reach).exp(), p }
}

/// Compares independent values of two sides by the ratio of their means. The error of its logarithm is that of the delta method, which takes
/// intervals without anything, and the degrees of freedom are Welch's.
fn independent(old: &[f64], new: &[f64]) -> Result<Estimate, Silent> {
    let (old_mean, new_mean) = (mean(old), mean(new));
    if old_mean <= 0.0 {
        return Err(Silent::NotMeasured);
    }
    if new_mean <= 0.0 {
        return Ok(Estimate { old: old_mean, new: new_mean, ratio: 0.0, low: 0.0, high: 0.0, p: 0.0 });
    }
    let [of_old, of_new] = [(old, old_mean), (new, new_mean)].map(|(of, mean)| variance_of_mean(of) / mean.powi(2));
    let variance = of_old + of_new;
    let freedom = variance.powi(2) / (of_old.powi(2) / count(old.len() - 1) + of_new.powi(2) / count(new.len() - 1));
    Ok(estimate(old_mean, new_mean, (new_mean / old_mean).ln(), variance.sqrt(), freedom))
}

/// Compares the seconds of two runs.
pub(super) fn of_seconds(old: &[f64], new: &[f64]) -> Result<Estimate, Silent> {
    if old.is_empty() || new.is_empty() {
        return Err(Silent::NotMeasured);
    }
    let length = block_length(old, new);
    let [old, new] = [old, new].map(|seconds| blocks(seconds, length));
    match old.len().min(new.len()) {
        few if few < BLOCKS_MIN => Err(Silent::TooFew(few)),
        _ => independent(&old, &new),
    }
}

/// Compares several runs a side.
pub(super) fn of_runs(old: &[f64], new: &[f64]) -> Result<Estimate, Silent> {
    match old.len().min(new.len()) {
        0 => Err(Silent::NotMeasured),
        few if few < RUNS_MIN => Err(Silent::TooFew(few)),
        _ => independent(old, new),
    }
}

/// Compares pairs of an old and a new run by the mean of the logarithms of their ratios: a round in which everything was slow counts as much as
/// another.
pub(super) fn of_pairs(pairs: &[(f64, f64)]) -> Result<Estimate, Silent> {
    match pairs.len() {
        0 => return Err(Silent::NotMeasured),
        few if few < RUNS_MIN => return Err(Silent::TooFew(few)),
        _ if pairs.iter().any(|(old, new)| *old <= 0.0 || *new <= 0.0) => return Err(Silent::NotMeasured),
        _ => {}
    }
    let logs: Vec<_> = pairs.iter().map(|(old, new)| (new / old).ln()).collect();
    let middle = |side: fn(&(f64, f64)) -> f64| mean(&pairs.iter().map(|pair| side(pair).ln()).collect::<Vec<_>>());
    let (old, new) = (middle(|pair| pair.0).exp(), middle(|pair| pair.1).exp());
    Ok(estimate(old, new, mean(&logs), variance_of_mean(&logs).sqrt(), count(logs.len() - 1)))
}

/// The means of blocks of so many values. What is too short for a block is left out at the beginning.
fn blocks(values: &[f64], length: usize) -> Vec<f64> {
    values[values.len() % length..].chunks(length).map(mean).collect()
}

/// How many values make a block, so that the means of blocks are nearly independent: one if the values are, and else four times as long as the
/// values stay alike. In simulations of such values, blocks of this length give a few false alarms in a hundred.
fn block_length(old: &[f64], new: &[f64]) -> usize {
    let alike = integrated_autocorrelation(old, new);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is from 0 to a few times the number of values"
    )]
    let longer = (4.0 * (alike - 1.0)).ceil() as usize;
    1 + longer
}

/// Of how many values in a row each says as much as one alone: 1 if they are independent. The sum of the autocorrelations ends where they
/// cannot be told from noise any more.
fn integrated_autocorrelation(old: &[f64], new: &[f64]) -> f64 {
    let centred = [old, new].map(|values| {
        let mean = mean(values);
        values.iter().map(|value| value - mean).collect::<Vec<_>>()
    });
    let products = |lag: usize| -> f64 {
        let of_one =
            |values: &Vec<f64>| -> f64 { values.iter().zip(values.iter().skip(lag)).map(|(a, b)| a * b).sum() };
        centred.iter().map(of_one).sum()
    };
    let (variance, length) = (products(0), count(old.len().min(new.len())));
    if variance <= 0.0 {
        return 1.0;
    }
    let noise = 1.5 / (2.0 * length).sqrt();
    let lags = 1..=old.len().min(new.len()) / 3;
    let correlations = lags.map(|lag| {
        let correlation = products(lag) / variance;
        // A mean that comes from the same values makes them look less alike than they are.
        correlation + (1.0 + 3.0 * correlation.max(0.0)) / length
    });
    1.0 + 2.0 * correlations.take_while(|correlation| *correlation > noise).sum::<f64>()
}

/// How probable each of several differences would be if there were none at all, corrected for their number after Benjamini and Hochberg: one of
/// many is often large by chance. Between equal sides, where every difference is chance, this bounds the probability of any false alarm, as
/// Holm's correction does. But it does not ask more of measures that differ together, as latencies do.
pub(super) fn corrected(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<_> = (0..probabilities.len()).collect();
    order.sort_by(|one, other| probabilities[*other].total_cmp(&probabilities[*one]));
    let mut corrected = vec![1.0; probabilities.len()];
    let mut most: f64 = 1.0;
    for (larger, place) in order.into_iter().enumerate() {
        let rank = probabilities.len() - larger;
        most = most.min(probabilities[place] * count(probabilities.len()) / count(rank));
        corrected[place] = most;
    }
    corrected
}

#[cfg(test)]
mod tests;
