//! The reference server as a user gets it: embedded in a run, and served alone.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::tool::{told, tool};

/// Too short for what the default scenario claims.
const SCENARIO: &str = "tests/support/claims-nothing.toml";
/// How long a server may take to end.
const LIMIT: Duration = Duration::from_secs(60);
const QUICK: [&str; 11] =
    ["--embedded", "-t", "2", "-i", "3", "-r", "5", "--idle-limit", "200ms", "--scenario", SCENARIO];

#[test]
fn an_embedded_run_is_valid_and_says_how_to_have_it_again() {
    let (code, text) =
        told(&[&QUICK[..], &["--instances", "2", "--max-batch-size", "4", "--strategy", "oldest"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Oldest, 8 slots") && text.contains("client and server: "), "{text}");
    let replay = "-t 2 -i 3 -r 5 --embedded --idle-limit 200ms --instances 2 --max-batch-size 4 --strategy oldest \
        -m custom_sequence_int32 --scenario tests/support/claims-nothing.toml\n";
    assert!(text.contains(replay) && !text.contains("not used"), "{text}");
}

#[test]
fn how_often_a_planted_fault_happened_is_told_even_where_it_could_not() {
    let (code, text) = told(&[&QUICK[..], &["-q", "--fault", "off-by-one:once@9"]].concat());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("planted fault  off-by-one happened 1 time\n") && text.contains("1 wrong-sum"), "{text}");
    let (code, text) = told(&[&QUICK[..], &["-q", "--fault", "state-not-saved"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("planted fault  state-not-saved had no chance: "), "{text}");
    let (code, text) = told(&[&QUICK[..], &["-q", "--fault", "off-by-one:once@99999"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("planted fault  off-by-one had "), "{text}");
    // No answer tells what memory a server has.
    let (code, text) = told(&[&QUICK[..], &["-q", "--fault", "leak-memory"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("planted fault  leak-memory happened ") && text.contains(" and was not found"), "{text}");
}

#[test]
fn the_table_has_the_patterns_of_the_scenario_each_number_under_its_header() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("scenario.toml");
    let scenario = "patterns.common = { valid = 1, continue-by-neighbour = 1 }\nclaims = {}\nslots.check = false\n\
        contexts = { common = 1, rare = 0, rare_probability = 0 }\nlimits = { quiet_ms = 20, settle_ms = 100 }";
    std::fs::write(&path, scenario).expect("a file");
    let (_, text) = told(&["--embedded", "-t", "2", "-i", "3", "-r", "5", "--scenario", path.to_str().expect("UTF-8")]);
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with("sequences")).take(5);
    let lines: Vec<_> = lines.collect();
    let names: Vec<_> = lines[1..].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["pattern", "valid", "continue-by-neighbour", "all"], "{text}");
    assert!(lines[1..].iter().all(|line| line.len() == lines[1].len() && line.len() <= 80), "{text}");
    let end = |word: &str, line: usize| lines[line].find(word).map(|from| from + word.len());
    // The heads end above the last of their columns.
    assert_eq!((end("as designed", 1), Some(lines[1].len())), (end("sequences", 0), end("requests", 0)), "{text}");
}

#[test]
fn a_run_that_ends_at_its_first_violation_shows_that_one() {
    let (code, text) = told(&[&QUICK[..], &["--fault", "off-by-one", "--fail-fast"]].concat());
    assert_eq!(code, Some(1), "{text}");
    let sent = |line: &str| line.strip_prefix("all ")?.split_whitespace().nth(2)?.parse::<u64>().ok();
    let (ended, whole) = (text.lines().find_map(sent), told(&QUICK).1.lines().find_map(sent));
    assert!(ended < whole, "the run ended early: {ended:?} of {whole:?} requests: {text}");
    assert!(text.contains("INVALID: ") && text.contains("cause          wrong-arithmetic: "), "{text}");
}

#[test]
fn what_does_not_go_together_is_one_line_and_exit_code_2() {
    for (arguments, expected) in [
        (&["--embedded", "-u", "localhost:1"][..], "leave the endpoint out"),
        (&["--embedded", "--slots", "3"], "--max-batch-size"),
        (&["--instances", "2"], "need --embedded"),
        (&["--embedded", "--fault", "no-such"], "there is no fault 'no-such'"),
        (&["--embedded", "--fault", "crash:once@0"], "once@N"),
        (&["--embedded", "--instances", "5000"], "instances"),
        (&["--embedded", "--candidates", "9"], "--candidates is for Oldest, and custom_sequence_int32 is Direct"),
        (&["--embedded", "--preferred-batch-size", "2"], "--preferred-batch-size is for Oldest"),
        (&["--embedded", "--strategy", "oldest", "--minimum-slot-utilization", "1"], "custom_sequence_int32 is Oldest"),
        (&["serve", "--strategy", "oldest", "--minimum-slot-utilization", "1"], "each model is Oldest"),
        (&["--embedded", "--strategy", "direct", "-m", "oldest_sequence_int32"], "oldest_sequence_int32 is Oldest"),
        (&["serve", "--grpc-port", "0", "--preferred-batch-size", "99"], "preferred batch size"),
    ] {
        let (code, text) = told(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
}

#[test]
fn options_that_do_nothing_are_told_and_are_not_in_the_line_that_has_the_run_again() {
    for (arguments, expected) in [
        (&["--fault-hold", "2s", "--fault", "end-missing"][..], "--fault-hold does nothing here"),
        (&["--fault-seed", "2", "--fault", "end-missing"], "--fault-seed does nothing here"),
        (&["--queue-delay", "1ms"], "--queue-delay does nothing here"),
        (&["--minimum-slot-utilization", "1"], "--minimum-slot-utilization does nothing without --queue-delay"),
    ] {
        let (code, text) = told(&[&QUICK[..], &["-q"], arguments].concat());
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(expected), "{text}\n  should have {expected}");
        assert_eq!(text.matches("--fault-").count(), usize::from(expected.contains("--fault-")), "{text}");
    }
}

/// Starts a server on a free port, and reads where it listens.
fn serve(arguments: &[&str]) -> (Child, String) {
    let mut child = tool()
        .args(["serve", "--grpc-port", "0", "--http-port", "0", "--metrics-port", "0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("serving gRPC at ").unwrap_or_else(|| panic!("{line}")).to_owned();
    (child, address)
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

fn exit_code(mut child: Child) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it can be ended");
    panic!("it did not end within {LIMIT:?}");
}

#[test]
fn a_server_that_is_interrupted_ends_and_at_once_when_told_twice() {
    let (child, _) = serve(&[]);
    send("-INT", &child);
    assert_eq!(exit_code(child), Some(0));

    // What lives for an hour would keep it for its ten seconds.
    let (child, address) = serve(&["--idle-limit", "1h", "--execution-time", "0ms"]);
    let folder = tempfile::TempDir::new().expect("a folder");
    let scenario = folder.path().join("scenario.toml");
    let text = "load = { workers = 1, iterations = 1 }\npatterns.common = { no-end = 1 }\ncontexts = { common = 1, rare = 0, rare_probability = 0 }\n\
        limits.quiet_ms = 20\nlimits.settle_ms = 100\nclaims = {}";
    std::fs::write(&scenario, text).expect("a file");
    let (code, text) = told(&["-u", &address, "--scenario", scenario.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(0), "{text}");
    // Two signals of one kind may arrive as one.
    send("-INT", &child);
    send("-TERM", &child);
    assert_eq!(exit_code(child), Some(3));
}
