//! Faulty networks between the clients and the server: nothing of them is the server's fault, and what the server does is still
//! judged.

use crate::support;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

use crate::support::runs::{reference_server, run_alone, scenario_at};
use oracle::ViolationKind;
use reference::{Fault, ModelOptions, Planted, Server};
use sequence_stress::{
    probe::{Accounting, SlotFinding},
    run::{RunError, RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::{claim::Claim, scenario::Scenario, seed::Seed};

const TOOL: &str = env!("CARGO_BIN_EXE_sequence-stress");
const IDLE_LIMIT: Duration = Duration::from_millis(400);

fn models() -> ModelOptions {
    ModelOptions {
        max_batch_size: 4,
        instances: 2,
        idle_limit: IDLE_LIMIT,
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    }
}

fn server(faults: &[Planted]) -> Server {
    reference_server(models(), faults)
}

fn scenario(address: SocketAddr, lost_after_ms: u32, text: &str) -> Scenario {
    let text = format!(
        "load.workers = 3
load.iterations = 10
patterns.rare = {{ valid = 1 }}
length = {{ min = 6, max = 20, normal = {{ mean = 10, stdev = 4 }} }}
values.uniform = {{ min = -2147483648, max = 2147483647 }}
limits = {{ quiet_ms = 30, settle_ms = 5000, step_ms = 5, lost_after_ms = {lost_after_ms} }}
{text}"
    );
    scenario_at(address, &text)
}

const PLAIN: &str = "patterns.common = { valid = 3, no-end = 1 }";
/// With all that clients do wrong besides.
const ALL: &str = "patterns.common = { valid = 4, no-end = 1, pause = 1, cancel-queued = 1, cancel-executing = 1, reset = 1, \
    half-close = 1, continue-by-neighbour = 1, restart-elsewhere = 1, concurrent = 1, stop-reading = 1 }";

/// Longer than any machine takes for an answer.
const PATIENT: u32 = 30_000;
/// Long enough for an answer, where one is to be missed.
const QUICK: u32 = 4000;

fn stress(address: SocketAddr, lost_after_ms: u32, text: &str) -> Result<RunResult, RunError> {
    run_alone(Setup::new(scenario(address, lost_after_ms, text), Seed(1)))
}

/// Networks, and whether they take connections, as far as that does not depend on how fast the machine is.
const NETWORKS: &[(&str, Option<bool>)] = &[
    ("network.latency_ms.uniform = { min = 0, max = 40 }", Some(false)),
    ("network.latency_ms.log-normal = { median = 3, sigma = 1 }\nsending.window = 1", Some(false)),
    ("network.bandwidth_kib_s = 32", Some(false)),
    ("network.slice_bytes = 2\nsending.connection = 'per-worker'", Some(false)),
    ("network.black_hole = { after_bytes.uniform = { min = 300, max = 3000 }, for_ms.constant = 150 }", Some(false)),
    ("network.black_hole.after_bytes.uniform = { min = 600, max = 3000 }", Some(true)),
    ("network.cut.after_bytes.uniform = { min = 600, max = 3000 }", Some(true)),
    ("network.cut = { after_bytes.uniform = { min = 600, max = 3000 }, by = 'fin' }", Some(true)),
    ("network.cut.after_ms.geometric.mean = 100\nsending.connection = 'per-worker'", None),
];

#[test]
fn a_correct_server_is_not_accused_of_what_the_network_does() {
    support::side_by_side(2, NETWORKS, |(network, takes)| {
        let _simulation = Simulation::begin();
        let server = server(&[]);
        let result = stress(server.address, PATIENT, &format!("{network}\n{ALL}")).expect("a run");
        assert_eq!(result.violations, [], "{network}");
        assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{network}: {:?}", result.accounting);
        let slots = &result.slots;
        let accused = matches!(slots.finding, SlotFinding::Leaked { .. } | SlotFinding::ReleasedTwice { .. });
        assert!(!accused, "{network}: {slots:?}");
        let counts = result.tally.total();
        assert!(takes.is_none() || counts.answered() > 50, "{network}: {counts:?}");
        let cuts = result.tally.reached.of(Claim::CutByTheNetwork);
        assert!(takes.is_none_or(|takes| takes == (cuts > 0)), "{network}: {cuts} {counts:?}");
    });
}

#[test]
fn what_a_server_does_wrong_behind_a_network_is_found() {
    for (network, fault, kind) in [
        ("network.latency_ms.constant = 5", Planted::once(Fault::CloseStream, 20), ViolationKind::StreamBroken),
        ("network.latency_ms.constant = 5", Planted::once(Fault::DropResponse, 20), ViolationKind::Lost),
        ("network.slice_bytes = 7", Planted::once(Fault::OffByOne, 20), ViolationKind::WrongSum),
        // The cut comes long after the stream was broken.
        (
            "network.cut.after_bytes.constant = 100000",
            Planted::once(Fault::CloseStream, 20),
            ViolationKind::StreamBroken,
        ),
        (
            "network.cut.after_bytes.uniform = { min = 600, max = 3000 }",
            Planted::once(Fault::LeakSlotAtCancel, 3),
            ViolationKind::SlotLeak,
        ),
    ] {
        let _simulation = Simulation::begin();
        let server = server(&[fault]);
        let result = stress(server.address, QUICK, &format!("{network}\n{PLAIN}")).expect("a run");
        assert!(server.committed(fault.fault) > 0, "{network}: {fault} was not committed");
        let found: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        let (violations, slots) = (&result.violations, &result.slots);
        let is_it = found.contains(&kind) && found.iter().all(|its| *its == kind);
        assert!(is_it, "{network}: {violations:#?} {slots:?}");
    }
}

/// One client whose connection is cut after every few conversations.
const CUTS: &str = "load = { workers = 1, iterations = 60 }
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 1 }
length.constant = 8
network.cut.after_bytes.constant = 3000
claims = {}";

fn stress_through_cuts(seed: u64, lost_after_ms: u32, server: &Server) -> RunResult {
    let scenario = scenario_at(server.address, &format!("limits.lost_after_ms = {lost_after_ms}\n{CUTS}"));
    run_alone(Setup::new(scenario, Seed(seed))).expect("a run")
}

#[test]
fn what_a_server_does_wrong_after_a_cut_is_found() {
    for (fault, kind) in [(Fault::DropResponse, ViolationKind::Lost), (Fault::CloseStream, ViolationKind::StreamBroken)]
    {
        // Among the first requests, and among those on later connections, are some that begin a stream after a cut.
        let one = |chance| {
            let _simulation = Simulation::begin();
            let server = server(&[Planted::once(fault, chance)]);
            let result = stress_through_cuts(chance, QUICK, &server);
            assert!(result.tally.total().indeterminate > 50, "{:?}", result.tally.total());
            assert!(result.violations.iter().all(|its| its.kind == kind), "{:#?}", result.violations);
            (server.committed(fault), result.violations.len())
        };
        let runs: Vec<_> = (20..60).step_by(4).map(one).collect();
        let committed = runs.iter().filter(|(committed, _)| *committed > 0).count();
        let found = runs.iter().filter(|(committed, found)| *committed > 0 && *found > 0).count();
        // The rest was on a connection that was cut before it could show.
        assert!(committed > 5 && found * 3 > committed * 2, "{fault}: {runs:?}");
    }
}

#[test]
fn a_correct_server_is_not_accused_after_a_cut() {
    support::side_by_side(2, &[1, 2, 3, 4, 5, 6], |seed| {
        let _simulation = Simulation::begin();
        let server = server(&[]);
        let result = stress_through_cuts(*seed, PATIENT, &server);
        assert_eq!(result.violations, []);
        let counts = result.tally.total();
        assert!(counts.indeterminate > 50 && counts.completed > 50, "{counts:?}");
    });
}

#[test]
fn the_checks_before_and_after_do_not_go_through_the_network() {
    let server = server(&[]);
    // No call would come through.
    let result =
        stress(server.address, PATIENT, "network.cut.after_bytes.constant = 1\nload.duration_s = 1").expect("a run");
    assert_eq!((result.violations.as_slice(), result.tally.total().answered()), (&[][..], 0));
    assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{:?}", result.accounting);
}

#[test]
fn clients_cannot_be_killed_without_a_program() {
    let server = server(&[]);
    let error = stress(server.address, PATIENT, "patterns.common = { kill-client = 1 }")
        .expect_err("it is rejected")
        .to_string();
    assert!(error.contains("kill-client needs processes") && error.contains("leave the pattern out"), "{error}");
}

#[test]
fn the_proxy_stands_alone_and_ends_with_its_input() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = server.local_addr().expect("an address").to_string();
    let mut proxy = Command::new(TOOL)
        .args(["proxy", "--to", &to, "--latency-ms", "1..5", "--slice-bytes", "2", "-r", "3", "--while-stdin-is-open"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(proxy.stdout.take().expect("it is piped")).lines().map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("seed 3"));
    let told = lines.next().expect("a second line");
    let address = told.strip_prefix(&format!("the server is {to}; clients connect to ")).expect("an address");
    let mut client = TcpStream::connect(address).expect("a connection");
    let (mut accepted, _) = server.accept().expect("a connection");
    client.write_all(b"twelve bytes").expect("a connection");
    let mut bytes = [0; 12];
    accepted.read_exact(&mut bytes).expect("they come");
    assert_eq!(&bytes, b"twelve bytes");
    drop(proxy.stdin.take());
    assert!(proxy.wait().expect("it ends").success());
    assert_eq!(accepted.read(&mut bytes).unwrap_or(0), 0, "its connections end with it");
}

#[test]
fn flags_of_the_proxy_that_cannot_be_are_told_in_a_line() {
    for (flags, expected) in [
        (&["--latency-ms", "9..1"][..], "a whole number such as 20, or a range such as 5..20"),
        (&["--latency-ms", "99999"], "network.latency_ms: 99999 ms are more than 10000"),
        (&["--cut-by", "end"], "it has to be rst or fin"),
        (&["--black-hole-for-ms", "5"], "--black-hole-for-ms needs"),
    ] {
        let output = Command::new(TOOL).args(["proxy", "--to", "127.0.0.1:1"]).args(flags).output().expect("it runs");
        let told = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.code() == Some(2) && told.contains(expected) && told.lines().count() == 1, "{told}");
    }
}

#[test]
fn a_network_that_takes_everything_is_no_server_that_hangs() {
    let server = server(&[]);
    for network in [
        "black_hole.after_bytes.constant = 0",
        "latency_ms.constant = 150\ncut = { after_bytes.constant = 300, by = 'fin' }",
    ] {
        let text = format!("load = {{ workers = 2, duration_s = 4 }}\n[network]\n{network}");
        let scenario =
            scenario_at(server.address, &format!("limits.lost_after_ms = 1000\nslots.check = false\n{text}"));
        let result = run_alone(Setup::new(scenario, Seed(1))).expect("a run");
        assert_eq!(result.violations, [], "{network}");
        assert_eq!(result.tally.total().answered(), 0, "{network}");
    }
}
