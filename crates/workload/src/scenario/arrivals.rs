//! When iterations begin that do not wait for each other: an open loop.

use std::{fmt, str::FromStr, time::Duration};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::Exp1;
use serde::{Deserialize, Serialize};

use super::{Load, Millis};
use crate::{event::Nanos, seed::Seed, share::Share, time};

/// The most iterations that begin in a second: more is a slip of the finger.
const PER_SECOND_MAX: f64 = 1e6;
/// In what time a rate is told, and how many seconds that is.
const UNITS: &[(&str, f64)] = &[("s", 1.0), ("min", 60.0), ("h", 3600.0)];
/// The longest stage.
const STAGE_MAX: Duration = Duration::from_millis(Millis::MAX);
/// The most stages.
const STAGES_MAX: usize = 100;

/// How many iterations begin in a second, in stages that follow one another. As a text: `200/s`, `10..500/s:2m` or
/// `10/s:30s,20/s:30s`. Only the last stage may have no time, and goes on to the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(Vec<Stage>);

/// A time in which the rate stays as it is, or rises or falls evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stage {
    /// Iterations in a second, at its beginning and at its end.
    from: f64,
    to: f64,
    /// None where it goes on to the end of the run.
    lasts: Option<Duration>,
}

table! {
    /// How iterations are spread over the time that a rate gives them.
    #[derive(Default)]
    pub enum Arrivals {
        /// At equal distances.
        #[default]
        Constant = "constant";
        /// As those of many clients that know nothing of each other: a Poisson process.
        Poisson = "poisson";
    }
}

impl Stage {
    /// How many iterations it begins, on average.
    fn expected(&self) -> f64 {
        self.lasts.map_or(f64::INFINITY, |lasts| f64::midpoint(self.from, self.to) * lasts.as_secs_f64())
    }

    /// After how many seconds it has begun so many, which is no more than it begins in all.
    fn reached(&self, count: f64) -> f64 {
        // The rate's change in a second.
        let slope = self.lasts.map_or(0.0, |lasts| (self.to - self.from) / lasts.as_secs_f64());
        // The root of `from t + slope t²/2 = count` in a form that stays exact where the slope or the first rate is 0.
        let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
        if count > 0.0 { 2.0 * count / (self.from + root) } else { 0.0 }
    }
}

impl Rate {
    /// The same rate multiplied: a part of the load, or several times of it.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let stage = |stage: &Stage| Stage { from: stage.from * factor, to: stage.to * factor, ..*stage };
        Self(self.0.iter().map(stage).collect())
    }

    /// How long its stages are together; none where the last one goes on.
    pub fn lasts(&self) -> Option<Duration> {
        self.0.iter().map(|stage| stage.lasts).sum()
    }

    /// After how many seconds it has begun so many iterations; none where it never does.
    fn reached(&self, mut count: f64) -> Option<f64> {
        let mut before = 0.0;
        for stage in &self.0 {
            if count < stage.expected() {
                return Some(before + stage.reached(count));
            }
            count -= stage.expected();
            before += stage.lasts?.as_secs_f64();
        }
        None
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Stage { from, to, lasts }) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            // In the first unit in which it is a short number.
            let mut units = UNITS.iter().filter_map(|(unit, seconds)| {
                let [whole_from, whole_to] = [from, to].map(|rate| (rate * seconds * 1e9).round() / 1e9);
                let is_exact = [(whole_from, from), (whole_to, to)]
                    .iter()
                    .all(|(text, rate)| (text / seconds).total_cmp(rate).is_eq());
                is_exact.then_some((whole_from, whole_to, *unit))
            });
            let (from, to, unit) = units.next().unwrap_or((*from, *to, "s"));
            write!(f, "{comma}{from}")?;
            if from.total_cmp(&to).is_ne() {
                write!(f, "..{to}")?;
            }
            write!(f, "/{unit}")?;
            if let Some(lasts) = lasts {
                write!(f, ":{}", time::text(*lasts))?;
            }
        }
        Ok(())
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(',') && text.split(',').any(|stage| stage.trim().is_empty()) {
            return Err(format!("'{text}': a comma stands between two stages"));
        }
        let stages = text.split(',').map(str::trim).map(stage).collect::<Result<Vec<_>, _>>()?;
        let (_, before) = stages.split_last().expect("a text has a first part");
        if before.iter().any(|stage| stage.lasts.is_none()) {
            return Err(format!("'{text}': each stage but the last needs a time, such as 10/s:30s"));
        }
        if stages.len() > STAGES_MAX {
            return Err(format!("a rate has at most {STAGES_MAX} stages"));
        }
        Ok(Self(stages))
    }
}

fn stage(text: &str) -> Result<Stage, String> {
    let wrong = || format!("'{text}' is no rate such as 200/s, 30/min, 10..500/s:2m or 10/s:30s,20/s:30s");
    let (rates, rest) = text.split_once('/').ok_or_else(wrong)?;
    let (unit, lasts) = rest.split_once(':').map_or((rest, None), |(unit, lasts)| (unit, Some(lasts)));
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let per_second = |rate: &str| rate.trim().parse::<f64>().map(|rate| rate / seconds).map_err(|_| wrong());
    let (from, to) = (per_second(from)?, per_second(to)?);
    if [from, to].iter().any(|rate| !(0.0..=PER_SECOND_MAX).contains(rate)) || from + to <= 0.0 {
        return Err(format!("'{text}': a rate has to be above 0, and at most {PER_SECOND_MAX} a second"));
    }
    let lasts = lasts.map(|lasts| humantime::parse_duration(lasts.trim()).map_err(|_| wrong())).transpose()?;
    match lasts {
        Some(lasts) if lasts.is_zero() => Err(format!("'{text}': the stage has no time")),
        Some(lasts) if lasts > STAGE_MAX => Err(format!("'{text}': a stage lasts a year at most")),
        None if from.total_cmp(&to).is_ne() => {
            Err(format!("'{text}': a rate that changes needs a time, such as {rates}/s:2m"))
        }
        lasts => Ok(Stage { from, to, lasts }),
    }
}

/// When each iteration of a population is due, one after the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    rate: Rate,
    arrivals: Arrivals,
    generator: ChaCha8Rng,
    /// How many iterations the rate begins on average until the next one is due.
    expected: f64,
    taken: u64,
    most: Option<u64>,
    end: Option<Duration>,
    share: Share,
}

impl Schedule {
    /// The schedule of the population with this index; none where its iterations follow one another.
    pub fn of(load: &Load, seed: Seed, population: u32) -> Option<Self> {
        let rate = load.rate.clone()?;
        let (arrivals, most) = (load.arrivals, load.iterations.map(std::num::NonZero::get));
        let generator = seed.of_arrivals(population);
        let mut schedule =
            Self { end: load.ends(), rate, arrivals, generator, expected: 0.0, taken: 0, most, share: Share::WHOLE };
        schedule.expected = match arrivals {
            Arrivals::Constant => 0.0,
            Arrivals::Poisson => schedule.distance(),
        };
        Some(schedule)
    }

    /// Those of its iterations that fall to one process.
    #[must_use]
    pub fn shared(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// How many iterations the rate begins on average between one and the next.
    fn distance(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => self.generator.sample(Exp1),
        }
    }

    /// When the next iteration of all processes is due.
    fn next_of_all(&mut self) -> Option<Nanos> {
        if self.most.is_some_and(|most| self.taken >= most) {
            return None;
        }
        let due = Duration::try_from_secs_f64(self.rate.reached(self.expected)?).ok()?;
        if self.end.is_some_and(|end| due >= end) {
            return None;
        }
        self.taken += 1;
        self.expected += self.distance();
        u64::try_from(due.as_nanos()).ok()
    }

    /// How many iterations are still due before this time, up to so many.
    pub fn left(self, until: Duration, most: usize) -> usize {
        self.take_while(|due| u128::from(*due) < until.as_nanos()).take(most).count()
    }
}

impl Iterator for Schedule {
    type Item = Nanos;

    /// When the next iteration is due, since the load began.
    fn next(&mut self) -> Option<Nanos> {
        let Share { rank, of } = self.share;
        while self.taken % u64::from(of.get()) != u64::from(rank) {
            self.next_of_all()?;
        }
        self.next_of_all()
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;

    fn load(rate: &str, arrivals: Arrivals) -> Load {
        Load {
            workers: NonZeroU32::MIN,
            iterations: None,
            duration_s: None,
            rate: Some(rate.parse().expect("a rate")),
            arrivals,
            step_interval_ms: None,
            step_jitter_ms: None,
        }
    }

    fn schedule(load: &Load) -> Schedule {
        Schedule::of(load, Seed(7), 0).expect("a rate")
    }

    fn ms(due: impl Iterator<Item = Nanos>) -> Vec<u64> {
        due.map(|due| due / 1_000_000).collect()
    }

    #[test]
    fn a_constant_rate_has_equal_distances() {
        assert_eq!(ms(schedule(&load("4/s", Arrivals::Constant)).take(5)), [0, 250, 500, 750, 1000]);
        assert_eq!(ms(schedule(&load("30/min:10s", Arrivals::Constant))), [0, 2000, 4000, 6000, 8000]);
        assert_eq!(schedule(&load("4/s", Arrivals::Constant)).left(Duration::from_secs(1), 3), 3);
        // It ends with whichever comes first.
        let two = NonZeroU64::new(2);
        assert_eq!(ms(schedule(&Load { iterations: two, ..load("4/s", Arrivals::Constant) })), [0, 250]);
        assert_eq!(
            schedule(&Load { duration_s: two, ..load("4/s", Arrivals::Constant) }).left(Duration::from_secs(9), 100),
            8
        );
        assert_eq!(
            schedule(&Load { duration_s: two, ..load("4/s:1s", Arrivals::Constant) }).left(Duration::from_secs(9), 100),
            4
        );
    }

    #[test]
    fn processes_share_the_iterations_of_one_schedule() {
        let load = Load { iterations: NonZeroU64::new(100), ..load("1000/s", Arrivals::Poisson) };
        let of = NonZeroU32::new(3).expect("not zero");
        let mut all: Vec<_> = (0..3).flat_map(|rank| schedule(&load).shared(Share { rank, of })).collect();
        all.sort_unstable();
        assert_eq!(all, schedule(&load).collect::<Vec<_>>());
    }

    #[test]
    fn stages_ramp_and_step() {
        // 0 to 10 in 2 s are 10: the k-th is due after the root of 4k/10 seconds.
        let ramp = ms(schedule(&load("0..10/s:2s", Arrivals::Constant)));
        assert_eq!(ramp, [0, 632, 894, 1095, 1264, 1414, 1549, 1673, 1788, 1897]);
        let down = ms(schedule(&load("10..0/s:2s", Arrivals::Constant)));
        assert_eq!((down.len(), down[1], down[9]), (10, 102, 1367));
        assert_eq!(
            ms(schedule(&load("2/s:1s,4/s:1s,1/s", Arrivals::Constant)).take(8)),
            [0, 500, 1000, 1250, 1500, 1750, 2000, 3000]
        );
    }

    #[test]
    fn a_poisson_process_has_its_rate_and_the_spread_of_its_distances() {
        let due: Vec<_> = schedule(&load("1000/s:100s", Arrivals::Poisson)).collect();
        assert!((99_000..101_000).contains(&due.len()), "{}", due.len());
        let distances = due.windows(2).map(|two| two[1].saturating_sub(two[0]));
        // A share of 1/e of them is longer than their mean.
        let long = distances.filter(|distance| *distance > 1_000_000).count();
        assert!((36_000..37_600).contains(&long), "{long}");
        assert!(due.is_sorted());
        // Each population has its own, and a seed draws the same again.
        let load = load("1000/s", Arrivals::Poisson);
        let [one, again, other] = [0, 0, 1].map(|population| Schedule::of(&load, Seed(7), population)?.nth(9));
        assert!(one == again && one != other, "{one:?} {again:?} {other:?}");
    }

    #[test]
    fn rates_are_read_and_written() {
        for text in [
            "200/s",
            "0.5/s",
            "1/min",
            "7/h",
            "0.25..20/s:1m",
            "200/min",
            "3.1415926535897/s",
            "10..500/s:2m",
            "10/s:30s,20..5/s:1m30s,7/s",
        ] {
            assert_eq!(text.parse::<Rate>().expect("a rate").to_string(), text);
        }
        let rate: Rate = "10..500/s:2m,500/s".parse().expect("a rate");
        assert_eq!(rate.times(0.5).to_string(), "5..250/s:2m,250/s");
        assert_eq!(
            (rate.lasts(), "1/s:5s,2/s:6s".parse::<Rate>().expect("a rate").lasts()),
            (None, Some(Duration::from_secs(11)))
        );
    }

    #[test]
    fn what_is_no_rate_is_told() {
        for (text, expected) in [
            ("", "'' is no rate such as 200/s"),
            ("200", "'200' is no rate such as 200/s"),
            ("200/d", "is no rate"),
            ("x/s", "is no rate"),
            ("10/s:soon", "is no rate"),
            ("0/s", "a rate has to be above 0"),
            ("0..0/s:1s", "a rate has to be above 0"),
            ("-5/s", "a rate has to be above 0"),
            ("NaN/s", "a rate has to be above 0"),
            ("inf/s", "at most 1000000 a second"),
            ("1e9/s", "at most 1000000 a second"),
            ("1..5/s", "'1..5/s': a rate that changes needs a time, such as 1..5/s:2m"),
            ("5/s:0s", "the stage has no time"),
            ("5/s:10000000000000000000s", "a stage lasts a year at most"),
            ("5/s:1s,", "a comma stands between two stages"),
            ("5/s,6/s", "each stage but the last needs a time"),
        ] {
            let error = text.parse::<Rate>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
