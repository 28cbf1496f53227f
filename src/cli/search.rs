//! The flags of `search`.

use std::{num::NonZeroU64, path::PathBuf, time::Duration};

use clap::{ArgMatches, Args, CommandFactory as _, error::ErrorKind, parser::ValueSource};

use super::{
    Cli, EndpointArgs, ExpectArgs,
    values::{some_seconds, whole},
};
use workload::{sequence::Pattern, wording::nearest};

/// What stands below the options in `--help`.
const ABOUT: &str = "\
Each run has a small scenario. Its patterns, lengths and times are drawn, or changed from those of an earlier run that \
reached something new; with --simulated the server's slots and limits, too. docs/SEARCH.md has more.

Exit codes:
  0  no run has a violation
  1  violations found
  2  the command line or a file is wrong
  3  nothing failed, and no run was valid, or the search was interrupted
  4  a run could not be held";

/// How many runs are held where nothing else ends the search.
const RUNS: u64 = 1000;

/// What to search with.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Clone, Debug, Args)]
#[command(after_help = ABOUT, next_help_heading = "Search")]
pub struct SearchArgs {
    /// Simulate runs and servers, in virtual time; of the options of servers, only --fault and --fault-hold apply
    #[arg(long)]
    pub simulated: bool,
    /// Number of runs [default: 1000, unless --duration is given]
    #[arg(long, value_parser = whole::<NonZeroU64>, value_name = "N", allow_negative_numbers = true)]
    pub runs: Option<NonZeroU64>,
    /// Begin no run after this time, such as 10m; with --runs, whichever comes first
    #[arg(short, long, value_name = "TIME", value_parser = some_seconds)]
    pub duration: Option<Duration>,
    /// Seed of every choice; printed [default: from the clock]
    #[arg(short, long, alias = "seed", value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// End at the first violation. On a server, a search always ends after the first run with a violation
    #[arg(long)]
    pub fail_fast: bool,
    /// Draw no runs with these patterns, such as cancel-restart,reset: leave out what meets known bugs
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', value_parser = pattern)]
    pub without: Vec<Pattern>,
    /// Load the model anew in some runs; a real server has to let clients load models
    #[arg(long)]
    pub reloads: bool,
    /// Go on from what FILE has learnt, if it is there, and write what is learnt to FILE
    #[arg(long, value_name = "FILE")]
    pub corpus: Option<PathBuf>,
    /// Take what the run with this history reached as known; repeatable
    #[arg(long, value_name = "FILE")]
    pub known: Vec<PathBuf>,
    /// Write what the search reached, and the first run with a violation, to FILE as JSON (docs/search.schema.json)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write the first violation to FILE
    ///
    /// `sequence-stress replay FILE` sends the same to a server. Without a violation the tool says so and leaves FILE untouched.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub failure: Option<PathBuf>,
    /// Write the history of the run with a violation to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub history: Option<PathBuf>,
    /// Print only violations and the verdict
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// What is expected of the model.
    #[command(flatten)]
    pub expect: ExpectArgs,
    /// The server.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let meant = || nearest(text, Pattern::NAMES.iter().copied()).map(|name| format!("; did you mean '{name}'?"));
    Pattern::named(text).ok_or_else(|| format!("there is no such pattern{}", meant().unwrap_or_default()))
}

/// The flags that have an effect on a simulated search.
const OF_SIMULATED: [&str; 14] = [
    "simulated",
    "runs",
    "duration",
    "random_seed",
    "fail_fast",
    "without",
    "reloads",
    "corpus",
    "known",
    "json",
    "failure",
    "quiet",
    "fault",
    "fault_hold",
];

impl SearchArgs {
    /// Takes in what the environment says of the endpoint, and rejects what does not go together.
    pub(super) fn complete(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        if !self.simulated {
            return self.endpoint.complete(matches);
        }
        let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let command = Cli::whole_command();
        let search = command.find_subcommand("search").expect("it is this one");
        let mut others = search.get_arguments().filter(|arg| !OF_SIMULATED.contains(&arg.get_id().as_str()));
        let Some(other) = others.find(|arg| is_given(&arg.get_id().as_str())) else { return Ok(()) };
        let flag = other.get_long().map_or_else(|| "an endpoint".to_owned(), |long| format!("--{long}"));
        let problem = format!(
            "--simulated is for runs and servers in virtual time alone, so {flag} has no effect: leave one of them out"
        );
        Err(Cli::command().error(ErrorKind::ArgumentConflict, problem))
    }

    /// The most runs.
    pub fn most(&self) -> u64 {
        self.runs.map_or(if self.duration.is_some() { u64::MAX } else { RUNS }, NonZeroU64::get)
    }
}
