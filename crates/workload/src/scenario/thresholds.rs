//! Thresholds such as `step.p99 > 50ms`: when a run fails although the server kept every rule.

mod checks;

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::checks::Scope;
use crate::sequence::Pattern;

/// The most thresholds of a scenario: each may have a histogram of its own.
const THRESHOLDS_MAX: usize = 100;
/// The longest time that a part of a run may have.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// Growth over less than this says nothing.
pub const GROWTH_LEAST: Duration = Duration::from_secs(60);

table! {
    /// What is measured of a run.
    pub enum Measure: Kind {
        /// From when a step was due, or else sent, to its response.
        Step = "step", Kind::Times;
        /// The same, where a request without a good response is infinitely slow.
        GoodStep = "good_step", Kind::Times;
        /// From when a sequence's first step was due or sent to the response to its last one.
        Sequence = "sequence", Kind::Times;
        /// From when a START was due or sent to its response.
        WaitForSlot = "wait_for_slot", Kind::Times;
        /// From when a START was due or sent to the first response to it, of which a decoupled model may give several.
        FirstResponse = "first_response", Kind::Times;
        /// How late the client sent steps that have times of their own.
        ClientLate = "client_late", Kind::Times;
        /// Responses in a second.
        Throughput = "throughput", Kind::Rate;
        /// Good responses in a second.
        Goodput = "goodput", Kind::Rate;
        /// Sequences begun in a second.
        Sequences = "sequences", Kind::Rate;
        /// The share of requests without a good response.
        NotGood = "not_good", Kind::Share;
        /// Requests without a response, looked at each second.
        InFlight = "in_flight", Kind::Level;
        /// STARTs without a response, looked at each second.
        StartsWaiting = "starts_waiting", Kind::Level;
        /// Sequences that are not over, looked at each second.
        LiveSequences = "live_sequences", Kind::Level;
        /// Requests pending in the server, looked at each second.
        Pending = "pending", Kind::Level;
        /// The server's memory, looked at each second.
        ServerMemory = "server_memory", Kind::Memory;
        /// The client's memory, looked at each second.
        ClientMemory = "client_memory", Kind::Memory;
        /// CPU time of the server's process, in percent of one core.
        ServerCpu = "server_cpu", Kind::Share;
        /// CPU time of the client's process, in percent of one core.
        ClientCpu = "client_cpu", Kind::Share;
        /// How long a request waited in the server, on average, as the server counts it.
        ServerQueue = "server_queue", Kind::Time;
        /// How long the model computed for a request, on average, as the server counts it.
        ServerCompute = "server_compute", Kind::Time;
        /// Inferences of an execution, on average.
        MeanBatch = "mean_batch", Kind::Number;
    }
}

/// What values a measure has, and so what can be said of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Many times, with percentiles.
    Times,
    /// A count in a second.
    Rate,
    /// A share in percent.
    Share,
    /// A count that is looked at each second.
    Level,
    /// Bytes that are looked at each second.
    Memory,
    /// One time.
    Time,
    /// One number.
    Number,
}

impl Measure {
    /// What values it has.
    pub fn kind(self) -> Kind {
        *self.row()
    }

    /// Whether it is known of each population and pattern.
    pub fn has_parts(self) -> bool {
        self.kind() == Kind::Times && self != Self::ClientLate || self.kind() == Kind::Rate || self == Self::NotGood
    }

    /// Whether the client alone measures it, so that a history shows it.
    pub fn is_of_events(self) -> bool {
        self.has_parts() || self == Self::ClientLate
    }
}

/// What is taken of a measure's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The one value that there is.
    Value,
    /// Their mean.
    Mean,
    /// The largest.
    Max,
    /// The value that this share of them, from 0 to 1, does not pass.
    Quantile(f64),
    /// By how much they rise in an hour.
    Growth,
}

/// In what a value is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Time,
    PerSecond,
    Percent,
    Bytes,
    BytesPerHour,
    Number,
}

const BYTES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
/// In hours.
const PER: &[(&str, f64)] = &[("/s", 3600.0), ("/min", 60.0), ("/h", 1.0)];

impl Unit {
    /// The value of a text such as `50ms`, in µs, a second, percent, bytes, bytes an hour, or as it stands.
    fn read(self, text: &str) -> Option<f64> {
        const TIMES: &[(&str, f64)] =
            &[("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6), ("min", 6e7), ("m", 6e7), ("h", 3.6e9)];
        const RATES: &[(&str, f64)] = &[("/s", 1.0), ("/min", 1.0 / 60.0), ("/h", 1.0 / 3600.0)];
        let behind = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(behind);
        let (number, unit) = (number.parse::<f64>().ok()?, unit.trim());
        let of = |units: &[(&str, f64)], unit: &str| units.iter().find(|(name, _)| *name == unit).map(|(_, its)| *its);
        let factor = match self {
            Self::Time => of(TIMES, unit)?,
            Self::PerSecond => of(RATES, unit)?,
            Self::Percent => of(&[("%", 1.0)], unit)?,
            Self::Bytes => of(BYTES, unit)?,
            Self::BytesPerHour => {
                let (bytes, per) = unit.split_at(unit.find('/')?);
                of(BYTES, bytes)? * of(PER, per)?
            }
            Self::Number => of(&[("", 1.0)], unit)?,
        };
        Some(number * factor)
    }

    fn example(self) -> &'static str {
        match self {
            Self::Time => "50ms",
            Self::PerSecond => "500/s",
            Self::Percent => "1%",
            Self::Bytes => "512MB",
            Self::BytesPerHour => "50MB/h",
            Self::Number => "4",
        }
    }

    fn shown(self, value: f64) -> String {
        if value.is_infinite() {
            return "infinite".to_owned();
        }
        match self {
            Self::Time => format!("{:.1} ms", value / 1e3),
            Self::PerSecond => format!("{value:.1}/s"),
            Self::Percent => format!("{value:.2} %"),
            Self::Bytes => format!("{:.1} MB", value / 1e6),
            Self::BytesPerHour => format!("{:.1} MB/h", value / 1e6),
            Self::Number => format!("{value:.1}"),
        }
    }

    /// Its name in files.
    fn name(self) -> &'static str {
        match self {
            Self::Time => "us",
            Self::PerSecond => "per_second",
            Self::Percent => "percent",
            Self::Bytes => "bytes",
            Self::BytesPerHour => "bytes_per_hour",
            Self::Number => "number",
        }
    }
}

/// Whose requests are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// All, or in a population its own.
    All,
    /// Those of the population with this name.
    Population(String),
    /// Those of a pattern.
    Pattern(Pattern),
}

/// Which part of the run is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// From a time on, in seconds since the run began, to another or to its end. The whole run is from 0 on.
    Span {
        /// When it begins.
        from: u64,
        /// When it ends; none where it ends with the run.
        until: Option<u64>,
    },
    /// Each part of so many seconds.
    Each(u64),
}

/// A threshold: what fails a run. As a text: `step.p99 > 50ms`, `goodput < 500/s during 10s..60s`,
/// `wait_for_slot.max of pattern no-end > 2s in any 10s abort`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Threshold {
    /// What is measured.
    pub measure: Measure,
    /// What of it.
    pub statistic: Statistic,
    /// Of whose requests.
    pub whose: Whose,
    /// In which part of the run.
    pub window: Window,
    /// Whether the run ends at once where it is missed.
    pub aborts: bool,
    /// Whether it is missed above the limit, and not below.
    is_above: bool,
    /// Whether the limit itself misses it.
    is_with_limit: bool,
    limit: f64,
    /// Its words.
    text: String,
}

impl Threshold {
    /// Whether this value misses it.
    pub fn is_missed_by(&self, value: f64) -> bool {
        match (self.is_above, self.is_with_limit) {
            (true, false) => value > self.limit,
            (true, true) => value >= self.limit,
            (false, false) => value < self.limit,
            (false, true) => value <= self.limit,
        }
    }

    /// Whether it is missed above its limit, and not below.
    pub fn is_above(&self) -> bool {
        self.is_above
    }

    /// The one of two values that is nearer to missing it, or misses it by more.
    pub fn worse_of(&self, one: f64, other: f64) -> f64 {
        if self.is_above { one.max(other) } else { one.min(other) }
    }

    /// A value of it in words, such as `61.2 ms`.
    pub fn shown(&self, value: f64) -> String {
        self.unit().shown(value)
    }

    /// In what values of it are told in files.
    pub fn unit_name(&self) -> &'static str {
        self.unit().name()
    }

    fn unit(&self) -> Unit {
        unit(self.measure, self.statistic)
    }
}

fn unit(measure: Measure, statistic: Statistic) -> Unit {
    match (measure.kind(), statistic) {
        (Kind::Times | Kind::Time, _) => Unit::Time,
        (Kind::Rate, _) => Unit::PerSecond,
        (Kind::Share, _) => Unit::Percent,
        (Kind::Memory, Statistic::Growth) => Unit::BytesPerHour,
        (Kind::Memory, _) => Unit::Bytes,
        (Kind::Level | Kind::Number, _) => Unit::Number,
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Threshold> for String {
    fn from(threshold: Threshold) -> Self {
        threshold.text
    }
}

impl TryFrom<String> for Threshold {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text).map_err(|problem| format!("'{text}': {problem}"))
    }
}

fn read(text: &str) -> Result<Threshold, String> {
    let at = text.find(['<', '>']).ok_or("it has neither < nor >, as in 'step.p99 > 50ms'")?;
    let (left, right) = text.split_at(at);
    let is_above = right.starts_with('>');
    let right = &right[1..];
    let is_with_limit = right.starts_with('=');
    let right = right.strip_prefix('=').unwrap_or(right);
    let mut left = left.split_whitespace();
    let (measure, statistic) =
        measured(left.next().ok_or("it does not say what is measured, as in 'step.p99 > 50ms'")?)?;
    let whose = whose(measure, &left.collect::<Vec<_>>())?;
    let words: Vec<_> = right.split_whitespace().collect();
    if words.contains(&"of") {
        return Err("'of …' stands before the operator, as in 'step.p99 of pattern valid > 50ms'".to_owned());
    }
    let behind = words.iter().position(|word| ["during", "in", "abort"].contains(word)).unwrap_or(words.len());
    let (limit, rest) = words.split_at(behind);
    let unit = unit(measure, statistic);
    let limit_text = limit.concat();
    let wanted = || format!("'{limit_text}' is no limit for it, such as {}", unit.example());
    let limit = unit.read(&limit_text).filter(|limit| limit.is_finite()).ok_or_else(wanted)?;
    let (aborts, rest) = match rest.split_last() {
        Some((&"abort", rest)) => (true, rest),
        _ => (false, rest),
    };
    let window = window(rest)?;
    let length = match window {
        Window::Span { from, until } => until.map(|until| until - from),
        Window::Each(seconds) => Some(seconds),
    };
    if statistic == Statistic::Growth && length.is_some_and(|length| length < GROWTH_LEAST.as_secs()) {
        return Err("growth shows in a minute or more".to_owned());
    }
    let operator = text[at..].split_at(1 + usize::from(is_with_limit)).0;
    let words = [text[..at].split_whitespace().collect(), vec![operator, &limit_text], words[behind..].to_vec()];
    let text = words.concat().join(" ");
    Ok(Threshold { measure, statistic, whose, window, aborts, is_above, is_with_limit, limit, text })
}

fn measured(text: &str) -> Result<(Measure, Statistic), String> {
    let (name, statistic) = text.split_once('.').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let measure = Measure::named(name)
        .ok_or_else(|| format!("'{name}' is not measured; these are: {}", Measure::NAMES.join(", ")))?;
    let growth = if measure.kind() == Kind::Memory { ", growth" } else { "" };
    let of_many = match measure.kind() {
        Kind::Times if measure == Measure::GoodStep => Some("max and percentiles such as p50 or p99.9".to_owned()),
        Kind::Times => Some("mean, max and percentiles such as p50 or p99.9".to_owned()),
        Kind::Level | Kind::Memory => Some(format!("mean, max{growth}")),
        _ => None,
    };
    let found = match (statistic, measure.kind()) {
        (None, Kind::Rate | Kind::Share | Kind::Time | Kind::Number) => Some(Statistic::Value),
        (Some("mean"), Kind::Times) if measure != Measure::GoodStep => Some(Statistic::Mean),
        (Some("mean"), Kind::Level | Kind::Memory) => Some(Statistic::Mean),
        (Some("max"), Kind::Times | Kind::Level | Kind::Memory) => Some(Statistic::Max),
        (Some("growth"), Kind::Memory) => Some(Statistic::Growth),
        (Some(other), Kind::Times) => quantile(other).map(Statistic::Quantile),
        _ => None,
    };
    let wanted = || match of_many {
        Some(of_many) => format!("{name} has {of_many}, as in {name}.max"),
        None => format!("{name} is one value: leave out what stands behind the point"),
    };
    Ok((measure, found.ok_or_else(wanted)?))
}

/// The share that a percentile such as `p99.9` names.
fn quantile(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('p')?;
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    digits
        .parse()
        .ok()
        .filter(|percent| is_plain && *percent > 0.0 && *percent <= 100.0)
        .map(|percent: f64| percent / 100.0)
}

fn whose(measure: Measure, words: &[&str]) -> Result<Whose, String> {
    let whose = match words {
        [] => return Ok(Whose::All),
        ["of", "population", name @ ..] if !name.is_empty() => Whose::Population(name.join(" ")),
        ["of", "pattern", name] => Whose::Pattern(
            Pattern::named(name)
                .ok_or_else(|| format!("there is no pattern '{name}'; these are: {}", Pattern::NAMES.join(", ")))?,
        ),
        _ => {
            let words = words.join(" ");
            return Err(format!("'{words}' is neither 'of population NAME' nor 'of pattern NAME'"));
        }
    };
    if !measure.has_parts() {
        let with_parts: Vec<_> = Measure::ALL.iter().filter(|its| its.has_parts()).map(|its| its.name()).collect();
        return Err(format!(
            "{measure} is measured of the whole run alone; of a population or pattern are: {}",
            with_parts.join(", ")
        ));
    }
    Ok(whose)
}

fn window(words: &[&str]) -> Result<Window, String> {
    match words {
        [] => Ok(Window::Span { from: 0, until: None }),
        ["in", "any", length] => {
            let length = seconds(length)?;
            if length == 0 { Err("'in any' needs a second or more".to_owned()) } else { Ok(Window::Each(length)) }
        }
        ["during", span] => {
            let wanted = || format!("'{span}' is no part of a run, such as 10s..60s or 30s..");
            let (from, until) = span.split_once("..").ok_or_else(wanted)?;
            let from = seconds(from)?;
            let until = if until.is_empty() { None } else { Some(seconds(until)?) };
            if until.is_some_and(|until| until <= from) {
                return Err(format!("'{span}' ends before it begins"));
            }
            Ok(Window::Span { from, until })
        }
        _ => Err(format!("'{}' is neither 'during 10s..60s', nor 'in any 10s', nor 'abort'", words.join(" "))),
    }
}

fn seconds(text: &str) -> Result<u64, String> {
    let time = humantime::parse_duration(text).ok().filter(|time| time.subsec_nanos() == 0 && *time <= LONGEST);
    time.map(|time| time.as_secs()).ok_or_else(|| format!("'{text}' is not a time of whole seconds, such as 10s or 5m"))
}

#[cfg(test)]
mod tests;
