//! The parts of a simulated run in time: each begins when the workers of the one before it are done.

use std::time::Duration;

use super::nanos;
use workload::{
    event::Nanos,
    scenario::{Millis, Scenario},
};

/// How far a run has come.
#[derive(Debug)]
pub(super) struct Phases(Vec<Phase>);

#[derive(Debug)]
struct Phase {
    /// How long it is waited for after the one before it.
    pause: Duration,
    /// Its workers that are not done.
    workers: Vec<u32>,
    ended: Option<Nanos>,
}

impl Phases {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let workers =
            |phase: usize| (0..scenario.workers()).filter(move |worker| scenario.phase_of(*worker) == Some(phase));
        let phase = |(index, its): (usize, &workload::scenario::Phase)| Phase {
            pause: its.pause_ms.map_or(Duration::ZERO, Millis::duration),
            workers: workers(index).collect(),
            ended: None,
        };
        Self(scenario.phases.iter().enumerate().map(phase).collect())
    }

    /// When a phase begins; none where the one before it goes on.
    pub(super) fn begins(&self, phase: usize) -> Option<Nanos> {
        let mut begins = 0;
        for (index, its) in self.0[..=phase].iter().enumerate() {
            begins += nanos(its.pause);
            if index < phase {
                // One without workers is over at once.
                begins = if its.workers.is_empty() { its.ended.unwrap_or(begins) } else { return None };
            }
        }
        Some(begins)
    }

    /// One of a phase's workers is done. Returns those that may wait for the next one.
    pub(super) fn leave(&mut self, phase: usize, worker: u32, now: Nanos) -> Vec<u32> {
        let its = &mut self.0[phase];
        its.workers.retain(|other| *other != worker);
        its.ended = its.workers.is_empty().then_some(now);
        self.0.iter().skip(phase + 1).flat_map(|later| later.workers.iter().copied()).collect()
    }
}
