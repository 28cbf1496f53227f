//! What a run does with endpoints of all kinds, and when it is ended early.

use std::{io::Write as _, net::TcpListener, num::NonZeroU64, time::Duration};

use crate::support::{
    SOLO, Setup, TestServer,
    runs::{self, block_on},
};
use oracle::{Purpose, ViolationKind};
use reference::{Fault, ModelOptions, Planted, When};
use sequence_stress::{
    cli::with_hints,
    preflight::{Hints, Preflight},
    probe::Accounting,
    run::{Interrupted, Observer, Progress, RunError, RunResult, Setup as RunSetup, run},
};
use tokio::sync::mpsc;
use wire::simulation::Simulation;
use workload::{model::Strategy, scenario::Scenario, seed::Seed};

fn with_models(change: impl FnOnce(&mut ModelOptions)) -> Setup {
    let mut setup = Setup::default();
    change(&mut setup.models);
    setup
}

const SCENARIO: &str = "
load.workers = 2
load.iterations = 10
limits.step_ms = 1
limits.settle_ms = 300
limits.quiet_ms = 20
limits.drain_ms = 300
limits.connect_ms = 1000
";

fn scenario(address: &str, more: &str) -> Scenario {
    let text = format!("target.endpoint = '{address}'\n{more}\n{SCENARIO}");
    runs::scenario(&text)
}

/// Sees what a run finds, and interrupts it after so many requests.
#[derive(Default)]
struct Watcher {
    found: Option<Preflight>,
    interrupt: Option<(u64, mpsc::Sender<()>)>,
    was_interrupted: bool,
}

impl Observer for Watcher {
    fn found(&mut self, preflight: &Preflight) {
        self.found = Some(preflight.clone());
    }

    fn progress(&mut self, progress: &Progress) {
        if let Some((_, sender)) = self.interrupt.take_if(|(requests, _)| progress.requests >= *requests) {
            sender.try_send(()).expect("the run waits for interrupts");
        }
    }

    fn interrupted(&mut self, _drain: Duration) {
        self.was_interrupted = true;
    }
}

fn run_setup(setup: RunSetup, watcher: &mut Watcher, after: Option<u64>) -> Result<RunResult, RunError> {
    let (sender, interrupts) = mpsc::channel(1);
    watcher.interrupt = after.map(|after| (after, sender.clone()));
    block_on(run(setup, watcher, interrupts))
}

fn run_scenario(scenario: Scenario, hints: Hints) -> (Result<RunResult, RunError>, Watcher) {
    let mut watcher = Watcher::default();
    let result = run_setup(RunSetup { hints, ..RunSetup::new(scenario, Seed(1)) }, &mut watcher, None);
    (result, watcher)
}

#[track_caller]
fn assert_cannot_test(server: Setup, more: &str, expected: &str) {
    assert_cannot_test_after(0, server, more, expected);
}

/// The same, when so many requests were answered.
fn assert_cannot_test_after(requests: u64, server: Setup, more: &str, expected: &str) {
    let _simulation = Simulation::begin();
    let server = TestServer::start(server);
    let (result, _) = run_scenario(scenario(&server.address.to_string(), more), Hints::default());
    let error = result.expect_err("it cannot be tested").to_string();
    assert!(error.contains(expected) && error.lines().count() == 1, "{error}\n  should have {expected}");
    assert_eq!(server.requests(), requests, "nothing else may be sent");
}

#[test]
fn what_cannot_be_tested_is_told_before_anything_is_sent() {
    assert_cannot_test(Setup { ready: false, ..Setup::default() }, "", "not ready");
    assert_cannot_test(
        Setup::default(),
        "target.model = 'no_such'",
        "no model 'no_such'; it has any_tensors, bls_oldest_sequence_bool, ",
    );
    assert_cannot_test(Setup { datatype: Some("FP32"), ..Setup::default() }, "", "takes [INPUT FP32[-1, -1]]");
    let bf16 = "takes INPUT BF16[-1, -1], and sums of BF16 are exact up to 256 alone, which is too little to tell answers apart";
    assert_cannot_test(Setup { datatype: Some("BF16"), ..Setup::default() }, "", bf16);
    assert_cannot_test(Setup { sequence_batching: false, ..Setup::default() }, "", "has no sequence batching");
    assert_cannot_test(
        Setup { decoupled: true, ..Setup::default() },
        "sending.transport = 'grpc-unary'",
        "is decoupled, and so answers over streams alone",
    );
    assert_cannot_test(Setup { formula: Some("product"), ..Setup::default() }, "", "computes 'product'");
}

#[test]
fn a_model_that_computes_something_else_is_not_accused_of_wrong_sums() {
    // It sums, and says that it does not.
    let setup = Setup { formula: Some("ready-times-input-plus-start"), ..Setup::default() };
    assert_cannot_test_after(
        2 * SOLO,
        setup,
        "",
        "does not compute ready-times-input-plus-start: it answered the only sequence, 1009, 20011, -21020, twice with 1009, 21020, 0 \
         instead of 1010, 20011, -21020; use another model (-m)",
    );
    // The first execution takes longer than the idle limit, so the second step is rejected, and the sequence is sent anew.
    let setup = Setup {
        formula: Some("ready-times-input-plus-start"),
        faults: vec![Planted::once(Fault::SlowExecution, 1)],
        ..Setup::default()
    };
    let patient = "limits.lost_after_ms = 60000";
    assert_cannot_test_after(2 * SOLO + 2, setup, patient, "does not compute ready-times-input-plus-start");
    // All that it answers is wrong, in two ways at once.
    let faults = vec![Planted::always(Fault::ExecuteTwice), Planted::always(Fault::OffByOne)];
    assert_cannot_test_after(
        2 * SOLO,
        Setup { faults, ..Setup::default() },
        "",
        "twice with 2019, 42041, 1 instead of 1009, 21020, 0",
    );
}

#[test]
fn a_server_whose_answers_fit_in_part_is_tested() {
    for faults in [
        vec![Planted::always(Fault::OffByOne)],
        vec![Planted::always(Fault::ExecuteTwice)],
        vec![Planted::always(Fault::SkipStep)],
        vec![Planted::always(Fault::ResetState)],
        // The second try differs from the first.
        vec![Planted { fault: Fault::ExecuteTwice, when: When::Probability(0.5) }, Planted::always(Fault::OffByOne)],
    ] {
        let _simulation = Simulation::begin();
        let server = TestServer::start(Setup { faults: faults.clone(), ..Setup::default() });
        let scenario = scenario(&server.address.to_string(), "");
        let result = run_setup(RunSetup::new(scenario, Seed(1)), &mut Watcher::default(), None).expect("a run");
        assert!(
            result.tally.violations.contains_key(&ViolationKind::WrongSum),
            "{faults:?}: {:?}",
            result.tally.violations
        );
    }
}

#[test]
fn what_happens_once_before_the_run_is_told() {
    for (fault, chance, kind) in [
        (Fault::OffByOne, 2, ViolationKind::WrongSum),
        (Fault::DropResponse, 1, ViolationKind::Lost),
        (Fault::RejectMidSequence, 1, ViolationKind::SpuriousStartError),
        (Fault::NeverClose, 1, ViolationKind::StreamNotClosed),
        (Fault::WrongModelVersion, 1, ViolationKind::WrongVersion),
    ] {
        let _simulation = Simulation::begin();
        let server = TestServer::start(Setup { faults: vec![Planted::once(fault, chance)], ..Setup::default() });
        let scenario = scenario(&server.address.to_string(), "");
        let result = run_setup(RunSetup::new(scenario, Seed(1)), &mut Watcher::default(), None).expect("a run");
        let told: Vec<_> = result.violations.iter().map(|violation| (violation.kind, violation.aside())).collect();
        assert_eq!(told, [(kind, Some(Purpose::Trial))], "{fault}");
    }
}

#[test]
fn the_formula_that_the_model_names_is_taken() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(Setup { formula: Some("running-sum"), ..Setup::default() });
    let (result, _) = run_scenario(scenario(&server.address.to_string(), ""), Hints::default());
    assert_eq!(result.expect("a run").violations, []);
}

/// The error of a run against a listener that treats each connection so.
fn error_of(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    let (result, _) = run_scenario(scenario(&address, ""), Hints::default());
    result.expect_err("it cannot be tested").to_string()
}

#[test]
fn an_endpoint_that_is_none_is_told() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string();
    let refused = run_scenario(scenario(&free, ""), Hints::default()).0.expect_err("nobody listens").to_string();
    assert!(refused.contains("no connection") && refused.contains("refused"), "{refused}");

    let silent = error_of(std::mem::forget);
    assert!(silent.contains("no response within 1000 ms"), "{silent}");

    let http = error_of(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        std::thread::sleep(Duration::from_millis(200));
    });
    assert!(http.contains("does not speak gRPC"), "{http}");

    let hangs_up = error_of(drop);
    assert!(hangs_up.lines().count() == 1, "{hangs_up}");
}

#[test]
fn an_endpoint_that_tells_little_is_tested_as_far_as_it_goes() {
    let _simulation = Simulation::begin();
    let server = || TestServer::start(Setup { has_config: false, has_statistics: false, ..Setup::default() });
    let lone = server();
    let (result, watcher) = run_scenario(scenario(&lone.address.to_string(), ""), Hints::default());
    let result = result.expect("a run");
    assert_eq!(result.violations, []);
    assert!(result.tally.total().completed > 100);
    let found = watcher.found.expect("a preflight");
    assert!(found.manner().after_answers);
    for expected in ["has no ModelConfig", "--slots", "--idle-limit", "the server has no ModelStatistics"] {
        assert!(found.notes.iter().any(|note| note.to_string().contains(expected)), "{expected}: {:?}", found.notes);
    }
    assert!(matches!(result.accounting, Accounting::NotCheckable { .. }));

    let told = server();
    let hints = Hints {
        slots: Some(8),
        idle_limit: Some(Duration::from_millis(500)),
        strategy: Some(Strategy::Direct),
        ..Hints::default()
    };
    let (result, watcher) = run_scenario(scenario(&told.address.to_string(), ""), hints);
    assert_eq!(result.expect("a run").violations, []);
    let found = watcher.found.expect("a preflight");
    assert_eq!((found.manner().after_answers, found.model.slots), (false, Some(8)));
    assert_eq!(with_hints("again", &found.told), "again --idle-limit 500ms --slots 8 --strategy direct");
    assert!(!found.notes.iter().any(|note| note.to_string().contains("--idle-limit")), "{:?}", found.notes);
}

#[test]
fn a_model_that_may_mix_pipelined_sequences_gets_them_one_after_the_other() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(with_models(|models| models.strategy = Strategy::Oldest));
    let (result, watcher) = run_scenario(scenario(&server.address.to_string(), ""), Hints::default());
    assert_eq!(result.expect("a run").violations, []);
    let found = watcher.found.expect("a preflight");
    assert!(found.manner().after_answers);
    assert!(found.notes.iter().any(|note| note.to_string().contains("reuse is after-response")), "{:?}", found.notes);
}

#[test]
fn the_longest_lawful_wait_follows_from_slots_idle_limit_and_load() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(with_models(|models| models.idle_limit = Duration::from_secs(1)));
    let more = "length.max = 10\nlimits.response_ms = 700";
    let (_, watcher) = run_scenario(scenario(&server.address.to_string(), more), Hints::default());
    let limits = watcher.found.expect("a preflight").limits;
    // 2 workers with two sequences each on 8 slots: one turn before ours, and ours.
    assert_eq!(limits.lawful, 2 * (Duration::from_secs(1) + 10 * Duration::from_millis(1)));
    assert_eq!(limits.lost_after, Duration::from_secs(5));
    assert_eq!(limits.threshold, Some(Duration::from_millis(700)));
}

#[test]
fn an_interrupted_run_drains_and_tells() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(Setup::default());
    let mut scenario = scenario(&server.address.to_string(), "load.duration_s = 3600");
    // Longer than the idle limit: some wait for slots of sequences without END.
    scenario.limits.drain_ms = 5000.try_into().expect("a time");
    scenario.populations[0].load.iterations = None;
    let mut watcher = Watcher::default();
    let setup = RunSetup::new(scenario, Seed(1));
    let result = run_setup(setup, &mut watcher, Some(500)).expect("a run");
    assert!(watcher.was_interrupted);
    assert_eq!(result.interrupted, Interrupted(true));
    assert_eq!(result.violations, []);
    let total = result.tally.total();
    assert_eq!((total.indeterminate, total.requests), (0, server.requests() - SOLO));
    assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{:?}", result.accounting);
}

#[test]
fn what_is_not_answered_when_an_interrupted_run_has_drained_is_not_known() {
    let _simulation = Simulation::begin();
    let server = TestServer::that_freezes(1 + SOLO);
    let mut watcher = Watcher::default();
    let scenario = scenario(&server.address.to_string(), "");
    let setup = RunSetup::new(scenario, Seed(1));
    let result = run_setup(setup, &mut watcher, Some(1)).expect("a run");
    assert_eq!(result.violations, [], "nothing was lost: the run did not wait long enough to tell");
    assert!(result.tally.total().indeterminate > 0);
    assert!(result.elapsed < Duration::from_secs(4), "it waits for the answers' own limit: {:?}", result.elapsed);
}

#[test]
fn fail_fast_ends_the_run_at_the_first_violation() {
    let _simulation = Simulation::begin();
    let server = TestServer::with_fault(Planted::once(Fault::OffByOne, 5));
    // Far more than is sent while the sequences that are under way come to their end, however slow the machine is.
    let iterations = 100_000;
    let mut scenario = scenario(&server.address.to_string(), "");
    scenario.populations[0].load.iterations = NonZeroU64::new(iterations);
    let mut watcher = Watcher::default();
    let setup = RunSetup { fail_fast: true, ..RunSetup::new(scenario, Seed(1)) };
    let result = run_setup(setup, &mut watcher, None).expect("a run");
    assert_eq!(result.violations.len(), 1, "{:?}", result.violations);
    let requests = result.tally.total().requests;
    assert!(requests < iterations, "{requests} requests went out");
}

#[test]
fn a_server_that_dies_before_its_first_answer_cannot_be_tested() {
    let _simulation = Simulation::begin();
    let server = TestServer::with_fault(Planted::always(Fault::Crash));
    let (result, _) = run_scenario(scenario(&server.address.to_string(), ""), Hints::default());
    let error = result.expect_err("nothing was tested").to_string();
    assert!(error.contains("before its first response"), "{error}");
}

#[test]
fn a_server_that_answers_nothing_any_more_does_not_keep_the_run_for_ever() {
    let _simulation = Simulation::begin();
    // Behind sequences that are so long an answer may lawfully be waited for for hours, but not by everybody.
    for longest in [20, 1_000_000] {
        let server = TestServer::that_freezes(40);
        let more = "limits.lost_after_ms = 200\nload.iterations = 100000";
        let address = server.address.to_string();
        let text = format!(
            "target.endpoint = '{address}'\n{more}\nload.workers = 2\nlength.max = {longest}\nlimits.step_ms = 1\nlimits.quiet_ms = 20\nlimits.settle_ms = 100"
        );
        let (result, _) = run_scenario(runs::scenario(&text), Hints::default());
        let result = result.expect("a run");
        assert!(result.tally.violations.contains_key(&ViolationKind::Hang), "{:#?}", result.violations);
        let others = result.tally.violations.keys().filter(|kind| **kind != ViolationKind::Hang);
        assert!(others.copied().all(|kind| kind == ViolationKind::Lost), "{:#?}", result.violations);
    }
}

#[test]
fn somebody_else_on_the_model_makes_the_servers_counts_uncheckable() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(Setup::default());
    let address = server.address.to_string();
    let other = {
        let text =
            format!("target.endpoint = '{address}'\nload.duration_s = 2\ncorrelation_ids.first = 100000\n{SCENARIO}");
        let mut scenario = runs::scenario(&text);
        scenario.populations[0].load.iterations = None;
        RunSetup::new(scenario, Seed(1))
    };
    let mut ours = scenario(&address, "");
    // Longer than the idle limit, in which the other run may wait for slots.
    ours.limits.quiet_ms = 600.try_into().expect("a time");
    let ours = RunSetup::new(ours, Seed(1));
    let (mut nobody, mut nobody_else) = ((), ());
    let ((_interrupt, interrupts), (_interrupt_other, of_the_other)) = (mpsc::channel(1), mpsc::channel(1));
    let ours = async {
        while server.requests() < 50 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        run(ours, &mut nobody, interrupts).await
    };
    let (result, other) = block_on(async { tokio::join!(ours, run(other, &mut nobody_else, of_the_other)) });
    let result = result.expect("a run");
    assert_eq!(result.violations, []);
    assert!(
        matches!(&result.accounting, Accounting::NotCheckable { why } if why.contains("somebody else")),
        "{:?}",
        result.accounting
    );
    assert!(other.expect("the other run").violations.iter().all(|v| v.kind == ViolationKind::Statistics));
}

#[test]
fn a_run_after_a_run_whose_sequences_still_live_is_not_accused() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(with_models(|models| models.idle_limit = Duration::from_secs(60)));
    for _ in 0..2 {
        let more = "slots.check = false\npatterns.common = { no-end = 1, valid-no-end = 1, valid = 1 }";
        let (result, _) = run_scenario(scenario(&server.address.to_string(), more), Hints::default());
        assert_eq!(result.expect("a run").violations, []);
    }
}

#[test]
fn a_server_that_dies_when_the_last_stream_is_closed_is_a_violation() {
    let _simulation = Simulation::begin();
    // They are asked for by the preflight, twice for the sequence before the run, and twice by the baseline; then after the run.
    let server = TestServer::start(Setup { dies_at_statistics: Some(6), ..Setup::default() });
    let (result, _) = run_scenario(scenario(&server.address.to_string(), ""), Hints::default());
    let result = result.expect("a run");
    let found: Vec<_> = result.tally.violations.keys().collect();
    assert_eq!(found, [&ViolationKind::ServerDied], "{:#?}", result.violations);
}

#[test]
fn an_interrupt_before_anything_is_sent_is_heard() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(Setup::default());
    let mut scenario = scenario(&server.address.to_string(), "");
    scenario.limits.quiet_ms = 60_000.try_into().expect("a time");
    let (sender, interrupts) = mpsc::channel(1);
    sender.try_send(()).expect("room");
    let setup = RunSetup::new(scenario, Seed(1));
    let mut nobody = ();
    let result = block_on(run(setup, &mut nobody, interrupts));
    assert_eq!(result.expect_err("it was interrupted"), RunError::Interrupted);
    assert_eq!(server.requests(), 0);
}

#[test]
fn the_longest_lawful_wait_allows_for_more_slots_than_are_executed_at_once_and_for_the_schedulers_delay() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(with_models(|models| {
        models.strategy = Strategy::Oldest;
        models.idle_limit = Duration::from_secs(1);
        models.candidates = 16;
        models.queue_delay = Duration::from_millis(9);
    }));
    let (_, watcher) = run_scenario(scenario(&server.address.to_string(), "length.max = 10"), Hints::default());
    let limits = watcher.found.expect("a preflight").limits;
    // 2 instances with 16 candidates each, of which 4 are executed at a time.
    assert_eq!(limits.step, 4 * Duration::from_millis(1 + 9));
    assert_eq!(limits.lawful, 2 * (Duration::from_secs(1) + 10 * limits.step));
}

#[test]
fn a_step_that_is_cancelled_while_it_executes_was_taken_up() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(with_models(|models| models.execution = Duration::from_millis(30)));
    let more = "patterns = { common = { cancel-executing = 1 }, rare = { cancel-executing = 1 } }\nlength = { min = 2, max = 3 }";
    let (result, _) = run_scenario(scenario(&server.address.to_string(), more), Hints::default());
    let result = result.expect("it can be tested");
    assert_eq!(result.violations, []);
    let total = result.tally.total();
    let Accounting::Agrees { rose, .. } = result.accounting else { panic!("{:?}", result.accounting) };
    assert_eq!(total.indeterminate, 20, "one in each iteration");
    // On a machine that is busy one or the other may be held up between the client and the server.
    assert!(rose.success - total.completed > 10, "{rose:?} {total:?}");
}

#[test]
fn what_is_cancelled_idle_was_answered() {
    let _simulation = Simulation::begin();
    let server = TestServer::start(Setup::default());
    let more = "patterns = { common = { cancel-idle = 1 }, rare = { cancel-idle = 1 } }\nlength = { min = 2, max = 3 }";
    let (result, _) = run_scenario(scenario(&server.address.to_string(), more), Hints::default());
    let result = result.expect("it can be tested");
    let total = result.tally.total();
    assert_eq!((result.violations, total.indeterminate, total.completed), (Vec::new(), 0, total.requests));
    assert!(total.requests >= 20, "{total:?}");
}
