//! `--otlp` where the collector is not there, or does not answer.

use std::{net::TcpListener, thread};

use crate::support::tool::{text, tool, unwrapped};

const SCENARIO: &str = "tests/support/claims-nothing.toml";

/// What the tool says where the collector is at this address.
fn told(endpoint: &str, more: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = tool();
    command.args(["--embedded", "-r7", "-t2", "-i40", "--scenario", SCENARIO, "--otlp"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let output = command.envs(more.iter().copied()).output().expect("it runs");
    (output.status.code(), text(&output))
}

#[test]
fn a_collector_that_is_away_is_told_once_and_the_run_goes_on() {
    // Nobody listens at a port that was just free.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let (code, said) = told(&format!("http://{free}"), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(unwrapped(&said).contains("VALID: "), "{said}");
    assert_eq!(said.matches("the collector (--otlp) does not take metrics or traces: ").count(), 1, "{said}");
}

#[test]
fn a_collector_that_is_silent_does_not_hold_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // It accepts connections, and says nothing.
    thread::spawn(move || listener.incoming().flatten().collect::<Vec<_>>());
    let (code, said) = told(&format!("http://{address}"), &[("OTEL_EXPORTER_OTLP_TIMEOUT", "500")]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("the collector")).count(), 1, "{said}");
}

#[test]
fn variables_that_cannot_be_had_are_told_before_anything_is_sent() {
    for (endpoint, more, why) in [
        ("http://127.0.0.1:1", [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], "--otlp sends gRPC alone"),
        ("not an address", [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "correct the variables OTEL_EXPORTER_OTLP_"),
    ] {
        let (code, said) = told(endpoint, &more);
        assert!(code == Some(2) && said.contains(why) && said.trim().lines().count() == 1, "{said}");
    }
}
