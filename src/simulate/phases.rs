//! The parts of a simulated run in time: each begins when the workers of the one before it are done, and what is done to the server before.

use std::time::Duration;

use super::{
    client::{Shared, wait},
    nanos,
};
use workload::{
    event::{Disturbance, Nanos},
    scenario::{Millis, Scenario},
};

/// How far a run has come.
#[derive(Debug)]
pub(super) struct Phases {
    /// When each phase began, of those that have.
    begun: Vec<Nanos>,
    /// The workers of each phase that are not done.
    workers: Vec<Vec<u32>>,
}

impl Phases {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let workers =
            |phase: usize| (0..scenario.workers()).filter(|worker| scenario.phase_of(*worker) == Some(phase)).collect();
        Self { begun: Vec::new(), workers: (0..scenario.phases.len()).map(workers).collect() }
    }

    /// When a phase began, if it did.
    pub(super) fn begun(&self, phase: usize) -> Option<Nanos> {
        self.begun.get(phase).copied()
    }

    /// One of a phase's workers is done.
    pub(super) fn leave(&mut self, phase: usize, worker: u32) {
        self.workers[phase].retain(|other| *other != worker);
    }

    fn is_over(&self, phase: usize) -> bool {
        self.workers[phase].is_empty()
    }
}

/// Lets the phases of a run begin, one after the other.
pub(super) async fn conduct(world: Shared<'_>) {
    let (plan, conductor) = {
        let world = world.borrow();
        (world.plan, world.helper())
    };
    for (index, phase) in plan.scenario.phases.iter().enumerate() {
        rest(&world, phase.pause_ms.map_or(Duration::ZERO, Millis::duration)).await;
        if let Some(action) = phase.server {
            let begins = if action.kills() { Disturbance::InstanceFails } else { Disturbance::Begins };
            let takes = world.borrow_mut().disturb(begins, action);
            rest(&world, takes).await;
            world.borrow_mut().serve_again(action);
        }
        {
            let world = &mut *world.borrow_mut();
            world.phases.begun.push(world.now);
            world.wake_all();
        }
        while !world.borrow().phases.is_over(index) {
            if phase.other_model.is_none() {
                wait(&world, conductor, None).await;
                continue;
            }
            let takes = world.borrow_mut().loads_in();
            rest(&world, takes).await;
            world.borrow_mut().another_is_loaded();
        }
    }
}

async fn rest(world: &Shared<'_>, time: Duration) {
    let (conductor, until) = {
        let world = world.borrow();
        (world.helper(), world.now + nanos(time))
    };
    while world.borrow().now < until {
        wait(world, conductor, Some(until)).await;
    }
}
