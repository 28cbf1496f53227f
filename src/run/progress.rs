//! How far a run is, as each of its threads counts it.

use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use super::latencies::Latencies;
use super::{held_up::HeldUp, latencies::Buckets};
use oracle::{Outcome, Ruling};
use workload::event::Nanos;

/// How far a run is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Time since the run began.
    pub elapsed: Duration,
    /// Iterations finished.
    pub iterations: u64,
    /// Requests sent.
    pub requests: u64,
    /// Requests answered.
    pub answered: u64,
    /// Of these, requests executed.
    pub completed: u64,
    /// Requests whose answer nobody waits for any more, because their stream is gone or they were given up.
    pub abandoned: u64,
    /// Errors that named no request while several were under way.
    pub unaddressed: u64,
    /// Sequences begun.
    pub sequences: u64,
    /// Violations.
    pub violations: u64,
    /// Sequences that certainly have a slot.
    pub slots_taken: u64,
    /// STARTs whose response is outstanding.
    pub starts_waiting: u64,
    /// Phases of the scenario that have begun.
    pub phases_begun: usize,
    /// Whether the model is being loaded anew, or the server restarted.
    pub is_exchanging: bool,
    /// How long steps took so far.
    pub latencies: Latencies,
}

impl Progress {
    /// Adds what another process has done.
    fn add(&mut self, other: &Self) {
        self.iterations += other.iterations;
        self.requests += other.requests;
        self.answered += other.answered;
        self.completed += other.completed;
        self.abandoned += other.abandoned;
        self.unaddressed += other.unaddressed;
        self.sequences += other.sequences;
        self.violations += other.violations;
        self.starts_waiting += other.starts_waiting;
        self.latencies.add(&other.latencies);
    }

    /// How many requests wait for their answer.
    pub fn waiting(&self) -> u64 {
        // The counts are read one after the other, while they rise.
        self.requests.saturating_sub(self.answered + self.abandoned)
    }
}

/// A rank that says nothing for so long may stand still.
const QUIET: Duration = Duration::from_secs(1);

/// How far each of the other ranks was when it last said so.
#[derive(Debug, Default)]
pub(super) struct Others(Mutex<Vec<Other>>);

#[derive(Debug, Default)]
struct Other {
    progress: Progress,
    /// When it said so; none once nothing more comes.
    told_at: Option<Instant>,
}

impl Others {
    fn all(&self) -> MutexGuard<'_, Vec<Other>> {
        self.0.lock().expect("no thread fails while it has it")
    }

    /// Takes in how far a rank is.
    pub(super) fn set(&self, index: usize, progress: Progress) {
        let mut all = self.all();
        let behind = all.len().max(index + 1);
        all.resize_with(behind, Other::default);
        all[index] = Other { progress, told_at: Some(Instant::now()) };
    }

    /// Takes in that a rank is done, or gone: it waits for no response any more.
    pub(super) fn end(&self, index: usize) {
        if let Some(Other { progress, told_at }) = self.all().get_mut(index) {
            progress.abandoned += progress.waiting();
            progress.starts_waiting = 0;
            *told_at = None;
        }
    }

    /// Whether it is not known of every rank how far it is.
    pub(super) fn are_quiet(&self) -> bool {
        self.all().iter().any(|other| other.told_at.is_some_and(|at| at.elapsed() > QUIET))
    }

    pub(super) fn add_to(&self, progress: &mut Progress) {
        self.all().iter().for_each(|other| progress.add(&other.progress));
    }
}

/// What one thread has done so far. Each is on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ThreadProgress {
    iterations: AtomicU64,
    requests: AtomicU64,
    answered: AtomicU64,
    completed: AtomicU64,
    abandoned: AtomicU64,
    unaddressed: AtomicU64,
    sequences: AtomicU64,
    violations: AtomicU64,
    starts_settled: AtomicU64,
    latencies: Buckets,
    pub(super) held_up: HeldUp,
}

impl ThreadProgress {
    pub(super) fn noticed(&self, at: Nanos, ruling: &Ruling) {
        if let Some(settled) = &ruling.settled {
            let is_answered = settled.outcome != Outcome::Indeterminate;
            let count = if is_answered { &self.answered } else { &self.abandoned };
            add(count, 1);
            add(&self.completed, u64::from(settled.outcome == Outcome::Completed));
            add(&self.starts_settled, u64::from(settled.step.is_first()));
            if is_answered {
                self.latencies.record(at.saturating_sub(settled.sent_at) / 1000);
            }
        }
        add(&self.abandoned, ruling.abandoned as u64);
        add(&self.violations, ruling.violations.len() as u64);
    }

    pub(super) fn finished_an_iteration(&self) {
        add(&self.iterations, 1);
    }

    pub(super) fn missed_its_request(&self) {
        add(&self.unaddressed, 1);
    }

    pub(super) fn sent(&self, is_first_step: bool) {
        add(&self.requests, 1);
        add(&self.sequences, u64::from(is_first_step));
    }
}

/// Adds to what this thread alone counts: others only read it.
fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.store(count.load(Relaxed) + more, Relaxed);
    }
}

pub(super) fn of_all(threads: &[ThreadProgress], elapsed: Duration, slots_taken: u64) -> Progress {
    let sum =
        |count: fn(&ThreadProgress) -> &AtomicU64| threads.iter().map(|its| count(its).load(Relaxed)).sum::<u64>();
    let (requests, answered, abandoned) =
        (sum(|its| &its.requests), sum(|its| &its.answered), sum(|its| &its.abandoned));
    // A START whose stream was cut is not settled by itself.
    let starts = sum(|its| &its.sequences).saturating_sub(sum(|its| &its.starts_settled));
    Progress {
        elapsed,
        slots_taken,
        phases_begun: 0,
        is_exchanging: false,
        starts_waiting: starts.min(requests.saturating_sub(answered + abandoned)),
        latencies: threads.iter().map(|its| &its.latencies).collect(),
        iterations: sum(|its| &its.iterations),
        requests,
        answered,
        completed: sum(|its| &its.completed),
        abandoned,
        unaddressed: sum(|its| &its.unaddressed),
        sequences: sum(|its| &its.sequences),
        violations: sum(|its| &its.violations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_has_ended_waits_for_nothing_and_is_not_quiet() {
        let others = Others::default();
        let waiting = || {
            let mut all = Progress::default();
            others.add_to(&mut all);
            (all.requests, all.waiting(), all.starts_waiting)
        };
        others.set(1, Progress { requests: 10, answered: 6, starts_waiting: 2, ..Progress::default() });
        assert_eq!(waiting(), (10, 4, 2));
        others.end(1);
        assert_eq!(waiting(), (10, 0, 0));
        assert!(!others.are_quiet());
    }
}
