//! Faulty networks below calls: over HTTP and unary gRPC nothing that a network takes is the server's fault, and what the server does is
//! still judged.

use crate::support;
use std::time::Duration;

use crate::support::runs::{reference_server, run_alone};
use oracle::ViolationKind;
use reference::{ModelOptions, Planted, Server};
use sequence_stress::{
    probe::{Accounting, SlotFinding},
    run::{RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::{
    claim::Claim,
    conversation::Transport,
    endpoint::Endpoints,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};

const CALLS: [Transport; 3] = [Transport::GrpcUnary, Transport::Http, Transport::HttpBinary];
const SEEDS: u64 = 2;
const COMMON: &str = "
load = { workers = 3, iterations = 8 }
patterns.rare = { valid = 1 }
length = { min = 6, max = 20, normal = { mean = 10, stdev = 4 } }
";
/// With all that clients do wrong besides.
const ALL: &str = "patterns.common = { valid = 4, no-end = 1, pause = 1, cancel-executing = 1, cancel-idle = 1, reset = 1, \
continue-by-neighbour = 1, restart-elsewhere = 1, concurrent = 1 }\n";
/// A call over HTTP has a few hundred bytes of headers.
const NETWORKS: [&str; 5] = [
    "network = { latency_ms = { uniform = { min = 0, max = 20 } }, bandwidth_kib_s = 64 }\n",
    "network.slice_bytes = 9\n",
    "network.black_hole.after_bytes.uniform = { min = 900, max = 6000 }\n",
    "network.cut.after_bytes.uniform = { min = 900, max = 6000 }\n",
    "network.cut = { after_bytes.uniform = { min = 900, max = 6000 }, by = 'fin' }\n",
];

fn server(faults: &[Planted]) -> Server {
    let models = ModelOptions {
        max_batch_size: 4,
        instances: 2,
        idle_limit: Duration::from_millis(400),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    reference_server(models, faults)
}

fn stress(server: &Server, by: Transport, seed: u64, lost_after_ms: u32, text: &str) -> RunResult {
    let limits =
        format!("limits = {{ quiet_ms = 30, settle_ms = 5000, step_ms = 5, lost_after_ms = {lost_after_ms} }}");
    let overrides = Overrides {
        endpoint: Some(Endpoints::of_both(server.address, server.http)),
        transport: Some(by),
        ..Overrides::default()
    };
    let source = Source::from_text("test", &format!("{COMMON}{limits}\n{text}"));
    let scenario = Scenario::resolve(&source, overrides).expect("a scenario");
    run_alone(Setup::new(scenario, Seed(seed))).expect("a run")
}

#[test]
fn a_correct_server_is_not_accused_of_what_the_network_does_to_calls() {
    let rows: Vec<_> = CALLS.into_iter().flat_map(|by| NETWORKS.map(|network| (by, network))).collect();
    support::side_by_side(2, &rows, |&(by, network)| {
        let _simulation = Simulation::begin();
        let mut cuts = 0;
        for seed in 1..=SEEDS {
            let server = server(&[]);
            let result = stress(&server, by, seed, 30_000, &format!("{network}{ALL}"));
            assert_eq!(result.violations, [], "{by} {network} {seed}");
            let accounting = &result.accounting;
            assert!(matches!(accounting, Accounting::Agrees { .. }), "{by} {network} {seed}: {accounting:?}");
            let slots = &result.slots;
            let accused = matches!(slots.finding, SlotFinding::Leaked { .. } | SlotFinding::ReleasedTwice { .. });
            assert!(!accused, "{by} {network} {seed}: {slots:?}");
            assert!(result.tally.total().answered() > 30, "{by} {network} {seed}: {:?}", result.tally.total());
            cuts += result.tally.reached.of(Claim::CutByTheNetwork);
        }
        assert_eq!(cuts > 0, network.contains("after_bytes"), "{by} {network}: {cuts}");
    });
}

#[test]
fn what_a_server_does_wrong_to_calls_behind_a_network_is_found() {
    for by in CALLS {
        for (network, fault, kind) in [
            (NETWORKS[1], "off-by-one:once@20", ViolationKind::WrongSum),
            (NETWORKS[0], "drop-response:once@20", ViolationKind::Lost),
            (NETWORKS[3], "off-by-one:once@20", ViolationKind::WrongSum),
        ] {
            let planted = fault.parse::<Planted>().expect("a fault");
            // A network may swallow the wrong answer. With seed 1 none does, and a simulation repeats a seed exactly.
            let _simulation = Simulation::begin();
            let server = server(&[planted]);
            let text = format!("{network}patterns.common = {{ valid = 1 }}\nslots.check = false\n");
            let found = stress(&server, by, 1, 4000, &text).violations;
            let is_it = !found.is_empty() && found.iter().all(|violation| violation.kind == kind);
            assert!(is_it, "{by} {network} {fault}: {found:#?}");
        }
    }
}
