//! `sequence-stress suite`: the built-in scenarios against one endpoint, or each against a reference server of its own.

mod board;

use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use self::board::{Board, Lookout};
use super::{
    Failure as CommandFailure, github,
    golden::expected,
    metrics::{Exported, metered},
    output::{ResultFile, check_different, print, say_error, say_interrupted},
    pictured::{Scratch, tell_problem},
    prepare::{planted_faults, recording, replay_line, server_memory, setup, start_server},
    runtime, seed_from_the_clock,
    stress::interrupts,
};
use crate::{
    cli::{SuiteArgs, with_hints},
    metrics::Metrics,
    preflight::Preflight,
    report::{Pictured, ScenarioOutcome, SuiteResult, Summary, counted, to_junit},
    run::{RunError, Setup, cannot_disturb},
};
use oracle::golden::Golden;
use reference::Options;
use wire::transport::{Access, Client};
use workload::{
    claim::Claim,
    endpoint::Endpoints,
    scenario::{BUILTIN, Builtin, Overrides, Scenario, Source},
    seed::Seed,
};

/// How many correlation IDs lie between those of one scenario and those of the next: what one leaves behind is none of the next one's.
const IDS_APART: u64 = 10_000_000;
/// A longer idle limit is not waited for.
const IDLE_LIMIT_MAX: Duration = Duration::from_secs(5);
/// How many scenarios run at a time, each against a reference server of its own.
const JOBS: u32 = 4;

/// Runs the suite and returns the exit code.
pub(super) fn suite(args: &SuiteArgs) -> Result<u8, CommandFailure> {
    let chosen = chosen(args)?;
    let named = [("json", &args.json), ("junit", &args.junit), ("html", &args.html)].into_iter();
    let named = named.filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    check_different(named.clone().chain(args.expect.files())).map_err(CommandFailure::wrong_input)?;
    let file = |(flag, path)| Ok::<_, String>((flag, ResultFile::check(flag, "the results", path)?));
    let files = named.map(file).collect::<Result<Vec<_>, _>>().map_err(CommandFailure::wrong_input)?;
    let seed = Seed(args.random_seed.unwrap_or_else(seed_from_the_clock));
    let first = Scenario::resolve(&Source::default_scenario(), args.endpoint.overrides())?;
    for note in args.endpoint.check_server(&first.target.model).map_err(CommandFailure::wrong_input)? {
        say_error(&note);
    }
    if let Some(setup) = args.endpoint.server_setup(seed) {
        Options::from(setup).check().map_err(CommandFailure::wrong_input)?;
    }
    let golden = expected(&args.expect, &first, &args.endpoint, longest(&chosen, args)?)?;
    let scratch = args.html.as_deref().map(Scratch::beside).transpose().map_err(CommandFailure::wrong_input)?;
    let exported = Exported::start(&args.metrics)?;
    let began = Instant::now();
    let jobs = if args.endpoint.embedded { args.jobs.map_or(JOBS, std::num::NonZeroU32::get) } else { 1 };
    let suite = Suite {
        args,
        seed,
        golden,
        scratch,
        metrics: exported.metrics().cloned(),
        board: Board::new(args.quiet, &chosen),
        left: Mutex::new(chosen.into_iter().collect()),
        is_over: AtomicBool::new(false),
        saw_violation: Arc::default(),
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| suite.work());
        }
    });
    let result = SuiteResult { seed, took: began.elapsed(), rows: suite.board.finish() };
    print(|out| result.write_end(out));
    github::show(|| result.written());
    let mut code = result.exit_code();
    for (flag, file) in files {
        let bytes = match flag {
            "junit" => to_junit(&[result.written()]),
            "html" => result.to_html(),
            _ => result.to_json(),
        };
        if let Err(problem) = file.write(&bytes) {
            say_error(&problem);
            // What was found counts for more than a file that cannot be written.
            code = if code == 1 { code } else { super::WRONG_INPUT };
        }
    }
    exported.finish();
    Ok(code)
}

/// A scenario with its place among all.
type Chosen = (u64, &'static Builtin);

/// The scenarios that were asked for.
fn chosen(args: &SuiteArgs) -> Result<Vec<Chosen>, CommandFailure> {
    let SuiteArgs { only, skip, .. } = args;
    for (flag, name) in only.iter().map(|name| ("--only", name)).chain(skip.iter().map(|name| ("--skip", name))) {
        if name.is_empty() {
            let problem = format!("{flag} has an empty name: `sequence-stress scenarios` lists them");
            return Err(CommandFailure::wrong_input(problem));
        }
        // Says which ones there are.
        let source = Source::named(Path::new(name))?;
        if source.is_a_file() {
            return Err(CommandFailure::wrong_input(format!("{flag} {name}: a suite is of built-in scenarios")));
        }
    }
    let has = |names: &[String], builtin: &Builtin| names.iter().any(|name| name == builtin.name);
    let is_chosen = |builtin: &Builtin| {
        let is_asked_for = if only.is_empty() { builtin.in_suite } else { has(only, builtin) };
        is_asked_for && !has(skip, builtin)
    };
    let chosen: Vec<_> = (0..).zip(BUILTIN).filter(|(_, builtin)| is_chosen(builtin)).collect();
    if chosen.is_empty() {
        return Err(CommandFailure::wrong_input("--skip leaves no scenario to run"));
    }
    Ok(chosen)
}

/// How many steps the sequences of these scenarios have at the most.
fn longest(chosen: &[Chosen], args: &SuiteArgs) -> Result<u32, CommandFailure> {
    let mut longest = 1;
    for (_, builtin) in chosen {
        let source = Source::from_text(builtin.name, builtin.text);
        let overrides = Overrides { transport: None, ..args.endpoint.overrides() };
        longest = longest.max(Scenario::resolve(&source, overrides)?.longest());
    }
    Ok(longest)
}

/// A suite that is under way.
struct Suite<'a> {
    args: &'a SuiteArgs,
    seed: Seed,
    /// What the model answers, where no formula says it.
    golden: Option<Arc<Golden>>,
    /// Where histories are kept for a page.
    scratch: Option<Scratch>,
    /// What the scenarios count, where somebody asks for it.
    metrics: Option<Metrics>,
    board: Board,
    left: Mutex<VecDeque<Chosen>>,
    is_over: AtomicBool,
    saw_violation: Arc<AtomicBool>,
}

impl Suite<'_> {
    /// Runs one scenario after the other, until none is left.
    fn work(&self) {
        loop {
            let next = self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((place, builtin)) = next else { return };
            if self.is_over.load(Relaxed) {
                self.board.ended(place, ScenarioOutcome::NotBegun, Pictured::default(), Duration::ZERO);
                continue;
            }
            let began = Instant::now();
            // What the others found is not lost with a scenario that could not be run.
            let mut outcome =
                self.scenario(place, builtin).unwrap_or_else(|failure| ScenarioOutcome::NotTested(failure.problem));
            let pictured = match (&self.scratch, &mut outcome) {
                (Some(scratch), ScenarioOutcome::Run(summary)) => {
                    tell_problem(summary, true);
                    scratch.take(builtin.name, self.golden.as_ref(), summary)
                }
                _ => Pictured::default(),
            };
            let is_over = match &outcome {
                ScenarioOutcome::Run(summary) => summary.result.interrupted.0,
                ScenarioOutcome::Interrupted => true,
                // An endpoint that cannot be tested any more cannot be so with the next scenario either.
                ScenarioOutcome::NotTested(_) => !self.args.endpoint.embedded,
                ScenarioOutcome::Skipped(_) | ScenarioOutcome::NotBegun => false,
            };
            if is_over {
                self.is_over.store(true, Relaxed);
            }
            self.board.ended(place, outcome, pictured, began.elapsed());
        }
    }

    fn scenario(&self, place: u64, builtin: &'static Builtin) -> Result<ScenarioOutcome, CommandFailure> {
        let endpoint = &self.args.endpoint;
        let source = Source::from_text(builtin.name, builtin.text);
        let mut overrides = endpoint.overrides();
        overrides.model = overrides.model.or_else(|| Some(self.golden.as_ref()?.identity.model.clone()));
        if let Some(why) = not_for_the_transport(&source, &overrides)? {
            return Ok(ScenarioOutcome::Skipped(why));
        }
        self.board.began(place);
        let server = endpoint.embedded.then(|| start_server(endpoint, self.seed)).transpose()?;
        if let Some(server) = &server {
            overrides.access.headers.clear();
            overrides.endpoint = Some(Endpoints::of_both(server.address, server.http));
            overrides.metrics = Some(server.metrics.into());
        }
        let mut scenario = Scenario::resolve(&source, overrides)?;
        if !endpoint.embedded {
            scenario.correlation_ids.first = scenario.correlation_ids.first.saturating_add(place * IDS_APART);
        }
        let replay = replay_line(endpoint, &source, &self.args.expect.words(), self.seed, &scenario.target);
        // A scenario before may have restarted the server, which is another process since.
        let mut server_memory = server_memory(endpoint, &scenario.target);
        if let Some(gone) = server_memory.take_if(|source| place > 0 && source.has_ended()) {
            say_error(&format!(
                "{}: the server's memory is not read, because the process has ended ({gone})",
                builtin.name
            ));
        }
        let options = self.scratch.as_ref().map(|scratch| scratch.options(builtin.name));
        let recorded = |options| recording(options, endpoint, (builtin.name, &replay), self.seed);
        let setup = Setup {
            recording: options.map(recorded),
            server_memory,
            golden: self.golden.clone(),
            pace: self.args.expect.pace,
            ..setup(endpoint, server.as_ref(), scenario, self.seed)
        };
        let mut lookout = self.board.lookout(place, Arc::clone(&self.saw_violation));
        let mut outcome = runtime()?.block_on(async {
            let interrupts = interrupts(Arc::clone(&self.saw_violation))?;
            Box::pin(one(setup, (builtin.name, replay), (self.metrics.as_ref(), &mut lookout), interrupts)).await
        })?;
        if let (ScenarioOutcome::Run(summary), Some(server)) = (&mut outcome, &server) {
            summary.embedded = Some(planted_faults(endpoint, server, &summary.result));
        }
        Ok(outcome)
    }
}

/// Runs a scenario, if the endpoint can do it. An error is why nothing could be tested.
async fn one(
    setup: Setup,
    (name, replay): (&str, String),
    (metrics, lookout): (Option<&Metrics>, &mut Lookout<'_>),
    interrupts: mpsc::Receiver<()>,
) -> Result<ScenarioOutcome, CommandFailure> {
    let scenario = setup.scenario.clone();
    let target = &scenario.target;
    let access = Access::new(target).map_err(CommandFailure::could_not_test)?;
    let client = Client::new(target.endpoint.for_calls(), &access, scenario.limits.connect_ms.duration())
        .map_err(CommandFailure::could_not_test)?;
    let preflight = Preflight::ask(&client, &scenario, setup.hints, setup.golden.as_ref())
        .await
        .map_err(CommandFailure::could_not_test)?;
    if let Some(why) = preflight.rejects_golden() {
        return Err(CommandFailure::could_not_test(why));
    }
    let unable = match beyond(&scenario, &preflight) {
        Some(why) => Some(why),
        // Looking does something to the server.
        None => cannot_disturb(&client, &setup).await,
    };
    if let Some(why) = unable {
        return Ok(ScenarioOutcome::Skipped(why));
    }
    let seed = setup.seed;
    match metered(metrics, name, setup, lookout, interrupts).await {
        Ok(result) => {
            let replay = with_hints(&replay, &result.preflight.told);
            let scenario_name = name.to_owned();
            let summary = Summary { scenario, scenario_name, seed, replay, embedded: None, result };
            Ok(ScenarioOutcome::Run(Box::new(summary)))
        }
        Err(RunError::Interrupted) => Ok(ScenarioOutcome::Interrupted),
        Err(error) => Err(CommandFailure::could_not_test(error)),
    }
}

/// Why a scenario is not for the transport that a flag names, if it is not.
fn not_for_the_transport(source: &Source, overrides: &Overrides) -> Result<Option<String>, CommandFailure> {
    let Some(transport) = overrides.transport else { return Ok(None) };
    let as_written = Scenario::resolve(source, Overrides { transport: None, ..overrides.clone() })?;
    Ok(as_written.is_not_for(transport))
}

/// Why the endpoint cannot do a scenario, if it cannot.
fn beyond(scenario: &Scenario, preflight: &Preflight) -> Option<String> {
    let claims = scenario.claims.unwrap_or_default();
    let claims_any = |of: &[Claim]| of.iter().any(|claim| claims.of(*claim) > 0);
    let model = &preflight.model;
    if let Some(why) = preflight.cannot_be_sent(scenario).or_else(|| scenario.lacks_an_endpoint()) {
        return Some(why);
    }
    let fills_slots = claims_any(&[Claim::AllSlotsBusy, Claim::Backlog, Claim::SlotReclaim, Claim::ExpiredInBacklog]);
    match model.slots.filter(|_| fills_slots) {
        None if fills_slots => {
            return Some("it is about full slots, and how many there are is not known: tell it (--slots)".to_owned());
        }
        Some(slots) if slots >= scenario.workers() => {
            let (slots, workers) = (counted(slots.into(), "slot"), counted(scenario.workers().into(), "worker"));
            return Some(format!("it is about full slots, and the model has {slots} for {workers}"));
        }
        _ => {}
    }
    let waits_idly = claims_any(&[Claim::IdleReap, Claim::KeptThroughAPause]);
    match model.idle_limit.filter(|_| waits_idly) {
        None if waits_idly => Some("it is about the idle limit, which is not known: tell it (--idle-limit)".to_owned()),
        Some(limit) if limit > IDLE_LIMIT_MAX => {
            Some(format!("it waits for the idle limit, and {} s is too long for a suite", limit.as_secs()))
        }
        _ => None,
    }
}
