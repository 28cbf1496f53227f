//! How far the run is: a bar on a terminal, a line every few seconds elsewhere.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    engine::Progress,
    report::counted,
    scenario::{Load, Population, Scenario},
};

const LINE_EVERY: Duration = Duration::from_secs(5);
/// The bar's length; it shows shares, not counts.
const PARTS: u64 = 1000;

/// What shows the progress.
#[derive(Debug)]
pub(super) enum Display {
    Bar(ProgressBar),
    Lines { next: Duration },
    Nothing,
}

impl Display {
    pub(super) fn new(quiet: bool, verbose: bool) -> Self {
        if quiet {
            return Self::Nothing;
        }
        if verbose || !stderr().is_terminal() {
            return Self::Lines { next: LINE_EVERY };
        }
        let style = ProgressStyle::with_template("{bar:30} {msg}").expect("the template is right, as every run shows");
        Self::Bar(ProgressBar::new(PARTS).with_style(style))
    }

    pub(super) fn show(&mut self, scenario: &Scenario, progress: &Progress) {
        match self {
            Self::Bar(bar) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
                bar.set_position((share_done(scenario, progress) * PARTS as f64) as u64);
                bar.set_message(describe(scenario, progress));
            }
            Self::Lines { next } if progress.elapsed >= *next => {
                *next = progress.elapsed + LINE_EVERY;
                let _ = writeln!(anstream::stderr(), "{}", describe(scenario, progress));
            }
            Self::Lines { .. } | Self::Nothing => {}
        }
    }

    /// Lets `print` write lines without the bar in between.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        match self {
            Self::Bar(bar) => bar.suspend(print),
            Self::Lines { .. } | Self::Nothing => print(),
        }
    }

    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// How much of the run is done, from 0 to 1: by count or by time, whichever is further.
#[expect(clippy::cast_precision_loss)]
fn share_done(scenario: &Scenario, progress: &Progress) -> f64 {
    let loads = || scenario.populations.iter().map(|population| &population.load);
    let passes = |load: &Load| load.iterations.map(|each| each.get() as f64 * f64::from(load.workers.get()));
    // Where one has no count the time alone tells.
    let all: Option<f64> = loads().map(passes).sum();
    // Where sequences of a million steps are among short ones few passes are left when most of the run is: the steps tell more.
    let steps = |population: &Population| Some(passes(&population.load)? * population.length.drawn.typical());
    let all_steps: Option<f64> = scenario.populations.iter().map(steps).sum();
    let by_passes = all.map_or(0.0, |all| progress.passes as f64 / all);
    let by_steps = all_steps.map_or(0.0, |all| progress.requests as f64 / all);
    let by_count = if scenario.populations.len() > 1 { by_passes.min(by_steps) } else { by_passes };
    let seconds = loads().filter_map(|load| load.duration_s).max();
    let by_time = seconds.map_or(0.0, |seconds| progress.elapsed.as_secs_f64() / seconds.get() as f64);
    by_count.max(by_time).min(1.0)
}

#[expect(clippy::cast_precision_loss)]
fn describe(scenario: &Scenario, progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    let done = share_done(scenario, progress);
    let left = if done > 0.0 {
        format!("{:.0} s left", (seconds / done - seconds).max(0.0))
    } else {
        "time left unknown".to_owned()
    };
    format!(
        "{seconds:.0} s: {} requests, {} sequences, {:.0} requests/s, {}, {left}",
        progress.requests,
        progress.sequences,
        progress.requests as f64 / seconds.max(0.001),
        counted(progress.violations, "violation"),
    )
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use crate::scenario::{Distribution, Overrides, Source};

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
            passes: 400,
            requests: 6000,
            answered: 5900,
            abandoned: 0,
            sequences: 420,
            violations: 2,
        };
        let line = describe(&load(200, 0), &progress);
        assert_eq!(line, "10 s: 6000 requests, 420 sequences, 600 requests/s, 2 violations, 30 s left");
        assert!(describe(&load(0, 100), &progress).ends_with("90 s left"));
        assert!(describe(&load(200, 20), &progress).ends_with(" 10 s left"));
        assert!(describe(&load(200, 0), &Progress::default()).ends_with("time left unknown"));
        // All passes but two are finished, and of the steps one in ten.
        let long = load(1, 0).populations[0].clone();
        let mut several = load(200, 0);
        several.populations.push(Population { name: "long".to_owned(), ..long });
        several.populations[1].length.drawn = Distribution::Constant(100_000);
        let progress = Progress { passes: 1600, requests: 82_560, ..progress };
        assert!(describe(&several, &progress).ends_with(" 90 s left"), "{}", describe(&several, &progress));
    }
}
