//! What the threads of a run share.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Barrier, Mutex};
use tonic::transport::Channel;

use super::{Given, Preflight, Progress, out::trace_step};
use crate::{
    event::{ContextId, Nanos},
    oracle::Outcome,
    recorder::Record,
    scenario::Scenario,
    seed::Seed,
    transport::{CallError, Client},
};

/// The server may be restarting when a stream breaks: it is asked twice whether it is there.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// What the threads of a run share.
pub(super) struct Shared {
    pub(super) scenario: Scenario,
    pub(super) seed: Seed,
    /// What is sent in place of what the scenario draws.
    pub(super) given: Option<Given>,
    pub(super) preflight: Preflight,
    fail_fast: bool,
    /// When all connections stood and the first request could go out.
    began: OnceLock<Instant>,
    start: Barrier,
    /// Held by whoever looks whether the server is there: one at a time, so that the looks themselves do no harm.
    look: Mutex<()>,
    stopping: AtomicBool,
    /// A connection of each worker, for its neighbour.
    lent: Vec<OnceLock<Channel>>,
    /// Why the server is thought to be gone.
    gone: OnceLock<(Nanos, String)>,
    threads: Vec<ThreadProgress>,
}

/// What one thread has done so far. Each is on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadProgress {
    passes: AtomicU64,
    requests: AtomicU64,
    answered: AtomicU64,
    sequences: AtomicU64,
    violations: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        scenario: Scenario,
        seed: Seed,
        given: Option<Given>,
        preflight: Preflight,
        fail_fast: bool,
        threads: usize,
    ) -> Self {
        Self {
            lent: (0..scenario.load.workers.get()).map(|_| OnceLock::new()).collect(),
            scenario,
            seed,
            given,
            preflight,
            fail_fast,
            began: OnceLock::new(),
            start: Barrier::new(threads),
            look: Mutex::new(()),
            stopping: AtomicBool::new(false),
            gone: OnceLock::new(),
            threads: (0..threads).map(|_| ThreadProgress::default()).collect(),
        }
    }

    /// Lets the neighbour of a worker use a connection of that worker.
    pub(super) fn lend_connection(&self, worker: u32, channel: Channel) {
        // Each worker does it once.
        let _ = self.lent[worker as usize].set(channel);
    }

    /// The connection that the next worker lends.
    pub(super) fn neighbour(&self, worker: u32) -> Option<&Channel> {
        self.lent[(worker as usize + 1) % self.lent.len()].get()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(super) fn now(&self) -> Nanos {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
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
    }

    /// Starts no more passes.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// When and why the server was found to be gone.
    pub(super) fn gone(&self) -> Option<&(Nanos, String)> {
        self.gone.get()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Takes note of what an event meant.
    pub(super) fn noticed(&self, thread: usize, context: ContextId, at: Nanos, record: &Record) {
        let progress = &self.threads[thread];
        if let Some(settled) = &record.settled {
            progress.answered.fetch_add(u64::from(settled.outcome != Outcome::Indeterminate), Relaxed);
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
        progress.violations.fetch_add(record.violations.len() as u64, Relaxed);
        if self.fail_fast && !record.violations.is_empty() {
            self.stop();
        }
    }

    /// Whether a violation ended the run before it was done.
    pub(super) fn ended_by_violation(&self) -> bool {
        self.fail_fast && self.progress().violations > 0
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
        if answers(&self.scenario).await {
            return true;
        }
        tokio::time::sleep(SECOND_LOOK).await;
        if answers(&self.scenario).await {
            return true;
        }
        _ = self.gone.set((self.now(), reason.to_owned()));
        self.stop();
        false
    }
}

async fn answers(scenario: &Scenario) -> bool {
    let Ok(client) = Client::new(&scenario.target.endpoint, scenario.limits.connect_ms.duration()) else {
        return false;
    };
    matches!(client.server_live().await, Ok(true) | Err(CallError::Unimplemented | CallError::Refused(_)))
}
