//! The highest load that a server takes correctly: a search over runs, each with more or less load than the one before.

mod search;
mod trial;

use std::{fmt, str::FromStr};

use serde::Deserialize;

pub use self::{
    search::{Bracket, Search},
    trial::{Overload, Trial},
};

/// The highest rate that is worth a try.
const RATE_MAX: f64 = 1e6;
/// The most sequences at a time.
const SEQUENCES_MAX: f64 = 100_000.0;

/// What is raised until the server is overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Iterations that begin in a second.
    Rate,
    /// Workers, each of which has a live sequence most of the time.
    Workers,
}

impl Load {
    /// A load in words, such as `80/s`.
    pub fn shown(self, load: f64) -> String {
        let rounded = (load * 100.0).round() / 100.0;
        match self {
            Self::Rate => format!("{rounded}/s"),
            Self::Workers => format!("{rounded}"),
        }
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Workers => "workers",
        }
    }
}

/// The loads among which the limit is looked for. As a text: `10..5000/s`, or `1..512` for workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// What is raised.
    pub of: Load,
    low: f64,
    high: f64,
}

impl Range {
    /// Loads from the lowest to the highest, each a twentieth above the one before.
    pub fn loads(&self) -> Vec<f64> {
        /// How far apart two loads are.
        const STEP: f64 = 1.05;
        let mut loads = vec![self.low];
        let mut next = self.low * STEP;
        while next < self.high * (1.0 - 1e-9) {
            // Nobody wants to read more digits, and there is no half a worker.
            let rounded = match self.of {
                Load::Workers => next.round(),
                Load::Rate => (next * 100.0).round() / 100.0,
            };
            if loads.last().is_none_or(|last| rounded > *last) && rounded < self.high {
                loads.push(rounded);
            }
            next *= STEP;
        }
        if self.high > self.low {
            loads.push(self.high);
        }
        loads
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.of == Load::Rate { "/s" } else { "" };
        write!(f, "{}..{}{unit}", self.low, self.high)
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("'{text}': give rates such as 10..5000/s, or numbers of workers such as 1..512");
        let (of, numbers) = text.strip_suffix("/s").map_or((Load::Workers, text), |rates| (Load::Rate, rates));
        let (low, high) = numbers.split_once("..").ok_or_else(wanted)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let (low, high) = number(low).zip(number(high)).ok_or_else(wanted)?;
        let (least, most) = match of {
            Load::Rate => (0.01, RATE_MAX),
            Load::Workers => (1.0, SEQUENCES_MAX),
        };
        if low < least || high > most {
            return Err(format!("'{text}': give numbers from {least} to {most}"));
        }
        if low > high {
            return Err(format!("'{text}': the first number is above the second"));
        }
        if of == Load::Workers && (low.fract() > 0.0 || high.fract() > 0.0) {
            return Err(format!("'{text}': numbers of workers are whole"));
        }
        Ok(Self { of, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_and_divided() {
        let rates: Range = "10..20/s".parse().expect("a range");
        assert_eq!((rates.of, rates.to_string()), (Load::Rate, "10..20/s".to_owned()));
        let loads = rates.loads();
        assert_eq!((loads[0], loads[1], loads[loads.len() - 1]), (10.0, 10.5, 20.0));
        assert!(loads.windows(2).all(|two| two[0] < two[1] && two[1] / two[0] < 1.06), "{loads:?}");
        let workers: Range = "1..8".parse().expect("a range");
        assert_eq!(workers.loads(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!("5..5/s".parse::<Range>().expect("a range").loads(), [5.0]);
        assert_eq!((Load::Rate.shown(12.3456), Load::Workers.shown(8.0)), ("12.35/s".to_owned(), "8".to_owned()));
    }

    #[test]
    fn what_is_no_range_is_said() {
        for (text, problem) in [
            ("10", "give rates such as 10..5000/s"),
            ("10/s", "give rates such as"),
            ("a..b/s", "give rates such as"),
            ("0..5/s", "give numbers from 0.01 to 1000000"),
            ("-5..5/s", "give numbers from"),
            ("1..1e9/s", "give numbers from"),
            ("0..5", "give numbers from 1 to 100000"),
            ("1.5..5", "numbers of workers are whole"),
            ("9..5/s", "the first number is above the second"),
            ("nan..5/s", "give rates such as"),
        ] {
            let error = text.parse::<Range>().expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
