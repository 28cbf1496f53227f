//! Sends the metrics to a collector of OpenTelemetry, and a trace of each sequence with a violation.

mod traces;

use std::{
    collections::HashMap,
    env,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel},
    },
    thread,
    time::Duration,
};

use opentelemetry::{
    Key, KeyValue,
    metrics::{AsyncInstrument, Histogram, Meter, MeterProvider as _},
    trace::TracerProvider as _,
};
use opentelemetry_otlp::{MetricExporter, RetryPolicy, SpanExporter, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{PeriodicReader, SdkMeterProvider, Temporality, data::ResourceMetrics, exporter::PushMetricExporter},
    trace::{SdkTracerProvider, SpanData, SpanExporter as ExportSpans},
};
use tokio::runtime::{self, Handle, Runtime};

use self::traces::{Told, Traces};
use super::{
    Metrics,
    families::{Family, Labels, PREFIX, Points, Unit, families},
};
use crate::recorder::{Distribution, bounds_us};

/// How often metrics are sent where no variable says it.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often times are handed to the histograms.
const LOOK: Duration = Duration::from_secs(1);
/// How many sequences may wait to become traces; further ones are left out.
const SEQUENCES_MAX: usize = 256;
/// How long the last metrics and traces may take when no run comes any more.
const LAST: Duration = Duration::from_secs(5);
/// What says how the collector is called.
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// What says how often metrics are sent.
const EVERY: &str = "OTEL_METRIC_EXPORT_INTERVAL";

/// Sends what the metrics have, until it is finished.
pub(crate) struct Otlp {
    metrics: Metrics,
    /// The only sender of sequences. When it is dropped, the thread sends what waits, and ends.
    sequences: Arc<SyncSender<Told>>,
    ended: Receiver<()>,
}

impl Otlp {
    /// Begins to send. A collector that is not there is told once, and nobody waits for it.
    ///
    /// # Errors
    /// When the variables of OpenTelemetry say what cannot be done.
    pub(crate) fn start(metrics: &Metrics) -> Result<Self, String> {
        if let Some(protocol) = env::var(PROTOCOL).ok().filter(|its| !its.is_empty() && its != "grpc") {
            return Err(format!(
                "{PROTOCOL} is '{protocol}', and --otlp sends gRPC alone: set it to grpc, or unset it"
            ));
        }
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).thread_name("otlp").enable_all().build();
        let runtime = runtime.map_err(|error| format!("OTLP cannot be sent: {error}"))?;
        let (meters, tracers) = providers(&runtime, metrics)?;
        let sender = Sender {
            histograms: register(&meters.meter(PREFIX), metrics),
            sent: HashMap::new(),
            traces: Traces::new(tracers.tracer(PREFIX)),
            metrics: metrics.clone(),
        };
        let (sequences, told) = queue(metrics);
        let (done, ended) = channel();
        let thread = thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            sender.send_until_over(&told);
            // What went wrong was noted.
            let _ = tracers.shutdown_with_timeout(LAST);
            let _ = meters.shutdown_with_timeout(LAST);
            runtime.shutdown_background();
            let _ = done.send(());
        });
        thread.map_err(|error| format!("OTLP cannot be sent: {error}"))?;
        Ok(Self { metrics: metrics.clone(), sequences, ended })
    }

    /// Sends the last metrics and traces, if the collector takes them soon.
    pub(crate) fn finish(self) {
        let Self { metrics, sequences, ended } = self;
        // A message could find the queue full.
        drop(sequences);
        if ended.recv_timeout(LAST).is_err() {
            metrics.note(format!("the collector did not take the last metrics and traces in {} s", LAST.as_secs()));
        }
    }
}

/// The queue of the sequences with a violation. The metrics fill it until its sender is dropped.
fn queue(metrics: &Metrics) -> (Arc<SyncSender<Told>>, Receiver<Told>) {
    let (sequences, told) = sync_channel(SEQUENCES_MAX);
    let sequences = Arc::new(sequences);
    let violating = Arc::downgrade(&sequences);
    metrics.tell_sequences(move |scenario, violation, entries| {
        let Some(violating) = violating.upgrade() else { return };
        // One that does not fit is left out.
        let _ = violating.try_send(Told { scenario: scenario.to_owned(), violation: violation.clone(), entries });
    });
    (sequences, told)
}

/// What makes metrics, and what makes traces.
fn providers(runtime: &Runtime, metrics: &Metrics) -> Result<(SdkMeterProvider, SdkTracerProvider), String> {
    let _inside = runtime.enter();
    let cannot = |error: opentelemetry_otlp::ExporterBuildError| {
        format!("OTLP cannot be sent: {error}; correct the variables OTEL_EXPORTER_OTLP_…")
    };
    // What is sent next tells the same and more.
    let exporter = MetricExporter::builder().with_tonic().with_retry_policy(RetryPolicy::disabled()).build();
    let noting = |inner| Noting { inner, handle: runtime.handle().clone(), metrics: metrics.clone() };
    let mut reader = PeriodicReader::builder(noting(exporter.map_err(cannot)?));
    if env::var_os(EVERY).is_none() {
        reader = reader.with_interval(INTERVAL);
    }
    let meters = SdkMeterProvider::builder().with_reader(reader.build()).with_resource(resource()).build();
    let exporter = SpanExporter::builder().with_tonic().with_retry_policy(RetryPolicy::disabled()).build();
    let noting =
        Noting { inner: exporter.map_err(cannot)?, handle: runtime.handle().clone(), metrics: metrics.clone() };
    let tracers = SdkTracerProvider::builder().with_batch_exporter(noting).with_resource(resource()).build();
    Ok((meters, tracers))
}

/// Who sends: the variables of OpenTelemetry say it, or it has the name of this program.
fn resource() -> Resource {
    let told = Resource::builder().build();
    let name = told.get(&Key::from_static_str("service.name")).map(|name| name.to_string()).unwrap_or_default();
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    if name.is_empty() || name.starts_with("unknown_service") {
        builder.with_service_name("sequence-stress").build()
    } else {
        builder.build()
    }
}

/// Sends, and notes the first failure.
#[derive(Debug)]
struct Noting<E> {
    inner: E,
    handle: Handle,
    metrics: Metrics,
}

impl<E> Noting<E> {
    fn note(&self, result: OTelSdkResult) -> OTelSdkResult {
        if let Err(error) = &result {
            let why = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            self.metrics
                .note(format!("the collector (--otlp) does not take metrics or traces: {why}; the run goes on"));
        }
        result
    }
}

impl PushMetricExporter for Noting<MetricExporter> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        // A thread of the library waits for this, and has no runtime of its own.
        let result = self.handle.block_on(self.inner.export(metrics));
        self.note(result)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

impl ExportSpans for Noting<SpanExporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.handle.block_on(self.inner.export(batch));
        self.note(result)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Registers each family. Returns the histograms, whose times are to be handed over.
fn register(meter: &Meter, metrics: &Metrics) -> HashMap<&'static str, Histogram<f64>> {
    let mut histograms = HashMap::new();
    for Family { name: family, help, unit, points } in families(&metrics.values()) {
        let unit = match unit {
            Some(Unit::Seconds) => "s",
            Some(Unit::Bytes) => "By",
            None => "1",
        };
        let name = format!("{PREFIX}.{family}");
        let metrics = metrics.clone();
        match points {
            Points::Counter(_) => {
                let counter = meter.f64_observable_counter(name).with_description(help).with_unit(unit);
                counter.with_callback(move |instrument| observe(&metrics, family, instrument)).build();
            }
            Points::Gauge(_) => {
                let gauge = meter.f64_observable_gauge(name).with_description(help).with_unit(unit);
                gauge.with_callback(move |instrument| observe(&metrics, family, instrument)).build();
            }
            Points::Info(_) => {
                let gauge = meter.f64_observable_gauge(format!("{name}_info")).with_description(help).with_unit(unit);
                gauge.with_callback(move |instrument| observe(&metrics, family, instrument)).build();
            }
            Points::Histogram(_) => {
                let bounds = bounds_us().map(in_seconds).collect();
                let histogram = meter.f64_histogram(name).with_description(help).with_unit(unit);
                histograms.insert(family, histogram.with_boundaries(bounds).build());
            }
        }
    }
    histograms
}

fn observe(metrics: &Metrics, family: &str, instrument: &dyn AsyncInstrument<f64>) {
    let points = families(&metrics.values()).into_iter().find(|its| its.name == family).map(|its| its.points);
    match points {
        Some(Points::Counter(points) | Points::Gauge(points)) => {
            for (labels, value) in points {
                instrument.observe(value, &attributes(labels));
            }
        }
        Some(Points::Info(points)) => {
            for labels in points {
                instrument.observe(1.0, &attributes(labels));
            }
        }
        Some(Points::Histogram(_)) | None => {}
    }
}

fn attributes(labels: Labels) -> Vec<KeyValue> {
    labels.into_iter().map(|(name, value)| KeyValue::new(name, value)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "it is exact up to 285 years")]
fn in_seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// What hands over what is not asked for.
struct Sender {
    metrics: Metrics,
    histograms: HashMap<&'static str, Histogram<f64>>,
    /// What was handed over of each histogram.
    sent: HashMap<(&'static str, Labels), Distribution>,
    traces: Traces,
}

impl Sender {
    fn send_until_over(mut self, told: &Receiver<Told>) {
        loop {
            match told.recv_timeout(LOOK) {
                Ok(told) => self.traces.take(told),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look(false);
        }
        self.look(true);
    }

    fn look(&mut self, is_over: bool) {
        let values = self.metrics.values();
        for family in families(&values) {
            let (Points::Histogram(points), Some(histogram)) = (family.points, self.histograms.get(family.name)) else {
                continue;
            };
            for (labels, now) in points {
                let before = self.sent.entry((family.name, labels.clone())).or_default();
                let attributes = attributes(labels);
                for (us, count) in now.since(before) {
                    (0..count).for_each(|_| histogram.record(in_seconds(us), &attributes));
                }
                *before = now;
            }
        }
        self.traces.send(&values, is_over);
    }
}

#[cfg(test)]
mod tests;
