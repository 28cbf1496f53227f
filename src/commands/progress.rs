//! How far the run is: a bar on a terminal, a line every few seconds elsewhere.

use std::{
    collections::VecDeque,
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{report::counted, run::Progress};
use workload::scenario::{Load, Population, Scenario};

const LINE_EVERY: Duration = Duration::from_secs(5);
/// The rate that is shown is that of so long.
const RATE_OVER: Duration = Duration::from_secs(3);
/// The bar's length; it shows shares, not counts.
const PARTS: u64 = 1000;

/// What shows the progress.
#[derive(Debug)]
pub(super) enum Display {
    Bar(ProgressBar, Rate),
    Lines { next: Duration, rate: Rate },
    Nothing,
}

impl Display {
    pub(super) fn new(quiet: bool, verbose: bool) -> Self {
        if quiet {
            return Self::Nothing;
        }
        if verbose || !stderr().is_terminal() {
            return Self::Lines { next: LINE_EVERY, rate: Rate::default() };
        }
        // The bar gives way where the terminal has few columns.
        let style =
            ProgressStyle::with_template("{wide_bar} {msg}").expect("the template is right, as every run shows");
        Self::Bar(ProgressBar::new(PARTS).with_style(style), Rate::default())
    }

    pub(super) fn show(&mut self, scenario: &Scenario, progress: &Progress) {
        match self {
            Self::Bar(bar, rate) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
                bar.set_position((share_done(scenario, progress) * PARTS as f64) as u64);
                bar.set_message(in_short(scenario, progress, rate.now(progress)));
            }
            Self::Lines { next, rate } => {
                let rate = rate.now(progress);
                if progress.elapsed >= *next {
                    *next = progress.elapsed + LINE_EVERY;
                    let _ = writeln!(anstream::stderr(), "{}", describe(scenario, progress, rate));
                }
            }
            Self::Nothing => {}
        }
    }

    /// Lets `print` write lines without the bar in between.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        match self {
            Self::Bar(bar, _) => bar.suspend(print),
            Self::Lines { .. } | Self::Nothing => print(),
        }
    }

    pub(super) fn finish(&self) {
        if let Self::Bar(bar, _) = self {
            bar.finish_and_clear();
        }
    }
}

/// How much of the run is done, from 0 to 1: by count or by time, whichever is further.
#[expect(clippy::cast_precision_loss)]
fn share_done(scenario: &Scenario, progress: &Progress) -> f64 {
    let loads = || scenario.populations.iter().map(|population| &population.load);
    let iterations = |load: &Load| load.iterations.map(|each| each.get() as f64 * f64::from(load.workers.get()));
    // Where one has no count the time alone tells.
    let all: Option<f64> = loads().map(iterations).sum();
    // Where sequences of a million steps are among short ones few iterations are left when most of the run is: the steps tell more.
    let steps = |population: &Population| Some(iterations(&population.load)? * population.length.drawn.typical());
    let all_steps: Option<f64> = scenario.populations.iter().map(steps).sum();
    let by_passes = all.map_or(0.0, |all| progress.iterations as f64 / all);
    let by_steps = all_steps.map_or(0.0, |all| progress.requests as f64 / all);
    let by_count = if scenario.populations.len() > 1 { by_passes.min(by_steps) } else { by_passes };
    let seconds = loads().filter_map(|load| load.duration_s).max();
    let by_time = seconds.map_or(0.0, |seconds| progress.elapsed.as_secs_f64() / seconds.get() as f64);
    by_count.max(by_time).min(1.0)
}

/// How many requests are answered in a second, of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Rate(VecDeque<(Duration, u64)>);

impl Rate {
    /// The rate now.
    #[expect(clippy::cast_precision_loss)]
    fn now(&mut self, progress: &Progress) -> f64 {
        let since = progress.elapsed.saturating_sub(RATE_OVER);
        // The latest that is older stays, so that the time is covered.
        while self.0.get(1).is_some_and(|(at, _)| *at <= since) {
            self.0.pop_front();
        }
        // Before the run there was nothing.
        let (at, answered) = self.0.front().copied().filter(|_| !since.is_zero()).unwrap_or_default();
        self.0.push_back((progress.elapsed, progress.answered));
        let seconds = progress.elapsed.saturating_sub(at).as_secs_f64();
        progress.answered.saturating_sub(answered) as f64 / seconds.max(0.001)
    }
}

fn left(scenario: &Scenario, progress: &Progress) -> String {
    let (seconds, done) = (progress.elapsed.as_secs_f64(), share_done(scenario, progress));
    if done > 0.0 {
        format!("{:.0} s left", (seconds / done - seconds).max(0.0))
    } else {
        "time left unknown".to_owned()
    }
}

fn describe(scenario: &Scenario, progress: &Progress, rate: f64) -> String {
    let Progress { requests, sequences, violations, .. } = progress;
    let (seconds, violations) = (progress.elapsed.as_secs(), counted(*violations, "violation"));
    let left = left(scenario, progress);
    format!("{seconds} s: {requests} requests, {sequences} sequences, {rate:.0} answers/s, {violations}, {left}")
}

/// The same in fewer than 80 columns, whatever the numbers are.
fn in_short(scenario: &Scenario, progress: &Progress, rate: f64) -> String {
    let violations = counted(progress.violations, "violation");
    format!("{} requests, {rate:.0} answers/s, {violations}, {}", progress.requests, left(scenario, progress))
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use workload::scenario::{Distribution, Overrides, Source};

    fn load(iterations: u64, duration_s: u64) -> Scenario {
        let workers = NonZeroU32::new(8).expect("not zero");
        let mut scenario = Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("a scenario");
        scenario.populations[0].load =
            Load { workers, iterations: NonZeroU64::new(iterations), duration_s: NonZeroU64::new(duration_s) };
        scenario
    }

    #[test]
    fn a_line_tells_what_was_done_and_what_is_left() {
        let progress = Progress {
            elapsed: Duration::from_secs(10),
            iterations: 400,
            requests: 6000,
            answered: 5900,
            completed: 5900,
            abandoned: 0,
            sequences: 420,
            violations: 2,
        };
        let line = describe(&load(200, 0), &progress, 600.4);
        assert_eq!(line, "10 s: 6000 requests, 420 sequences, 600 answers/s, 2 violations, 30 s left");
        assert_eq!(left(&load(0, 100), &progress), "90 s left");
        assert_eq!(left(&load(200, 20), &progress), "10 s left");
        assert_eq!(left(&load(200, 0), &Progress::default()), "time left unknown");
        // All passes but two are finished, and of the steps one in ten.
        let long = load(1, 0).populations[0].clone();
        let mut several = load(200, 0);
        several.populations.push(Population { name: "long".to_owned(), ..long });
        several.populations[1].length.drawn = Distribution::Constant(100_000);
        let progress = Progress { iterations: 1600, requests: 82_560, ..progress };
        assert_eq!(left(&several, &progress), "90 s left");
        let many = Progress { requests: 99_999_999_999, violations: 9_999_999, ..progress };
        assert!(in_short(&load(200, 0), &many, 999_999.0).len() < 79);
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::default();
        let mut at = |tenths: u64, answered| {
            rate.now(&Progress { elapsed: Duration::from_millis(tenths * 100), answered, ..Progress::default() })
        };
        // 100 answers a second, and from 10 s on none.
        let seen: Vec<_> = (0..=200).map(|tenths| at(tenths, tenths.min(100) * 10)).collect();
        for (tenths, expected) in [(5, 100.0), (29, 100.0), (50, 100.0), (100, 100.0), (131, 0.0), (200, 0.0)] {
            let seen = seen[tenths];
            assert!((seen - expected).abs() < 1.0, "after {tenths} tenths of a second: {seen}");
        }
    }
}
