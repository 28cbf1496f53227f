//! Iterations that begin at times of their own, on as many workers as that takes.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinError, JoinSet};

use super::{
    alarm::Alarms,
    shared::{Out, Shared},
    worker::Worker,
};
use crate::recorder::Recorder;
use workload::{
    event::{Due, Nanos},
    scenario::{Population, Schedule},
    seed::Seed,
};

/// More iterations that are left are not counted.
const LEFT_MAX: usize = 10_000_000;

/// What became of the iterations of a population that begin at a rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// The population's name; empty where there is one.
    pub population: String,
    /// Iterations that were begun.
    pub begun: u64,
    /// Iterations that were due before the load's end, and were not begun because all workers had one; no more than 10,000,000 are counted.
    pub not_begun: u64,
    /// The most that were under way at a time.
    pub most_at_a_time: u32,
    /// How many may be.
    pub workers: u32,
}

/// The iterations of a population that are still to come, for all threads.
#[derive(Debug)]
pub(super) struct Arrivals {
    schedule: Mutex<(Schedule, u64)>,
    end: Option<Duration>,
    under_way: AtomicU32,
    most_at_a_time: AtomicU32,
}

impl Arrivals {
    /// Those of each population in turn; none where iterations follow one another.
    pub(super) fn of(populations: &[Population], seed: Seed) -> Vec<Option<Self>> {
        let of = |(index, population): (u32, &Population)| {
            Some(Self {
                schedule: Mutex::new((Schedule::of(&population.load, seed, index)?, 0)),
                end: population.load.ends(),
                under_way: AtomicU32::new(0),
                most_at_a_time: AtomicU32::new(0),
            })
        };
        (0..).zip(populations).map(of).collect()
    }

    /// When the next iteration is due, since the load began, which was this long ago; none where there are no more.
    fn next(&self, elapsed: Duration) -> Option<Nanos> {
        if self.end.is_some_and(|end| elapsed >= end) {
            return None;
        }
        let mut schedule = self.schedule.lock().expect("no thread fails while it has it");
        let due = schedule.0.next()?;
        schedule.1 += 1;
        Some(due)
    }

    fn begin(&self) {
        let under_way = self.under_way.fetch_add(1, Relaxed) + 1;
        self.most_at_a_time.fetch_max(under_way, Relaxed);
    }

    /// What became of them, where the load began so long ago.
    pub(super) fn arrived(&self, population: &Population, elapsed: Duration) -> Arrived {
        let (schedule, begun) = self.schedule.lock().expect("no thread fails while it has it").clone();
        Arrived {
            population: population.name.clone(),
            begun,
            not_begun: schedule.left(elapsed, LEFT_MAX) as u64,
            most_at_a_time: self.most_at_a_time.load(Relaxed),
            workers: population.load.workers.get(),
        }
    }
}

/// Gives a thread's workers of a population their iterations when these are due.
pub(super) struct Dispatcher {
    population: usize,
    thread: usize,
    /// Those that have not been needed so far, the last first.
    unneeded: Vec<u32>,
    shared: Arc<Shared>,
    recorder: Rc<RefCell<Recorder>>,
    alarms: Rc<Alarms>,
}

impl Dispatcher {
    pub(super) fn new(
        population: usize,
        workers: impl DoubleEndedIterator<Item = u32>,
        thread: usize,
        (shared, recorder, alarms): (&Arc<Shared>, &Rc<RefCell<Recorder>>, &Rc<Alarms>),
    ) -> Self {
        Self {
            population,
            thread,
            unneeded: workers.rev().collect(),
            shared: Arc::clone(shared),
            recorder: Rc::clone(recorder),
            alarms: Rc::clone(alarms),
        }
    }

    fn out(&self) -> Out {
        let Self { thread, shared, recorder, alarms, .. } = self;
        Out { shared: Arc::clone(shared), recorder: Rc::clone(recorder), thread: *thread, alarms: Rc::clone(alarms) }
    }

    /// Begins iterations until there are no more, or the run says stop. An error where a worker has no connection, or failed.
    pub(super) async fn run(mut self) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let population = &shared.setup.scenario.populations[self.population];
        let phase = population.phase.as_ref().and_then(|name| shared.setup.scenario.phase_named(name));
        let began = match phase {
            Some(phase) => tokio::select! {
                began = shared.phases.begins(phase) => began,
                () = shared.gate.stopped() => return Ok(()),
            },
            None => Duration::ZERO,
        };
        let workers = self.unneeded.len();
        let held = self.hold_all(began).await;
        if let Some(phase) = phase {
            (0..workers).for_each(|_| shared.phases.leave(phase));
        }
        held
    }

    async fn hold_all(&mut self, began: Duration) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let out = self.out();
        let arrivals = shared.arrivals[self.population].as_ref().expect("it has a rate");
        let began = u64::try_from(began.as_nanos()).unwrap_or(u64::MAX);
        let since = || Duration::from_nanos(shared.clock.now().saturating_sub(began));
        let (mut free, mut at_work) = (Vec::new(), JoinSet::new());
        loop {
            // An iteration is taken by who can begin it: where all have one, another thread may have somebody.
            let worker = self.free_worker(&mut free, &mut at_work).await?;
            let next = if shared.gate.is_stopping() { None } else { arrivals.next(since()) };
            let Some(due) = next.map(|due| began.saturating_add(due)) else {
                free.push(worker);
                break;
            };
            let waited = shared.clock.now() < due;
            if waited && !out.reaches(due).await {
                free.push(worker);
                break;
            }
            arrivals.begin();
            let (shared, population) = (Arc::clone(&shared), self.population);
            at_work.spawn_local(async move {
                let mut worker = worker;
                worker.hold_one(Due { at: due, waited }).await;
                if let Some(arrivals) = &shared.arrivals[population] {
                    arrivals.under_way.fetch_sub(1, Relaxed);
                }
                worker
            });
        }
        while let Some(worker) = at_work.join_next().await {
            free.push(worker.map_err(failed)?);
        }
        for mut worker in free {
            worker.close_all().await;
        }
        Ok(())
    }

    /// A worker without an iteration: the one that was free last, so that no more are needed than have something to do.
    async fn free_worker(&mut self, free: &mut Vec<Worker>, at_work: &mut JoinSet<Worker>) -> Result<Worker, String> {
        while let Some(worker) = at_work.try_join_next() {
            free.push(worker.map_err(failed)?);
        }
        if let Some(worker) = free.pop() {
            return Ok(worker);
        }
        if let Some(index) = self.unneeded.pop() {
            return Worker::new(index, self.out()).map_err(|error| error.to_string());
        }
        at_work.join_next().await.expect("a worker that is neither free nor unneeded is at work").map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: JoinError) -> String {
    format!("a worker failed: {error}")
}
