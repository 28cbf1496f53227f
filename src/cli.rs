//! The command line, as flags.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use clap::{
    Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, builder::NonEmptyStringValueParser,
    parser::ValueSource,
};

use crate::{
    endpoint::Endpoint,
    engine::Hints,
    model::Strategy,
    scenario::{Millis, Overrides},
};

/// What stands below the options in `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  valid
  1  violations found
  2  the command line or a file is wrong
  3  unknown: interrupted, or not enough was exercised
  4  could not test: endpoint unreachable, not ready, or no such model
  5  a threshold was missed";

/// Stress the sequence batcher of a Triton-compatible inference server, and check every answer.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
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
    /// Print what a seed and a scenario will send, as JSON lines; nothing is sent.
    Plan(PlanArgs),
}

/// What fixes the plan.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// Workers, each running one pass after the other [default: 8, or the scenario's]
    #[arg(short = 't', long, value_name = "N", allow_negative_numbers = true)]
    pub concurrency: Option<NonZeroU32>,
    /// Passes of each worker, each one draw from the patterns [default: 200, or the scenario's]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    pub iterations: Option<NonZeroU64>,
    /// What every choice comes from; printed, so that the run can be had again [default: from the clock]
    #[arg(short, long, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// A scenario file (TOML); flags override it [default: the built-in l0-sequence-stress]
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
}

/// What a run needs.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Clone, Debug, Args)]
pub struct StressArgs {
    /// What fixes the plan.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// The server's gRPC endpoint, HOST:PORT or grpc://HOST:PORT [default: localhost:8001, or the scenario's]
    #[arg(short, long, value_name = "ENDPOINT", env = "SEQUENCE_STRESS_URL")]
    pub url: Option<Endpoint>,
    /// Whether the endpoint comes from the environment.
    #[arg(skip)]
    pub url_from_environment: bool,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The model [default: custom_sequence_int32, or the scenario's]
    #[arg(short, long, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// Run for this long, such as 90s or 1h, in place of a number of passes (with -i: whichever ends first)
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    pub duration: Option<NonZeroU64>,
    /// A threshold, such as 500ms or 2s: when an answer takes longer, exit with 5
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub response_limit: Option<Millis>,
    /// End the run at the first violation
    #[arg(long)]
    pub fail_fast: bool,
    /// How many sequences can have a slot at a time, where the endpoint does not tell
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub slots: Option<NonZeroU32>,
    /// The model's idle limit, such as 1s, where the endpoint does not tell
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub idle_limit: Option<Millis>,
    /// The sequence batcher's strategy, where the endpoint does not tell
    #[arg(long, value_enum)]
    pub strategy: Option<Strategy>,
    /// Write the result to FILE as JSON (docs/result.schema.json describes it)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Show each step
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print nothing but violations, the verdict and how to have the run again
    #[arg(short, long)]
    pub quiet: bool,
}

impl Cli {
    /// Reads the process's command line.
    ///
    /// # Errors
    /// When it is wrong, or asks for help.
    pub fn read() -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches()?;
        let mut cli = Self::from_arg_matches(&matches)?;
        cli.stress.url_from_environment = matches.value_source("url") == Some(ValueSource::EnvVariable);
        Ok(cli)
    }
}

impl PlanArgs {
    /// What the flags say in place of the scenario.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides { workers: self.concurrency, iterations: self.iterations, ..Overrides::default() }
    }
}

impl StressArgs {
    /// What the flags say in place of the scenario.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides {
            endpoint: self.url.clone(),
            model: self.model.clone(),
            duration_s: self.duration,
            response_ms: self.response_limit,
            ..self.plan.overrides()
        }
    }

    /// What the flags tell of the endpoint.
    #[must_use]
    pub fn hints(&self) -> Hints {
        Hints {
            slots: self.slots.map(NonZeroU32::get),
            idle_limit: self.idle_limit.map(Millis::duration),
            strategy: self.strategy,
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; give a time such as 500ms, 90s or 1h"))
}

fn whole_seconds(text: &str) -> Result<NonZeroU64, String> {
    let time = time(text)?;
    let whole = time.subsec_nanos() == 0 && time.as_secs() <= Millis::MAX / 1000;
    NonZeroU64::new(time.as_secs())
        .filter(|_| whole)
        .ok_or_else(|| "it has to be whole seconds, from 1s to a year".to_owned())
}

fn milliseconds(text: &str) -> Result<Millis, String> {
    u64::try_from(time(text)?.as_millis()).map_err(|_| "the time is too long".to_owned())?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
