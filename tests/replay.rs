//! Failures that are had again, and made small.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use sequence_stress::failure::Failure;
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sequence-stress"))
        .args(arguments)
        .env_remove("SEQUENCE_STRESS_URL")
        .output()
        .expect("the command runs")
}

fn words(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// A failure that a fault in the embedded server leads to, written by a run.
fn failure(folder: &TempDir, fault: &str) -> PathBuf {
    let scenario = folder.path().join("scenario.toml");
    let quick = "patterns.common = { valid = 7, valid-valid = 1, no-end = 1, no-start = 1 }\nload.workers = 4\nload.iterations = 20\nlimits.step_ms = 1\nlimits.quiet_ms = 20\nlimits.settle_ms = 300";
    fs::write(&scenario, quick).expect("a file");
    let path = folder.path().join("failure.toml");
    let server = ["--embedded", "--execution-time", "1ms", "--idle-limit", "100ms", "--fault", fault];
    let run_of = ["--scenario", words(&scenario), "-r", "7", "-q", "--fail-fast", "--failure", words(&path)];
    let output = run(&[&server[..], &run_of].concat());
    assert_eq!(output.status.code(), Some(1), "{fault}: {}", text(&output));
    path
}

#[test]
fn failures_shrink_to_the_few_messages_that_they_need() {
    for (fault, most) in [
        ("execute-twice", 1),
        ("off-by-one", 1),
        ("reset-state", 2),
        ("refuse-mid-sequence", 2),
        ("keep-state", 3),
        ("swap-states", 9),
        ("accept-no-start", 3),
    ] {
        let folder = TempDir::new().expect("a folder");
        let path = failure(&folder, fault);
        let whole = Failure::read(&path).expect("a failure");
        let output = run(&["replay", words(&path), "--shrink"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{fault}: {said}");
        assert!(said.contains("without any one of them it goes"), "{fault}: {said}");
        let small = folder.path().join("failure.small.toml");
        let left = Failure::read(&small).expect("a failure");
        assert!(left.messages() <= most && left.messages() < whole.messages(), "{fault}: {said}");
        assert_eq!(left.kind, whole.kind, "{fault}");
        let again = run(&["replay", words(&small), "-n", "5"]);
        assert_eq!(again.status.code(), Some(1), "{fault}: {}", text(&again));
        assert!(text(&again).contains("run 5 of 5"), "{fault}: {}", text(&again));
    }
}

#[test]
fn a_failure_does_not_show_on_a_correct_server() {
    let folder = TempDir::new().expect("a folder");
    let path = failure(&folder, "reset-state");
    let mended = fs::read_to_string(&path).expect("a file").replace("--fault reset-state", "--fault reset-state:0");
    fs::write(&path, mended).expect("a file");
    let output = run(&["replay", words(&path), "-n", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("wrong-sum again in 0 of 2 runs"), "{}", text(&output));
    let output = run(&["replay", words(&path), "--shrink", "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("did not show again"), "{}", text(&output));
}

#[test]
fn what_cannot_be_replayed_is_told_in_a_line() {
    let folder = TempDir::new().expect("a folder");
    let path = failure(&folder, "reset-state");
    let good = fs::read_to_string(&path).expect("a file");
    for (from, to, problem) in [
        ("--fault reset-state", "--fault nothing", "its embedded server"),
        ("send 0 START", "send 0 STRAT", "is no act"),
        ("version = 1", "version = 9", "its version is 9"),
    ] {
        let broken = folder.path().join("broken.toml");
        fs::write(&broken, good.replace(from, to)).expect("a file");
        let output = run(&["replay", words(&broken)]);
        let said = text(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(problem), "{said}");
    }
    for arguments in [&["replay", "no/such/file"][..], &["replay", words(&path), "--shrink", "-o", "/no/such/folder/x"]]
    {
        let output = run(arguments);
        assert_eq!((output.status.code(), text(&output).lines().count()), (Some(2), 1), "{}", text(&output));
    }
    let nobody = run(&["replay", words(&path), "-u", "127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(4), "{}", text(&nobody));
}
