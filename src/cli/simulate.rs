//! The flags of `simulate`.

use std::{
    fmt,
    num::{NonZeroU32, NonZeroU64},
    ops::RangeInclusive,
    path::PathBuf,
    str::FromStr,
};

use clap::{Args, builder::NonEmptyStringValueParser};

use super::{
    SchedulerArgs,
    flags::flags,
    quoted,
    values::{milliseconds, whole, workers},
};
use reference::{ServerSetup, strategy_of};
use workload::{
    model::Strategy,
    scenario::{Millis, Overrides},
    seed::Seed,
};

/// What stands below the options in `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  no seed has a violation
  1  violations found
  2  the command line or a file is wrong, or the scenario cannot be simulated
  3  interrupted before a violation was found, or no seed reached a claim of the scenario";

/// What to simulate.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES, next_help_heading = "Load")]
pub struct SimulateArgs {
    /// Built-in scenario or TOML file; repeatable [default: l0-sequence-stress]
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "suite")]
    pub scenario: Vec<PathBuf>,
    /// Simulate each scenario of the suite
    #[arg(long)]
    pub suite: bool,
    /// Seeds, such as 1..100000; one run for each seed of each scenario
    #[arg(long, value_name = "FROM..TO", default_value = "1..100")]
    pub seeds: Seeds,
    /// Workers, also -t [default: as the scenario has it]
    #[arg(short = 'c', long, short_alias = 't', aliases = ["workers", "threads"], value_parser = workers, value_name = "N", allow_negative_numbers = true)]
    pub concurrency: Option<NonZeroU32>,
    /// Iterations of each worker, also -n [default: as the scenario has it]
    #[arg(short, long, short_alias = 'n', value_parser = whole::<NonZeroU64>, value_name = "N", allow_negative_numbers = true)]
    pub iterations: Option<NonZeroU64>,
    /// End at the first seed with a violation
    #[arg(long)]
    pub fail_fast: bool,
    /// Simulate up to N seeds at a time [default: one for each core]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub jobs: Option<NonZeroU32>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Model [default: custom_sequence_int32]
    #[arg(short, long, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new(), help_heading = "Server")]
    pub model: Option<String>,
    /// Idle limit, such as 1s or 2m [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds, help_heading = "Server")]
    pub idle_limit: Option<Millis>,
    /// Strategy of the sequence batcher, if the model may have either [default: direct]
    #[arg(long, value_enum, ignore_case = true, help_heading = "Server")]
    pub strategy: Option<Strategy>,
    /// The simulated server.
    #[command(flatten)]
    pub server: SchedulerArgs,
    /// Write what the seeds came to to FILE as JSON (docs/simulation.schema.json)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write the first violation to FILE
    ///
    /// `sequence-stress replay FILE` sends the same to a server. Without a violation the tool says so and leaves FILE untouched.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub failure: Option<PathBuf>,
    /// Print only violations and the verdict
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

impl SimulateArgs {
    /// What the flags say in place of a scenario.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            workers: self.concurrency,
            iterations: self.iterations,
            model: self.model.clone(),
            ..Overrides::default()
        }
    }

    /// How the server is, for one seed.
    pub(crate) fn server_setup(&self, seed: Seed) -> ServerSetup {
        let rest = ServerSetup { fault_seed: seed.0, ..ServerSetup::default() };
        let rest = ServerSetup {
            strategy: self.strategy.unwrap_or(rest.strategy),
            idle_limit: self.idle_limit.map_or(rest.idle_limit, Millis::duration),
            ..rest
        };
        self.server.setup(&rest)
    }

    /// The words that say the same again of one seed, but for the scenario.
    pub(crate) fn words(&self, seed: Seed) -> Vec<String> {
        let rest = ServerSetup { fault_seed: seed.0, ..ServerSetup::default() };
        let words = [
            self.concurrency.map(|workers| format!("-t {workers}")),
            self.iterations.map(|iterations| format!("-i {iterations}")),
            self.model.as_ref().map(|model| format!("-m {}", quoted(model))),
        ];
        words.into_iter().flatten().chain(flags(&self.server_setup(seed), &rest)).collect()
    }

    /// Rejects what the model does not have, and returns what does nothing, a sentence each.
    ///
    /// # Errors
    /// What does not go together, in one line.
    pub(crate) fn check_server(&self, model: &str) -> Result<Vec<String>, String> {
        let asked = self.strategy.unwrap_or_default();
        let Some(strategy) = strategy_of(model, asked) else { return Ok(Vec::new()) };
        if self.strategy.is_some_and(|asked| asked != strategy) {
            let other = "leave --strategy out, or take another model (-m)";
            return Err(format!("{model} is {strategy}, whatever --strategy says: {other}"));
        }
        self.server.check(model, &[strategy])
    }
}

/// The first seed and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl Seeds {
    /// All of them.
    pub fn all(self) -> RangeInclusive<u64> {
        self.first..=self.last
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok();
        let seeds = match text.split_once("..") {
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|seed| (seed, seed)),
        };
        match seeds {
            Some((first, last)) if first <= last => Ok(Self { first, last }),
            Some(_) => Err(format!("'{text}': the first seed is above the last")),
            None => Err(format!("'{text}': give the first and the last seed, such as 1..1000, or one")),
        }
    }
}
