//! Several servers, and a balancer of connections in this process.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use oracle::{Evidence, ViolationKind, diagnosis::Cause};
use reference::{Fault, ModelOptions, Options, Server};
use sequence_stress::{
    probe::{Accounting, SlotFinding},
    run::{Absence, Observer, Progress, RunError, RunResult, Setup, run as stress},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};
use workload::{
    conversation::Transport::{self, GrpcStream, GrpcUnary, HttpBinary},
    endpoint::{Endpoint, Endpoints, Scheme},
    scenario::{BUILTIN, Overrides, ReplicaOverrides, Scenario, Source},
    seed::Seed,
};

use crate::support::{
    runs::{block_on, run_alone, runtime},
    tool::told,
};

const SLOTS: u32 = 8;

/// Gives each connection the next server, until it is dropped.
struct Turns {
    address: SocketAddr,
    front: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Turns {
    fn of(servers: [SocketAddr; 2]) -> Self {
        let (tell, address) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let front = std::thread::spawn(move || {
            runtime().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("a test that waits");
                let turn = Arc::new(AtomicUsize::new(0));
                let accept = async {
                    loop {
                        let (mut near, _) = listener.accept().await.expect("a connection");
                        let server = servers[turn.fetch_add(1, Relaxed) % 2];
                        tokio::spawn(async move {
                            let mut far = TcpStream::connect(server).await.expect("the server is there");
                            // A client that resets its connection is no error here.
                            let _ = copy_bidirectional(&mut near, &mut far).await;
                        });
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address: address.recv().expect("it starts"), front: Some(front), stop: Some(stop) }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(front) = self.front.take() {
            let _ = front.join();
        }
    }
}

fn models() -> ModelOptions {
    ModelOptions {
        instances: 2,
        max_batch_size: 4,
        execution: std::time::Duration::ZERO,
        idle_limit: std::time::Duration::from_millis(500),
        ..ModelOptions::default()
    }
}

fn server(name: Option<&'static str>, faults: &[&str]) -> Server {
    let faults = faults.iter().map(|fault| fault.parse().expect("a fault")).collect();
    Server::start(Options { models: models(), faults, name, threads: 1, ..Options::default() }).expect("a free port")
}

/// The scenario for these servers behind an endpoint, or for the servers themselves.
fn scenario(endpoint: Option<Endpoint>, transport: Transport, replicas: &str, server_header: Option<&str>) -> Scenario {
    let builtin = BUILTIN.iter().find(|builtin| builtin.name == "affinity").expect("it is built in");
    let replicas = ReplicaOverrides {
        replicas: replicas.parse::<Endpoints>().ok(),
        sequence_header: None,
        server_header: server_header.map(|name| name.parse().expect("a name")),
    };
    let endpoint = endpoint.map(Endpoints::from);
    let overrides = Overrides { endpoint, transport: Some(transport), replicas, ..Overrides::default() };
    Scenario::resolve(&Source::from_text("affinity", builtin.text), overrides).expect("a scenario")
}

fn run(scenario: Scenario) -> Result<RunResult, RunError> {
    run_alone(Setup::new(scenario, Seed(1)))
}

fn list(servers: &[Server]) -> String {
    servers.iter().map(|server| server.address.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn a_sequence_that_reaches_two_servers_is_told_with_both() {
    for transport in [GrpcStream, GrpcUnary, HttpBinary] {
        let servers = [server(Some("one"), &[]), server(Some("two"), &[])];
        let address = |server: &Server| if transport.is_http() { server.http } else { server.address };
        let turns = Turns::of(servers.each_ref().map(address));
        let scheme = if transport.is_http() { Scheme::Http } else { Scheme::Grpc };
        let endpoint = Endpoint::from(turns.address).speaking(scheme);
        let result = run(scenario(Some(endpoint), transport, &list(&servers), Some("x-served-by")));
        let result = result.expect("the servers can be tested");
        let kinds: Vec<_> = result.tally.violations.keys().collect();
        assert_eq!(kinds, [&ViolationKind::SequenceSplit], "{transport}: {:?}", result.violations.first());
        for violation in &result.violations {
            let Evidence::Split { expected, first, last, seen } = &violation.evidence else { panic!("{violation:?}") };
            let step = violation.request().expect("a request").step + 1;
            let mut names = [expected.to_string(), seen.to_string()];
            names.sort();
            assert_eq!(names, ["one", "two"], "{violation:?}");
            assert!(first <= last && *last != step, "{violation:?}");
            assert_eq!(violation.explanations.first().map(|its| its.cause), Some(Cause::SequenceSplit));
        }
        // What is split is executed by one of them, or rejected.
        assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{transport}: {:?}", result.accounting);
    }
}

#[test]
fn where_nothing_tells_the_server_a_rejection_may_be_a_split() {
    // A header that no response has tells nothing either.
    for header in [None, Some("x-nope")] {
        let servers = [server(Some("one"), &[]), server(Some("two"), &[])];
        let turns = Turns::of(servers.each_ref().map(|server| server.address));
        let result = run(scenario(Some(turns.address.into()), GrpcStream, &list(&servers), header));
        let result = result.expect("the servers can be tested");
        assert!(!result.tally.violations.contains_key(&ViolationKind::SequenceSplit), "nothing tells that for certain");
        let rejected = result.violations.iter().filter(|its| its.kind == ViolationKind::SpuriousStartError);
        let causes: Vec<_> = rejected.filter_map(|its| Some(its.explanations.first()?.cause)).collect();
        assert!(!causes.is_empty() && causes.iter().all(|cause| *cause == Cause::SequenceSplit), "{causes:?}");
        let notes: Vec<_> = result.preflight.notes.iter().map(ToString::to_string).collect();
        let is_told = notes.iter().any(|note| note.contains("no response carried the header 'x-nope'"));
        assert_eq!(is_told, header.is_some(), "{notes:?}");
    }
}

#[test]
fn several_servers_without_a_balancer_are_counted_together() {
    let servers = [server(None, &[]), server(None, &[]), server(None, &[])];
    for transport in [GrpcStream, GrpcUnary] {
        let result = run(scenario(None, transport, &list(&servers), None)).expect("the servers can be tested");
        assert_eq!(result.violations, [], "{transport}");
        let Accounting::Agrees { rose, .. } = result.accounting else { panic!("{:?}", result.accounting) };
        assert_eq!(rose.success, result.tally.total().completed, "{transport}");
        assert_eq!(result.slots.finding, SlotFinding::AllThere { slots: 3 * SLOTS }, "{transport}");
    }
}

#[test]
fn servers_that_are_one_or_not_alike_are_rejected_before_the_load_begins() {
    let one = server(None, &[]);
    let of_other_shape = Options { models: ModelOptions { max_batch_size: 2, ..models() }, ..Options::default() };
    let other = Server::start(Options { threads: 1, ..of_other_shape }).expect("a free port");
    let port = one.address.port();
    for (list, reason) in [
        (format!("127.0.0.1:{port},localhost:{port}"), "count the same requests, so they are one server"),
        (format!("{},{}", one.address, other.address), "its configuration (/v2/models/MODEL/config) differs"),
        (format!("{},127.0.0.1:1", one.address), "127.0.0.1:1: no connection"),
    ] {
        let error = run(scenario(None, GrpcStream, &list, None)).expect_err(&list).to_string();
        assert!(error.contains(reason) && !error.contains('\n'), "{list}: {error}");
    }
}

#[test]
fn a_slot_that_one_of_several_servers_lost_is_told_with_the_server() {
    let servers = [server(None, &[]), server(None, &["leak-slot-at-end:once@20"])];
    let result = run(scenario(None, GrpcStream, &list(&servers), None)).expect("the servers can be tested");
    assert!(matches!(result.slots.finding, SlotFinding::Leaked { .. }), "{:?}", result.slots);
    let server = result.slots.server.map(|server| server.to_string());
    assert_eq!(server, Some(servers[1].address.to_string()));
    assert!(result.violations.iter().any(|violation| violation.kind == ViolationKind::SlotLeak));
}

#[test]
fn the_report_names_the_servers_and_the_command_that_repeats_the_run() {
    let servers = [server(None, &[]), server(None, &[])];
    let (code, text) = told(&["--replicas", &list(&servers), "-r", "7", "-i", "2", "--server-header", "X-Served-By"]);
    let names = servers.each_ref().map(|server| server.address);
    assert_eq!(code, Some(0), "{text}");
    let flat = crate::support::tool::unwrapped(&text);
    for part in [
        format!("2 servers ({}, {}) with 8 slots each", names[0], names[1]),
        "all 16 are free".to_owned(),
        format!("--replicas {} --replicas {} --server-header x-served-by", names[0], names[1]),
    ] {
        assert!(flat.contains(&part), "{part}: {text}");
    }
}

/// Kills the first of two servers in the middle of a run, and starts it again.
struct Killer {
    first: Option<Server>,
    address: SocketAddr,
    second: Server,
    /// What the second one has to commit while the first is away.
    fault: Option<Fault>,
    /// How often it had committed that before the first was killed.
    before: Option<u64>,
    is_missed: bool,
    /// Ends the run when the first is back.
    interrupt: Option<mpsc::Sender<()>>,
}

impl Killer {
    const KILL_AFTER: u64 = 100;

    fn committed(&self) -> u64 {
        self.fault.map_or(0, |fault| self.second.committed(fault))
    }
}

impl Observer for Killer {
    fn progress(&mut self, progress: &Progress) {
        if progress.completed >= Self::KILL_AFTER && self.before.is_none() {
            // Who meets the fault as soon as the first is gone waits for it, and commits no other.
            self.before = Some(self.committed());
            drop(self.first.take());
        }
        let meanwhile = self.committed() - self.before.unwrap_or(0);
        let is_enough = self.fault.is_none() || meanwhile >= WORKERS / 2;
        if self.is_missed && is_enough && self.first.is_none() {
            let options = Options { models: models(), listen: self.address, threads: 1, ..Options::default() };
            self.first = Some(Server::start(options).expect("its port is free again"));
        }
    }

    fn away(&mut self, _within: std::time::Duration) {
        self.is_missed = true;
    }

    fn back(&mut self, _absence: Absence) {
        if let Some(interrupt) = self.interrupt.take() {
            interrupt.try_send(()).expect("nobody else interrupts the run");
        }
    }
}

const RECONNECTS: &str = "limits.reconnect_ms = 60000";
const WORKERS: u64 = 6;
const ITERATIONS: u64 = 200;

/// A run over two servers, of which the first is killed and comes back.
struct WithAKill {
    result: RunResult,
    /// The address of the server that was killed.
    killed: String,
    /// How often the other one committed its fault.
    committed: u64,
}

/// Holds one. With a fault, the second server commits it with this probability. Who meets it while the first server is away waits
/// for that, so the first comes back when each worker of the second has met it. Then the run ends.
fn with_a_kill(fault: Option<(Fault, &str)>, limits: &str) -> WithAKill {
    let (iterations, faults) = match fault {
        // More than there is time for: what the test waits for ends the run.
        Some((fault, probability)) => (1_000_000, vec![format!("{fault}:{probability}")]),
        None => (ITERATIONS, Vec::new()),
    };
    let faults: Vec<_> = faults.iter().map(String::as_str).collect();
    let servers = [server(None, &[]), server(None, &faults)];
    let list = list(&servers);
    let text = format!(
        "target.replicas = ['{}']
        load = {{ workers = {WORKERS}, iterations = {iterations} }}
        contexts = {{ common = 1, rare = 0, rare_probability = 0 }}
        patterns.common = {{ valid = 1 }}
        length = {{ min = 8, max = 8, constant = 8 }}
        sending.window = 1
        think.step_ms.constant = 1
        {limits}
        claims = {{}}",
        list.replace(',', "', '")
    );
    let scenario = Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario");
    let [first, second] = servers;
    let address = first.address;
    let (interrupt, interrupts) = mpsc::channel(1);
    let mut killer = Killer {
        first: Some(first),
        address,
        second,
        fault: fault.map(|(fault, _)| fault),
        before: None,
        is_missed: false,
        interrupt: fault.map(|_| interrupt),
    };
    let result = block_on(stress(Setup::new(scenario, Seed(1)), &mut killer, interrupts)).expect("a run");
    WithAKill { result, killed: address.to_string(), committed: killer.committed() }
}

#[test]
fn a_server_that_is_killed_takes_its_sequences_with_it_and_nobody_is_accused() {
    let result = with_a_kill(None, RECONNECTS).result;
    assert_eq!(result.violations, []);
    assert_eq!((result.restarts.count, result.iterations), (1, WORKERS * ITERATIONS));
    assert_eq!(result.slots.finding, SlotFinding::AllThere { slots: 2 * SLOTS });
}

#[test]
fn a_sequence_that_another_server_loses_meanwhile_is_a_violation() {
    let WithAKill { result, committed, .. } = with_a_kill(Some((Fault::RejectMidSequence, "0.01")), RECONNECTS);
    let kinds: Vec<_> = result.tally.violations.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert_eq!(kinds, [(ViolationKind::SpuriousStartError, committed)], "{:?}", result.violations);
    assert_eq!(result.restarts.count, 1, "{:?}", result.restarts);
}

#[test]
fn one_of_several_servers_that_dies_is_a_violation_where_nobody_waits_for_it() {
    let WithAKill { result, killed, .. } = with_a_kill(None, "");
    let died = result.violations.iter().find(|violation| violation.kind == ViolationKind::ServerDied);
    let Some(Evidence::Died { reason, endpoint, .. }) = died.map(|died| &died.evidence) else {
        panic!("{:?}", result.violations)
    };
    assert!(!reason.is_empty() && result.restarts.count == 0, "{reason}");
    // The one that is there is not accused.
    assert_eq!(*endpoint, killed);
}
