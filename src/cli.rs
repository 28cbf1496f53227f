//! The command line, as flags.

mod access;
mod compare;
mod endpoint;
mod export;
mod files;
mod flags;
mod golden;
mod history;
mod hostile;
mod metrics;
mod proxy;
mod ranks;
mod replay;
mod replicas;
mod report;
mod repository;
mod search;
mod serve;
mod server;
mod simulate;
mod soak;
mod usage;
mod values;

use std::{
    env,
    ffi::OsString,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

use self::values::{arrivals, milliseconds, whole, whole_seconds, workers};
pub use self::{
    access::AccessArgs,
    compare::{CompareArgs, Compared, Side},
    endpoint::EndpointArgs,
    export::ExportArgs,
    files::{FileArgs, ResultArgs},
    flags::with_hints,
    golden::{CalibrateArgs, ExpectArgs, Expected, GoldenArgs, GoldenCommand, VerifyArgs},
    history::{CheckArgs, HistoryArgs},
    hostile::HostileArgs,
    metrics::MetricsArgs,
    proxy::ProxyArgs,
    ranks::RankArgs,
    replay::ReplayArgs,
    replicas::ReplicaArgs,
    report::ReportArgs,
    repository::{InitialChoice, RepositoryArgs},
    search::SearchArgs,
    serve::ServeArgs,
    server::{SchedulerArgs, ServerArgs},
    simulate::SimulateArgs,
    soak::SoakArgs,
    usage::problem,
};
pub(crate) use self::{endpoint::PID_VARIABLE, ranks::is_one_of_several};
use crate::{
    limit::Range,
    report::{Extent, Format},
};
use workload::scenario::{Arrivals, Measure, Millis, Overrides, Rate, Threshold};

/// The variable in which GitHub Actions names the file of a step's summary.
pub(crate) const SUMMARY_VARIABLE: &str = "GITHUB_STEP_SUMMARY";

/// What stands below the options in `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  valid
  1  violations found
  2  the command line or a file is wrong
  3  unknown: interrupted, or not enough was exercised
  4  could not test: endpoint unreachable, not ready, or no such model
  5  a threshold was missed";

/// What stands below the options in `-h`.
const SHORT_FOOTER: &str = "\
Examples:
  sequence-stress --embedded --fault off-by-one:once@500
  sequence-stress localhost:8001 -m MODEL -d 60s
  sequence-stress suite localhost:8001 -m MODEL

Exit codes: 0 valid, 1 violations, 2 wrong input, 3 unknown, 4 could not test,
  5 threshold missed
All options: sequence-stress --help";

/// The options that `-h` shows; `--help` shows all.
const COMMON: &[&str] = &[
    "concurrency",
    "iterations",
    "duration",
    "rate",
    "random_seed",
    "scenario",
    "endpoint",
    "model",
    "transport",
    "embedded",
    "json",
    "failure",
    "history",
    "quiet",
    "verbose",
];

/// Stress the sequence batcher of a Triton-compatible inference server
///
/// The tool sends valid and broken sequences from many workers, and checks every response.
#[derive(Debug, Parser)]
#[command(version, after_help = SHORT_FOOTER, after_long_help = EXIT_CODES, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub struct Cli {
    /// Without a subcommand: stress an endpoint.
    #[command(flatten)]
    pub stress: StressArgs,
    /// Something else.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run every built-in scenario against one endpoint
    Suite(Box<SuiteArgs>),
    /// Repeat a recorded failure, and shrink it
    Replay(Box<ReplayArgs>),
    /// Turn a failure into a script for NVIDIA's client, or a bug report
    Export(ExportArgs),
    /// Judge a recorded run again, without a server
    Check(CheckArgs),
    /// Show results as a page, as XML for CI systems, as Markdown or as CSV
    Report(ReportArgs),
    /// Tell what differs between runs by more than noise
    Compare(Box<CompareArgs>),
    /// Find out what a model without a formula answers
    Golden(Box<GoldenArgs>),
    /// Send requests that have ended real servers, one at a time
    Hostile(Box<HostileArgs>),
    /// Run scenarios in virtual time, thousands of seeds
    Simulate(Box<SimulateArgs>),
    /// Draw runs that make the sequence batcher do what no run has made it do
    Search(Box<SearchArgs>),
    /// Explain a kind of violation or a cause
    Explain(ExplainArgs),
    /// Start the reference server
    Serve(Box<ServeArgs>),
    /// List the faults of the reference server
    Faults,
    /// List the built-in scenarios, or print one
    Scenarios(ScenariosArgs),
    /// Print the requests that a run would send
    Plan(PlanArgs),
    /// Write a model repository for Triton's backends
    Repository(Box<RepositoryArgs>),
    /// Stand between clients and a server: record, change messages, be a faulty network
    Proxy(Box<ProxyArgs>),
    /// Print a shell's completion script
    Completions(CompletionsArgs),
    /// Print the manual page
    Man,
}

impl Command {
    /// Whether it sends sequences to a server.
    pub(crate) fn sends(&self) -> bool {
        match self {
            Self::Suite(_) | Self::Replay(_) | Self::Golden(_) | Self::Compare(_) | Self::Hostile(_) => true,
            Self::Search(search) => !search.simulated,
            _ => false,
        }
    }
}

/// What to explain.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// The name of a kind of violation or of a cause, as the report prints it [default: list all names]
    pub name: Option<String>,
}

/// Which scenario to print.
#[derive(Clone, Debug, Args)]
pub struct ScenariosArgs {
    /// Print the file of this scenario
    pub name: Option<PathBuf>,
    /// List the keys of a scenario file with a sentence for each
    #[arg(long, conflicts_with = "name")]
    pub keys: bool,
}

/// Which shell's completions to print.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// What a suite needs.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES, next_help_heading = "Load")]
pub struct SuiteArgs {
    /// Seed of every choice; the report prints it [default: from the clock]
    #[arg(short, long, alias = "seed", value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// Run only these scenarios, such as backlog,ordering
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Run all scenarios but these
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// With --embedded: run up to N scenarios at a time, each with a reference server of its own [default: 4]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", requires = "embedded", allow_negative_numbers = true)]
    pub jobs: Option<NonZeroU32>,
    /// Write the results of all scenarios to FILE as one JSON document
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write a page with the results to FILE that any browser shows, offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// The same as `--junit` of a run, for all scenarios.
    #[arg(long, value_name = "FILE", help = Format::Junit.what(), help_heading = "Output")]
    pub junit: Option<PathBuf>,
    /// Print only violations and the table
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Metrics for others.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// What is expected of the model.
    #[command(flatten)]
    pub expect: ExpectArgs,
    /// The server.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

/// What fixes the plan.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct PlanArgs {
    /// Workers, also -t [default: 8]
    ///
    /// Number of workers. A scenario may have another default.
    #[arg(short = 'c', long, short_alias = 't', aliases = ["workers", "threads"], value_parser = workers, value_name = "N", allow_negative_numbers = true)]
    pub concurrency: Option<NonZeroU32>,
    /// Iterations of each worker, also -n [default: 200]
    ///
    /// Each iteration runs one pattern. A scenario may have another default.
    #[arg(short, long, short_alias = 'n', value_parser = whole::<NonZeroU64>, value_name = "N", allow_negative_numbers = true)]
    pub iterations: Option<NonZeroU64>,
    /// Seed of every choice [default: from the clock]
    #[arg(short, long, alias = "seed", value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// Built-in scenario or TOML file
    ///
    /// `sequence-stress scenarios` lists the built-in scenarios [default: l0-sequence-stress].
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: Option<PathBuf>,
}

/// What a run needs.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Clone, Debug, Args)]
pub struct StressArgs {
    /// What fixes the plan.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Run for this long, such as 90s or 1h
    ///
    /// A duration takes the place of the iterations; with both, the run ends with whichever comes first.
    #[arg(short, long, value_name = "TIME", value_parser = whole_seconds, help_heading = "Load")]
    pub duration: Option<NonZeroU64>,
    /// When iterations and steps are due.
    #[command(flatten)]
    pub pacing: PacingArgs,
    /// Find the highest rate, such as 10..5000/s, or number of workers, such as 1..512, that the server takes correctly
    ///
    /// One run after the other, each of -d [default: 10s]. A load is too much if a threshold (--fail-if) is missed, if iterations do not begin
    /// when they are due, if unanswered requests become more and more, or if 1 % of the requests get no good response. The search ends at a
    /// violation that too much load does not explain. --json, --csv and --junit write the trials.
    #[arg(long, value_name = "RANGE", help_heading = "Load", allow_hyphen_values = true,
        conflicts_with_all = ["rate", "iterations", "history", "failure", "require_claims", "checkpoint", "reconnect"])]
    pub find_limit: Option<Range>,
    /// The server.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
    /// Exit with 5 if a response takes longer
    #[arg(long, value_name = "TIME", value_parser = milliseconds, help_heading = "What to check")]
    pub response_limit: Option<Millis>,
    /// Exit with 5 if this holds, such as 'step.p99 > 50ms'; repeatable
    #[arg(long, value_name = "THRESHOLD", long_help = about_thresholds(), help_heading = "What to check")]
    pub fail_if: Vec<Threshold>,
    /// End the run at the first violation, after the responses to requests already sent
    #[arg(long, help_heading = "What to check")]
    pub fail_fast: bool,
    /// Exit with 3 if the run misses a claim of its scenario, also where flags made the run smaller than the scenario
    #[arg(long, help_heading = "What to check")]
    pub require_claims: bool,
    /// What is expected of the model.
    #[command(flatten)]
    pub expect: ExpectArgs,
    /// The files of a run besides the history.
    #[command(flatten)]
    pub files: FileArgs,
    /// The history.
    #[command(flatten)]
    pub history: HistoryArgs,
    /// What helps a run of hours.
    #[command(flatten)]
    pub soak: SoakArgs,
    /// Metrics for others.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Other processes that hold the run, too.
    #[command(flatten)]
    pub ranks: RankArgs,
    /// Print also time limits, claims, and each population's times
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub wide: bool,
    /// Print each step as the client sends it
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,
    /// Print only the verdict, its limits, violations and the replay command
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Show the run on the whole terminal: rates, slots, backlog, patterns and violations
    ///
    /// Keys select and unfold violations, q stops the run, and ? lists all keys. The usual report follows. The view is drawn on standard
    /// error; if that is no terminal, the usual lines take its place.
    #[arg(long, conflicts_with_all = ["quiet", "verbose", "find_limit"], help_heading = "Output")]
    pub tui: bool,
}

/// The whole help of `--fail-if`.
fn about_thresholds() -> String {
    format!(
        "Exit with 5 if this holds, such as 'step.p99 > 50ms'; repeatable\n\n'MEASURE[.STATISTIC] [of population NAME|of pattern NAME] >|< LIMIT \
         [during 10s..60s|in any 10s] [abort]'. 'abort' ends the run at once. The measures are {}",
        Measure::NAMES.join(", ")
    )
}

/// When iterations and steps are due.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct PacingArgs {
    /// Begin iterations at this rate, such as 200/s, in an open loop
    ///
    /// It does not wait for earlier ones: latencies count from when a step was due. 10..500/s:2m rises evenly for two minutes; 10/s:30s,20/s:30s has stages.
    /// -c is then the largest number of iterations at a time [default: 512], and -i their number in all.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub rate: Option<Rate>,
    /// With a rate: constant (equal intervals, the default) or poisson (random ones, as of independent clients)
    #[arg(long, value_name = "NAME", value_parser = arrivals())]
    pub arrivals: Option<Arrivals>,
    /// Each step is due this long after the one before, such as 100ms, whether or not that has its response
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub step_interval: Option<Millis>,
    /// With --step-interval: a step may be due up to this much later
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub step_jitter: Option<Millis>,
}

impl PacingArgs {
    /// The words that say the same again.
    pub fn words(&self) -> Vec<String> {
        let time = |flag: &str, time: Option<Millis>| Some(format!("{flag} {}ms", time?.duration().as_millis()));
        let words = [
            self.rate.as_ref().map(|rate| format!("--rate {rate}")),
            self.arrivals.map(|arrivals| format!("--arrivals {arrivals}")),
            time("--step-interval", self.step_interval),
            time("--step-jitter", self.step_jitter),
        ];
        words.into_iter().flatten().collect()
    }
}

impl Cli {
    /// The command with all its options.
    pub fn whole_command() -> clap::Command {
        let shown = |arg: clap::Arg| {
            let is_common = COMMON.contains(&arg.get_id().as_str());
            arg.hide_short_help(!is_common)
        };
        Self::command().mut_args(shown).mut_subcommand("golden", golden::without_those_of_runs)
    }

    /// Reads the process's command line.
    ///
    /// # Errors
    /// When it is wrong, or asks for help.
    pub fn read() -> Result<Self, clap::Error> {
        Self::of(env::args_os())
    }

    /// Reads these words, of which the first is the program.
    ///
    /// # Errors
    /// When they are wrong, or ask for help.
    pub(crate) fn of(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = Self::whole_command().try_get_matches_from(without_help_of_help(words))?;
        let mut cli = Self::from_arg_matches(&matches)?;
        match &mut cli.command {
            None => cli.stress.endpoint.complete(&matches)?,
            Some(Command::Suite(suite)) => {
                suite.endpoint.complete(matches.subcommand_matches("suite").unwrap_or(&matches))?;
            }
            Some(Command::Hostile(hostile)) => {
                hostile.endpoint.complete(matches.subcommand_matches("hostile").unwrap_or(&matches))?;
            }
            Some(Command::Search(search)) => {
                search.complete(matches.subcommand_matches("search").unwrap_or(&matches))?;
            }
            Some(Command::Replay(replay)) => replay.access.complete()?,
            Some(Command::Golden(golden)) => {
                let matches = matches.subcommand_matches("golden").unwrap_or(&matches);
                match &mut golden.command {
                    None => golden.calibrate.endpoint.complete(matches)?,
                    Some(GoldenCommand::Verify(verify)) => {
                        verify.endpoint.complete(matches.subcommand_matches("verify").unwrap_or(matches))?;
                    }
                }
            }
            Some(_) => {}
        }
        Ok(cli)
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Takes `help check --help` for `help check`: clap would look for a subcommand `--help`.
fn without_help_of_help(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    words
}

impl PlanArgs {
    /// What the flags say in place of the scenario.
    pub fn overrides(&self) -> Overrides {
        Overrides { workers: self.concurrency, iterations: self.iterations, ..Overrides::default() }
    }
}

impl StressArgs {
    /// How much of the result is printed.
    pub fn extent(&self) -> Extent {
        match (self.quiet, self.wide) {
            (true, _) => Extent::Short,
            (false, true) => Extent::Wide,
            (false, false) => Extent::Usual,
        }
    }

    /// What the flags say in place of the scenario.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            workers: self.plan.concurrency,
            iterations: self.plan.iterations,
            duration_s: self.duration,
            rate: self.pacing.rate.clone(),
            arrivals: self.pacing.arrivals,
            step_interval_ms: self.pacing.step_interval,
            step_jitter_ms: self.pacing.step_jitter,
            response_ms: self.response_limit,
            fail_if: self.fail_if.clone(),
            reconnect_ms: self.soak.reconnect,
            require_claims: self.require_claims,
            ..self.endpoint.overrides()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Cli::whole_command().debug_assert();
    }

    #[test]
    fn short_help_shows_options_that_exist() {
        let command = Cli::whole_command();
        let ids: Vec<_> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
        let missing = COMMON.iter().filter(|id| !ids.contains(id));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
