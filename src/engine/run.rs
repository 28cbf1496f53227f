//! A run from its first look at the server to its last.

use std::{borrow::Cow, path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};

use super::{
    Accounting, Footer, Given, Header, Hints, IdleSearch, Memory, PendingRequests, PhaseSpan, Preflight, Recorded,
    Recording, ResourceError, Restart, RunLimits, SlotCheck,
    accounting::Baseline,
    collector::{Collected, Collector},
    disturbance::Hands,
    evidence::{Evidence, explained_alone},
    idle_search,
    occupancy::{LongestWait, Occupancy},
    phases::{Conducted, conduct},
    record::form,
    resources::{cpu_us, ensure_open_files, ensure_program},
    shared::Shared,
    slots,
    threads::{join_all, rules, runtimes, spawn_thread, thread_count},
    watch::Watch,
};
use crate::{
    event::{ContextId, Nanos},
    history::{Kept, Scene, Spool},
    oracle::{Violation, ViolationKind, diagnosis::Known},
    plan::correlation_id,
    recorder::{Tally, Taps},
    scenario::Scenario,
    seed::Seed,
    transport::Client,
};

/// How many violations are kept with their evidence; all are counted.
pub(super) const VIOLATIONS_KEPT: usize = 1000;
/// How often the run is looked at.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// How long the collector may take to come to its end when the run is over.
const COLLECTING: Duration = Duration::from_secs(60);

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
    /// Whether the server is in this process too.
    pub embedded: bool,
    /// The history that is to be written, if any.
    pub recording: Option<Recording>,
    /// How the server is restarted, where a scenario does that.
    pub restart: Option<Restart>,
    /// This tool's executable, for the pattern `kill-client`; none where it is not known, and then the pattern is refused.
    pub program: Option<PathBuf>,
}

impl Setup {
    /// A run of this scenario, with everything else as it is where nobody asks for more.
    #[must_use]
    pub fn new(scenario: Scenario, seed: Seed) -> Self {
        Self {
            scenario,
            seed,
            hints: Hints::default(),
            fail_fast: false,
            embedded: false,
            recording: None,
            restart: None,
            program: None,
        }
    }
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
    /// What a person should know although it says nothing about the server's behaviour, in one line.
    fn trouble(&mut self, _what: &str) {}
}

/// Nobody watches.
impl Observer for () {}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Time since the run began.
    pub elapsed: Duration,
    /// Passes finished.
    pub passes: u64,
    /// Requests sent.
    pub requests: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests whose answer nobody waits for any more, because their stream is gone or they were given up.
    pub abandoned: u64,
    /// Sequences begun.
    pub sequences: u64,
    /// Violations.
    pub violations: u64,
}

impl Progress {
    /// How many requests wait for their answer.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        // The counts are read one after the other, while they rise.
        self.requests.saturating_sub(self.answered + self.abandoned)
    }
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
    /// Those of them that the events do not show.
    pub beside: Vec<Violation>,
    /// What the server's own counts say.
    pub accounting: Accounting,
    /// Passes that were finished.
    pub passes: u64,
    /// Whether requests were still pending in the server after it.
    pub pending: PendingRequests,
    /// What the model's slots were like after it.
    pub slots: SlotCheck,
    /// What idle limit the server really keeps.
    pub idle_limit: IdleSearch,
    /// From the start of the first pass to the end of the last stream.
    pub elapsed: Duration,
    /// CPU time of this process for the run, the making of its connections included, in µs.
    pub cpu_us: u64,
    /// What this process took of the memory.
    pub memory: Memory,
    /// Whether the run was ended before it was done.
    pub interrupted: Interrupted,
    /// Whether its end is known; of a history that is cut off it is not.
    pub is_end_known: bool,
    /// What became of its history, where one was written.
    pub recorded: Option<Recorded>,
    /// What happened around the first violation.
    pub scene: Arc<Scene>,
    /// When its phases were.
    pub phases: Vec<PhaseSpan>,
    /// Why it could not go on, where something could not be done to the server that its scenario has.
    pub broken_off: Option<String>,
    /// Who had the slots while a START waited longest for one.
    pub longest_wait: Option<LongestWait>,
}

/// Why nothing could be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The server or the model is not such that it can be tested.
    Endpoint(String),
    /// The system does not let the process have what the run needs.
    Resources(ResourceError),
    /// The run was interrupted before anything was sent.
    Interrupted,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Endpoint(why) => f.write_str(why),
            Self::Resources(error) => error.fmt(f),
            Self::Interrupted => f.write_str("interrupted before anything was sent"),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a scenario. `interrupts` brings something each time that the run is to be ended before it is done.
///
/// # Errors
/// When nothing could be tested.
pub async fn run(
    setup: Setup,
    observer: &mut dyn Observer,
    interrupts: mpsc::Receiver<()>,
) -> std::result::Result<Result, RunError> {
    run_either(setup, None, observer, interrupts).await
}

/// Runs conversations as they stand; the scenario has the workers and contexts that they name, and all else.
///
/// # Errors
/// When nothing could be tested.
pub async fn run_given(
    setup: Setup,
    given: Given,
    observer: &mut dyn Observer,
    interrupts: mpsc::Receiver<()>,
) -> std::result::Result<Result, RunError> {
    run_either(setup, Some(given), observer, interrupts).await
}

async fn run_either(
    setup: Setup,
    given: Option<Given>,
    observer: &mut dyn Observer,
    mut interrupts: mpsc::Receiver<()>,
) -> std::result::Result<Result, RunError> {
    ensure_open_files(&setup, given.as_ref()).map_err(RunError::Resources)?;
    ensure_program(&setup, given.as_ref()).map_err(RunError::Endpoint)?;
    let prepared = tokio::select! {
        prepared = Box::pin(Prepared::new(setup, given, observer)) => prepared?,
        Some(()) = interrupts.recv() => return Err(RunError::Interrupted),
    };
    let driven = Box::pin(async {
        let driven = prepared.drive(observer, &mut interrupts).await;
        if driven.is_err()
            && let Err(why) = prepared.hands.put_back().await
        {
            observer.trouble(&why);
        }
        driven
    });
    let (result, history) = driven.await?;
    let result = Box::pin(prepared.conclude(result, observer, &mut interrupts)).await?;
    Ok(prepared.finish(result, history).await)
}

/// A run that can begin.
struct Prepared {
    client: Client,
    baseline: Option<Baseline>,
    hands: Hands,
    shared: Arc<Shared>,
    hints: Hints,
    /// The history's first line with where it goes.
    recording: Option<(Recording, Header)>,
}

impl Prepared {
    async fn new(
        setup: Setup,
        given: Option<Given>,
        observer: &mut dyn Observer,
    ) -> std::result::Result<Self, RunError> {
        let Setup { scenario, seed, hints, fail_fast, embedded, recording, restart, program } = setup;
        let client = Client::new(&scenario.target.endpoint, scenario.limits.connect_ms.duration())
            .map_err(|error| RunError::Endpoint(error.to_string()))?;
        let hands = Hands::new(client.clone(), &scenario, restart).await.map_err(RunError::Endpoint)?;
        let mut preflight = Preflight::ask(&client, &scenario, hints).await.map_err(RunError::Endpoint)?;
        if let Some(why) = preflight.cannot_take_ids(&scenario) {
            return Err(RunError::Endpoint(why));
        }
        if let Some(given) = &given {
            // What is drawn pauses once in a sequence; a conversation that is given may keep its slot by many short pauses.
            preflight.limits = RunLimits::with_pauses(&scenario, &preflight.model, given.longest_pauses());
        }
        observer.found(&preflight);
        let (model, quiet) = (&scenario.target.model, scenario.limits.quiet_ms.duration());
        let baseline = if preflight.has_statistics { Some(Baseline::take(&client, model, quiet).await) } else { None };
        let recording = recording.map(|recording| {
            let judged_by = (&preflight, rules(&scenario, &preflight));
            let header = Header::new(&recording, &scenario, seed, hints, embedded, judged_by);
            (recording, header)
        });
        let threads = thread_count(&scenario);
        let shared = Arc::new(Shared::new(scenario, seed, given, preflight, fail_fast, program, threads));
        Ok(Self { client, baseline, hands, shared, hints, recording })
    }

    /// What collects what the taps hand over, and the end at which violations arrive.
    fn collector(&self) -> std::result::Result<(Taps, Collector, mpsc::Receiver<Violation>), RunError> {
        let preflight = &self.shared.preflight;
        let spool = self.recording.as_ref().map(|(recording, header)| {
            let path = recording.options.path.display();
            // After a gap nothing can be judged that what went before it may have touched.
            let options = recording.options.clone().and_before(preflight.limits.lawful);
            Spool::create(options, header)
                .map_err(|error| RunError::Endpoint(format!("cannot write the history to {path}: {error}")))
        });
        let ids = Arc::clone(&self.shared);
        let id = move |ContextId { worker, context }| correlation_id(&ids.scenario, worker, context);
        let (taps, batches) = Taps::new(form(&rules(&self.shared.scenario, preflight)), id);
        let (sender, seen) = mpsc::channel(VIOLATIONS_KEPT);
        let evidence = Evidence::new(Known::of(&preflight.model), preflight.limits.lost_after);
        let model = &preflight.model;
        let occupancy =
            Occupancy::new(&self.shared.scenario, model.most_slots(), model.idle_limit, preflight.limits.lawful);
        Ok((taps, Collector::new(batches, evidence, occupancy, spool.transpose()?, sender), seen))
    }

    /// Lets the workers work, and watches them.
    async fn drive(
        &self,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> std::result::Result<(Result, Option<Spool>), RunError> {
        let shared = &self.shared;
        let drain = shared.scenario.limits.drain_ms.duration();
        let runtimes = runtimes(thread_count(&shared.scenario)).map_err(RunError::Endpoint)?;
        let threads = runtimes.len();
        let (taps, collector, mut seen) = self.collector()?;
        let cpu_before = cpu_us();
        let collected = collector.start();
        let (abort, aborted) = watch::channel(false);
        let start =
            |(thread, runtime)| spawn_thread(runtime, thread, threads, Arc::clone(shared), taps.tap(), aborted.clone());
        let mut joined = Box::pin(join_all(runtimes.into_iter().enumerate().map(start).collect()));
        // The collector comes to its end when the threads' taps are gone.
        drop(taps);
        let mut kept = Vec::new();
        let mut watch = Watch::new();
        let mut ticks = tokio::time::interval(TICK);
        let mut memory = Memory::default();
        let mut conducted = Box::pin(conduct(shared, &self.hands));
        let mut phases = None;
        let mut ended = None;
        let (done, elapsed) = loop {
            // Phases may go on when no worker is left, and what is done to the server is not left half done.
            if let Some(ended) = ended.take_if(|_| phases.is_some()) {
                break ended;
            }
            tokio::select! {
                done = &mut joined, if ended.is_none() => ended = Some((done, shared.elapsed())),
                done = &mut conducted, if phases.is_none() => phases = Some(done),
                Some(violation) = seen.recv() => {
                    keep(violation, &mut kept, observer);
                    shared.stop_at_violation();
                }
                Some(()) = interrupts.recv() => {
                    watch.interrupted = true;
                    observer.interrupted(drain);
                    shared.stop();
                }
                _ = ticks.tick() => {
                    let progress = shared.progress();
                    observer.progress(&progress);
                    memory.look(progress.elapsed);
                    if watch.should_abort(shared, &progress) {
                        abort.send_replace(true);
                    }
                }
            }
        };
        memory.look_at_end();
        // Where a thread failed the others have nothing to wait for.
        abort.send_replace(done.is_err());
        let rest = async {
            while let Some(violation) = seen.recv().await {
                keep(violation, &mut kept, observer);
            }
            collected.await.unwrap_or_default()
        };
        // Longer than this only a disk takes that does not answer.
        let Collected { spool: history, scene, reached, of_all, longest_wait } =
            tokio::time::timeout(COLLECTING, rest).await.unwrap_or_default();
        let mut tally = done.map_err(RunError::Endpoint)?;
        let Conducted { spans: phases, broken_off } = phases.unwrap_or_default();
        tally.reached.add(&reached);
        for (kind, count) in of_all {
            (0..count).for_each(|_| tally.violation(kind));
        }
        let mut result = Result {
            preflight: shared.preflight.clone(),
            accounting: Accounting::NotCheckable { why: "the server's statistics cannot be read".to_owned() },
            passes: shared.progress().passes,
            pending: PendingRequests::NotChecked { why: "the run was interrupted".to_owned() },
            slots: SlotCheck::not_checkable("the run was interrupted"),
            idle_limit: IdleSearch::NotAsked,
            elapsed,
            cpu_us: cpu_us().saturating_sub(cpu_before),
            memory,
            interrupted: Interrupted(watch.interrupted),
            is_end_known: true,
            tally,
            violations: kept,
            beside: Vec::new(),
            recorded: None,
            scene: Arc::new(scene),
            phases,
            broken_off,
            longest_wait,
        };
        if let Some(hang) = watch.hang {
            result.add(hang, observer);
        }
        Ok((result, history))
    }

    /// Compares with the server's own counts, counts its slots, and looks whether it is still there.
    async fn conclude(
        &self,
        mut result: Result,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> std::result::Result<Result, RunError> {
        let Self { client, baseline, shared, .. } = self;
        let counts = result.tally.total();
        if shared.disturbances.any() {
            let why = "the model was loaded anew, or the server restarted, and the counts with it".to_owned();
            result.accounting = Accounting::NotCheckable { why };
        } else if let Some(baseline) = baseline.as_ref().filter(|_| shared.gone().is_none()) {
            let (model, limits) = (&shared.scenario.target.model, &shared.scenario.limits);
            let compared =
                baseline.compare(client, model, &counts, limits.settle_ms.duration(), limits.quiet_ms.duration());
            result.accounting = tokio::select! {
                accounting = compared => accounting,
                Some(()) = interrupts.recv() => {
                    result.interrupted = Interrupted(true);
                    Accounting::NotCheckable { why: "the run was interrupted".to_owned() }
                }
            };
        }
        if let Some(violation) = result.accounting.violation(shared.now(), &counts) {
            result.add(violation, observer);
        }
        self.look_at_what_is_left(&mut result, observer, interrupts).await;
        let put_back = if shared.gone().is_none() { self.hands.put_back().await } else { Ok(()) };
        // A server may die of what it was left with when the last stream closed, or of being put back.
        if result.broken_off.is_none() {
            let why = put_back.as_ref().err().map_or("it did not answer after the run", String::as_str);
            shared.server_is_there(why).await;
        }
        if let Err(why) = put_back {
            observer.trouble(&why);
            result.preflight.notes.push(why);
        }
        // One that is gone because nobody started it again did nothing wrong.
        let failed = shared.disturbances.failed();
        if let Some((at, reason)) = shared.gone().filter(|(at, _)| failed.is_none_or(|began| *at < began)) {
            result.accounting = Accounting::NotCheckable { why: "the server died".to_owned() };
            result.add(server_died(&shared.scenario, *at, reason, &result.tally)?, observer);
        }
        Ok(result)
    }

    /// Writes the end of the history.
    async fn finish(self, result: Result, history: Option<Spool>) -> Result {
        let Some((recording, _)) = self.recording else { return result };
        let path = recording.options.path;
        let Some(spool) = history else {
            let problem = Some(format!("{} took too long to be written", path.display()));
            let kept = Kept { problem, ..Kept::default() };
            return Result { recorded: Some(Recorded { path, kept }), ..result };
        };
        // Elsewhere, because an interrupt has to be heard meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let kept = spool.finish(|kept| Footer::new(&result, kept));
            Result { recorded: Some(Recorded { path, kept }), ..result }
        });
        written.await.expect("the writing of a history does not fail, it tells")
    }
}

impl Prepared {
    /// Looks for requests that are still pending, and whether each slot is there once.
    async fn look_at_what_is_left(
        &self,
        result: &mut Result,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) {
        let Self { client, shared, hints, .. } = self;
        let mut trail = slots::Trail::default();
        let looked = async {
            let pending = PendingRequests::look(&shared.scenario, result).await;
            // A model that was loaded anew may have other slots.
            let asked = match slots::excuse(shared, result) {
                None if shared.disturbances.any() => {
                    Preflight::ask(client, &shared.scenario, *hints).await.map(Cow::Owned)
                }
                _ => Ok(Cow::Borrowed(&shared.preflight)),
            };
            let preflight = match asked {
                Ok(preflight) => preflight,
                Err(why) => {
                    let idle_limit = IdleSearch::not_checkable(shared, &why);
                    return (pending, SlotCheck::not_checkable(why), idle_limit);
                }
            };
            let slots = slots::check(client, shared, &preflight, result, &mut trail).await;
            let idle_limit = idle_search::search(shared, &preflight, result, &slots, &mut trail.violations).await;
            (pending, slots, idle_limit)
        };
        let looked = tokio::select! {
            looked = looked => Some(looked),
            Some(()) = interrupts.recv() => None,
        };
        let mut seen = std::mem::take(&mut trail.violations);
        match looked {
            Some((pending, slots, idle_limit)) => {
                seen.extend(pending.violation(shared.now(), &result.tally));
                seen.extend(slots.violation(shared.now()));
                (result.pending, result.slots, result.idle_limit) = (pending, slots, idle_limit);
            }
            None => result.interrupted = Interrupted(true),
        }
        for violation in seen {
            result.add(violation, observer);
        }
    }
}

impl Result {
    /// Adds a violation that concerns the whole run; it is kept even where there is no room any more.
    fn add(&mut self, violation: Violation, observer: &mut dyn Observer) {
        let violation = explained_alone(violation, &self.preflight);
        self.tally.violation(violation.kind);
        self.beside.push(violation.clone());
        self.violations.truncate(VIOLATIONS_KEPT - 1);
        keep(violation, &mut self.violations, observer);
    }
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
