//! The tool against the real tritonserver: a correct model is not accused, a broken one is, and the scripts keep their word.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    process::Command,
    sync::Mutex,
    thread,
    time::Duration,
};

use models::Extra;
use serde_json::Value;
use tempfile::TempDir;
use workload::scenario::BUILTIN;

use crate::support::{
    AddsStart, Setup, TestServer, at_the_same_time, http,
    triton::{Own, Triton, text, with_triton},
};

/// Runs of the cancellation scenario on release 24.03, all at the same time.
const RACES: u32 = 8;
const TOOL: &str = env!("CARGO_BIN_EXE_sequence-stress");

const BOTH_STRATEGIES: [&str; 2] = ["custom_sequence_int32", "oldest_sequence_int32"];
/// Models whose state the server keeps.
const IMPLICIT: [&str; 3] =
    ["implicit_sequence_int32", "implicit_initial_sequence_int32", "implicit_dyna_sequence_int32"];

/// The L0 scenario with fewer passes, too few for what it claims; for broken models with more no-starts. An answer is lost when it does not come in two
/// minutes, so that no machine is too slow.
const SHORT: &str = "load.iterations = 15\nlimits.lost_after_ms = 120000\nlimits.connect_ms = 120000\nclaims = {}\n";
const FOR_FAULTS: &str = "load.workers = 4\nload.iterations = 12\nlength.max = 20\nlimits.step_ms = 10\nlimits.lost_after_ms = 120000\n\
    limits.quiet_ms = 200\nlimits.connect_ms = 120000\n\
    patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 1 }\n";

/// Runs the tool on a model.
fn stress(server: &Triton, model: &str, scenario: &str, seed: u32) -> Value {
    server.stress(model, scenario, &["-r", &seed.to_string()])
}

fn kinds(result: &Value) -> BTreeSet<&str> {
    result["violations_by_kind"].as_object().expect("an object").keys().map(String::as_str).collect()
}

fn assert_valid(server: &Triton, model: &str, seed: u32) {
    assert_valid_with(server, model, seed, "none");
}

/// Runs the tool on a correct model; `pending` is what the tool says of requests that are left.
fn assert_valid_with(server: &Triton, model: &str, seed: u32, pending: &str) {
    let result = stress(server, model, SHORT, seed);
    let verdict = (result["exit_code"].as_i64(), result["verdict"].as_str());
    assert_eq!(verdict, (Some(0), Some("valid")), "{model}, seed {seed}: {:#}", result["violations"]);
    assert_eq!(result["server_counts"]["result"], "agrees", "{model}: {:#}", result["server_counts"]);
    assert_eq!(result["slots_check"]["result"], "all-there", "{model}: {:#}", result["slots_check"]);
    assert_eq!(result["pending_requests"]["result"], pending, "{model}: {:#}", result["pending_requests"]);
    assert!(result["outcomes"]["completed"].as_u64() > Some(1000), "{model}: {:#}", result["outcomes"]);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_every_shape() {
    let server = Triton::native();
    let shapes = [((1, 4), 1), ((2, 2), 2), ((4, 1), 3)];
    let of_shape =
        |((instances, batch), seed)| BOTH_STRATEGIES.map(|model| (Own::like(model).shape(instances, batch), seed));
    at_the_same_time(&shapes.map(of_shape).concat(), |(own, seed)| assert_valid(&server, &server.load(own), *seed));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_where_the_server_keeps_the_state() {
    let server = Triton::native();
    let shapes = [((1, 4), 4), ((2, 2), 5)];
    let of_shape = |((instances, batch), seed)| IMPLICIT.map(|model| (Own::like(model).shape(instances, batch), seed));
    at_the_same_time(&shapes.map(of_shape).concat(), |(own, seed)| assert_valid(&server, &server.load(own), *seed));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_older_releases() {
    // Release 23.04 does not count pending requests.
    at_the_same_time(&[("24.03", 6, "none"), ("23.04", 7, "not-checked")], |(release, seed, pending)| {
        // A server of another release is another server.
        // The idle limit is so long that no sequence of the slot check goes idle: 24.03 then gives a slot away twice.
        let server = Triton::start(&["--release", release, "--idle-limit-ms", "2000"]);
        at_the_same_time(&BOTH_STRATEGIES, |model| assert_valid_with(&server, model, *seed, pending));
        server.stop();
    });
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn further_parts_of_a_configuration_change_no_response() {
    let server = Triton::start(&["--explicit", "--server-arg=--rate-limit=execution_count"]);
    let of_direct = [Extra::Warmup, Extra::RateLimiter, Extra::Priority];
    let models: [(&str, &[Extra]); 5] = [
        ("custom_sequence_int32", &of_direct),
        ("oldest_sequence_int32", &Extra::ALL),
        ("oldest_sequence_int32", &[Extra::PreserveOrdering]),
        ("implicit_sequence_int32", &of_direct),
        ("implicit_dyna_sequence_int32", &Extra::ALL),
    ];
    at_the_same_time(&models, |(like, extras)| {
        let own = Own { extras, ..Own::like(like) }.shape(2, 4);
        assert_valid(&server, &server.load(&own), 12);
    });
    server.stop();
}

#[test]
#[ignore = "needs the front ends that SEQUENCE_STRESS_FRONT_ENDS names the release of: run scripts/test"]
fn newer_front_ends_before_an_older_core_are_valid() {
    let release = std::env::var("SEQUENCE_STRESS_FRONT_ENDS").expect("scripts/test says which front ends there are");
    let server = Triton::start(&["--frontend", &release, "--idle-limit-ms", "1000"]);
    let models = [&BOTH_STRATEGIES[..], &IMPLICIT].concat();
    at_the_same_time(&models, |model| {
        let result = stress(&server, model, SHORT, 11);
        assert_eq!(result["verdict"], "valid", "{model}: {:#}", result["violations"]);
        assert_eq!(result["server_counts"]["result"], "agrees", "{model}: {:#}", result["server_counts"]);
        assert_eq!(result["slots_check"]["result"], "all-there", "{model}: {:#}", result["slots_check"]);
        let version = result["server_version"].as_str().expect("it tells its version");
        assert!(version.starts_with(&format!("hybrid-{release} ")), "{version}");
    });
    server.stop();
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_the_python_backend() {
    let server = Triton::python();
    at_the_same_time(&BOTH_STRATEGIES, |model| assert_valid(&server, &server.load(&Own::like(model)), 8));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_run_behind_a_run_whose_sequences_still_live_is_valid() {
    // The idle limit is far longer than the first run, so that all its no-ends are there when the second one starts.
    let scenario = format!(
        "{SHORT}slots.check = false\nload.workers = 2\nload.iterations = 4\npatterns.common = {{ no-end = 1, valid-no-end = 1 }}\n\
        contexts = {{ common = 2, rare = 0, rare_probability = 0 }}"
    )
    .replace("load.iterations = 15\n", "");
    let server = Triton::native();
    at_the_same_time(&BOTH_STRATEGIES, |model| {
        let model = server.load(&Own { idle_ms: 20_000, ..Own::like(model) });
        for _ in 0..2 {
            let result = stress(&server, &model, &scenario, 1);
            assert_eq!(result["verdict"], "valid", "{model}: {:#}", result["violations"]);
        }
    });
}

/// Faults that native and Python models have, what each has to be called, and what may come with it.
const MODEL_FAULTS: [(&str, &str, &[&str]); 4] = [
    ("off-by-one", "wrong-sum", &[]),
    ("keep-state", "wrong-sum", &[]),
    ("swap-states", "wrong-sum", &[]),
    ("slow-execution", "lost", &["hang", "stream-not-closed", "pending-left"]),
];

/// A model with a fault, and what the fault has to be called.
#[derive(Clone, Copy)]
struct Broken {
    model: &'static str,
    fault: &'static str,
    /// When the fault is committed, as `--fault` has it behind the name.
    when: &'static str,
    expected: &'static str,
    also: &'static [&'static str],
}

impl Broken {
    fn is_found(&self, server: &Triton) {
        let Self { fault, when, expected, also, .. } = *self;
        let planted = format!("{fault}{when}");
        let parameters = [("fault", planted.as_str()), ("fault_hold_ms", "6000")];
        let model = server.load(&Own { parameters: &parameters, ..Own::like(self.model) });
        // Where every batch is held back a single pass is enough.
        let few = if planted == "slow-execution" { "iterations = 1" } else { "iterations = 12" };
        // What the fault holds back, it holds back for longer than this.
        let soon =
            if expected == "lost" { "lost_after_ms = 2000\nlimits.settle_ms = 1000" } else { "lost_after_ms = 120000" };
        let scenario = FOR_FAULTS.replace("iterations = 12", few).replace("lost_after_ms = 120000", soon);
        let result = stress(server, &model, &scenario, 5);
        let (code, found) = (result["exit_code"].as_i64(), kinds(&result));
        assert!(code == Some(1) && found.contains(expected), "{model} {planted}: {code:?} {found:?}, not {expected}");
        let others: Vec<_> = found.iter().filter(|kind| **kind != expected && !also.contains(kind)).collect();
        assert!(others.is_empty(), "{model} {planted}: {found:?}: {:#}", result["violations"]);
    }
}

/// Each of the faults in models of both strategies.
fn of_both_strategies(when: &'static str) -> Vec<Broken> {
    let both = MODEL_FAULTS
        .map(|(fault, expected, also)| BOTH_STRATEGIES.map(|model| Broken { model, fault, when, expected, also }));
    both.concat()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_native_model_that_is_broken_is_found_and_named() {
    let server = Triton::native();
    at_the_same_time(&of_both_strategies(""), |broken| broken.is_found(&server));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_python_model_that_is_broken_is_found_and_named() {
    let server = Triton::python();
    at_the_same_time(&of_both_strategies(""), |broken| broken.is_found(&server));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_model_that_is_broken_exactly_once_is_found_and_named() {
    let server = Triton::native();
    at_the_same_time(&of_both_strategies(":once@10"), |broken| broken.is_found(&server));
}

/// Faults that native models have alone, where they show, and what each has to be called.
const NATIVE_FAULTS: [(&str, &str, &str); 12] = [
    ("reset-state", "custom_sequence_int32", "wrong-sum"),
    ("execute-twice", "oldest_sequence_int32", "wrong-sum"),
    ("misdeliver", "custom_sequence_int32", "wrong-sum"),
    ("state-not-saved", "implicit_sequence_int32", "wrong-sum"),
    ("state-of-another-slot", "implicit_sequence_int32", "wrong-sum"),
    ("corrid-other", "oldest_sequence_int32", "unexpected-error"),
    ("model-error", "custom_sequence_int32", "unexpected-error"),
    ("drop-response", "custom_sequence_int32", "lost"),
    ("empty-response", "custom_sequence_int32", "wrong-output-name"),
    ("wrong-output-type", "custom_sequence_int32", "wrong-output-type"),
    ("truncate-output", "custom_sequence_int32", "wrong-output-size"),
    ("count-twice", "custom_sequence_int32", "statistics"),
];

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn faults_that_native_models_have_alone_are_found_and_named() {
    let server = Triton::native();
    // A state that the server does not keep shows at the next step of the sequence. One step in twenty is the last one of its sequence.
    // The server commits the fault at some 80 of 400 steps, so the odds that none of these shows are far below 10^-6.
    let when = |fault| if fault == "state-not-saved" { ":0.2" } else { ":once@10" };
    let broken = |(fault, model, expected)| Broken { model, fault, when: when(fault), expected, also: &[] };
    at_the_same_time(&NATIVE_FAULTS.map(broken), |broken| broken.is_found(&server));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_that_does_not_demand_start_is_found_and_named() {
    // The real server always demands it, so a proxy in front of it adds START where it is missing.
    let server = Triton::native();
    let rows = [(AddsStart::Always, u64::MAX), (AddsStart::Once(1), 1)];
    let rows = rows.map(|(when, at_most)| BOTH_STRATEGIES.map(|model| (when, at_most, model))).concat();
    at_the_same_time(&rows, |&(when, at_most, model)| {
        let setup = Setup { adds_start: Some(when), upstream: Some(server.grpc.clone()), ..Setup::default() };
        let proxy = TestServer::start(setup);
        let model = server.load(&Own::like(model));
        let result = server.stress(&model, FOR_FAULTS, &["-r", "5", "-u", &proxy.address.to_string()]);
        assert_eq!(result["exit_code"], 1, "{model} {when:?}");
        assert_eq!(kinds(&result), ["missing-start-error"].into(), "{:#}", result["violations"]);
        let is_few = result["violation_count"].as_u64().is_some_and(|count| count <= at_most);
        assert!(is_few, "{model} {when:?}: {:#}", result["violations"]);
        assert_eq!(result["violation_count"], proxy.starts_added());
    });
}

/// Waits until the server has executed steps of the model.
fn until_steps_are_executed(http: &str, model: &str, pid: &str) {
    let address = http.parse().expect("an address");
    loop {
        let answer = http::ask(address, "GET", &format!("/v2/models/{model}/stats"), &[], b"");
        if answer.json()["model_stats"][0]["inference_count"].as_u64() > Some(100) {
            return;
        }
        assert!(is_running(pid), "{}", answer.text());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_that_dies_in_mid_run_is_a_violation_and_both_tell() {
    // The tool would go on for an hour. `with-triton` ends a tool that hangs, with another exit code.
    let run = format!("echo $TRITON_HTTP; echo $TRITON_PID; exec '{TOOL}' --duration 1h -q");
    let mut child = with_triton(&[], &["bash", "-c", &run]).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    let [http, pid] = [(); 2].map(|()| lines.next().expect("the server starts").expect("UTF-8"));
    drop(lines);
    until_steps_are_executed(&http, "custom_sequence_int32", &pid);
    let killed = Command::new("kill").args(["-SEGV", &pid]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    for expected in ["server-died", "INVALID: 1 violation: 1 server-died", "tritonserver 24.10 was ended by SIGSEGV"] {
        assert!(shown.contains(expected), "{shown}\n  should have {expected}");
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_http_port_is_not_taken_for_the_grpc_port() {
    let server = Triton::native();
    let output = server.run(&["-u", &server.http]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("the endpoint does not speak gRPC"), "{}", text(&output));
}

/// Runs over every transport, all of them at once, and over HTTP alone: none accuses the server, and flaws and codes are as they
/// should be. What 24.10 does wrong after a cancel is left out, and `shared-id`: the END of one sequence may come together with a step of
/// the other (docs/FINDINGS.md).
#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_correct_server_is_not_accused_over_any_transport() {
    let server = Triton::native();
    let patterns = "patterns.common = { valid = 2, valid-valid = 1, no-end = 0.5, no-start = 1, pause = 1, continue-elsewhere = 1, \
        concurrent = 1, restart = 1, burst = 1, after-end = 1, end-twice = 1, malformed = 3, mixed-transports = 1 }\n\
        patterns.rare = { valid = 1 }\nlength.max = 12\n";
    let scenario = format!("{SHORT}{patterns}");
    let over_http = format!("http://{}", server.http);
    let ways: [&[&str]; 4] = [
        &["--transport", "grpc-unary"],
        &["--transport", "http"],
        &["--transport", "http-binary"],
        &["-u", &over_http],
    ];
    let mut rows = BOTH_STRATEGIES.map(|model| ways.map(|way| (model, way, &*scenario))).concat();
    let mixed = BUILTIN.iter().find(|builtin| builtin.name == "mixed-transports").expect("there is such a scenario");
    rows.push((BOTH_STRATEGIES[0], &[], mixed.text));
    at_the_same_time(&rows, |(model, way, scenario)| {
        let model = server.load(&Own::like(model).shape(2, 4));
        let result = server.stress(&model, scenario, &[&["-r", "7"], *way].concat());
        let verdict = (result["exit_code"].as_i64(), result["verdict"].as_str());
        assert_eq!(verdict, (Some(0), Some("valid")), "{model} {way:?}: {:#}", result["violations"]);
    });
}

fn is_running(pid: &str) -> bool {
    fs::metadata(format!("/proc/{}", pid.trim())).is_ok()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn with_triton_passes_the_exit_code_on_and_stops_the_server_whatever_happens() {
    let ends = |options: &[&str], script: &str, code: i32| {
        let output = with_triton(options, &["sh", "-c", script]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(!is_running(&String::from_utf8_lossy(&output.stdout)), "{}", text(&output));
    };
    let is_ended_by = |signal: &str, code: i32| {
        // Without `exec`, dash loses an interrupt that comes while it starts `sleep`.
        let mut child = with_triton(&[], &["sh", "-c", "echo $TRITON_PID; exec sleep 600"]).spawn().expect("it runs");
        let mut server = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut server).expect("the server's pid");
        assert!(is_running(&server));
        Command::new("kill").arg(signal).arg(child.id().to_string()).status().expect("kill runs");
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        assert!(!is_running(&server), "{signal}");
    };
    // The end of the server is the subject, so each case has a server of its own.
    let cases: [&(dyn Fn() + Sync); 5] = [
        &|| ends(&[], "echo $TRITON_PID; exit 7", 7),
        &|| ends(&["--time-limit", "1"], "echo $TRITON_PID; sleep 600", 124),
        &|| is_ended_by("-INT", 130),
        &|| is_ended_by("-TERM", 143),
        &|| {
            assert_eq!(
                with_triton(&["--release", "20.01"], &["true"]).output().expect("it runs").status.code(),
                Some(2)
            );
        },
    ];
    at_the_same_time(&cases, |case| case());
}

/// Runs with a history, checks it again, and returns both results.
fn record_and_check(server: &Triton, model: &str, scenario: &str) -> [Value; 2] {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [history, checked] = ["h.jsonl.zst", "check"].map(path);
    let run = server.stress(model, scenario, &["-r", "11", "--history", &history]);
    let output = server.run(&["check", "-q", &history, "--json", &checked]);
    let check = fs::read_to_string(&checked).unwrap_or_else(|error| panic!("{error}\n{}", text(&output)));
    [run, serde_json::from_str(&check).expect("JSON")]
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_history_of_a_run_checks_offline_to_the_same_verdict() {
    let server = Triton::native();
    let wrong = [("fault", "off-by-one:once@200")];
    let rows = [(&[][..], SHORT, "valid"), (&wrong[..], FOR_FAULTS, "invalid")];
    at_the_same_time(&rows, |(parameters, scenario, verdict)| {
        let model = server.load(&Own { parameters, ..Own::like("custom_sequence_int32") });
        let [run, check] = record_and_check(&server, &model, scenario);
        assert_eq!(run["verdict"], *verdict, "{:#}", run["violations"]);
        assert_eq!(run["history"]["lost"], 0);
        for key in ["verdict", "exit_code", "outcomes", "patterns", "violations", "server_counts", "latency_us"] {
            assert_eq!(run[key], check[key], "{key}");
        }
    });
}

/// Runs the scenario of cancelled streams on few slots whose state the server keeps; what each violation is put down to first.
fn cancel(server: &Triton, seed: u32) -> (BTreeSet<String>, Value) {
    let own = Own { idle_ms: 300, execute_ms: 20, ..Own::like("implicit_dyna_sequence_int32").shape(1, 2) };
    let scenario = fs::read_to_string("scenarios/cancellation.toml").expect("a scenario of this project");
    let result = stress(server, &server.load(&own), &scenario, seed);
    let violations = result["violations"].as_array().expect("a list").iter();
    let first =
        violations.map(|violation| violation["explanations"][0]["cause"].as_str().unwrap_or("nothing").to_owned());
    (first.collect(), result)
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_release_that_gives_cancelled_slots_away_twice_is_found() {
    // The double release is a race, which 20 runs of 20 had. So fewer than 14 of 100 runs miss it (with a confidence of 95 %), and all
    // of these eight fewer than 2 times in 10 million.
    // A server of another release is another server.
    let options = ["--exit-timeout-secs=2", "--strict-readiness=false"].map(|word| format!("--server-arg={word}"));
    let server = Triton::start(&["--release", "24.03", "--explicit", &options[0], &options[1]]);
    let seeds: Vec<u32> = (1..=RACES).collect();
    let found = Mutex::new(Vec::new());
    at_the_same_time(&seeds, |seed| {
        let (causes, result) = cancel(&server, *seed);
        assert_eq!(result["exit_code"], i32::from(!causes.is_empty()), "{result:#}");
        found.lock().expect("no thread panics with it").push(causes);
    });
    let found = found.into_inner().expect("all threads are done");
    assert!(found.iter().any(|causes| causes.contains("shared-state")), "{found:?}");
    server.stop();
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn texts_that_are_cut_at_a_nul_are_found() {
    let server = Triton::native();
    let model = server.load(&Own { execute_ms: 1, ..Own::like("custom_sequence_int32").shape(2, 4) });
    let scenario =
        |name: &str| fs::read_to_string(format!("scenarios/{name}.toml")).expect("a scenario of this project");
    let cut = stress(&server, &model, &scenario("correlation-id-nul"), 1);
    assert_eq!(cut["verdict"], "invalid", "{cut:#}");
    assert!(cut["violations_by_kind"]["wrong-sum"].as_u64() > Some(10), "{:#}", cut["violations_by_kind"]);
    // Other texts that are nearly the same it tells apart.
    for name in ["correlation-id-pairs-text", "correlation-id-pairs"] {
        let whole = stress(&server, &model, &scenario(name), 1);
        assert_eq!(whole["verdict"], "valid", "{name}: {whole:#}");
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_release_that_does_not_give_cancelled_slots_away_twice_is_not_accused_of_it() {
    // This release may lose slots behind a cancel. Once in some 300 runs the state of a cancelled sequence reaches the next one of its slot
    // (docs/FINDINGS.md), and three of these four have it less often than once in a million times. Of a release that gives slots away
    // twice all four would have it.
    let accused = Mutex::new(Vec::new());
    at_the_same_time(&[1, 2, 3, 4], |seed| {
        let (causes, result) = cancel(&Triton::native(), *seed);
        assert_eq!(result["exit_code"], i32::from(!causes.is_empty()), "{result:#}");
        if causes.iter().any(|cause| cause != "slot-leak") {
            accused.lock().expect("no thread panics with it").push((causes, result["violations"].clone()));
        }
    });
    let accused = accused.into_inner().expect("all threads are done");
    assert!(accused.len() < 3, "{accused:#?}");
}
