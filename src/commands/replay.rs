//! `sequence-stress replay`: a failure again, as it was or smaller.

mod shown;
mod window;

use std::{
    env,
    num::{NonZeroU32, NonZeroU64},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    sync::mpsc,
    task::{JoinSet, LocalSet},
};

use self::shown::{Shown, what_next};
use super::{
    Failure as CommandFailure, UNKNOWN,
    output::{ResultFile, print, print_list, say_error},
    runtime,
    signals::Signals,
};
use crate::{
    cli::ReplayArgs,
    failure::{Facts, Failure, Shrunk, late_fault, shrink},
    golden::read_file,
    report::{counted, describe, write_chart},
    run::{Interrupted, RunError, RunResult, Setup, run},
};
use oracle::{Violation, ViolationKind, golden::Golden, history::Scene};
use reference::{Options, Server};
use wire::transport::{Access, Client};
use workload::scenario::{Millis, Scenario, Target};

/// How often each smaller failure is run where nothing else is asked for.
const RUNS_OF_EACH: NonZeroU32 = NonZeroU32::new(3).expect("it is not zero");
/// How often a trial tells where it is.
const TELL_EACH: u32 = 50;
/// A failure with so many messages is shown as a chart without being asked for.
const SMALL: usize = 40;
/// How long a server takes to unload or load a model, at most.
const RELOADING: Duration = Duration::from_secs(30);
/// How many runs go on at the same time, at most.
const TOGETHER: u32 = 8;
/// The exit code where it failed.
const FAILED: u8 = 1;

/// Has a failure again, and returns the exit code.
pub(super) fn replay(args: &ReplayArgs) -> Result<u8, CommandFailure> {
    let mut failure = Failure::read(&args.file).map_err(CommandFailure::wrong_input)?;
    if args.at_once {
        failure = failure.at_once();
    }
    let mut stage = Stage::new(args)?;
    stage.golden =
        args.golden.as_deref().map(read_file).transpose().map_err(CommandFailure::wrong_input)?.map(Arc::new);
    if failure.arithmetic.formula.is_golden() && stage.golden.is_none() {
        return Err(CommandFailure::wrong_input(format!(
            "{}: the run was judged by golden outputs, which the file does not have: name theirs (--golden FILE)",
            args.file.display()
        )));
    }
    if let Some(problem) = stage.golden.as_ref().and_then(|golden| failure.rejects(golden)) {
        return Err(CommandFailure::wrong_input(format!("{}: {problem}", args.file.display())));
    }
    match (args.shrink, args.window) {
        (true, _) => stage.shrink(failure, args),
        (_, true) => stage.window(&failure),
        _ => stage.repeat(&failure, args),
    }
}

/// Where a failure is had again.
struct Stage<'a> {
    args: &'a ReplayArgs,
    runtime: Runtime,
    interrupts: Signals,
    was_interrupted: bool,
    /// Whether any run had a violation, of whatever kind.
    has_failed: bool,
    /// Runs so far.
    runs: u64,
    /// What the last run showed in which it failed as it should.
    last: Option<Sighting>,
    /// What the last run found out about its server.
    facts: Option<Facts>,
    /// What the model answers, where no formula says it.
    golden: Option<Arc<Golden>>,
}

/// A violation, and what happened around it.
type Sighting = (Violation, Arc<Scene>);

impl<'a> Stage<'a> {
    fn new(args: &'a ReplayArgs) -> Result<Self, CommandFailure> {
        let runs = runs_of_each(args);
        if let Some(wanted) = args.at_least.filter(|wanted| wanted.get() > runs) {
            let problem = format!("--at-least {wanted} is more than the {runs} runs of each: raise -n");
            return Err(CommandFailure::wrong_input(problem));
        }
        let runtime = runtime()?;
        let interrupts = runtime.block_on(async { Signals::new() }).map_err(CommandFailure::could_not_test)?;
        Ok(Self {
            args,
            runtime,
            interrupts,
            was_interrupted: false,
            has_failed: false,
            runs: 0,
            last: None,
            facts: None,
            golden: None,
        })
    }

    /// Runs it as often as is asked for, and says how often it failed.
    fn repeat(&mut self, failure: &Failure, args: &ReplayArgs) -> Result<u8, CommandFailure> {
        let shown = self.show(failure, args.runs.unwrap_or(NonZeroU32::MIN).get())?;
        let shows_chart = args.chart || (!args.quiet && failure.messages() <= SMALL);
        if let Some((violation, scene)) = self.last.as_ref().filter(|_| shows_chart) {
            print(|out| write_chart(scene, violation, out));
        }
        if args.chart && self.last.is_none() {
            say_error("no chart: there is one of a run that failed, and none did");
        }
        print(|out| shown.write(failure, args, out));
        if args.record {
            // As the file has it, whatever --at-once has changed.
            let failure = Failure::read(&args.file).map_err(CommandFailure::wrong_input)?;
            self.record(failure, &shown, &args.file).map_err(CommandFailure::wrong_input)?;
        }
        Ok(match (self.has_failed, self.was_interrupted) {
            (true, _) => FAILED,
            (false, true) => UNKNOWN,
            (false, false) => 0,
        })
    }

    fn shrink(&mut self, mut failure: Failure, args: &ReplayArgs) -> Result<u8, CommandFailure> {
        let path = args.output.clone().unwrap_or_else(|| small(&args.file));
        let file = ResultFile::check("output", "the failure", &path).map_err(CommandFailure::wrong_input)?;
        let asked = args.at_least.map(NonZeroU32::get);
        let (wanted, least) = (asked.unwrap_or(runs_of_each(args) / 2 + 1), asked.unwrap_or(1));
        let failed = self.failed_of_each(&failure, wanted, least)?;
        if failed < least || self.was_interrupted {
            return Ok(self.nothing_to_shrink(&failure, args));
        }
        // A failure that shows seldom need not show more often when it is smaller.
        let wanted = wanted.min(failed);
        let before = failure.messages();
        // Faults of a server that is not used have nothing to do with it.
        let unused = failure.embedded.take_if(|_| args.endpoints().is_some());
        if let Some(fault) = failure.embedded.as_ref().and_then(late_fault).filter(|_| !args.quiet) {
            say_error(&format!(
                "{fault} needs as many chances as that, and a smaller failure has fewer: earlier ones are tried first"
            ));
        }
        let mut best = self.last.clone();
        let mut problem = None;
        let mut trials = 0;
        let Shrunk { failure, is_minimal, .. } = shrink(failure, args.trials, &mut |smaller| {
            // After a problem nothing fails any more, so that shrinking comes to its end.
            if problem.is_some() || self.was_interrupted {
                return false;
            }
            trials += 1;
            if !args.quiet && trials % TELL_EACH == 0 {
                say_error(&format!("trial {trials}: {}", counted(smaller.messages() as u64, "message")));
            }
            let fails = match self.failed_of_each(smaller, wanted, wanted) {
                Ok(failed) => failed >= wanted,
                Err(found) => {
                    problem = Some(found);
                    false
                }
            };
            if fails {
                best.clone_from(&self.last);
            }
            fails
        });
        let was_interrupted = self.was_interrupted;
        let is_minimal = is_minimal && problem.is_none() && !was_interrupted;
        let failure = Failure { embedded: failure.embedded.or(unused), ..failure };
        // Of the last that failed often enough; a candidate that failed less often may have failed after it.
        let failure = match &best {
            Some((violation, _)) => failure.as_seen(violation, describe(violation)),
            None => failure,
        };
        if let Some((violation, scene)) = &best {
            print(|out| write_chart(scene, violation, out));
        }
        // What was found counts for more than a file that cannot be written.
        let mut unwritten = file.write(failure.to_text().as_bytes()).err();
        let why = if is_minimal {
            let shown = self.show(&failure, runs_of_each(args))?;
            print(|out| shown.write(&failure, args, out));
            // What replays of the larger one showed is not true of this one.
            let facts = Facts { replayed: Vec::new(), ..failure.facts.clone() };
            if unwritten.is_none() {
                unwritten = self.record(Failure { facts, ..failure.clone() }, &shown, &path).err();
            }
            shown.of_the_smallest(wanted)
        } else if was_interrupted {
            "interrupted before the smallest"
        } else if problem.is_some() {
            "it could not be run any more"
        } else {
            "the trials were used up before the smallest"
        };
        let (left, trials) = (counted(failure.messages() as u64, "message"), counted(trials.into(), "trial"));
        let path = path.display();
        let end = if unwritten.is_none() { format!("; written to {path}") } else { String::new() };
        print_list([(String::new(), format!("{left} left of {before} after {trials}: {why}{end}"))]);
        if let Some(problem) = unwritten {
            say_error(&problem);
        }
        match problem {
            Some(problem) => Err(problem),
            None if was_interrupted => Ok(UNKNOWN),
            None => Ok(FAILED),
        }
    }

    /// Writes into a file what the runs have shown, for a bug report.
    fn record(&self, failure: Failure, shown: &Shown, path: &Path) -> Result<(), String> {
        let Some(facts) = self.facts.clone().filter(|_| shown.runs > 0) else { return Ok(()) };
        let chart = self.last.as_ref().filter(|_| shown.failed > 0).map(chart);
        let facts = failure.facts.clone().after(facts, shown.failed, shown.runs, chart);
        ResultFile::check("output", "the failure", path)?.write(Failure { facts, ..failure }.to_text().as_bytes())
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
        say_error(&format!("{kind}: {seen}: nothing to shrink; {}", what_next(failure, args)));
        u8::from(self.has_failed)
    }

    /// Runs it so often.
    fn show(&mut self, failure: &Failure, runs: u32) -> Result<Shown, CommandFailure> {
        let mut shown = Shown::default();
        while shown.runs < runs {
            let result = self.run_together(failure, 1)?.pop();
            if self.was_interrupted {
                break;
            }
            shown.runs += 1;
            let Some(result) = result else { continue };
            if self.fails(failure, &result) {
                shown.failed += 1;
            } else if let Some(kind) = result.tally.violations.keys().next() {
                *shown.otherwise.entry(*kind).or_default() += 1;
            }
            if !self.args.quiet && !self.args.shrink {
                let (run, seen) = (shown.runs, first_of(&result, failure.kind));
                print_list([(format!("run {run} of {runs}: "), seen)]);
            }
        }
        Ok(shown)
    }

    /// In how many of the runs of each it fails, as far as it takes to know whether that is `wanted`, or less than `least`.
    fn failed_of_each(&mut self, failure: &Failure, wanted: u32, least: u32) -> Result<u32, CommandFailure> {
        let mut left = runs_of_each(self.args);
        let mut failed = 0;
        while failed < wanted && left > 0 && failed + left >= least {
            // As many have to fail in any case.
            let most = if self.may_run_together(failure) { TOGETHER } else { 1 };
            let together = (wanted - failed).min(left).min(most);
            let results = self.run_together(failure, together)?;
            for result in &results {
                failed += u32::from(self.fails(failure, result));
            }
            if self.was_interrupted {
                break;
            }
            left -= together;
        }
        Ok(failed)
    }

    /// Whether runs may go on at the same time: where each has a server of its own, and most of its time waits for what does not
    /// come.
    fn may_run_together(&self, failure: &Failure) -> bool {
        failure.embedded.is_some() && self.args.url.is_empty() && is_waited_for(failure.kind)
    }

    /// Runs it so often at the same time; fewer results where one was interrupted, or died too early to show anything.
    fn run_together(&mut self, failure: &Failure, runs: u32) -> Result<Vec<RunResult>, CommandFailure> {
        let all = vec![failure; runs as usize];
        Ok(self.run_each(&all, Duration::ZERO)?.into_iter().flatten().collect())
    }

    /// Runs each of these failures at the same time; each begins so long after the one before. Results have the places of their failures; none where the run was interrupted, or died too
    /// early to show anything.
    fn run_each(&mut self, failures: &[&Failure], apart: Duration) -> Result<Vec<Option<RunResult>>, CommandFailure> {
        let prepared: Vec<_> = failures.iter().map(|failure| self.prepare(failure)).collect::<Result<_, _>>()?;
        let signals = &mut self.interrupts;
        let results = self.runtime.block_on(LocalSet::new().run_until(async {
            let (mut running, mut interrupts) = (JoinSet::new(), Vec::new());
            let mut begins = Duration::ZERO;
            for (place, (_, setup)) in prepared.iter().enumerate() {
                let (setup, wait) = (setup.clone(), begins);
                begins += apart;
                let (interrupt, interrupted) = mpsc::channel(1);
                interrupts.push(interrupt);
                running.spawn_local(async move {
                    tokio::time::sleep(wait).await;
                    (place, run(setup, &mut (), interrupted).await)
                });
            }
            let mut results = Vec::new();
            loop {
                tokio::select! {
                    done = running.join_next() => match done {
                        Some(done) => results.push(done.expect("a run does not panic")),
                        None => return results,
                    },
                    () = signals.recv() => {
                        for interrupt in &interrupts {
                            // It may be over, or know it already.
                            let _ = interrupt.try_send(());
                        }
                    }
                }
            }
        }));
        let mut whole: Vec<_> = failures.iter().map(|_| None).collect();
        for (place, result) in results {
            let (server, setup) = &prepared[place];
            match result {
                Ok(result) if result.interrupted == Interrupted(false) => whole[place] = Some(result),
                Ok(_) | Err(RunError::Interrupted) => self.was_interrupted = true,
                // A server of its own that dies before its first answer does not show that it dies in mid-run.
                Err(RunError::Endpoint(_)) if server.is_some() && failures[place].kind == ViolationKind::ServerDied => {
                }
                Err(error) => return Err(CommandFailure::of_run(error, &setup.scenario.target.endpoint)),
            }
        }
        Ok(whole)
    }

    /// What a run needs: a server, where it gets one of its own, and what is asked for.
    fn prepare(&mut self, failure: &Failure) -> Result<(Option<Server>, Setup), CommandFailure> {
        let options = failure.embedded.clone().filter(|_| self.args.url.is_empty()).map(Options::from);
        let server = options.map(Server::start).transpose().map_err(CommandFailure::could_not_test)?;
        let mut scenario = failure.fitted_scenario().map_err(CommandFailure::wrong_input)?;
        if let Some(server) = &server {
            // Nobody needs what is still under way in a server of which nothing is left.
            scenario.limits.drain_ms = Millis::LEAST;
            scenario.target.embed(server.address, server.http);
            // Where the failure is not one of them the scenario has none.
            scenario.target.metrics = scenario.target.metrics.map(|_| server.metrics.into());
        } else {
            if let Some(endpoint) = self.args.endpoints() {
                // The file's servers are those behind the endpoint where it was found.
                (scenario.target.endpoint, scenario.target.replicas) = (endpoint, None);
            }
            scenario.target.override_access(self.args.access.overrides());
            // Sequences of the run before may still live.
            move_ids(&mut scenario, self.runs);
        }
        if scenario.target.metrics.is_some() && (!self.args.url.is_empty() || self.args.metrics_url.is_some()) {
            // The file's are those of the server where it was found.
            scenario.target.metrics = self.args.metrics();
        }
        if self.args.reload && server.is_none() {
            self.reload(&scenario)?;
        }
        self.runs += 1;
        let setup = Setup {
            given: Some(failure.conversations.clone()),
            fail_fast: true,
            embedded: server.is_some(),
            program: env::current_exe().ok(),
            golden: self.golden.clone(),
            ..Setup::new(scenario, failure.seed)
        };
        Ok((server, setup))
    }

    fn reload(&self, scenario: &Scenario) -> Result<(), CommandFailure> {
        let Target { endpoint, model, .. } = &scenario.target;
        let access = Access::new(&scenario.target).map_err(CommandFailure::wrong_input)?;
        let reloaded =
            self.runtime.block_on(async { Client::new(endpoint.for_calls(), &access, RELOADING)?.reload(model).await });
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
        self.facts = Some(Facts::of(&result.preflight));
        seen.is_some()
    }
}

/// The chart without colours.
fn chart((violation, scene): &Sighting) -> String {
    let mut text = Vec::new();
    write_chart(scene, violation, &mut anstream::StripStream::new(&mut text)).expect("memory takes everything");
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether a violation is seen only after a wait for what does not come.
fn is_waited_for(kind: ViolationKind) -> bool {
    use ViolationKind as Kind;
    matches!(kind, Kind::SlotLeak | Kind::PendingLeft | Kind::Lost | Kind::Hang | Kind::StreamNotClosed)
}

/// How often each smaller failure is run.
fn runs_of_each(args: &ReplayArgs) -> u32 {
    args.runs.unwrap_or(RUNS_OF_EACH).get()
}

/// Gives a run correlation IDs of its own, where there are any left.
fn move_ids(scenario: &mut Scenario, run: u64) {
    let (workers, block) = (u64::from(scenario.workers()), u64::from(scenario.correlation_ids.block.get()));
    let first = scenario.correlation_ids.first.get();
    let moved = run.checked_mul(workers * block).and_then(|by| first.checked_add(by));
    let fits = moved.filter(|moved| moved.checked_add(workers * block).is_some());
    scenario.correlation_ids.first = NonZeroU64::new(fits.unwrap_or(first)).expect("it was not zero");
}

/// The first violation of this kind; if there is none, the first of all.
fn first_of(result: &RunResult, kind: ViolationKind) -> String {
    let all = &result.violations;
    let first = all.iter().find(|violation| violation.kind == kind).or(all.first());
    let first = first.map_or_else(|| "no violation".to_owned(), describe);
    let requests = result.tally.total().requests;
    format!("{first} ({})", counted(requests, "request"))
}

/// Where the small failure of a file is written.
fn small(path: &Path) -> PathBuf {
    let ending = path.extension().map_or_else(|| "toml".to_owned(), |ending| ending.to_string_lossy().into_owned());
    path.with_extension(format!("small.{ending}"))
}
