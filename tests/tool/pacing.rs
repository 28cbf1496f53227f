//! Iterations that begin at a rate, and steps that are due at times of their own.

use std::{fs, time::Duration};

use crate::support::{
    runs::{block_on, run_alone, scenario_at, server_of_four},
    tool::{told, unwrapped, words},
};
use oracle::ViolationKind;
use reference::{Fault, Planted, Server};
use sequence_stress::run::{Arrived, Observer, Progress, RunResult, Setup, run};
use serde_json::Value;
use tokio::sync::mpsc;
use wire::simulation::Simulation;
use workload::seed::Seed;

/// A server whose executions take so long.
fn server(execution_ms: u64, faults: &[Planted]) -> Server {
    server_of_four(Duration::from_secs(5), Duration::from_millis(execution_ms), faults)
}

/// Sequences of three steps, one context each.
const COMMON: &str = "
limits = { quiet_ms = 20, lost_after_ms = 20000 }
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 1 }
length = { min = 3, max = 3, constant = 3 }
sending = { reuse = 'after-response', window = 1 }
slots.check = false
";

fn stress(server: &Server, load: &str) -> RunResult {
    let scenario = scenario_at(server.address, &format!("{COMMON}{load}"));
    let result = run_alone(Setup::new(scenario, Seed(3))).expect("a run");
    assert_eq!(result.violations, []);
    assert_eq!(result.tally.total().sequences, result.tally.total().sequences_as_designed);
    result
}

/// What the times of a run were due and sent at, in ms: the most by which the client was late, the most by which others were, and the
/// longest steps from when they were due and from when they were sent.
fn most_ms(result: &RunResult) -> [u64; 4] {
    let pacing = result.tally.pacing.as_deref().expect("steps have times of their own");
    [&pacing.late, &pacing.held_back, &result.tally.step, &pacing.step].map(|times| times.max_us() / 1000)
}

fn arrived(result: &RunResult) -> &Arrived {
    let [arrived] = &result.arrived[..] else { panic!("{:?}", result.arrived) };
    arrived
}

#[test]
fn iterations_begin_at_their_rate_whether_or_not_earlier_ones_are_done() {
    let _simulation = Simulation::begin();
    let server = server(20, &[]);
    // Each takes 60 ms or more, and a slot is free for the fourth part of them at a time.
    let result = stress(&server, "load = { workers = 32, rate = '50/s', duration_s = 2 }");
    let arrived = arrived(&result);
    assert_eq!((arrived.begun, arrived.not_begun, result.iterations), (100, 0, 100));
    assert!((3..32).contains(&arrived.most_at_a_time), "{arrived:?}");
    let [late, held_back, ..] = most_ms(&result);
    // The time that the simulation has goes on in steps of a millisecond.
    assert!(late <= 1 && held_back == 0, "{late} {held_back}");
    assert!(result.elapsed >= Duration::from_millis(1980), "{:?}", result.elapsed);
}

#[test]
fn a_bound_of_workers_is_met_and_latencies_count_from_when_steps_were_due() {
    let _simulation = Simulation::begin();
    let server = server(20, &[]);
    // One at a time, of 60 ms or more each: every fifth of them at most.
    let result = stress(&server, "load = { workers = 1, rate = '100/s', duration_s = 1 }");
    let arrived = arrived(&result);
    assert_eq!((arrived.begun + arrived.not_begun, arrived.most_at_a_time, arrived.workers), (100, 1, 1));
    assert!((10..=20).contains(&arrived.begun), "{arrived:?}");
    let [late, held_back, step, sent] = most_ms(&result);
    assert!(late <= 1 && held_back > 500 && step > 500 && sent < 100, "{late} {held_back} {step} {sent}");
    let (sequence, slot) = (&result.tally.waits.sequence, &result.tally.waits.slot);
    assert!(sequence.max_us() > 500_000 && slot.max_us() > 500_000, "{sequence:?} {slot:?}");
    assert!(result.tally.pacing.expect("it has").sequence.max_us() < 200_000);
}

#[test]
fn stages_and_a_poisson_process_begin_what_they_say() {
    let _simulation = Simulation::begin();
    let server = server(1, &[]);
    for (load, begun) in [
        ("rate = '10/s:1s,0..100/s:1s,20/s:500ms'", 10 + 50 + 10),
        ("rate = '100/s', iterations = 30", 30),
        ("rate = '100/s:200ms', iterations = 30", 20),
    ] {
        let result = stress(&server, &format!("load = {{ workers = 16, {load} }}"));
        assert_eq!((arrived(&result).begun, arrived(&result).not_begun), (begun, 0), "{load}");
    }
    let poisson = || stress(&server, "load = { workers = 64, rate = '100/s:2s', arrivals = 'poisson' }");
    let [one, again] = [poisson(), poisson()].map(|result| arrived(&result).begun);
    assert_eq!(one, again, "the seed decides them");
    assert!((150..250).contains(&one), "{one}");
}

#[test]
fn each_population_has_its_own_rate_from_the_beginning_of_its_phase() {
    let _simulation = Simulation::begin();
    let server = server(1, &[]);
    let text = "
[[phase]]
name = 'first'
[[phase]]
name = 'second'
pause_ms = 300
[[population]]
name = 'open'
phase = 'second'
load = { workers = 8, rate = '20/s', duration_s = 1 }
[[population]]
name = 'closed'
phase = 'first'
load = { workers = 2, iterations = 5 }
";
    let result = stress(&server, text);
    assert_eq!((arrived(&result).population.as_str(), arrived(&result).begun), ("open", 20));
    assert_eq!((arrived(&result).not_begun, result.iterations), (0, 30));
    let [first, second] = &result.phases[..] else { panic!("{:?}", result.phases) };
    let lasted = second.ended_us - second.began_us;
    assert!(
        second.began_us >= first.ended_us + 300_000 && (950_000..1_100_000).contains(&lasted),
        "{:?}",
        result.phases
    );
}

#[test]
fn steps_are_due_at_their_interval() {
    let _simulation = Simulation::begin();
    let quick = server(1, &[]);
    let paced = "load = { workers = 2, iterations = 4, step_interval_ms = 100, step_jitter_ms = 20 }";
    let result = stress(&quick, paced);
    let [late, held_back, step, _] = most_ms(&result);
    assert!(late <= 1 && held_back == 0 && step < 20, "{late} {held_back} {step}");
    let sequence = &result.tally.waits.sequence;
    assert!((200_000..260_000).contains(&sequence.max_us()), "{sequence:?}");
    // Four after each other.
    assert!(result.elapsed >= Duration::from_millis(800), "{:?}", result.elapsed);
    assert_eq!(result.arrived, []);

    // A server that takes longer than the interval: each step is later than the one before.
    let slow = server(150, &[]);
    let paced = paced.replace("workers = 2", "workers = 1");
    let result = stress(&slow, &paced);
    let [late, held_back, step, sent] = most_ms(&result);
    assert!(late <= 1 && held_back >= 60 && step >= 210 && sent < 200, "{late} {held_back} {step} {sent}");

    // What need not wait for a response is sent when it is due.
    let scenario = format!("{COMMON}{paced}").replace("window = 1", "window = 3");
    let result = run_alone(Setup::new(scenario_at(slow.address, &scenario), Seed(3))).expect("a run");
    let [late, held_back, ..] = most_ms(&result);
    assert!(late <= 1 && held_back == 0 && result.violations.is_empty(), "{late} {held_back}");
}

#[test]
fn a_step_that_comes_late_makes_those_behind_it_no_earlier() {
    let _simulation = Simulation::begin();
    let server = server(1, &[]);
    let load = "load = { workers = 2, iterations = 10, step_interval_ms = 5, step_jitter_ms = 100 }";
    let scenario = format!("{COMMON}{load}").replace("window = 1", "window = 3");
    let result = run_alone(Setup::new(scenario_at(server.address, &scenario), Seed(3))).expect("a run");
    let [late, held_back, step, _] = most_ms(&result);
    assert!(late <= 1 && held_back == 0 && step < 30, "{late} {held_back} {step}");
}

#[test]
fn a_lost_response_is_waited_for_as_long_as_the_iterations_that_were_under_way_need() {
    let _simulation = Simulation::begin();
    let server = server(1, &[Planted::once(Fault::DropResponse, 20)]);
    let load = "load = { workers = 4000, rate = '20/s', duration_s = 60 }\nlimits.drain_ms = 60000";
    let text = format!("{COMMON}{load}")
        .replace(", lost_after_ms = 20000", "")
        .replace("limits = {", "limits.step_ms = 1\nlimits.quiet_ms = 20 #");
    let result = run_alone(Setup::new(scenario_at(server.address, &text), Seed(3))).expect("a run");
    let [lost] = &result.violations[..] else { panic!("{:?}", result.violations) };
    assert_eq!(lost.kind, ViolationKind::Lost, "{lost:?}");
    let limits = result.preflight.limits;
    assert!(limits.lost_after > Duration::from_secs(3600), "{limits:?}");
    assert!(lost.at_ns < 50_000_000_000, "{lost:?}");
}

#[test]
fn what_is_due_behind_the_end_of_an_interrupted_run_is_not_missed() {
    let _simulation = Simulation::begin();
    let server = server(2000, &[]);
    let scenario =
        scenario_at(server.address, &format!("{COMMON}load = {{ workers = 100, rate = '10/s', duration_s = 60 }}"));
    let (sender, interrupts) = mpsc::channel(1);
    let mut watcher = Stop { sender };
    let result = block_on(run(Setup::new(scenario, Seed(3)), &mut watcher, interrupts)).expect("a run");
    let arrived = arrived(&result);
    // It drains for longer than it ran.
    assert!(result.elapsed > Duration::from_secs(5), "{:?}", result.elapsed);
    assert!((20..25).contains(&arrived.begun) && arrived.not_begun <= 1, "{arrived:?}");
    assert_eq!(result.tally.total().sequences, arrived.begun);
}

/// Interrupts a run after two seconds.
struct Stop {
    sender: mpsc::Sender<()>,
}

impl Observer for Stop {
    fn progress(&mut self, progress: &Progress) {
        if progress.elapsed >= Duration::from_secs(2) {
            let _ = self.sender.try_send(());
        }
    }
}

#[test]
fn the_streams_of_all_workers_end_side_by_side() {
    let _simulation = Simulation::begin();
    let server = server(1, &[]);
    let load = "load = { workers = 64, rate = '400/s', duration_s = 1 }\nnetwork.latency_ms.constant = 40";
    let one_step = "length = { min = 1, max = 1, constant = 1 }";
    let text = format!("{COMMON}{load}").replace("window = 1", "window = 1, stream = 'per-context'");
    let text = text.replace("length = { min = 3, max = 3, constant = 3 }", one_step);
    let result = run_alone(Setup::new(scenario_at(server.address, &text), Seed(3))).expect("a run");
    assert_eq!(result.violations, []);
    assert!(arrived(&result).most_at_a_time > 25, "{:?}", result.arrived);
    // A stream takes 80 ms to end: one after the other they would take seconds.
    assert!(result.elapsed < Duration::from_secs(2), "{:?}", result.elapsed);
}

#[test]
fn a_history_tells_when_steps_were_due() {
    let folder = tempfile::tempdir().expect("a folder");
    let [history, result, checked] = ["history", "result", "checked"].map(|name| folder.path().join(name));
    let (code, text) = told(&[
        "--embedded",
        "--rate=100/s:1s",
        "--arrivals=poisson",
        "--step-interval=5ms",
        "--step-jitter=5ms",
        "-r7",
        "--history",
        words(&history),
        "--json",
        words(&result),
    ]);
    assert_eq!(code, Some(0), "{text}");
    let text = unwrapped(&text);
    for expected in ["100/s:1s (poisson), at most 512 workers, a step each 5 ms", "arrivals", "client late"] {
        assert!(text.contains(expected), "{text}\n  should have {expected}");
    }
    let (code, text) = told(&["check", words(&history), "--json", words(&checked)]);
    assert_eq!(code, Some(0), "{text}");
    let read = |path| -> Value { serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON") };
    let (result, checked) = (read(&result), read(&checked));
    for key in ["latency_us", "pacing", "arrivals"] {
        assert!(result[key].is_object() || result[key].is_array(), "{key}: {result}");
        assert_eq!(result[key], checked[key], "{key}");
    }
    assert!(
        result["replay"]
            .as_str()
            .expect("a text")
            .contains("--rate 100/s:1s --arrivals poisson --step-interval 5ms --step-jitter 5ms")
    );
}

#[test]
fn a_failure_of_paced_steps_is_replayed_at_their_pace() {
    let folder = tempfile::tempdir().expect("a folder");
    let failure = folder.path().join("failure.toml");
    let fault = Planted::once(Fault::OffByOne, 40).to_string();
    let (code, text) = told(&[
        "--embedded",
        "--fault",
        &fault,
        "--rate=200/s:500ms",
        "--step-interval=2ms",
        "-r7",
        "--failure",
        words(&failure),
    ]);
    assert_eq!(code, Some(1), "{text}");
    let written = fs::read_to_string(&failure).expect("a file");
    assert!(written.contains("at 2000 us"), "{written}");
    let (code, text) = told(&["replay", words(&failure), "-n1"]);
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn what_is_wrong_with_a_rate_is_told_before_anything_is_sent() {
    for (flags, expected) in [
        (&["--rate=0/s"][..], "a rate has to be above 0"),
        (&["--rate=-3/s"], "a rate has to be above 0"),
        (&["--rate=1e9/s"], "at most 1000000 a second"),
        (&["--rate=fast"], "'fast' is no rate such as 200/s"),
        (&["--rate=5/s,6/s"], "each stage but the last needs a time"),
        (&["--rate=1..5/s"], "a rate that changes needs a time"),
        (&["--arrivals=poisson"], "load.arrivals: it needs load.rate"),
        (&["--rate=5/s", "--arrivals=chaotic"], "constant, poisson"),
        (&["--step-jitter=5ms"], "load.step_jitter_ms: it needs load.step_interval_ms"),
    ] {
        let (code, text) = told(&[&["127.0.0.1:1"], flags].concat());
        assert!(code == Some(2) && text.contains(expected), "{flags:?}: {code:?} {text}");
    }
}
