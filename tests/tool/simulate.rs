//! Runs in virtual time: they are the same for the same seed, correct servers are never accused, and planted faults are found.

use std::{fs, path::Path};
#[cfg(unix)]
use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

#[cfg(unix)]
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::support::tool::{run, text, told, tool, words};

/// What `simulate` says with these flags, and the document that it writes.
fn simulated(folder: &Path, flags: &[&str]) -> (Option<i32>, String, Value) {
    let json = folder.join("simulated.json");
    let (code, said) = told(&[&["simulate", "--json", words(&json)], flags].concat());
    let document = fs::read(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    (code, said, serde_json::from_slice(&document).expect("JSON"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_correct_server_is_accused_by_no_scenario_of_the_suite() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, said, document) = simulated(folder.path(), &["--suite", "--seeds", "1..3", "-i", "12"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("no violation"), "{said}");
    let scenarios = document["scenarios"].as_array().expect("a list");
    assert_eq!(scenarios.len(), 25, "{said}");
    for scenario in scenarios {
        assert_eq!(number(&scenario["seeds"]), 3, "{scenario}");
        assert!(number(&scenario["requests"]) > 100 && number(&scenario["simulated_us"]) > 100_000, "{scenario}");
    }
    assert!(!said.contains("is left out"), "{said}");
    let schema = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/simulation.schema.json")).expect("the schema");
    let schema = serde_json::from_slice(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let problems: Vec<_> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn models_of_each_kind_are_simulated() {
    for model in [
        "implicit_sequence_int32",
        "oldest_sequence_int64",
        "decoupled_sequence_int32",
        "custom_sequence_float32",
        "implicit_dyna_sequence_int32",
        "decoupled_oldest_sequence_int32",
        "iterative_sequence_int32",
    ] {
        let (code, said) = told(&["simulate", "-m", model, "--seeds", "1..2", "-i", "20", "-q"]);
        assert_eq!(code, Some(0), "{model}: {said}");
    }
}

#[test]
fn a_seed_gives_the_same_to_the_byte_whatever_the_number_of_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<_> = [1, 2].map(|number| folder.path().join(format!("failure-{number}.toml"))).into();
    let flags = |file: &Path, jobs: &'static str| {
        let flags = ["simulate", "--seeds", "1..6", "-i", "30", "--fault", "out-of-order:0.002", "--jobs", jobs];
        let output = run(&[&flags[..], &["--failure", words(file)]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let said = [flags(&files[0], "1"), flags(&files[1], "4")];
    assert_eq!(said[0], said[1]);
    let written: Vec<_> = files.iter().map(|file| fs::read_to_string(file).expect("a failure")).collect();
    assert_eq!(written[0], written[1]);
}

#[test]
fn a_counterexample_is_a_failure_as_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let failure = folder.path().join("failure.toml");
    let flags =
        ["simulate", "--seeds", "1..9", "-i", "30", "--fail-fast", "--jobs", "1", "--fault", "keep-state:once@5"];
    let (code, said) = told(&[&flags[..], &["--failure", words(&failure)]].concat());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("replay: sequence-stress simulate --seeds "), "{said}");
    let kept = fs::read_to_string(&failure).expect("a failure");
    assert!(kept.contains("keep-state:once@"), "{kept}");
    // The same is sent to a server with sockets and threads, and it fails there, too.
    let (code, said) = told(&["replay", words(&failure), "-q"]);
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn minutes_pass_in_no_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--scenario", "idle-boundary", "--seeds", "1..2", "--idle-limit", "5m"];
    let (code, said, document) = simulated(folder.path(), &flags);
    assert_eq!(code, Some(0), "{said}");
    let simulated = number(&document["scenarios"][0]["simulated_us"]);
    assert!(simulated > 3_600_000_000, "{simulated} us");
}

#[test]
fn leaked_slots_and_lost_responses_are_found_after_and_during_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    for (fault, kind) in [
        ("leak-slot-at-end:once@9", "slot-leak"),
        ("leak-slot-at-end:0.01", "slot-leak"),
        ("double-release:once@9", "slot-released-twice"),
        ("hang-instance:once@99", "lost"),
        ("off-by-one:once@99", "wrong-sum"),
    ] {
        let (code, said, document) = simulated(folder.path(), &["--seeds", "1..1", "-i", "30", "--fault", fault, "-q"]);
        assert_eq!(code, Some(1), "{fault}: {said}");
        let scenario = &document["scenarios"][0];
        assert!(scenario["violations_by_kind"][kind].is_u64(), "{fault}: {scenario}");
        let planted = &scenario["planted_faults"][0];
        assert_eq!([&planted["seeds"], &planted["found"]].map(number), [1, 1], "{fault}");
        assert!(number(&planted["committed"]) > 0, "{fault}: {planted}");
    }
}

#[test]
fn a_claim_that_no_seed_reaches_makes_the_verdict_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("claims.toml");
    let with = |least: u32| {
        let text = format!("load = {{ workers = 4, iterations = 20 }}\nclaims.reuse-of-an-id = {least}");
        fs::write(&scenario, text).expect("it is written");
        simulated(folder.path(), &["--scenario", words(&scenario), "--seeds", "1..2"])
    };
    let (code, said, document) = with(100_000);
    assert_eq!((code, &document["scenarios"][0]["claims_missed"]["reuse-of-an-id"]), (Some(3), &2.into()), "{said}");
    assert!(said.contains("no seed reached reuse-of-an-id") && said.contains("was not reached in 2 seeds"), "{said}");
    let (code, said, document) = with(1);
    assert_eq!(
        (code, document["scenarios"][0]["claims_missed"].as_object().map(serde_json::Map::len)),
        (Some(0), Some(0)),
        "{said}"
    );
}

#[test]
fn what_is_told_does_not_depend_on_how_many_seeds_are_simulated_at_a_time() {
    let with = |jobs: &str, more: &[&str]| {
        let flags = ["simulate", "--seeds", "1..30", "-i", "20", "--fault", "double-release:0.002", "--jobs", jobs];
        run(&[&flags[..], more].concat())
    };
    for more in [&["--fail-fast"][..], &[]] {
        let told = |jobs| {
            let output = with(jobs, more);
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let one = told("1");
        assert_eq!(one.0, Some(1), "{}", one.1);
        assert_eq!(told("7"), one, "{more:?}");
    }
}

#[test]
fn iterations_that_do_not_begin_when_due_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("rate.toml");
    fs::write(&scenario, "load = { workers = 2, rate = '500/s', duration_s = 2 }").expect("it is written");
    let (code, said, document) = simulated(folder.path(), &["--scenario", words(&scenario), "--seeds", "1"]);
    let of = &document["scenarios"][0];
    let (begun, not_begun) = (number(&of["iterations"]), number(&of["iterations_not_begun"]));
    assert_eq!((code, begun + not_begun), (Some(0), 1000), "{said}");
    assert!(said.contains(&format!("{not_begun} iterations did not begin when due")), "{said}");
}

#[test]
fn what_cannot_be_simulated_is_told_in_a_line() {
    for (flags, why) in [
        (&["--scenario", "no-such-scenario"][..], "no-such-scenario"),
        (&["--scenario", "model-versions"], "--versions N"),
        (&["--fault", "drop-response"], "plant it in a run (--embedded)"),
        (&["--fault", "no-such-fault"], "there is no fault"),
        (&["--seeds", "9..1"], "the first seed is above the last"),
        (&["--seeds", "some"], "give the first and the last seed"),
        (&["-m", "no_such_model"], "no_such_model"),
        (&["-m", "bls_sequence_int32"], "made of other models"),
        (&["-m", "gru_float32"], "follows from no formula"),
        (&["--suite", "--scenario", "soak"], "cannot be used with"),
        (&["--like", "25.01"], "unexpected argument '--like'"),
        (&["--json", "/no/such/folder/file"], "cannot write the result"),
    ] {
        let (code, said) = told(&[&["simulate"], flags].concat());
        assert_eq!(code, Some(2), "{flags:?}: {said}");
        assert!(said.contains(why), "{flags:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{flags:?}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_what_is_known() {
    let mut child = tool()
        .args(["simulate", "--seeds", "1..1000000000", "-i", "1", "--jobs", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut begun = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut begun).expect("text");
    assert!(begun.contains("seeds 1..1000000000 of 1 scenario"), "{begun}");
    let pid = Pid::from_raw(child.id().try_into().expect("a process ID"));
    kill(pid, Signal::SIGINT).expect("the process is there");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("UNKNOWN: interrupted"), "{said}");
}
