//! The tool against the real tritonserver: a correct model is not accused, a broken one is, and the scripts keep their word.

mod support;

use std::{
    collections::BTreeSet,
    fs,
    process::Command,
    time::{Duration, Instant},
};

use sequence_stress::scenario::BUILTIN;
use serde_json::Value;
use support::{
    AddsStart, Setup, TestServer,
    triton::{Triton, text, with_triton},
};
use tempfile::TempDir;

const TOOL: &str = env!("CARGO_BIN_EXE_sequence-stress");

/// Models that one server serves, and what `with-triton` has to be told for it.
#[derive(Clone, Copy, Debug)]
struct Models {
    names: &'static [&'static str],
    options: &'static [&'static str],
}

const BOTH_STRATEGIES: &[&str] = &["custom_sequence_int32", "oldest_sequence_int32"];
const NATIVE: Models = Models { names: BOTH_STRATEGIES, options: &[] };
const PYTHON: Models = Models { names: BOTH_STRATEGIES, options: &["--python"] };
/// Those whose state the server keeps.
const IMPLICIT: Models = Models {
    names: &["implicit_sequence_int32", "implicit_initial_sequence_int32", "implicit_dyna_sequence_int32"],
    options: &[],
};

/// The L0 scenario with fewer passes, too few for what it claims; for broken models with more no-starts and a shorter wait for what is lost.
const SHORT: &str = "load.iterations = 15\nlimits.quiet_ms = 200\nclaims = {}\n";
const FOR_FAULTS: &str = "load.workers = 4\nload.iterations = 12\nlength.max = 20\nlimits.step_ms = 10\nlimits.lost_after_ms = 2000\n\
    limits.quiet_ms = 200\nlimits.settle_ms = 1000\n\
    patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 1 }\n";

/// Runs the tool on all the models of one server, and returns the exit codes and the results.
fn stress(models: Models, options: &[&str], scenario: &str, seed: u32) -> Vec<(i64, Value)> {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("scenario.toml"), scenario).expect("a file");
    let run = |model: &&str| {
        format!("'{TOOL}' --scenario '{}' -r {seed} -q -m {model} --json '{}'; ", path("scenario.toml"), path(model))
    };
    let runs: String = models.names.iter().map(run).collect();
    let options = [models.options, options].concat();
    let output = with_triton(&options, &["sh", "-c", &runs]).output().expect("it runs");
    let result = |model: &str| {
        let json =
            fs::read_to_string(path(model)).unwrap_or_else(|error| panic!("{model}: {error}\n{}", text(&output)));
        let result: Value = serde_json::from_str(&json).expect("JSON");
        (result["exit_code"].as_i64().expect("a number"), result)
    };
    models.names.iter().copied().map(result).collect()
}

fn kinds(result: &Value) -> BTreeSet<&str> {
    result["violations_by_kind"].as_object().expect("an object").keys().map(String::as_str).collect()
}

#[track_caller]
fn assert_valid(models: Models, options: &[&str], seed: u32) {
    for (model, (code, result)) in models.names.iter().zip(stress(models, options, SHORT, seed)) {
        assert_eq!(
            (code, &result["verdict"]),
            (0, &Value::from("valid")),
            "{model} {models:?} {options:?}: {:#}",
            result["violations"]
        );
        assert_eq!(result["server_counts"]["result"], "agrees", "{:#}", result["server_counts"]);
        assert_eq!(result["slots_check"]["result"], "all-there", "{model} {options:?}: {:#}", result["slots_check"]);
        // Release 23.04 does not count pending requests.
        let pending = if options.contains(&"23.04") { "not-checked" } else { "none" };
        assert_eq!(result["pending_requests"]["result"], pending, "{:#}", result["pending_requests"]);
        assert!(result["outcomes"]["completed"].as_u64() > Some(1000), "{:#}", result["outcomes"]);
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_one_instance_of_batch_4() {
    assert_valid(NATIVE, &["--shape", "1x4"], 1);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_two_instances_of_batch_2() {
    assert_valid(NATIVE, &["--shape", "2x2"], 2);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_four_instances_of_batch_1() {
    assert_valid(NATIVE, &["--shape", "4x1"], 3);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_where_the_server_keeps_the_state() {
    assert_valid(IMPLICIT, &["--shape", "1x4"], 4);
    assert_valid(IMPLICIT, &["--shape", "2x2"], 5);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_older_releases() {
    for (release, seed) in [("24.03", 6), ("23.04", 7)] {
        assert_valid(NATIVE, &["--release", release], seed);
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn l0_is_valid_on_the_python_backend() {
    assert_valid(PYTHON, &["--shape", "1x4"], 8);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_run_behind_a_run_whose_sequences_still_live_is_valid() {
    // The idle limit is longer than the first run, so that all its no-ends are there when the second one starts.
    let scenario = format!(
        "{SHORT}slots.check = false\nload.workers = 2\nload.iterations = 4\npatterns.common = {{ no-end = 1, valid-no-end = 1 }}\n\
        contexts = {{ common = 2, rare = 0, rare_probability = 0 }}"
    )
    .replace("load.iterations = 15\n", "");
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("scenario.toml");
    fs::write(&path, scenario).expect("a file");
    for model in BOTH_STRATEGIES {
        let run = format!("'{TOOL}' --scenario '{}' -r 1 -q -m {model}", path.display());
        let both = format!("{run} && {run}");
        let output = with_triton(&["--idle-limit-ms", "20000"], &["sh", "-c", &both]).output().expect("it runs");
        assert!(output.status.success(), "{model}: {}", text(&output));
        assert_eq!(text(&output).matches("VALID").count(), 2, "{model}: {}", text(&output));
    }
}

/// Faults that native and Python models have, what each has to be called, and what may come with it.
const MODEL_FAULTS: [(&str, &str, &[&str]); 4] = [
    ("off-by-one", "wrong-sum", &[]),
    ("keep-state", "wrong-sum", &[]),
    ("swap-states", "wrong-sum", &[]),
    ("slow-execution", "lost", &["hang", "stream-not-closed", "pending-left"]),
];

fn assert_found(models: Models, fault: &str, expected: &str, also: &[&str], scenario: &str) {
    // A server whose sequences were cut in the middle takes its whole time to exit.
    let hold = ["--fault", fault, "--fault-hold-ms", "6000", "--server-arg=--exit-timeout-secs=2"];
    for (model, (code, result)) in models.names.iter().zip(stress(models, &hold, scenario, 5)) {
        let found = kinds(&result);
        assert!(code == 1 && found.contains(expected), "{model} {fault}: {code} {found:?}, not {expected}");
        assert!(found.iter().all(|kind| *kind == expected || also.contains(kind)), "{model} {fault}: {found:?}");
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_model_that_is_broken_is_found_and_named() {
    for (fault, expected, also) in MODEL_FAULTS {
        // Where every batch is held back a single pass is enough.
        let few = FOR_FAULTS.replace("iterations = 12", "iterations = 1");
        let scenario = if fault == "slow-execution" { &few } else { FOR_FAULTS };
        for models in [NATIVE, PYTHON] {
            assert_found(models, fault, expected, also, scenario);
        }
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_model_that_is_broken_exactly_once_is_found_and_named() {
    for (fault, expected, also) in MODEL_FAULTS {
        assert_found(NATIVE, &format!("{fault}:once@10"), expected, also, FOR_FAULTS);
    }
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
    for (fault, model, expected) in &NATIVE_FAULTS {
        let models = Models { names: std::slice::from_ref(model), options: &[] };
        assert_found(models, &format!("{fault}:once@10"), expected, &[], FOR_FAULTS);
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_that_does_not_demand_start_is_found_and_named() {
    // The real server always demands it, so a proxy in front of it adds START where it is missing.
    let server = Triton::start(&[]);
    for (when, at_most) in [(AddsStart::Always, u64::MAX), (AddsStart::Once(1), 1)] {
        for model in BOTH_STRATEGIES {
            let adds_start = Some(when);
            let proxy =
                TestServer::start(Setup { adds_start, upstream: Some(server.grpc.clone()), ..Setup::default() });
            let folder = TempDir::new().expect("a folder");
            let (scenario, json) = (folder.path().join("scenario.toml"), folder.path().join("result.json"));
            fs::write(&scenario, FOR_FAULTS).expect("a file");
            let run = Command::new(TOOL)
                .args(["-q", "-r", "5", "-m", model, "-u", &proxy.address.to_string()])
                .arg("--scenario")
                .arg(&scenario)
                .arg("--json")
                .arg(&json)
                .output()
                .expect("it runs");
            assert_eq!(run.status.code(), Some(1), "{}", text(&run));
            let result: Value = serde_json::from_str(&fs::read_to_string(&json).expect("a file")).expect("JSON");
            assert_eq!(kinds(&result), ["missing-start-error"].into(), "{:#}", result["violations"]);
            assert!(
                result["violation_count"].as_u64().is_some_and(|count| count <= at_most),
                "{:#}",
                result["violations"]
            );
            assert_eq!(result["violation_count"], proxy.starts_added());
        }
    }
    server.stop();
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_that_dies_in_mid_run_is_a_violation_and_both_tell() {
    let run = format!("'{TOOL}' --duration 1m -q & tool=$!; sleep 4; kill -SEGV $TRITON_PID; wait $tool");
    let began = Instant::now();
    let output = with_triton(&[], &["bash", "-c", &run]).output().expect("it runs");
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    for expected in
        ["violation server-died", "INVALID: 1 violation: 1 server-died", "tritonserver 24.10 was ended by SIGSEGV"]
    {
        assert!(shown.contains(expected), "{shown}\n  should have {expected}");
    }
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_http_port_is_not_taken_for_the_grpc_port() {
    let output = with_triton(&[], &["sh", "-c", &format!("'{TOOL}' -u $TRITON_HTTP")]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("does not speak the inference protocol over gRPC"), "{}", text(&output));
}

/// Runs over every transport, all of them at once, and over HTTP alone: none accuses the server, and flaws and codes are as they
/// should be. What 24.10 does wrong after a cancel is left out.
#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_correct_server_is_not_accused_over_any_transport() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("scenario.toml");
    let patterns = "patterns.common = { valid = 2, valid-valid = 1, no-end = 0.5, no-start = 1, pause = 1, continue-elsewhere = 1, \
        concurrent = 1, restart = 1, burst = 1, after-end = 1, end-twice = 1, shared-id = 1, malformed = 3, mixed-transports = 1 }\n\
        patterns.rare = { valid = 1 }\nlength.max = 12\n";
    fs::write(&path, format!("{SHORT}{patterns}")).expect("a file");
    let run = |words: &str, model: &str| {
        format!("'{TOOL}' --scenario '{}' -r 7 -q -m {model} {words} || exit 1; ", path.display())
    };
    let flags = ["--transport grpc-unary", "--transport http", "--transport http-binary", "-u http://$TRITON_HTTP"];
    let runs: String = BOTH_STRATEGIES.iter().flat_map(|model| flags.map(|flag| run(flag, model))).collect();
    let mixed = format!("'{TOOL}' --scenario mixed-transports -r 7 -q");
    let output = with_triton(&["--shape", "2x4"], &["sh", "-c", &format!("{runs} {mixed}")]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(text(&output).matches("VALID").count(), 2 * flags.len() + 1, "{}", text(&output));
}

fn is_running(pid: &str) -> bool {
    fs::metadata(format!("/proc/{}", pid.trim())).is_ok()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn with_triton_passes_the_exit_code_on_and_stops_the_server_whatever_happens() {
    let output = with_triton(&[], &["sh", "-c", "echo $TRITON_PID; exit 7"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output));
    assert!(!is_running(&String::from_utf8_lossy(&output.stdout)), "{}", text(&output));

    let output =
        with_triton(&["--time-limit", "1"], &["sh", "-c", "echo $TRITON_PID; sleep 60"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(124), "{}", text(&output));
    assert!(!is_running(&String::from_utf8_lossy(&output.stdout)), "{}", text(&output));

    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut child = with_triton(&[], &["sh", "-c", "echo $TRITON_PID; sleep 60"]).spawn().expect("it runs");
        let mut server = String::new();
        let out = child.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut server).expect("the server's pid");
        assert!(is_running(&server));
        Command::new("kill").arg(signal).arg(child.id().to_string()).status().expect("kill runs");
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        assert!(!is_running(&server), "{signal}");
    }
    let output = with_triton(&["--release", "20.01"], &["true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

/// Runs with a history, checks it again, and returns both exit codes and both results.
fn record_and_check(options: &[&str], scenario: &str) -> [Value; 2] {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("scenario.toml"), scenario).expect("a file");
    let command = format!(
        "'{TOOL}' --scenario '{}' -r 11 -q -m custom_sequence_int32 --history '{}' --json '{}'; \
         '{TOOL}' check -q '{}' --json '{}'",
        path("scenario.toml"),
        path("h.jsonl.zst"),
        path("run"),
        path("h.jsonl.zst"),
        path("check")
    );
    let output = with_triton(options, &["sh", "-c", &command]).output().expect("it runs");
    ["run", "check"].map(|name| {
        let json = fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}\n{}", text(&output)));
        serde_json::from_str(&json).expect("JSON")
    })
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_history_of_a_run_checks_offline_to_the_same_verdict() {
    for (options, scenario, verdict) in
        [(&[][..], SHORT, "valid"), (&["--fault", "off-by-one:once@200"], FOR_FAULTS, "invalid")]
    {
        let [run, check] = record_and_check(options, scenario);
        assert_eq!(run["verdict"], verdict, "{:#}", run["violations"]);
        assert_eq!(run["history"]["lost"], 0);
        for key in ["verdict", "exit_code", "outcomes", "patterns", "violations", "server_counts", "latency_us"] {
            assert_eq!(run[key], check[key], "{key}");
        }
    }
}

/// Runs the scenario of cancelled streams on few slots whose state the server keeps; what each violation is put down to first.
fn cancel(release: &str, seed: u32) -> (BTreeSet<String>, Value) {
    const MODEL: Models = Models { names: &["implicit_dyna_sequence_int32"], options: &[] };
    const FEW_SLOTS: &[&str] = &["--shape", "1x2", "--idle-limit-ms", "300", "--execute-delay-ms", "20"];
    let scenario = fs::read_to_string("scenarios/cancellation.toml").expect("a scenario of this project");
    let options = [FEW_SLOTS, &["--release", release]].concat();
    let (_, result) = stress(MODEL, &options, &scenario, seed).remove(0);
    let violations = result["violations"].as_array().expect("a list").iter();
    let first =
        violations.map(|violation| violation["explanations"][0]["cause"].as_str().unwrap_or("nothing").to_owned());
    (first.collect(), result)
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_release_that_gives_cancelled_slots_away_twice_is_found_and_the_one_that_does_not_is_not_accused() {
    // It takes a race, which nearly every run has.
    let is_found = |(causes, _): &(BTreeSet<String>, Value)| causes.contains("shared-state");
    let mut runs = (1..=3).map(|seed| cancel("24.03", seed));
    let first = runs.next().expect("three");
    let (causes, result) = if is_found(&first) { first } else { runs.find(is_found).unwrap_or(first) };
    assert!(causes.contains("shared-state"), "{causes:?} {result:#}");
    assert_eq!(result["exit_code"], 1);
    // That one may lose slots behind a cancel (docs/FINDINGS.md), and must be accused of nothing else.
    let (causes, result) = cancel("24.10", 1);
    assert!(causes.iter().all(|cause| cause == "slot-leak"), "{causes:?} {result:#}");
    assert_eq!(result["exit_code"], i32::from(!causes.is_empty()), "{result:#}");
}

/// What 24.10 itself does wrong behind a cancel (docs/FINDINGS.md), so that nobody can say what these come to.
const CANCELS: [&str; 2] = ["cancellation", "cancel-restart"];

/// Runs these scenarios of the suite, and returns which were skipped, and why.
fn skipped(model: &str, options: &[&str], names: &[&str]) -> Vec<(String, String)> {
    // A suite takes up to five minutes.
    let options = [&["--shape", "2x4", "--idle-limit-ms", "200", "--time-limit", "600"][..], options].concat();
    let command = [TOOL, "suite", "-q", "-m", model, "-r", "5", "--only", &names.join(",")];
    let output = with_triton(&options, &command).output().expect("it runs");
    let told = text(&output);
    assert!(output.status.success(), "{model}: {told}");
    let is_skipped = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let why = rest.trim_start().strip_prefix("skipped")?;
        Some((name.to_owned(), why.trim().to_owned()))
    };
    told.lines().filter_map(is_skipped).collect()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_suite_is_valid_and_skips_what_the_server_cannot_do() {
    let names = |skipped: &[(String, String)]| skipped.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let suite = BUILTIN.iter().filter(|builtin| builtin.in_suite && !CANCELS.contains(&builtin.name));
    let suite: Vec<_> = suite.map(|builtin| builtin.name).collect();
    let oldest = skipped("oldest_sequence_int32", &["--explicit", "--server-arg=--load-model=*"], &suite);
    assert_eq!(names(&oldest), ["correlation-id-routing-text"], "{oldest:?}");
    assert!(oldest[0].1.contains("is told correlation IDs as integers"), "{oldest:?}");
    // What asks for more than requests; a server that loads its models by itself loads none when it is asked to.
    let asks_for_more =
        ["correlation-id-routing-text", "slot-exhaustion", "idle-boundary", "strategy-switch", "server-restart"];
    let custom = skipped("custom_sequence_int32", &[], &asks_for_more);
    assert_eq!(names(&custom), ["strategy-switch"], "{custom:?}");
}
