//! `HAProxy` and nginx, with the configurations of docs/BALANCERS.md, in front of two servers.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use oracle::{Evidence, ViolationKind, diagnosis::Cause};
use reference::{ModelOptions, Server};
use sequence_stress::{
    probe::{Accounting, SlotFinding},
    run::{Observer, Progress, RunResult, Setup, run},
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use workload::{
    conversation::Transport,
    endpoint::{Endpoint, Endpoints, Scheme},
    header::HeaderName,
    scenario::{BUILTIN, Overrides, ReplicaOverrides, Scenario, Source},
    seed::Seed,
};

use crate::support::{
    balancer::Balancer,
    long::rounds,
    runs::{block_on, reference_server, run_alone},
    side_by_side,
};

use Transport::{GrpcStream, GrpcUnary, HttpBinary};

/// The most balancers at a time.
const AT_A_TIME: usize = 3;
const SLOTS: u32 = 8;

fn server() -> Server {
    reference_server(
        ModelOptions {
            instances: 2,
            max_batch_size: 4,
            idle_limit: Duration::from_millis(500),
            execution: Duration::ZERO,
            ..ModelOptions::default()
        },
        &[],
    )
}

fn addresses(server: &Server) -> [SocketAddr; 2] {
    [server.address, server.http]
}

fn http(address: SocketAddr) -> Endpoint {
    Endpoint::from(address).speaking(Scheme::Http)
}

fn name(text: &str) -> HeaderName {
    text.parse().expect("a name")
}

/// A built-in scenario for these endpoints, over one transport.
fn scenario(name: &str, endpoint: Option<Endpoints>, transport: Transport, replicas: ReplicaOverrides) -> Scenario {
    let builtin = BUILTIN.iter().find(|builtin| builtin.name == name).expect("it is built in");
    let overrides = Overrides { endpoint, transport: Some(transport), replicas, ..Overrides::default() };
    Scenario::resolve(&Source::from_text(name, builtin.text), overrides).expect("a scenario")
}

/// What two servers behind a balancer with this configuration show.
fn behind(configuration: &str, transport: Transport, server_header: Option<HeaderName>, seed: u64) -> RunResult {
    let servers = [server(), server()];
    let balancer = Balancer::start(configuration, servers.each_ref().map(addresses), &[]);
    let endpoint = if transport.is_http() { http(balancer.http) } else { balancer.grpc.into() };
    let replicas = servers.each_ref().map(|server| Endpoint::from(server.address)).to_vec();
    let replicas = ReplicaOverrides {
        replicas: Endpoints::try_from(replicas).ok(),
        sequence_header: Some(name("x-sequence-id")),
        server_header,
    };
    let scenario = scenario("affinity", Some(endpoint.into()), transport, replicas);
    run_alone(Setup::new(scenario, Seed(seed))).expect("the servers can be tested")
}

#[test]
fn a_balancer_that_keeps_sequences_together_is_valid() {
    let configurations = ["haproxy-hash.cfg", "haproxy-stick.cfg", "nginx-hash.conf"];
    let transports = [GrpcStream, GrpcUnary, HttpBinary];
    let rows: Vec<_> = configurations.into_iter().flat_map(|its| transports.map(|by| (its, by))).collect();
    side_by_side(AT_A_TIME, &rows, |&(configuration, transport)| {
        for seed in 1..=rounds(1, 10) {
            let result = behind(configuration, transport, Some(name("x-served-by")), seed);
            let seen = format!("{configuration} {transport} {seed}");
            assert_eq!(result.violations, [], "{seen}");
            assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{seen}: {:?}", result.accounting);
            assert_eq!(result.slots.finding, SlotFinding::AllThere { slots: 2 * SLOTS }, "{seen}");
        }
    });
}

#[test]
fn a_balancer_that_splits_sequences_is_found_and_the_servers_are_named() {
    let configurations = ["haproxy-round-robin.cfg", "nginx-round-robin.conf"];
    let transports = [GrpcStream, GrpcUnary, HttpBinary];
    let rows: Vec<_> = configurations.into_iter().flat_map(|its| transports.map(|by| (its, by))).collect();
    side_by_side(AT_A_TIME, &rows, |&(configuration, transport)| {
        let result = behind(configuration, transport, Some(name("x-served-by")), 1);
        let seen = format!("{configuration} {transport}: {:?}", result.tally.violations);
        assert_eq!(result.tally.violations.keys().collect::<Vec<_>>(), [&ViolationKind::SequenceSplit], "{seen}");
        for violation in &result.violations {
            let Evidence::Split { expected, first, last, seen: other } = &violation.evidence else {
                panic!("{violation:?}")
            };
            let step = violation.request().expect("a request").step + 1;
            assert!(expected != other && first <= last && *last != step, "{violation:?}");
        }
        let explained = result.violations[0].explanations.first().map(|its| its.cause);
        assert_eq!(explained, Some(Cause::SequenceSplit), "{seen}");
    });
}

/// No header tells the server, because the balancer sees only connections.
#[test]
fn a_balancer_of_connections_splits_what_goes_on_over_another_one() {
    for (configuration, transport) in [("haproxy-connection.cfg", GrpcStream), ("haproxy-round-robin.cfg", GrpcUnary)] {
        let result = behind(configuration, transport, None, 1);
        let rejected = result.violations.iter().find(|its| its.kind == ViolationKind::SpuriousStartError);
        let causes: Vec<_> = rejected.expect("a rejection").explanations.iter().map(|its| its.cause).collect();
        assert_eq!(causes.first(), Some(&Cause::SequenceSplit), "{configuration} {causes:?}");
        assert!(!result.tally.violations.contains_key(&ViolationKind::SequenceSplit), "nothing tells it for certain");
    }
}

/// The scenario is as it is for one server, so that sequences stay on their connections.
#[test]
fn a_balancer_of_connections_is_valid_for_sequences_that_stay_on_one() {
    let servers = [server(), server()];
    let balancer = Balancer::start("haproxy-connection.cfg", servers.each_ref().map(addresses), &[]);
    let replicas = servers.each_ref().map(|server| Endpoint::from(server.address)).to_vec();
    let replicas = ReplicaOverrides { replicas: Endpoints::try_from(replicas).ok(), ..ReplicaOverrides::default() };
    let scenario = scenario("rapid-cycling", Some(balancer.grpc.into()), GrpcStream, replicas);
    let result = run_alone(Setup::new(scenario, Seed(1))).expect("the servers can be tested");
    assert_eq!(result.violations, []);
    assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{:?}", result.accounting);
}

/// One long sequence for each worker, each step a call. It ends by an interrupt, or at the first violation.
const LONG: &str = "
load = { workers = 8, iterations = 1 }
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 1 }
length = { min = 20000, max = 20000, constant = 20000 }
sending = { transport = 'grpc-unary', window = 1 }
think.step_ms.constant = 1
limits.drain_ms = 1
claims = {}
";

/// Changes the set of servers when all sequences are under way, and ends the run when they have gone on for a while.
struct Switch<'s> {
    socket: &'s Path,
    command: &'s str,
    interrupt: mpsc::Sender<()>,
    switched_at: Option<u64>,
}

impl Switch<'_> {
    /// So many steps were executed before the change, and are after it.
    const BEFORE: u64 = 80;
    const AFTER: u64 = 800;

    /// Has the balancer carry out the command.
    fn command(&self) {
        let mut stream = UnixStream::connect(self.socket).expect("it listens");
        stream.write_all(self.command.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write)).expect("it reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        assert_eq!(said.trim(), "", "{}", self.command);
    }
}

impl Observer for Switch<'_> {
    fn progress(&mut self, progress: &Progress) {
        match self.switched_at {
            None if progress.sequences == 8 && progress.completed >= Self::BEFORE => {
                self.command();
                self.switched_at = Some(progress.completed);
            }
            Some(at) if progress.completed >= at + Self::AFTER => {
                // One is enough.
                let _ = self.interrupt.try_send(());
            }
            _ => {}
        }
    }
}

/// A run in which a server is added or drained.
fn with_a_switch(configuration: &str, more: &[(&str, &str)], command: &str) -> RunResult {
    let servers = [server(), server()];
    let folder = TempDir::new().expect("a folder");
    let socket: PathBuf = folder.path().join("socket");
    let global = format!("global\n    stats socket {} level admin\n\ndefaults\n", socket.display());
    let more = [&[("defaults\n", global.as_str())], more].concat();
    let balancer = Balancer::start(configuration, servers.each_ref().map(addresses), &more);
    let replicas = servers.each_ref().map(|server| Endpoint::from(server.address)).to_vec();
    let replicas = ReplicaOverrides {
        replicas: Endpoints::try_from(replicas).ok(),
        sequence_header: Some(name("x-sequence-id")),
        server_header: Some(name("x-served-by")),
    };
    let overrides = Overrides { endpoint: Some(balancer.grpc.into()), replicas, ..Overrides::default() };
    let scenario = Scenario::resolve(&Source::from_text("test", LONG), overrides).expect("a scenario");
    let (interrupt, interrupts) = mpsc::channel(1);
    let mut switch = Switch { socket: &socket, command, interrupt, switched_at: None };
    let setup = Setup { fail_fast: true, ..Setup::new(scenario, Seed(1)) };
    let result = block_on(run(setup, &mut switch, interrupts)).expect("the servers can be tested");
    assert!(switch.switched_at.is_some(), "{configuration}: {:?}", result.violations);
    result
}

const ADDED: (&[(&str, &str)], &str) = (
    &[("server b 127.0.0.1:8101 proto h2", "server b 127.0.0.1:8101 proto h2 disabled")],
    "set server grpc_servers/b state ready\n",
);
const DRAINED: (&[(&str, &str)], &str) = (&[], "set server grpc_servers/b state drain\n");

#[test]
fn a_hash_splits_sequences_when_a_server_is_added_or_drained_and_a_table_does_not() {
    for (more, command) in [ADDED, DRAINED] {
        let result = with_a_switch("haproxy-hash.cfg", more, command);
        let kinds: Vec<_> = result.tally.violations.keys().collect();
        assert_eq!(kinds, [&ViolationKind::SequenceSplit], "{command} {:?}", result.violations);
        let result = with_a_switch("haproxy-stick.cfg", more, command);
        assert_eq!(result.violations, [], "{command}");
    }
}
