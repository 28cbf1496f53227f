//! The flags of `sequence-stress serve`.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::Args;

use super::{
    ServerArgs,
    values::{milliseconds, port},
};
use reference::{Options, ServerSetup, Tls, strategies};
use workload::{model::Strategy, scenario::Millis};

/// The reference server as a process of its own.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Port for gRPC; 0 picks a free port and prints it
    #[arg(long, value_parser = port, value_name = "PORT", default_value_t = 8001)]
    pub grpc_port: u16,
    /// Port for HTTP; 0 picks a free port and prints it
    #[arg(long, value_parser = port, value_name = "PORT", default_value_t = 8000)]
    pub http_port: u16,
    /// Port for metrics; 0 picks a free port and prints it
    #[arg(long, value_parser = port, value_name = "PORT", default_value_t = 8002)]
    pub metrics_port: u16,
    /// Use TLS for gRPC and HTTP with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Require client certificates signed by these CAs (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::from([127, 0, 0, 1]))]
    pub address: IpAddr,
    /// Strategy of the models that have no fixed one
    #[arg(long, value_enum, default_value_t = Strategy::Direct, ignore_case = true)]
    pub strategy: Strategy,
    /// Idle limit of the models, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "1s")]
    pub idle_limit: Millis,
    /// Start without models; clients load them
    #[arg(long)]
    pub explicit: bool,
    /// Serve the models of this repository instead of the built-in ones (repeatable). Each config.pbtxt gives formula, types
    /// and settings; model files are not executed
    #[arg(long, value_name = "DIR", conflicts_with_all = OF_BUILT_IN_MODELS)]
    pub model_repository: Vec<PathBuf>,
    /// The other options.
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

impl ServeArgs {
    /// Rejects options that no model supports, and returns a warning for each option without effect.
    ///
    /// # Errors
    /// The conflict, in one line.
    pub fn check(&self) -> Result<Vec<String>, String> {
        let strategies: Vec<_> = strategies(self.strategy);
        self.server.scheduler.check("each model", &strategies)
    }

    /// The options of the server.
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
