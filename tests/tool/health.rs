//! What the server says of itself each second of a run: readiness and memory.

use std::time::Duration;

use crate::support::{
    MODEL,
    runs::{reference_server, run_alone, scenario},
    tool::{Serve, tool},
};
use oracle::{ViolationKind, diagnosis::Cause};
use reference::{Fault, MEMORY_GAUGE, ModelOptions, Planted};
use sequence_stress::run::{MemorySource, RunResult, Setup};
use wire::simulation::Simulation;
use workload::seed::Seed;

/// A run of so many seconds.
fn run_for(seconds: u32, faults: &[Planted], over_http: bool) -> RunResult {
    let _simulation = Simulation::begin();
    let models = ModelOptions { idle_limit: Duration::from_millis(100), ..ModelOptions::default() };
    let server = reference_server(models, faults);
    let endpoint = if over_http { format!("http://{}", server.http) } else { server.address.to_string() };
    let text = format!(
        "target = {{ endpoint = '{endpoint}', model = '{MODEL}', metrics = '{}' }}\nload = {{ workers = 2, duration_s = {seconds} }}\n\
         patterns.common = {{ valid = 1 }}\ncontexts = {{ common = 1, rare = 0, rare_probability = 0 }}\n\
         think.iteration_ms.uniform = {{ min = 100, max = 900 }}\nslots.check = false\nclaims = {{}}",
        server.metrics
    );
    let server_memory = Some(MemorySource::Gauge(MEMORY_GAUGE.to_owned()));
    run_alone(Setup { embedded: true, server_memory, ..Setup::new(scenario(&text), Seed(3)) })
        .expect("the server can be tested")
}

fn kinds(result: &RunResult) -> Vec<ViolationKind> {
    result.violations.iter().map(|violation| violation.kind).collect()
}

#[test]
fn a_model_that_is_said_not_to_be_ready_is_found() {
    for over_http in [false, true] {
        let result = run_for(6, &[Planted::once(Fault::SayNotReady, 3)], over_http);
        assert_eq!(kinds(&result), [ViolationKind::NotReady], "{:#?}", result.violations);
        let found = &result.violations[0];
        assert_eq!((found.at_ns / 1_000_000_000, found.explanations[0].cause), (3, Cause::ReadinessWrong));
        let health = result.health.expect("it is known");
        assert!(health.not_ready.len() == 1 && health.not_ready[0].executed > 0, "{health:?}");
    }
}

#[test]
fn memory_that_grows_with_the_sequences_is_found() {
    let result = run_for(100, &[Planted::always(Fault::LeakMemory)], false);
    assert_eq!(kinds(&result), [ViolationKind::MemoryGrowth], "{:#?}", result.violations);
    assert_eq!(result.violations[0].explanations[0].cause, Cause::MemoryLeak);
    let growth = result.health.and_then(|health| health.memory?.growth).expect("it was judged");
    let each = growth.bytes / growth.sequences.cast_signed();
    assert!((900_000..1_200_000).contains(&each), "1 MiB is kept for each: {growth:?}");
}

#[test]
fn a_server_that_is_ready_and_keeps_nothing_is_not_accused() {
    for over_http in [false, true] {
        let result = run_for(100, &[], over_http);
        assert_eq!(result.violations, []);
        let health = result.health.expect("it is known");
        assert!(health.asked >= 190 && health.unanswered == 0 && health.not_ready.is_empty(), "{health:?}");
        let growth = health.memory.and_then(|memory| memory.growth).expect("it was judged");
        assert!(!growth.is_steady && growth.bytes == 0, "{growth:?}");
    }
}

#[test]
fn the_memory_of_a_process_is_shown() {
    let server = Serve::start(&[]);
    let pid = server.process.id().to_string();
    let run = |more: &[&str]| {
        let scenario = ["--scenario", "tests/support/claims-nothing.toml"];
        let output =
            tool().args(["-u", &server.address, "--duration", "2s", "-r", "1"]).args(scenario).args(more).output();
        let output = output.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, text) = run(&["--server-memory", &pid]);
    assert!(code == Some(0) && text.contains("server memory  "), "{code:?} {text}");
    assert!(text.contains(&format!("--server-memory {pid} ")), "the replay command has it: {text}");

    let gone = u32::MAX.to_string();
    let rows: [(&[&str], i32, &str); 4] = [
        (&["--server-memory", &gone], 4, "cannot be read: there is no process 4294967295"),
        (&["--server-memory", "a_gauge"], 4, "the server's metrics are not known (--metrics-url)"),
        (&["--server-memory", "a_gauge", "--metrics-url", &server.metrics], 4, "/metrics has no a_gauge"),
        (&["--server-memory", "a gauge"], 2, "it has to be a process ID, or the name of a gauge"),
    ];
    for (flags, exit, words) in rows {
        let (code, text) = run(flags);
        assert!(code == Some(exit) && text.contains(words), "{flags:?}: {code:?} {text}");
    }
}
