//! The metrics page.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use reference::{Fault, Planted};
use serde_json::json;

use super::{ask, http::LIMIT, infer, step, sum, with_faults};

/// A model's value on the page; `labels` are those before the version.
fn value(address: SocketAddr, name: &str, labels: &str) -> u64 {
    let page = ask(address, "GET", "/metrics", &[], b"");
    assert_eq!((page.status, page.kind()), (200, "text/plain; charset=utf-8"));
    let line = format!("{name}{{model=\"custom_sequence_int32\",{labels}version=\"1\"}} ");
    let page = page.text();
    let found = page.lines().find_map(|told| told.strip_prefix(&line));
    found.unwrap_or_else(|| panic!("no {line} in {page}")).parse().expect("a number")
}

fn failures(address: SocketAddr, reason: &str) -> u64 {
    value(address, "nv_inference_request_failure", &format!("reason=\"{reason}\","))
}

/// The requests of a model that wait for an execution.
pub(super) const PENDING: &str = "nv_inference_pending_request_count";

/// Waits until a value is told.
pub(super) fn wait(address: SocketAddr, name: &str, expected: u64) {
    let began = Instant::now();
    while value(address, name, "") != expected {
        assert!(began.elapsed() < LIMIT, "{name} does not become {expected}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_are_counted_and_those_that_wait() {
    let server = with_faults(&[Planted::once(Fault::ModelError, 6)]);
    let (http, metrics) = (server.http, server.metrics);
    for id in 1..5 {
        assert_eq!(sum(http, &step(id, "S", 1)), 1);
    }
    assert_eq!(value(metrics, "nv_inference_request_success", ""), 4);
    assert_eq!(value(metrics, "nv_inference_count", ""), 4);
    assert_eq!(value(metrics, "nv_inference_exec_count", ""), 4);
    let took = value(metrics, "nv_inference_request_duration_us", "");
    assert!(took >= value(metrics, "nv_inference_compute_infer_duration_us", ""), "{took}");
    assert_eq!(value(metrics, PENDING, ""), 0);

    // A rejection at once is in none of the counts.
    assert_eq!(infer(http, &step(99, "", 1)).status, 400);
    assert_eq!(["CANCELED", "BACKEND", "OTHER", "REJECTED"].map(|reason| failures(metrics, reason)), [0; 4]);

    let mut late = step(5, "S", 1);
    late["parameters"]["timeout"] = json!(10_000);
    assert_eq!(infer(http, &late).status, 503);
    assert_eq!(failures(metrics, "REJECTED"), 1);

    thread::scope(|scope| {
        let waiting = scope.spawn(|| infer(http, &step(6, "SE", 1)).status);
        wait(metrics, PENDING, 1);
        assert_eq!(sum(http, &step(1, "E", 1)), 2);
        assert_eq!(waiting.join().expect("an answer"), 500);
    });
    assert_eq!((failures(metrics, "BACKEND"), value(metrics, PENDING, "")), (1, 0));
}

#[test]
fn elsewhere_there_is_nothing() {
    let server = with_faults(&[]);
    let other = ask(server.metrics, "GET", "/", &[], b"");
    assert_eq!((other.status, other.body.len()), (200, 0));
    let posted = ask(server.metrics, "POST", "/metrics", &[], b"");
    assert_eq!((posted.status, posted.error().as_str()), (405, "Method Not Allowed"));
}
