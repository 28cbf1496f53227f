//! A run from its first look at the server to its last.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{JoinSet, LocalSet},
};

use super::{
    Accounting, Hints, Preflight, ResourceError,
    accounting::Baseline,
    resources::{cpu_us, ensure_open_files},
    worker::{Worker, trace_step},
};
use crate::{
    event::{ContextId, Nanos},
    oracle::{Oracle, Outcome, Rules, Violation, ViolationKind},
    plan::correlation_id,
    recorder::{Record, Recorder, Tally},
    scenario::Scenario,
    seed::Seed,
    transport::{CallError, Client},
};

/// How many violations are kept with their evidence; all are counted.
const VIOLATIONS_KEPT: usize = 1000;
const TICK: Duration = Duration::from_millis(100);
/// The server may be restarting when a stream breaks: it is asked twice whether it is there.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What to send.
    pub scenario: Scenario,
    /// What fixes every choice.
    pub seed: Seed,
    /// What the command line tells of the endpoint.
    pub hints: Hints,
    /// Whether the first violation ends the run.
    pub fail_fast: bool,
}

/// Who watches a run.
pub trait Observer {
    /// What was found out before anything is sent.
    fn found(&mut self, _preflight: &Preflight) {}
    /// A violation, as soon as it is seen; only so many of them as are kept with their evidence.
    fn violation(&mut self, _violation: &Violation) {}
    /// How far the run is, some times a second.
    fn progress(&mut self, _progress: &Progress) {}
    /// The run was interrupted and waits for what is under way.
    fn interrupted(&mut self, _drain: Duration) {}
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Time since the run began.
    pub elapsed: Duration,
    /// Passes begun.
    pub passes: u64,
    /// Requests sent.
    pub requests: u64,
    /// Requests answered.
    pub answered: u64,
    /// Sequences begun.
    pub sequences: u64,
    /// Violations.
    pub violations: u64,
}

/// Whether a run was ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(pub bool);

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct Result {
    /// What was known of the model.
    pub preflight: Preflight,
    /// What was counted.
    pub tally: Tally,
    /// The first violations, in the order in which they were seen.
    pub violations: Vec<Violation>,
    /// What the server's own counts say.
    pub accounting: Accounting,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// CPU time of this process in that time, in µs.
    pub cpu_us: u64,
    /// Whether the run was ended before it was done.
    pub interrupted: Interrupted,
}

/// Why nothing could be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The server or the model is not such that it can be tested.
    Endpoint(String),
    /// The system does not let the process have what the run needs.
    Resources(ResourceError),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Endpoint(why) => f.write_str(why),
            Self::Resources(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// What the threads of a run share.
pub(super) struct Shared {
    pub(super) scenario: Scenario,
    pub(super) seed: Seed,
    pub(super) preflight: Preflight,
    fail_fast: bool,
    began: Instant,
    stopping: AtomicBool,
    /// Why the server is thought to be gone.
    gone: OnceLock<(Nanos, String)>,
    threads: Vec<ThreadProgress>,
    violations: mpsc::Sender<Violation>,
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
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn now(&self) -> Nanos {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
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
        for violation in &record.violations {
            progress.violations.fetch_add(1, Relaxed);
            // When the channel is full enough are kept already; all are counted.
            let _ = self.violations.try_send(violation.clone());
            if self.fail_fast {
                self.stopping.store(true, Relaxed);
            }
        }
    }

    pub(super) fn began_a_pass(&self, thread: usize) {
        self.threads[thread].passes.fetch_add(1, Relaxed);
    }

    pub(super) fn sent(&self, thread: usize, is_first_step: bool) {
        let progress = &self.threads[thread];
        progress.requests.fetch_add(1, Relaxed);
        progress.sequences.fetch_add(u64::from(is_first_step), Relaxed);
    }

    fn progress(&self) -> Progress {
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
        if self.gone.get().is_some() {
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
        self.stopping.store(true, Relaxed);
        false
    }
}

async fn answers(scenario: &Scenario) -> bool {
    let Ok(client) = Client::new(&scenario.target.endpoint, scenario.limits.connect_ms.duration()) else {
        return false;
    };
    matches!(client.server_live().await, Ok(true) | Err(CallError::Unimplemented | CallError::Refused(_)))
}

/// Runs a scenario. `interrupts` brings something each time that the run is to be ended before it is done.
///
/// # Errors
/// When nothing could be tested.
pub async fn run(
    setup: Setup,
    observer: &mut dyn Observer,
    mut interrupts: mpsc::Receiver<()>,
) -> std::result::Result<Result, RunError> {
    let Setup { scenario, seed, hints, fail_fast } = setup;
    ensure_open_files(&scenario).map_err(RunError::Resources)?;
    let limits = scenario.limits.clone();
    let name = scenario.target.model.clone();
    let client = Client::new(&scenario.target.endpoint, limits.connect_ms.duration())
        .map_err(|error| RunError::Endpoint(error.to_string()))?;
    let preflight = Preflight::ask(&client, &scenario, hints).await.map_err(RunError::Endpoint)?;
    observer.found(&preflight);
    let baseline = if preflight.has_statistics {
        Some(Baseline::take(&client, &name, limits.quiet_ms.duration()).await)
    } else {
        None
    };

    let threads = thread_count(&scenario);
    let (violations, mut seen) = mpsc::channel(VIOLATIONS_KEPT);
    let shared = Arc::new(Shared {
        scenario,
        seed,
        preflight,
        fail_fast,
        began: Instant::now(),
        stopping: AtomicBool::new(false),
        gone: OnceLock::new(),
        threads: (0..threads).map(|_| ThreadProgress::default()).collect(),
        violations,
    });
    let cpu_before = cpu_us();
    let (abort, aborted) = watch::channel(false);
    let handles: Vec<_> =
        (0..threads).map(|thread| spawn_thread(thread, threads, Arc::clone(&shared), aborted.clone())).collect();
    let mut joined = Box::pin(join_all(handles, shared.began));
    let mut kept = Vec::new();
    let mut watch = Watch::new();
    let mut ticks = tokio::time::interval(TICK);
    let (tally, elapsed) = loop {
        tokio::select! {
            done = &mut joined => break done.map_err(RunError::Endpoint)?,
            Some(violation) = seen.recv() => keep(violation, &mut kept, observer),
            Some(()) = interrupts.recv() => {
                watch.interrupted = true;
                observer.interrupted(limits.drain_ms.duration());
                shared.stopping.store(true, Relaxed);
            }
            _ = ticks.tick() => {
                let progress = shared.progress();
                observer.progress(&progress);
                if watch.should_abort(&shared, &progress) {
                    abort.send_replace(true);
                }
            }
        }
    };
    while let Ok(violation) = seen.try_recv() {
        keep(violation, &mut kept, observer);
    }
    let mut result = Result {
        preflight: shared.preflight.clone(),
        accounting: Accounting::NotCheckable { why: "the server has no ModelStatistics".to_owned() },
        elapsed,
        cpu_us: cpu_us().saturating_sub(cpu_before),
        interrupted: Interrupted(watch.interrupted),
        tally,
        violations: kept,
    };
    let mut of_the_run: Vec<_> = watch.hang.into_iter().collect();
    if let Some((at, reason)) = shared.gone.get() {
        of_the_run.push(server_died(&shared.scenario, *at, reason, &result.tally)?);
        result.accounting = Accounting::NotCheckable { why: "the server died".to_owned() };
    } else if let Some(baseline) = baseline {
        let counts = result.tally.total();
        result.accounting =
            baseline.compare(&client, &name, &counts, limits.settle_ms.duration(), limits.quiet_ms.duration()).await;
        of_the_run.extend(result.accounting.violation(shared.now(), &counts));
    }
    for violation in of_the_run {
        result.tally.violation(violation.kind);
        keep(violation, &mut result.violations, observer);
    }
    Ok(result)
}

fn thread_count(scenario: &Scenario) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.min(scenario.load.workers.get() as usize)
}

/// A runtime thread's work: its share of the workers, each `threads`-th from `thread` on.
fn spawn_thread(
    thread: usize,
    threads: usize,
    shared: Arc<Shared>,
    aborted: watch::Receiver<bool>,
) -> oneshot::Receiver<std::result::Result<Tally, String>> {
    let (done, result) = oneshot::channel();
    std::thread::spawn(move || {
        let outcome = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start a runtime thread: {error}"))
            .and_then(|runtime| runtime.block_on(run_workers(thread, threads, &shared, aborted)));
        // Nobody waits for it where the run was ended at once.
        let _ = done.send(outcome);
    });
    result
}

async fn run_workers(
    thread: usize,
    threads: usize,
    shared: &Arc<Shared>,
    mut aborted: watch::Receiver<bool>,
) -> std::result::Result<Tally, String> {
    let recorder = Rc::new(RefCell::new(recorder(shared)));
    let local = LocalSet::new();
    let mut workers = JoinSet::new();
    let indices = 0..shared.scenario.load.workers.get();
    for index in indices.skip(thread).step_by(threads) {
        let worker =
            Worker::new(index, thread, Arc::clone(shared), Rc::clone(&recorder)).map_err(|error| error.to_string())?;
        workers.spawn_local_on(worker.run(), &local);
    }
    let all = async {
        while let Some(worker) = workers.join_next().await {
            worker.map_err(|error| format!("a worker failed: {error}"))?;
        }
        Ok::<_, String>(())
    };
    let done = local.run_until(async {
        tokio::select! {
            done = all => done,
            // An error means that the run is gone, which ends the thread too.
            _ = aborted.wait_for(|aborted| *aborted) => Ok(()),
        }
    });
    done.await?;
    drop((workers, local));
    recorder.borrow_mut().interrupt(shared.now());
    let recorder = Rc::into_inner(recorder).ok_or("a worker outlived its run")?;
    Ok(recorder.into_inner().into_tally())
}

fn recorder(shared: &Shared) -> Recorder {
    let Shared { scenario, preflight, .. } = shared;
    let (workers, contexts) = (scenario.load.workers.get(), scenario.contexts.count());
    let rules = Rules {
        model: preflight.model.name.clone(),
        output: preflight.model.output.name.clone(),
        shape: preflight.model.shape.clone(),
        idle_limit: preflight.model.idle_limit,
        straggling: preflight.limits.lawful,
    };
    let id = |ContextId { worker, context }| correlation_id(scenario, worker, context);
    Recorder::new(Oracle::new(rules, workers, contexts, id), workers, contexts, preflight.limits.threshold)
}

async fn join_all(
    threads: Vec<oneshot::Receiver<std::result::Result<Tally, String>>>,
    began: Instant,
) -> std::result::Result<(Tally, Duration), String> {
    let mut tally = Tally::default();
    for thread in threads {
        tally.merge(&thread.await.map_err(|_| "a runtime thread failed")??);
    }
    Ok((tally, began.elapsed()))
}

fn keep(violation: Violation, kept: &mut Vec<Violation>, observer: &mut dyn Observer) {
    if kept.len() < VIOLATIONS_KEPT {
        observer.violation(&violation);
        kept.push(violation);
    }
}

fn server_died(
    scenario: &Scenario,
    at: Nanos,
    reason: &str,
    tally: &Tally,
) -> std::result::Result<Violation, RunError> {
    let answered = tally.total().answered();
    if answered == 0 {
        return Err(RunError::Endpoint(format!("the server stopped answering before its first response: {reason}")));
    }
    let sent = format!("{} requests, {answered} of them answered", tally.total().requests);
    let expected = format!("{} to go on answering", scenario.target.endpoint);
    Ok(Violation::of_the_run(ViolationKind::ServerDied, at, sent, expected, reason.to_owned()))
}

/// Ends a run that does not end by itself.
struct Watch {
    interrupted: bool,
    stopping_since: Option<Instant>,
    answered: u64,
    answered_at: Instant,
    hang: Option<Violation>,
}

impl Watch {
    fn new() -> Self {
        Self { interrupted: false, stopping_since: None, answered: 0, answered_at: Instant::now(), hang: None }
    }

    /// Whether to wait no longer for what is under way.
    fn should_abort(&mut self, shared: &Shared, progress: &Progress) -> bool {
        if progress.answered != self.answered {
            self.answered = progress.answered;
            self.answered_at = Instant::now();
        }
        let silent = self.answered_at.elapsed();
        if self.hang.is_none() && silent > shared.preflight.limits.lost_after * 2 {
            let sent = format!("{} requests, {} of them answered", progress.requests, progress.answered);
            let seen = format!("none for {} s", silent.as_secs());
            self.hang =
                Some(Violation::of_the_run(ViolationKind::Hang, shared.now(), sent, "answers".to_owned(), seen));
            shared.stopping.store(true, Relaxed);
        }
        if !shared.is_stopping() {
            return false;
        }
        let since = self.stopping_since.get_or_insert_with(Instant::now);
        let drained = since.elapsed() >= shared.scenario.limits.drain_ms.duration();
        drained || self.hang.is_some() || shared.gone.get().is_some()
    }
}
