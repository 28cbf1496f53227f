//! The metrics page, as Prometheus reads it.

use std::fmt::Write as _;

use hyper::{Method, Request, StatusCode, body::Incoming, header::HeaderValue};

use super::{
    repository::Repository,
    statistics::Statistics,
    web::{Answered, answered},
};

pub(super) struct Metrics {
    pub(super) counts: Statistics,
    pub(super) pending: u64,
    pub(super) memory: u64,
}

/// What a counter counts, and how a model's value is found.
type Row = (&'static str, &'static str, &'static str, fn(&Metrics) -> u64);

/// The gauge of the memory that models hold.
pub const MEMORY_GAUGE: &str = "sequence_stress_memory_bytes";

const ROWS: [Row; 10] = [
    ("nv_inference_request_success", "counter", "Requests that succeeded", |of| of.counts.success.count),
    ("nv_inference_count", "counter", "Inferences that were executed", |of| of.counts.success.count),
    ("nv_inference_exec_count", "counter", "Executions of the model, of a batch each", |of| of.counts.executions),
    ("nv_inference_request_duration_us", "counter", "How long requests took, in microseconds", |of| {
        of.counts.success.us()
    }),
    ("nv_inference_queue_duration_us", "counter", "How long requests waited, in microseconds", |of| {
        of.counts.queue.us()
    }),
    ("nv_inference_compute_input_duration_us", "counter", "How long inputs took, in microseconds", |_| 0),
    ("nv_inference_compute_infer_duration_us", "counter", "How long executing took, in microseconds", |of| {
        of.counts.compute.us()
    }),
    ("nv_inference_compute_output_duration_us", "counter", "How long outputs took, in microseconds", |_| 0),
    ("nv_inference_pending_request_count", "gauge", "Requests that wait to be executed", |of| of.pending),
    (MEMORY_GAUGE, "gauge", "Bytes that the model keeps for sequences that were begun and requests that wait", |of| {
        of.memory
    }),
];
const FAILURES: &str = "nv_inference_request_failure";

/// Answers a request to the metrics' port: at any other path there is nothing, as with the real server.
pub(super) fn answer(repository: &Repository, request: &Request<Incoming>) -> Answered {
    let (status, page) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, page(repository)),
        (&Method::GET, _) => (StatusCode::OK, String::new()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "{\"error\":\"Method Not Allowed\"}".to_owned()),
    };
    answered(status, HeaderValue::from_static("text/plain; charset=utf-8"), page)
}

fn page(repository: &Repository) -> String {
    let models: Vec<_> = repository
        .counting("", "")
        .unwrap_or_default()
        .iter()
        .map(|served| {
            let model = served.name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            (model, served.version, served.metrics())
        })
        .collect();
    let mut page = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| writeln!(page, "{line}").expect("writing to a text does not fail");
    for (name, kind, what, value) in ROWS {
        line(format_args!("# HELP {name} {what}\n# TYPE {name} {kind}"));
        for (model, version, metrics) in &models {
            line(format_args!("{name}{{model=\"{model}\",version=\"{version}\"}} {}", value(metrics)));
        }
    }
    line(format_args!("# HELP {FAILURES} Requests that failed\n# TYPE {FAILURES} counter"));
    for (model, version, metrics) in &models {
        for (reason, count) in metrics.counts.failures() {
            line(format_args!("{FAILURES}{{model=\"{model}\",reason=\"{reason}\",version=\"{version}\"}} {count}"));
        }
    }
    page
}
