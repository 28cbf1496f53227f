//! What runs claim to exercise: it is counted from answers, and a run that did not reach it is unknown.

use crate::support;
use std::{fs, time::Duration};

use crate::support::{
    Setup, TestServer,
    runs::{run_alone, scenario},
    tool::{tool, unwrapped},
};
use reference::{Fault, ModelOptions, Planted};
use sequence_stress::{
    preflight::Hints,
    report::{Summary, Verdict},
    run::Setup as RunSetup,
};
use serde_json::Value;
use tempfile::TempDir;
use wire::simulation::Simulation;
use workload::{claim::Claim, model::Strategy, seed::Seed, sequence::Pattern};

const SCENARIO: &str = "
load.workers = 4
load.iterations = 12
contexts = { common = 2, rare = 0, rare_probability = 0 }
length.normal = { mean = 4, stdev = 1 }
limits.step_ms = 1
limits.quiet_ms = 20
limits.settle_ms = 300
limits.connect_ms = 5000
slots.check = false
";

fn stress(server: &TestServer, more: &str, hints: Hints) -> Summary {
    let text = format!("target.endpoint = '{}'\n{SCENARIO}{more}", server.address);
    let scenario = scenario(&text);
    let seed = Seed(3);
    let setup = RunSetup {
        hints,
        program: Some(env!("CARGO_BIN_EXE_sequence-stress").into()),
        ..RunSetup::new(scenario.clone(), seed)
    };
    let result = run_alone(setup).expect("a run");
    Summary { scenario, scenario_name: "test".into(), seed, replay: "again".into(), embedded: None, result }
}

/// A server whose idle limit is so long that a busy machine is not taken for a pause.
fn server(idle_ms: u64, change: impl FnOnce(&mut ModelOptions)) -> Setup {
    let mut setup = Setup::default();
    setup.models.idle_limit = Duration::from_millis(idle_ms);
    setup.models.execution = Duration::from_millis(1);
    change(&mut setup.models);
    setup
}

/// The claims in force, and how often each was reached.
fn claimed(summary: &Summary) -> Vec<(Claim, u64)> {
    summary.claims().into_iter().filter(|claim| claim.least > 0).map(|claim| (claim.claim, claim.reached)).collect()
}

#[track_caller]
fn assert_reaches_its_claims(pattern: Pattern, setup: Setup) {
    let server = TestServer::start(setup);
    // What comes to a sequence with a slot is sent after an answer.
    let window = if pattern == Pattern::Malformed { "sending.window = 1" } else { "" };
    let drawn = format!("patterns.common = {{ valid = 1, {pattern} = 3 }}\n{window}");
    let summary = stress(&server, &drawn, Hints::default());
    assert_eq!(summary.verdict(), Verdict::Valid, "{pattern}: {:?} {:?}", summary.doubts(), summary.result.violations);
    let expected = Claim::ALL.into_iter().filter(|claim| claim.patterns().contains(&pattern));
    // Those depend on how the slots are taken.
    let of_slots =
        [Claim::AllSlotsBusy, Claim::Backlog, Claim::SlotReclaim, Claim::ExpiredInBacklog, Claim::SlotsInTurn];
    let expected = expected.filter(|claim| !of_slots.contains(claim));
    let claimed: Vec<_> = claimed(&summary).into_iter().map(|(claim, _)| claim).collect();
    assert_eq!(claimed, expected.collect::<Vec<_>>(), "{pattern}");
}

/// Each pattern that is drawn is claimed, and reached on a correct server.
#[test]
fn every_pattern_reaches_what_it_is_for() {
    // The server of this test has no single calls; tests/tool/transports.rs has what mixes them.
    let others = [Pattern::Valid, Pattern::MixedTransports];
    let patterns: Vec<_> = Pattern::ALL.into_iter().filter(|pattern| !others.contains(pattern)).collect();
    support::side_by_side(2, &patterns, |pattern| {
        // A client that is a process of its own has no part in a simulation.
        let _simulation = (*pattern != Pattern::KillClient).then(Simulation::begin);
        assert_reaches_its_claims(*pattern, server(700, |_| {}));
    });
}

#[test]
fn a_model_that_may_mix_sequences_is_not_asked_for_what_it_does_not_get() {
    let _simulation = Simulation::begin();
    let oldest = server(2000, |models| models.strategy = Strategy::Oldest);
    let server = TestServer::start(oldest);
    let summary = stress(&server, "patterns.common = { valid = 1, valid-valid = 1 }", Hints::default());
    assert_eq!(summary.verdict(), Verdict::Valid, "{:?}", summary.doubts());
    assert!(matches!(claimed(&summary).as_slice(), [(Claim::ReuseOfAnId, 1..)]), "{:?}", claimed(&summary));
    assert_eq!(summary.result.tally.reached.of(Claim::BackToBack), 0);
}

const NO_ENDS: &str =
    "patterns.common = { no-end = 1 }\nclaims = { all-slots-busy = 1, backlog = 1, slot-reclaim = 1 }";

#[test]
fn slots_are_taken_waited_for_and_reclaimed_where_there_are_few() {
    let _simulation = Simulation::begin();
    let few = TestServer::start(server(400, |models| {
        (models.instances, models.max_batch_size, models.candidates) = (1, 2, 2);
    }));
    let summary = stress(&few, NO_ENDS, Hints::default());
    assert_eq!(summary.verdict(), Verdict::Valid, "{:?} {:?}", summary.doubts(), summary.result.violations);

    let many = TestServer::start(server(400, |models| models.max_batch_size = 32));
    let summary = stress(&many, NO_ENDS, Hints::default());
    assert_eq!(summary.verdict(), Verdict::Unknown, "{:?}", summary.result.tally.reached);
    assert_eq!(summary.missed_claims().len(), 3);

    let unknown = TestServer::start(Setup { has_config: false, ..server(400, |_| {}) });
    let summary = stress(&unknown, NO_ENDS, Hints::default());
    let hints: Vec<_> = summary.missed_claims().into_iter().filter_map(|missed| missed.hint).collect();
    assert!(hints.len() == 3 && hints.iter().all(|hint| hint.contains("(--slots)")), "{hints:?}");
}

/// The plan had the pauses; the answers did not show what they are for.
#[test]
fn what_the_server_does_not_do_is_not_reached() {
    let _simulation = Simulation::begin();
    let pause = "patterns.common = { pause = 1 }";
    let faulty = Setup { faults: vec![Planted::always(Fault::NeverReap)], ..server(200, |_| {}) };
    let summary = stress(&TestServer::start(faulty), pause, Hints::default());
    assert_eq!((summary.verdict(), summary.exit_code()), (Verdict::Unknown, 3), "{:?}", summary.result.violations);
    assert_eq!(summary.doubts(), ["not reached: idle-reap"]);
    assert!(summary.result.tally.reached.of(Claim::KeptThroughAPause) > 0);

    let no_start = "patterns.common = { valid = 1, no-start = 1 }";
    let faulty = Setup { faults: vec![Planted::always(Fault::AcceptNoStart)], ..server(2000, |_| {}) };
    let summary = stress(&TestServer::start(faulty), no_start, Hints::default());
    assert_eq!(summary.exit_code(), 1, "a violation comes first");
    assert_eq!(summary.result.tally.reached.of(Claim::RejectedNoStart), 0);
    assert_eq!(summary.missed_claims(), []);

    let ends = "patterns.common = { valid = 1, valid-valid = 1 }";
    let faulty = Setup { faults: vec![Planted::always(Fault::OffByOne)], ..server(2000, |_| {}) };
    let summary = stress(&TestServer::start(faulty), ends, Hints::default());
    assert_eq!(summary.result.tally.reached.of(Claim::ReuseOfAnId), 0);
}

#[test]
fn a_table_of_claims_is_taken_whole() {
    let server = TestServer::start(server(2000, |_| {}));
    let more = "patterns.common = { valid = 1, no-start = 1 }\nload.iterations = 1";
    let more = format!("{}{more}", SCENARIO.replace("load.iterations = 12\n", ""));
    let text = |claims: &str| format!("target.endpoint = '{}'\n{more}\n{claims}", server.address);
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let run = |claims: &str| {
        fs::write(path("scenario.toml"), text(claims)).expect("a file");
        let output = tool()
            .args(["--scenario", &path("scenario.toml"), "-r", "1", "-q", "--json", &path("result.json")])
            .output()
            .expect("the command runs");
        (output.status.code(), [output.stdout, output.stderr].concat())
    };
    for (claims, code, expected) in [
        ("", 3, "UNKNOWN: not reached: rejected-no-start (seed 1)"),
        ("claims = {}", 0, "VALID: "),
        ("claims = { rejected-no-start = 0, backlog = 0 }", 0, "VALID: "),
        (
            "claims.idle-reap = 2",
            3,
            "UNKNOWN: not reached: idle-reap (seed 1) not reached idle-reap: 0 of at least 2; a weight for pause in \
             [patterns.common]; the pause has to be longer than the idle limit, here 2000 ms",
        ),
        (
            "[claims]\nreuse-of-an-id = 100",
            3,
            "0 of at least 100; a weight for valid-valid or valid-no-end in [patterns.common]",
        ),
        ("claims.no-such = 1", 2, "there is no key 'no-such' here"),
        ("claims.backlog = -1", 2, "claims.backlog"),
    ] {
        let (seen, output) = run(claims);
        let output = unwrapped(&String::from_utf8(output).expect("UTF-8"));
        assert_eq!(seen, Some(code), "{claims}: {output}");
        assert!(output.contains(expected), "{claims}: {output}\n  should have {expected}");
    }
    let result: Value = serde_json::from_str(&fs::read_to_string(path("result.json")).expect("a file")).expect("JSON");
    let of = |name: &str| {
        let claims = result["claims"].as_array().expect("a list");
        claims.iter().find(|claim| claim["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!((&of("reuse-of-an-id")["least"], &of("reuse-of-an-id")["reached"]), (&100.into(), &0.into()));
    assert!(of("reuse-of-an-id")["hint"].is_string() && of("backlog").is_null(), "what nobody asks for is left out");
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result.schema.json")).expect("a file");
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).expect("JSON")).expect("a schema");
    let errors: Vec<_> = validator.iter_errors(&result).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
