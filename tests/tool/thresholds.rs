//! Thresholds: what fails a run although the server broke no rule.

use std::{fs, time::Duration};

use crate::support::{
    runs::{run_alone, scenario_at, server_of_four},
    tool::{run, text, told, unwrapped, words},
};
use reference::{Fault, Planted};
use sequence_stress::run::{RunResult, Setup};
use serde_json::Value;
use wire::simulation::Simulation;
use workload::seed::Seed;

const LOAD: &str = "
limits = { quiet_ms = 20, lost_after_ms = 2000 }
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 3, no-start = 1 }
length.constant = 5
sending = { reuse = 'after-response', window = 1 }
slots.check = false
claims = {}
";

/// A run in virtual time of a server that takes so long for a step, with these thresholds.
fn stress(execution_ms: u64, faults: &[Planted], load: &str, fail_if: &[&str]) -> RunResult {
    let _simulation = Simulation::begin();
    let server = server_of_four(Duration::from_secs(5), Duration::from_millis(execution_ms), faults);
    let scenario = scenario_at(server.address, &format!("fail_if = {fail_if:?}\n{load}\n{LOAD}"));
    run_alone(Setup::new(scenario, Seed(3))).expect("a run")
}

/// The thresholds that were missed.
fn missed(result: &RunResult) -> Vec<String> {
    result.thresholds.iter().filter(|its| its.missed).map(|its| its.threshold.to_string()).collect()
}

/// What each came to, for whoever reads of a failed test.
fn shown(result: &RunResult) -> String {
    let lines = result
        .thresholds
        .iter()
        .map(|its| format!("{}: {:?} {}, missed: {}\n", its.threshold, its.value, its.unit, its.missed));
    lines.collect()
}

#[test]
fn what_a_run_keeps_and_what_it_misses() {
    let kept = [
        "step.p50 > 25ms",
        "step.p99 of pattern valid > 25ms",
        "step.max of pattern no-start > 9ms",
        "sequence.mean > 99ms",
        "wait_for_slot.p90 > 25ms",
        "good_step.max > 99ms",
        "goodput < 100/s",
        "throughput < 100/s in any 1s",
        "sequences < 10/s",
        "not_good > 0%",
        "in_flight.max > 4",
        "starts_waiting.max > 4",
        "server_queue > 15ms",
        "server_compute > 20ms",
        "mean_batch > 4",
    ];
    let missed_ones = [
        "step.p50 > 9ms",
        "step.p99 of pattern valid > 9ms during 1s..",
        "sequence.mean > 40ms",
        "goodput < 9000/s",
        "throughput of pattern no-start >= 1/s",
        "in_flight.mean > 0.5",
        "server_compute > 9ms",
        "mean_batch < 4.1",
    ];
    let result = stress(10, &[], "load = { workers = 4, duration_s = 5 }", &[&kept[..], &missed_ones[..]].concat());
    assert_eq!(missed(&result), missed_ones, "{}", shown(&result));
    assert!(result.thresholds.iter().all(|its| its.measured), "{}", shown(&result));
}

#[test]
fn one_wrong_response_is_not_good() {
    let off_by_one = [Planted::once(Fault::OffByOne, 50)];
    let fail_if = ["good_step.max > 99ms", "not_good > 0%", "step.max > 99ms", "good_step.p50 > 99ms"];
    let result = stress(1, &off_by_one, "load = { workers = 4, iterations = 40 }", &fail_if);
    assert_eq!(missed(&result), ["good_step.max > 99ms", "not_good > 0%"], "{}", shown(&result));
}

#[test]
fn a_population_has_its_own() {
    let load = "
        [[population]]
        name = 'quick'
        load = { workers = 1, iterations = 20 }
        fail_if = ['step.p90 > 15ms', 'sequences > 99/s']
        [[population]]
        name = 'behind a slow network'
        load = { workers = 1, iterations = 20 }
        network.latency_ms.constant = 50
        fail_if = ['step.p90 > 15ms']
    ";
    let load = format!("{LOAD}{load}");
    let _simulation = Simulation::begin();
    let server = server_of_four(Duration::from_secs(5), Duration::from_millis(10), &[]);
    let scenario = scenario_at(server.address, &format!("fail_if = ['step.p50 of population quick > 15ms']{load}"));
    let result = run_alone(Setup::new(scenario, Seed(3))).expect("a run");
    let missed: Vec<_> = result.thresholds.iter().map(|its| (its.population.as_str(), its.missed)).collect();
    assert_eq!(missed, [("", false), ("quick", false), ("quick", false), ("behind a slow network", true)]);
}

#[test]
fn abort_ends_the_run() {
    let load = "load = { workers = 4, duration_s = 3600 }";
    let fail_if = ["step.p50 > 99ms abort", "step.p50 > 9ms during 2s.. abort"];
    let result = stress(10, &[], load, &fail_if);
    let ended: Vec<_> = result.thresholds.iter().map(|its| (its.missed, its.ended_the_run)).collect();
    assert_eq!(ended, [(false, false), (true, true)]);
    assert!((3..6).contains(&result.elapsed.as_secs()), "{:?}", result.elapsed);
    assert_eq!((result.tally.violation_count(), result.tally.not_good()), (0, 0), "{:?}", result.violations);
}

#[test]
fn they_are_in_the_report_the_result_and_the_history() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, history, again] = ["json", "history", "again"].map(|name| folder.path().join(name));
    let thresholds = ["step.max > 1us", "sequence.p99 > 1h", "client_memory.max > 1kB"];
    let flags: Vec<_> = thresholds.iter().flat_map(|its| ["--fail-if", its]).collect();
    let files = ["--embedded", "-i20", "-r5", "--json", words(&json), "--history", words(&history)];
    let (code, text) = told(&[&files[..], &flags].concat());
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("\nTHRESHOLD MISSED: step.max > 1us: "), "{text}");
    assert!(text.contains("\n  threshold      sequence.p99 > 1h: "), "{text}");
    assert!(unwrapped(&text).contains("--fail-if 'step.max > 1us' --fail-if 'sequence.p99 > 1h'"), "{text}");
    let thresholds = |path| {
        let result: Value = serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON");
        assert_eq!(result["exit_code"], 5);
        result["thresholds"].clone()
    };
    let found = thresholds(&json);
    let missed: Vec<_> = (0..3).map(|place| found[place]["missed"].as_bool()).collect();
    assert_eq!(missed, [Some(true), Some(false), Some(true)], "{found:#}");
    assert_eq!((&found[0]["unit"], found[0]["value"].as_f64() > Some(1.0)), (&Value::from("us"), true), "{found:#}");
    // What the events do not show the history's end says.
    let (code, text) = told(&["check", words(&history), "--json", words(&again)]);
    assert_eq!(code, Some(5), "{text}");
    assert_eq!(thresholds(&again), found);
}

#[test]
fn what_is_not_measured_is_said_before_anything_is_sent() {
    for (flags, problem) in [
        (
            &["--fail-if", "stepp.p99 > 5ms"][..],
            "'stepp.p99 > 5ms': 'stepp' is not measured; these are: step, good_step",
        ),
        (&["--fail-if", "step.p99 > 5"], "'5' is no limit for it, such as 50ms"),
        (&["--fail-if", "step.p99 of pattern malformed > 5ms"], "the scenario does not draw the pattern malformed"),
        (&["--fail-if", "client_late.p99 > 5ms"], "it is measured with --rate or --step-interval"),
        (&["--fail-if", "server_memory.max > 1GB"], "needs --server-pid or --server-memory"),
        (&["--fail-if", "server_cpu > 1%", "--server-memory", "a_gauge"], "needs --server-pid"),
        (&["--fail-if", "pending.max > 1"], "needs --metrics-url"),
        (&["--fail-if", "step.max > 1s during 5s..", "-d", "5s"], "the run ends after 5s"),
        (&["--fail-if", "step.max > 1s in any 10s", "-d", "5s"], "the run ends after 5s"),
    ] {
        // Nobody listens there: whoever sends something says that.
        let output = run(&[&["-u", "127.0.0.1:1"], flags].concat());
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(unwrapped(&said).contains(problem) && said.lines().count() == 1, "{flags:?}: {said}");
    }
}
