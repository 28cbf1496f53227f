//! The built-in scenarios: the suite, the list, and what the document says of them.

use std::{fs, time::Duration};

use reference::{ModelOptions, Options, Server};
use sequence_stress::{
    report::{Summary, Verdict},
    run::{Restart, Setup},
};
use wire::simulation::Simulation;
use workload::{
    claim::Claim,
    endpoint::Endpoints,
    scenario::{BUILTIN, Builtin, KEYS, Overrides, Scenario, Source},
    seed::Seed,
    sequence::Pattern,
};

use crate::support::{
    long::{is_long, rounds},
    runs::run_alone,
    side_by_side,
    tool::{run, unwrapped},
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn suite(arguments: &[&str]) -> (Option<i32>, String) {
    let all = [&["suite", "--embedded", "--idle-limit", "200ms", "--execution-time", "1ms", "-r", "7"][..], arguments]
        .concat();
    let output = run(&all);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// The scenario whose clients are processes of their own, which have no part in a simulation.
const WITH_PROCESSES: &str = "bad-network";

/// What a scenario of the suite comes to on a correct server, whose connections get this old.
fn simulated(builtin: &Builtin, max_connection_age: Option<Duration>, seed: u64) -> Summary {
    let _simulation = Simulation::begin();
    let models = ModelOptions {
        idle_limit: Duration::from_millis(200),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    let options = Options { models, max_connection_age, threads: 1, ..Options::default() };
    let server = Server::start(options).expect("a free port");
    let overrides = Overrides {
        endpoint: Some(Endpoints::of_both(server.address, server.http)),
        metrics: Some(server.metrics.into()),
        ..Overrides::default()
    };
    let source = Source::from_text(builtin.name, builtin.text);
    let scenario = Scenario::resolve(&source, overrides).expect("a scenario");
    let (scenario_name, seed) = (builtin.name.to_owned(), Seed(seed));
    let setup =
        Setup { restart: Some(Restart::by(server.restarter())), embedded: true, ..Setup::new(scenario.clone(), seed) };
    let result = run_alone(setup).expect("the server can be tested");
    Summary { scenario, scenario_name, seed, replay: String::new(), embedded: None, result }
}

fn with_no_processes() -> Vec<&'static Builtin> {
    BUILTIN.iter().filter(|builtin| builtin.in_suite && builtin.name != WITH_PROCESSES).collect()
}

#[test]
fn every_scenario_is_valid_on_a_correct_server() {
    let all = with_no_processes();
    side_by_side(2, &all, |builtin| {
        let summary = simulated(builtin, None, 7);
        assert_eq!(
            (summary.verdict(), summary.doubts()),
            (Verdict::Valid, Vec::new()),
            "{}: {:#?}",
            builtin.name,
            summary.result.violations
        );
    });
}

/// Nobody may be accused of connections that end in good order: what is under way on them is finished, or was not taken in.
#[test]
fn every_scenario_is_valid_where_the_server_limits_the_age_of_connections() {
    let ages = [300, 1000].map(Duration::from_millis);
    let all: Vec<_> = with_no_processes()
        .into_iter()
        .zip(ages.into_iter().cycle())
        .flat_map(|(builtin, age)| {
            let ages = if is_long() { ages.to_vec() } else { vec![age] };
            ages.into_iter().flat_map(move |age| (1..=rounds(1, 3)).map(move |seed| (builtin, age, seed)))
        })
        .collect();
    side_by_side(2, &all, |(builtin, age, seed)| {
        let summary = simulated(builtin, Some(*age), *seed);
        let seen = format!("{}, {age:?}, seed {seed}: {:#?}", builtin.name, summary.result.violations);
        assert_eq!((summary.verdict(), summary.doubts()), (Verdict::Valid, Vec::new()), "{seen}");
        assert!(summary.result.go_aways.connections > 0, "{seen}");
    });
}

#[test]
fn the_suite_runs_scenarios_in_real_time_and_tells_their_verdicts() {
    let all: Vec<_> = BUILTIN.iter().filter(|builtin| builtin.in_suite).map(|builtin| builtin.name).collect();
    let names = rounds(vec!["rapid-cycling", "ordering", WITH_PROCESSES], all);
    let (code, told) = suite(&["--only", &names.join(",")]);
    for name in &names {
        let is_told = |line: &str| line.split_whitespace().take(2).eq([*name, "valid"]);
        assert!(told.lines().any(is_told), "{name}: {told}");
    }
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn a_planted_fault_makes_each_scenario_invalid_and_the_suite_goes_on() {
    let (code, told) = suite(&["--fault", "keep-state:once@3", "--only", "rapid-cycling,ordering", "-q"]);
    assert_eq!(code, Some(1), "{told}");
    let line = |name: &str| told.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    // Each has a server of its own, which commits the fault once.
    assert!(line("rapid-cycling  ").contains("invalid") && line("ordering  ").contains("invalid"), "{told}");
    assert!(told.contains("rapid-cycling: wrong-sum, cause ") && told.contains("--scenario rapid-cycling"), "{told}");
    assert!(told.contains("2 of 2 scenarios run: 0 valid, 2 invalid, 0 unknown"), "{told}");
}

#[test]
fn what_needs_another_endpoint_is_skipped_and_why_is_told() {
    let server = Server::start(Options::default()).expect("a free port");
    let output = run(&["suite", "-u", &server.address.to_string(), "--only", "mixed-transports"]);
    assert_eq!(output.status.code(), Some(3), "nothing was run: {output:?}");
    let told = unwrapped(&text(&output.stdout));
    assert!(told.contains("the transport http needs an endpoint that speaks HTTP"), "{told}");
}

#[test]
fn what_the_endpoint_cannot_do_is_skipped_and_why_is_told() {
    let (code, told) = suite(&["--only", "slot-exhaustion", "--instances", "8", "--max-batch-size", "4"]);
    assert_eq!(code, Some(3), "nothing was run: {told}");
    let told = unwrapped(&told);
    assert!(told.contains("skipped") && told.contains("the model has 32 slots for 32 workers"), "{told}");
    let texts = ["--only", "correlation-id-routing-text", "-m", "oldest_sequence_int32"];
    let (code, told) = suite(&texts);
    let told = unwrapped(&told);
    assert!(
        code == Some(3) && told.contains("is told correlation IDs as integers, so it cannot be sent texts"),
        "{told}"
    );
    let (code, told) = suite(&["--only", "bad-network,connection-drops", "--transport", "grpc-unary"]);
    assert_eq!(code, Some(3), "nothing was run: {told}");
    assert_eq!(unwrapped(&told).matches("skipped it is not for grpc-unary: ").count(), 2, "{told}");
    // Alone it is run, and says what was not reached for that.
    let alone = ["--embedded", "--idle-limit", "200ms", "-i", "4", "-r", "1", "-q", "--scenario", "connection-drops"];
    let output = run(&[&alone[..], &["--transport", "grpc-unary", "--require-claims"]].concat());
    let told = unwrapped(&text(&output.stdout));
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("half-close needs a stream (--transport grpc-stream)"), "{told}");
    let output = run(&["suite", "--embedded", "--idle-limit", "6s", "--only", "idle-boundary"]);
    assert!(
        unwrapped(&text(&output.stdout)).contains("it waits for the idle limit, and 6 s is too long"),
        "{output:?}"
    );
}

#[test]
fn a_suite_without_a_server_or_of_unknown_scenarios_says_so() {
    let output = run(&["suite", "-u", "127.0.0.1:1", "--only", "ordering"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(text(&output.stdout).contains("not tested"), "{output:?}");
    // Those that were asked for and not begun are told, too.
    let output = run(&["suite", "-u", "127.0.0.1:1", "--only", "ordering,backlog,soak"]);
    let told = text(&output.stdout);
    assert_eq!(told.lines().filter(|line| line.ends_with("the suite ended before it")).count(), 2, "{told}");
    assert!(told.contains("0 of 3 scenarios run"), "{told}");
    let output = run(&["suite", "--only", ""]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("an empty name"), "{output:?}");
    let output = run(&["proxy", "--to", "127.0.0.1:1", "--cut-by", "fin"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--cut-by needs"), "{output:?}");
    let output = run(&["suite", "--embedded", "--only", "orderin"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("no built-in scenario of this name; did you mean 'ordering'?"), "{output:?}");
}

#[test]
fn scenarios_are_listed_printed_and_described() {
    let list = text(&run(&["scenarios"]).stdout);
    let keys = text(&run(&["scenarios", "--keys"]).stdout);
    for builtin in BUILTIN {
        let is_it = |line: &str| line.split_whitespace().next() == Some(builtin.name) && line.contains(&builtin.what());
        let line = list.lines().find(|line| is_it(line)).unwrap_or_else(|| panic!("{}: {list}", builtin.name));
        assert_eq!(line.ends_with("(not in the suite)"), !builtin.in_suite, "{line}");
        assert_eq!(text(&run(&["scenarios", builtin.name]).stdout), builtin.text);
    }
    assert!(KEYS.iter().all(|key| keys.lines().any(|line| line.starts_with(key.path) && line.ends_with(key.what))));
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/PATTERNS.md")).expect("a document");
    for pattern in Pattern::ALL {
        assert!(document.contains(&format!("| `{pattern}` | {} |", pattern.what())), "{pattern}");
    }
    assert!(Claim::ALL.iter().all(|claim| document.contains(&format!("| `{claim}` |"))));
}
