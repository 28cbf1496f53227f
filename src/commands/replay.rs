//! `sequence-stress replay`: a failure again, as it was or smaller.

use std::{
    io::Write as _,
    num::{NonZeroU32, NonZeroU64},
    path::{Path, PathBuf},
};

use tokio::{
    runtime::{self, Runtime},
    sync::mpsc,
};

use super::{
    Failure as CommandFailure,
    output::{ResultFile, print, say_error},
};
use crate::{
    cli::{ReplayArgs, StressArgs},
    conversation::Conversation,
    engine::{Given, Hints, Observer, RunError, RunResult, Setup, run_given},
    failure::{Failure, Shrunk, shrink},
    oracle::ViolationKind,
    reference::{Options, Server},
    report::counted,
    scenario::{Millis, Scenario},
};

/// How often each smaller failure is run where nothing else is asked for.
const RUNS_OF_EACH: NonZeroU32 = NonZeroU32::new(3).expect("it is not zero");
/// How often a trial tells where it is.
const TELL_EACH: u32 = 50;

/// Has a failure again, and returns the exit code.
pub(super) fn replay(args: &ReplayArgs) -> Result<u8, CommandFailure> {
    let failure = Failure::read(&args.file).map_err(CommandFailure::wrong_input)?;
    let mut stage = Stage::new(&failure, args)?;
    if args.shrink { stage.shrink(failure, args) } else { stage.repeat(&failure, args) }
}

/// Where a failure is had again.
struct Stage {
    runtime: Runtime,
    /// How the server is that each run gets anew; none where there is one.
    server: Option<Options>,
    at_their_times: bool,
    quiet: bool,
    /// Runs so far: each has correlation IDs of its own, because those of the run before may still live.
    runs: u64,
}

struct Silent;
impl Observer for Silent {}

impl Stage {
    fn new(failure: &Failure, args: &ReplayArgs) -> Result<Self, CommandFailure> {
        let words = failure.embedded.as_ref().filter(|_| args.url.is_none());
        let options = words.map(|words| StressArgs::embedded_options(words)).transpose();
        let server =
            options.map_err(|problem| CommandFailure::wrong_input(format!("its embedded server: {problem}")))?;
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(CommandFailure::could_not_test)?;
        Ok(Self { runtime, server, at_their_times: !args.at_once, quiet: args.quiet, runs: 0 })
    }

    /// Runs it as often as is asked for, and says how often it failed.
    fn repeat(&mut self, failure: &Failure, args: &ReplayArgs) -> Result<u8, CommandFailure> {
        let runs = args.runs.unwrap_or(NonZeroU32::MIN).get();
        let mut failed = 0;
        for run in 1..=runs {
            let result = self.run(failure, args)?;
            let shows = failure.shows_in(&result);
            failed += u32::from(shows);
            if !self.quiet {
                let seen = describe(&result);
                print(|out| writeln!(out, "run {run} of {runs}: {seen}"));
            }
        }
        print(|out| {
            writeln!(
                out,
                "{} again in {failed} of {}: {} in {}; a seed and a file fix what is sent, not what the server does at once",
                failure.kind,
                counted(runs.into(), "run"),
                counted(failure.messages() as u64, "message"),
                counted(failure.conversations.len() as u64, "conversation"),
            )
        });
        Ok(u8::from(failed > 0))
    }

    fn shrink(&mut self, failure: Failure, args: &ReplayArgs) -> Result<u8, CommandFailure> {
        let path = args.output.clone().unwrap_or_else(|| small(&args.file));
        let file = ResultFile::check(&path).map_err(CommandFailure::wrong_input)?;
        if !self.fails_often_enough(&failure, args)? {
            say_error(&format!(
                "{} did not show again in {}: nothing to shrink; more runs of each (-n) may show it",
                failure.kind,
                counted(args.runs.unwrap_or(RUNS_OF_EACH).get().into(), "run")
            ));
            return Ok(0);
        }
        let before = failure.messages();
        let mut problem = None;
        let mut trials = 0;
        let Shrunk { failure, trials: tried, is_minimal } = shrink(failure, args.trials, &mut |smaller| {
            trials += 1;
            if !self.quiet && trials % TELL_EACH == 0 {
                say_error(&format!("trial {trials}: {} messages", smaller.messages()));
            }
            // After a problem nothing fails any more, so that shrinking comes to its end.
            problem.is_none()
                && self.fails_often_enough(smaller, args).unwrap_or_else(|found| {
                    problem = Some(found);
                    false
                })
        });
        file.write(failure.to_text().as_bytes()).map_err(CommandFailure::wrong_input)?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        print(|out| {
            for conversation in &failure.conversations {
                writeln!(out, "worker {} context {}:", conversation.worker, conversation.context)?;
                conversation.acts.iter().try_for_each(|act| writeln!(out, "  {act}"))?;
            }
            writeln!(
                out,
                "{}: {before} messages became {} in {tried} trials; {}; written to {}",
                failure.kind,
                failure.messages(),
                if is_minimal {
                    "without any one of them it goes"
                } else {
                    "the trials were used up before the smallest"
                },
                path.display()
            )
        });
        Ok(1)
    }

    /// Whether it fails in as many of the runs as is asked for.
    fn fails_often_enough(&mut self, failure: &Failure, args: &ReplayArgs) -> Result<bool, CommandFailure> {
        let (runs, wanted) = (args.runs.unwrap_or(RUNS_OF_EACH).get(), args.at_least.get());
        let mut failed = 0;
        for run in 0..runs {
            failed += u32::from(failure.shows_in(&self.run(failure, args)?));
            if failed >= wanted || failed + (runs - run - 1) < wanted {
                break;
            }
        }
        Ok(failed >= wanted)
    }

    fn run(&mut self, failure: &Failure, args: &ReplayArgs) -> Result<RunResult, CommandFailure> {
        let server = self.server.clone().map(Server::start).transpose().map_err(CommandFailure::could_not_test)?;
        let mut scenario = failure.fitted_scenario().map_err(CommandFailure::wrong_input)?;
        trim(&mut scenario, failure, self.runs);
        self.runs += 1;
        match (&server, &args.url) {
            (Some(server), _) => scenario.target.endpoint = server.address.into(),
            (None, Some(url)) => scenario.target.endpoint = url.clone(),
            (None, None) => {}
        }
        let endpoint = scenario.target.endpoint.clone();
        let given = Given { conversations: failure.conversations.clone(), at_their_times: self.at_their_times };
        let setup = Setup {
            scenario,
            seed: failure.seed,
            hints: Hints::default(),
            fail_fast: true,
            embedded: server.is_some(),
            recording: None,
        };
        // The sender stays: a closed channel would bring no interrupts either.
        let (_interrupt, interrupts) = mpsc::channel(1);
        let result = self.runtime.block_on(run_given(setup, given, &mut Silent, interrupts));
        result.map_err(|error| match error {
            RunError::Endpoint(why) => CommandFailure::could_not_test(format!("cannot test {endpoint}: {why}")),
            other => CommandFailure::could_not_test(other),
        })
    }
}

impl Failure {
    fn shows_in(&self, result: &RunResult) -> bool {
        result.tally.violations.contains_key(&self.kind)
    }
}

/// Leaves out what a run waits for that does not concern this failure, and gives it correlation IDs of its own.
fn trim(scenario: &mut Scenario, failure: &Failure, run: u64) {
    let (workers, block) = (u64::from(scenario.load.workers.get()), u64::from(scenario.correlation_ids.block.get()));
    let first = scenario.correlation_ids.first.get();
    let moved = run.checked_mul(workers * block).and_then(|by| first.checked_add(by));
    let fits = moved.filter(|moved| moved.checked_add(workers * block).is_some());
    scenario.correlation_ids.first = NonZeroU64::new(fits.unwrap_or(first)).expect("it was not zero");
    if failure.kind != ViolationKind::Statistics {
        (scenario.limits.quiet_ms, scenario.limits.settle_ms) = (Millis::LEAST, Millis::LEAST);
    }
    scenario.slots.check = matches!(failure.kind, ViolationKind::SlotLeak | ViolationKind::SlotReleasedTwice);
    scenario.limits.lost_after_ms = Millis::LEAST;
    let steps = failure.conversations.iter().map(Conversation::messages).max().unwrap_or(1);
    let longest = u32::try_from(steps).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
    scenario.length.max = longest.max(scenario.length.min);
}

fn describe(result: &RunResult) -> String {
    let first = result.violations.first().map_or_else(|| "no violation".to_owned(), ToString::to_string);
    let requests = result.tally.total().requests;
    format!("{first} ({})", counted(requests, "request"))
}

/// Where the small failure of a file is written.
fn small(path: &Path) -> PathBuf {
    let ending = path.extension().map_or_else(|| "toml".to_owned(), |ending| ending.to_string_lossy().into_owned());
    path.with_extension(format!("small.{ending}"))
}
