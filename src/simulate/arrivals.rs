//! Iterations that begin at times of their own in a simulation, on as many workers as that takes.

use std::{collections::BTreeMap, time::Duration};

use super::client::{Shared, phase_begins, wait};
use crate::run::{Arrivals, Arrived, Setup};
use workload::{
    event::{Due, Nanos},
    scenario::{Population, Scenario},
    seed::Seed,
};

/// The workers of a population whose iterations begin at a rate.
#[derive(Debug)]
pub(super) struct Crew {
    arrivals: Arrivals,
    /// Those without an iteration; the one that had one last is the last.
    free: Vec<u32>,
    /// The iterations that workers are to begin.
    given: BTreeMap<u32, Due>,
    /// For how long iterations were begun, if no more come.
    lasted: Option<Duration>,
}

/// What a worker of a crew does next.
pub(super) enum Given {
    Iteration(Due),
    Nothing,
    /// It is done.
    Over,
}

impl Crew {
    /// That of each population; none where iterations follow one another.
    pub(super) fn of(scenario: &Scenario, seed: Seed) -> Vec<Option<Self>> {
        let arrivals = Arrivals::of(&Setup::new(scenario.clone(), seed));
        let mut first = 0;
        let crew = |(arrivals, workers): (Option<Arrivals>, u32)| {
            let free = (first..first + workers).rev().collect();
            first += workers;
            Some(Self { arrivals: arrivals?, free, given: BTreeMap::new(), lasted: None })
        };
        let workers = scenario.populations.iter().map(|population| population.load.workers.get());
        arrivals.into_iter().zip(workers).map(crew).collect()
    }

    /// What a worker does next.
    pub(super) fn next(&mut self, worker: u32) -> Given {
        match self.given.remove(&worker) {
            Some(due) => Given::Iteration(due),
            None if self.lasted.is_some() => Given::Over,
            None => Given::Nothing,
        }
    }

    pub(super) fn most_at_a_time(&self) -> u32 {
        self.arrivals.most_at_a_time()
    }

    /// What became of its iterations.
    pub(super) fn arrived(&self, population: &Population) -> Arrived {
        self.arrivals.arrived(population, self.lasted.unwrap_or_default())
    }

    /// A worker's iteration is over.
    pub(super) fn ends(&mut self, worker: u32) {
        self.arrivals.end();
        self.free.push(worker);
    }
}

/// Begins the iterations of a population when they are due.
pub(super) async fn dispatch(world: Shared<'_>, population: usize) {
    let own = world.borrow().dispatcher(population);
    let its = {
        let world = world.borrow();
        let scenario = &world.plan.scenario;
        scenario.populations[population].phase.as_ref().and_then(|name| scenario.phase_named(name))
    };
    let began = phase_begins(&world, own, its).await;
    // Whether there was no free worker in time for an iteration, and none has been in time since.
    let mut is_behind = false;
    loop {
        while crew(&world, population, |crew, _| crew.free.is_empty()) {
            is_behind = true;
            wait(&world, own, None).await;
        }
        let next = crew(&world, population, |crew, now| crew.arrivals.next(Duration::from_nanos(now - began)));
        let Some(due) = next.map(|due| began.saturating_add(due)) else { break };
        is_behind &= world.borrow().now >= due;
        while world.borrow().now < due {
            wait(&world, own, Some(due)).await;
        }
        let worker = crew(&world, population, |crew, _| {
            let worker = crew.free.pop().expect("nobody else takes one");
            crew.arrivals.begin(is_behind);
            crew.given.insert(worker, Due { at: due, waited: !is_behind });
            worker
        });
        let now = world.borrow().now;
        world.borrow_mut().wake(worker, now);
    }
    crew(&world, population, |crew, now| crew.lasted = Some(Duration::from_nanos(now - began)));
    world.borrow_mut().wake_all();
}

/// Does something with the crew of a population.
fn crew<T>(world: &Shared<'_>, population: usize, what: impl FnOnce(&mut Crew, Nanos) -> T) -> T {
    let world = &mut *world.borrow_mut();
    what(world.crews[population].as_mut().expect("it has a rate"), world.now)
}
