//! How numbers are drawn that are counts or times.

use std::num::NonZeroU32;

use rand::{Rng, RngExt as _};
use rand_distr::Distribution as _;
use serde::{Deserialize, Serialize};

use super::{Normal, Uniform};

/// How a number is drawn. In a file it is one key of a table: `normal = { mean = 16, stdev = 8 }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawDraw", rename_all = "kebab-case")]
pub enum Distribution {
    /// Always the same.
    Constant(u32),
    /// Whole numbers, both ends included.
    Uniform(Uniform<u32>),
    /// A normal distribution.
    Normal(Normal),
    /// A log-normal distribution: mostly small, now and then very large.
    LogNormal(LogNormal),
    /// A geometric distribution: what goes on after each with the same odds.
    Geometric(Geometric),
    /// One of these, each as often as it stands there.
    List(Listed<u32>),
}

/// How a number is drawn as files have it: one key of several, and for a length its bounds beside it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawDraw {
    pub(super) min: Option<NonZeroU32>,
    pub(super) max: Option<NonZeroU32>,
    constant: Option<u32>,
    uniform: Option<Uniform<u32>>,
    normal: Option<Normal>,
    log_normal: Option<LogNormal>,
    geometric: Option<Geometric>,
    list: Option<Listed<u32>>,
}

impl RawDraw {
    /// What it says of how the number is drawn.
    pub(super) fn drawn(self) -> Result<Distribution, String> {
        let Self { constant, uniform, normal, log_normal, geometric, list, .. } = self;
        let given = [
            constant.map(Distribution::Constant),
            uniform.map(Distribution::Uniform),
            normal.map(Distribution::Normal),
            log_normal.map(Distribution::LogNormal),
            geometric.map(Distribution::Geometric),
            list.map(Distribution::List),
        ];
        one_of(Distribution::KEYS, given)
    }
}

/// The one of these that is given, each by its key.
pub(super) fn one_of<T, const N: usize>(keys: [&str; N], given: [Option<T>; N]) -> Result<T, String> {
    let mut named: Vec<_> = keys.iter().zip(given).filter_map(|(key, drawn)| Some((*key, drawn?))).collect();
    if named.len() > 1 {
        let given: Vec<_> = named.iter().map(|(key, _)| *key).collect();
        return Err(format!("one key alone can say how it is drawn, and there are {}", given.join(" and ")));
    }
    let (_, drawn) = named.pop().ok_or_else(|| format!("one of {} has to say how it is drawn", keys.join(", ")))?;
    Ok(drawn)
}

impl TryFrom<RawDraw> for Distribution {
    type Error = String;

    fn try_from(raw: RawDraw) -> Result<Self, String> {
        if raw.min.is_some() || raw.max.is_some() {
            return Err("only a length is kept within a min and a max of its own".to_owned());
        }
        raw.drawn()
    }
}

/// A log-normal distribution, with numbers that can be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawLogNormal")]
pub struct LogNormal {
    /// Half of what is drawn is below it.
    pub median: f64,
    /// The standard deviation of the natural logarithm.
    pub sigma: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLogNormal {
    median: f64,
    sigma: f64,
}

impl TryFrom<RawLogNormal> for LogNormal {
    type Error = String;

    fn try_from(RawLogNormal { median, sigma }: RawLogNormal) -> Result<Self, String> {
        if !(median.is_finite() && median > 0.0) {
            return Err(format!("the median {median} is not a finite number above 0"));
        }
        if !(sigma.is_finite() && sigma >= 0.0) {
            return Err(format!("the sigma {sigma} is not a finite number from 0 up"));
        }
        Ok(Self { median, sigma })
    }
}

/// A geometric distribution over the numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawGeometric")]
pub struct Geometric {
    /// Its mean, at least 1.
    pub mean: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGeometric {
    mean: f64,
}

impl TryFrom<RawGeometric> for Geometric {
    type Error = String;

    fn try_from(RawGeometric { mean }: RawGeometric) -> Result<Self, String> {
        if mean.is_finite() && mean >= 1.0 {
            Ok(Self { mean })
        } else {
            Err(format!("the mean {mean} is not a finite number from 1 up"))
        }
    }
}

/// Some numbers; never none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<T>", bound(deserialize = "T: Deserialize<'de>"))]
pub struct Listed<T>(pub(super) Vec<T>);

impl<T> TryFrom<Vec<T>> for Listed<T> {
    type Error = String;

    fn try_from(numbers: Vec<T>) -> Result<Self, String> {
        if numbers.is_empty() { Err("the list is empty".to_owned()) } else { Ok(Self(numbers)) }
    }
}

impl<T: Copy> Listed<T> {
    /// One of them.
    pub(super) fn draw(&self, generator: &mut impl Rng) -> T {
        self.0[generator.random_range(0..self.0.len())]
    }
}

impl Distribution {
    /// The keys of a file that each stand for one.
    pub(super) const KEYS: [&str; 6] = ["constant", "uniform", "normal", "log-normal", "geometric", "list"];

    /// One number.
    pub fn draw(&self, generator: &mut impl Rng) -> u32 {
        match self {
            Self::Constant(number) => *number,
            Self::Uniform(Uniform { min, max }) => generator.random_range(*min..=*max),
            Self::Normal(Normal { mean, stdev }) => whole(normal(*mean, *stdev).sample(generator)),
            Self::LogNormal(LogNormal { median, sigma }) => whole(normal(median.ln(), *sigma).sample(generator).exp()),
            Self::Geometric(Geometric { mean }) => {
                let failures = rand_distr::Geometric::new(mean.recip()).expect("odds, because the mean is at least 1");
                u32::try_from(failures.sample(generator)).unwrap_or(u32::MAX).saturating_add(1)
            }
            Self::List(listed) => listed.draw(generator),
        }
    }

    /// A number in the middle of what is drawn.
    pub fn typical(&self) -> f64 {
        match self {
            Self::Constant(number) => f64::from(*number),
            Self::Uniform(Uniform { min, max }) => f64::midpoint(f64::from(*min), f64::from(*max)),
            Self::Normal(Normal { mean, .. }) | Self::Geometric(Geometric { mean }) => *mean,
            Self::LogNormal(LogNormal { median, .. }) => *median,
            #[expect(clippy::cast_precision_loss, reason = "a list is not that long")]
            Self::List(Listed(numbers)) => {
                numbers.iter().map(|number| f64::from(*number)).sum::<f64>() / numbers.len() as f64
            }
        }
    }

    /// The most that is drawn; none where there is no such bound.
    pub fn most(&self) -> Option<u32> {
        match self {
            Self::Constant(number) => Some(*number),
            Self::Uniform(between) => Some(between.max),
            Self::List(Listed(numbers)) => numbers.iter().copied().max(),
            Self::Normal(_) | Self::LogNormal(_) | Self::Geometric(_) => None,
        }
    }

    /// Whether nothing but 0 is drawn.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Constant(0))
    }
}

fn normal(mean: f64, stdev: f64) -> rand_distr::Normal<f64> {
    rand_distr::Normal::new(mean, stdev).expect("the numbers are finite")
}

/// Rounded towards zero, and kept within what there is.
fn whole(drawn: f64) -> u32 {
    // A cast from floating point does just that.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let number = drawn as u32;
    number
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn drawn(text: &str) -> Vec<u32> {
        let distribution: Distribution = serde_json::from_str(text).expect("a distribution");
        let mut generator = ChaCha8Rng::seed_from_u64(1);
        let mut drawn: Vec<_> = (0..10_001).map(|_| distribution.draw(&mut generator)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn what_is_drawn_is_as_it_says() {
        // The least, the median and the greatest of 10,001.
        for (text, least, median, greatest) in [
            (r#"{"constant": 7}"#, 7..=7, 7..=7, 7..=7),
            (r#"{"uniform": {"min": 2, "max": 4}}"#, 2..=2, 3..=3, 4..=4),
            (r#"{"normal": {"mean": 16, "stdev": 8}}"#, 0..=0, 15..=16, 38..=60),
            (r#"{"log-normal": {"median": 10, "sigma": 1}}"#, 0..=1, 9..=10, 200..=2000),
            (r#"{"geometric": {"mean": 5}}"#, 1..=1, 3..=4, 30..=90),
            (r#"{"list": [1, 1, 1, 90]}"#, 1..=1, 1..=1, 90..=90),
        ] {
            let drawn = drawn(text);
            let seen = (drawn[0], drawn[5000], drawn[10_000]);
            assert!(
                least.contains(&seen.0) && median.contains(&seen.1) && greatest.contains(&seen.2),
                "{text} {seen:?}"
            );
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_rejected() {
        for (text, expected) in [
            (r#"{"uniform": {"min": 5, "max": 4}}"#, "min 5 is above max 4"),
            (r#"{"log-normal": {"median": 0, "sigma": 1}}"#, "the median 0 is not"),
            (r#"{"log-normal": {"median": 1, "sigma": -1}}"#, "the sigma -1 is not"),
            (r#"{"geometric": {"mean": 0.5}}"#, "the mean 0.5 is not"),
            (r#"{"list": []}"#, "the list is empty"),
        ] {
            let error = serde_json::from_str::<Distribution>(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
