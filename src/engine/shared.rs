//! What the threads of a run share.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{Barrier, Mutex, Notify, watch},
    time::Instant,
};

use super::{Given, Preflight, Progress, disturbance::Disturbances, held_up::HeldUp, out::trace_step, phases::Phases};
use crate::recorder::Noted;
use oracle::Outcome;
use wire::{
    proxy::Path,
    transport::{Access, CallError, Client, Dialer, Link},
};
use workload::{
    event::{ContextId, Nanos},
    scenario::{Population, Scenario},
    seed::Seed,
};

/// The server may be restarting when a stream breaks: it is asked twice whether it is there.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// The longest that a client waits until it gives a connection up on which nothing passes any more.
pub(super) const PATIENCE_MAX: Duration = Duration::from_secs(10);

/// What the threads of a run share.
pub(super) struct Shared {
    pub(super) scenario: Scenario,
    pub(super) seed: Seed,
    /// What is sent in place of what the scenario draws.
    pub(super) given: Option<Given>,
    pub(super) preflight: Preflight,
    pub(super) access: Access,
    fail_fast: bool,
    /// This program's executable.
    program: Option<PathBuf>,
    /// When all connections stood and the first request could go out.
    began: OnceLock<Instant>,
    start: Barrier,
    /// Wakes those that wait for it.
    start_told: Notify,
    /// Held by whoever looks whether the server is there: one at a time, so that the looks themselves do no harm.
    look: Mutex<()>,
    stopping: AtomicBool,
    /// Wakes those that sleep when the run is stopping.
    stopped: Notify,
    /// Closed when no thread works any more: until then each keeps its connections, some of which others use.
    at_work: watch::Sender<()>,
    /// Whether a network takes connections away.
    pub(super) network_takes: bool,
    /// A connection of each worker, for its neighbour.
    lent: Vec<OnceLock<Link>>,
    /// Why the server is thought to be gone.
    gone: OnceLock<(Nanos, String)>,
    pub(super) phases: Phases,
    /// What was done to the server.
    pub(super) disturbances: Disturbances,
    threads: Vec<ThreadProgress>,
}

/// What one thread has done so far. Each is on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadProgress {
    passes: AtomicU64,
    requests: AtomicU64,
    answered: AtomicU64,
    completed: AtomicU64,
    abandoned: AtomicU64,
    sequences: AtomicU64,
    violations: AtomicU64,
    held_up: HeldUp,
}

impl Shared {
    pub(super) fn new(
        scenario: Scenario,
        seed: Seed,
        given: Option<Given>,
        (preflight, access): (Preflight, Access),
        fail_fast: bool,
        program: Option<PathBuf>,
        threads: usize,
    ) -> Self {
        let takes =
            |population: &Population| population.network.cut.is_some() || population.network.black_hole.is_some();
        let network_takes = scenario.populations.iter().any(takes);
        Self {
            phases: Phases::new(&scenario),
            disturbances: Disturbances::default(),
            lent: (0..scenario.workers()).map(|_| OnceLock::new()).collect(),
            scenario,
            seed,
            given,
            preflight,
            access,
            fail_fast,
            program,
            began: OnceLock::new(),
            start: Barrier::new(threads),
            start_told: Notify::new(),
            look: Mutex::new(()),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
            at_work: watch::Sender::new(()),
            network_takes,
            gone: OnceLock::new(),
            threads: (0..threads).map(|_| ThreadProgress::default()).collect(),
        }
    }

    /// How a worker makes the connections of one of its contexts: endpoints are taken in turn by both.
    pub(super) fn dialer(&self, worker: u32, context: u32) -> Dialer {
        let network = &self.scenario.population_of(worker).network;
        // Longer than a sequence lives without a request, so that the server meets a client that is silent, and not gone.
        let patience = (self.preflight.manner().idle_limit * 2).min(PATIENCE_MAX);
        let path =
            (!network.is_clear()).then(|| Arc::new(Path::new(network.clone(), Some(patience), self.seed, worker)));
        let place = worker as usize + context as usize;
        let limit = self.scenario.limits.connect_ms.duration();
        let dialer = Dialer::to(&self.scenario.target.endpoint, place, &self.access, limit);
        Dialer { path, program: self.program.clone(), ..dialer }
    }

    /// Says that a thread is at work, for as long as what it gets is kept.
    pub(super) fn works(&self) -> watch::Receiver<()> {
        self.at_work.subscribe()
    }

    /// Waits until no thread is at work.
    pub(super) async fn all_are_done(&self) {
        self.at_work.closed().await;
    }

    /// Lets the neighbour of a worker use a connection of that worker.
    pub(super) fn lend_connection(&self, worker: u32, link: Link) {
        // Each worker does it once.
        let _ = self.lent[worker as usize].set(link);
    }

    /// The connection that the next worker lends.
    pub(super) fn neighbour(&self, worker: u32) -> Option<&Link> {
        self.lent[(worker as usize + 1) % self.lent.len()].get()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(super) fn now(&self) -> Nanos {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How much is left of the time that something may take for which the server is waited since then. While it is disturbed
    /// that is all, and begins anew when it serves again.
    pub(super) fn time_left(&self, since: Nanos, limit: Duration) -> Duration {
        self.disturbances.due_since(since).map_or(limit, |since| {
            let waited = Duration::from_nanos(self.now().saturating_sub(since));
            limit.saturating_sub(waited)
        })
    }

    pub(super) fn has_begun(&self) -> bool {
        self.began.get().is_some()
    }

    /// Waits until every thread has its connections; without them the run does not start.
    pub(super) async fn ready_to_start(&self, connected: bool) {
        if !connected {
            self.stop();
        }
        self.start.wait().await;
        self.began.get_or_init(Instant::now);
        self.start_told.notify_waiters();
    }

    /// Waits until the run has begun.
    pub(super) async fn started(&self) {
        let woken = self.start_told.notified();
        if !self.has_begun() {
            woken.await;
        }
    }

    /// Starts no more passes.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.stopped.notify_waiters();
    }

    /// When and why the server was found to be gone.
    pub(super) fn gone(&self) -> Option<&(Nanos, String)> {
        self.gone.get()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Waits until the run is stopping.
    pub(super) async fn stopped(&self) {
        // Made before the look, so that a stop behind the look wakes it.
        let woken = self.stopped.notified();
        if !self.is_stopping() {
            woken.await;
        }
    }

    /// Takes note of what an event meant.
    pub(super) fn noticed(&self, thread: usize, context: ContextId, at: Nanos, record: &Noted) {
        let progress = &self.threads[thread];
        if let Some(settled) = &record.settled {
            let is_answered = settled.outcome != Outcome::Indeterminate;
            let count = if is_answered { &progress.answered } else { &progress.abandoned };
            count.fetch_add(1, Relaxed);
            progress.completed.fetch_add(u64::from(settled.outcome == Outcome::Completed), Relaxed);
            if tracing::enabled!(tracing::Level::DEBUG) {
                let sum = settled.sum.map_or(String::new(), |sum| format!(" {sum}"));
                let ms = Duration::from_nanos(at.saturating_sub(settled.sent_at)).as_secs_f64() * 1000.0;
                trace_step(
                    context,
                    &settled.step,
                    &format!("{:?}{sum} after {ms:.1} ms:", settled.outcome).to_lowercase(),
                );
            }
        }
        if record.abandoned > 0 {
            progress.abandoned.fetch_add(record.abandoned as u64, Relaxed);
        }
        progress.violations.fetch_add(record.violations.len() as u64, Relaxed);
        if self.fail_fast && !record.violations.is_empty() {
            self.stop();
        }
    }

    /// A violation was handed on, which may be one that no thread could see alone.
    pub(super) fn stop_at_violation(&self) {
        if self.fail_fast {
            self.stop();
        }
    }

    /// Whether a violation ended the run before it was done.
    pub(super) fn ended_by_violation(&self) -> bool {
        self.fail_fast && self.progress().violations > 0
    }

    /// How long a thread was held up.
    pub(super) fn held_up(&self, thread: usize) -> &HeldUp {
        &self.threads[thread].held_up
    }

    pub(super) fn finished_a_pass(&self, thread: usize) {
        self.threads[thread].passes.fetch_add(1, Relaxed);
    }

    pub(super) fn sent(&self, thread: usize, is_first_step: bool) {
        let progress = &self.threads[thread];
        progress.requests.fetch_add(1, Relaxed);
        progress.sequences.fetch_add(u64::from(is_first_step), Relaxed);
    }

    pub(super) fn progress(&self) -> Progress {
        let sum = |count: fn(&ThreadProgress) -> &AtomicU64| {
            self.threads.iter().map(|thread| count(thread).load(Relaxed)).sum()
        };
        Progress {
            elapsed: self.elapsed(),
            passes: sum(|thread| &thread.passes),
            requests: sum(|thread| &thread.requests),
            answered: sum(|thread| &thread.answered),
            completed: sum(|thread| &thread.completed),
            abandoned: sum(|thread| &thread.abandoned),
            sequences: sum(|thread| &thread.sequences),
            violations: sum(|thread| &thread.violations),
        }
    }

    /// Whether the server still answers after a stream broke for `reason`; if not, the run is over.
    pub(super) async fn server_is_there(&self, reason: &str) -> bool {
        let _look = self.look.lock().await;
        if self.gone().is_some() {
            return false;
        }
        if answers(&self.scenario, &self.access).await {
            return true;
        }
        tokio::time::sleep(SECOND_LOOK).await;
        if answers(&self.scenario, &self.access).await {
            return true;
        }
        _ = self.gone.set((self.now(), reason.to_owned()));
        self.stop();
        false
    }
}

async fn answers(scenario: &Scenario, access: &Access) -> bool {
    let Ok(client) = Client::new(scenario.target.endpoint.for_calls(), access, scenario.limits.connect_ms.duration())
    else {
        return false;
    };
    matches!(
        client.server_live().await,
        Ok(true) | Err(CallError::Unimplemented | CallError::Refused(_) | CallError::Restricted(_))
    )
}
