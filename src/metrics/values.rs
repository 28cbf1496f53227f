//! The state that all forms of the metrics are made from: little, and copied in a moment.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use crate::{
    recorder::{Measured, Patterns, Violating},
    run::{Glance, Progress, RunResult, cpu_us},
    verdict::{Judged, Missed, Verdict},
};
use oracle::{VIOLATIONS_KEPT, Violation, ViolationKind, diagnosis::Cause, history::Entry};
use workload::scenario::Scenario;

/// The metrics of this process. Whoever has a copy of it reads and writes the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Mutex<Values>>);

/// What is known of the runs of this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// By the name of the scenario: a suite has several runs at a time.
    pub(super) runs: BTreeMap<String, Run>,
    /// Whether no run comes any more.
    pub(super) is_final: bool,
    /// CPU time of this process, in µs.
    pub(super) cpu_us: u64,
    /// What a person is to know, until it is told.
    note: Option<String>,
    #[cfg(feature = "otlp")]
    has_noted: bool,
    /// Who takes the sequence of each violation, with the name of its scenario.
    violating: Option<Tell>,
}

/// Takes a violation of a scenario's run, and what happened in its sequence.
#[derive(Clone)]
pub(super) struct Tell(Arc<TellSequence>);

type TellSequence = dyn Fn(&str, &Violation, Vec<Entry>) + Send + Sync;

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// The runs of one scenario: the one that goes on, or the last one, and what those before it counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) model: String,
    pub(super) seed: String,
    before: Counted,
    now: Counted,
    /// When the run began, once that is known.
    #[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "only OTLP tells times of day"))]
    pub(super) began: Option<SystemTime>,
    pub(super) levels: Levels,
    pub(super) verdict: Option<Verdict>,
    /// The words of each threshold, and whether it is missed.
    pub(super) thresholds: BTreeMap<String, bool>,
}

/// What only rises.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) patterns: Patterns,
    pub(super) measured: Measured,
    /// Those that were told with their evidence, by their likeliest cause.
    told: BTreeMap<(ViolationKind, Option<Cause>), u64>,
    /// The others: when so many are told that no further one is.
    untold: BTreeMap<ViolationKind, u64>,
}

/// How it is at present.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) in_flight: u64,
    pub(super) slots_taken: u64,
    pub(super) starts_waiting: u64,
    pub(super) live_sequences: Option<u64>,
    pub(super) server_memory: Option<u64>,
}

impl Metrics {
    /// What is known at present.
    pub(super) fn values(&self) -> Values {
        let mut values = self.locked();
        // Between two looks the system may divide the time anew, and tell less.
        values.cpu_us = values.cpu_us.max(cpu_us());
        values.clone()
    }

    /// Has the sequences of violations told, too. It waits for nobody.
    #[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "only OTLP tells sequences"))]
    pub(super) fn tell_sequences(&self, tell: impl Fn(&str, &Violation, Vec<Entry>) + Send + Sync + 'static) {
        self.locked().violating = Some(Tell(Arc::new(tell)));
    }

    /// Who takes the sequences of a scenario's violations, if anybody does.
    pub(super) fn violating(&self, scenario: &str) -> Option<Violating> {
        let (Tell(tell), scenario) = (self.locked().violating.clone()?, scenario.to_owned());
        Some(Violating::new(move |violation, entries| tell(&scenario, violation, entries)))
    }

    /// Has this told to a person, unless something was noted before.
    #[cfg(feature = "otlp")]
    pub(super) fn note(&self, what: String) {
        let mut values = self.locked();
        if !std::mem::replace(&mut values.has_noted, true) {
            values.note = Some(what);
        }
    }

    /// What a person is to know and was not told.
    pub(crate) fn take_note(&self) -> Option<String> {
        self.locked().note.take()
    }

    /// No run comes any more.
    pub(crate) fn end(&self) {
        self.locked().is_final = true;
    }

    /// Has a change made in the run of a scenario.
    pub(super) fn of(&self, scenario: &str, change: impl FnOnce(&mut Run)) {
        let mut values = self.locked();
        if let Some(run) = values.runs.get_mut(scenario) {
            change(run);
        }
    }

    /// A run of this scenario begins.
    pub(super) fn begin(&self, scenario: &str, model: &str, seed: &str) {
        let mut values = self.locked();
        let run = values.runs.entry(scenario.to_owned()).or_default();
        let over = std::mem::take(&mut run.now);
        run.before.add(&over);
        let before = std::mem::take(&mut run.before);
        *run = Run { model: model.to_owned(), seed: seed.to_owned(), before, ..Run::default() };
    }

    fn locked(&self) -> MutexGuard<'_, Values> {
        // Whoever has it only copies numbers.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// What all runs of the scenario counted.
    pub(super) fn counted(&self) -> Counted {
        let mut all = self.before.clone();
        all.add(&self.now);
        all
    }

    pub(super) fn progress(&mut self, progress: &Progress) {
        if self.began.is_none() && !progress.elapsed.is_zero() {
            self.began = SystemTime::now().checked_sub(progress.elapsed);
        }
        self.levels.in_flight = progress.waiting();
        self.levels.slots_taken = progress.slots_taken;
        self.levels.starts_waiting = progress.starts_waiting;
    }

    pub(super) fn glance(&mut self, glance: &Glance) {
        self.now.patterns = glance.patterns.clone();
        if let Some(measured) = &glance.measured {
            self.now.measured = (**measured).clone();
        }
        self.levels.live_sequences = self.now.measured.live_sequences();
        self.levels.server_memory = glance.server_memory;
    }

    pub(super) fn violation(&mut self, violation: &Violation) {
        let cause = violation.explanations.first().map(|its| its.cause);
        *self.now.told.entry((violation.kind, cause)).or_default() += 1;
        self.verdict = Some(Verdict::Invalid);
    }

    /// Takes in what a run that goes on has shown so far.
    pub(super) fn judged(&mut self, scenario: &Scenario, so_far: &RunResult) {
        let judged = Judged { scenario, result: so_far };
        self.verdict = Some(judged.so_far().0);
        self.thresholds(&judged);
        if so_far.violations.len() >= VIOLATIONS_KEPT {
            self.count_untold(so_far);
        }
    }

    /// Takes in what a run has shown that is over.
    pub(super) fn ended(&mut self, scenario: &Scenario, result: &RunResult) {
        let judged = Judged { scenario, result };
        self.verdict = Some(judged.verdict());
        self.thresholds(&judged);
        self.count_untold(result);
        self.now.patterns = Patterns::of(&result.tally);
        self.now.measured = Measured::in_all(&result.tally);
        let server_memory = self.levels.server_memory;
        self.levels = Levels { server_memory, ..Levels::default() };
    }

    /// A run of which nothing is known but that it is over.
    pub(super) fn broke_off(&mut self) {
        self.levels = Levels::default();
        self.verdict = self.verdict.or(Some(Verdict::Unknown));
    }

    fn thresholds(&mut self, judged: &Judged<'_>) {
        let result = judged.result;
        let of = |found: &crate::recorder::Found| match found.population.as_str() {
            "" => found.threshold.to_string(),
            population => format!("{population}: {}", found.threshold),
        };
        self.thresholds = result.thresholds.iter().map(|found| (of(found), found.missed)).collect();
        if let Some(limit) = result.preflight.limits.threshold {
            let is_slow = judged.missed_thresholds().iter().any(|missed| matches!(missed, Missed::Answers { .. }));
            self.thresholds.insert(format!("response > {}ms", limit.as_millis()), is_slow);
        }
    }

    fn count_untold(&mut self, result: &RunResult) {
        for (kind, count) in &result.tally.violations {
            let told: u64 = self.now.told.iter().filter(|((its, _), _)| its == kind).map(|(_, count)| count).sum();
            let untold = self.now.untold.entry(*kind).or_default();
            // A count that rises never falls.
            *untold = (*untold).max(count.saturating_sub(told));
        }
    }
}

impl Counted {
    fn add(&mut self, other: &Self) {
        self.patterns.add(&other.patterns);
        self.measured.add(&other.measured);
        for (of, count) in &other.told {
            *self.told.entry(*of).or_default() += count;
        }
        for (kind, count) in &other.untold {
            *self.untold.entry(*kind).or_default() += count;
        }
    }

    /// How many violations there were of each kind and cause.
    pub(super) fn violations(&self) -> BTreeMap<(ViolationKind, Option<Cause>), u64> {
        let mut all = self.told.clone();
        for (kind, count) in self.untold.iter().filter(|(_, count)| **count > 0) {
            *all.entry((*kind, None)).or_default() += count;
        }
        all
    }
}
