//! In which gaps a failure fails, measured in virtual time against a fault whose window is known, and the command.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::support::{
    runs::run_alone,
    tool::{run, text, told, tool, unwrapped, words},
};
use oracle::ViolationKind;
use reference::{Options, Server, ServerSetup};
use sequence_stress::{
    failure::{Facts, Failure},
    run::Setup,
    window::{Came, Count, Curve, Search, Trial, gaps},
};
use serde_json::Value;
use tempfile::TempDir;
use wire::simulation::Simulation;
use workload::{
    arithmetic::Arithmetic,
    conversation::{Conversation, parse_acts},
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
    sequence::Pattern,
};

/// How long the model takes to execute a request.
const EXECUTION_US: u64 = 400_000;

/// A stream that is cancelled while its second step is executed and its third one waits.
const CANCELLED: [&str; 6] = ["send 0 START 1", "send 0 2", "send 0 3", "await 0 <= 2", "pause 350000 us", "cancel 0"];

/// A failure of this kind, on a server with one slot and this setup.
fn failure(kind: ViolationKind, acts: &[&str], server: &str) -> Failure {
    let server: ServerSetup = toml::from_str(&format!("max-batch-size = 1\n{server}")).expect("a server");
    let acts = parse_acts(&acts.iter().map(|act| (*act).to_owned()).collect::<Vec<_>>()).expect("acts");
    let conversation = Conversation { worker: 0, context: 0, pattern: Pattern::Valid, at_us: 0, accused: true, acts };
    Failure {
        found: "it fails".to_owned(),
        kind,
        scenario: Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("a scenario"),
        seed: Seed(1),
        embedded: Some(server),
        at_the_slots: kind == ViolationKind::SlotLeak,
        arithmetic: Arithmetic::default(),
        accused: None,
        conversations: vec![conversation],
        facts: Facts::default(),
    }
}

/// Has a failure again in virtual time.
fn came(failure: &Failure) -> Came {
    let _simulation = Simulation::begin();
    let options = Options { threads: 1, ..failure.embedded.clone().map(Options::from).expect("a server of its own") };
    let server = Server::start(options).expect("a free port");
    let mut scenario = failure.fitted_scenario().expect("it fits");
    scenario.target.embed(server.address, server.http);
    let given = Some(failure.conversations.clone());
    let setup = Setup { given, fail_fast: true, embedded: true, ..Setup::new(scenario, failure.seed) };
    let result = run_alone(setup).expect("a run");
    let mut kinds = result.tally.violations.keys();
    match kinds.next() {
        None => Came::Passed,
        Some(_) if result.tally.violations.contains_key(&failure.kind) => Came::Failed,
        Some(_) => Came::Otherwise,
    }
}

/// Measures gaps of a failure in virtual time, by their numbers.
fn measured(failure: &Failure, numbers: &[usize]) -> (Vec<Curve>, Count) {
    let gaps: Vec<_> = gaps(failure).into_iter().filter(|gap| numbers.contains(&gap.number)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a short time")]
    let mut search = Search::new(gaps.clone(), 4, Some(EXECUTION_US as f64), failure.seed);
    loop {
        let trials = search.next(1);
        let Some(trial) = trials.first() else { return (search.curves(), search.all()) };
        let changed = match *trial {
            Trial::AsRecorded => failure.clone(),
            Trial::Changed { gap, us } => gaps[gap].set(failure, us),
        };
        search.tell(*trial, came(&changed));
    }
}

#[test]
fn the_window_of_a_fault_is_found() {
    let server = "execution-time = '400ms'\nidle-limit = '5s'\nfault = ['leak-slot-at-late-cancel']";
    let (curves, _) = measured(&failure(ViolationKind::SlotLeak, &CANCELLED, server), &[1, 3]);
    let [second, cancel] = curves.as_slice() else { panic!("{curves:?}") };
    // The second step is executed from the response to the first one on. A cancel in the last quarter of it loses the slot.
    let (first, over) = (EXECUTION_US / 4 * 3, EXECUTION_US);
    let [window] = cancel.windows.as_slice() else { panic!("{cancel:?}") };
    let (below, above) = (window.below_us.expect("a length"), window.above_us.expect("a length"));
    // The clock of a simulation has milliseconds.
    let tick = 1000;
    assert!(below < first && window.from_us + tick > first && window.from_us - below <= 12_000, "{window:?}");
    assert!(window.until_us < over && above + tick > over && above - window.until_us <= 12_000, "{window:?}");
    assert_eq!(window.count.failed, window.count.runs);
    assert_eq!(cancel.outside().failed, 0);
    // The second step may come as late as it likes, because the cancel follows its beginning.
    assert!(!second.matters(), "{second:?}");
}

#[test]
fn what_does_not_depend_on_time_has_no_window() {
    let server = "execution-time = '4ms'\nidle-limit = '5s'\nfault = ['off-by-one']";
    let acts = ["send 0 START 1", "send 0 2", "send 0 END 3"];
    let (curves, all) = measured(&failure(ViolationKind::WrongSum, &acts, server), &[1, 2]);
    assert!(curves.iter().all(|curve| !curve.matters() && curve.points.len() > 4), "{curves:?}");
    assert_eq!(all.failed, all.runs);
}

/// The file of a failure in a folder.
fn file(folder: &TempDir, failure: &Failure) -> PathBuf {
    let path = folder.path().join("failure.toml");
    fs::write(&path, failure.to_text()).expect("a file");
    path
}

#[test]
fn the_command_says_what_it_measured_and_writes_it() {
    let folder = TempDir::new().expect("a folder");
    // On a machine that is busy a pause may last longer, so it fails whatever the pause.
    let server = "execution-time = '1ms'\nidle-limit = '60s'\nfault = ['off-by-one']";
    let acts = ["send 0 START 1", "await 0", "pause 2000 us", "send 0 2"];
    let path = file(&folder, &failure(ViolationKind::WrongSum, &acts, server));
    let json = folder.path().join("window.json");
    let (code, text) = told(&["replay", words(&path), "--window", "-n2", "--json", words(&json)]);
    let said = unwrapped(&text);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("  gap 1  from the response to #1 to #2 (recorded: 2 ms)\nNO WINDOW: "), "{text}");
    assert!(
        said.contains("the gap does not matter: wrong-sum showed in ")
            && said.contains("(recorded: 2 ms): does not matter from 0 to "),
        "{text}"
    );
    assert!(text.contains("sequence-stress replay ") && text.contains("--window -n 2"), "{text}");
    let document: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let points = document["gaps"][0]["points"].as_array().expect("points");
    assert!(points.len() > 4 && points.iter().all(|point| point["runs"] == 2), "{points:?}");
    assert_eq!((&document["ended"], &document["gaps"][0]["matters"]), (&"done".into(), &false.into()));
    // A page shows it, and nothing else does.
    let page = folder.path().join("window.html");
    let output = run(&["report", words(&json), "--html", words(&page)]);
    assert_eq!(output.status.code(), Some(0), "{}", self::text(&output));
    assert_eq!(crate::report::data(&page)["results"][0]["document"], document);
    let output = run(&["report", words(&json), "--markdown"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        self::text(&output).contains("only --html shows a comparison or the gaps of a failure, as in "),
        "{}",
        self::text(&output)
    );
}

#[test]
fn a_failure_that_never_fails_again_says_so() {
    let folder = TempDir::new().expect("a folder");
    let acts = ["send 0 START 1", "send 0 2"];
    let path = file(&folder, &failure(ViolationKind::WrongSum, &acts, "execution-time = '1ms'"));
    let (code, text) = told(&["replay", words(&path), "--window", "-n2"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(unwrapped(&text).contains("UNKNOWN: wrong-sum did not fail in 4 runs, so no gap was measured"), "{text}");
}

#[test]
fn a_measurement_that_is_interrupted_says_what_is_known() {
    let folder = TempDir::new().expect("a folder");
    let server = "execution-time = '1ms'\nidle-limit = '60s'\nfault = ['off-by-one']";
    let path = file(&folder, &failure(ViolationKind::WrongSum, &["send 0 START 1", "send 0 2"], server));
    let mut command = tool();
    command.args(["replay", words(&path), "--window", "-n", "100000"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    assert!(first.starts_with("  gap 1  from #1 START to #2"), "{first}");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let rest: Vec<_> = lines.map(|line| line.expect("UTF-8")).collect();
    assert!(rest[0].starts_with("UNKNOWN: the measurement was interrupted; by then: no gap"), "{rest:?}");
    // The first run may have failed before the interrupt.
    assert!(matches!(child.wait().expect("it ends").code(), Some(1 | 3)), "{rest:?}");
}

#[test]
fn what_cannot_be_measured_is_said_in_a_line() {
    let folder = TempDir::new().expect("a folder");
    let many: Vec<_> = std::iter::once("send 0 START 1").chain([("send 0 2"); 50]).collect();
    for (acts, flags, problem) in [
        (&["send 0 START 1"][..], &[][..], "it has one act alone; a gap is between two"),
        (&["send 0 START 1", "send 0 2"], &["--gap", "2"], "it has 1 gap: give --gap 1 to 1"),
        (&many, &[], "it has 50 gaps, and at most 40 are measured: make it smaller (--shrink), or give --gap N"),
    ] {
        let path = file(&folder, &failure(ViolationKind::WrongSum, acts, ""));
        let (code, text) = told(&[&["replay", words(&path), "--window"][..], flags].concat());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(problem) && text.lines().count() == 1, "{text}");
    }
    let (code, text) = told(&["replay", "x.toml", "--gap", "1"]);
    assert!(code == Some(2) && text.contains("--window"), "{text}");
}
