//! Runs of a search against a server, one after the other.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::mpsc, time::sleep};

use super::{Held, Holding, One, retraced};
use crate::{
    cli::{SearchArgs, quoted, with_hints},
    commands::{
        Failure,
        golden::expected,
        output::{say_error, say_interrupted},
        pictured::{Scratch, tell_problem},
        prepare::{planted_faults, recording, server_memory, setup, start_server},
        runtime,
    },
    preflight::Preflight,
    report::{Summary, Verdict},
    run::{Observer, RunError, RunResult, Setup, run},
    search::{Recipe, can_be_retraced},
};
use oracle::{Violation, golden::Golden};
use reference::{Server, ServerSetup};
use wire::transport::{Access, Client};
use workload::{
    endpoint::Endpoints,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
    share::of_attempt,
};

/// How often somebody looks whether the search is interrupted.
const LOOKS: Duration = Duration::from_millis(50);
/// So many runs later the correlation IDs of a run are had again: those of all runs are below 2^31, which each model takes.
const RUNS_APART: u64 = 2000;
/// The history of a run.
const SCRATCH: &str = "run";
/// How many steps a golden file has for each track: the sequences of a search have at most 30.
const LONGEST: u32 = 32;

/// Watches a run, and says what a person should know of it.
struct Watcher<'a>(&'a AtomicBool);

impl Observer for Watcher<'_> {
    fn violation(&mut self, _: &Violation) {
        self.0.store(true, Relaxed);
    }

    fn trouble(&mut self, what: &str) {
        say_error(what);
    }

    fn interrupted(&mut self, drain: Duration) {
        say_interrupted(drain);
    }
}

/// Holds runs against a server.
pub(super) struct Live<'a> {
    args: &'a SearchArgs,
    seed: Seed,
    interrupted: &'a AtomicBool,
    saw_violation: &'a AtomicBool,
    /// The server in this process, where there is one.
    server: Option<Server>,
    golden: Option<Arc<Golden>>,
    /// What is known of the model.
    preflight: Preflight,
    scratch: Scratch,
    first: Option<Summary>,
}

impl<'a> Live<'a> {
    /// Asks the server what it is like.
    pub(super) fn begin(
        args: &'a SearchArgs,
        seed: Seed,
        interrupted: &'a AtomicBool,
        saw_violation: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let endpoint = &args.endpoint;
        let mut scenario = Scenario::resolve(&Source::default_scenario(), endpoint.overrides())?;
        for note in endpoint.check_server(&scenario.target.model).map_err(Failure::wrong_input)? {
            say_error(&note);
        }
        let server = endpoint.embedded.then(|| start_server(endpoint, seed)).transpose()?;
        if let Some(server) = &server {
            scenario.target.embed(server.address, server.http);
        }
        let golden = expected(&args.expect, &scenario, endpoint, LONGEST)?;
        if let Some(golden) = golden.as_ref().filter(|_| endpoint.model.is_none()) {
            scenario.target.model.clone_from(&golden.identity.model);
        }
        let preflight = runtime()?.block_on(async {
            let access = Access::new(&scenario.target)?;
            let limit = scenario.limits.connect_ms.duration();
            let client =
                Client::new(scenario.target.endpoint.for_calls(), &access, limit).map_err(|error| error.to_string())?;
            Preflight::ask(&client, &scenario, endpoint.hints(), golden.as_ref()).await
        });
        let preflight = preflight.map_err(|why| {
            let server = &scenario.target.endpoint;
            Failure::could_not_test(if endpoint.embedded { why } else { format!("cannot test {server}: {why}") })
        })?;
        if let Some(why) = preflight.rejects_golden() {
            return Err(Failure::could_not_test(why));
        }
        can_be_retraced(&preflight.model).map_err(|why| {
            Failure::wrong_input(format!(
                "cannot tell what a run makes the server do: {why}; tell it (--idle-limit, --slots, --strategy)"
            ))
        })?;
        let scratch = Scratch::temporary().map_err(Failure::wrong_input)?;
        Ok(Self { args, seed, interrupted, saw_violation, server, golden, preflight, scratch, first: None })
    }

    /// The idle limit of the server. Without it no run can be retraced, so it is known.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        self.preflight.model.idle_limit
    }

    pub(super) fn golden(&self) -> Option<Arc<Golden>> {
        self.golden.clone()
    }

    fn overrides(&self) -> Overrides {
        let mut overrides = self.args.endpoint.overrides();
        overrides.model.get_or_insert_with(|| self.preflight.model.name.clone());
        if let Some(server) = &self.server {
            overrides.endpoint = Some(Endpoints::of_both(server.address, server.http));
            overrides.metrics = Some(server.metrics.into());
        }
        overrides
    }

    /// The command line that sends the same again.
    fn replay(&self) -> String {
        match &self.args.failure {
            Some(file) => format!("sequence-stress replay {}", quoted(&file.display().to_string())),
            None => "add --failure FILE to the search".to_owned(),
        }
    }

    /// The setup of a run.
    fn setup(&self, scenario: Scenario, seed: Seed, replay: &str) -> Setup {
        let (args, endpoint) = (self.args, &self.args.endpoint);
        Setup {
            fail_fast: args.fail_fast,
            recording: Some(recording(self.scratch.whole(SCRATCH), endpoint, ("search", replay), seed)),
            server_memory: server_memory(endpoint, &scenario.target).filter(|source| !source.has_ended()),
            golden: self.golden.clone(),
            pace: args.expect.pace,
            ..setup(endpoint, self.server.as_ref(), scenario, seed)
        }
    }

    /// Holds a run that an interrupt of the search ends.
    fn run(&self, setup: Setup) -> Result<Result<RunResult, RunError>, Failure> {
        let interrupted = self.interrupted;
        Ok(runtime()?.block_on(async move {
            let observer = &mut Watcher(self.saw_violation);
            let (interrupt, interrupts) = mpsc::channel(1);
            let watch = async move {
                while !interrupted.load(Relaxed) {
                    sleep(LOOKS).await;
                }
                // The run may be over by now.
                let _ = interrupt.send(()).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = Box::pin(run(setup, observer, interrupts)) => ended,
                () = watch => unreachable!("it waits for ever"),
            }
        }))
    }

    /// What a run came to, where it has violations: what is shown of it, and its history where that is to be kept.
    fn keep(&mut self, mut summary: Summary) {
        let history = self.scratch.path(SCRATCH);
        if let Some(path) = &self.args.history {
            match (fs::copy(&history, path), &mut summary.result.recorded) {
                (Ok(_), Some(recorded)) => recorded.path.clone_from(path),
                (Ok(_), None) => {}
                (Err(error), recorded) => {
                    *recorded = None;
                    say_error(&format!("cannot write the history to {}: {error}", path.display()));
                }
            }
        }
        self.first.get_or_insert(summary);
    }
}

impl Holding for Live<'_> {
    fn hold(&mut self, recipe: &Recipe, number: u64) -> Result<Held, Failure> {
        let endpoint = &self.args.endpoint;
        let overrides = self.overrides();
        let transport = overrides.transport;
        let scenario = match recipe.scenario_with(overrides) {
            Ok(scenario) => scenario,
            Err(error) => return Ok(Held::Unsuited(error.to_string())),
        };
        let unsuited = self.preflight.cannot_be_sent(&scenario).or_else(|| scenario.lacks_an_endpoint());
        if let Some(why) = unsuited.or_else(|| transport.and_then(|transport| scenario.is_not_for(transport))) {
            return Ok(Held::Unsuited(why));
        }
        let attempt = u32::try_from(number % RUNS_APART).expect("it is small");
        let Some(scenario) = of_attempt(scenario, attempt) else {
            return Err(Failure::could_not_test("there are no more correlation IDs"));
        };
        let seed = Seed(self.seed.0.wrapping_add(number));
        let replay = self.replay();
        let ended = self.run(self.setup(scenario.clone(), seed, &replay))?;
        let result = match ended {
            Ok(result) => result,
            Err(RunError::Interrupted) => return Ok(Held::Interrupted),
            Err(error) => {
                let failure = match self.server {
                    Some(_) => Failure::of_run(error, &"the embedded server"),
                    None => Failure::of_run(error, &scenario.target.endpoint),
                };
                // The command line is right, whatever a run lacks.
                return Err(Failure::could_not_test(failure.problem));
            }
        };
        let history = self.scratch.path(SCRATCH);
        let pairs = retraced(&history, self.golden.as_ref());
        if let Err(why) = &pairs {
            say_error(&format!("run {} teaches the search nothing: {why}", number + 1));
        }
        let replay = with_hints(&replay, &result.preflight.told);
        let embedded = self.server.as_ref().map(|server| planted_faults(endpoint, server, &result));
        let mut summary = Summary { scenario, scenario_name: "search".to_owned(), seed, replay, embedded, result };
        let tally = &summary.result.tally;
        let violations: Vec<_> = tally.violations.iter().map(|(kind, count)| (*kind, *count)).collect();
        let (requests, is_valid) = (tally.total().requests, summary.verdict() == Verdict::Valid);
        let is_violating = summary.verdict() == Verdict::Invalid;
        if is_violating {
            tell_problem(&mut summary, self.args.history.is_none());
            self.keep(summary);
        }
        // The next run writes another.
        let _ = fs::remove_file(&history);
        Ok(Held::Run(One { requests, pairs: pairs.ok(), violations, is_valid }))
    }

    fn first(&self) -> Option<Result<(Summary, Option<ServerSetup>), String>> {
        let summary = self.first.clone()?;
        let server = self.args.endpoint.server_setup(self.seed);
        Some(Ok((summary, server)))
    }

    fn ends_with_a_violation(&self) -> bool {
        true
    }
}
