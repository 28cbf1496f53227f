//! Hands the metrics of runs to others.

use std::{net::SocketAddr, time::Duration};

use super::{Failure as CommandFailure, output::say_error, runtime, signals::Signals};
use crate::{
    cli::MetricsArgs,
    metrics::{Exporter, Metrics},
};

/// The metrics of a command, where somebody asks for them, and who serves them.
pub(super) struct Exported {
    metrics: Option<Metrics>,
    exporter: Option<Exporter>,
    linger: Duration,
}

impl Exported {
    /// Begins to serve the metrics, where that is asked for.
    pub(super) fn start(args: &MetricsArgs) -> Result<Self, CommandFailure> {
        let metrics = args.metrics_listen.is_some().then(Metrics::default);
        let exporter = args.metrics_listen.zip(metrics.as_ref());
        let exporter = exporter.map(|(address, metrics)| listen(address, metrics)).transpose()?;
        Ok(Self { metrics, exporter, linger: args.metrics_linger.unwrap_or_default() })
    }

    /// Where runs tell what they count.
    pub(super) fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_ref()
    }

    /// Ends when the last metrics were fetched, or nobody is to wait any longer for that.
    pub(super) fn finish(self) {
        let Some(mut exporter) = self.exporter else { return };
        // What takes no signals waits for nobody.
        let Ok(runtime) = runtime() else { return };
        runtime.block_on(async {
            let signalled = async {
                match Signals::new() {
                    Ok(mut signals) => signals.recv().await,
                    Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                () = exporter.linger(self.linger) => {}
                () = signalled => {}
            }
        });
    }
}

fn listen(address: SocketAddr, metrics: &Metrics) -> Result<Exporter, CommandFailure> {
    let exporter = Exporter::start(address, metrics).map_err(|error| {
        CommandFailure::wrong_input(format!(
            "cannot serve metrics at {address} (--metrics-listen): {error}; name another address, or :0 for any free port"
        ))
    })?;
    say_error(&format!("metrics at http://{}/metrics", exporter.address));
    Ok(exporter)
}
