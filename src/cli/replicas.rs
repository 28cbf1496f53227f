//! The flags for several servers, and for a load balancer before them.

use clap::Args;

use workload::{
    endpoint::{Endpoint, Endpoints},
    header::HeaderName,
    scenario::ReplicaOverrides,
};

/// Several servers.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Several servers")]
pub struct ReplicaArgs {
    /// The servers that ENDPOINT, a load balancer, leads to: one endpoint for each
    ///
    /// The tool adds up their counts and slots. Without ENDPOINT, the servers share the load, and a sequence stays on its server.
    #[arg(long, value_name = "ENDPOINT", value_delimiter = ',', conflicts_with = "embedded")]
    pub replicas: Vec<Endpoint>,
    /// Send the correlation ID in this header, too, so that a load balancer can route by it
    ///
    /// Each call carries the header, and each gRPC stream.
    #[arg(long, value_name = "NAME", conflicts_with = "embedded")]
    pub sequence_header: Option<HeaderName>,
    /// Header of responses that names the server which gave the response
    ///
    /// A load balancer can add it. With it, the tool names a sequence that was on two servers.
    #[arg(long, value_name = "NAME", conflicts_with = "embedded")]
    pub server_header: Option<HeaderName>,
}

impl ReplicaArgs {
    /// What the flags say in place of a scenario.
    pub fn overrides(&self) -> ReplicaOverrides {
        let Self { replicas, sequence_header, server_header } = self.clone();
        ReplicaOverrides { replicas: Endpoints::try_from(replicas).ok(), sequence_header, server_header }
    }
}
