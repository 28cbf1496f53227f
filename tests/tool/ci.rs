//! What a CI system shows of a run: `JUnit` XML, and the summary and annotations of GitHub.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::support::{
    front::HttpFront,
    runs::reference_server,
    tool::{run, text, told, tool, words},
};
use quick_xml::{Reader, escape::unescape, events::Event};
use reference::ModelOptions;
use tempfile::TempDir;

const SCENARIO: &str = "tests/support/claims-nothing.toml";
/// A short run against a reference server of its own.
const QUICK: [&str; 11] =
    ["--embedded", "-t", "2", "-i", "3", "-r", "5", "--idle-limit", "200ms", "--scenario", SCENARIO];
/// An error in JSON. It ends a text in XML, in Markdown and in a command of GitHub, and has characters that XML forbids.
const HOSTILE: &str = r#"{"error":"a <b> & \"c\" 'd' ]]> \u0000\u001b[31m\ufffe\u009b\n</details>\n```````\n::error::gotcha\r\n| ![x](https://h/x)"}"#;

/// A case, the tag of its outcome, and the texts in it.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    suite: String,
    class: String,
    name: String,
    outcome: String,
    text: String,
}

/// The cases of a `JUnit` file.
fn cases(path: &Path) -> Vec<Case> {
    let xml = fs::read_to_string(path).expect("a file");
    let mut reader = Reader::from_str(&xml);
    let (mut suite, mut cases) = (String::new(), Vec::<Case>::new());
    loop {
        match reader.read_event().expect("XML") {
            Event::Start(tag) | Event::Empty(tag) => {
                let attribute = |name: &str| {
                    let attribute = tag.try_get_attribute(name).expect("attributes").expect("it is there");
                    unescape(&attribute.value).expect("entities").into_owned()
                };
                match tag.name().as_ref() {
                    "testsuite" => suite = attribute("name"),
                    "testcase" => {
                        let [class, name] = ["classname", "name"].map(attribute);
                        let (suite, outcome, text) = (suite.clone(), "passed".to_owned(), String::new());
                        cases.push(Case { suite, class, name, outcome, text });
                    }
                    outcome @ ("failure" | "error" | "skipped") => {
                        outcome.clone_into(&mut cases.last_mut().expect("it is in a case").outcome);
                    }
                    _ => {}
                }
            }
            Event::Text(text) => {
                if let Some(case) = cases.last_mut() {
                    case.text.push_str(&text);
                }
            }
            Event::Eof => return cases,
            _ => {}
        }
    }
}

/// The names of the cases with this outcome.
fn with<'c>(cases: &'c [Case], outcome: &str) -> Vec<&'c str> {
    cases.iter().filter(|case| case.outcome == outcome).map(|case| case.name.as_str()).collect()
}

/// A run in which a server answers one step with [`HOSTILE`].
fn hostile(flags: &[&str], summary: Option<&Path>) -> Output {
    let server = reference_server(ModelOptions::default(), &[]);
    let asked = AtomicUsize::new(0);
    let front = HttpFront::start(server.http, move |request| {
        // Before it are the requests by which the tool gets to know the model.
        let is_it = request.uri().path().ends_with("/infer") && asked.fetch_add(1, Relaxed) == 25;
        is_it.then_some((500, HOSTILE))
    });
    let mut command = tool();
    command.args(["-u", &format!("http://{}", front.address), "-t", "2", "-i", "6", "-r", "5", "--scenario", SCENARIO]);
    if let Some(summary) = summary {
        command.env("GITHUB_STEP_SUMMARY", summary);
    }
    command.args(flags).output().expect("it runs")
}

/// What xmllint says to a file.
fn validated(path: &Path) -> Output {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool/junit.xsd");
    let validated = Command::new("xmllint").args(["--noout", "--schema", schema]).arg(path).output();
    validated.expect("xmllint runs: Debian has it in the package libxml2-utils")
}

#[test]
fn junit_files_fit_the_schema_whatever_a_server_says() {
    let folder = TempDir::new().expect("a folder");
    let junit = folder.path().join("junit.xml");
    let output = hostile(&["--junit", words(&junit), "--fail-if", "step.max > 1us", "--require-claims"], None);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let seen = fs::read_to_string(&junit).expect("a file");
    assert!(
        seen.contains("a &lt;b&gt; &amp; ") && seen.contains("]]&gt; \u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}"),
        "{seen}"
    );
    let output = validated(&junit);
    assert!(output.status.success(), "{}\n{seen}", text(&output));
    // The validator rejects what the schema does not have.
    fs::write(&junit, seen.replace(" type=\"unexpected-error\"", "")).expect("a file");
    let output = validated(&junit);
    assert!(!output.status.success() && text(&output).contains("The attribute 'type' is required"), "{output:?}");
    let (_, said) = told(&[
        "suite",
        "--embedded",
        "--idle-limit",
        "200ms",
        "-r",
        "7",
        "--only",
        "ordering,rapid-cycling",
        "--junit",
        words(&junit),
    ]);
    let output = validated(&junit);
    assert!(output.status.success(), "{said}{}", text(&output));
}

#[test]
fn a_planted_fault_is_a_failure_with_its_cause_and_the_replay() {
    let folder = TempDir::new().expect("a folder");
    let [junit, again, history] = ["junit.xml", "again.xml", "run.jsonl.zst"].map(|name| folder.path().join(name));
    let files = ["--junit", words(&junit), "--history", words(&history)];
    let (code, said) = told(&[&QUICK[..], &["--fault", "off-by-one:once@9"], &files].concat());
    assert_eq!(code, Some(1), "{said}");
    let all = cases(&junit);
    assert_eq!((with(&all, "failure"), with(&all, "error")), (vec!["wrong-sum"], vec![]), "{all:#?}");
    let failure = all.iter().find(|case| case.outcome == "failure").expect("one");
    assert_eq!((failure.suite.as_str(), failure.class.as_str()), (SCENARIO, "sequence-stress.claims-nothing"));
    for part in
        ["cause          wrong-arithmetic: ", "Evidence: ", "(off by ", "replay: ", "--fault off-by-one:once@9 "]
    {
        assert!(failure.text.contains(part), "no '{part}' in {failure:#?}");
    }
    // A recorded run is judged the same.
    let (code, said) = told(&["check", words(&history), "-q", "--junit", words(&again)]);
    assert_eq!(code, Some(1), "{said}");
    let outcomes = |cases: &[Case]| cases.iter().map(|its| (its.name.clone(), its.outcome.clone())).collect::<Vec<_>>();
    assert_eq!(outcomes(&cases(&again)), outcomes(&all));
}

#[test]
fn a_valid_run_has_no_failure() {
    let folder = TempDir::new().expect("a folder");
    let junit = folder.path().join("junit.xml");
    let (code, said) = told(&[&QUICK[..], &["--junit", words(&junit), "--fail-if", "step.max > 1h"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let all = cases(&junit);
    assert_eq!((with(&all, "failure"), with(&all, "error")), (vec![], vec![]), "{all:#?}");
    let passed = with(&all, "passed");
    assert!(
        ["wrong-sum", "statistics", "slot-leak", "pending-left", "threshold: step.max > 1h"]
            .iter()
            .all(|name| passed.contains(name))
    );
    let skipped = with(&all, "skipped");
    let expects_none =
        ["--embedded", "-t2", "-i3", "-r5", "-q", "--scenario", SCENARIO, "-m", "gru_float32", "--expect=none"];
    let (code, said) = told(&[&expects_none[..], &["--junit", words(&junit)]].concat());
    assert_eq!(code, Some(0), "{said}");
    let without_formula = cases(&junit);
    let not_judged = with(&without_formula, "skipped");
    assert!(["wrong-sum", "wrong-output"].iter().all(|name| not_judged.contains(name)), "{not_judged:?}");
    assert!(["wrong-output", "memory-growth", "missing-reap"].iter().all(|name| skipped.contains(name)), "{skipped:?}");
}

#[test]
fn a_suite_has_a_test_suite_for_each_scenario() {
    let folder = TempDir::new().expect("a folder");
    let [junit, summary] = ["junit.xml", "summary.md"].map(|name| folder.path().join(name));
    let mut command = tool();
    command.args(["suite", "--embedded", "--idle-limit", "200ms", "--execution-time", "1ms", "-r", "7"]);
    command.args(["--fault", "keep-state:once@3", "--only", "rapid-cycling,slot-exhaustion", "--instances", "8"]);
    command.args(["--max-batch-size", "4", "-q", "--junit", words(&junit)]).env("GITHUB_STEP_SUMMARY", &summary);
    let output = command.output().expect("it runs");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let all = cases(&junit);
    let of = |suite: &str, outcome: &str| {
        let its = all.iter().filter(|case| case.suite == suite && case.outcome == outcome);
        its.map(|case| case.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("rapid-cycling", "failure"), ["wrong-sum"], "{all:#?}");
    assert_eq!(of("slot-exhaustion", "skipped"), ["run"], "{all:#?}");
    assert!(said.contains("\n::error title=rapid-cycling%3A wrong-sum%2C cause "), "{said}");
    let summary = fs::read_to_string(&summary).expect("a file");
    assert!(summary.starts_with("## Suite: 0 valid, 1 invalid, 0 unknown\n"), "{summary}");
    assert!(
        summary.contains("| slot-exhaustion | skipped |") && summary.contains("\n### Violations of rapid-cycling\n"),
        "{summary}"
    );
}

#[test]
fn a_job_of_github_gets_a_summary_and_annotations() {
    let folder = TempDir::new().expect("a folder");
    let summary = folder.path().join("summary.md");
    fs::write(&summary, "# Of an earlier command\n").expect("a file");
    let output = hostile(&[], Some(&summary));
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let annotations: Vec<_> = said.lines().filter(|line| line.starts_with("::")).collect();
    assert!(!annotations.is_empty() && annotations.len() <= 10, "{said}");
    assert!(annotations[0].starts_with("::error title=unexpected-error%2C cause "), "{said}");
    assert!(annotations[0].contains("%0Areplay: ") && !said.contains("\n::error::gotcha"), "{said}");
    let markdown = fs::read_to_string(&summary).expect("a file");
    assert!(markdown.starts_with("# Of an earlier command\n\n## INVALID: "), "{markdown}");
    assert!(
        markdown.contains("<summary>unexpected-error, cause ") && markdown.contains("\n````````text\n"),
        "{markdown}"
    );
    // The text of the server is in a line of the block, whose fence is longer than that in the text.
    let seen: Vec<_> = markdown.lines().filter(|line| line.contains("gotcha")).collect();
    assert!(!seen.is_empty() && seen.iter().all(|line| line.starts_with("  ") || line.starts_with('|')), "{markdown}");
    assert_eq!(markdown.matches("\n</details>\n").count(), markdown.matches("\n<details>\n").count(), "{markdown}");
}

#[test]
fn nothing_changes_outside_of_github_or_where_the_summary_cannot_be_written() {
    let fault = [&QUICK[..], &["-q", "--fault", "off-by-one:once@9"]].concat();
    let plain = run(&fault);
    assert!(plain.status.code() == Some(1) && !text(&plain).contains("::"), "{}", text(&plain));
    let folder = TempDir::new().expect("a folder");
    let unwritable = folder.path().join("no/such/summary.md");
    let full = folder.path().join("full.md");
    fs::write(&full, vec![b'x'; 1024 * 1024 - 100]).expect("a file");
    for (path, problem) in [(unwritable, "No such file"), (full.clone(), "GitHub takes 1 MiB of a step")] {
        let output = tool().args(&fault).env("GITHUB_STEP_SUMMARY", &path).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr);
        let told = "cannot add the result to the job's summary ";
        assert!(error.lines().count() == 1 && error.contains(told) && error.contains(problem), "{error}");
    }
    assert_eq!(fs::metadata(&full).expect("a file").len(), 1024 * 1024 - 100);
    // A verdict that is unknown is a warning.
    let summary = folder.path().join("summary.md");
    let short = ["--embedded", "-t1", "-i1", "-r1", "-q", "--idle-limit", "200ms", "--require-claims"];
    let output = tool().args(short).env("GITHUB_STEP_SUMMARY", &summary).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("\n::warning title=unknown::not reached: "), "{}", text(&output));
    assert!(fs::read_to_string(&summary).expect("a file").starts_with("## UNKNOWN: l0-sequence-stress\n"));
}
