//! Runs in phases: which workers work when, and what becomes of a run in whose middle the server is disturbed.

use crate::support;
use std::{future::ready, net::SocketAddr, sync::Mutex, time::Duration};

use crate::support::{
    gate::{Gate, Pass},
    runs::{block_on, quick_server as server, reference_server, run_alone, scenario_at},
    tool::unwrapped,
};
use oracle::ViolationKind;
use reference::{Fault, ModelOptions, Planted, Server};
use sequence_stress::{
    probe::{Accounting, IdleSearch, SlotFinding},
    run::{Observer, Restart, RunError, RunResult, Setup, run},
};
use tokio::{sync::mpsc, time::sleep};
use wire::{
    simulation::Simulation,
    transport::{Access, Client},
};
use workload::{model::Strategy, seed::Seed};

/// Steps may take long on a busy machine; the rest is checked quickly.
const COMMON: &str = "
limits = { quiet_ms = 20, settle_ms = 3000, lost_after_ms = 20000 }
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 3, no-end = 1 }
length = { min = 1, max = 12, normal = { mean = 6, stdev = 3 } }
values.uniform = { min = -2147483648, max = 2147483647 }
sending = { reuse = 'after-response', window = 2 }
";

fn stress(server: &Server, text: &str, restart: Option<Restart>) -> Result<RunResult, RunError> {
    stress_at(server.address, &format!("{COMMON}{text}"), restart)
}

fn stress_at(address: SocketAddr, text: &str, restart: Option<Restart>) -> Result<RunResult, RunError> {
    stress_by(3, address, text, restart)
}

fn stress_by(seed: u64, address: SocketAddr, text: &str, restart: Option<Restart>) -> Result<RunResult, RunError> {
    run_alone(Setup { restart, ..Setup::new(scenario_at(address, text), Seed(seed)) })
}

#[test]
fn phases_follow_each_other_and_their_pauses_are_kept() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let text = "
[[phase]]
name = 'warm up'
[[phase]]
name = 'heal'
pause_ms = 150
[[phase]]
name = 'probe'
pause_ms = 100
[[population]]
name = 'second'
phase = 'probe'
load = { workers = 2, iterations = 5 }
[[population]]
name = 'first'
phase = 'warm up'
load = { workers = 2, iterations = 5 }
";
    let result = stress(&server, text, None).expect("a run");
    assert_eq!(result.violations, []);
    assert_eq!(result.iterations, 20);
    let [warm_up, heal, probe] = &result.phases[..] else { panic!("{:?}", result.phases) };
    assert_eq!([&warm_up.name, &heal.name, &probe.name], ["warm up", "heal", "probe"]);
    assert!(warm_up.began_us < warm_up.ended_us && probe.began_us < probe.ended_us, "{:?}", result.phases);
    assert!(heal.began_us >= warm_up.ended_us + 150_000, "{:?}", result.phases);
    assert!(probe.began_us >= heal.ended_us + 100_000, "{:?}", result.phases);
    assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{:?}", result.accounting);
}

/// Sequences throughout, and others that begin when all is over.
const DISTURBED: &str = "
[[population]]
name = 'throughout'
load = { workers = 4, duration_s = 1 }
think.iteration_ms.constant = 2
[[population]]
name = 'afterwards'
phase = 'afterwards'
load = { workers = 3, iterations = 20 }
[[phase]]
name = 'disturbed'
pause_ms = 200
server = 'ACTION'
[[phase]]
name = 'afterwards'
";

fn disturbed(server: &Server, action: &str, more: &str) -> RunResult {
    let text = format!("{}{more}", DISTURBED.replace("ACTION", action));
    stress(server, &text, Some(Restart::by(server.restarter()))).expect("a run")
}

#[test]
fn a_server_that_is_disturbed_by_the_scenario_is_not_accused() {
    for model in ["custom_sequence_int32", "implicit_sequence_int32"] {
        for action in ["reload", "reload-oldest", "reload-direct", "more-instances", "unload", "restart"] {
            let _simulation = Simulation::begin();
            // A model that was loaded anew is another one after a restart.
            let server = server(&[]);
            let result = disturbed(&server, action, &format!("[target]\nmodel = '{model}'"));
            let what = format!("{action} of {model}");
            assert_eq!(result.violations, [], "{what}");
            assert!(matches!(result.accounting, Accounting::NotCheckable { .. }), "{what}: {:?}", result.accounting);
            let slots = if action == "more-instances" { 8 } else { 4 };
            let found = &result.slots.finding;
            assert!(matches!(found, SlotFinding::AllThere { slots: its } if *its == slots), "{what}: {found:?}");
            let done = result.phases[0].server.as_deref().unwrap_or_default();
            let says = ["the model was reloaded", "the model was unloaded", "the server was restarted"];
            assert!(says.iter().any(|says| done.starts_with(says)), "{done}");
            assert!(result.tally.total().completed > 100, "{what}: {:?}", result.tally.total());
        }
    }
}

#[test]
fn with_another_strategy_there_may_be_another_number_of_slots() {
    let _simulation = Simulation::begin();
    let models = ModelOptions {
        strategy: Strategy::Oldest,
        max_batch_size: 4,
        candidates: 12,
        idle_limit: Duration::from_millis(200),
        execution: Duration::ZERO,
        ..ModelOptions::default()
    };
    for (action, slots) in [("reload-direct", 4), ("reload-oldest", 12)] {
        let server = reference_server(models.clone(), &[]);
        let result = disturbed(&server, action, "[slots]\nidle_limit_search = true");
        assert_eq!(result.violations, [], "{action}");
        let found = &result.slots.finding;
        assert!(matches!(found, SlotFinding::AllThere { slots: found } if *found == slots), "{action}: {found:?}");
        assert!(matches!(result.idle_limit, IdleSearch::Found { .. }), "{action}: {:?}", result.idle_limit);
        let model = &result.preflight.model;
        assert_eq!([model.fewest_slots(), model.slots, model.most_slots()], [Some(slots), Some(12), Some(12)]);
    }
}

#[test]
fn what_a_server_does_wrong_after_it_was_disturbed_is_found() {
    let _simulation = Simulation::begin();
    for action in ["reload-oldest", "restart"] {
        // Long after the second phase began: the reference server counts chances over all its lives.
        let server = server(&[Planted::always(Fault::SkipStep)]);
        let result = disturbed(&server, action, "");
        let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        let afterwards = result.phases[1].began_us * 1000;
        assert!(kinds.iter().all(|kind| *kind == ViolationKind::WrongSum), "{action}: {kinds:?}");
        let is_late = result.violations.iter().any(|violation| violation.at_ns > afterwards);
        assert!(is_late, "{action}: none after {afterwards}: {:?}", result.violations);
    }
}

/// The end of a connection is on its way through the network when the server is back already.
#[test]
fn a_server_that_is_restarted_behind_a_slow_network_is_not_accused() {
    support::side_by_side(2, &[1, 2, 3], |seed| {
        let _simulation = Simulation::begin();
        let server = server(&[]);
        let network = "network.latency_ms.uniform = { min = 5, max = 60 }\nsending.connection = 'per-context'";
        let phase = |name| format!("[[phase]]\nname = '{name}'\npause_ms = 200\nserver = 'restart'\n");
        let text = format!(
            "patterns.common = {{ valid = 1 }}\nload = {{ workers = 8, duration_s = 3 }}\n{network}\nclaims = {{}}\n{}",
            ["a", "b", "c"].map(phase).concat()
        );
        let restart = Some(Restart::by(server.restarter()));
        let result = stress_by(*seed, server.address, &text, restart).expect("a run");
        assert_eq!(result.violations, [], "seed {seed}");
        assert!(result.tally.total().completed > 20, "{:?}", result.tally.total());
    });
}

#[test]
fn what_cannot_be_done_to_the_server_is_told_before_anything_is_sent() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let text = DISTURBED.replace("ACTION", "restart");
    let error = stress(&server, &text, None).expect_err("nobody says how").to_string();
    assert!(error.contains("phase 'disturbed' is not possible") && error.contains("--restart-command"), "{error}");
}

#[test]
fn where_the_server_cannot_be_restarted_the_run_ends_and_what_it_found_is_kept() {
    for (fault, code, verdict) in [(None, 3, "UNKNOWN"), (Some(Fault::SkipStep), 1, "INVALID")] {
        let server = server(&fault.map(Planted::always).into_iter().collect::<Vec<_>>());
        let folder = tempfile::tempdir().expect("a folder");
        let [scenario, json, failure, history] =
            ["s.toml", "r.json", "f.toml", "h.jsonl"].map(|name| folder.path().join(name).display().to_string());
        std::fs::write(&scenario, format!("{COMMON}{}", DISTURBED.replace("ACTION", "restart"))).expect("a file");
        let url = server.address.to_string();
        let files = ["--json", &json, "--failure", &failure, "--history", &history];
        let words = ["-u", &url, "--scenario", &scenario, "-r", "3", "--restart-command", "exit 3"];
        let (found, told) = tool(&[&words[..], &files].concat());
        let told = unwrapped(&told);
        assert_eq!(found, Some(code), "{told}");
        let why = "the run ended before phase 'disturbed': the command that restarts the server, `exit 3`, failed";
        assert!(told.contains(why) && told.contains(verdict) && !told.contains("cannot test"), "{told}");
        let result = std::fs::read_to_string(&json).expect("it is written");
        assert!(result.contains(why) && result.contains(&format!("\"exit_code\": {code}")), "{result}");
        assert_eq!(fault.is_some(), std::fs::exists(&failure).expect("a folder"), "{told}");
        let (found, told) = tool(&["check", &history]);
        assert!(found == Some(code) && unwrapped(&told).contains(why), "{found:?}: {told}");
    }
}

#[test]
fn a_server_that_nobody_starts_again_did_nothing_wrong() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let address = server.address;
    let server = Mutex::new(Some(server));
    let ends = Restart::by(move || {
        drop(server.lock().expect("a server").take());
        ready(Err("nobody starts it again".to_owned()))
    });
    let text = format!("{COMMON}{}", DISTURBED.replace("ACTION", "restart"));
    let result = stress_at(address, &text, Some(ends)).expect("a run");
    assert_eq!(result.violations, []);
    assert_eq!(result.phases, []);
    let why = "the run ended before phase 'disturbed': nobody starts it again";
    assert_eq!(result.broken_off.as_deref(), Some(why));
}

#[test]
fn a_server_that_dies_of_being_asked_to_load_a_model_died() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let mut loads = 0;
    let gate = Gate::before(server.address, move |bytes| {
        loads += u32::from(is_load(bytes));
        // The first is the trial before the run.
        if loads < 2 { Pass::Now } else { Pass::Never }
    });
    let text = format!("{COMMON}{}", DISTURBED.replace("ACTION", "reload-oldest"));
    let result = stress_at(gate.address, &text, None).expect("a run");
    let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
    assert_eq!(kinds, [ViolationKind::ServerDied]);
    assert_eq!((result.phases, result.broken_off), (Vec::new(), None));
}

#[test]
fn a_model_may_take_longer_to_load_than_a_connection_to_be_made() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let gate =
        Gate::before(
            server.address,
            |bytes| {
                if is_load(bytes) { Pass::After(Duration::from_millis(1800)) } else { Pass::Now }
            },
        );
    let common = COMMON.replace("lost_after_ms", "connect_ms = 1500, lost_after_ms");
    let text = format!("{common}{}", DISTURBED.replace("ACTION", "reload-oldest"));
    let result = stress_at(gate.address, &text, None).expect("a run");
    assert_eq!((&result.violations[..], &result.broken_off), (&[][..], &None));
    assert!(result.phases.len() == 2 && result.iterations > 60, "{:?}", result.phases);
}

/// The strategy that the model is loaded with now.
async fn strategy_of(client: &Client) -> Option<Strategy> {
    client.configuration("custom_sequence_int32").await.expect("a configuration").settings().strategy
}

#[test]
fn a_model_that_was_switched_is_put_back_however_the_run_ends() {
    let switched = DISTURBED.replace("ACTION", "reload-oldest");
    let faulty = [Planted::always(Fault::SkipStep)];
    for (faults, is_interrupted) in [(&[][..], false), (&[][..], true), (&faulty[..], true)] {
        let _simulation = Simulation::begin();
        let server = server(faults);
        // An interrupted run would go on for long.
        let seconds = if is_interrupted { "duration_s = 60" } else { "duration_s = 1" };
        let text = format!("{COMMON}{}", switched.replace("duration_s = 1", seconds));
        let scenario = scenario_at(server.address, &text);
        let (result, strategy) = block_on(async {
            let calls = scenario.target.endpoint.for_calls();
            let client = Client::new(calls, &Access::default(), Duration::from_secs(5)).expect("an endpoint");
            let (interrupt, interrupts) = mpsc::channel(1);
            let when_switched = async {
                while strategy_of(&client).await != Some(Strategy::Oldest) {
                    sleep(Duration::from_millis(5)).await;
                }
                if is_interrupted {
                    interrupt.send(()).await.expect("the run listens");
                }
            };
            let mut nobody = ();
            let running = run(Setup::new(scenario, Seed(3)), &mut nobody, interrupts);
            let (result, ()) = tokio::join!(running, when_switched);
            (result.expect("a run"), strategy_of(&client).await)
        });
        assert_eq!((result.interrupted.0, result.violations.is_empty()), (is_interrupted, faults.is_empty()));
        assert_eq!(result.broken_off, None);
        assert_eq!(strategy, Some(Strategy::Direct));
    }
}

#[test]
fn a_model_that_cannot_be_put_back_is_told_and_the_result_is_kept() {
    #[derive(Default)]
    struct Troubled(Vec<String>);
    impl Observer for Troubled {
        fn trouble(&mut self, what: &str) {
            self.0.push(what.to_owned());
        }
    }
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let mut loads = 0;
    let gate = Gate::before(server.address, move |bytes| {
        loads += u32::from(is_load(bytes));
        // The trial, the phase's, and the one that puts it back, which becomes one that has to be rejected.
        let name = b"\"custom_sequence_int32\"";
        let at = bytes.windows(name.len()).position(|window| window == name).filter(|_| loads == 3 && is_load(bytes));
        if let Some(at) = at {
            bytes[at + 1] = b'C';
        }
        Pass::Now
    });
    let text = format!("{COMMON}{}", DISTURBED.replace("ACTION", "reload-oldest"));
    let (_interrupt, interrupts) = mpsc::channel(1);
    let mut troubled = Troubled::default();
    let setup = Setup::new(scenario_at(gate.address, &text), Seed(3));
    let result = block_on(run(setup, &mut troubled, interrupts)).expect("a run");
    let [told] = &troubled.0[..] else { panic!("{:?}", troubled.0) };
    assert!(told.starts_with("model 'custom_sequence_int32' could not be put back as it was configured: "), "{told}");
    assert!(
        result.preflight.notes.iter().any(|note| note.to_string() == *told) && result.violations.is_empty(),
        "{:?}",
        result.violations
    );
}

/// Whether the client asks for a model to be loaded, with a configuration.
fn is_load(bytes: &[u8]) -> bool {
    let named = b"sequenceBatching";
    bytes.windows(named.len()).any(|window| window == named)
}

/// Runs the tool; its exit code, and all that it told.
fn tool(words: &[&str]) -> (Option<i32>, String) {
    let output = support::tool::tool().args(words).output().expect("the command runs");
    (
        output.status.code(),
        [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat(),
    )
}

/// How long the server may be silent in tests of that, and longer than twice that.
const LOST_AFTER: Duration = Duration::from_millis(1500);
const VERY_LONG: Duration = Duration::from_millis(3300);

/// Runs with a disturbance that takes very long, on a server whose answers would be lost long before that is over.
fn disturbed_for_long<D>(address: SocketAddr, disturb: impl Fn() -> D + Send + Sync + 'static) -> RunResult
where
    D: Future<Output = ()> + Send + 'static,
{
    let common =
        COMMON.replace("lost_after_ms = 20000", &format!("lost_after_ms = {}, step_ms = 1", LOST_AFTER.as_millis()));
    let text = format!("{common}{}", DISTURBED.replace("ACTION", "restart"));
    let restart = Restart::by(move || {
        let disturbed = disturb();
        async move {
            disturbed.await;
            Ok(())
        }
    });
    let result = stress_at(address, &text, Some(restart)).expect("a run");
    assert_eq!(result.preflight.limits.lost_after, LOST_AFTER);
    result
}

fn quick_server() -> Server {
    let models = ModelOptions {
        max_batch_size: 4,
        idle_limit: Duration::from_millis(100),
        execution: Duration::ZERO,
        ..ModelOptions::default()
    };
    reference_server(models, &[])
}

#[test]
fn a_restart_that_takes_longer_than_any_answer_is_no_hang() {
    let _simulation = Simulation::begin();
    let server = quick_server();
    let restart = server.restarter();
    let result = disturbed_for_long(server.address, move || {
        let restarted = restart();
        async move {
            restarted.await.expect("it starts again");
            sleep(VERY_LONG).await;
        }
    });
    assert_eq!(result.violations, []);
    assert!(result.phases.len() == 2 && result.iterations > 60, "{result:?}");
}

#[test]
fn what_a_disturbance_holds_up_is_not_lost() {
    let _simulation = Simulation::begin();
    let server = quick_server();
    let gate = Gate::before(server.address, |_| Pass::Now);
    let held = gate.held.clone();
    let result = disturbed_for_long(gate.address, move || {
        let held = held.clone();
        async move {
            held.send_replace(true);
            sleep(VERY_LONG).await;
            held.send_replace(false);
        }
    });
    assert_eq!(result.violations, []);
    assert!(result.phases.len() == 2 && result.iterations > 60, "{result:?}");
    assert_eq!(result.tally.total().indeterminate, 0, "nobody has to give anything up: {:?}", result.tally.total());
}

#[test]
fn a_model_that_becomes_oldest_takes_no_texts() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let error = stress(
        &server,
        &format!("correlation_ids.form = 'text'\n{}", DISTURBED.replace("ACTION", "reload-oldest")),
        None,
    );
    let error = error.expect_err("it is told integers then").to_string();
    assert!(error.contains("is told correlation IDs as integers, so it cannot be sent texts"), "{error}");
}

/// What begins when the model was loaded anew, long after.
const LATER: &str = "
patterns.common = { half-close = 1 }
length = { min = 4, max = 8, uniform = { min = 4, max = 8 } }
[[phase]]
name = 'loaded'
server = 'reload'
[[phase]]
name = 'later'
pause_ms = 300
[[population]]
name = 'later'
phase = 'later'
load = { workers = 2, iterations = 20 }
";

#[test]
fn what_begins_when_the_model_was_loaded_anew_is_judged() {
    let _simulation = Simulation::begin();
    let later = COMMON.replace("patterns.common = { valid = 3, no-end = 1 }", "").replace("length =", "# length =");
    for (faults, kinds) in
        [(vec![], vec![]), (vec![Planted::always(Fault::LoseFinalResponses)], vec![ViolationKind::StreamBroken])]
    {
        let server = server(&faults);
        let result = stress_at(server.address, &format!("{later}{LATER}"), None).expect("a run");
        let found: Vec<_> = result.tally.violations.keys().copied().collect();
        assert_eq!(found, kinds, "{:#?}", result.violations.first());
    }
}
