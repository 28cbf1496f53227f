//! How far the run is: a line that is drawn anew on a terminal, a line every few seconds elsewhere.

use std::{
    collections::VecDeque,
    env,
    io::{IsTerminal as _, Write as _, stderr, stdin},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc::Sender;

use super::{output::say_error, screen::Screen};
use crate::{
    report::counted,
    run::Progress,
    tui::{About, News, Wish},
};
use workload::scenario::{Load, Population, Scenario};

/// What stands in for the view on the whole terminal.
const INSTEAD: &str = "the run prints lines instead";
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The rate that a line on a terminal shows is that of so long; one that stays shows the rate since the one before.
const RATE_OVER: Duration = Duration::from_secs(1);
/// The percentiles that are shown are those of so long.
const PERCENTILES_OVER: Duration = Duration::from_secs(10);
/// The columns of a terminal.
const COLUMNS: usize = 80;
/// After so long without a response there is a warning.
const SILENT: Duration = Duration::from_secs(3);

/// What shows the progress.
#[derive(Debug)]
pub(super) enum Display {
    Line(ProgressBar, Recent),
    Lines { next: Duration, recent: Recent },
    Screen(Screen),
    Nothing,
}

impl Display {
    pub(super) fn new(quiet: bool, verbose: bool) -> Self {
        if quiet {
            return Self::Nothing;
        }
        if verbose || !stderr().is_terminal() {
            return Self::Lines { next: LINE_EVERY, recent: Recent::over(LINE_EVERY) };
        }
        // What does not fit is cut.
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is right, as every run shows");
        Self::Line(ProgressBar::no_length().with_style(style), Recent::over(RATE_OVER))
    }

    /// Shows the run on the whole terminal from now on, where that is possible; else a message says why not. What keys ask for goes to
    /// `wishes`.
    pub(super) fn show_on_screen(&mut self, about: About, wishes: Sender<Wish>) {
        match Screen::show(about, wishes) {
            Ok(screen) => *self = Self::Screen(screen),
            Err(error) => say_error(&format!("--tui: the terminal cannot be used: {error}; {INSTEAD}")),
        }
    }

    /// Whether the whole terminal can show a run; else a message says why not.
    pub(super) fn has_screen() -> bool {
        let is_dumb = env::var("TERM").is_ok_and(|term| term == "dumb");
        let why = match (stdin().is_terminal(), stderr().is_terminal(), is_dumb) {
            (true, true, false) => return true,
            (_, false, _) => "standard error is no terminal",
            (false, true, _) => "standard input is no terminal",
            (true, true, true) => "the terminal cannot move its cursor (TERM=dumb)",
        };
        say_error(&format!("--tui: {why}; {INSTEAD}"));
        false
    }

    /// Has the view on the whole terminal show this. Returns whether there is one.
    pub(super) fn tell_screen(&self, tell: impl FnOnce(&mut News)) -> bool {
        if let Self::Screen(screen) = self {
            screen.tell(tell);
        }
        matches!(self, Self::Screen(_))
    }

    /// Says what of the server is looked at after the run.
    pub(super) fn show_check(&self, what: &str, up_to: Option<Duration>) {
        match self {
            Self::Line(line, _) => {
                let most = up_to.map_or_else(String::new, |up_to| format!(", up to {} s", up_to.as_secs_f64().ceil()));
                line.set_message(format!("checking {what}{most}"));
            }
            Self::Screen(screen) => screen.tell(|news| news.check(what.to_owned(), up_to, Instant::now())),
            Self::Lines { .. } | Self::Nothing => {}
        }
    }

    /// Takes in how far the run is; `of` names the run where it is one of several.
    pub(super) fn show(&mut self, of: &str, scenario: &Scenario, progress: &Progress) {
        match self {
            Self::Line(line, recent) => {
                let recent = recent.look(progress);
                line.set_message(describe(of, scenario, progress, &recent));
            }
            Self::Lines { next, recent } => {
                let recent = recent.look(progress);
                if progress.elapsed >= *next {
                    *next = progress.elapsed + LINE_EVERY;
                    let _ = writeln!(anstream::stderr(), "{}", describe(of, scenario, progress, &recent));
                }
            }
            Self::Screen(screen) => {
                let left = left(scenario, progress);
                screen.tell(|news| news.progress(progress.clone(), left));
            }
            Self::Nothing => {}
        }
    }

    /// Lets `print` write lines without the progress in between.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        match self {
            Self::Line(line, _) => line.suspend(print),
            Self::Lines { .. } | Self::Screen(_) | Self::Nothing => print(),
        }
    }

    pub(super) fn finish(&mut self) {
        match self {
            Self::Line(line, _) => line.finish_and_clear(),
            Self::Screen(screen) => screen.finish(),
            Self::Lines { .. } | Self::Nothing => {}
        }
    }
}

/// How much of the run is done, from 0 to 1: by count or by time, whichever is further.
#[expect(clippy::cast_precision_loss)]
fn share_done(scenario: &Scenario, progress: &Progress) -> f64 {
    let loads = || scenario.populations.iter().map(|population| &population.load);
    let iterations = |load: &Load| load.all_iterations().map(|all| all as f64);
    // Where one has no count the time alone tells.
    let all: Option<f64> = loads().map(iterations).sum();
    // Where sequences of a million steps are among short ones few iterations are left when most of the run is: the steps tell more.
    let steps = |population: &Population| Some(iterations(&population.load)? * population.length.drawn.typical());
    let all_steps: Option<f64> = scenario.populations.iter().map(steps).sum();
    let by_iterations = all.map_or(0.0, |all| progress.iterations as f64 / all);
    let by_steps = all_steps.map_or(0.0, |all| progress.requests as f64 / all);
    let by_count = if scenario.populations.len() > 1 { by_iterations.min(by_steps) } else { by_iterations };
    let end = loads().filter_map(Load::ends).max();
    let by_time = end.map_or(0.0, |end| progress.elapsed.as_secs_f64() / end.as_secs_f64());
    by_count.max(by_time).min(1.0)
}

/// What was seen in the last seconds.
#[derive(Debug)]
pub(super) struct Recent {
    /// The rate is that of so long.
    rate_over: Duration,
    looks: VecDeque<Progress>,
    /// When the last response came, and how many there were by then.
    answered: (Duration, u64),
}

/// What the last seconds were like.
#[derive(Debug, PartialEq)]
struct Recently {
    /// Responses in a second.
    rate: f64,
    /// p50 and p99 of steps in ms, if any was answered.
    step_ms: Option<[f64; 2]>,
    /// How long no response has come.
    silent: Duration,
}

impl Recent {
    fn over(rate_over: Duration) -> Self {
        Self { rate_over, looks: VecDeque::new(), answered: (Duration::ZERO, 0) }
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn look(&mut self, progress: &Progress) -> Recently {
        if progress.answered != self.answered.1 {
            self.answered = (progress.elapsed, progress.answered);
        }
        let since = |time| progress.elapsed.saturating_sub(time);
        // The latest that is older stays, so that the time is covered.
        while self.looks.get(1).is_some_and(|look| look.elapsed <= since(PERCENTILES_OVER)) {
            self.looks.pop_front();
        }
        let beginning = Progress::default();
        let oldest = self.looks.front().filter(|_| progress.elapsed > PERCENTILES_OVER).unwrap_or(&beginning);
        let latencies = progress.latencies.since(&oldest.latencies);
        let percentile = |share| latencies.percentile_us(share).map(|us| us as f64 / 1000.0);
        let step_ms = percentile(0.5).zip(percentile(0.99)).map(|(p50, p99)| [p50, p99]);
        let before = self.looks.iter().rev().find(|look| look.elapsed <= since(self.rate_over)).unwrap_or(&beginning);
        let seconds = progress.elapsed.saturating_sub(before.elapsed).as_secs_f64();
        let rate = progress.answered.saturating_sub(before.answered) as f64 / seconds.max(0.001);
        self.looks.push_back(progress.clone());
        Recently { rate, step_ms, silent: since(self.answered.0) }
    }
}

fn left(scenario: &Scenario, progress: &Progress) -> String {
    let (seconds, done) = (progress.elapsed.as_secs_f64(), share_done(scenario, progress));
    // Where a phase ends when its workers are done nobody knows how long the others take.
    if done > 0.0 && scenario.phases.is_empty() {
        format!("{:.0} s left", (seconds / done - seconds).max(0.0))
    } else {
        "time left unknown".to_owned()
    }
}

/// The progress in a line of fewer than 80 columns.
fn describe(of: &str, scenario: &Scenario, progress: &Progress, seen: &Recently) -> String {
    let Progress { violations, starts_waiting, .. } = progress;
    let (at, left) = (progress.elapsed.as_secs(), left(scenario, progress));
    let found = if *violations == 0 { String::new() } else { format!(", {}", counted(*violations, "violation")) };
    if seen.silent >= SILENT && progress.waiting() > 0 {
        let waiting = counted(progress.waiting(), "request");
        return format!("{of}{at} s: no response for {} s, {waiting} waiting{found}, {left}", seen.silent.as_secs());
    }
    let step = seen.step_ms.map(|[p50, p99]| format!(", p50 {} p99 {} ms", short(p50), short(p99))).unwrap_or_default();
    let waiting = format!(", {} without response", counted(*starts_waiting, "START"));
    // The backlog gives way to larger numbers.
    let line = |rest: &str| format!("{of}{at} s: {:.0}/s{step}{rest}{found}, {left}", seen.rate);
    let lines = [line(&waiting), line(&format!(", {starts_waiting} waiting")), line("")];
    let fits = lines.iter().position(|line| line.chars().count() < COLUMNS).unwrap_or(lines.len() - 1);
    lines[fits].clone()
}

/// A number with three digits or a few more.
fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use workload::scenario::{Distribution, Overrides, Phase, Source};

    fn load(iterations: u64, duration_s: u64) -> Scenario {
        let workers = NonZeroU32::new(8).expect("not zero");
        let mut scenario = Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("a scenario");
        let (iterations, duration_s) = (NonZeroU64::new(iterations), NonZeroU64::new(duration_s));
        let load = &mut scenario.populations[0].load;
        *load = Load { workers, iterations, duration_s, ..load.clone() };
        scenario
    }

    fn progress() -> Progress {
        Progress {
            elapsed: Duration::from_secs(10),
            iterations: 400,
            requests: 6000,
            answered: 5900,
            completed: 5900,
            sequences: 420,
            violations: 2,
            slots_taken: 7,
            starts_waiting: 3,
            ..Progress::default()
        }
    }

    fn seen(silent_s: u64) -> Recently {
        Recently { rate: 600.4, step_ms: Some([3.12, 27.8]), silent: Duration::from_secs(silent_s) }
    }

    #[test]
    fn a_line_tells_what_happens_and_what_is_left() {
        let (scenario, progress) = (load(200, 0), progress());
        let line = describe("", &scenario, &progress, &seen(0));
        assert_eq!(line, "10 s: 600/s, p50 3.1 p99 28 ms, 3 waiting, 2 violations, 30 s left");
        let silent = describe("", &scenario, &progress, &seen(4));
        assert_eq!(silent, "10 s: no response for 4 s, 100 requests waiting, 2 violations, 30 s left");
        let calm = Progress { violations: 0, ..progress.clone() };
        let unknown = Recently { step_ms: None, ..seen(0) };
        assert_eq!(describe("", &scenario, &calm, &unknown), "10 s: 600/s, 3 STARTs without response, 30 s left");
        let of_trial = describe("trial 4, 50/s: ", &scenario, &calm, &unknown);
        assert_eq!(of_trial, "trial 4, 50/s: 10 s: 600/s, 3 STARTs without response, 30 s left");
        assert_eq!(left(&load(0, 100), &progress), "90 s left");
        assert_eq!(left(&load(200, 20), &progress), "10 s left");
        assert_eq!(left(&load(200, 0), &Progress::default()), "time left unknown");
        let mut phased = load(200, 20);
        phased.phases.push(Phase { name: "later".to_owned(), pause_ms: None, server: None, other_model: None });
        assert_eq!(left(&phased, &progress), "time left unknown", "the later phase has not begun");
        // All iterations but two are finished, and of the steps one in ten.
        let long = load(1, 0).populations[0].clone();
        let mut several = load(200, 0);
        several.populations.push(Population { name: "long".to_owned(), ..long });
        several.populations[1].length.drawn = Distribution::Constant(100_000);
        let progress = Progress { iterations: 1600, requests: 82_560, ..progress };
        assert_eq!(left(&several, &progress), "90 s left");
        let many = Progress { violations: 999_999, slots_taken: 128, starts_waiting: 999, ..progress };
        let slow = Recently { rate: 99_999.0, step_ms: Some([1234.0, 12_345.0]), silent: Duration::ZERO };
        let line = describe("", &load(200, 0), &many, &slow);
        assert_eq!(line, "10 s: 99999/s, p50 1234 p99 12345 ms, 999 waiting, 999999 violations, 0 s left");
    }

    #[test]
    fn the_rate_is_that_of_the_last_second_and_silence_is_told() {
        // 100 answers a second, and from 10 s on none.
        let looks = |mut recent: Recent| {
            let at = |tenths: u64| {
                let (elapsed, answered) = (Duration::from_millis(tenths * 100), tenths.min(100) * 10);
                recent.look(&Progress { elapsed, answered, ..Progress::default() })
            };
            (0..=200).map(at).collect::<Vec<_>>()
        };
        let of_lines = looks(Recent::over(LINE_EVERY))[120].rate;
        assert!((of_lines - 60.0).abs() < 1.0, "the last 5 s: {of_lines}");
        let looks = looks(Recent::over(RATE_OVER));
        for (tenths, rate, silent) in
            [(5, 100.0, 0), (29, 100.0, 0), (100, 100.0, 0), (105, 50.0, 0), (111, 0.0, 1), (200, 0.0, 10)]
        {
            let Recently { rate: seen, silent: quiet, .. } = &looks[tenths];
            assert!((seen - rate).abs() < 1.0, "after {tenths} tenths of a second: {seen}");
            assert_eq!(quiet.as_secs(), silent, "after {tenths} tenths of a second");
        }
    }
}
