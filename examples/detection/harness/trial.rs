//! One run against a server with planted faults, or with none, and what came of it.

use std::{collections::BTreeSet, mem, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use oracle::{
    Violation, ViolationKind,
    diagnosis::Cause,
    golden::Golden,
    history::{self, Entry, Item, Keep, Reader},
};
use rand::RngExt as _;
use reference::{MEMORY_GAUGE, ModelOptions, Options, Planted, Server};
use sequence_stress::{
    frame::HistoryPlan,
    probe::SlotFinding,
    report::{describe, evidence},
    run::{MemorySource, Observer, Progress, Restart, RunResult, Setup, run},
};
use tempfile::TempDir;
use tokio::{runtime::Handle, sync::mpsc};
use wire::simulation::{self, Simulation};
use workload::{
    event::EventKind,
    scenario::{Millis, Overrides, Scenario, Source},
    seed::Seed,
};

use super::{
    golden::golden_of,
    plain::{self, Plain},
    rows::{Row, Scene},
};

/// A run tells its progress every 100 ms. Who comes to it later than this was kept from running.
const PROGRESS_WITHIN: Duration = Duration::from_millis(150);
/// How long a run goes on after its first violation, for what that one is explained by. Where golden outputs judge, it goes on to its end:
/// what such a violation is explained by the idle server says then.
const FOLLOW_UP: Duration = Duration::from_millis(500);
/// For how long a fault holds up what it makes late: longer than any answer is waited for.
pub const HOLD: Duration = Duration::from_secs(12);

/// What came of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How often each planted fault was committed; none where the server did not tell.
    pub committed: Option<u64>,
    pub seen: Seen,
    pub plain: Plain,
    /// All requests of the run.
    pub requests: u64,
    /// Whether the slots could be counted; a machine that is too slow for the idle limit cannot, and says so.
    pub counted_slots: bool,
    /// For how long the run was kept from running, by a machine that had other things to do.
    pub held_up: Duration,
}

#[derive(Clone, Debug)]
pub enum Seen {
    Nothing,
    /// Violations; the first of them in full.
    Found(Box<Found>),
    /// The run could not begin, and said so.
    CouldNotTest(String),
}

#[derive(Clone, Debug)]
pub struct Found {
    pub kinds: BTreeSet<ViolationKind>,
    pub first: Violation,
    /// Requests until the first.
    pub after: u64,
    /// What each violation was put down to first.
    pub causes: BTreeSet<Cause>,
}

impl Outcome {
    pub fn found(&self) -> Option<&Found> {
        match &self.seen {
            Seen::Found(found) => Some(found),
            Seen::Nothing | Seen::CouldNotTest(_) => None,
        }
    }

    /// Whether whoever runs the tool learns that something is wrong.
    pub fn is_noticed(&self) -> bool {
        match &self.seen {
            Seen::Nothing => false,
            Seen::Found(_) => true,
            // Only a server that died says anything of itself where nothing could be tested.
            Seen::CouldNotTest(why) => why.contains("stopped answering before its first response"),
        }
    }

    /// What the first violation is put down to.
    pub fn named(&self) -> Option<Cause> {
        self.found()?.first.explanations.first().map(|explanation| explanation.cause)
    }

    /// Whether the first violation is put down to the row's fault, which happened once, or always.
    pub fn is_named_rightly(&self, row: &Row, always: bool) -> bool {
        self.named().is_some_and(|named| row.is_named_rightly_by(named, always))
    }

    /// What was seen, for those who look for why.
    pub fn told(&self) -> String {
        match &self.seen {
            Seen::Nothing => format!("nothing; committed {:?} times in {} requests", self.committed, self.requests),
            Seen::CouldNotTest(why) => format!("could not test: {why}"),
            Seen::Found(found) => {
                let causes = found.first.explanations.iter();
                let causes: Vec<_> =
                    causes.map(|one| format!("\n      {}: {}", one.cause, evidence(&found.first, one))).collect();
                format!("{}{}", describe(&found.first), causes.concat())
            }
        }
    }
}

/// The reference server's models in such a run.
pub fn models(idle_limit: Duration, execution_ms: u64) -> ModelOptions {
    ModelOptions {
        versions: 2,
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit,
        execution: Duration::from_millis(execution_ms),
        ..ModelOptions::default()
    }
}

/// A reference server with such models.
pub fn options(scene: Scene, execution_ms: u64, faults: Vec<Planted>, seed: u64) -> Options {
    let models = models(scene.idle_limit(), execution_ms);
    Options { models, faults, fault_seed: Seed(seed), fault_hold: HOLD, threads: 1, ..Options::default() }
}

/// Runs a row's scenario against a reference server that commits these faults.
pub fn in_reference(row: &Row, planted: &[Planted], seed: u64) -> Outcome {
    let golden = golden_of(row.scene, row.execution_ms, row.model);
    let _simulation = Simulation::begin();
    let server = Server::start(options(row.scene, row.execution_ms, planted.to_vec(), seed)).expect("a free port");
    let setup = watching(scenario(row.scene, server.address, row.model), &server, seed);
    let outcome = run_and_judge(Setup { golden, ..setup });
    let committed = planted.iter().map(|planted| server.committed(planted.fault)).sum();
    Outcome { committed: Some(committed), ..outcome }
}

/// Runs a scene against a correct reference server.
pub fn correct_in_reference(scene: Scene, model: &'static str, seed: u64) -> Outcome {
    let golden = golden_of(scene, 1, model);
    let _simulation = Simulation::begin();
    let server = Server::start(options(scene, 1, Vec::new(), seed)).expect("a free port");
    let setup = watching(unhurried(scenario(scene, server.address, model)), &server, seed);
    run_and_judge(Setup { golden, ..setup })
}

/// A run that looks at the reference server's memory, too.
fn watching(mut scenario: Scenario, server: &Server, seed: u64) -> Setup {
    scenario.target.metrics = Some(server.metrics.into());
    let server_memory = Some(MemorySource::Gauge(MEMORY_GAUGE.to_owned()));
    let instance_failure = Some(Restart::by(server.failure_of_an_instance()));
    Setup { server_memory, instance_failure, ..Setup::new(scenario, Seed(seed)) }
}

/// The same where a machine that is too busy for its servers makes no answer late.
pub fn unhurried(mut scenario: Scenario) -> Scenario {
    scenario.limits.lost_after_ms = Millis::try_from(30_000).expect("a time");
    scenario
}

/// The scene's scenario with such a target.
pub fn scenario(scene: Scene, address: SocketAddr, model: &str) -> Scenario {
    scenario_but(scene, address, model, &[])
}

/// The same, with other words for some.
pub fn scenario_but(scene: Scene, address: SocketAddr, model: &str, otherwise: &[(&str, &str)]) -> Scenario {
    let text = otherwise.iter().fold(scene.text().to_owned(), |text, (words, other)| text.replace(words, other));
    let overrides = Overrides { endpoint: Some(address.into()), model: Some(model.to_owned()), ..Overrides::default() };
    Scenario::resolve(&Source::from_text(scene.name(), &text), overrides).expect("a scenario")
}

/// Makes a run, until some time after the first violation, and looks at what was recorded, too.
pub fn run_and_judge(setup: Setup) -> Outcome {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("history.jsonl");
    let options = history::Options {
        path: path.clone(),
        keep: Keep::All,
        limit: history::Options::LIMIT,
        part: history::Options::PART,
    };
    let recording = HistoryPlan { options, scenario_name: "detection".to_owned(), replay: String::new(), server: None };
    match run_until_found(Setup { recording: Some(recording), ..setup }) {
        Err(why) => Outcome {
            committed: None,
            seen: Seen::CouldNotTest(why),
            plain: Plain::Fails,
            requests: 0,
            counted_slots: false,
            held_up: Duration::ZERO,
        },
        Ok((result, held_up)) => Outcome { held_up, ..judge(&result, &entries(&path)) },
    }
}

/// Runs a scenario, until some time after the first violation; golden outputs judge a model without a formula. Nothing is done to the
/// server meanwhile.
pub fn run_scenario(mut scenario: Scenario, golden: Option<Arc<Golden>>, seed: u64) -> Result<RunResult, String> {
    scenario.phases.clear();
    run_until_found(Setup { golden, ..Setup::new(scenario, Seed(seed)) }).map(|(result, _)| result)
}

/// What the run has shown, and for how long it was kept from running.
fn run_until_found(setup: Setup) -> Result<(RunResult, Duration), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
    let (interrupt, interrupts) = mpsc::channel(1);
    let goes_on = setup.golden.is_some();
    let mut impatient = Impatient { interrupt, goes_on, elapsed: Duration::ZERO, held_up: Duration::ZERO };
    let run = run(setup, &mut impatient, interrupts);
    let result = if simulation::is_on() { simulation::wait_for(run) } else { runtime.block_on(run) };
    let result = result.map_err(|error| error.to_string())?;
    Ok((result, impatient.held_up))
}

/// Ends a run some time after its first violation, and sees whether it is told of its progress in time.
struct Impatient {
    interrupt: mpsc::Sender<()>,
    /// Whether it needs no more to be interrupted.
    goes_on: bool,
    elapsed: Duration,
    held_up: Duration,
}

impl Observer for Impatient {
    fn progress(&mut self, progress: &Progress) {
        let since = progress.elapsed.saturating_sub(mem::replace(&mut self.elapsed, progress.elapsed));
        if since > PROGRESS_WITHIN {
            self.held_up += since;
        }
    }

    fn violation(&mut self, _violation: &Violation) {
        if !mem::replace(&mut self.goes_on, true) {
            let interrupt = self.interrupt.clone();
            Handle::current().spawn(async move {
                tokio::time::sleep(FOLLOW_UP).await;
                // A run that is over needs none.
                let _ = interrupt.send(()).await;
            });
        }
    }
}

fn entries(path: &Path) -> Vec<Entry> {
    let (mut reader, _) = Reader::open(path).unwrap_or_else(|damage| panic!("{}: {damage:?}", path.display()));
    let mut entries = Vec::new();
    while let Some(lines) = reader.next_block() {
        entries.extend(lines.items.into_iter().filter_map(|item| match item {
            Item::Entry(entry, ..) => Some(entry),
            Item::Gap(_) | Item::Footer(_) => None,
        }));
    }
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn judge(result: &RunResult, entries: &[Entry]) -> Outcome {
    let requests = result.tally.total().requests;
    let sent_by =
        |at| entries.iter().filter(|entry| entry.at <= at && matches!(entry.what, EventKind::Sent(_))).count();
    let seen = match result.violations.first() {
        None => Seen::Nothing,
        Some(first) => Seen::Found(Box::new(Found {
            kinds: result.tally.violations.keys().copied().collect(),
            first: first.clone(),
            after: sent_by(first.at_ns) as u64,
            causes: result.violations.iter().filter_map(|one| Some(one.explanations.first()?.cause)).collect(),
        })),
    };
    let counted_slots = !matches!(result.slots.finding, SlotFinding::NotCheckable { .. });
    let held_up = Duration::ZERO;
    Outcome { committed: None, seen, plain: plain::judge(entries), requests, counted_slots, held_up }
}

/// The chance at which a seed has the fault committed once.
pub fn chance(row: &Row, seed: u64) -> u64 {
    let (first, last) = row.chances;
    // By its name, so that a new fault changes nothing for the others.
    Seed(seed).generator(crc32fast::hash(row.fault.name().as_bytes())).random_range(first..=last)
}

/// A run with the fault committed once: where it does not come to that many chances, at half as many.
pub fn once(row: &Row, seed: u64, run: impl Fn(&Row, &[Planted], u64) -> Outcome) -> (Planted, Outcome) {
    let mut chance = chance(row, seed);
    loop {
        let planted = Planted::once(row.fault, chance);
        let outcome = run(row, &[planted], seed);
        if outcome.committed != Some(0) || chance == 1 {
            return (planted, outcome);
        }
        chance /= 2;
    }
}
