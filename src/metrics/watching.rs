//! Takes in what the observer of a run is told.

use std::time::Duration;

use super::Metrics;
use crate::{
    preflight::Preflight,
    run::{Absence, Glance, Observer, Progress, RunError, RunResult, SoFar},
};
use oracle::Violation;
use workload::{scenario::Scenario, seed::Seed};

/// How often the threads of a run leave what they counted.
const EVERY: Duration = Duration::from_secs(1);
/// How often the run is judged: this copies more.
const JUDGED_EVERY: Duration = Duration::from_secs(5);

/// Who tells the metrics what an observer is told, and then the observer.
pub(crate) struct Watching<'o> {
    observer: &'o mut dyn Observer,
    metrics: Option<Metrics>,
    name: String,
    scenario: Scenario,
}

impl<'o> Watching<'o> {
    /// Begins to watch the next run of this scenario, where there are metrics.
    pub(crate) fn begin(
        metrics: Option<&Metrics>,
        (name, scenario, seed): (&str, &Scenario, Seed),
        observer: &'o mut dyn Observer,
    ) -> Self {
        if let Some(metrics) = metrics {
            metrics.begin(name, &scenario.target.model, &seed.to_string());
        }
        Self { observer, metrics: metrics.cloned(), name: name.to_owned(), scenario: scenario.clone() }
    }

    /// What a run has to tell so that there is something to watch.
    pub(crate) fn asks(metrics: Option<&Metrics>, scenario: &str, so_far: SoFar) -> SoFar {
        let Some(metrics) = metrics else { return so_far };
        let violating = metrics.violating(scenario);
        let glance_every = so_far.glance_every.map_or(EVERY, |every| every.min(EVERY));
        SoFar {
            glance_every: Some(glance_every),
            measures: true,
            judged_every: Some(JUDGED_EVERY),
            violating,
            ..so_far
        }
    }

    /// Takes in how the run ended.
    pub(crate) fn ended(&self, ended: &Result<RunResult, RunError>) {
        self.tell(|run| match ended {
            Ok(result) => run.ended(&self.scenario, result),
            Err(_) => run.broke_off(),
        });
    }

    fn tell(&self, change: impl FnOnce(&mut super::values::Run)) {
        if let Some(metrics) = &self.metrics {
            metrics.of(&self.name, change);
        }
    }
}

impl Observer for Watching<'_> {
    fn found(&mut self, preflight: &Preflight) {
        self.observer.found(preflight);
    }

    fn violation(&mut self, violation: &Violation) {
        self.tell(|run| run.violation(violation));
        self.observer.violation(violation);
    }

    fn progress(&mut self, progress: &Progress) {
        self.tell(|run| run.progress(progress));
        if let Some(note) = self.metrics.as_ref().and_then(Metrics::take_note) {
            self.observer.trouble(&note);
        }
        self.observer.progress(progress);
    }

    fn glance(&mut self, glance: Glance) {
        self.tell(|run| run.glance(&glance));
        self.observer.glance(glance);
    }

    fn load_ended(&mut self) {
        self.observer.load_ended();
    }

    fn looks_at(&mut self, what: &str, up_to: Option<Duration>) {
        self.observer.looks_at(what, up_to);
    }

    fn checkpoint(&mut self, so_far: RunResult) {
        self.observer.checkpoint(so_far);
    }

    fn verdict(&mut self, so_far: RunResult) {
        self.observer.verdict(so_far);
    }

    fn judged(&mut self, so_far: &RunResult) {
        self.tell(|run| run.judged(&self.scenario, so_far));
        self.observer.judged(so_far);
    }

    fn interrupted(&mut self, drain: Duration) {
        self.observer.interrupted(drain);
    }

    fn away(&mut self, within: Duration) {
        self.observer.away(within);
    }

    fn back(&mut self, absence: Absence) {
        self.observer.back(absence);
    }

    fn trouble(&mut self, what: &str) {
        self.observer.trouble(what);
    }
}
