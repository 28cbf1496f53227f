//! The search for the highest load that a server takes correctly.

use std::{fs, num::NonZeroU64, time::Duration};

use crate::support::{
    runs::{run_alone, server_of_four},
    tool::{run, text, told, unwrapped, words},
};
use reference::{Fault, Planted};
use sequence_stress::{
    limit::{Bracket, Overload, Range, Search, Trial},
    run::Setup,
};
use serde_json::Value;
use wire::simulation::Simulation;
use workload::{
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};

/// Sequences of one step.
const ONE_STEP: &str = "
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 1 }
length.constant = 1
limits.quiet_ms = 20
claims = {}
slots.check = false
";

/// Searches in virtual time, with a server that executes four steps in 40 ms, and so takes 100 sequences a second.
fn searched(range: &str, more: &str, faults: &[Planted]) -> (Bracket, Vec<Trial>) {
    let _simulation = Simulation::begin();
    let server = server_of_four(Duration::from_secs(5), Duration::from_millis(40), faults);
    let range: Range = range.parse().expect("a range");
    let (mut search, mut trials) = (Search::among(range.loads()), Vec::new());
    while let Some(load) = search.next() {
        let overrides = Overrides {
            endpoint: Some(server.address.into()),
            rate: format!("{load}/s").parse().ok(),
            duration_s: NonZeroU64::new(8),
            ..Overrides::default()
        };
        let text = format!("{more}\n{ONE_STEP}");
        let scenario = Scenario::resolve(&Source::from_text("test", &text), overrides).expect("a scenario");
        let result = run_alone(Setup::new(scenario.clone(), Seed(trials.len() as u64))).expect("a run");
        let trial = Trial::of(load, &scenario, &result, Duration::from_secs(8));
        assert!(trial.excuses(&result.violations) || !faults.is_empty(), "{:?}", result.violations);
        search.tell(load, trial.is_sustained());
        trials.push(trial);
    }
    (search.bracket(), trials)
}

#[test]
fn the_limit_of_a_server_is_in_a_narrow_bracket() {
    let (Bracket { sustained, overloaded, is_sure }, trials) = searched("20..200/s", "", &[]);
    let (sustained, overloaded) = (sustained.expect("a load"), overloaded.expect("a load"));
    assert!(is_sure && sustained < overloaded && overloaded < sustained * 1.25, "{sustained} {overloaded}");
    // A few more than it can take do not show in eight seconds.
    assert!(sustained > 85.0 && (95.0..125.0).contains(&overloaded), "{sustained} {overloaded}");
    let why = trials.iter().flat_map(|trial| &trial.overload);
    assert!(why.clone().any(|why| matches!(why, Overload::Backlog { .. })), "{:?}", why.collect::<Vec<_>>());
    let batches: Vec<_> = trials.iter().filter_map(|trial| trial.mean_batch).collect();
    assert!(batches.iter().any(|batch| *batch < 2.0) && batches.iter().any(|batch| *batch > 3.5), "{batches:?}");
}

#[test]
fn a_threshold_lowers_the_limit() {
    // One execution is under way, so that a step takes up to two.
    let (Bracket { sustained, overloaded, .. }, trials) = searched("20..200/s", "fail_if = ['step.p90 > 70ms']", &[]);
    let overloaded = overloaded.expect("a load");
    assert!(overloaded < 90.0 && sustained < Some(overloaded), "{sustained:?} {overloaded}");
    assert!(trials.iter().flat_map(|its| &its.overload).any(|why| matches!(why, Overload::Threshold(_))));
}

#[test]
fn a_load_is_too_much_for_each_of_these_reasons() {
    let why = |more: &str, faults: &[Planted]| -> Vec<Overload> {
        let (_, trials) = searched("200..200/s", more, faults);
        trials.into_iter().flat_map(|trial| trial.overload).collect()
    };
    let busy = why("load.workers = 8", &[]);
    assert!(busy.iter().any(|why| matches!(why, Overload::NotBegun { .. })), "{busy:?}");
    let waits = why("load.workers = 2000", &[]);
    assert!(waits.iter().any(|why| matches!(why, Overload::LongWaits { .. })), "{waits:?}");
    assert!(waits.iter().any(|why| matches!(why, Overload::Backlog { .. })), "{waits:?}");
    let late = why("limits.response_ms = 10", &[]);
    assert!(late.iter().any(|why| matches!(why, Overload::NotGood { .. })), "{late:?}");
    assert!(late.iter().any(|why| matches!(why, Overload::Threshold(_))), "{late:?}");
}

#[test]
fn a_response_that_is_lost_is_no_excuse() {
    let (_, trials) = searched("20..20/s", "", &[Planted::once(Fault::DropResponse, 30)]);
    let [lost] = trials.iter().filter(|trial| trial.violations > 0).collect::<Vec<_>>().try_into().expect("one trial");
    assert!(lost.overload.iter().all(|why| matches!(why, Overload::NotGood { .. })), "{:?}", lost.overload);
}

#[test]
fn the_command_ends_at_a_violation_that_load_does_not_explain() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("limit.json");
    let path = folder.path().join("one-step.toml");
    fs::write(&path, ONE_STEP).expect("a file");
    let (code, text) = told(&[
        "--embedded",
        "--find-limit=10..20/s",
        "-d4s",
        "-r1",
        "--scenario",
        words(&path),
        "--fault=off-by-one:once@70",
        "--json",
        words(&file),
    ]);
    assert_eq!(code, Some(1), "{text}");
    let said = unwrapped(&text);
    assert!(text.contains("      10/s ") && said.contains("INVALID: 1 violation: 1 wrong-sum"), "{text}");
    assert!(
        said.contains("INVALID: 1 violation at 20/s, which too much load does not explain; the search ended there"),
        "{text}"
    );
    // The run that found it can be had by itself.
    assert!(said.contains("--duration 4s --rate 20/s -r 2 --embedded"), "{text}");
    let result: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!((&result["ended"], &result["violation"]["verdict"]), (&"violation".into(), &"invalid".into()));
    let loads: Vec<_> =
        result["trials"].as_array().expect("trials").iter().map(|trial| trial["load"].as_f64()).collect();
    assert_eq!(loads, [Some(10.0), Some(20.0)]);
}

#[test]
fn the_command_tells_the_limit_and_writes_the_trials() {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, csv, junit, page] =
        ["limit.json", "limit.csv", "limit.xml", "limit.html"].map(|name| folder.path().join(name));
    let path = folder.path().join("one-step.toml");
    fs::write(&path, ONE_STEP).expect("a file");
    let flags =
        ["--embedded", "--find-limit=1..1", "--fail-if=step.p50 > 1us", "-d4s", "-q", "--scenario", words(&path)];
    let files = ["--json", words(&file), "--csv", words(&csv), "--junit", words(&junit), "--html", words(&page)];
    let (code, text) = told(&[&flags[..], &files].concat());
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("LIMIT: below 1: each number of workers that was tried was too much; give"), "{text}");
    let result: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
    let (sustained, overloaded, sure) = (&result["sustained"], result["overloaded"].as_f64(), &result["sure"]);
    assert_eq!((sustained, overloaded, sure), (&Value::Null, Some(1.0), &true.into()));
    let why = result["trials"][2]["why"].as_str().expect("a reason");
    assert!(why.starts_with("step.p50 > 1us: "), "{why}");
    assert_eq!(fs::read_to_string(&csv).expect("a file").lines().count(), 4);
    let page = crate::report::data(&page);
    assert_eq!(page["results"][0]["document"], result);
    // A load that is too much is no failure of the server.
    let junit = fs::read_to_string(&junit).expect("a file");
    assert!(
        junit.contains("tests=\"4\" failures=\"0\" errors=\"1\"") && junit.contains("name=\"trial 3: 1\""),
        "{junit}"
    );
}

#[test]
fn what_cannot_be_searched_is_said_before_anything_is_sent() {
    for (flags, problem) in [
        (&["--find-limit", "10/s"][..], "give rates such as 10..5000/s, or numbers of workers such as 1..512"),
        (&["--find-limit", "-1..5/s"], "give numbers from 0.01"),
        (&["--find-limit", "1..5"], "--find-limit 1..5 needs a threshold"),
        (&["--find-limit", "1..5/s", "-d", "2s"], "needs trials of 4 s or more: give -d 4s"),
        (&["--find-limit", "1..5/s", "--rate", "3/s"], "cannot be used with"),
        (
            &["--find-limit", "1..5/s", "--hdr-log", "x"],
            "--hdr-log is of one run: --find-limit has --json, --csv, --junit and --html",
        ),
        (&["--find-limit", "1..5/s", "--fail-if", "pending.max > 3"], "needs --metrics-url"),
    ] {
        // Nobody listens there: whoever sends something says that.
        let output = run(&[&["-u", "127.0.0.1:1"], flags].concat());
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(unwrapped(&said).contains(problem) && said.lines().count() == 1, "{flags:?}: {said}");
    }
}
