//! What a run does to the server in its middle: the model is loaded anew, an instance of it killed, or the server restarted.

use std::{
    collections::BTreeMap,
    fmt,
    process::Stdio,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    process::Command,
    sync::Notify,
    time::{Instant, timeout},
};

use super::{MemorySource, Setup, health::Stubs, shared::Shared};
use wire::transport::{Client, Configuration};
use workload::{
    event::{Disturbance, Nanos},
    scenario::{Phase, Scenario, ServerAction},
};

/// How long a server may take to be there again.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// What lets a client load models.
const EXPLICIT: &str = "tritonserver lets clients load models with --model-control-mode=explicit --load-model='*'";
/// How long another model stays loaded, and the run begins with, before it is unloaded.
const BETWEEN_LOADS: Duration = Duration::from_millis(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a server may take to start an instance's process again by itself. Where Triton does, it takes one second.
const STUB_COMES_WITHIN: Duration = Duration::from_secs(3);

/// How the server is ended and started again: by what is done when the server is there again, or has one line that says why it is not.
#[derive(Clone)]
pub struct Restart(Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>);

impl Restart {
    /// Restarts the server by this function.
    pub fn by<R>(restart: impl Fn() -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(restart())))
    }

    /// Restarts the server.
    pub(crate) async fn carry_out(&self) -> Result<(), String> {
        let Self(restart) = self;
        restart().await
    }

    /// Restarts the server by a shell command, which may take a minute.
    pub(crate) fn by_command(command: &str) -> Self {
        let command: Arc<str> = command.into();
        Self::by(move || run_command(Arc::clone(&command)))
    }
}

impl fmt::Debug for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Restart")
    }
}

async fn run_command(command: Arc<str>) -> Result<(), String> {
    let failed = |why: String| Err(format!("the command that restarts the server, `{command}`, {why}"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &*command]).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    match timeout(BACK_WITHIN, shell.status()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => failed(format!("failed: {status}")),
        Ok(Err(error)) => failed(format!("cannot be run: {error}")),
        Err(_) => failed(format!("took more than {} s", BACK_WITHIN.as_secs())),
    }
}

/// What was done to the server so far, as those see it who talk to it.
#[derive(Debug, Default)]
pub(super) struct Disturbances {
    /// Twice the number of those that are over, and one where one is under way.
    count: AtomicU64,
    over_at: AtomicU64,
    /// When one began that failed, so that it never is.
    failed: OnceLock<Nanos>,
    /// The counts before those disturbances that are no more than an instance that fails.
    of_an_instance: Mutex<Vec<u64>>,
    over: Notify,
}

impl Disturbances {
    /// Rises by one when a disturbance begins, and by one when it is over.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    pub(super) fn any(&self) -> bool {
        self.count() > 0
    }

    pub(super) fn is_under_way(&self) -> bool {
        !self.count().is_multiple_of(2)
    }

    /// From when on what is awaited since this time has a right to come: not before the server served again. None while it does
    /// not.
    pub(super) fn due_since(&self, since: Nanos) -> Option<Nanos> {
        (!self.is_under_way()).then(|| since.max(self.over_at.load(Acquire)))
    }

    /// When one began that failed: what the server does since then says nothing about it.
    pub(super) fn failed(&self) -> Option<Nanos> {
        self.failed.get().copied()
    }

    /// Waits until none is under way, or nobody cares any more; each comes to its end, also when the run is stopping.
    pub(super) async fn over(&self) {
        loop {
            // Made before the look, so that an end behind the look wakes it.
            let woken = self.over.notified();
            if !self.is_under_way() || self.failed().is_some() {
                return;
            }
            woken.await;
        }
    }

    /// The one that is under way failed, which began then: the server is in nobody knows which state, and stays disturbed.
    pub(super) fn fail(&self, began: Nanos) {
        // Nothing is done after it.
        let _ = self.failed.set(began);
        self.over.notify_waiters();
    }

    /// What the context sees that has heeded so many beginnings and ends.
    pub(super) fn next(&self, heeded: u64) -> Disturbance {
        match heeded % 2 {
            0 if self.of_an_instance.lock().unwrap_or_else(PoisonError::into_inner).contains(&heeded) => {
                Disturbance::InstanceFails
            }
            0 => Disturbance::Begins,
            _ => Disturbance::IsOver,
        }
    }

    /// One begins that is no more than an instance that fails: see [`Self::begin`].
    pub(super) fn begin_with_an_instance(&self) {
        self.of_an_instance.lock().unwrap_or_else(PoisonError::into_inner).push(self.count());
        self.begin();
    }

    /// One begins: to be told before anything happens of which somebody may see a consequence.
    pub(super) fn begin(&self) {
        self.count.fetch_add(1, AcqRel);
    }

    pub(super) fn end(&self, now: Nanos) {
        // Told before the count, so that whoever sees the end sees when it was.
        self.over_at.store(now, Release);
        self.count.fetch_add(1, AcqRel);
        self.over.notify_waiters();
    }
}

/// What is needed to do something to the server.
#[derive(Debug)]
pub(super) struct Hands {
    client: Client,
    model: String,
    /// How the model was configured before the run, where the scenario loads it anew.
    before: Option<Configuration>,
    /// Whether it may be loaded with another configuration now.
    is_changed: AtomicBool,
    restart: Option<Restart>,
    /// How an instance of the model is killed, where the scenario does that.
    killer: Option<Killer>,
    /// How the other models are configured that are unloaded and loaded, by their names.
    others: BTreeMap<String, Configuration>,
}

/// How an instance of the model is killed.
#[derive(Clone, Debug)]
enum Killer {
    /// The embedded server lets it fail, and come back.
    Embedded(Restart),
    /// Its process is killed.
    Process(Stubs),
}

/// How an instance of the model would be killed, where the scenario does that.
///
/// # Errors
/// Why that cannot be done, in one line.
fn killer(setup: &Setup) -> Result<Option<Killer>, String> {
    let scenario = &setup.scenario;
    let Some(phase) = scenario.phases.iter().find(|phase| phase.server.is_some_and(ServerAction::kills)) else {
        return Ok(None);
    };
    if let Some(failure) = &setup.instance_failure {
        return Ok(Some(Killer::Embedded(failure.clone())));
    }
    let cannot =
        |why: String| format!("phase '{}' is not possible: it kills an instance of the model, {why}", phase.name);
    let Some(MemorySource::Process(pid)) = setup.server_memory else {
        return Err(cannot("and needs --server-pid to find its process".to_owned()));
    };
    let stubs = Stubs { server: pid, model: scenario.target.model.clone() };
    if stubs.pids().map_err(cannot)?.is_empty() {
        return Err(cannot(format!("and no descendant of process {pid} is a Python stub of '{}'", stubs.model)));
    }
    Ok(Some(Killer::Process(stubs)))
}

/// Why the process cannot be killed that the scenario kills, if it cannot: nothing is sent for this.
pub(super) fn cannot_kill(setup: &Setup) -> Option<String> {
    killer(setup).err()
}

/// Another model was unloaded and loaded so often before that failed.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) times: u64,
    pub(super) why: String,
}

impl Hands {
    /// Makes sure that what the scenario does to the server can be done, as far as that does no harm.
    pub(super) async fn new(client: Client, setup: &Setup) -> Result<Self, String> {
        let (scenario, restart) = (&setup.scenario, setup.restart.clone());
        let killer = killer(setup)?;
        // Loading may take as long as starting.
        let client = client.with_limit(BACK_WITHIN);
        let model = scenario.target.model.clone();
        let mut before = None;
        for phase in &scenario.phases {
            let cannot = |why: String| format!("phase '{}' is not possible: {why}", phase.name);
            match phase.server {
                Some(ServerAction::Restart) if restart.is_none() => {
                    return Err(cannot("it restarts the server, and needs --restart-command to do so".to_owned()));
                }
                Some(action) if action.loads() && before.is_none() => {
                    let why = |error| cannot(format!("it loads the model anew, and that fails: {error}; {EXPLICIT}"));
                    let configuration = client.configuration(&model).await.map_err(why)?;
                    if scenario.phases.iter().any(Phase::changes_model) {
                        may_change(&model, &configuration).map_err(cannot)?;
                    }
                    client.load(&model, &configuration).await.map_err(why)?;
                    before = Some(configuration);
                }
                _ => {}
            }
        }
        let others = others(&client, scenario).await?;
        let hands = Self { client, model, before, is_changed: AtomicBool::new(false), restart, killer, others };
        if hands.before.is_some() {
            hands.await_service().await?;
        }
        Ok(hands)
    }

    /// Does something to the server, and waits until it serves again; says what came of it. Where it fails that is not told to be
    /// over.
    pub(super) async fn act(&self, action: ServerAction, shared: &Shared) -> Result<String, String> {
        let began = Instant::now();
        // Told before anything happens, so that nobody sees a consequence first.
        if action.kills() {
            shared.disturbances.begin_with_an_instance();
        } else {
            shared.disturbances.begin();
        }
        self.carry_out(action).await?;
        self.await_service().await?;
        shared.disturbances.end(shared.clock.now());
        Ok(format!("{}, in {} ms", action.done(), began.elapsed().as_millis()))
    }

    async fn carry_out(&self, action: ServerAction) -> Result<(), String> {
        if action == ServerAction::Restart {
            let Some(restart) = &self.restart else { return Ok(()) };
            restart.carry_out().await?;
            // It loads what it was set up with.
            self.is_changed.store(false, Relaxed);
            return Ok(());
        }
        if let Some(killer) = self.killer.as_ref().filter(|_| action.kills())
            && self.kill(killer).await?
        {
            return Ok(());
        }
        let Some(before) = &self.before else { return Ok(()) };
        let configuration = before.as_loaded_by(action);
        if configuration != *before {
            // A load that seems to fail may be carried out all the same.
            self.is_changed.store(true, Relaxed);
        }
        if action.unloads() {
            exchange(&self.client, &self.model, &configuration).await?;
        } else {
            let loaded = self.client.load(&self.model, &configuration).await;
            loaded.map_err(|error| format!("model '{}' could not be loaded anew: {error}", self.model))?;
        }
        self.is_changed.store(configuration != *before, Relaxed);
        Ok(())
    }

    /// Kills an instance of the model. Whether the server starts it again by itself.
    async fn kill(&self, killer: &Killer) -> Result<bool, String> {
        let stubs = match killer {
            Killer::Embedded(failure) => return failure.carry_out().await.map(|()| true),
            Killer::Process(stubs) => stubs,
        };
        let before = stubs.pids()?;
        stubs.kill_first()?;
        let began = Instant::now();
        while began.elapsed() < STUB_COMES_WITHIN {
            tokio::time::sleep(LOOK_AGAIN).await;
            let now = stubs.pids()?;
            if now.len() >= before.len() && now != before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Unloads another model and loads it again as it was, time after time until this is over, and returns how often. Adds one to
    /// `loads` after each.
    pub(super) async fn exchange(&self, other: &str, is_over: &Notify, loads: &AtomicU64) -> Result<u64, Unfinished> {
        let Some(configuration) = self.others.get(other) else { return Ok(0) };
        for times in 0.. {
            tokio::select! {
                biased;
                () = is_over.notified() => return Ok(times),
                () = tokio::time::sleep(BETWEEN_LOADS) => {}
            }
            let exchanged = exchange(&self.client, other, configuration).await;
            exchanged.map_err(|why| Unfinished { times, why })?;
            loads.fetch_add(1, Relaxed);
        }
        Ok(u64::MAX)
    }

    /// Loads the model as it was configured before the run, where it is not so now.
    pub(super) async fn put_back(&self) -> Result<(), String> {
        let Some(before) = self.before.as_ref().filter(|_| self.is_changed.swap(false, Relaxed)) else { return Ok(()) };
        let loaded = self.client.load(&self.model, before).await;
        loaded.map_err(|error| format!("model '{}' could not be put back as it was configured: {error}", self.model))
    }

    async fn await_service(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.client.model_ready(&self.model).await {
                Ok(true) => return Ok(()),
                Ok(false) | Err(_) if began.elapsed() < BACK_WITHIN => tokio::time::sleep(LOOK_AGAIN).await,
                Ok(false) => {
                    return Err(format!("model '{}' is not ready after {} s", self.model, BACK_WITHIN.as_secs()));
                }
                Err(error) => return Err(format!("the server is not back after {} s: {error}", BACK_WITHIN.as_secs())),
            }
        }
    }
}

/// Makes sure that strategy and instances of a model are its own alone.
fn may_change(model: &str, configuration: &Configuration) -> Result<(), String> {
    match configuration.calls() {
        Some(called) => Err(format!("model '{model}' calls '{called}', which has strategy and instances of its own")),
        None if configuration.steps().is_empty() => Ok(()),
        None => Err(format!("model '{model}' is an ensemble, and its steps have strategy and instances")),
    }
}

/// How the other models are configured that a scenario unloads and loads. Each is unloaded and loaded once, as a trial.
async fn others(client: &Client, scenario: &Scenario) -> Result<BTreeMap<String, Configuration>, String> {
    let mut others = BTreeMap::new();
    for Phase { name, other_model, .. } in &scenario.phases {
        let Some(other) = other_model.as_ref().filter(|other| !others.contains_key(*other)) else { continue };
        let cannot = |why: String| format!("phase '{name}' is not possible: {why}");
        let unreadable = |model: &str, error| cannot(format!("model '{model}' cannot be loaded anew: {error}"));
        let target = &scenario.target.model;
        let tested = client.configuration(target).await.map_err(|error| unreadable(target, error))?;
        if tested.needs().any(|needed| needed == other) {
            let what = if tested.calls().is_some() { "is called by" } else { "is a step of" };
            return Err(cannot(format!("model '{other}' {what} '{target}'")));
        }
        let configuration = client.configuration(other).await.map_err(|error| unreadable(other, error))?;
        exchange(client, other, &configuration).await.map_err(|why| cannot(format!("{why}; {EXPLICIT}")))?;
        others.insert(other.clone(), configuration);
    }
    Ok(others)
}

/// Unloads a model, and loads it with this configuration.
async fn exchange(client: &Client, model: &str, configuration: &Configuration) -> Result<(), String> {
    let unloaded = client.unload(model).await;
    unloaded.map_err(|error| format!("model '{model}' could not be unloaded: {error}"))?;
    let loaded = client.load(model, configuration).await;
    loaded.map_err(|error| format!("model '{model}' could not be loaded anew: {error}"))
}

/// Why what a scenario does to the server cannot be done to this one, if it cannot.
pub(crate) async fn cannot_disturb(client: &Client, setup: &Setup) -> Option<String> {
    Hands::new(client.clone(), setup).await.err()
}
