//! The flags that say whom to stress.

use std::{env, num::NonZeroU32};

use clap::{ArgMatches, Args, CommandFactory as _, builder::NonEmptyStringValueParser, error::ErrorKind};

use super::{
    AccessArgs, Cli, ServerArgs,
    flags::flags,
    values::{metrics, milliseconds, whole},
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
};

/// The environment variable that names the endpoint where no flag does.
pub(super) const URL_VARIABLE: &str = "SEQUENCE_STRESS_URL";
/// The one that says where HTTP is spoken besides, for those who ask for it.
const HTTP_URL_VARIABLE: &str = "SEQUENCE_STRESS_HTTP_URL";
/// The one that says where that endpoint's metrics are.
pub(super) const METRICS_VARIABLE: &str = "SEQUENCE_STRESS_METRICS";
/// The one that says how the server there is restarted.
const RESTART_VARIABLE: &str = "SEQUENCE_STRESS_RESTART";

/// Whom to stress, and what is known of it.
#[derive(Clone, Debug, Args)]
pub struct EndpointArgs {
    /// Stress the reference server, which is started in this process and stopped at the end
    #[arg(long)]
    pub embedded: bool,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The server's endpoint: HOST:PORT or grpc://HOST:PORT for gRPC, http://HOST:PORT for HTTP, grpcs:// and https:// over TLS; of
    /// several (repeatable, or with commas) workers and their contexts take those of a kind in turn [default: SEQUENCE_STRESS_URL of the environment,
    /// localhost:8001, or the scenario's]
    #[arg(short, long, value_name = "ENDPOINT", value_delimiter = ',')]
    pub url: Vec<Endpoint>,
    /// What every step travels over.
    #[arg(long, value_name = "TRANSPORT", help = transports())]
    pub transport: Option<Transport>,
    /// Where HTTP is spoken, as the environment says.
    #[arg(skip)]
    pub http_from_environment: Option<Endpoint>,
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
    /// Read the server's memory each second, and find memory that grows with the sequences in runs of 80 s and more: the server's
    /// process ID on this machine, or the name of a gauge of its metrics in bytes, such as process_resident_memory_bytes
    #[arg(long, value_name = "PID|GAUGE", conflicts_with = "embedded")]
    pub server_memory: Option<MemorySource>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The model [default: custom_sequence_int32, or the scenario's]
    #[arg(short, long, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// How many sequences can have a slot at a time, where the endpoint does not tell
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub slots: Option<NonZeroU32>,
    /// The model's idle limit, such as 1s, where the endpoint does not tell; with --embedded, the server's [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub idle_limit: Option<Millis>,
    /// The sequence batcher's strategy, where the endpoint does not tell; with --embedded, the server's [default: direct]
    #[arg(long, value_enum, ignore_case = true)]
    pub strategy: Option<Strategy>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// A shell command that ends the server and starts it again at the same address, and returns when that is done; for
    /// scenarios that restart it [default: with the environment's endpoint SEQUENCE_STRESS_RESTART]
    #[arg(long, value_name = "COMMAND", conflicts_with = "embedded")]
    pub restart_command: Option<String>,
    /// What the model computes, where its configuration does not say: running-sum, running-sum-plus-corrid-at-end,
    /// ready-times-input-plus-start or ready-times-input-plus-start-plus-corrid-at-end [default: running-sum]
    #[arg(long, value_name = "FORMULA", conflicts_with = "embedded")]
    pub formula: Option<Formula>,
    /// What a new sequence's state begins with, where the model's configuration does not say [default: 0]
    #[arg(long, value_name = "N", conflicts_with = "embedded", allow_negative_numbers = true)]
    pub initial_state: Option<i64>,
    /// How often a decoupled model answers each request, where its configuration does not say [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "embedded", value_parser = clap::value_parser!(u32).range(1..=i64::from(Answers::MOST)))]
    pub responses: Option<u32>,
    /// What it takes to be let in.
    #[command(flatten)]
    pub access: AccessArgs,
    /// How the embedded server is to be.
    #[command(flatten)]
    pub server: ServerArgs,
}

fn transports() -> String {
    format!(
        "What every step travels over: {}; HTTP needs an http:// endpoint, or {HTTP_URL_VARIABLE} of the environment beside its other \
         endpoint [default: the scenario's, or grpc-stream; http-binary where there is no gRPC endpoint]",
        Transport::listed("")
    )
}

impl EndpointArgs {
    /// Takes in what the environment says, and refuses what does not go together.
    pub(super) fn complete(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.check_embedding(matches.contains_id("reference server"))?;
        self.access.complete()?;
        self.look_into_the_environment()
    }

    /// What the flags say in place of a scenario.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides {
            endpoint: self.endpoints(),
            http: self.http_from_environment.clone(),
            transport: self.transport,
            model: self.model.clone(),
            metrics: self.metrics_url.clone(),
            access: self.access.overrides(),
            ..Overrides::default()
        }
    }

    /// Where the server's memory is read.
    #[must_use]
    pub fn server_memory(&self) -> Option<MemorySource> {
        let of_the_reference = || self.embedded.then(|| MemorySource::Gauge(MEMORY_GAUGE.to_owned()));
        self.server_memory.clone().or_else(of_the_reference)
    }

    /// The endpoints that flags or the environment name.
    #[must_use]
    pub fn endpoints(&self) -> Option<Endpoints> {
        Endpoints::try_from(self.url.clone()).ok()
    }

    /// Takes the endpoint from the environment where no flag names one.
    fn look_into_the_environment(&mut self) -> Result<(), clap::Error> {
        // The environment tells of one server: where a flag names an endpoint, that may be another.
        if !self.url.is_empty() || self.embedded {
            return Ok(());
        }
        let wrong = |variable, problem| {
            Cli::command().error(ErrorKind::ValueValidation, format!("the environment variable {variable}: {problem}"))
        };
        if let (None, Ok(text)) = (&self.metrics_url, env::var(METRICS_VARIABLE)) {
            self.metrics_url = Some(metrics(&text).map_err(|problem| wrong(METRICS_VARIABLE, problem))?);
            self.metrics_from_environment = true;
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

    /// Refuses what the embedded server's model does not have, and returns what does nothing, a sentence each.
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
        self.server.check(model, &[strategy])
    }

    /// Refuses what does not go together with an embedded server, or without one.
    fn check_embedding(&self, configures_server: bool) -> Result<(), clap::Error> {
        let conflict = |text| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        if self.embedded && !self.url.is_empty() {
            return conflict("--embedded starts a server of its own: leave --url out");
        }
        if self.embedded && self.metrics_url.is_some() {
            return conflict("--metrics-url: the embedded server's metrics are known: leave it out with --embedded");
        }
        if self.embedded && !self.access.is_empty() {
            return conflict(
                "--embedded starts a server that anybody may use: leave -H, --ca, --client-cert, --client-key and --server-name out",
            );
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

    /// How the embedded server is to be, for a run with this seed; none where there is none.
    #[must_use]
    pub fn server_setup(&self, seed: Seed) -> Option<ServerSetup> {
        self.embedded.then(|| self.server.setup(&self.with_strategy_and_limit(seed)))
    }

    fn with_strategy_and_limit(&self, seed: Seed) -> ServerSetup {
        let rest = ServerSetup::default();
        ServerSetup {
            strategy: self.strategy.unwrap_or(rest.strategy),
            idle_limit: self.idle_limit.map_or(rest.idle_limit, Millis::duration),
            fault_seed: seed.0,
            ..rest
        }
    }

    /// The flags that say how the embedded server is to be, for a run with the same seed, but for those that do nothing with its faults.
    #[must_use]
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
    #[must_use]
    pub fn hints(&self) -> Hints {
        if self.embedded { Hints::default() } else { self.all_hints() }
    }

    fn all_hints(&self) -> Hints {
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
