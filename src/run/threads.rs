//! The runtime threads, each with its share of the workers.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::{Arc, mpsc},
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    runtime::{self, LocalOptions},
    sync::{oneshot, watch},
    task::{JoinSet, LocalSet},
    time::MissedTickBehavior,
};

use super::{
    Setup,
    alarm::Alarms,
    arrivals::Dispatcher,
    shared::{Out, Shared},
    worker::Worker,
};
use crate::recorder::{Recorder, Tally, Tap, Taps};
use wire::{simulation, transport::CallError};
/// How many workers one thread serves before there is another.
const WORKERS_OF_A_THREAD: u32 = 64;

/// How many connections each thread makes at a time.
const CONNECTING_AT_ONCE: usize = 16;

/// How long a recorder may hold back what the collector is to get.
const HELD_BACK: Duration = Duration::from_millis(100);

/// How many runtime threads a process's share of a scenario gets: one for so many workers, and at most one for each core.
///
/// A thread that serves more connections finds more answers each time it looks, which costs less than to wake another.
pub(super) fn thread_count(setup: &Setup) -> usize {
    if simulation::is_on() {
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.min(setup.share.workers(&setup.scenario).div_ceil(WORKERS_OF_A_THREAD).max(1) as usize)
}

/// Has the workers work, on their threads or in the simulation of this one, and brings what they counted. An error where the system has
/// no room for the threads' runtimes.
pub(super) fn work(shared: &Arc<Shared>, taps: &Taps, aborted: &watch::Receiver<bool>) -> Result<Working, String> {
    if simulation::is_on() {
        let (shared, tap, aborted) = (Arc::clone(shared), taps.tap(), aborted.clone());
        let local = LocalSet::new();
        return Ok(Box::pin(async move { local.run_until(run_workers(0, &shared, tap, aborted)).await }));
    }
    let start = |thread| spawn_thread(thread, Arc::clone(shared), taps.tap(), aborted.clone());
    let threads: Vec<_> = (0..shared.threads.len()).map(start).collect();
    // None begins before all can.
    for thread in &threads {
        thread.is_there.recv().map_err(|_| "a runtime thread failed")??;
    }
    let begin = |Thread { begins, result, .. }: Thread| {
        // One that is gone tells it with its result.
        let _ = begins.send(());
        result
    };
    Ok(Box::pin(join_all(threads.into_iter().map(begin).collect())))
}

/// What the threads will have counted, or why one of them failed.
pub(super) type Working = Pin<Box<dyn Future<Output = Result<Tally, String>>>>;

/// A runtime thread. It ends if it is not told to begin.
struct Thread {
    /// Whether it has a runtime.
    is_there: mpsc::Receiver<Result<(), String>>,
    begins: mpsc::Sender<()>,
    result: oneshot::Receiver<Result<Tally, String>>,
}

/// A runtime thread's work: its share of the workers.
fn spawn_thread(thread: usize, shared: Arc<Shared>, tap: Tap, aborted: watch::Receiver<bool>) -> Thread {
    let (done, result) = oneshot::channel();
    let (tell, is_there) = mpsc::channel();
    let (begins, told_to_begin) = mpsc::channel();
    let at_work = shared.gate.at_work.subscribe();
    std::thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.map_err(|error| format!("cannot start a runtime thread: {error}"));
        // Nobody waits for it where another thread has no runtime.
        let _ = tell.send(runtime.as_ref().map(|_| ()).map_err(String::clone));
        let (Ok(runtime), Ok(())) = (runtime, told_to_begin.recv()) else { return };
        runtime.block_on(async {
            let counted = run_workers(thread, &shared, tap, aborted).await;
            drop(at_work);
            // Nobody waits for it where the run was ended at once.
            let _ = done.send(counted);
            // The connections of this thread live as long as its runtime, and a neighbour of another thread may use them.
            shared.gate.at_work.closed().await;
        });
    });
    Thread { is_there, begins, result }
}

/// Has each n-th worker work, from the `thread`-th on, where there are n threads.
async fn run_workers(
    thread: usize,
    shared: &Arc<Shared>,
    tap: Tap,
    mut aborted: watch::Receiver<bool>,
) -> Result<Tally, String> {
    let Shared { setup: Setup { scenario, share, .. }, preflight, .. } = &**shared;
    let recorder = Recorder::of(
        scenario,
        preflight.rules(scenario),
        preflight.limits.threshold,
        Some(tap),
        shared.seconds.clone(),
    );
    let recorder = Rc::new(RefCell::new(recorder.beside(Arc::clone(&shared.loads))));
    let alarms = Rc::new(Alarms::default());
    let (mut workers, mut dispatchers) = (Ok(Vec::new()), Vec::new());
    let mut first = 0;
    for (index, population) in scenario.populations.iter().enumerate() {
        let behind = first + population.load.workers.get();
        let is_its =
            |worker: &u32| share.has(*worker) && share.place_of(*worker) as usize % shared.threads.len() == thread;
        let its = (first..behind).filter(is_its);
        first = behind;
        if shared.arrivals.get(index).is_some_and(Option::is_some) {
            let its: Vec<_> = its.collect();
            // A thread without workers would wait for one.
            if !its.is_empty() {
                dispatchers.push(Dispatcher::new(index, its.into_iter(), thread, (shared, &recorder, &alarms)));
            }
            continue;
        }
        let out =
            || Out { shared: Arc::clone(shared), recorder: Rc::clone(&recorder), thread, alarms: Rc::clone(&alarms) };
        let made = its.map(|index| Worker::new(index, out())).collect::<Result<Vec<_>, _>>();
        workers = workers.and_then(|mut all: Vec<Worker>| {
            all.extend(made?);
            Ok(all)
        });
    }
    let workers = workers.map_err(|error: CallError| error.to_string());
    let mut running = JoinSet::new();
    let all = async {
        let connected = match workers {
            Ok(workers) => connect(&workers, shared).await.map(|()| workers),
            Err(error) => Err(error),
        };
        // The others wait for this thread, with or without workers.
        shared.ready_to_start(connected.is_ok()).await;
        for worker in connected? {
            running.spawn_local(async move {
                worker.run().await;
                Ok(())
            });
        }
        for dispatcher in dispatchers {
            running.spawn_local(dispatcher.run());
        }
        while let Some(ended) = running.join_next().await {
            ended.map_err(|error| format!("a worker failed: {error}"))??;
        }
        Ok::<_, String>(())
    };
    let done = tokio::select! {
        done = all => done,
        // An error means that the run is gone, which ends the thread too.
        _ = aborted.wait_for(|aborted| *aborted) => Ok(()),
        () = keep_flushing(&recorder, thread, shared) => Ok(()),
        never = shared.threads[thread].held_up.measure() => match never {},
        never = alarms.ring(&shared.clock) => match never {},
    };
    if done.is_err() {
        // What the other threads would still find could not be reported.
        shared.gate.stop();
    }
    done?;
    running.shutdown().await;
    let mut recorder = recorder.borrow_mut();
    recorder.interrupt(shared.clock.now());
    let patterns = recorder.patterns();
    let tally = recorder.close();
    shared.glances.leave_last(thread, patterns);
    shared.snapshots.leave_last(thread, tally.clone());
    Ok(tally)
}

/// Lets go of what is held back for the collector, again and again, and leaves what was counted where somebody asks for it.
async fn keep_flushing(recorder: &RefCell<Recorder>, thread: usize, shared: &Shared) {
    let mut ticks = tokio::time::interval(HELD_BACK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        recorder.borrow_mut().flush(shared.clock.now());
        shared.snapshots.leave(thread, || recorder.borrow().tally().clone());
        shared.glances.leave(thread, || recorder.borrow().patterns());
    }
}

/// Makes the workers' connections, so many at a time that the server can take them in.
async fn connect(workers: &[Worker], shared: &Shared) -> Result<(), String> {
    let limit = shared.setup.scenario.limits.connect_ms.duration();
    let proven = workers.iter().flat_map(Worker::connections).map(|(link, by)| link.prove(by, limit));
    let all = stream::iter(proven).buffer_unordered(CONNECTING_AT_ONCE).try_for_each(|()| async { Ok(()) });
    all.await.map_err(|error| format!("not every connection of the scenario could be made: {error}"))
}

async fn join_all(threads: Vec<oneshot::Receiver<Result<Tally, String>>>) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for thread in threads {
        tally.merge(&thread.await.map_err(|_| "a runtime thread failed")??);
    }
    Ok(tally)
}
