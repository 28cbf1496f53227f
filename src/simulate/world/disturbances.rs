//! What is done to the server of a simulated run in its middle.

use std::{ops::Range, sync::atomic::Ordering::Relaxed, time::Duration};

use rand::RngExt as _;

use super::World;
use reference::simulated::Blueprint;
use workload::{
    event::{Disturbance, Nanos},
    scenario::ServerAction,
};

/// How long a model takes to be loaded, in ns.
const LOADS_IN: Range<Nanos> = 20_000_000..200_000_000;
/// How long a server takes to be ended and started, in ns.
const RESTARTS_IN: Range<Nanos> = 100_000_000..1_000_000_000;

/// What was done to the server so far.
#[derive(Debug, Default)]
pub(super) struct Disturbances {
    so_far: Vec<Disturbance>,
    over_at: Nanos,
    /// Whether nobody serves.
    pub(super) is_away: bool,
}

impl Disturbances {
    fn is_under_way(&self) -> bool {
        !self.so_far.len().is_multiple_of(2)
    }
}

impl World<'_> {
    /// What was done to the server after that which is known.
    pub(in super::super) fn disturbance(&self, known: usize) -> Option<Disturbance> {
        self.disturbances.so_far.get(known).copied()
    }

    /// Whether something is being done to the server.
    pub(in super::super) fn is_disturbed(&self) -> bool {
        self.disturbances.is_under_way()
    }

    /// When something that is awaited since then has taken too long; none while something is being done to the server, and it has all
    /// its time when the server serves again.
    pub(in super::super) fn overdue(&self, since: Nanos, limit: Nanos) -> Option<Nanos> {
        (!self.is_disturbed()).then(|| since.max(self.disturbances.over_at).saturating_add(limit))
    }

    /// Begins to do something to the server; returns how long that takes.
    pub(in super::super) fn disturb(&mut self, begins: Disturbance, action: ServerAction) -> Duration {
        self.disturbances.so_far.push(begins);
        let takes = if action == ServerAction::Restart {
            self.end_server();
            RESTARTS_IN
        } else {
            if action.kills() {
                self.server.fail_an_instance();
            } else if action.unloads() {
                self.server.unload();
            }
            self.serve();
            LOADS_IN
        };
        self.wake_all();
        Duration::from_nanos(self.random.random_range(takes))
    }

    /// What was done to the server is over: it serves as the action has it.
    pub(in super::super) fn serve_again(&mut self, action: ServerAction) {
        if action == ServerAction::Restart {
            self.disturbances.is_away = false;
            // It loads what it was set up with.
            self.load(&self.plan.server);
        } else if !action.kills()
            && let Some((_, loaded)) = self.plan.loads.iter().find(|(its, _)| *its == action)
        {
            self.load(loaded);
        }
        self.disturbances.so_far.push(Disturbance::IsOver);
        self.disturbances.over_at = self.now;
        self.wake_all();
    }

    /// How long a model takes to be loaded.
    pub(in super::super) fn loads_in(&mut self) -> Duration {
        Duration::from_nanos(self.random.random_range(LOADS_IN))
    }

    /// Another model was unloaded and loaded again.
    pub(in super::super) fn another_is_loaded(&mut self) {
        self.loads.fetch_add(1, Relaxed);
        self.server.another_is_loaded();
    }

    /// Has the model be as it was before the run.
    pub(in super::super) fn put_back(&mut self) {
        self.load(&self.plan.server);
    }

    fn load(&mut self, as_this: &Blueprint) {
        self.server.load(as_this);
        self.serve();
    }

    /// Has every worker look what there is to do.
    pub(in super::super) fn wake_all(&mut self) {
        for worker in (0..).take(self.wakes.len()) {
            self.wake(worker, self.now);
        }
    }
}
