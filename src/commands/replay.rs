//! `sequence-stress replay`: a failure again, as it was or smaller.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    num::{NonZeroU32, NonZeroU64},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    runtime::{self, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use super::{
    Failure as CommandFailure, UNKNOWN,
    output::{ResultFile, print, say_error},
};
use crate::{
    cli::{ReplayArgs, StressArgs},
    conversation::Conversation,
    engine::{Given, Hints, Interrupted, Observer, RunError, RunResult, Setup, run_given},
    failure::{Failure, Shrunk, shrink},
    history::Scene,
    oracle::{Violation, ViolationKind},
    reference::{Options, Server},
    report::{counted, write_chart},
    scenario::{Millis, Scenario, Target},
    transport::Client,
};

/// How often each smaller failure is run where nothing else is asked for.
const RUNS_OF_EACH: NonZeroU32 = NonZeroU32::new(3).expect("it is not zero");
/// How often a trial tells where it is.
const TELL_EACH: u32 = 50;
/// A failure with so many messages is shown as a chart without being asked for.
const SMALL: usize = 40;
/// How long a server takes to unload or load a model, at most.
const RELOADING: Duration = Duration::from_secs(30);
/// The exit code where it failed.
const FAILED: u8 = 1;

/// Has a failure again, and returns the exit code.
pub(super) fn replay(args: &ReplayArgs) -> Result<u8, CommandFailure> {
    let mut failure = Failure::read(&args.file).map_err(CommandFailure::wrong_input)?;
    if args.at_once {
        failure = failure.at_once();
    }
    let mut stage = Stage::new(&failure, args)?;
    if args.shrink { stage.shrink(failure, args) } else { stage.repeat(&failure, args) }
}

/// Where a failure is had again.
struct Stage<'a> {
    args: &'a ReplayArgs,
    runtime: Runtime,
    /// How the server is that each run gets anew; none where there is one.
    server: Option<Options>,
    interrupts: Signals,
    was_interrupted: bool,
    /// Whether any run had a violation, of whatever kind.
    has_failed: bool,
    /// Runs so far.
    runs: u64,
    /// What the last run showed in which it failed as it should.
    last: Option<Seen>,
}

/// A violation, and what happened around it.
type Seen = (Violation, Arc<Scene>);

struct Silent;
impl Observer for Silent {}

/// How often a failure showed.
#[derive(Default)]
struct Shown {
    runs: u32,
    failed: u32,
    /// Runs that failed in another way.
    otherwise: BTreeMap<ViolationKind, u32>,
}

impl<'a> Stage<'a> {
    fn new(failure: &Failure, args: &'a ReplayArgs) -> Result<Self, CommandFailure> {
        let runs = runs_of_each(args);
        if let Some(wanted) = args.at_least.filter(|wanted| wanted.get() > runs) {
            let problem = format!("--at-least {wanted} is more than the {runs} runs of each: raise -n");
            return Err(CommandFailure::wrong_input(problem));
        }
        let words = failure.embedded.as_ref().filter(|_| args.url.is_none());
        let options = words.map(|words| StressArgs::embedded_options(words)).transpose();
        let server = options.map_err(|problem| {
            CommandFailure::wrong_input(format!("{}: its embedded server: {problem}", args.file.display()))
        })?;
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(CommandFailure::could_not_test)?;
        let interrupts = runtime.block_on(async { Signals::new() }).map_err(CommandFailure::could_not_test)?;
        Ok(Self { args, runtime, server, interrupts, was_interrupted: false, has_failed: false, runs: 0, last: None })
    }

    /// Runs it as often as is asked for, and says how often it failed.
    fn repeat(&mut self, failure: &Failure, args: &ReplayArgs) -> Result<u8, CommandFailure> {
        let shown = self.show(failure, args.runs.unwrap_or(NonZeroU32::MIN).get())?;
        if let Some((violation, scene)) = self.last.as_ref().filter(|_| args.chart || is_small(failure, args)) {
            print(|out| write_chart(scene, violation, out));
        }
        print(|out| shown.write(failure, args, out));
        Ok(match (self.has_failed, self.was_interrupted) {
            (true, _) => FAILED,
            (false, true) => UNKNOWN,
            (false, false) => 0,
        })
    }

    fn shrink(&mut self, failure: Failure, args: &ReplayArgs) -> Result<u8, CommandFailure> {
        let path = args.output.clone().unwrap_or_else(|| small(&args.file));
        let file = ResultFile::check(&path).map_err(CommandFailure::wrong_input)?;
        let asked = args.at_least.map(NonZeroU32::get);
        let (wanted, least) = (asked.unwrap_or(runs_of_each(args) / 2 + 1), asked.unwrap_or(1));
        let failed = self.failed_of_each(&failure, wanted, least)?;
        if failed < least || self.was_interrupted {
            return Ok(self.nothing_to_shrink(&failure, args));
        }
        // A failure that shows seldom need not show more often when it is smaller.
        let wanted = wanted.min(failed);
        let before = failure.messages();
        let mut best = self.last.clone();
        let mut problem = None;
        let mut trials = 0;
        let Shrunk { failure, trials: tried, is_minimal } = shrink(failure, args.trials, &mut |smaller| {
            trials += 1;
            if !args.quiet && trials % TELL_EACH == 0 {
                say_error(&format!("trial {trials}: {}", counted(smaller.messages() as u64, "message")));
            }
            // After a problem nothing fails any more, so that shrinking comes to its end.
            let fails = problem.is_none()
                && !self.was_interrupted
                && self.failed_of_each(smaller, wanted, wanted).map_or_else(
                    |found| {
                        problem = Some(found);
                        false
                    },
                    |failed| failed >= wanted,
                );
            if fails {
                best.clone_from(&self.last);
            }
            fails
        });
        let was_interrupted = self.was_interrupted;
        let is_minimal = is_minimal && problem.is_none() && !was_interrupted;
        // Of the last that failed often enough; a candidate that failed less often may have failed after it.
        let failure = match &best {
            Some((violation, _)) => failure.as_seen(violation),
            None => failure,
        };
        file.write(failure.to_text().as_bytes()).map_err(CommandFailure::wrong_input)?;
        if let Some((violation, scene)) = &best {
            print(|out| write_chart(scene, violation, out));
        }
        let why = if is_minimal {
            let shown = self.show(&failure, runs_of_each(args))?;
            print(|out| shown.write(&failure, args, out));
            "without any one of them it goes"
        } else if was_interrupted {
            "interrupted before the smallest"
        } else if problem.is_some() {
            "it could not be run any more"
        } else {
            "the trials were used up before the smallest"
        };
        let (left, trials) = (counted(failure.messages() as u64, "message"), counted(tried.into(), "trial"));
        let path = path.display();
        print(|out| writeln!(out, "{left} left of {before} after {trials}: {why}; written to {path}"));
        match problem {
            Some(problem) => Err(problem),
            None if was_interrupted => Ok(UNKNOWN),
            None => Ok(FAILED),
        }
    }

    /// Says why there is nothing to shrink, and returns the exit code.
    fn nothing_to_shrink(&self, failure: &Failure, args: &ReplayArgs) -> u8 {
        if self.was_interrupted {
            say_error("interrupted before it was known whether it fails");
            return UNKNOWN;
        }
        let (kind, runs) = (failure.kind, runs_of_each(args));
        let seen = match args.at_least.map_or(1, NonZeroU32::get) {
            1 => format!("did not fail in {}", counted(runs.into(), "run")),
            wanted => format!("failed in fewer than {wanted} of {}", counted(runs.into(), "run")),
        };
        say_error(&format!("{kind}: {seen}: nothing to shrink; {}", what_next(args)));
        u8::from(self.has_failed)
    }

    /// Runs it so often.
    fn show(&mut self, failure: &Failure, runs: u32) -> Result<Shown, CommandFailure> {
        let mut shown = Shown::default();
        while shown.runs < runs {
            let Some(result) = self.run(failure)? else { break };
            shown.runs += 1;
            if self.fails(failure, &result) {
                shown.failed += 1;
            } else if let Some(kind) = result.tally.violations.keys().next() {
                *shown.otherwise.entry(*kind).or_default() += 1;
            }
            if !self.args.quiet && !self.args.shrink {
                let (run, seen) = (shown.runs, describe(&result));
                print(|out| writeln!(out, "run {run} of {runs}: {seen}"));
            }
        }
        Ok(shown)
    }

    /// In how many of the runs of each it fails, as far as it takes to know whether that is `wanted`, or less than `least`.
    fn failed_of_each(&mut self, failure: &Failure, wanted: u32, least: u32) -> Result<u32, CommandFailure> {
        let runs = runs_of_each(self.args);
        let mut failed = 0;
        for left in (0..runs).rev() {
            let Some(result) = self.run(failure)? else { break };
            failed += u32::from(self.fails(failure, &result));
            if failed >= wanted || failed + left < least {
                break;
            }
        }
        Ok(failed)
    }

    /// Runs it once; nothing where it was interrupted.
    fn run(&mut self, failure: &Failure) -> Result<Option<RunResult>, CommandFailure> {
        let server = self.server.clone().map(Server::start).transpose().map_err(CommandFailure::could_not_test)?;
        let mut scenario = failure.fitted_scenario().map_err(CommandFailure::wrong_input)?;
        trim(&mut scenario, failure);
        match (&server, &self.args.url) {
            (Some(server), _) => scenario.target.endpoint = server.address.into(),
            (None, Some(url)) => scenario.target.endpoint = url.clone(),
            (None, None) => {}
        }
        if server.is_none() {
            // Sequences of the run before may still live.
            move_ids(&mut scenario, self.runs);
            if self.args.reload {
                self.reload(&scenario)?;
            }
        }
        self.runs += 1;
        let endpoint = scenario.target.endpoint.clone();
        let given = Given { conversations: failure.conversations.clone() };
        let setup = Setup {
            scenario,
            seed: failure.seed,
            hints: Hints::default(),
            fail_fast: true,
            embedded: server.is_some(),
            recording: None,
        };
        let (interrupt, interrupts) = mpsc::channel(1);
        let signals = &mut self.interrupts;
        let result = self.runtime.block_on(async {
            let forward = async {
                signals.recv().await;
                // The run may be over by now.
                let _ = interrupt.send(()).await;
                std::future::pending::<std::convert::Infallible>().await
            };
            let mut silent = Silent;
            tokio::select! {
                result = run_given(setup, given, &mut silent, interrupts) => result,
                never = forward => match never {},
            }
        });
        match result {
            Ok(result) if result.interrupted == Interrupted(false) => Ok(Some(result)),
            Ok(_) | Err(RunError::Interrupted) => {
                self.was_interrupted = true;
                Ok(None)
            }
            Err(RunError::Endpoint(why)) => {
                Err(CommandFailure::could_not_test(format!("cannot test {endpoint}: {why}")))
            }
            Err(other) => Err(CommandFailure::could_not_test(other)),
        }
    }

    fn reload(&self, scenario: &Scenario) -> Result<(), CommandFailure> {
        let Target { endpoint, model, .. } = &scenario.target;
        let reloaded = self.runtime.block_on(async { Client::new(endpoint, RELOADING)?.reload(model).await });
        reloaded.map_err(|error| {
            CommandFailure::could_not_test(format!(
                "cannot have {endpoint} load {model} anew: {error}; Triton does where it runs with --model-control-mode=explicit"
            ))
        })
    }

    /// Whether it failed as it should; then that is remembered.
    fn fails(&mut self, failure: &Failure, result: &RunResult) -> bool {
        let seen = result.violations.iter().find(|violation| violation.kind == failure.kind);
        if let Some(violation) = seen {
            self.last = Some((violation.clone(), Arc::clone(&result.scene)));
        }
        self.has_failed |= !result.violations.is_empty();
        seen.is_some()
    }
}

impl Shown {
    fn write(&self, failure: &Failure, args: &ReplayArgs, out: &mut impl io::Write) -> io::Result<()> {
        let Self { runs, failed, otherwise, .. } = self;
        let kind = failure.kind;
        if *failed > 0 {
            writeln!(out, "{kind}: failed in {failed} of {}", counted((*runs).into(), "run"))?;
        } else {
            writeln!(out, "{kind}: did not fail in {}; {}", counted((*runs).into(), "run"), what_next(args))?;
        }
        for (kind, runs) in otherwise {
            writeln!(out, "{kind} instead in {}", counted((*runs).into(), "run"))?;
        }
        let messages = counted(failure.messages() as u64, "message");
        let conversations = counted(failure.conversations.len() as u64, "conversation");
        writeln!(out, "{messages} in {conversations}; a seed fixes what is sent, not what the server does at once")
    }
}

/// What ends a replay before it is done.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// What to try where it did not fail.
fn what_next(args: &ReplayArgs) -> String {
    let timing = if args.at_once { ", or its original timing (without --at-once)" } else { "" };
    format!("more runs may show it (-n){timing}, or the server where it was found (-u)")
}

/// How often each smaller failure is run.
fn runs_of_each(args: &ReplayArgs) -> u32 {
    args.runs.unwrap_or(RUNS_OF_EACH).get()
}

/// Whether a chart of it is shown without being asked for.
fn is_small(failure: &Failure, args: &ReplayArgs) -> bool {
    !args.quiet && failure.messages() <= SMALL
}

/// Gives a run correlation IDs of its own, where there are any left.
fn move_ids(scenario: &mut Scenario, run: u64) {
    let (workers, block) = (u64::from(scenario.load.workers.get()), u64::from(scenario.correlation_ids.block.get()));
    let first = scenario.correlation_ids.first.get();
    let moved = run.checked_mul(workers * block).and_then(|by| first.checked_add(by));
    let fits = moved.filter(|moved| moved.checked_add(workers * block).is_some());
    scenario.correlation_ids.first = NonZeroU64::new(fits.unwrap_or(first)).expect("it was not zero");
}

/// Leaves out what a run waits for that does not concern this failure.
fn trim(scenario: &mut Scenario, failure: &Failure) {
    if failure.kind != ViolationKind::Statistics {
        (scenario.limits.quiet_ms, scenario.limits.settle_ms) = (Millis::LEAST, Millis::LEAST);
    }
    scenario.slots.check = matches!(failure.kind, ViolationKind::SlotLeak | ViolationKind::SlotReleasedTwice);
    if failure.kind != ViolationKind::PendingLeft {
        scenario.target.metrics = None;
    }
    scenario.limits.lost_after_ms = Millis::LEAST;
    scenario.limits.response_ms = None;
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
