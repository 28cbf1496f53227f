//! The parts of a run in time: each begins when the workers of the one before it are done.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use super::{
    disturbance::{Hands, Unfinished},
    shared::Shared,
};
use workload::scenario::{Millis, Phase, Scenario, ServerAction};

/// How far a run has come.
#[derive(Debug)]
pub(super) struct Phases {
    /// When each phase began, of those that have.
    begun: watch::Sender<Vec<Duration>>,
    /// The workers of each phase that are not done.
    workers: Vec<AtomicU32>,
    /// Wakes the one who waits for the end of a phase.
    left: Notify,
}

/// When a phase was, since the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseSpan {
    /// Its name.
    pub name: String,
    /// When its workers could begin, in µs.
    pub began_us: u64,
    /// When they were done, in µs.
    pub ended_us: u64,
    /// When that began which was done to the server before, in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_from_us: Option<u64>,
    /// What was done to the server before, and what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How often another model was unloaded and loaded while its workers ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_loads: Option<u64>,
}

impl Phases {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let workers =
            |index| (0..scenario.workers()).filter(|&worker| scenario.phase_of(worker) == Some(index)).count();
        let count = |index| AtomicU32::new(u32::try_from(workers(index)).unwrap_or(u32::MAX));
        Self {
            begun: watch::Sender::default(),
            workers: (0..scenario.phases.len()).map(count).collect(),
            left: Notify::new(),
        }
    }

    /// Waits for a phase; returns when it began.
    pub(super) async fn begins(&self, phase: usize) -> Duration {
        let mut begun = self.begun.subscribe();
        let begun = begun.wait_for(|begun| begun.len() > phase).await;
        begun.expect("the sender lives as long as this")[phase]
    }

    /// How many have begun.
    pub(super) fn count(&self) -> usize {
        self.begun.borrow().len()
    }

    /// The place of the one that began last.
    pub(super) fn current(&self) -> Option<usize> {
        self.count().checked_sub(1)
    }

    /// One of a phase's workers is done.
    pub(super) fn leave(&self, phase: usize) {
        self.workers[phase].fetch_sub(1, Relaxed);
        self.left.notify_one();
    }

    async fn ends(&self, phase: usize) {
        while self.workers[phase].load(Relaxed) > 0 {
            self.left.notified().await;
        }
    }
}

#[derive(Default)]
pub(super) struct Conducted {
    pub(super) spans: Vec<PhaseSpan>,
    /// Why it cannot go on, where something could not be done to the server.
    pub(super) broken_off: Option<String>,
}

/// Lets the phases of a run begin, one after the other; ends with the last, or when the run is stopping. What is done to the
/// server is done to its end.
pub(super) async fn conduct(shared: &Shared, hands: &Hands) -> Conducted {
    let mut conducted = Conducted::default();
    let mut goes_on = unless_stopped(shared, shared.gate.opened()).await;
    for (index, phase) in shared.setup.scenario.phases.iter().enumerate() {
        let Phase { name, pause_ms, server, other_model } = phase;
        let pause = tokio::time::sleep(pause_ms.map_or(Duration::ZERO, Millis::duration));
        goes_on = goes_on && unless_stopped(shared, pause).await;
        if !goes_on {
            break;
        }
        let acts_at = shared.clock.now();
        let server = match server {
            Some(action) => match hands.act(*action, shared).await {
                Ok(done) => Some(done),
                // A server that dies of being asked to load a model is a finding; one that nobody starts again is not.
                Err(why) if *action != ServerAction::Restart && !shared.server_is_there(&why).await => {
                    shared.disturbances.end(shared.clock.now());
                    break;
                }
                Err(why) => {
                    shared.disturbances.fail(acts_at);
                    shared.gate.stop();
                    conducted.broken_off = Some(format!("the run ended before phase '{name}': {why}"));
                    break;
                }
            },
            None => None,
        };
        let began = shared.clock.elapsed();
        shared.phases.begun.send_modify(|begun| begun.push(began));
        let is_over = Notify::new();
        let workers = async {
            let goes_on = unless_stopped(shared, shared.phases.ends(index)).await;
            is_over.notify_one();
            goes_on
        };
        let others = async {
            let Some(other) = other_model else { return None };
            let loaded = hands.exchange(other, &is_over, &shared.loads).await;
            if let Err(why) = &loaded {
                shared.server_is_there(&why.why).await;
                shared.gate.stop();
            }
            Some(loaded)
        };
        let loaded;
        (goes_on, loaded) = tokio::join!(workers, others);
        let other_loads = loaded.map(|loaded| {
            loaded.unwrap_or_else(|Unfinished { times, why }| {
                conducted.broken_off = Some(format!("the run ended in phase '{name}': {why}"));
                times
            })
        });
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        conducted.spans.push(PhaseSpan {
            name: name.clone(),
            began_us: us(began),
            ended_us: us(shared.clock.elapsed()),
            server_from_us: server.is_some().then_some(acts_at / 1000),
            server,
            other_loads,
        });
    }
    conducted
}

/// Waits for something unless the run is stopping; returns whether it came.
async fn unless_stopped(shared: &Shared, what: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = shared.gate.stopped() => false,
        () = what => true,
    }
}
