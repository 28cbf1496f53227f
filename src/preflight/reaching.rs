//! Whether an inference server is there at all, and what to say if it is not.

use std::time::Duration;

use super::parts::is_missing;
use wire::transport::{CallError, Client, speaks_tls};
use workload::{
    endpoint::{Endpoint, Scheme},
    scenario::Scenario,
};

/// How long the tool waits for the answer to a TLS handshake where a call failed.
const HANDSHAKE: Duration = Duration::from_millis(500);

/// Why the server does not say how it is, if it does not. An error says in one line why there is no server to test.
pub(super) async fn check_server(client: &Client, scenario: &Scenario) -> Result<Option<CallError>, String> {
    let live = said(client.server_live().await, "live", scenario).await?;
    let ready = said(client.server_ready().await, "ready: wait until its models are loaded", scenario).await?;
    Ok(ready.or(live))
}

/// Why the server did not answer a question about itself, if it does not have that call.
async fn said(answer: Result<bool, CallError>, what: &str, scenario: &Scenario) -> Result<Option<CallError>, String> {
    match answer {
        Ok(true) => Ok(None),
        Ok(false) => Err(format!("the server says that it is not {what}")),
        // A call that a server does not have, or not for everybody, shows that the server lives.
        Err(error) if is_missing(&error) => Ok(Some(error)),
        Err(error) => Err(why_not(&error, scenario).await),
    }
}

/// What is there, where a call failed, and what to do.
async fn why_not(error: &CallError, scenario: &Scenario) -> String {
    let endpoint = scenario.target.endpoint.for_calls();
    let limit = scenario.limits.connect_ms.duration().min(HANDSHAKE);
    let is_there = !matches!(error, CallError::Unreachable(_));
    if !endpoint.scheme.is_secured() && is_there && speaks_tls(endpoint, limit).await {
        let secured = if endpoint.scheme.is_grpc() { Scheme::Grpcs } else { Scheme::Https };
        let secured = endpoint.clone().speaking(secured);
        return format!("the endpoint speaks TLS: use {secured} (with --ca FILE, if you have a CA of your own)");
    }
    match error {
        CallError::NotThisProtocol(_) => format!("{error}; {}", other_port(endpoint)),
        CallError::TimedOut(_) => {
            format!("{error}: something listens there, and answers nobody; {}", other_port(endpoint))
        }
        _ => error.to_string(),
    }
}

fn other_port(endpoint: &Endpoint) -> String {
    let other = endpoint.clone().speaking(if endpoint.scheme.is_grpc() { Scheme::Http } else { Scheme::Grpc });
    if endpoint.scheme.is_grpc() {
        format!("Triton's gRPC port is 8001, and 8002 has only metrics; for HTTP use {other}")
    } else {
        format!("Triton's HTTP port is 8000; for gRPC use {other}")
    }
}

/// What is said of a server that knows none of the protocol's calls.
pub(super) fn no_inference_server(scenario: &Scenario) -> String {
    let endpoint = scenario.target.endpoint.for_calls();
    format!(
        "a server answers there and is no inference server: it has neither health nor models; {}",
        other_port(endpoint)
    )
}
