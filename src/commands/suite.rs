//! `sequence-stress suite`: the built-in scenarios, one after the other, against one endpoint.

use std::{
    env,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{runtime, sync::mpsc};

use super::{
    Failure as CommandFailure,
    output::{print, say_error},
    seed_from_the_clock,
    stress::{interrupts, replay_line, restart, start_server},
};
use crate::{
    cli::{SuiteArgs, with_hints},
    preflight::Preflight,
    report::{ScenarioOutcome, SuiteRow, Summary, counted, suite_exit_code, violation_line, write_suite},
    run::{Observer, RunError, Setup, cannot_disturb, run},
};
use oracle::Violation;
use wire::transport::{Access, Client};
use workload::{
    claim::Claim,
    endpoint::Endpoints,
    scenario::{BUILTIN, Builtin, Overrides, Scenario, Source},
    seed::Seed,
};

/// How many correlation IDs lie between those of one scenario and those of the next: what one leaves behind is none of the next one's.
const IDS_APART: u64 = 10_000_000;
/// How many violations of a scenario are shown; the rest are counted.
const VIOLATIONS_SHOWN: u64 = 5;
/// A longer idle limit is not waited for.
const IDLE_LIMIT_MAX: Duration = Duration::from_secs(5);

/// Runs the suite and returns the exit code.
pub(super) fn suite(args: &SuiteArgs) -> Result<u8, CommandFailure> {
    let chosen = chosen(&args.only)?;
    let seed = Seed(args.random_seed.unwrap_or_else(seed_from_the_clock));
    let first = Scenario::resolve(&Source::default_scenario(), args.endpoint.overrides())?;
    for note in args.endpoint.check_server(&first.target.model).map_err(CommandFailure::wrong_input)? {
        say_error(&note);
    }
    let server = args.endpoint.embedded.then(|| start_server(&args.endpoint, seed)).transpose()?;
    let mut overrides = args.endpoint.overrides();
    if server.is_some() {
        overrides.access.headers.clear();
    }
    let embedded = server.as_ref().map(|server| Endpoints::of_both(server.address, server.http));
    overrides.endpoint = embedded.or(overrides.endpoint);
    overrides.metrics = server.as_ref().map(|server| server.metrics.into()).or(overrides.metrics);
    let runtime =
        runtime::Builder::new_current_thread().enable_all().build().map_err(CommandFailure::could_not_test)?;
    let lines = runtime.block_on(async {
        let saw_violation = Arc::new(AtomicBool::new(false));
        let mut lines = Vec::new();
        let mut is_over = false;
        for (place, builtin) in chosen {
            let began = Instant::now();
            let mut line = |outcome| {
                lines.push(SuiteRow { name: builtin.name.to_owned(), outcome, took: began.elapsed() });
            };
            if is_over {
                line(ScenarioOutcome::NotBegun);
                continue;
            }
            let source = Source::from_text(builtin.name, builtin.text);
            if let Some(why) = not_for_the_transport(&source, &overrides)? {
                line(ScenarioOutcome::Skipped(why));
                continue;
            }
            let mut scenario = Scenario::resolve(&source, overrides.clone())?;
            scenario.correlation_ids.first = scenario.correlation_ids.first.saturating_add(place * IDS_APART);
            if !args.quiet {
                print(|out| writeln!(out, "{}: {}", builtin.name, builtin.what()));
            }
            let replay = replay_line(&args.endpoint, &source, &[], seed, &scenario.target);
            let mut lookout = Lookout { replay, saw_violation: Arc::clone(&saw_violation), shown: 0 };
            // A scenario before may have restarted the server, which is another process since.
            let mut server_memory = args.endpoint.server_memory();
            if let Some(gone) = server_memory.take_if(|source| place > 0 && source.has_ended()) {
                say_error(&format!(
                    "{}: memory is not read, because process {gone} (--server-memory) has ended",
                    builtin.name
                ));
            }
            let setup = Setup {
                scenario,
                seed,
                given: None,
                hints: args.endpoint.hints(),
                fail_fast: false,
                embedded: args.endpoint.embedded,
                recording: None,
                restart: restart(&args.endpoint, server.as_ref()),
                program: env::current_exe().ok(),
                server_memory,
            };
            let interrupts = interrupts(Arc::clone(&saw_violation))?;
            let outcome = Box::pin(one(setup, builtin.name, &mut lookout, interrupts)).await;
            // An endpoint that cannot be tested any more cannot be so with the next scenario either.
            is_over = matches!(&outcome, ScenarioOutcome::Run(summary) if summary.result.interrupted.0)
                || matches!(&outcome, ScenarioOutcome::NotTested(_) | ScenarioOutcome::Interrupted);
            line(outcome);
        }
        Ok::<_, CommandFailure>(lines)
    })?;
    print(|out| write_suite(&lines, out));
    print(|out| writeln!(out, "seed {seed}"));
    Ok(suite_exit_code(&lines))
}

/// The scenarios that were asked for, each with its place among all.
fn chosen(only: &[String]) -> Result<Vec<(u64, &'static Builtin)>, CommandFailure> {
    for name in only {
        if name.is_empty() {
            return Err(CommandFailure::wrong_input(
                "--only has an empty name: `sequence-stress scenarios` lists them",
            ));
        }
        // Tells which ones there are.
        let source = Source::named(Path::new(name))?;
        if source.is_a_file() {
            return Err(CommandFailure::wrong_input(format!("--only {name}: a suite is of built-in scenarios")));
        }
    }
    let is_asked_for = |builtin: &Builtin| match only {
        [] => builtin.in_suite,
        names => names.iter().any(|name| name == builtin.name),
    };
    Ok((0..).zip(BUILTIN).filter(|(_, builtin)| is_asked_for(builtin)).collect())
}

async fn one(setup: Setup, name: &str, lookout: &mut Lookout, interrupts: mpsc::Receiver<()>) -> ScenarioOutcome {
    let scenario = setup.scenario.clone();
    let access = match Access::new(&scenario.target) {
        Ok(access) => access,
        Err(why) => return ScenarioOutcome::NotTested(why),
    };
    let client = match Client::new(scenario.target.endpoint.for_calls(), &access, scenario.limits.connect_ms.duration())
    {
        Ok(client) => client,
        Err(error) => return ScenarioOutcome::NotTested(error.to_string()),
    };
    match Preflight::ask(&client, &scenario, setup.hints).await {
        Ok(preflight) => {
            let unable = match beyond(&scenario, &preflight) {
                Some(why) => Some(why),
                // Looking does something to the server.
                None => cannot_disturb(&client, &scenario, setup.restart.as_ref()).await,
            };
            if let Some(why) = unable {
                return ScenarioOutcome::Skipped(why);
            }
        }
        Err(why) => return ScenarioOutcome::NotTested(why),
    }
    let (seed, embedded) = (setup.seed, setup.embedded.then(Vec::new));
    match run(setup, lookout, interrupts).await {
        Ok(result) => {
            let replay = with_hints(&lookout.replay, &result.preflight.told);
            let scenario_name = name.to_owned();
            ScenarioOutcome::Run(Box::new(Summary { scenario, scenario_name, seed, replay, embedded, result }))
        }
        Err(RunError::Interrupted) => ScenarioOutcome::Interrupted,
        Err(error @ (RunError::Endpoint(_) | RunError::Access(_) | RunError::History(_) | RunError::Resources(_))) => {
            ScenarioOutcome::NotTested(error.to_string())
        }
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
    if let Some(why) = preflight.cannot_be_sent(scenario) {
        return Some(why);
    }
    if let Some(why) = scenario.lacks_an_endpoint() {
        return Some(why);
    }
    if claims_any(&[Claim::AllSlotsBusy, Claim::Backlog, Claim::SlotReclaim, Claim::ExpiredInBacklog]) {
        match model.slots {
            None => {
                return Some(
                    "it is about full slots, and how many there are is not known: tell it (--slots)".to_owned(),
                );
            }
            Some(slots) if slots >= scenario.workers() => {
                return Some(format!(
                    "it is about full slots, and the model has {} for {}",
                    counted(slots.into(), "slot"),
                    counted(scenario.workers().into(), "worker")
                ));
            }
            Some(_) => {}
        }
    }
    if claims_any(&[Claim::IdleReap, Claim::KeptThroughAPause]) {
        match model.idle_limit {
            None => return Some("it is about the idle limit, which is not known: tell it (--idle-limit)".to_owned()),
            Some(limit) if limit > IDLE_LIMIT_MAX => {
                return Some(format!("it waits for the idle limit, and {} s is too long for a suite", limit.as_secs()));
            }
            Some(_) => {}
        }
    }
    None
}

/// Shows violations.
struct Lookout {
    replay: String,
    saw_violation: Arc<AtomicBool>,
    shown: u64,
}

impl Observer for Lookout {
    fn violation(&mut self, violation: &Violation) {
        self.saw_violation.store(true, Relaxed);
        if self.shown < VIOLATIONS_SHOWN {
            self.shown += 1;
            print(|out| violation_line(violation, &self.replay, out));
        }
    }

    fn trouble(&mut self, what: &str) {
        say_error(what);
    }

    fn interrupted(&mut self, drain: Duration) {
        say_error(&format!(
            "interrupted: waiting up to {drain:?} for what is under way; interrupt again to end at once"
        ));
    }
}
