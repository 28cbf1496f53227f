//! Iterations that begin at times of their own, on as many workers as that takes.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinError, JoinSet};

use super::{
    Setup,
    alarm::Alarms,
    shared::{Out, Shared},
    worker::Worker,
};
use crate::recorder::Recorder;
use workload::{
    event::{Due, Nanos},
    scenario::{Population, Schedule},
};

/// The most iterations that are counted as not begun.
const LEFT_MAX: usize = 1_000_000;

/// What became of the iterations of a population that begin at a rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// The population's name; empty where there is one.
    pub population: String,
    /// Iterations that were begun.
    pub begun: u64,
    /// Of these, those that began late because all workers had one.
    pub begun_late: u64,
    /// Iterations that were due before the load's end, or before it was stopped, and were not begun; at most 1,000,000 are counted.
    pub not_begun: u64,
    /// The most that were under way at a time.
    pub most_at_a_time: u32,
    /// The largest number that may be under way at a time.
    pub workers: u32,
}

impl Arrived {
    /// Adds those of another rank.
    pub(super) fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.begun_late += other.begun_late;
        self.not_begun += other.not_begun;
        // Each rank had its most at a time of its own: together there were no more than this.
        self.most_at_a_time += other.most_at_a_time;
        self.workers += other.workers;
    }
}

/// The iterations of a population that are still to come, for all threads.
#[derive(Debug)]
pub(crate) struct Arrivals {
    schedule: Mutex<Schedule>,
    /// How many workers there are for them.
    workers: u32,
    end: Option<Duration>,
    begun: AtomicU64,
    begun_late: AtomicU64,
    /// When the run was stopped.
    stopped_at: AtomicU64,
    under_way: AtomicU32,
    most_at_a_time: AtomicU32,
}

impl Arrivals {
    /// Those of each population in turn; none where iterations follow one another.
    pub(crate) fn of(setup: &Setup) -> Vec<Option<Self>> {
        let Setup { scenario, seed, share, .. } = setup;
        let of = |(index, (population, workers)): (u32, (&Population, u32))| {
            Some(Self {
                schedule: Mutex::new(Schedule::of(&population.load, *seed, index)?.shared(*share)),
                workers,
                end: population.load.ends(),
                begun: AtomicU64::new(0),
                begun_late: AtomicU64::new(0),
                stopped_at: AtomicU64::new(u64::MAX),
                under_way: AtomicU32::new(0),
                most_at_a_time: AtomicU32::new(0),
            })
        };
        (0..).zip(share.of_populations(scenario)).map(of).collect()
    }

    /// When the next iteration is due, since the load began, which was this long ago; none where there are no more.
    pub(crate) fn next(&self, elapsed: Duration) -> Option<Nanos> {
        if self.end.is_some_and(|end| elapsed >= end) {
            return None;
        }
        self.schedule.lock().expect("no thread fails while it has it").next()
    }

    /// How many are or were under way at a time, at the most.
    pub(crate) fn most_at_a_time(&self) -> u32 {
        self.most_at_a_time.load(Relaxed)
    }

    /// An iteration begins.
    pub(crate) fn begin(&self, is_late: bool) {
        self.begun.fetch_add(1, Relaxed);
        self.begun_late.fetch_add(u64::from(is_late), Relaxed);
        let under_way = self.under_way.fetch_add(1, Relaxed) + 1;
        self.most_at_a_time.fetch_max(under_way, Relaxed);
    }

    /// An iteration is over.
    pub(crate) fn end(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// What became of them, where the load began so long ago.
    pub(crate) fn arrived(&self, population: &Population, elapsed: Duration) -> Arrived {
        let schedule = self.schedule.lock().expect("no thread fails while it has it").clone();
        let until = elapsed.min(Duration::from_nanos(self.stopped_at.load(Relaxed)));
        Arrived {
            population: population.name.clone(),
            begun: self.begun.load(Relaxed),
            begun_late: self.begun_late.load(Relaxed),
            not_begun: schedule.left(until, LEFT_MAX) as u64,
            most_at_a_time: self.most_at_a_time(),
            workers: self.workers,
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
        // Whether there was no free worker in time for an iteration, and none has been in time since.
        let mut is_behind = false;
        loop {
            // An iteration is taken by who can begin it: where all have one, another thread may have somebody.
            let (worker, was_waited_for) = tokio::select! {
                worker = self.free_worker(&mut free, &mut at_work) => worker?,
                () = shared.gate.stopped() => break,
            };
            is_behind |= was_waited_for;
            let next = if shared.gate.is_stopping() { None } else { arrivals.next(since()) };
            let Some(due) = next.map(|due| began.saturating_add(due)) else {
                free.push(worker);
                break;
            };
            if shared.clock.now() < due {
                is_behind = false;
                if !out.reaches(due).await {
                    free.push(worker);
                    break;
                }
            }
            arrivals.begin(is_behind);
            let due = Due { at: due, waited: !is_behind };
            let (shared, population) = (Arc::clone(&shared), self.population);
            // In a box, because it is large, and the runtime moves it several times.
            at_work.spawn_local(Box::pin(async move {
                let mut worker = worker;
                worker.hold_one(due).await;
                if let Some(arrivals) = &shared.arrivals[population] {
                    arrivals.end();
                }
                worker
            }));
        }
        if shared.gate.is_stopping() {
            arrivals.stopped_at.fetch_min(u64::try_from(since().as_nanos()).unwrap_or(u64::MAX), Relaxed);
        }
        while let Some(worker) = at_work.join_next().await {
            free.push(worker.map_err(failed)?);
        }
        join_all(free.iter_mut().map(|worker| worker.close_all())).await;
        Ok(())
    }

    /// A worker without an iteration, and whether there was none at once: the one that was free last, so that no more are needed than have
    /// something to do.
    #[expect(clippy::vec_box, reason = "a worker is large, and goes from one to the other with each iteration")]
    async fn free_worker(
        &mut self,
        free: &mut Vec<Box<Worker>>,
        at_work: &mut JoinSet<Box<Worker>>,
    ) -> Result<(Box<Worker>, bool), String> {
        while let Some(worker) = at_work.try_join_next() {
            free.push(worker.map_err(failed)?);
        }
        if let Some(worker) = free.pop() {
            return Ok((worker, false));
        }
        if let Some(index) = self.unneeded.pop() {
            let worker = Worker::new(index, self.out()).map_err(|error| error.to_string())?;
            return Ok((Box::new(worker), false));
        }
        let worker = at_work.join_next().await.expect("a worker that is neither free nor unneeded is at work");
        Ok((worker.map_err(failed)?, true))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: JoinError) -> String {
    format!("a worker failed: {error}")
}
