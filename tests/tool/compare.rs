//! What differs between runs by more than noise.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::support::tool::{told, tool, words};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A load that needs no idle limit and nothing after the run.
const SCENARIO: &str = "
[contexts]
common = 2
rare = 0
rare_probability = 0.0
[patterns]
common = { valid = 1.0 }
[limits]
quiet_ms = 20
[slots]
check = false
";

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// The result of a short run, as if it had been a minute long, with latencies that are so many times as long.
fn long_result(folder: &TempDir, name: &str, result: &Value, factor: f64) -> PathBuf {
    let mut result = result.clone();
    let mut row = result["series"][0].clone();
    let seconds = 60;
    let rows = (0..seconds).map(|at| {
        row["at_s"] = json!(at);
        for key in ["step_mean_us", "step_p50_us", "step_p99_us"] {
            let us = 10_000.0 * factor * if at % 3 == 0 { 1.02 } else { 0.99 };
            row[key] = json!(us.round());
        }
        row.clone()
    });
    (result["series"], result["elapsed_s"]) = (rows.collect(), json!(f64::from(seconds)));
    let path = folder.path().join(name);
    fs::write(&path, result.to_string()).expect("a file");
    path
}

fn short_result(folder: &TempDir) -> Value {
    let path = folder.path().join("short.json");
    let (code, text) = told(&["--embedded", "-i5", "-r1", "--json", words(&path)]);
    assert_eq!(code, Some(0), "{text}");
    read(&path)
}

#[track_caller]
fn assert_matches_schema(comparison: &Value) {
    let schema = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/compare.schema.json")));
    let validator = jsonschema::validator_for(&schema).expect("a JSON schema");
    let errors: Vec<_> =
        validator.iter_errors(comparison).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn results_are_compared_and_the_exit_code_tells_a_regression() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = short_result(&folder);
    let [old, same, slower] =
        [("old", 1.0), ("same", 1.0), ("slower", 1.2)].map(|(name, factor)| long_result(&folder, name, &short, factor));
    let json = folder.path().join("comparison");
    let compared = |files: &[&str]| {
        let (code, text) = told(&[&["compare", "--json", words(&json)], files].concat());
        let comparison = read(&json);
        assert_matches_schema(&comparison);
        assert_eq!(comparison["exit_code"], json!(code), "{text}");
        (code, text, comparison)
    };
    let (code, text, _) = compared(&[words(&old), words(&same)]);
    assert!(code == Some(0) && text.starts_with("NO REGRESSION found: step.mean +0 %"), "{code:?} {text}");
    let (code, text, comparison) = compared(&[words(&old), words(&slower)]);
    assert!(code == Some(5) && text.starts_with("REGRESSION: step.mean +20 %"), "{code:?} {text}");
    assert_eq!(comparison["comparisons"][0]["measures"][0]["difference"], "worse");
    // A larger difference is asked for.
    assert_eq!(compared(&["--least=30%", words(&old), words(&slower)]).0, Some(0));
    // The worst of several counts, and each has its name.
    let (code, text, comparison) = compared(&["-q", words(&old), words(&same), words(&slower)]);
    assert_eq!((code, comparison["comparisons"].as_array().map(Vec::len)), (Some(5), Some(2)));
    assert!(text.contains("same: NO REGRESSION") && text.contains("slower: REGRESSION"), "{text}");
    // The run itself was too short.
    let short = folder.path().join("short.json");
    let (code, text, _) = compared(&[words(&short), words(&short)]);
    assert!(code == Some(3) && text.starts_with("UNKNOWN"), "{code:?} {text}");
}

#[test]
fn what_cannot_be_compared_is_one_line_and_nothing_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = short_result(&folder);
    let old = long_result(&folder, "old", &short, 1.0);
    let other = |name: &str, pointer: &str, value: Value| {
        let mut result = short.clone();
        *result.pointer_mut(pointer).expect("it is there") = value;
        long_result(&folder, name, &result, 1.0)
    };
    let model = other("model", "/model/name", json!("m"));
    let load = other("load", "/scenario/load/workers", json!(99));
    let version = other("version", "/schema_version", json!(2));
    let kept = folder.path().join("kept");
    fs::create_dir(&kept).expect("a folder");
    fs::write(kept.join("old.json"), "").expect("a file");
    let nobody = ["--", "-u", "127.0.0.1:1", "vs", "-u", "127.0.0.1:2"];
    let old = words(&old);
    for (arguments, expected) in [
        (&[][..], "compare needs two results or more"),
        (&[old], "compare needs two results or more"),
        (&["--vs", old], "compare needs two results or more"),
        (&[old, words(&model)], "model.name: 'custom_sequence_int32' and 'm'"),
        (&[old, words(&load)], "scenario.load.workers: 8 and 99"),
        (&[old, words(&version)], "its schema_version is 2"),
        (&[old, "/nowhere.json"], "No such file"),
        (&[old, old, "--vs", old], "cannot compare 2 with 1"),
        (&[old, old, "--json", "/nowhere/x.json"], "cannot write the comparison"),
        (&[old, old, "--json", old], "which is compared; name another file"),
        (&[old, old, "--least=-1%"], "give a percentage from 0% to 100%"),
        (&[old, old, "--run=5"], "cannot be used with"),
        (&["--run=5"], "--run"),
        (&["--run=2", "--", "vs"], "--run 2: 2 runs of each side are too few"),
        (&["--run=0", "--", "vs"], "give a whole number, 1 or more"),
        (&["--keep=x", old, old], "--keep is for runs that compare holds"),
        (&["-r7", old, old], "--random-seed is for runs that compare holds"),
        (&["--run-limit=5s", old, old], "--run-limit is for runs that compare holds"),
        (&[old, old, "--", "-u", "127.0.0.1:1"], "-- is for runs that compare holds"),
        (&["--run=5", "--", "-u", "127.0.0.1:1"], "with the word vs between them"),
        (&["--run=5", "--", "vs", "vs"], "with the word vs between them"),
        (&["--run=5", "--", "suite", "vs"], "the arguments of the old run are wrong: a subcommand is no run"),
        (&["--run=5", "--", "--find-limit=1..5/s", "vs"], "--find-limit is not for runs that compare holds"),
        (&["--run=5", "--", "vs", "--tui"], "the arguments of the new run are wrong: --tui is not for runs"),
        (&["--run=5", "--", "vs", "--json", "x"], "the arguments of the new run are wrong: compare sets --json itself"),
        (
            &["--run=5", "--", "-r7", "vs", "-r7"],
            "compare gives each round a seed; set that of the first round with compare -r SEED",
        ),
        (&["--run=5", "--", "--history", "x", "vs"], "compare sets --history itself"),
        (&["--run=5", "--", "-q", "vs"], "compare sets --quiet itself"),
        (&["--run=5", "--", "--help", "vs"], "--help and --version are no load"),
        (&["--run=5", "--", "--frobnicate", "vs"], "unexpected argument '--frobnicate' found"),
        (&["--run=5", "--", "-t0", "vs"], "give a whole number from 1 to 100000"),
        (&["--run=5", "--", "-m", "a", "vs", "-m", "b"], "target.model: 'a' and 'b'"),
        (&["--run=5", "--", "-t4", "vs", "-t8"], "load.workers: 4 and 8"),
        (&["--run=5", "--", "--embedded", "vs"], "--embedded is on one side"),
        (&["--run=5", "--", "--scenario=nowhere.toml", "vs"], "the arguments of the old run are wrong"),
        (&[&["--run=5", "--keep", words(&kept)][..], &nobody].concat(), "it is not empty; name a new folder"),
        (&[&["--run=5", "--keep", "/proc/x"][..], &nobody].concat(), "cannot keep results in /proc/x"),
    ] {
        let (code, text) = told(&[&["compare"], arguments].concat());
        assert!(code == Some(2) && text.contains(expected), "{arguments:?}: {code:?} {text}");
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    }
    let (code, text) = told(&[&["compare", "--run=5", "-q"][..], &nobody].concat());
    assert!(
        code == Some(4) && text.contains("the old run of round 1 could not test: cannot test 127.0.0.1:1"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// The arguments of a side's runs.
fn side<'a>(scenario: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--embedded", "-t2", "-d1s", "--scenario", scenario], more].concat()
}

#[test]
fn runs_are_held_in_turn_with_the_same_seed_in_a_round() {
    let folder = tempfile::tempdir().expect("a folder");
    let (scenario, kept) = (folder.path().join("scenario.toml"), folder.path().join("kept"));
    fs::write(&scenario, SCENARIO).expect("a file");
    let json = folder.path().join("comparison");
    let command = ["compare", "--run=3", "-r7", "--warm-up=0s", "--keep", words(&kept), "--json", words(&json), "--"];
    let sound = side(words(&scenario), &[]);
    let faulty = side(words(&scenario), &["--fault", "off-by-one:once@5"]);
    let (code, text) = told(&[&command[..], &sound, &["vs"], &faulty].concat());
    // Violations come first, whatever the times are.
    assert_eq!(code, Some(1), "{text}");
    let invalid = "02-new.json: the run is INVALID: wrong-sum 1; again:";
    assert!(text.replace("\n      ", " ").contains(invalid), "{text}");
    let order: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("sequence-stress: round ")).collect();
    let expected = [(1, "old"), (1, "new"), (2, "new"), (2, "old"), (3, "old"), (3, "new")];
    assert_eq!(order, expected.map(|(round, side)| format!("{round} of 3: the {side} run")));
    let seeds =
        ["01-old", "01-new", "02-old", "02-new"].map(|name| read(&kept.join(format!("{name}.json")))["seed"].clone());
    assert_eq!(seeds, [7, 7, 8, 8]);
    assert_matches_schema(&read(&json));
    // They are pairs when they are read again, too.
    let [old, new] =
        ["old", "new"].map(|side| ["01", "02", "03"].map(|round| kept.join(format!("{round}-{side}.json"))));
    let [old, new] = [&old, &new].map(|files| files.each_ref().map(|file| words(file)));
    let (_, text) = told(&[&["compare"][..], &old, &["--vs", new[2], new[0], new[1]]].concat());
    assert!(text.contains("compared: 3 pairs of runs with the same seed"), "{text}");
}

/// The processes whose command line names this folder.
fn processes_that_name(folder: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("Linux has it").filter_map(Result::ok);
    // Those that have ended meanwhile have none any more.
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(words(folder))).collect()
}

#[test]
fn an_interrupt_ends_the_run_that_is_under_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let hour = ["--embedded", "-d1h"];
    let mut command = tool();
    command.env("TMPDIR", folder.path()).args(["compare", "--run=3", "--"]).args(hour).arg("vs").args(hour);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    assert_eq!(first, "sequence-stress: round 1 of 3: the old run");
    let id = process.id().try_into().expect("a process ID");
    // This signal is for a run: it ends nothing.
    kill(Pid::from_raw(id), Signal::SIGUSR1).expect("the process is there");
    kill(Pid::from_raw(id), Signal::SIGTERM).expect("the process is there");
    let rest: Vec<_> = lines.map(|line| line.expect("UTF-8")).collect();
    assert_eq!(process.wait().expect("it ends").code(), Some(3));
    assert_eq!(rest, ["sequence-stress: interrupted in the old run of round 1: nothing is compared"]);
    assert_eq!(processes_that_name(folder.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left");
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept");
    let options = ["compare", "-q", "--run=1", "--run-limit=1s", "--keep", words(&kept), "--"];
    let (code, text) = told(&[&options[..], &["--embedded", "-d1h", "vs", "--embedded", "-d1h"]].concat());
    let expected = "the old run of round 1 did not end within 1s, and was ended; allow more with --run-limit";
    assert!(code == Some(4) && text.contains(expected), "{code:?} {text}");
    assert_eq!(processes_that_name(folder.path()), Vec::<String>::new());
}
