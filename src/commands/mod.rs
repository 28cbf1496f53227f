//! What the command line asks for; the only place that prints.

mod check;
mod checkpoints;
mod compare;
mod explain;
mod export;
mod faults;
mod find_limit;
mod github;
mod golden;
mod hostile;
mod merge;
mod metrics;
mod output;
mod pictured;
mod plan;
mod prepare;
mod progress;
mod proxy;
mod ranks;
mod replay;
mod report;
mod repository;
mod scenarios;
mod screen;
mod search;
mod serve;
mod signals;
mod simulate;
mod stress;
mod suite;

use std::{fmt::Display, io::Write as _, process::ExitCode};

use clap::error::ErrorKind;
use output::{say_error, write_all};
use tokio::runtime::{self, Runtime};

use crate::{
    cli::{Cli, Command, CompletionsArgs, PlanArgs, is_one_of_several, problem},
    run::RunError,
};
use workload::{
    scenario::{Overrides, Scenario, ScenarioError, Source},
    seed::Seed,
};

/// The name of the executable.
const PROGRAM: &str = "sequence-stress";
/// A command line, a file or an environment that is wrong.
const WRONG_INPUT: u8 = 2;
/// Interrupted before anything was known.
const UNKNOWN: u8 = 3;
/// Nothing could be tested.
const COULD_NOT_TEST: u8 = 4;

/// What is said where several processes do what one has to do alone.
const ALONE: &str =
    "this command is the work of one process, and several were started together: start one (srun -n1, mpiexec -n 1)";

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    signals::keep_from_ending();
    let code = match Cli::read() {
        Ok(Cli { command: Some(command), .. }) if command.sends() && is_one_of_several() => {
            Err(Failure::wrong_input(ALONE))
        }
        Ok(Cli { command: Some(Command::Plan(args)), .. }) => plan::print(&args),
        Ok(Cli { command: Some(Command::Check(args)), .. }) => check::check(&args),
        Ok(Cli { command: Some(Command::Compare(args)), .. }) => compare::compare(&args),
        Ok(Cli { command: Some(Command::Golden(args)), .. }) => golden::golden(&args),
        Ok(Cli { command: Some(Command::Hostile(args)), .. }) => hostile::hostile(&args),
        Ok(Cli { command: Some(Command::Serve(args)), .. }) => serve::serve(&args),
        Ok(Cli { command: Some(Command::Repository(args)), .. }) => repository::repository(&args),
        Ok(Cli { command: Some(Command::Proxy(args)), .. }) => proxy::proxy(&args),
        Ok(Cli { command: Some(Command::Replay(args)), .. }) => replay::replay(&args),
        Ok(Cli { command: Some(Command::Export(args)), .. }) => export::export(&args),
        Ok(Cli { command: Some(Command::Report(args)), .. }) => report::report(&args),
        Ok(Cli { command: Some(Command::Explain(args)), .. }) => explain::explain(&args),
        Ok(Cli { command: Some(Command::Faults), .. }) => {
            faults::list();
            Ok(0)
        }
        Ok(Cli { command: Some(Command::Completions(args)), .. }) => print_completions(&args).map(|()| 0),
        Ok(Cli { command: Some(Command::Man), .. }) => {
            write_all(|out| clap_mangen::Man::new(Cli::whole_command()).render(out)).map(|()| 0)
        }
        Ok(Cli { command: Some(Command::Scenarios(args)), .. }) => scenarios::show(&args),
        Ok(Cli { command: Some(Command::Search(args)), .. }) => search::search(&args),
        Ok(Cli { command: Some(Command::Simulate(args)), .. }) => simulate::simulate(&args),
        Ok(Cli { command: Some(Command::Suite(args)), .. }) => suite::suite(&args),
        Ok(Cli { stress, command: None }) => stress::stress(&stress),
        Err(error) => return answer_usage(&error),
    };
    ExitCode::from(code.unwrap_or_else(|Failure { exit_code, problem }| {
        say_error(&problem);
        exit_code
    }))
}

/// Why a command could not do its work.
struct Failure {
    exit_code: u8,
    /// What was tried, what happened and what to do, in one line.
    problem: String,
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands them over")]
impl Failure {
    fn wrong_input(problem: impl ToString) -> Self {
        Self { exit_code: WRONG_INPUT, problem: problem.to_string() }
    }

    fn could_not_test(problem: impl ToString) -> Self {
        Self { exit_code: COULD_NOT_TEST, problem: problem.to_string() }
    }

    /// Why there is no result of a run against `server`.
    fn of_run(error: RunError, server: &impl Display) -> Self {
        match error {
            RunError::Endpoint(why) => Self::could_not_test(format!("cannot test {server}: {why}")),
            RunError::Access(why) | RunError::History(why) | RunError::Process(why) => Self::wrong_input(why),
            RunError::Resources(why) | RunError::Ranks(why) => Self::could_not_test(why),
            RunError::Interrupted => Self { exit_code: UNKNOWN, problem: error.to_string() },
        }
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::wrong_input(error)
    }
}

/// Prints help where it was asked for, else the error in one line.
fn answer_usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Nothing can be done where nobody reads it.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    say_error(&problem(error));
    ExitCode::from(WRONG_INPUT)
}

fn print_completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::whole_command(), PROGRAM, &mut script);
    write_all(|out| out.write_all(&script))
}

/// The scenario's source, the scenario and the seed that the flags lead to.
fn resolve(args: &PlanArgs, overrides: Overrides) -> Result<(Source, Scenario, Seed), Failure> {
    let source = match &args.scenario {
        Some(name) => Source::named(name)?,
        None => Source::default_scenario(),
    };
    let scenario = Scenario::resolve(&source, overrides)?;
    let seed = Seed(args.random_seed.unwrap_or_else(seed_from_the_clock));
    Ok((source, scenario, seed))
}

fn runtime() -> Result<Runtime, Failure> {
    runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::could_not_test)
}

fn seed_from_the_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // Short enough to be typed.
    u64::from(since.subsec_micros()) * 4096 + since.as_secs() % 4096
}
