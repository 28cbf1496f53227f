//! What thresholds are judged by: the values that they are of, in the parts of a run that they are of.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Sample, Second, Times,
    series::{Counted, Interval, Packed},
};
use workload::{
    event::Nanos,
    model::Statistics,
    scenario::{GROWTH_LEAST, Kind, Measure, PartOfRun, Scenario, Scope, Statistic, Threshold},
};

/// The parts of the load that thresholds are of, each once.
pub(super) fn parts_of(scenario: &Scenario) -> Vec<Scope> {
    let mut parts = Vec::new();
    for (scope, _) in scenario.thresholds() {
        if scope != Scope::Run && !parts.contains(&scope) {
            parts.push(scope);
        }
    }
    parts
}

/// What a threshold came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The threshold's words.
    #[schemars(with = "String")]
    pub threshold: Threshold,
    /// The population whose requests it is of, where it is a population's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub population: String,
    /// What was measured: of several windows the value that was worst. Null where nothing was, or where it was infinite.
    pub value: Option<f64>,
    /// In what the value is: us, `per_second`, percent, bytes, `bytes_per_hour` or number.
    pub unit: String,
    /// When the window of that value began, in seconds since the run began, where the threshold is of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<u64>,
    /// Whether anything was measured.
    pub measured: bool,
    /// Whether it was missed.
    pub missed: bool,
    /// Whether it ended the run.
    pub ended_the_run: bool,
}

/// The thresholds of a run, with what was measured so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    all: Vec<Gauge>,
    last: Option<Sample>,
    /// Seconds that some thread has left, and others may not have left so far.
    held: Vec<Second>,
    /// The first second in which no load begins any more; none where that is not known.
    load_ends: Option<u64>,
}

/// After so many seconds no thread leaves one any more that is over, unless it was kept from running.
const LEFT_WITHIN_S: u64 = 3;

#[derive(Clone, Debug)]
struct Gauge {
    threshold: Threshold,
    population: String,
    /// Its place in the parts of a second; none where it is of all.
    part: Option<usize>,
    /// By the number of the window, from 0; the last ones of several.
    sums: BTreeMap<u64, Sum>,
    /// The worst value of the windows that are over, and which window it was.
    worst: Option<(f64, u64)>,
    ended_the_run: bool,
}

/// What a threshold needs of a window.
#[derive(Clone, Debug, Default)]
struct Sum {
    counted: Counted,
    times: Option<Box<Times>>,
    not_good: Option<Box<Times>>,
    level: Level,
    /// The sums of what rose, and of what it is a share of.
    rose: f64,
    of: f64,
}

/// Values that were looked at each second.
#[derive(Clone, Debug, Default)]
struct Level {
    count: f64,
    sum: f64,
    max: f64,
    /// For the line through them, with times in hours since the first one.
    began: Option<Nanos>,
    last: Nanos,
    first: f64,
    t: f64,
    tt: f64,
    ty: f64,
}

impl Level {
    #[expect(clippy::cast_precision_loss)]
    fn add(&mut self, at: Nanos, value: u64) {
        let value = value as f64;
        if self.began.is_none() {
            self.first = value;
        }
        let hours = at.saturating_sub(*self.began.get_or_insert(at)) as f64 / 3.6e12;
        self.last = at;
        self.count += 1.0;
        self.sum += value;
        self.max = self.max.max(value);
        self.t += hours;
        self.tt += hours * hours;
        // From the first value on, because small differences of large numbers would be lost.
        self.ty += hours * (value - self.first);
    }

    /// The slope of the line through the values, in an hour; none where they are too few.
    fn growth(&self) -> Option<f64> {
        let lasted = Duration::from_nanos(self.last.saturating_sub(self.began?));
        // The first and the last look are up to a second away from a window's ends.
        if lasted + Duration::from_secs(2) < GROWTH_LEAST {
            return None;
        }
        let y = self.sum - self.first * self.count;
        let spread = self.count * self.tt - self.t * self.t;
        (spread > 0.0).then(|| (self.count * self.ty - self.t * y) / spread)
    }
}

impl Gauges {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let parts = parts_of(scenario);
        let gauge = |(scope, threshold): (Scope, &Threshold)| {
            let own = match scope {
                Scope::Population(place) => scenario.populations.get(place),
                _ => None,
            };
            let own = own.filter(|population| population.fail_if.contains(threshold));
            Gauge {
                threshold: threshold.clone(),
                population: own.map(|population| population.name.clone()).unwrap_or_default(),
                part: parts.iter().position(|part| *part == scope),
                sums: BTreeMap::new(),
                worst: None,
                ended_the_run: false,
            }
        };
        let ends: Option<Vec<_>> = scenario.populations.iter().map(|population| population.load.ends()).collect();
        let load_ends = ends.filter(|_| scenario.phases.is_empty()).and_then(|ends| ends.into_iter().max());
        Self {
            all: scenario.thresholds().into_iter().map(gauge).collect(),
            load_ends: load_ends.map(|ends| ends.as_secs()),
            ..Self::default()
        }
    }

    /// Takes in a second of a run that goes on, when all threads have left it.
    pub(crate) fn hold(&mut self, second: Second) {
        if !self.all.is_empty() {
            self.held.push(second);
        }
    }

    /// Takes in the seconds before this one.
    fn release_before(&mut self, seconds: u64) {
        let over: Vec<_> = self.held.extract_if(.., |second| second.number < seconds).collect();
        for second in &over {
            self.second(second);
        }
    }

    /// Judges the windows that are over, where nothing comes any more that happened before this second.
    pub(crate) fn close_before(&mut self, seconds: u64) {
        for gauge in &mut self.all {
            gauge.close_before(seconds, self.load_ends);
        }
    }

    /// Takes in a second.
    pub(crate) fn second(&mut self, second: &Second) {
        for gauge in &mut self.all {
            let interval = match gauge.part {
                Some(part) => second.parts.get(part),
                None => Some(&second.interval),
            };
            // What is known beside the threads' seconds has no parts.
            let Some(interval) = interval else { continue };
            let measure = gauge.threshold.measure;
            if let Some(sum) = gauge.sum_at(second.number) {
                sum.interval(measure, second.number, interval);
            }
        }
    }

    /// Takes in a look, which is at the end of a second.
    pub(crate) fn sample(&mut self, sample: &Sample) {
        let second = sample.at.saturating_sub(500_000_000) / 1_000_000_000;
        for gauge in &mut self.all {
            let measure = gauge.threshold.measure;
            if let Some(sum) = gauge.sum_at(second) {
                sum.look(measure, self.last.as_ref(), sample);
            }
        }
        self.last = Some(*sample);
    }

    /// Judges what is known when so many seconds are over. Whether a threshold that ends the run is missed.
    pub(crate) fn abort(&mut self, seconds: u64) -> bool {
        self.release_before(seconds);
        let mut aborts = false;
        for gauge in &mut self.all {
            if gauge.threshold.aborts {
                gauge.close_before(seconds, self.load_ends);
                aborts |= gauge.is_to_abort(seconds);
            } else {
                gauge.close_before(seconds.saturating_sub(LEFT_WITHIN_S), self.load_ends);
            }
        }
        aborts
    }

    /// What the thresholds came to in a run that took so long.
    pub(crate) fn conclude(mut self, elapsed: Duration) -> Vec<Found> {
        self.release_before(u64::MAX);
        let load_ends = self.load_ends;
        self.all.into_iter().map(|gauge| gauge.found(elapsed, load_ends)).collect()
    }
}

impl Gauge {
    /// Where a second is added up; nowhere where the threshold is not of it.
    fn sum_at(&mut self, second: u64) -> Option<&mut Sum> {
        let window = match self.threshold.window {
            PartOfRun::Span { from, until } => {
                (second >= from && until.is_none_or(|until| second < until)).then_some(0)?
            }
            // What comes when its window was judged counts in the next one.
            PartOfRun::Each(length) => (second / length).max(self.first_open()),
        };
        Some(self.sums.entry(window).or_default())
    }

    /// The first window that is not judged.
    fn first_open(&self) -> u64 {
        self.sums.keys().next().copied().unwrap_or_default()
    }

    fn take_in(&mut self, value: Option<f64>, window: u64) {
        let Some(value) = value else { return };
        let is_worse = |(worst, _)| self.threshold.worse_of(value, worst).total_cmp(&worst).is_ne();
        if self.worst.is_none_or(is_worse) {
            self.worst = Some((value, window));
        }
    }

    /// Judges the windows that are over.
    fn close_before(&mut self, seconds: u64, load_ends: Option<u64>) {
        let PartOfRun::Each(length) = self.threshold.window else { return };
        let lasted = Duration::from_secs(length);
        // When no load begins any more, little of everything is no wonder.
        let counts = load_ends.filter(|_| !self.threshold.is_above()).map_or(u64::MAX, |ends| ends / length);
        let (mut window, open) = (self.first_open(), (seconds / length).min(counts));
        while window < open {
            if let Some(sum) = self.sums.remove(&window) {
                self.take_in(sum.value(&self.threshold, lasted), window);
                window += 1;
            } else {
                // A window in which nothing happened is one, too; several in a row are like one.
                self.take_in(Sum::default().value(&self.threshold, lasted), window);
                window = self.sums.keys().next().map_or(open, |next| open.min(*next)).max(window + 1);
            }
        }
        self.sums.entry(window).or_default();
    }

    /// Judges the last window, which the run's end cut short: that little happened in it says nothing, and nor does a rate.
    fn close_last(&mut self) {
        let PartOfRun::Each(_) = self.threshold.window else { return };
        let says_something = self.threshold.is_above() && self.threshold.measure.kind() != Kind::Rate;
        while let Some((window, sum)) = self.sums.pop_first() {
            let value = if says_something { sum.value(&self.threshold, Duration::ZERO) } else { None };
            self.take_in(value, window);
        }
    }

    fn is_to_abort(&mut self, seconds: u64) -> bool {
        if self.ended_the_run {
            return true;
        }
        let value = match self.threshold.window {
            PartOfRun::Each(_) => self.worst.map(|(worst, _)| worst),
            PartOfRun::Span { .. } => self.value_of_the_span(Duration::from_secs(seconds)),
        };
        self.ended_the_run = value.is_some_and(|value| self.threshold.is_missed_by(value));
        self.ended_the_run
    }

    fn value_of_the_span(&self, elapsed: Duration) -> Option<f64> {
        let PartOfRun::Span { from, until } = self.threshold.window else { return None };
        let end = until.map_or(elapsed, |until| elapsed.min(Duration::from_secs(until)));
        let lasted = end.checked_sub(Duration::from_secs(from))?;
        let nothing = Sum::default();
        self.sums.get(&0).unwrap_or(&nothing).value(&self.threshold, lasted)
    }

    fn found(mut self, elapsed: Duration, load_ends: Option<u64>) -> Found {
        self.close_before(elapsed.as_secs(), load_ends);
        self.close_last();
        let span = self.value_of_the_span(elapsed);
        self.take_in(span, 0);
        let Self { threshold, population, worst, ended_the_run, .. } = self;
        let length = match threshold.window {
            PartOfRun::Each(length) => Some(length),
            PartOfRun::Span { .. } => None,
        };
        Found {
            population,
            value: worst.map(|(value, _)| value).filter(|value| value.is_finite()),
            unit: threshold.unit_name().to_owned(),
            at_s: worst.zip(length).map(|((_, window), length)| window * length),
            measured: worst.is_some(),
            missed: worst.is_some_and(|(value, _)| threshold.is_missed_by(value)) || ended_the_run,
            ended_the_run,
            threshold,
        }
    }
}

impl Sum {
    fn interval(&mut self, measure: Measure, second: u64, interval: &Interval) {
        self.counted.add(&interval.counted);
        let add = |to: &mut Option<Box<Times>>, packed: &Packed| {
            if !packed.is_empty() {
                to.get_or_insert_default().add(&packed.times());
            }
        };
        let times = &interval.times;
        match measure {
            Measure::Step => add(&mut self.times, &times.step),
            Measure::GoodStep => {
                add(&mut self.times, &times.step);
                add(&mut self.not_good, &times.not_good);
            }
            Measure::Sequence => add(&mut self.times, &times.sequence),
            Measure::WaitForSlot => add(&mut self.times, &times.slot),
            Measure::FirstResponse => add(&mut self.times, &times.first_response),
            Measure::ClientLate => add(&mut self.times, &times.late),
            Measure::LiveSequences => {
                if let Some(live) = interval.offered.live {
                    self.level.add((second + 1) * 1_000_000_000, live);
                }
            }
            _ => {}
        }
    }

    fn look(&mut self, measure: Measure, before: Option<&Sample>, now: &Sample) {
        let level = match measure {
            Measure::InFlight => Some(now.in_flight),
            Measure::StartsWaiting => Some(now.starts_waiting),
            Measure::Pending => now.pending,
            Measure::ServerMemory => now.server_memory,
            Measure::ClientMemory => now.client_memory,
            _ => None,
        };
        if let Some(value) = level {
            self.level.add(now.at, value);
        }
        let rose = before.and_then(|before| rose(measure, before, now));
        if let Some((rose, of)) = rose {
            self.rose += rose;
            self.of += of;
        }
    }

    /// The value of a window that lasted so long; none where nothing was measured.
    #[expect(clippy::cast_precision_loss)]
    fn value(&self, threshold: &Threshold, lasted: Duration) -> Option<f64> {
        let Counted { responses, good, lost, sequences, .. } = self.counted;
        let rate = |count: u64| (!lasted.is_zero()).then(|| count as f64 / lasted.as_secs_f64());
        match threshold.measure {
            Measure::Step | Measure::Sequence | Measure::WaitForSlot | Measure::FirstResponse | Measure::ClientLate => {
                self.times.as_ref().map(|times| of_times(times, threshold.statistic))
            }
            Measure::GoodStep => self.good_step(threshold.statistic),
            Measure::Throughput => rate(responses),
            Measure::Goodput => rate(good),
            Measure::Sequences => rate(sequences),
            Measure::NotGood => {
                let all = responses + lost;
                (all > 0).then(|| 100.0 * (all - good.min(all)) as f64 / all as f64)
            }
            Measure::InFlight
            | Measure::StartsWaiting
            | Measure::LiveSequences
            | Measure::Pending
            | Measure::ServerMemory
            | Measure::ClientMemory => {
                if self.level.count == 0.0 {
                    return None;
                }
                match threshold.statistic {
                    Statistic::Growth => self.level.growth(),
                    Statistic::Mean => Some(self.level.sum / self.level.count),
                    _ => Some(self.level.max),
                }
            }
            Measure::ServerCpu
            | Measure::ClientCpu
            | Measure::ServerQueue
            | Measure::ServerCompute
            | Measure::MeanBatch => (self.of > 0.0).then(|| self.rose / self.of),
        }
    }

    /// A percentile of steps, where what is not good is infinitely slow.
    #[expect(clippy::cast_precision_loss)]
    fn good_step(&self, statistic: Statistic) -> Option<f64> {
        let quantile = match statistic {
            Statistic::Quantile(quantile) => quantile,
            _ => 1.0,
        };
        let Counted { responses, good, lost, .. } = self.counted;
        if responses + lost == 0 {
            return None;
        }
        let share = quantile * (responses + lost) as f64 / good as f64;
        // All of them may be just that share.
        if good == 0 || share > 1.0 + 1e-12 {
            return Some(f64::INFINITY);
        }
        let times = self.times.as_ref()?;
        let without = self.not_good.as_ref().map(|not_good| times.without(not_good));
        Some(without.as_ref().unwrap_or(times).at_quantile_us(share.min(1.0)) as f64)
    }
}

#[expect(clippy::cast_precision_loss)]
fn of_times(times: &Times, statistic: Statistic) -> f64 {
    match statistic {
        Statistic::Mean => times.mean_us(),
        Statistic::Quantile(quantile) => times.at_quantile_us(quantile) as f64,
        _ => times.max_us() as f64,
    }
}

/// What rose between two looks, and what it is a share of. A server that was started anew counts from 0, and tells nothing.
#[expect(clippy::cast_precision_loss)]
fn rose(measure: Measure, before: &Sample, now: &Sample) -> Option<(f64, f64)> {
    let passed_us = now.at.saturating_sub(before.at) as f64 / 1000.0;
    let percent = |before: u64, now: u64| Some((100.0 * now.checked_sub(before)? as f64, passed_us));
    let statistics = || Some((before.statistics?, now.statistics?));
    let counted = |of: fn(&Statistics) -> u64, by: fn(&Statistics) -> u64, scale: f64| {
        let (before, now) = statistics()?;
        let rose = of(&now).checked_sub(of(&before))?;
        Some((rose as f64 / scale, by(&now).checked_sub(by(&before))? as f64))
    };
    match measure {
        Measure::ClientCpu => percent(before.client_cpu_us, now.client_cpu_us),
        Measure::ServerCpu => percent(before.server_cpu_us?, now.server_cpu_us?),
        Measure::ServerQueue => counted(|its| its.spent.queue_ns, |its| its.counted.success, 1000.0),
        Measure::ServerCompute => counted(|its| its.spent.compute_ns(), |its| its.counted.success, 1000.0),
        Measure::MeanBatch => counted(|its| its.counted.inference, |its| its.counted.execution, 1.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
