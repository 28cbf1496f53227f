//! Results as pages and as CSV.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::tool::{told, tool, words};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::ZlibDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;

/// What a page's script reads.
pub(crate) fn data(page: &Path) -> Value {
    data_of(&fs::read_to_string(page).expect("a page"))
}

fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"report-data\">").expect("the data");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

fn lanes(packed: &Value) -> Value {
    let packed = BASE64_STANDARD.decode(packed.as_str().expect("a text")).expect("base64");
    let mut json = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut json).expect("zlib");
    serde_json::from_slice(&json).expect("JSON")
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

fn place(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a place")).expect("it is small")
}

fn sum(column: &Value) -> u64 {
    column.as_array().expect("a column").iter().map(|it| it.as_u64().expect("a number")).sum()
}

/// A run that leaves these files in a folder of its own.
struct Run {
    folder: TempDir,
}

impl Run {
    fn hold(more: &[&str], code: i32) -> Self {
        let run = Self { folder: TempDir::new().expect("a folder") };
        let [page, json] = ["run.html", "run.json"].map(|name| run.file(name));
        let files = ["--html", words(&page), "--json", words(&json)];
        let (ended, text) = told(&[&["--embedded", "-i5", "-r1"], &files[..], more].concat());
        assert_eq!(ended, Some(code), "{text}");
        run
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The names of all that is there.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_page_has_the_result_and_who_had_which_slot() {
    let run = Run::hold(&[], 0);
    assert_eq!(run.left(), ["run.html", "run.json"], "the events are gone");
    let data = data(&run.file("run.html"));
    let (result, json) = (&data["results"][0], json_of(&run.file("run.json")));
    assert_eq!(result["document"], json);
    let lanes = lanes(&result["lanes"][0]);
    assert_eq!((&lanes["slots"], &lanes["lanes"], &lanes["told"]), (&json!(8), &json!(8), &json!(true)));
    let sequences = &lanes["sequences"];
    assert_eq!(sequences["begun"].as_array().expect("a column").len() as u64, json["sequences"]);
    assert_eq!(sum(&sequences["steps"]), json["requests"]);
    assert_eq!(sum(&sequences["violations"]), 0);
    let kinds = lanes["marks"]["kind"].as_array().expect("a column");
    assert!(kinds.iter().all(|kind| kind != "violation"), "{kinds:?}");
    let completed = lanes["steps"]["outcome"].as_array().expect("a column").iter().filter(|it| **it == 0).count();
    assert_eq!(completed as u64, json["outcomes"]["completed"]);
}

#[test]
fn the_page_of_a_suite_has_the_slots_of_each_scenario() {
    let folder = TempDir::new().expect("a folder");
    let page = folder.path().join("suite.html");
    let (code, text) = told(&["suite", "--embedded", "-r1", "-q", "--only", "rapid-cycling", "--html", words(&page)]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "the events are gone");
    let data = data(&page);
    let result = &data["results"][0];
    assert!(result["document"]["scenarios"][0]["result"]["history"].is_null(), "no result names events that are gone");
    let lanes = lanes(&result["lanes"][0]);
    assert!(lanes["sequences"]["begun"].as_array().is_some_and(|column| column.len() > 100), "{lanes}");
}

#[test]
fn a_page_marks_a_violation_in_its_sequence_and_explains_it() {
    let run = Run::hold(&["--fault", "off-by-one:once@100"], 1);
    let data = data(&run.file("run.html"));
    assert!(data["kinds"]["wrong-sum"]["text"].as_str().is_some_and(|text| text.contains("Next step")), "{data}");
    let result = &data["results"][0];
    let violation = &result["document"]["violations"][0];
    let lanes = lanes(&result["lanes"][0]);
    let (marks, sequences) = (&lanes["marks"], &lanes["sequences"]);
    let kinds = marks["kind"].as_array().expect("a column");
    let mark = kinds.iter().position(|kind| kind == "violation").expect("a mark");
    assert_eq!(marks["violation"][mark], 0);
    let row = place(&marks["sequence"][mark]);
    assert_eq!((sum(&sequences["violations"]), &sequences["violations"][row]), (1, &json!(1)));
    // The step is that of the violation, with the value that the report shows.
    let id = ["worker", "context", "number"].map(|column| sequences[column][row].to_string()).join("-");
    let request = violation["request_id"].as_str().expect("a request");
    let (sequence, step) = request.rsplit_once('-').expect("four numbers");
    assert_eq!(id, sequence);
    let at = place(&sequences["step"][row]) + step.parse::<usize>().expect("a number");
    assert_eq!(lanes["steps"]["answer"][at], violation["evidence"]["seen"], "{violation}");
    // The fault was committed between the step's request and its response; both clocks are of this process.
    let fault = &result["document"]["planted_faults"][0]["committed_at_us"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} of {fault}"));
    let column = sequences["begun"].as_array().expect("a column");
    let begun: u64 = column[..=row].iter().map(number).sum();
    let sent = begun + number(&lanes["steps"]["sent"][at]);
    let answered = sent + number(&lanes["steps"]["took"][at]);
    assert_eq!(fault.as_array().map(Vec::len), Some(1));
    // Each is cut to whole microseconds.
    assert!((sent..=answered + 1).contains(&number(&fault[0])), "{sent} to {answered}: {fault}");
}

#[test]
fn a_page_may_go_to_a_pipe() {
    let output = tool().args(["--embedded", "-i5", "-r1", "-q", "--html", "/dev/stdout"]).output().expect("it runs");
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    let result = &data_of(&told)["results"][0];
    assert_eq!(sum(&lanes(&result["lanes"][0])["sequences"]["steps"]), result["document"]["requests"]);
    let beside = fs::read_dir("/dev").expect("a folder").filter_map(Result::ok);
    let left = beside.filter(|entry| entry.file_name().to_string_lossy().starts_with(".sequence-stress-")).count();
    assert_eq!(left, 0);
}

#[test]
fn a_report_of_files_is_that_of_the_run() {
    let run = Run { folder: TempDir::new().expect("a folder") };
    let files = ["run.html", "run.json", "run.jsonl.zst", "a.html", "run.csv"].map(|name| run.file(name));
    let [page, json, history, again, csv] = files.each_ref().map(|path| words(path));
    let outputs = ["--html", page, "--json", json, "--history", history, "--csv", csv];
    let (code, text) = told(&[&["--embedded", "-i5", "-r1", "--fault", "off-by-one:once@100"], &outputs[..]].concat());
    assert_eq!(code, Some(1), "{text}");
    let of_the_run = data(&files[0])["results"][0].clone();
    let reported = |arguments: &[&str]| {
        let (code, text) = told(&[&["report"], arguments, &["--html", again]].concat());
        assert_eq!((code, text.as_str()), (Some(0), ""));
        data(&files[3])["results"].clone()
    };
    // The result names its history.
    let of_the_result = &reported(&[json])[0];
    assert_eq!((&of_the_result["lanes"], &of_the_result["document"]), (&of_the_run["lanes"], &of_the_run["document"]));
    // The history alone has the events, and what they come to.
    let of_the_history = &reported(&[history])[0];
    assert_eq!(of_the_history["lanes"], of_the_run["lanes"]);
    assert_eq!(of_the_history["document"]["violations"], of_the_run["document"]["violations"]);
    let (code, text) = told(&["check", history, "-q", "--html", again]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(data(&files[3])["results"][0]["lanes"], of_the_run["lanes"]);
    let (code, printed) = told(&["report", json, "--csv"]);
    assert_eq!((code, printed), (Some(0), fs::read_to_string(csv).expect("a file")));
    // A history that was moved is found if it is named, and one of another run is not taken.
    let moved = run.file("moved.zst");
    fs::rename(history, &moved).expect("a file");
    let without = &reported(&[json])[0];
    assert!(
        without["lanes"] == json!([null])
            && without["lanes_note"].as_str().is_some_and(|note| note.contains("--history"))
    );
    assert_eq!(reported(&[json, "--history", words(&moved)])[0]["lanes"], of_the_run["lanes"]);
    let other = Run::hold(&[], 0);
    let both = reported(&[json, words(&other.file("run.json")), "--history", words(&moved)]);
    assert_eq!((&both[0]["lanes"], &both[1]["lanes"]), (&of_the_run["lanes"], &json!([null])));
    // The forms for CI systems are those of the run, too.
    let [junit, markdown] = ["run.xml", "run.md"].map(|name| run.file(name));
    let (code, said) = told(&["report", json, "--junit", words(&junit)]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let xml = fs::read_to_string(&junit).expect("a file");
    assert!(xml.contains("message=\"wrong-sum, cause wrong-arithmetic: 1 violation\""), "{xml}");
    let (code, text) = told(&["report", json, "--markdown"]);
    assert!(code == Some(0) && text.starts_with("## INVALID: "), "{text}");
    fs::write(&markdown, &text).expect("a file");
    let (code, said) = told(&["report", words(&markdown), "--markdown"]);
    assert!(code == Some(2) && said.contains("it is no result"), "{said}");
    // A history without its end is shown as far as it goes, and said to be damaged.
    let whole = fs::read(&moved).expect("a file");
    let cut = run.file("cut.zst");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    let (code, said) = told(&["report", words(&cut), "--html", again]);
    assert!(code == Some(2) && said.contains("the report is of its readable part"), "{said}");
    assert_eq!(data(&files[3])["results"][0]["document"]["complete"], false);
    // Runs of other scenarios are not compared, and the tool says why.
    let smaller = Run::hold(&["-t4"], 0);
    let (code, said) = told(&["report", json, words(&smaller.file("run.json")), "--html", again]);
    assert!(
        code == Some(0) && said.contains("the page does not compare the runs: ") && said.lines().count() == 1,
        "{said}"
    );
    let (code, printed) = told(&["report", json, words(&other.file("run.json")), "--csv"]);
    assert!(code == Some(0) && printed.starts_with("result,at_s,"), "{printed}");
    assert!(printed.lines().skip(1).all(|line| line.starts_with("run.json,")), "{printed}");
}

/// A hunt as scripts/hunt writes it, with one finding.
fn hunt(result: &Value) -> Value {
    let run = json!({
        "release": "24.03", "model": "custom_sequence_int32", "scenario": "ordering", "seed": 1,
        "command": "sequence-stress -r 1",
    });
    let replays = json!({ "failed": 4, "runs": 5, "otherwise": [], "problem": null });
    let finding = json!({
        "name": "01-wrong-sum", "kind": "wrong-sum", "cause": "wrong-arithmetic", "fingerprint": "0123456789",
        "words": "sent 1; expected 2; saw 3", "size": "2 messages left of 9", "is_small": true, "messages": 2,
        "shape": ["ID 1: START"], "chart": "", "models": [], "scenarios": [], "found": run, "again": [], "death": null,
        "releases": [{ "release": "24.03", "met": 1, "replays": replays }], "result": result,
    });
    let reached = json!({
        "elapsed_s": 9.0, "runs": 7, "requests": 900, "pairs": 321, "new_in_next_run": 1.5, "unseen_at_least": 80.0,
    });
    json!({
        "reached": [reached],
        "schema_version": 3, "tool_version": "0.1.0", "exit_code": 1, "complete": true, "first_seed": 1, "took_s": 9.5,
        "started_at": "2026-11-26T16:23:17Z", "releases": ["24.03"], "models": [], "coverage": [],
        "findings": [finding], "waiting": [], "notes": [],
    })
}

#[test]
fn a_hunt_is_shown_with_the_run_that_found_something() {
    let run = Run { folder: TempDir::new().expect("a folder") };
    let files = ["run.json", "run.jsonl.zst", "hunt.json", "hunt.html", "hunt.xml"].map(|name| run.file(name));
    let [json, history, hunted, page, junit] = files.each_ref().map(|path| words(path));
    let arguments =
        ["--embedded", "-i5", "-r1", "--fault", "off-by-one:once@100", "--json", json, "--history", history];
    let (code, text) = told(&arguments);
    assert_eq!(code, Some(1), "{text}");
    let result = json_of(&files[0]);
    fs::write(hunted, hunt(&result).to_string()).expect("a file");
    let lanes_of_the_run = || {
        let (code, text) = told(&["report", hunted, "--html", page, "--junit", junit]);
        assert_eq!((code, text.as_str()), (Some(0), ""));
        let data = data(&files[3]);
        assert_eq!(data["results"][0]["document"], json_of(&files[2]));
        assert!(
            data["causes"]["wrong-arithmetic"]["text"].is_string() && data["kinds"]["wrong-sum"]["text"].is_string()
        );
        data["results"][0]["lanes"][0].as_str().map(str::to_owned)
    };
    let lanes = lanes_of_the_run();
    assert!(lanes.is_some());
    // A hunt that was moved has its histories in its own folder.
    fs::create_dir(run.file("runs")).expect("a folder");
    fs::rename(history, run.file("runs/run.jsonl.zst")).expect("a file");
    assert_eq!(lanes_of_the_run(), lanes);
    fs::remove_file(run.file("runs/run.jsonl.zst")).expect("a file");
    assert_eq!(lanes_of_the_run(), None);
    let note = data(&files[3])["results"][0]["lanes_notes"][0].clone();
    assert!(note.as_str().is_some_and(|note| note.contains("--history FILE")), "{note}");
    let xml = fs::read_to_string(junit).expect("a file");
    assert!(xml.contains("message=\"wrong-sum, cause wrong-arithmetic on 24.03: 4 of 5 replays failed"), "{xml}");
    let (code, text) = told(&["report", hunted, "--markdown"]);
    assert!(code == Some(0) && text.starts_with("## Hunt: INVALID\n\n1 finding in 5 replays"), "{text}");
    assert!(text.contains("7 drawn runs reached 321 pairs of transitions; the next run is expected"), "{text}");
    let (code, said) = told(&["report", hunted, "--csv"]);
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("hunt.json has no series of a run and no trials of a search"), "{said}");
    let (code, said) = told(&["compare", hunted, json]);
    assert!(code == Some(2) && said.contains("it is the result of a hunt"), "{said}");
}

#[test]
fn a_report_needs_results_and_says_what_it_cannot_read() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    };
    let page = folder.path().join("page.html");
    let old = file("old.json", r#"{"schema_version":1,"series":[]}"#);
    let other = file("other.json", r#"{"schema_version":3}"#);
    let text = file("text.json", "hello");
    let missing = folder.path().join("missing.json");
    for (path, expected) in [
        (&old, "its schema_version is 1, and this sequence-stress reads"),
        (&other, "it is no result of --json, and no history"),
        (&text, "it is no result ("),
        (&missing, "cannot report "),
        (&folder.path().to_owned(), "cannot report "),
    ] {
        let (code, said) = told(&["report", words(path), "--html", words(&page)]);
        assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(expected) && !page.exists(), "{said}");
    }
    // A pipe that nobody writes to would never end.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let of_a_run = file("run.json", r#"{"schema_version":3,"series":[]}"#);
    for arguments in [vec![words(&pipe)], vec![words(&of_a_run), "--history", words(&pipe)]] {
        let (code, said) = told(&[&["report", "--html", words(&page)], &arguments[..]].concat());
        assert!(code == Some(2) && said.contains("it is no file"), "{said}");
    }
    let (code, said) = told(&["report", words(&text)]);
    assert!(code == Some(2) && said.contains("--html FILE"), "{said}");
    for flag in ["--html", "--junit"] {
        let (code, said) = told(&["report", words(&text), flag, words(&text)]);
        assert!(code == Some(2) && said.contains("would overwrite"), "{said}");
    }
    assert_eq!(fs::read_to_string(&text).expect("a file"), "hello");
}
