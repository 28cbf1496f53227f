//! The command line, as flags.

mod access;
mod endpoint;
mod export;
mod files;
mod flags;
mod history;
mod proxy;
mod repository;
mod server;
mod values;

use std::{
    env,
    ffi::OsString,
    fs,
    net::{IpAddr, SocketAddr},
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::endpoint::{METRICS_VARIABLE, URL_VARIABLE};
use self::values::{metrics, milliseconds, whole, whole_seconds};
pub use self::{
    access::AccessArgs,
    endpoint::EndpointArgs,
    export::ExportArgs,
    files::{FileArgs, ResultArgs},
    flags::with_hints,
    history::{CheckArgs, HistoryArgs},
    proxy::ProxyArgs,
    repository::{InitialChoice, RepositoryArgs},
    server::ServerArgs,
};
use reference::{Options, ServerSetup, Tls, strategies};
use workload::{
    endpoint::{Endpoint, Endpoints},
    model::Strategy,
    scenario::{Millis, Overrides},
};

/// What stands below the options in `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  valid
  1  violations found
  2  the command line or a file is wrong
  3  unknown: interrupted, not enough was exercised, or a phase's restart or reload failed
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
    /// Write a model repository: Triton's families of sequence models, for each of its backends.
    Repository(Box<RepositoryArgs>),
    /// Stand between a client and a server as a faulty network: delay, slice, limit, cut and swallow what passes.
    Proxy(ProxyArgs),
    /// Have a failure again, and make it small.
    Replay(Box<ReplayArgs>),
    /// Print a failure for people without this tool: a Python script, or a bug report.
    Export(ExportArgs),
    /// List the faults that can be planted in the reference server.
    Faults,
    /// List the built-in scenarios, or print one.
    Scenarios(ScenariosArgs),
    /// Run the built-in scenarios one after the other, and print a table.
    Suite(Box<SuiteArgs>),
}

/// Which scenario to print.
#[derive(Clone, Debug, Args)]
pub struct ScenariosArgs {
    /// Print the file of this one
    pub name: Option<PathBuf>,
    /// List the keys of a scenario file, and what each is for
    #[arg(long, conflicts_with = "name")]
    pub keys: bool,
}

/// What a suite needs.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct SuiteArgs {
    /// What every choice comes from; printed, so that the suite can be had again [default: from the clock]
    #[arg(short, long, value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// Only these scenarios, such as backlog,ordering
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print nothing but violations and the table
    #[arg(short, long)]
    pub quiet: bool,
    /// Whom to stress.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

/// What the reference server needs to stand alone.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// The port of the gRPC endpoint; 0 is a free one
    #[arg(long, value_parser = whole::<u16>, value_name = "PORT", default_value_t = 8001)]
    pub grpc_port: u16,
    /// The port of the HTTP endpoint; 0 is a free one
    #[arg(long, value_parser = whole::<u16>, value_name = "PORT", default_value_t = 8000)]
    pub http_port: u16,
    /// The port of the metrics; 0 is a free one
    #[arg(long, value_parser = whole::<u16>, value_name = "PORT", default_value_t = 8002)]
    pub metrics_port: u16,
    /// Secure gRPC and HTTP by TLS, with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Serve only clients that have a certificate of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
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
    /// Serve the models of this repository in place of the built-in ones: each by the formula, types and settings that its
    /// config.pbtxt gives; what it is made of is not run (repeatable)
    #[arg(long, value_name = "DIR", conflicts_with_all = OF_BUILT_IN_MODELS)]
    pub model_repository: Vec<PathBuf>,
    /// The rest.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What configurations say where models are read.
const OF_BUILT_IN_MODELS: [&str; 9] = [
    "strategy",
    "idle_limit",
    "instances",
    "max_batch_size",
    "candidates",
    "execution_time",
    "queue_delay",
    "minimum_slot_utilization",
    "preferred_batch_size",
];

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
    #[arg(short = 'n', long, value_parser = whole::<NonZeroU32>, value_name = "K", allow_negative_numbers = true)]
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
    /// without any one message it does not; show what is left as a chart, and write it to a file. Faults of an embedded server
    /// that happen once (NAME:once@N) are made to happen earlier, and those that are not needed go
    #[arg(long)]
    pub shrink: bool,
    /// With --shrink: in how many of the K runs a smaller one has to fail [default: in more than half, or in as many as the
    /// whole does]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", requires = "shrink", allow_negative_numbers = true)]
    pub at_least: Option<NonZeroU32>,
    /// Write into FILE how often it failed on this server, the model's configuration and the chart; `export --format issue`
    /// reports them
    #[arg(long, conflicts_with = "shrink")]
    pub record: bool,
    /// With --shrink: how many smaller ones are tried at most
    #[arg(long, value_parser = whole::<u32>, value_name = "N", default_value_t = 20_000, requires = "shrink")]
    pub trials: u32,
    /// With --shrink: where what is left is written [default: the file's name with .small before its ending]
    #[arg(short, long, value_name = "FILE", requires = "shrink")]
    pub output: Option<PathBuf>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The server's endpoint, or several of them, as the run had them [default: SEQUENCE_STRESS_URL of the environment; a reference server, if it failed there; or
    /// the endpoint where it failed]
    #[arg(short, long, value_name = "ENDPOINT", value_delimiter = ',', env = URL_VARIABLE)]
    pub url: Vec<Endpoint>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Where the server tells its metrics over HTTP; requests that are left pending are found only with it [default: with the
    /// environment's endpoint SEQUENCE_STRESS_METRICS of the environment, with --url none, or the file's]
    #[arg(long, value_name = "HOST:PORT", value_parser = metrics)]
    pub metrics_url: Option<Endpoint>,
    /// Have the server load the model anew before each run, so that what a run breaks does not make the next one fail; it has to
    /// allow that (Triton's --model-control-mode=explicit)
    #[arg(long)]
    pub reload: bool,
    /// Print the verdict only
    #[arg(short, long)]
    pub quiet: bool,
    /// What it takes to be let in; of headers whose values are written down nowhere, again.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// What fixes the plan.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// Workers, each running one pass after the other [default: 8, or the scenario's]
    #[arg(short = 't', long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub concurrency: Option<NonZeroU32>,
    /// Passes of each worker, each one draw from the patterns [default: 200, or the scenario's]
    #[arg(short, long, value_parser = whole::<NonZeroU64>, value_name = "N", allow_negative_numbers = true)]
    pub iterations: Option<NonZeroU64>,
    /// What every choice comes from; printed, so that the run can be had again [default: from the clock]
    #[arg(short, long, value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// A built-in scenario (`sequence-stress scenarios`), or a scenario file (TOML); flags override it [default:
    /// l0-sequence-stress]
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: Option<PathBuf>,
}

/// What a run needs.
#[derive(Clone, Debug, Args)]
pub struct StressArgs {
    /// What fixes the plan.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Run for this long, such as 90s or 1h, in place of a number of passes (with -i: whichever ends first)
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    pub duration: Option<NonZeroU64>,
    /// A threshold, such as 500ms or 2s: when an answer takes longer, exit with 5
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub response_limit: Option<Millis>,
    /// End the run at the first violation; what is under way is finished
    #[arg(long)]
    pub fail_fast: bool,
    /// What it leaves besides the history.
    #[command(flatten)]
    pub files: FileArgs,
    /// Show each step
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print nothing but violations, the verdict and how to have the run again
    #[arg(short, long)]
    pub quiet: bool,
    /// Whom to stress.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
    /// What of the run is written down.
    #[command(flatten)]
    pub history: HistoryArgs,
}

impl Cli {
    /// Reads the process's command line.
    ///
    /// # Errors
    /// When it is wrong, or asks for help.
    pub fn read() -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(without_help_of_help(env::args_os()))?;
        let mut cli = Self::from_arg_matches(&matches)?;
        match &mut cli.command {
            None => cli.stress.endpoint.complete(&matches)?,
            Some(Command::Suite(suite)) => {
                suite.endpoint.complete(matches.subcommand_matches("suite").unwrap_or(&matches))?;
            }
            Some(Command::Replay(replay)) => replay.access.complete()?,
            Some(_) => {}
        }
        Ok(cli)
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
            workers: self.plan.concurrency,
            iterations: self.plan.iterations,
            duration_s: self.duration,
            response_ms: self.response_limit,
            ..self.endpoint.overrides()
        }
    }
}

impl ReplayArgs {
    /// The endpoints that flags or the environment name.
    #[must_use]
    pub fn endpoints(&self) -> Option<Endpoints> {
        Endpoints::try_from(self.url.clone()).ok()
    }

    /// Where the server that `--url` names tells its metrics: the environment's address belongs to the environment's endpoint.
    #[must_use]
    pub fn metrics(&self) -> Option<Endpoint> {
        let of_the_environment = || {
            let url: Endpoints = env::var(URL_VARIABLE).ok()?.parse().ok()?;
            let text = env::var(METRICS_VARIABLE).ok().filter(|_| self.url == url.all())?;
            metrics(&text).ok()
        };
        self.metrics_url.clone().or_else(of_the_environment)
    }
}

impl ServeArgs {
    /// Refuses what none of the models has, and returns what does nothing, a sentence each.
    ///
    /// # Errors
    /// What does not go together, in one line.
    pub fn check(&self) -> Result<Vec<String>, String> {
        let strategies: Vec<_> = strategies(self.strategy);
        self.server.check("each model", &strategies)
    }

    /// How the server is to be.
    ///
    /// # Errors
    /// A file that cannot be read, in one line.
    pub fn options(&self) -> Result<Options, String> {
        let rest =
            ServerSetup { strategy: self.strategy, idle_limit: self.idle_limit.duration(), ..ServerSetup::default() };
        let [listen, listen_http, listen_metrics] =
            [self.grpc_port, self.http_port, self.metrics_port].map(|port| SocketAddr::new(self.address, port));
        let options = Options::from(self.server.setup(&rest));
        let explicit = self.explicit;
        Ok(Options { listen, listen_http, listen_metrics, explicit, tls: self.tls()?, ..options })
    }

    fn tls(&self) -> Result<Option<Tls>, String> {
        let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let read = |path: &PathBuf| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let client_authorities = self.tls_client_ca.as_ref().map(read).transpose()?;
        Ok(Some(Tls { certificates: read(certificates)?, key: read(key)?, client_authorities }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
