//! A search: what it draws is held, a correct server is never accused, planted faults are found, and what was reached is known.

use std::{fs, path::Path};
#[cfg(unix)]
use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::Stdio,
};

#[cfg(unix)]
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

#[cfg(unix)]
use crate::support::tool::tool;
use crate::support::tool::{run, text, told, words};

/// A server in this process that a run does not wait for long.
const EMBEDDED: [&str; 7] = ["search", "--embedded", "--idle-limit", "100ms", "--execution-time", "1ms", "-r"];

/// What a search with these flags exits with, says, and writes as JSON.
fn searched(folder: &Path, flags: &[&str]) -> (Option<i32>, String, Value) {
    let json = folder.join("search.json");
    let (code, said) = told(&[flags, &["--json", words(&json)]].concat());
    let document = fs::read(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    let document = serde_json::from_slice(&document).expect("JSON");
    let schema = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/search.schema.json")).expect("the schema");
    let validator = jsonschema::validator_for(&serde_json::from_slice(&schema).expect("JSON")).expect("a schema");
    let problems: Vec<_> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    (code, said, document)
}

#[test]
fn a_search_is_the_same_for_the_same_seed_and_finds_a_planted_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let failure = folder.path().join("failure.toml");
    let flags = ["search", "--simulated", "-r", "1", "--runs", "30", "--fail-fast", "--fault", "double-release:0.01"];
    let searched = || {
        let output = run(&[&flags[..], &["--failure", words(&failure)]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        (String::from_utf8(output.stdout).expect("UTF-8"), fs::read_to_string(&failure).expect("a failure"))
    };
    let first = searched();
    assert!(first.0.contains("replay: sequence-stress search --simulated -r 1 --runs "), "{}", first.0);
    assert!(first.1.contains("double-release:"), "{}", first.1);
    assert_eq!(searched(), first);
}

#[test]
fn what_a_search_says_of_its_violation_finds_it_again() {
    let flags = [
        "search",
        "--simulated",
        "-r",
        "3",
        "--runs",
        "200",
        "--fail-fast",
        "--reloads",
        "--without",
        "valid,cancel-restart",
    ];
    let (code, said) = told(&[&flags[..], &["--fault", "slow-execution:0.01", "--fault-hold", "20s"]].concat());
    assert_eq!(code, Some(1), "{said}");
    let verdict = |said: &str| said.lines().rfind(|line| line.starts_with("INVALID")).map(str::to_owned);
    let again = said.lines().find_map(|line| line.strip_prefix("replay: sequence-stress ")).expect("a command");
    assert!(again.contains("--fault-hold 20000000000ns --without valid,cancel-restart --reloads"), "{again}");
    let (code, repeated) = told(&again.split_whitespace().collect::<Vec<_>>());
    assert_eq!((code, verdict(&repeated)), (Some(1), verdict(&said)), "{repeated}");
}

#[test]
fn a_search_accuses_no_correct_server_and_goes_on_from_its_corpus() {
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = folder.path().join("corpus.json");
    let search = |seed| {
        let flags = ["search", "--simulated", "-r", seed, "--runs", "6", "--reloads", "--corpus", words(&corpus)];
        let (code, said) = told(&flags);
        assert_eq!(code, Some(0), "{said}");
        let last = said.lines().rfind(|line| line.split_whitespace().count() == 5).unwrap_or_else(|| panic!("{said}"));
        let number =
            |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok()).unwrap_or_else(|| panic!("{said}"));
        let mut words = last.split_whitespace();
        let runs = number(words.next());
        (runs, number(words.nth(1)))
    };
    let (first, second) = (search("1"), search("2"));
    assert_eq!((first.0, second.0), (6, 12));
    assert!(first.1 > 50 && second.1 > first.1, "{first:?}, {second:?}");
    // What it cannot go on from it leaves as it is.
    fs::write(&corpus, "{}").expect("a file");
    let (code, said) = told(&["search", "--simulated", "--corpus", words(&corpus)]);
    assert!(code == Some(2) && said.contains("it is no corpus"), "{code:?} {said}");
    assert_eq!(fs::read_to_string(&corpus).expect("a file"), "{}");
}

#[test]
fn a_correct_server_is_searched_and_what_it_did_is_known_from_the_histories() {
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = folder.path().join("corpus.json");
    let flags = [&EMBEDDED[..], &["1", "--runs", "8", "--corpus", words(&corpus)]].concat();
    let (code, said, first) = searched(folder.path(), &flags);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("VALID: 8 runs, no violation; "), "{said}");
    assert_eq!((&first["runs"], &first["result"], &first["simulated"]), (&8.into(), &Value::Null, &false.into()));
    let rows = first["coverage"].as_array().expect("rows");
    let pairs = |row: &Value| row["pairs"].as_u64().expect("a number");
    assert!(rows.len() == 8 && pairs(&rows[7]) > 100 && pairs(&rows[0]) < pairs(&rows[7]), "{rows:?}");
    // Another search goes on from there, with other patterns alone, for a time.
    let flags = [&EMBEDDED[..], &["2", "--duration", "2s", "--without", "valid,steady", "--corpus", words(&corpus)]];
    let (code, said, second) = searched(folder.path(), &flags.concat());
    assert_eq!(code, Some(0), "{said}");
    let last = second["coverage"].as_array().and_then(|rows| rows.last()).expect("a row");
    assert!(pairs(last) >= pairs(&rows[7]) && last["runs"].as_u64() > Some(8), "{last}");
    // A corpus of runs on a server is none of simulated ones.
    let (code, said) = told(&["search", "--simulated", "--corpus", words(&corpus)]);
    assert!(code == Some(2) && said.contains("it is of runs on a given server"), "{said}");
}

#[test]
fn a_model_gets_only_what_it_can_do() {
    for model in ["decoupled_sequence_int32", "iterative_sequence_int32", "oldest_sequence_int64"] {
        let (code, said) = told(&[&EMBEDDED[..], &["2", "--runs", "2", "-m", model]].concat());
        assert!(code == Some(0) && said.contains("VALID: 2 runs"), "{model}: {said}");
    }
}

#[test]
fn a_fault_of_a_server_ends_the_search_with_a_report_a_failure_and_a_history() {
    let folder = tempfile::tempdir().expect("a folder");
    let [failure, history] = ["failure.toml", "history.jsonl.zst"].map(|name| folder.path().join(name));
    let files = ["--failure", words(&failure), "--history", words(&history), "--fault", "off-by-one"];
    let (code, said, document) = searched(folder.path(), &[&EMBEDDED[..], &["1", "--runs", "50"], &files].concat());
    assert_eq!(code, Some(1), "{said}");
    for part in ["The first run with a violation:", "cause          wrong-arithmetic: ", "INVALID: 1 of "] {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
    assert_eq!(document["violating"], 1, "{said}");
    assert_eq!(document["result"]["verdict"], "invalid", "{said}");
    assert_eq!(document["result"]["history"]["path"], words(&history), "{said}");
    // The same is sent again, and judged again; and what it reached is known.
    let (code, said) = told(&["replay", words(&failure), "-q"]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = told(&["check", words(&history), "-q"]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = told(&["search", "--simulated", "--runs", "1", "-r", "1", "--known", words(&history)]);
    assert!(code == Some(0) && said.contains("history.jsonl.zst reached "), "{said}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_run_and_the_search_with_what_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = folder.path().join("corpus.json");
    let flags = [&EMBEDDED[..], &["1", "--duration", "1h", "--corpus", words(&corpus)]].concat();
    let mut child = tool().args(flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = String::new();
    // The heads, and the row of the first run.
    for _ in 0..3 {
        out.read_line(&mut said).expect("text");
    }
    let pid = Pid::from_raw(child.id().try_into().expect("a process ID"));
    kill(pid, Signal::SIGINT).expect("the process is there");
    out.read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(3), "{said}");
    assert!(said.contains("UNKNOWN: interrupted; "), "{said}");
    let learnt: Value = serde_json::from_slice(&fs::read(&corpus).expect("a corpus")).expect("JSON");
    assert!(learnt["runs"].as_u64() >= Some(1), "{learnt}");
}

#[test]
fn what_cannot_be_searched_with_is_told_in_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "none").expect("a file");
    for (flags, code, why) in [
        (&["--simulated", "--fault", "late-response"][..], 2, "'late-response' is not simulated"),
        (&["--simulated", "localhost:8001"], 2, "so an endpoint has no effect"),
        (&["--simulated", "--instances", "2"], 2, "so --instances has no effect"),
        (&["--simulated", "--inputs", "x"], 2, "so --inputs has no effect"),
        (&["--simulated", "--history", words(&file)], 2, "so --history has no effect"),
        (&["--simulated", "--without", "cancel-restrat"], 2, "did you mean 'cancel-restart'?"),
        (&["--simulated", "--known", words(&file)], 2, "cannot tell from the history"),
        (&["--embedded", "--json", words(&file), "--corpus", words(&file)], 2, "name the same file"),
        (&["--fault", "keep-state"], 2, "need --embedded"),
        (&["-u", "127.0.0.1:9"], 4, "cannot test 127.0.0.1:9"),
    ] {
        let (exit, said) = told(&[&["search", "-r", "1"], flags].concat());
        assert_eq!(exit, Some(code), "{flags:?}: {said}");
        assert!(said.contains(why) && said.trim_end().lines().count() == 1, "{flags:?}: {said}");
    }
}
