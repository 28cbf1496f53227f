//! The flags of metrics for systems that watch a run.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::Args;

use super::values::{listen, time};

/// Where others get the metrics of runs that go on.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus at ADDR while the run goes on, such as 127.0.0.1:9464 or :9464
    ///
    /// The page is /metrics. :PORT is a port of 127.0.0.1. With port 0 the tool takes a free port and prints the address.
    #[arg(long, value_name = "ADDR", value_parser = listen)]
    pub metrics_listen: Option<SocketAddr>,
    /// With --metrics-listen: after the run, wait up to this long until the final metrics were fetched [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "metrics_listen")]
    pub metrics_linger: Option<Duration>,
    /// Send the metrics, and a trace of each sequence with a violation, to an OTLP collector
    ///
    /// Needs a build with the feature otlp. The variable `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector, which takes OTLP over gRPC
    /// [default: `http://localhost:4317`].
    #[arg(long)]
    pub otlp: bool,
}

impl MetricsArgs {
    /// The address of a port that only this machine reaches.
    pub(super) fn local(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }
}
