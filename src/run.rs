//! A run from its first look at the server to its last.

mod absences;
mod after;
mod alarm;
mod arrivals;
mod before;
pub(crate) mod context;
mod disturbance;
mod driver;
mod during;
mod follow;
mod gate;
mod health;
mod held_up;
pub(crate) mod iterations;
mod latencies;
mod origin;
mod part;
mod phases;
mod progress;
mod resources;
mod shared;
mod so_far;
mod team;
mod threads;
mod watch;
mod worker;

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::Instant};

pub(crate) use self::{after::ANSWERS_NOBODY, arrivals::Arrivals, watch::hang};
use self::{
    disturbance::Hands,
    during::Driven,
    health::Looker,
    resources::{OpenFiles, ensure_program},
    shared::Shared,
    team::of_any_rank,
};
pub use crate::recorder::{PastSecond, PatternCounts, Patterns, Violating};
use crate::{
    frame::{HistoryPlan, HistoryWritten},
    preflight::{Hints, Note, Preflight},
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck, SlotFinding, accounting::Baseline},
    ranks::Lead,
    recorder::{Found, Series, Tally},
};
use oracle::{
    LongestWait, VIOLATIONS_KEPT, Violation,
    diagnosis::{ModelFacts, know_that_slots_are_free},
    explained_alone,
    golden::Golden,
    history::Scene,
};
use wire::transport::{Client, GoAways};
use workload::{
    conversation::Conversation,
    header::HeaderName,
    scenario::{Measure, Scenario, Threshold},
    seed::Seed,
    share::Share,
};

#[cfg(test)]
pub(crate) use self::resources::too_few_files;
pub(crate) use self::resources::{allow_ranks, cpu_us, memory_now};
pub use self::{
    absences::{Absence, Restarts},
    arrivals::Arrived,
    disturbance::Restart,
    follow::{Followed, follow},
    health::{Growth, Health, MemorySource, NotReady, ServerMemory, Slope},
    origin::{Host, Origin},
    part::{Rank, Ranks},
    phases::PhaseSpan,
    progress::{Latencies, Progress},
    resources::Memory,
    so_far::{Asked, Glance, SoFar},
};
pub(crate) use self::{disturbance::cannot_disturb, origin::host_name, part::Part};

/// How often the run is looked at.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// What to run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What to send.
    pub scenario: Scenario,
    /// What fixes every choice.
    pub seed: Seed,
    /// Which part of it this process sends.
    pub share: Share,
    /// Conversations that are held as they stand, in place of what the scenario draws. Those of one worker are held one after the other, and
    /// none begins before its time. The scenario has the workers and contexts that they name, and all else.
    pub given: Option<Vec<Conversation>>,
    /// What the command line tells of the endpoint.
    pub hints: Hints,
    /// Whether the first violation ends the run.
    pub fail_fast: bool,
    /// Whether the server is in this process too.
    pub embedded: bool,
    /// The history that is to be written, if any.
    pub recording: Option<HistoryPlan>,
    /// How the server is restarted, where a scenario does that.
    pub restart: Option<Restart>,
    /// How the embedded server lets an instance of each model fail and come back. Of another server a scenario kills the instance's process.
    pub instance_failure: Option<Restart>,
    /// This tool's executable, for the pattern `kill-client`; none where it is not known, and then the pattern is rejected.
    pub program: Option<PathBuf>,
    /// Where the server's memory is read, if anywhere.
    pub server_memory: Option<MemorySource>,
    /// What the model answers, where no formula says it.
    pub golden: Option<Arc<Golden>>,
    /// How many times as fast as they were recorded tracks are sent; none where each step follows as soon as it can.
    pub pace: Option<f64>,
    /// The other ranks, where this one leads them.
    pub lead: Option<Lead>,
    /// When the observer gets what the run has shown so far.
    pub so_far: SoFar,
}

impl Setup {
    /// A run of this scenario, with everything else as it is where nobody asks for more.
    pub fn new(scenario: Scenario, seed: Seed) -> Self {
        Self {
            scenario,
            seed,
            share: Share::WHOLE,
            given: None,
            hints: Hints::default(),
            fail_fast: false,
            embedded: false,
            recording: None,
            restart: None,
            instance_failure: None,
            program: None,
            server_memory: None,
            golden: None,
            pace: None,
            lead: None,
            so_far: SoFar::default(),
        }
    }
}

impl Setup {
    /// The first threshold that cannot be judged, because the run does not know where to read what it is of.
    pub fn cannot_measure(&self) -> Option<&Threshold> {
        let is_unknown = |measure| match measure {
            Measure::Pending => self.scenario.target.metrics.is_none(),
            Measure::ServerMemory => self.server_memory.is_none(),
            Measure::ServerCpu => !matches!(self.server_memory, Some(MemorySource::Process(_))),
            _ => false,
        };
        let thresholds = self.scenario.thresholds().into_iter().map(|(_, threshold)| threshold);
        thresholds.into_iter().find(|threshold| is_unknown(threshold.measure))
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
    /// A little of what the run has shown so far, as often as [`SoFar::glance_every`] says.
    fn glance(&mut self, _glance: Glance) {}
    /// No worker works any more; what is left of the run is to look at the server.
    fn load_ended(&mut self) {}
    /// What of the server is looked at from now on, and how long that takes at most, where that is known.
    fn looks_at(&mut self, _what: &str, _up_to: Option<Duration>) {}
    /// What the run has shown so far, to be kept in case that nobody learns its end.
    fn checkpoint(&mut self, _so_far: RunResult) {}
    /// What the run has shown so far, to be told.
    fn verdict(&mut self, _so_far: RunResult) {}
    /// What the run has shown so far, to be judged by the observer itself.
    fn judged(&mut self, _so_far: &RunResult) {}
    /// The run was interrupted and waits for what is under way.
    fn interrupted(&mut self, _drain: Duration) {}
    /// The server went away; the run waits for it for so long.
    fn away(&mut self, _within: Duration) {}
    /// The server was away and is ready again.
    fn back(&mut self, _absence: Absence) {}
    /// What a person should know although it says nothing about the server's behaviour, in one line.
    fn trouble(&mut self, _what: &str) {}
}

/// Nobody watches.
impl Observer for () {}

/// Whether a run was ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(pub bool);

/// Whether the end of a run is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is.
    Known,
    /// It is not: the run's history is cut off.
    CutOff,
    /// The run goes on.
    NotYet,
}

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// When and where it was.
    pub origin: Origin,
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
    /// Iterations that were finished.
    pub iterations: u64,
    /// Whether requests were still pending in the server after it.
    pub pending: PendingRequests,
    /// What the model's slots were like after it.
    pub slots: SlotCheck,
    /// What idle limit the server really keeps.
    pub idle_limit: IdleSearch,
    /// When it began; none where that is only known from its history.
    pub began: Option<Instant>,
    /// From the start of the first iteration to the end of the last stream.
    pub elapsed: Duration,
    /// CPU time of this process for the run, the making of its connections included, in µs.
    pub cpu_us: u64,
    /// What this process took of the memory.
    pub memory: Memory,
    /// Whether the run was ended before it was done.
    pub interrupted: Interrupted,
    /// Whether its end is known.
    pub end: End,
    /// What became of its history, where one was written.
    pub recorded: Option<HistoryWritten>,
    /// What happened around the first violation.
    pub scene: Arc<Scene>,
    /// When its phases were.
    pub phases: Vec<PhaseSpan>,
    /// What became of iterations that begin at a rate: of each population that has one. Empty where that is not known.
    pub arrived: Vec<Arrived>,
    /// Why it could not go on, where something could not be done to the server that its scenario has.
    pub broken_off: Option<String>,
    /// Who had the slots while a START waited longest for one.
    pub longest_wait: Option<LongestWait>,
    /// What became of connections that the server ended in good order.
    pub go_aways: GoAways,
    /// How often the server was away and came back, where the run reconnects.
    pub restarts: Restarts,
    /// What the server said of itself during the run; none where that is not known.
    pub health: Option<Health>,
    /// What happened in each second, or in each of longer intervals.
    pub series: Series,
    /// What the scenario's thresholds came to.
    pub thresholds: Vec<Found>,
    /// The ranks that held it, where it was several.
    pub ranks: Option<Ranks>,
    /// What rank 0 itself measured of it, where it was several.
    pub(crate) own: Option<Arc<Part>>,
}

/// Why nothing could be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The server or the model is not such that it can be tested.
    Endpoint(String),
    /// What it takes to be let in cannot be had: a file, or a variable of the environment.
    Access(String),
    /// The history that was asked for cannot be begun.
    History(String),
    /// The system does not let the process have what the run needs.
    Resources(String),
    /// The process that is said to be the server is none, or another's.
    Process(String),
    /// A rank was lost before the run began.
    Ranks(String),
    /// The run was interrupted before anything was sent.
    Interrupted,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Endpoint(why)
            | Self::Access(why)
            | Self::History(why)
            | Self::Resources(why)
            | Self::Process(why)
            | Self::Ranks(why) => f.write_str(why),
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
) -> Result<RunResult, RunError> {
    let mut interrupts = of_any_rank(interrupts, setup.lead.as_ref());
    ensure_program(&setup).map_err(RunError::Endpoint)?;
    if let Some(source) = &setup.server_memory {
        let is_none = |why| {
            RunError::Process(format!("{source}: {why}; give the process ID of the server, or leave the flag out"))
        };
        source.check(setup.scenario.target.endpoint.all()).map_err(is_none)?;
    }
    let _files = tokio::select! {
        files = OpenFiles::take(&setup) => files.map_err(RunError::Resources)?,
        Some(()) = interrupts.recv() => return Err(RunError::Interrupted),
    };
    let (prepared, spool) = tokio::select! {
        prepared = Box::pin(Prepared::new(setup, observer)) => prepared?,
        Some(()) = interrupts.recv() => return Err(RunError::Interrupted),
    };
    let driven = Box::pin(async {
        let driven = prepared.drive(spool, observer, &mut interrupts).await;
        if driven.is_err()
            && let Err(why) = prepared.hands.put_back().await
        {
            observer.trouble(&why);
        }
        driven
    });
    let Driven { result, withheld, history } = driven.await?;
    observer.load_ended();
    let result = Box::pin(prepared.conclude(result, withheld, observer, &mut interrupts)).await?;
    Ok(prepared.finish(result, history).await)
}

/// A run that can begin.
struct Prepared {
    client: Client,
    baseline: Option<Baseline>,
    /// The violations of the sequence before the run.
    alone: Vec<Violation>,
    hands: Hands,
    looker: Looker,
    shared: Arc<Shared>,
}

impl RunResult {
    /// Notes that no response had the header that names the server, where one was to have it.
    pub(crate) fn miss_server_header(&mut self, name: Option<&HeaderName>) {
        // Without a response nothing could have it.
        let name = name.filter(|_| self.tally.total().completed > 0);
        self.preflight.notes.extend(name.map(Note::no_server_header));
    }

    /// Adds a violation that concerns the whole run; it is kept even where there is no room any more.
    pub(crate) fn add(&mut self, violation: Violation, observer: &mut dyn Observer) {
        let violation = if violation.explanations.is_empty() {
            explained_alone(violation, &ModelFacts::of(&self.preflight.model))
        } else {
            violation
        };
        self.tally.violation(violation.kind);
        self.beside.push(violation.clone());
        self.violations.truncate(VIOLATIONS_KEPT - 1);
        keep(violation, &mut self.violations, observer);
    }

    /// Takes back causes that the look at the slots excludes, where nothing was done to the server that gives slots back.
    pub(crate) fn revise_causes(&mut self, scenario: &Scenario) {
        let is_disturbed = self.restarts.count > 0 || scenario.phases.iter().any(|phase| phase.server.is_some());
        if let SlotFinding::AllThere { slots } = self.slots.finding
            && !is_disturbed
        {
            self.violations.iter_mut().for_each(|violation| know_that_slots_are_free(violation, slots));
        }
    }
}

fn keep(violation: Violation, kept: &mut Vec<Violation>, observer: &mut dyn Observer) {
    if kept.len() < VIOLATIONS_KEPT {
        observer.violation(&violation);
        kept.push(violation);
    }
}
