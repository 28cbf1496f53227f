//! The command line, as flags.

mod history;

use std::{
    env,
    net::{IpAddr, SocketAddr},
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use clap::{
    Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, builder::NonEmptyStringValueParser,
    error::ErrorKind,
};

pub use self::history::{CheckArgs, HistoryArgs};
use crate::{
    endpoint::Endpoint,
    engine::Hints,
    model::Strategy,
    reference::{ModelOptions, Options, Planted},
    scenario::{Millis, Overrides},
    seed::Seed,
};

/// The environment variable that names the endpoint where no flag does.
const URL_VARIABLE: &str = "SEQUENCE_STRESS_URL";
/// The one that says where that endpoint's metrics are.
const METRICS_VARIABLE: &str = "SEQUENCE_STRESS_METRICS";

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
    /// Judge recorded runs again: the same verdict, without a server.
    Check(CheckArgs),
    /// Serve the reference server: a Triton-compatible sequence batcher with accumulator models.
    Serve(ServeArgs),
    /// Have a failure again, and make it small.
    Replay(ReplayArgs),
    /// List the faults that can be planted in the reference server.
    Faults,
}

/// What the reference server is to do, whether alone or embedded.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "reference server")]
#[command(next_help_heading = "The reference server (alone, or with --embedded)")]
pub struct ServerArgs {
    /// Instances of each model [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub instances: Option<NonZeroU32>,
    /// The most requests of one execution; with Direct, the slots of an instance [default: 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_batch_size: Option<NonZeroU32>,
    /// The slots of an instance where the strategy is Oldest [default: as --max-batch-size]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub candidates: Option<NonZeroU32>,
    /// How long one execution takes, such as 10ms [default: 3ms]
    #[arg(long, value_name = "TIME", value_parser = any_milliseconds)]
    pub execution_time: Option<Duration>,
    /// How long the scheduler may hold a batch back for more requests [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub queue_delay: Option<Duration>,
    /// With Direct: the share of slots, from 0 to 1, for which no batch is held back [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub minimum_slot_utilization: Option<f32>,
    /// With Oldest: batch sizes for which no batch is held back, such as 2,4
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub preferred_batch_size: Vec<NonZeroU32>,
    /// Plant a fault: NAME, NAME:PROBABILITY or NAME:once@N; `sequence-stress faults` lists the names (repeatable)
    #[arg(long, value_name = "NAME[:WHEN]")]
    pub fault: Vec<Planted>,
    /// What decides when faults happen that have a probability [default: the run's seed, or 0]
    #[arg(long, value_name = "SEED")]
    pub fault_seed: Option<u64>,
    /// How long late-response, slow-execution and late-release hold up what they make late [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub fault_hold: Option<Duration>,
}

/// What the reference server needs to stand alone.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// The port of the gRPC endpoint; 0 is a free one
    #[arg(long, value_name = "PORT", default_value_t = 8001)]
    pub grpc_port: u16,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::from([127, 0, 0, 1]))]
    pub address: IpAddr,
    /// The strategy of the models whose name does not tell it
    #[arg(long, value_enum, default_value_t = Strategy::Direct, ignore_case = true)]
    pub strategy: Strategy,
    /// The models' idle limit, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "1s")]
    pub idle_limit: Millis,
    /// Begin with no model loaded; clients load them
    #[arg(long)]
    pub explicit: bool,
    /// The rest.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What stands below the options of `replay --help`.
const REPLAYED: &str = "\
A seed and a file fix what is sent, not what the server does at once: a failure may show in some runs only. A reference server in
which it failed is started anew for each run; elsewhere each run has correlation IDs of its own.

Exit codes: 0 it did not fail, 1 it failed (or otherwise than the file says), 2 the file or the command line is wrong,
3 interrupted, 4 the endpoint cannot be tested";

/// What it takes to have a failure again.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Clone, Debug, Args)]
#[command(after_help = REPLAYED)]
pub struct ReplayArgs {
    /// The failure file
    pub file: PathBuf,
    /// How often it is run; with --shrink, how often each smaller one is [default: 1; with --shrink, 3]
    #[arg(short = 'n', long, value_name = "K", allow_negative_numbers = true)]
    pub runs: Option<NonZeroU32>,
    /// As fast as it goes: each conversation as soon as its worker is free, and no pauses. Without it no conversation begins
    /// earlier than it did in the run that failed, and pauses last as long as they did; what follows an answer follows it at once
    #[arg(long)]
    pub at_once: bool,
    /// Show what was sent and answered in the last run that failed as a chart, however much it is [default: where there are at
    /// most 40 messages]
    #[arg(long)]
    pub chart: bool,
    /// Take away workers, sequences, messages, pauses and faults of the client as long as the failure still shows, until
    /// without any one message it does not; show what is left as a chart, and write it to a file
    #[arg(long)]
    pub shrink: bool,
    /// With --shrink: in how many of the K runs a smaller one has to fail [default: in more than half, or in as many as the
    /// whole does]
    #[arg(long, value_name = "N", requires = "shrink", allow_negative_numbers = true)]
    pub at_least: Option<NonZeroU32>,
    /// With --shrink: how many smaller ones are tried at most
    #[arg(long, value_name = "N", default_value_t = 20_000, requires = "shrink")]
    pub trials: u32,
    /// With --shrink: where what is left is written [default: the file's name with .small before its ending]
    #[arg(short, long, value_name = "FILE", requires = "shrink")]
    pub output: Option<PathBuf>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The server's gRPC endpoint [default: SEQUENCE_STRESS_URL of the environment; a reference server, if it failed there; or
    /// the endpoint where it failed]
    #[arg(short, long, value_name = "ENDPOINT", env = URL_VARIABLE)]
    pub url: Option<Endpoint>,
    /// Have the server load the model anew before each run, so that what a run breaks does not make the next one fail; it has to
    /// allow that (Triton's --model-control-mode=explicit)
    #[arg(long)]
    pub reload: bool,
    /// Print the verdict only
    #[arg(short, long)]
    pub quiet: bool,
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
    /// Stress the reference server, which is started in this process and stopped at the end
    #[arg(long)]
    pub embedded: bool,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The server's gRPC endpoint, HOST:PORT or grpc://HOST:PORT [default: SEQUENCE_STRESS_URL of the environment,
    /// localhost:8001, or the scenario's]
    #[arg(short, long, value_name = "ENDPOINT")]
    pub url: Option<Endpoint>,
    /// Whether the endpoint comes from the environment.
    #[arg(skip)]
    pub url_from_environment: bool,
    /// Whether the metrics' address does.
    #[arg(skip)]
    pub metrics_from_environment: bool,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Where the server tells its metrics over HTTP; then requests that are left pending are found [default: with the
    /// environment's or the default endpoint SEQUENCE_STRESS_METRICS of the environment, or the scenario's]
    #[arg(long, value_name = "HOST:PORT", value_parser = metrics)]
    pub metrics_url: Option<Endpoint>,
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
    /// End the run at the first violation; what is under way is finished
    #[arg(long)]
    pub fail_fast: bool,
    /// How many sequences can have a slot at a time, where the endpoint does not tell
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub slots: Option<NonZeroU32>,
    /// The model's idle limit, such as 1s, where the endpoint does not tell; with --embedded, the server's [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub idle_limit: Option<Millis>,
    /// The sequence batcher's strategy, where the endpoint does not tell; with --embedded, the server's [default: direct]
    #[arg(long, value_enum, ignore_case = true)]
    pub strategy: Option<Strategy>,
    /// Write the result to FILE as JSON (docs/result.schema.json describes it)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the first violation to FILE as a failure that `sequence-stress replay` has again; nothing where there is none
    #[arg(long, value_name = "FILE")]
    pub failure: Option<PathBuf>,
    /// What of the run is written down.
    #[command(flatten)]
    pub history: HistoryArgs,
    /// Show each step
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print nothing but violations, the verdict and how to have the run again
    #[arg(short, long)]
    pub quiet: bool,
    /// How the embedded server is to be.
    #[command(flatten)]
    pub server: ServerArgs,
}

impl Cli {
    /// Reads the process's command line.
    ///
    /// # Errors
    /// When it is wrong, or asks for help.
    pub fn read() -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches()?;
        let mut cli = Self::from_arg_matches(&matches)?;
        cli.stress.check_embedding(matches.contains_id("reference server"))?;
        if cli.command.is_none() && !cli.stress.embedded {
            cli.stress.look_into_the_environment()?;
        }
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
    /// Takes the endpoint from the environment where no flag names one.
    fn look_into_the_environment(&mut self) -> Result<(), clap::Error> {
        // The environment tells of one server: where a flag names an endpoint, that may be another.
        if self.url.is_some() {
            return Ok(());
        }
        let wrong = |variable, problem| {
            Cli::command().error(ErrorKind::ValueValidation, format!("the environment variable {variable}: {problem}"))
        };
        if let (None, Ok(text)) = (&self.metrics_url, env::var(METRICS_VARIABLE)) {
            self.metrics_url = Some(metrics(&text).map_err(|problem| wrong(METRICS_VARIABLE, problem))?);
            self.metrics_from_environment = true;
        }
        let Ok(text) = env::var(URL_VARIABLE) else { return Ok(()) };
        self.url = Some(text.parse().map_err(|problem| wrong(URL_VARIABLE, problem))?);
        self.url_from_environment = true;
        Ok(())
    }

    /// Refuses what does not go together with an embedded server, or without one.
    fn check_embedding(&self, configures_server: bool) -> Result<(), clap::Error> {
        let conflict = |text| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        if self.embedded && self.url.is_some() {
            return conflict("--embedded starts a server of its own: leave --url out");
        }
        if self.embedded && self.metrics_url.is_some() {
            return conflict("--metrics-url: the reference server tells no metrics: leave it out with --embedded");
        }
        if self.embedded && self.slots.is_some() {
            return conflict(
                "--slots tells of an endpoint that does not tell itself: with --embedded use --max-batch-size",
            );
        }
        if !self.embedded && configures_server {
            return conflict("the options of the reference server need --embedded, or the subcommand serve");
        }
        Ok(())
    }

    /// How the embedded server is to be, for a run with this seed.
    #[must_use]
    pub fn server_options(&self, seed: Seed) -> Options {
        let mut options = self.server.options(seed);
        options.models.strategy = self.strategy.unwrap_or(options.models.strategy);
        options.models.idle_limit = self.idle_limit.map_or(options.models.idle_limit, Millis::duration);
        options
    }

    /// The flags that say how the embedded server is to be, for a run with this seed; none where there is none.
    #[must_use]
    pub fn server_words(&self, seed: Seed) -> Option<Vec<String>> {
        let strategy = self.strategy.map(|strategy| format!("--strategy {}", strategy.to_string().to_lowercase()));
        let idle_limit = self.idle_limit.map(|limit| format!("--idle-limit {}ms", limit.duration().as_millis()));
        let mut server = self.server.clone();
        server.fault_seed.get_or_insert(seed.0);
        self.embedded.then(|| strategy.into_iter().chain(idle_limit).chain(server.words()).collect())
    }

    /// How an embedded server was, from what [`Self::server_words`] says of it.
    ///
    /// # Errors
    /// When these are no such flags.
    pub fn embedded_options(words: &[String]) -> Result<Options, String> {
        let flags = words.iter().flat_map(|words| words.split_whitespace());
        let parsed = Cli::try_parse_from(["sequence-stress", "--embedded"].into_iter().chain(flags));
        let first_line = |error: &clap::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
        let cli = parsed.map_err(|error| first_line(&error))?;
        Ok(cli.stress.server_options(Seed(0)))
    }

    /// What the flags say in place of the scenario.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides {
            endpoint: self.url.clone(),
            model: self.model.clone(),
            metrics: self.metrics_url.clone(),
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

impl ServeArgs {
    /// How the server is to be.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = self.server.options(Seed(0));
        options.explicit = self.explicit;
        options.listen = SocketAddr::new(self.address, self.grpc_port);
        options.models.strategy = self.strategy;
        options.models.idle_limit = self.idle_limit.duration();
        options
    }
}

impl ServerArgs {
    fn options(&self, seed: Seed) -> Options {
        let defaults = ModelOptions::default();
        let max_batch_size = self.max_batch_size.map_or(defaults.max_batch_size, NonZeroU32::get);
        let models = ModelOptions {
            instances: self.instances.map_or(defaults.instances, NonZeroU32::get),
            max_batch_size,
            candidates: self.candidates.map_or(max_batch_size, NonZeroU32::get),
            execution: self.execution_time.unwrap_or(defaults.execution),
            queue_delay: self.queue_delay.unwrap_or(defaults.queue_delay),
            minimum_slot_utilization: self.minimum_slot_utilization.unwrap_or(defaults.minimum_slot_utilization),
            preferred_batch_sizes: self.preferred_batch_size.iter().map(|size| size.get()).collect(),
            ..defaults
        };
        let options = Options { models, ..Options::default() };
        Options {
            faults: self.fault.clone(),
            fault_seed: self.fault_seed.map_or(seed, Seed),
            fault_hold: self.fault_hold.unwrap_or(options.fault_hold),
            ..options
        }
    }

    /// The flags that say the same again.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let number = |flag: &str, value: Option<NonZeroU32>| value.map(|value| format!("--{flag} {value}"));
        let time = |flag: &str, value: Option<Duration>| {
            value.map(|value| format!("--{flag} {}", humantime::format_duration(value).to_string().replace(' ', "")))
        };
        let sizes: Vec<_> = self.preferred_batch_size.iter().map(ToString::to_string).collect();
        let words = [
            number("instances", self.instances),
            number("max-batch-size", self.max_batch_size),
            number("candidates", self.candidates),
            time("execution-time", self.execution_time),
            time("queue-delay", self.queue_delay),
            self.minimum_slot_utilization.map(|share| format!("--minimum-slot-utilization {share}")),
            (!sizes.is_empty()).then(|| format!("--preferred-batch-size {}", sizes.join(","))),
            self.fault_seed.map(|seed| format!("--fault-seed {seed}")),
            time("fault-hold", self.fault_hold),
        ];
        words.into_iter().flatten().chain(self.fault.iter().map(|fault| format!("--fault {fault}"))).collect()
    }
}

/// `HOST:PORT` or `http://HOST:PORT/metrics`.
fn metrics(text: &str) -> Result<Endpoint, String> {
    let address = text.strip_prefix("http://").unwrap_or(text);
    let address = address.strip_suffix("/metrics").unwrap_or(address).trim_end_matches('/');
    if address.contains("://") {
        return Err(format!("'{text}': use HOST:PORT, such as localhost:8002"));
    }
    address.parse()
}

fn share(text: &str) -> Result<f32, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "it has to be from 0 to 1".to_owned())
}

fn any_milliseconds(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    let is_whole = time.subsec_nanos().is_multiple_of(1_000_000) && time <= Duration::from_secs(3600);
    if is_whole { Ok(time) } else { Err("it has to be whole milliseconds, at most an hour".to_owned()) }
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

    #[test]
    fn the_metrics_address_is_read_in_every_form() {
        for text in ["h:1", "http://h:1", "http://h:1/metrics", "http://h:1/"] {
            assert_eq!(metrics(text).map(|endpoint| endpoint.to_string()), Ok("h:1".to_owned()), "{text}");
        }
        for text in ["grpc://h:1", "https://h:1", "h", "h:1/other"] {
            assert!(metrics(text).is_err(), "{text}");
        }
    }
}
