//! The flags that say whom to stress.

use std::{env, num::NonZeroU32};

use clap::{ArgMatches, Args, CommandFactory as _, builder::NonEmptyStringValueParser, error::ErrorKind};

use super::{
    AccessArgs, Cli, ReplicaArgs, ServerArgs,
    flags::flags,
    values::{gauge, metrics, milliseconds, whole},
};
use crate::{preflight::Hints, run::MemorySource};
use reference::{MEMORY_GAUGE, ServerSetup, strategy_of};
use workload::{
    answers::Answers,
    arithmetic::Formula,
    conversation::Transport,
    endpoint::{Endpoint, Endpoints},
    model::Strategy,
    scenario::{Millis, Overrides},
    seed::Seed,
    version::ModelVersion,
};

/// The help of `--transport`.
fn transports() -> String {
    format!(
        "How steps travel: {}. HTTP needs an http:// endpoint, or {HTTP_URL_VARIABLE} in the environment [default: grpc-stream; \
         http-binary if all endpoints are HTTP]",
        Transport::listed("")
    )
}

/// The environment variable that names the endpoint where no flag does.
pub(super) const URL_VARIABLE: &str = "SEQUENCE_STRESS_URL";
/// The one that says where HTTP is spoken besides, for those who ask for it.
const HTTP_URL_VARIABLE: &str = "SEQUENCE_STRESS_HTTP_URL";
/// The one that says where that endpoint's metrics are.
pub(super) const METRICS_VARIABLE: &str = "SEQUENCE_STRESS_METRICS";
/// The one that names the server's process.
pub(crate) const PID_VARIABLE: &str = "TRITON_PID";
/// The one that says how the server there is restarted.
const RESTART_VARIABLE: &str = "SEQUENCE_STRESS_RESTART";

/// The server to stress, and what the user says of it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Target")]
pub struct EndpointArgs {
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// HOST:PORT, or a URL [default: localhost:8001]
    ///
    /// HOST:PORT and grpc://HOST:PORT speak gRPC, http://HOST:PORT speaks HTTP, grpcs:// and https:// use TLS. Several
    /// endpoints share the load. The environment variable SEQUENCE_STRESS_URL replaces the default.
    #[arg(value_name = "ENDPOINT", value_delimiter = ',', help_heading = "Target")]
    pub endpoint: Vec<Endpoint>,
    /// The same as ENDPOINT; both together are several endpoints
    #[arg(short, long, value_name = "ENDPOINT", value_delimiter = ',')]
    pub url: Vec<Endpoint>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Model [default: custom_sequence_int32]
    #[arg(short, long, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// Version of the model [default: the newest that the server has]
    #[arg(long, value_name = "VERSION", allow_negative_numbers = true)]
    pub model_version: Option<ModelVersion>,
    /// Stress a reference server in this process
    #[arg(long)]
    pub embedded: bool,
    /// How steps travel.
    #[arg(long, value_name = "TRANSPORT", help = "How steps travel [default: by the endpoint]", long_help = transports())]
    pub transport: Option<Transport>,
    /// The HTTP endpoint of the environment.
    #[arg(skip)]
    pub http_from_environment: Option<Endpoint>,
    /// Whether the endpoint comes from the environment.
    #[arg(skip)]
    pub url_from_environment: bool,
    /// Whether the metrics' address does.
    #[arg(skip)]
    pub metrics_from_environment: bool,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The server's metrics, to find requests that stay pending; Triton's port is 8002 [default: SEQUENCE_STRESS_METRICS of
    /// the environment, if the endpoint comes from there]
    #[arg(long, value_name = "HOST:PORT", value_parser = metrics)]
    pub metrics_url: Option<Endpoint>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Process ID of the server on this machine. The tool reads the memory and CPU time of this process and its descendants
    /// each second, to find memory that grows with each sequence (runs of 80 s and more) [default: TRITON_PID of the environment,
    /// if the endpoint comes from there]
    #[arg(long, value_name = "PID", conflicts_with_all = ["embedded", "server_memory"], value_parser = whole::<NonZeroU32>, allow_negative_numbers = true)]
    pub server_pid: Option<NonZeroU32>,
    /// Process ID that the environment names.
    #[arg(skip)]
    pub pid_of_environment: Option<String>,
    /// Read the server's memory from its metrics instead: the name of a gauge in bytes
    #[arg(long, value_name = "GAUGE", conflicts_with = "embedded", value_parser = gauge)]
    pub server_memory: Option<String>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Shell command that restarts the server at the same address and returns when that is done, for scenarios with restarts
    /// [default: SEQUENCE_STRESS_RESTART of the environment, if the endpoint comes from there]
    #[arg(long, value_name = "COMMAND", conflicts_with = "embedded")]
    pub restart_command: Option<String>,
    /// Number of slots, if the server does not report its model configuration
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true, help_heading = "What to check")]
    pub slots: Option<NonZeroU32>,
    /// Idle limit, such as 1s, if the server does not report it; with --embedded, the server's [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds, help_heading = "What to check")]
    pub idle_limit: Option<Millis>,
    /// Strategy of the sequence batcher, if the server does not report it; with --embedded, the server's [default: direct]
    #[arg(long, value_enum, ignore_case = true, help_heading = "What to check")]
    pub strategy: Option<Strategy>,
    /// What the model computes, if its configuration does not say so: running-sum, running-sum-plus-corrid-at-end,
    /// ready-times-input-plus-start or ready-times-input-plus-start-plus-corrid-at-end [default: running-sum]
    #[arg(long, value_name = "FORMULA", conflicts_with = "embedded", help_heading = "What to check")]
    pub formula: Option<Formula>,
    /// State of a new sequence, if the model's configuration does not say so [default: 0]
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "embedded",
        allow_negative_numbers = true,
        help_heading = "What to check"
    )]
    pub initial_state: Option<i64>,
    /// Number of responses of a decoupled model to each request, if its configuration does not say so [default: 1]
    #[arg(
        long, value_name = "N", conflicts_with = "embedded", help_heading = "What to check",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(Answers::MOST))
    )]
    pub responses: Option<u32>,
    /// Several servers.
    #[command(flatten)]
    pub several: ReplicaArgs,
    /// Authentication and TLS.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The embedded server.
    #[command(flatten)]
    pub server: ServerArgs,
}

impl EndpointArgs {
    /// Takes in what the environment says, and rejects what does not go together.
    pub(super) fn complete(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.url.splice(..0, self.endpoint.drain(..));
        self.check_embedding(ServerArgs::IDS.iter().any(|id| matches.contains_id(id)))?;
        self.access.complete()?;
        self.look_into_the_environment()
    }

    /// What the flags say in place of a scenario.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            endpoint: Endpoints::try_from(self.url.clone()).ok(),
            http: self.http_from_environment.clone(),
            transport: self.transport,
            model: self.model.clone(),
            version: self.model_version,
            metrics: self.metrics_url.clone(),
            access: self.access.overrides(),
            replicas: self.several.overrides(),
            ..Overrides::default()
        }
    }

    /// Where the server's memory is read, as the flags say.
    pub fn server_memory(&self) -> Option<MemorySource> {
        let of_the_reference = || self.embedded.then(|| MEMORY_GAUGE.to_owned());
        let pid = self.server_pid.map(|pid| MemorySource::Process(pid.get()));
        pid.or_else(|| self.server_memory.clone().or_else(of_the_reference).map(MemorySource::Gauge))
    }

    /// Takes the endpoint from the environment where no flag names one.
    fn look_into_the_environment(&mut self) -> Result<(), clap::Error> {
        // The environment tells of one server: where a flag names an endpoint, that may be another.
        if !self.url.is_empty() || !self.several.replicas.is_empty() || self.embedded {
            return Ok(());
        }
        let wrong = |variable, problem| {
            Cli::command().error(ErrorKind::ValueValidation, format!("the environment variable {variable}: {problem}"))
        };
        if let (None, Ok(text)) = (&self.metrics_url, env::var(METRICS_VARIABLE)) {
            self.metrics_url = Some(metrics(&text).map_err(|problem| wrong(METRICS_VARIABLE, problem))?);
            self.metrics_from_environment = true;
        }
        if self.server_memory().is_none() {
            self.pid_of_environment = env::var(PID_VARIABLE).ok().filter(|text| !text.is_empty());
        }
        if let Ok(text) = env::var(HTTP_URL_VARIABLE) {
            self.http_from_environment = Some(text.parse().map_err(|problem| wrong(HTTP_URL_VARIABLE, problem))?);
        }
        let Ok(text) = env::var(URL_VARIABLE) else { return Ok(()) };
        let endpoints: Endpoints = text.parse().map_err(|problem| wrong(URL_VARIABLE, problem))?;
        self.url = endpoints.all().to_vec();
        self.url_from_environment = true;
        if self.restart_command.is_none() {
            self.restart_command = env::var(RESTART_VARIABLE).ok();
        }
        Ok(())
    }

    /// Rejects what the embedded server's model does not have, and returns what does nothing, a sentence each.
    ///
    /// # Errors
    /// What does not go together, in one line.
    pub fn check_server(&self, model: &str) -> Result<Vec<String>, String> {
        let asked = self.strategy.unwrap_or_default();
        // Where there is no such model the run says so.
        let Some(strategy) = strategy_of(model, asked).filter(|_| self.embedded) else { return Ok(Vec::new()) };
        if self.strategy.is_some_and(|asked| asked != strategy) {
            let other = "leave --strategy out, or take another model (-m)";
            return Err(format!("{model} is {strategy}, whatever --strategy says: {other}"));
        }
        self.server.scheduler.check(model, &[strategy])
    }

    /// Rejects what does not go together with an embedded server, or without one.
    fn check_embedding(&self, configures_server: bool) -> Result<(), clap::Error> {
        let conflict = |text| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        if self.embedded && !self.url.is_empty() {
            return conflict("--embedded starts its own server: leave the endpoint out");
        }
        if self.embedded && self.metrics_url.is_some() {
            return conflict("--embedded knows its server's metrics: leave --metrics-url out");
        }
        if self.embedded && !self.access.is_empty() {
            return conflict(
                "--embedded starts a server without access control: leave -H, --ca, --client-cert, --client-key and --server-name out",
            );
        }
        if self.embedded && self.slots.is_some() {
            return conflict("--slots describes another server: with --embedded use --max-batch-size");
        }
        if !self.embedded && configures_server {
            return conflict("the options of the embedded server need --embedded, or the subcommand serve");
        }
        Ok(())
    }

    /// How the embedded server is to be, for a run with this seed; none where there is none.
    pub fn server_setup(&self, seed: Seed) -> Option<ServerSetup> {
        let mut rest = ServerSetup { fault_seed: seed.0, ..ServerSetup::default() };
        rest.strategy = self.strategy.unwrap_or(rest.strategy);
        rest.idle_limit = self.idle_limit.map_or(rest.idle_limit, Millis::duration);
        self.embedded.then(|| self.server.setup(&rest))
    }

    /// The flags that say how the embedded server is to be, for a run with the same seed, but for those that do nothing with its faults.
    pub fn server_flags(&self, seed: Seed) -> Vec<String> {
        let rest = ServerSetup { fault_seed: seed.0, ..ServerSetup::default() };
        let Some(mut setup) = self.server_setup(seed) else { return Vec::new() };
        if !setup.draws_faults() {
            setup.fault_seed = rest.fault_seed;
        }
        if !setup.holds_up() {
            setup.fault_hold = rest.fault_hold;
        }
        flags(&setup, &rest)
    }

    /// What the flags tell of the endpoint; nothing of an embedded server, which is as they say.
    pub fn hints(&self) -> Hints {
        if self.embedded {
            return Hints::default();
        }
        Hints {
            slots: self.slots.map(NonZeroU32::get),
            idle_limit: self.idle_limit.map(Millis::duration),
            strategy: self.strategy,
            formula: self.formula,
            initial_state: self.initial_state,
            responses: self.responses,
        }
    }
}
