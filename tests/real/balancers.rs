//! Real servers behind `HAProxy` and nginx, with the configurations of `examples/balancers`.

use std::net::SocketAddr;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    balancer::Balancer,
    tool::{text, tool},
    triton::Triton,
};

const MODEL: &str = "custom_sequence_int32";
/// A pause of a sequence is 60 % of it, which a busy machine keeps.
const OPTIONS: [&str; 4] = ["--shape", "2x4", "--idle-limit-ms", "1000"];
const TRANSPORTS: [&str; 3] = ["grpc-stream", "grpc-unary", "http-binary"];

fn addresses(server: &Triton) -> [SocketAddr; 2] {
    [&server.grpc, &server.http].map(|address| address.parse().expect("an address"))
}

/// What the scenario shows of the servers behind a balancer, as JSON.
fn stress(balancer: &Balancer, servers: &[Triton; 2], transport: &str) -> Value {
    let folder = TempDir::new().expect("a folder");
    let json = folder.path().join("result.json");
    let endpoint =
        if transport.starts_with("http") { format!("http://{}", balancer.http) } else { balancer.grpc.to_string() };
    let replicas = servers.each_ref().map(|server| server.grpc.as_str()).join(",");
    let headers = ["--sequence-header", "x-sequence-id", "--server-header", "x-served-by"];
    let mut command = tool();
    command.args(["-q", "-m", MODEL, "-r", "1", "--scenario", "affinity", "--transport", transport]);
    command.args(["-u", &endpoint, "--replicas", &replicas]).args(headers).arg("--json").arg(&json);
    let output = command.output().expect("it runs");
    let written = std::fs::read(&json).unwrap_or_else(|error| panic!("{transport}: {error}\n{}", text(&output)));
    serde_json::from_slice(&written).expect("JSON")
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn real_servers_behind_balancers_keep_or_lose_sequences_as_the_configuration_has_it() {
    let servers = [Triton::start(&OPTIONS), Triton::start(&OPTIONS)];
    let right = ["haproxy-hash.cfg", "haproxy-stick.cfg", "nginx-hash.conf"].map(|name| (name, true));
    let wrong = ["haproxy-round-robin.cfg", "nginx-round-robin.conf"].map(|name| (name, false));
    // They share the servers, and nobody else may use these during a run.
    for (configuration, is_right) in right.into_iter().chain(wrong) {
        let balancer = Balancer::start(configuration, servers.each_ref().map(addresses), &[]);
        for transport in TRANSPORTS {
            let result = stress(&balancer, &servers, transport);
            let seen =
                format!("{configuration} {transport}: {:#} {:#}", result["violations_by_kind"], result["doubts"]);
            if is_right {
                assert_eq!(result["verdict"], "valid", "{seen} {:#}", result["violations"][0]);
                assert_eq!(result["server_counts"]["result"], "agrees", "{seen}");
                assert_eq!(result["slots_check"]["slots"], 16, "{seen}");
            } else {
                assert_eq!(result["verdict"], "invalid", "{seen}");
                assert!(result["violations_by_kind"]["sequence-split"].as_u64() > Some(0), "{seen}");
            }
        }
    }
}
