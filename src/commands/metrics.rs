//! Hands the metrics of runs to others.

use std::{net::SocketAddr, time::Duration};

use super::{Failure as CommandFailure, output::say_error, runtime, signals::Signals};
#[cfg(feature = "otlp")]
use crate::metrics::Otlp;
use crate::{
    cli::MetricsArgs,
    metrics::{Exporter, Metrics, Watching},
    run::{Observer, RunError, RunResult, Setup, run},
};
use tokio::sync::mpsc;

/// What is said where a flag needs another build.
const NO_OTLP: &str =
    "this build has no OTLP (--otlp): build one with `cargo install --locked --path . --features otlp`";

/// The metrics of a command, where somebody asks for them, and who serves them.
pub(super) struct Exported {
    metrics: Option<Metrics>,
    exporter: Option<Exporter>,
    #[cfg(feature = "otlp")]
    otlp: Option<Otlp>,
    linger: Duration,
}

impl Exported {
    /// Begins to serve the metrics, where that is asked for.
    pub(super) fn start(args: &MetricsArgs) -> Result<Self, CommandFailure> {
        if args.otlp && !cfg!(feature = "otlp") {
            return Err(CommandFailure::wrong_input(NO_OTLP));
        }
        let metrics = (args.otlp || args.metrics_listen.is_some()).then(Metrics::default);
        let exporter = args.metrics_listen.zip(metrics.as_ref());
        let exporter = exporter.map(|(address, metrics)| listen(address, metrics)).transpose()?;
        #[cfg(feature = "otlp")]
        let otlp = metrics.as_ref().filter(|_| args.otlp).map(Otlp::start).transpose();
        Ok(Self {
            #[cfg(feature = "otlp")]
            otlp: otlp.map_err(CommandFailure::wrong_input)?,
            exporter,
            metrics,
            linger: args.metrics_linger.unwrap_or_default(),
        })
    }

    /// Where runs tell what they count.
    pub(super) fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_ref()
    }

    /// Ends when the last metrics were fetched, or nobody is to wait any longer for that.
    pub(super) fn finish(self) {
        #[cfg(feature = "otlp")]
        self.otlp.into_iter().for_each(Otlp::finish);
        if let Some(note) = self.metrics.as_ref().and_then(Metrics::take_note) {
            say_error(&note);
        }
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

/// A run that tells these metrics, where there are such, what it counts.
pub(super) async fn metered(
    metrics: Option<&Metrics>,
    name: &str,
    setup: Setup,
    observer: &mut dyn Observer,
    interrupts: mpsc::Receiver<()>,
) -> Result<RunResult, RunError> {
    let setup = Setup { so_far: Watching::asks(metrics, name, setup.so_far), ..setup };
    let (scenario, seed) = (setup.scenario.clone(), setup.seed);
    let mut watching = Watching::begin(metrics, (name, &scenario, seed), observer);
    let ended = Box::pin(run(setup, &mut watching, interrupts)).await;
    watching.ended(&ended);
    ended
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
