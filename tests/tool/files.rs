//! Files that cannot be written, as on a full disk.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Setup, TestServer, tool::tool};

/// A run of the tool in which no file can have more than so many blocks of 512 bytes.
fn limited(blocks: u32, words: &[&str]) -> Output {
    let script = r#"trap '' XFSZ; ulimit -f "$1"; shift; exec "$@""#;
    let run = ["--embedded", "-t", "2", "-i", "5", "-r", "1", "--execution-time", "1ms", "--idle-limit", "50ms"];
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", &blocks.to_string()]).arg(tool().get_program()).args(run).args(words);
    command.env_remove("SEQUENCE_STRESS_URL").env_remove("SEQUENCE_STRESS_METRICS");
    command.env_remove("GITHUB_STEP_SUMMARY");
    command.output().expect("a shell")
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn files(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        all.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn a_result_that_cannot_be_written_does_not_hide_violations_and_leaves_what_was_there() {
    for flag in ["--json", "--failure"] {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("file.json");
        fs::write(&path, "old").expect("a file");
        let name = path.to_str().expect("UTF-8");
        let (code, out, err) = told(&limited(1, &["--fault", "off-by-one", flag, name]));
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.contains("INVALID:"), "{out}");
        assert!(
            err.contains(&format!("to {name}: ")) && err.contains("the file that is there is from before"),
            "{err}"
        );
        assert_eq!(
            (fs::read(&path).expect("a file"), files(folder.path())),
            (b"old".to_vec(), vec!["file.json".to_owned()])
        );
    }
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_where_there_are_no_violations() {
    let folder = TempDir::new().expect("a folder");
    let name = folder.path().join("file.json");
    let (code, out, err) = told(&limited(1, &["--json", name.to_str().expect("UTF-8")]));
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(err.contains("cannot write the result to "), "{err}");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[test]
fn a_history_that_cannot_be_begun_is_told_before_anything_is_sent() {
    let folder = TempDir::new().expect("a folder");
    let name = folder.path().join("h.jsonl");
    let (code, out, err) = told(&limited(1, &["--history", name.to_str().expect("UTF-8")]));
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(err.contains("cannot write the history to ") && err.contains("; nothing was sent"), "{err}");
    assert!(!out.contains("VALID"), "{out}");
}

#[test]
fn a_history_that_cannot_be_begun_costs_the_server_nothing() {
    let server = TestServer::start(Setup::default());
    let output = tool()
        .args(["-u", &server.address.to_string(), "-t", "2", "-i", "5", "--history", "/no/such/folder/h.jsonl"])
        .output()
        .expect("it runs");
    let (code, out, err) = told(&output);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(err.contains("cannot write the history to /no/such/folder/h.jsonl: "), "{err}");
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_run_that_cannot_begin_leaves_no_history() {
    let server = TestServer::start(Setup { formula: Some("ready-times-input-plus-start"), ..Setup::default() });
    let folder = TempDir::new().expect("a folder");
    let history = folder.path().join("h.jsonl");
    let address = server.address.to_string();
    let output = tool()
        .args(["-u", &address, "-t", "2", "-i", "5", "--history", history.to_str().expect("UTF-8")])
        .output()
        .expect("it runs");
    assert_eq!(told(&output).0, Some(4), "{output:?}");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

/// How many events the blocks of a history have, as their last lines tell.
fn entries(history: &str) -> u64 {
    let blocks = history.lines().filter(|line| line.starts_with("{\"block\":"));
    let told = blocks.map(|line| serde_json::from_str::<Value>(line).expect("JSON")["entries"].as_u64());
    told.map(|entries| entries.expect("a number")).sum()
}

#[test]
fn a_history_for_which_there_is_no_room_any_more_does_not_end_the_run() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let name = path.to_str().expect("UTF-8");
    // The header has some 7 KB, the events of such a run have some 30.
    let (code, out, err) = told(&limited(24, &["--fault", "off-by-one", "--history", name]));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("INVALID:"), "{out}");
    assert!(err.contains("the history ends at about "), "{err}");
    let left = files(folder.path());
    // Either the file is whole, or what there is of it is in the parts.
    let is_told = err.contains(&format!("what there is of it is in {name}.part-*"));
    assert_eq!(path.exists(), !is_told, "{left:?} {err}");
    assert!(left.iter().all(|file| is_told == file.contains(".part-")), "{left:?} {err}");
    // What is told to be in the file is there.
    let written = left.iter().map(|file| fs::read_to_string(folder.path().join(file)).expect("UTF-8"));
    let entries: u64 = written.map(|text| entries(&text)).sum();
    assert!(out.contains(&format!("history        {entries} events in ")), "{entries}: {out}");
}

#[test]
fn a_link_to_a_file_that_is_not_there_yet_stays() {
    let folder = TempDir::new().expect("a folder");
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink(folder.path().join("run.json"), &link).expect("a link");
    // The second flag is wrong, so nothing is run and nothing written.
    let (code, _, err) = told(&limited(1000, &["--json", link.to_str().expect("UTF-8"), "--failure", "-"]));
    assert_eq!(code, Some(2), "{err}");
    assert_eq!(files(folder.path()), ["link.json"]);
    let dotted = folder.path().join(".").join("link.json");
    let (link, dotted) = (link.to_str().expect("UTF-8"), dotted.to_str().expect("UTF-8"));
    let (code, _, err) = told(&limited(1000, &["--json", link, "--failure", dotted]));
    assert!(code == Some(2) && err.contains("name the same file"), "{err}");
}
