//! Where the time of a step goes on average, and how full batches are: what the server counts beside what the client sees.

use std::time::Duration;

use crate::support::runs::{reference_server, run_alone, scenario_at};
use reference::{ModelOptions, Server};
use sequence_stress::{
    report::{Summary, to_json},
    run::Setup,
};
use serde_json::Value;
use wire::simulation::Simulation;
use workload::{model::Strategy, seed::Seed};

/// Sequences of ten steps, one context each.
const COMMON: &str = "
limits.quiet_ms = 20
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 1 }
length = { min = 10, max = 10, constant = 10 }
sending = { reuse = 'after-response', window = 1 }
slots.check = false
claims = {}
";

/// A server with this strategy, whose executions take 20 ms, four requests at a time. It holds a batch back for so many ms until it is full.
fn server(strategy: Strategy, queue_delay_ms: u64) -> Server {
    let models = ModelOptions {
        strategy,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_secs(5),
        execution: Duration::from_millis(20),
        queue_delay: Duration::from_millis(queue_delay_ms),
        minimum_slot_utilization: 1.0,
        preferred_batch_sizes: vec![4],
        ..ModelOptions::default()
    };
    reference_server(models, &[])
}

/// The result of a run as machines get it.
fn stress(server: &Server, load: &str) -> Value {
    let scenario = scenario_at(server.address, &format!("{COMMON}{load}"));
    let result = run_alone(Setup::new(scenario.clone(), Seed(3))).expect("a run");
    let (scenario_name, replay) = ("test".to_owned(), String::new());
    let summary = Summary { scenario, scenario_name, seed: Seed(3), replay, embedded: None, result };
    serde_json::from_slice(&to_json(&summary)).expect("JSON")
}

/// A figure of the result, in ms where it is in µs.
fn figure(result: &Value, path: &str) -> f64 {
    let value = result.pointer(path).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{path}: {}", result["mean_step_us"]))
}

/// The parts of the mean step in whole ms: all of it, what the client was late and held back, queue, compute, and the network.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "short times")]
fn parts_ms(result: &Value) -> [u64; 6] {
    let keys = ["total", "client_late", "held_back", "server/queue", "server/compute", "outside"];
    keys.map(|key| (figure(result, &format!("/mean_step_us/{key}")) / 1000.0).round() as u64)
}

fn batch(result: &Value) -> (f64, f64) {
    (figure(result, "/mean_batch/mean"), figure(result, "/mean_batch/possible"))
}

const STRATEGIES: [Strategy; 2] = [Strategy::Direct, Strategy::Oldest];

#[test]
fn the_parts_of_a_step_add_up() {
    for strategy in STRATEGIES {
        let _simulation = Simulation::begin();
        let server = server(strategy, 0);
        let figures = |load| parts_ms(&stress(&server, load));
        // The model executes one request, and then the three that came meanwhile. Each waits for the other batch.
        assert_eq!(figures("load = { workers = 4, iterations = 2 }"), [40, 0, 0, 20, 20, 0]);
        // Of three sequences two wait for a slot, for 800 ms or less.
        let [total, .., queue, compute, network] = figures("load = { workers = 12, iterations = 2 }");
        assert!(total == queue + compute && (70..80).contains(&queue) && network == 0, "{queue} of {total}");
        // A step is due each 15 ms, and the one before has its response after 40 ms.
        let [total, late, held_back, ..] = figures("load = { workers = 4, iterations = 2, step_interval_ms = 15 }");
        assert!(late == 0 && (100..120).contains(&held_back) && total == 40 + held_back, "{held_back}");
        let there_and_back = "load = { workers = 4, iterations = 2 }\nnetwork.latency_ms.constant = 7";
        let [total, .., queue, compute, network] = figures(there_and_back);
        assert!(compute == 20 && network == 14 && total.abs_diff(queue + 34) <= 1, "{queue} of {total}");
    }
}

#[test]
fn a_batch_that_is_smaller_than_the_load_allows_shows() {
    for strategy in STRATEGIES {
        let _simulation = Simulation::begin();
        let [greedy, patient] = [0, 10].map(|queue_delay_ms| server(strategy, queue_delay_ms));
        for workers in [4, 12] {
            let load = format!("load = {{ workers = {workers}, iterations = 2 }}");
            let [(greedy, offered), (patient, possible)] =
                [&greedy, &patient].map(|server| batch(&stress(server, &load)));
            assert!((1.9..2.2).contains(&greedy) && (3.9..=4.0).contains(&offered), "{greedy} of {offered}");
            assert!(patient > 3.9 && possible >= patient - 0.01, "{strategy} {workers}: {patient} of {possible}");
        }
        // One sequence leaves the server nothing to put together.
        let alone = "load = { workers = 1, iterations = 2 }";
        let (mean, possible) = batch(&stress(&greedy, alone));
        assert!((mean - 1.0).abs() < 0.01 && (possible - 1.0).abs() < 0.01, "{strategy}: {mean} of {possible}");
    }
}
