//! What the server says of itself each second of a run: readiness and memory.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use crate::support::{
    MODEL,
    runs::{reference_server, run_alone, scenario},
    tool::{Serve, tool},
};
use oracle::{Evidence, ViolationKind, diagnosis::Cause};
use reference::{Fault, MEMORY_GAUGE, ModelOptions, Planted};
use sequence_stress::run::{MemorySource, RunResult, Setup, Slope};
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
    let Slope { mean, margin } = growth.per_sequence;
    assert!((mean / f64::from(1 << 20) - 1.0).abs() < 0.05 && margin < mean / 20.0, "{growth:?}");
    let Evidence::Growth { bytes_per_hour, .. } = result.violations[0].evidence else {
        panic!("{:?}", result.violations)
    };
    // Two sequences take 600 ms and more together.
    assert!((5_000..20_000).contains(&(bytes_per_hour >> 20)), "{bytes_per_hour}");
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
    let (code, text) = run(&["--server-pid", &pid]);
    assert!(code == Some(0) && text.contains("server memory  "), "{code:?} {text}");
    assert!(text.contains(&format!("--server-pid {pid} ")), "the replay command has it: {text}");

    // What the environment says is of the endpoint that it names.
    let of_environment = |named: bool, pid: &str| {
        let mut tool = tool();
        tool.env("TRITON_PID", pid).args([
            "--duration",
            "2s",
            "-r",
            "1",
            "--scenario",
            "tests/support/claims-nothing.toml",
        ]);
        let tool =
            if named { tool.args(["-u", &server.address]) } else { tool.env("SEQUENCE_STRESS_URL", &server.address) };
        let output = tool.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(of_environment(false, &pid).contains("server memory  "));
    assert!(!of_environment(true, &pid).contains("server memory  "), "the flag may name another server");
    let gone = u32::MAX.to_string();
    for (pid, why) in [(&*gone, "there is no process 4294967295"), ("x", "'x' is no process ID")] {
        let text = of_environment(false, pid);
        assert!(text.contains(&format!("the server's memory is not read (TRITON_PID): {why}")), "{text}");
        assert!(!text.contains("server memory  "), "{text}");
    }

    let (this, other) = (std::process::id().to_string(), Serve::start(&[]));
    let other = other.process.id().to_string();
    let not_this = format!("is not the server at {}: it listens on port ", server.address);
    let rows: [(&[&str], i32, &str); 7] = [
        (&["--server-pid", &gone], 2, "--server-pid 4294967295: there is no process 4294967295; give the process ID"),
        (&["--server-pid", &other], 2, &not_this),
        (&["--server-pid", "0"], 2, "give a whole number, 1 or more"),
        (&["--server-memory", &this], 2, &format!("a process ID is --server-pid {this}")),
        (&["--server-memory", "a_gauge"], 4, "the server's metrics are not known (--metrics-url)"),
        (&["--server-memory", "a_gauge", "--metrics-url", &server.metrics], 4, "/metrics has no a_gauge"),
        (&["--server-memory", "a gauge"], 2, "it has to be the name of a gauge"),
    ];
    let rejected = |flags: &[&str], exit, words: &str| {
        let (code, text) = run(flags);
        assert!(code == Some(exit) && text.contains(words), "{flags:?}: {code:?} {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    for (flags, exit, words) in rows {
        rejected(flags, exit, words);
    }
    let mut idle = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is there");
    rejected(&["--server-pid", &idle.id().to_string()], 2, "(cat) listens on no TCP port, so it is no server");
    idle.kill().and_then(|()| idle.wait()).expect("it runs");
}
