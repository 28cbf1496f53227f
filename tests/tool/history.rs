//! A run that is recorded, and judged again from its history.

use crate::support;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::support::{
    Setup, TestServer,
    runs::{self, block_on},
    tool::tool,
};
use oracle::{
    Violation,
    history::{Keep, Options},
};
use reference::{Fault, ModelOptions, Planted};
use sequence_stress::{
    check::{Checked, check},
    frame::HistoryPlan,
    report::{Summary, Verdict},
    run::{Interrupted, Observer, Progress, RunResult, Setup as RunSetup, run},
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use wire::simulation::Simulation;
use workload::{scenario::Scenario, seed::Seed};

const SCENARIO: &str = "
load.workers = 3
load.iterations = 30
length.max = 20
limits.lost_after_ms = 1000
limits.step_ms = 2
limits.settle_ms = 300
limits.quiet_ms = 20
limits.drain_ms = 300
limits.connect_ms = 2000
patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 2, malformed = 1, timeout = 1, burst = 1, shared-id = 1, end-twice = 1 }
";

/// Interrupts a run after so many requests.
struct Interrupter(Option<(u64, mpsc::Sender<()>)>);

impl Observer for Interrupter {
    fn progress(&mut self, progress: &Progress) {
        if let Some((_, sender)) = self.0.take_if(|(requests, _)| progress.requests >= *requests) {
            sender.try_send(()).expect("the run waits for interrupts");
        }
    }
}

/// The usual scenario with other lines in place of its own.
fn scenario_text(more: &str) -> String {
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let others: Vec<_> = more.lines().map(key).collect();
    let usual = SCENARIO.lines().filter(|line| !others.contains(&key(line)));
    usual.chain(more.lines()).collect::<Vec<_>>().join("\n")
}

fn scenario(server: &TestServer, more: &str) -> Scenario {
    runs::scenario(&format!("target.endpoint = '{}'\n{}", server.address, scenario_text(more)))
}

fn options(path: &Path) -> Options {
    Options { path: path.to_owned(), keep: Keep::DEFAULT, limit: Options::LIMIT, part: Options::PART }
}

fn record(scenario: &Scenario, options: Options, interrupt_after: Option<u64>) -> RunResult {
    let recording = HistoryPlan { options, scenario_name: "test".into(), replay: "again".into(), server: None };
    let setup = RunSetup { recording: Some(recording), ..RunSetup::new(scenario.clone(), Seed(7)) };
    let (sender, interrupts) = mpsc::channel(1);
    let mut observer = Interrupter(interrupt_after.map(|after| (after, sender.clone())));
    let result = block_on(run(setup, &mut observer, interrupts)).expect("the server can be tested");
    drop(sender);
    let recorded = result.recorded.as_ref().expect("a history");
    assert_eq!(recorded.kept.problem, None);
    result
}

fn check_again(path: &Path) -> Checked {
    let checked = check(path).expect("a history");
    assert_eq!(checked.damage, None);
    checked
}

fn summary(scenario: &Scenario, result: &RunResult) -> Summary {
    Summary {
        scenario: scenario.clone(),
        scenario_name: "test".into(),
        seed: Seed(7),
        replay: "again".into(),
        embedded: None,
        result: result.clone(),
    }
}

fn in_order(violations: &[Violation]) -> Vec<&Violation> {
    let mut all: Vec<_> = violations.iter().collect();
    // Two threads' violations may have been seen in either order.
    all.sort_by_key(|violation| (violation.at_ns, violation.request()));
    all
}

/// A whole history says all that the run said.
#[track_caller]
fn assert_same(scenario: &Scenario, live: &RunResult, checked: &Checked) {
    let again = &checked.result;
    assert_eq!(again.tally.patterns, live.tally.patterns);
    assert_eq!(again.tally.violations, live.tally.violations);
    assert_eq!(again.tally.reached, live.tally.reached);
    assert_eq!(in_order(&again.violations), in_order(&live.violations));
    assert_eq!(
        (again.tally.step.count(), again.tally.step.max_us(), again.tally.waits.slot.max_us()),
        (live.tally.step.count(), live.tally.step.max_us(), live.tally.waits.slot.max_us())
    );
    assert_eq!((&again.accounting, again.interrupted), (&live.accounting, live.interrupted));
    assert_eq!((again.elapsed, again.cpu_us), (live.elapsed, live.cpu_us));
    let (live, again) = (summary(scenario, live), summary(&checked.header.scenario, again));
    assert_eq!((live.verdict(), live.exit_code(), live.doubts()), (again.verdict(), again.exit_code(), again.doubts()));
    assert_eq!(checked.remarks(), Vec::<String>::new());
    assert_eq!((checked.header.seed, checked.header.replay.as_str()), (Seed(7), "again"));
}

/// Runs, records and checks; returns the run's verdict.
#[track_caller]
fn record_and_check(server: Setup, more: &str, name: &str, interrupt_after: Option<u64>) -> (Verdict, RunResult) {
    let _simulation = Simulation::begin();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(name);
    let server = TestServer::start(server);
    let scenario = scenario(&server, more);
    let live = record(&scenario, options(&path), interrupt_after);
    let checked = check_again(&path);
    assert_same(&scenario, &live, &checked);
    assert_eq!(checked.entries, live.recorded.as_ref().expect("a history").kept.entries);
    assert!(checked.entries > 2 * live.tally.total().answered());
    (summary(&scenario, &live).verdict(), live)
}

#[test]
fn a_valid_run_is_valid_again() {
    for name in ["h.jsonl", "h.jsonl.zst"] {
        for more in ["", "sending.stream = 'per-context'\nsending.window = 2"] {
            let (verdict, live) = record_and_check(Setup::default(), more, name, None);
            assert_eq!(verdict, Verdict::Valid, "{:?} {:?} {:?}", live.violations, live.tally.reached, live.slots);
        }
    }
}

#[test]
fn what_a_run_of_many_threads_saw_is_seen_again() {
    let server = TestServer::start(Setup::default());
    let scenario = scenario(&server, "load.workers = 130\nload.iterations = 3\nlimits.lost_after_ms = 30000");
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let live = record(&scenario, options(&path), None);
    assert_same(&scenario, &live, &check_again(&path));
}

fn faulty(fault: Fault, chance: u64) -> Setup {
    Setup { faults: vec![Planted::once(fault, chance)], ..Setup::default() }
}

#[test]
fn a_violation_is_one_again_with_the_same_evidence() {
    let faults = [
        (Fault::OffByOne, 30),
        (Fault::SwapResponses, 3),
        (Fault::DuplicateResponse, 20),
        (Fault::WrongRequestId, 20),
        (Fault::WrongModelName, 20),
        (Fault::WrongOutputType, 20),
        (Fault::WrongOutputLength, 20),
        (Fault::EmptyResponse, 20),
        (Fault::ModelError, 20),
        (Fault::RejectMidSequence, 3),
        (Fault::AcceptNoStart, 2),
        (Fault::CloseStream, 20),
        (Fault::NeverClose, 2),
        (Fault::CountTwice, 20),
    ];
    let faults: Vec<_> = faults.into_iter().zip(["h.jsonl", "h.jsonl.zst"].into_iter().cycle()).collect();
    // Some at a time: a busy machine answers late.
    support::side_by_side(3, &faults, |((fault, chance), name)| {
        let (verdict, _) = record_and_check(faulty(*fault, *chance), "", name, None);
        assert_eq!(verdict, Verdict::Invalid, "{fault}");
    });
}

#[test]
fn a_lost_answer_is_lost_again() {
    let models = ModelOptions { instances: 1, ..Setup::default().models };
    let server = Setup { models, ..faulty(Fault::DropResponse, 20) };
    let (verdict, live) = record_and_check(server, "load.iterations = 5", "h.jsonl.zst", None);
    assert_eq!(verdict, Verdict::Invalid, "{:?}", live.violations);
}

#[test]
fn an_interrupted_run_is_unknown_again() {
    let (verdict, live) = record_and_check(Setup::default(), "load.iterations = 100000", "h.jsonl", Some(500));
    assert_eq!((verdict, live.interrupted), (Verdict::Unknown, Interrupted(true)));

    // So early that what is under way at the interrupt has more executions than that, however fast the server is.
    let mut frozen = faulty(Fault::HangInstance, 5);
    frozen.models.instances = 1;
    let (_, live) =
        record_and_check(frozen, "load.iterations = 100000\nlimits.lost_after_ms = 60000", "h.jsonl", Some(30));
    assert!(live.tally.total().indeterminate > 0, "something was cut");
}

#[test]
fn a_server_that_died_died_again() {
    let server = Setup { dies_at_statistics: Some(6), ..Setup::default() };
    let (verdict, live) = record_and_check(server, "", "h.jsonl", None);
    assert_eq!((verdict, live.violations.len()), (Verdict::Invalid, 1));
    let (verdict, _) = record_and_check(faulty(Fault::Crash, 300), "", "h.jsonl", None);
    assert_eq!(verdict, Verdict::Invalid);
}

#[test]
fn a_missed_threshold_is_missed_again() {
    let models = ModelOptions { execution: Duration::from_millis(5), ..Setup::default().models };
    let (_, live) = record_and_check(Setup { models, ..Setup::default() }, "limits.response_ms = 1", "h.jsonl", None);
    assert!(live.tally.slow > 0);
}

/// Parts of a tenth of a second, of which those go that are far from the violation.
#[test]
fn of_a_rotated_history_what_is_there_is_judged() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl.zst");
    // The longest lawful wait is short, because as much more is kept before a violation.
    let models = ModelOptions {
        execution: Duration::from_millis(2),
        idle_limit: Duration::from_millis(100),
        ..Setup::default().models
    };
    for stream in ["per-sequence", "per-context"] {
        let server = TestServer::start(Setup { models: models.clone(), ..faulty(Fault::OffByOne, 1600) });
        let more = "load.iterations = 160\nlimits.lost_after_ms = 5000\npatterns.common = { valid = 1 }";
        let scenario = scenario(&server, &format!("{more}\nsending.stream = '{stream}'"));
        // Long enough for a START behind the gap, however busy the machine is: before one is answered no sum is known.
        let keep = Keep::Around(Duration::from_millis(500));
        let live = record(&scenario, Options { keep, part: Duration::from_millis(50), ..options(&path) }, None);
        let kept = &live.recorded.as_ref().expect("a history").kept;
        assert!(kept.left_out > 0 && kept.lost == 0, "{kept:?} in {:?}", live.elapsed);
        let checked = check_again(&path);
        assert!(checked.gaps > 0);
        assert_eq!(live.violations.len(), 1, "{:?}", live.violations);
        assert_eq!(checked.result.violations, live.violations);
        assert_eq!(checked.result.tally.reached, live.tally.reached, "the run's own counts");
        assert_eq!(summary(&scenario, &checked.result).exit_code(), summary(&scenario, &live).exit_code());
        assert!(checked.remarks()[0].contains("were left out"), "{:?}", checked.remarks());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "the parts are gone");
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = tool();
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn recorded(name: &str, server: Setup) -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(name);
    let server = TestServer::start(server);
    record(&scenario(&server, "load.iterations = 3"), options(&path), None);
    (folder, path)
}

#[test]
fn a_damaged_history_never_panics_and_says_where_and_how_much_is_good() {
    for name in ["h.jsonl", "h.jsonl.zst"] {
        let (folder, path) = recorded(name, Setup::default());
        let whole = fs::read(&path).expect("a file");
        let damaged = folder.path().join("damaged");
        let places = (0..whole.len()).step_by(whole.len() / 400 + 1);
        for (place, flip) in places.clone().zip([1, 2, 4, 8, 16, 32, 64, 128].into_iter().cycle()) {
            let mut bytes = whole.clone();
            bytes[place] ^= flip;
            fs::write(&damaged, &bytes).expect("a file");
            let is_seen = check(&damaged).map_or(true, |checked| checked.damage.is_some());
            assert!(is_seen || name.ends_with("zst"), "{name}: byte {place} flipped by {flip}");
        }
        for length in places {
            fs::write(&damaged, &whole[..length]).expect("a file");
            let checked = check(&damaged);
            let damage = checked.map_or_else(Some, |checked| checked.damage);
            assert!(damage.is_some(), "{name}: {length} bytes");
        }
    }
}

#[test]
fn the_command_says_of_a_damaged_history_what_is_good() {
    let (folder, path) = recorded("h.jsonl", faulty(Fault::OffByOne, 10));
    let whole = fs::read_to_string(&path).expect("a file");
    let lines: Vec<_> = whole.lines().collect();
    let file = folder.path().join("damaged.jsonl");
    let name = file.to_str().expect("UTF-8");
    let newer = whole.replacen("\"version\":2,", "\"version\":9,", 1);
    let cut_off = format!("{}\n", lines[..lines.len() - 40].join("\n"));
    let good = cut_off.lines().filter(|line| line.starts_with("{\"t\":")).count();
    let good = format!("readable: {good} entries, up to t = ");
    let changed = whole.replacen("\"e\":\"sent\"", "\"e\":\"sunt\"", 1);
    for (content, code, expected, violations) in [
        (&cut_off, 2, ["it ends here, without the run's end", &good], 1),
        (&changed, 2, ["no event is called 'sunt'", "readable: 0 entries"], 0),
        (&newer, 2, ["version 9, and this tool reads version 2", "nothing of the file was judged"], 0),
    ] {
        fs::write(&file, content).expect("a file");
        let output = output(&["check", name]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.starts_with(&format!("sequence-stress: {name}: line ")), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        for expected in expected {
            assert!(error.contains(expected), "{error}\n  should have {expected}");
        }
        assert_eq!(text(&output.stdout).matches("wrong-sum, cause ").count(), violations, "{}", text(&output.stdout));
    }
}

/// What is behind a damaged block is judged as what is behind any gap.
#[test]
fn behind_a_damaged_block_the_rest_is_judged() {
    let _simulation = Simulation::begin();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    // Long behind the first blocks, which are damaged; a block ends after a second, on a slow machine with less in it.
    let server = TestServer::start(faulty(Fault::OffByOne, 14_000));
    let scenario = scenario(&server, "load.iterations = 400\npatterns.common = { valid = 1 }");
    let live = record(&scenario, options(&path), None);
    assert_eq!(live.violations.len(), 1, "{:?}", live.violations);
    let whole = fs::read_to_string(&path).expect("a file");
    let lines: Vec<_> = whole.lines().collect();
    let ends: Vec<_> = (0..lines.len()).filter(|&line| lines[line].starts_with("{\"block\":")).collect();
    assert!(ends.len() > 4, "{} blocks", ends.len());
    let damaged = |line: usize, text: &str| {
        let mut lines = lines.clone();
        lines[line] = text;
        fs::write(&path, lines.join("\n") + "\n").expect("a file");
        check(&path).expect("a history")
    };
    // Of a line, of the end of a block, which takes the next one with it, and of a block whose end alone tells.
    for (line, text, blocks) in [(ends[0] + 9, "{\"t\":", 1), (ends[1], "", 2), (ends[0] + 9, lines[ends[0] + 8], 1)] {
        let checked = damaged(line, text);
        let good = lines[ends[blocks]..].iter().filter(|line| line.starts_with("{\"t\":")).count();
        assert_eq!((checked.entries, checked.gaps, checked.damages), (good as u64, 1, 1), "{:?}", checked.damage);
        assert_eq!(checked.result.violations.len(), 1, "{:?}", checked.result.violations);
        assert_eq!((checked.result.violations[0].kind, checked.footer.is_some()), (live.violations[0].kind, true));
        let told = format!("{good} of {} entries are good", live.recorded.as_ref().expect("a history").kept.entries);
        assert!(checked.remarks()[0].starts_with(&told), "{:?}", checked.remarks());
    }
}

#[test]
fn a_history_without_its_end_gets_no_hints_and_one_without_events_no_table() {
    let (folder, path) = recorded("h.jsonl", Setup::default());
    let whole = fs::read_to_string(&path).expect("a file");
    let lines: Vec<_> = whole.lines().collect();
    let file = folder.path().join("damaged.jsonl");
    let name = file.to_str().expect("UTF-8");
    for (count, has_table) in [(60, true), (2, false)] {
        fs::write(&file, lines[..count].join("\n") + "\n").expect("a file");
        let output = output(&["check", name]);
        let (shown, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(!shown.contains("not reached") && !shown.contains("more iterations"), "{shown}");
        assert_eq!(shown.contains("as designed"), has_table, "{shown}");
        assert!(has_table || shown.is_empty() && error.contains("the file has no event to judge"), "{shown}{error}");
    }
}

#[test]
fn the_command_prints_what_the_run_printed() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let server = TestServer::start(faulty(Fault::OffByOne, 30));
    fs::write(path("scenario.toml"), scenario_text("load.iterations = 10")).expect("a file");
    let address = server.address.to_string();
    let (history, scenario) = (path("h.jsonl.zst"), path("scenario.toml"));
    let live = output(&["-u", &address, "--scenario", &scenario, "-r", "3", "--history", &history]);
    assert_eq!(live.status.code(), Some(1), "{}{}", text(&live.stdout), text(&live.stderr));
    let again = output(&["check", &history, "--json", &path("again.json")]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stderr));
    let (live, again) = (text(&live.stdout), text(&again.stdout));
    assert!(live.contains(&format!("events in {history}")), "{live}");
    // Only the run shows violations as they come, and where its history is.
    let told = |line: &&str| !line.starts_with("  history ") && !line.contains(&history) && !line.contains(" ID ");
    let (live, again): (Vec<_>, Vec<_>) = (live.lines().filter(told).collect(), again.lines().filter(told).collect());
    assert_eq!(live, again);
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path("again.json")).expect("a file")).expect("JSON");
    assert_eq!((&result["exit_code"], &result["history"]), (&1.into(), &serde_json::Value::Null));
    let quiet = output(&["check", "-q", &history, &history]);
    assert_eq!(text(&quiet.stdout).matches("INVALID: 1 violation: 1 wrong-sum").count(), 2);
}

#[test]
fn a_history_that_cannot_be_written_is_told_before_anything_is_sent() {
    let server = TestServer::start(Setup::default());
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("left.part-000000"), "").expect("a file");
    let address = server.address.to_string();
    for (arguments, expected) in [
        (&["--history", "/no/such/folder/h"][..], "cannot write the history to /no/such/folder/h"),
        (&["--history", "-"], "--history needs a file"),
        (&["--history", &path("left")], "which a run that was killed left"),
        (&["--history", &path("a"), "--json", &path("a")], "the same file"),
        (&["--history-keep", "5m"], "--history <FILE>"),
        (&["--history", &path("a"), "--history-keep", "ever"], "or 'all'"),
        (&["--history", &path("a"), "--history-limit", "12"], "such as 500MB or 2GiB"),
        (&["check"], "<FILE>"),
        (&["check", "/no/such/file"], "/no/such/file: it cannot be read"),
        (&["check", "a", "b", "--json", "c"], "--json takes the result of one history"),
    ] {
        let mut command = command(arguments);
        if arguments[0] != "check" {
            command.args(["-u", &address]);
        }
        let output = command.output().expect("the command runs");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(
            error.contains(expected) && error.lines().count() == 1,
            "{arguments:?}: {error}\n  should have {expected}"
        );
    }
    assert_eq!(server.requests(), 0);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left behind");
}

#[test]
fn what_a_killed_run_wrote_can_be_put_together_and_checked() {
    let server = TestServer::start(Setup::default());
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("scenario.toml"), SCENARIO).expect("a file");
    let address = server.address.to_string();
    let scenario = path("scenario.toml");
    let history = path("h.jsonl.zst");
    let arguments = ["-u", &address, "--scenario", &scenario, "--duration", "1h", "--history", &history, "-q"];
    let mut child = command(&arguments).stdout(Stdio::null()).spawn().expect("the command runs");
    let began = Instant::now();
    let part = PathBuf::from(format!("{history}.part-000001"));
    while fs::metadata(&part).map_or(0, |part| part.len()) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(!Path::new(&history).exists());
    let together = Command::new("sh").arg("-c").arg(format!("cat '{history}'.part-* > '{history}'")).status();
    assert!(together.expect("sh runs").success());
    let output = output(&["check", &history]);
    let (shown, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{shown}{error}");
    assert!(error.contains("it ends here") && shown.contains("VALID: "), "{shown}{error}");
}
