//! How much a search has not reached, from how often it reached what it did.

/// What is known of the unseen after some runs.
///
/// Sources: I. J. Good, "The population frequencies of species and the estimation of population parameters" (1953), for the chance of
/// something new; A. Chao, "Estimating the population size for capture-recapture data with unequal catchability" (1987), for the number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Runs so far.
    pub runs: u64,
    /// Different things that they reached.
    pub reached: u64,
    /// Those that exactly one run reached.
    pub once: u64,
    /// Those that exactly two runs reached.
    pub twice: u64,
}

impl Estimate {
    /// `times` has the number of runs for each thing that was reached.
    pub fn new(runs: u64, times: impl Iterator<Item = u64>) -> Self {
        let mut estimate = Self { runs, reached: 0, once: 0, twice: 0 };
        for times in times {
            estimate.reached += 1;
            estimate.once += u64::from(times == 1);
            estimate.twice += u64::from(times == 2);
        }
        estimate
    }

    /// How many new things one more run of the same kind is expected to reach; none before the first run.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn new_in_next(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.once as f64 / self.runs as f64)
    }

    /// At least how many things are not reached yet; none before the first run. A search that changes its runs by what it has reached reaches
    /// more than this says.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn unseen_at_least(&self) -> Option<f64> {
        let (runs, once, twice) = (self.runs as f64, self.once as f64, self.twice as f64);
        (self.runs > 0).then(|| (runs - 1.0) / runs * once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0)))
    }
}
