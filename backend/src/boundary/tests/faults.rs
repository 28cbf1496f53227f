//! Each planted fault: what is seen of it, and that it breaks nothing else.

use std::{
    env,
    os::unix::process::ExitStatusExt as _,
    process::{self, Command},
    thread,
    time::Duration,
};

use super::{
    mock::{Account, Sleeping, wait_until, wake, world},
    numbers::DATATYPES,
    server::{Config, END, MID, START, Server, encoded},
};
use crate::fault::Fault;

/// Says to a test that it is a process of its own.
const ALONE: &str = "SEQUENCE_STRESS_BACKEND_TEST_ALONE";

/// For how long the faults hold that hold something back.
const HOLD: Duration = Duration::from_millis(400);

type Rows = &'static [(u32, u64, i64)];

/// Without a check of the controls, so that what is told wrongly is believed.
fn with(fault: &'static str, mut config: Config) -> Config {
    config.parameters.extend([("fault", fault), ("check_controls", "false"), ("fault_hold_ms", "400")]);
    config
}

fn converse(config: &Config, batches: &[Rows]) -> (Vec<Account>, Server) {
    let server = Server::running(config);
    let done = server.converse(batches.iter().map(|rows| config.batch(rows)).collect());
    (done, server)
}

fn stateless() -> Config {
    Config { parameters: vec![("sequence_stress_formula", "ready-times-input-plus-start")], ..Config::direct() }
}

/// Whether the model said, when it was unloaded, that it committed the fault.
fn is_told(log: &[String], fault: &str) -> bool {
    let (name, _) = fault.split_once(':').unwrap_or((fault, ""));
    let told = format!("model 'sum': planted fault {name}: committed ");
    log.iter().any(|line| line.strip_prefix(&told).is_some_and(|count| !count.starts_with('0')))
}

#[test]
fn faults_of_sums_and_controls_change_the_answers() {
    // A sequence of three steps, one behind another in the same slot, two beside each other, and one beside an idle slot.
    const ONE: &[Rows] = &[&[(START, 7, 5)], &[(MID, 7, 2)], &[(END, 7, 1)]];
    const ANOTHER: &[Rows] = &[&[(START, 7, 5)], &[(END, 7, 2)], &[(START, 7, 1)]];
    const TWO: &[Rows] = &[&[(START, 7, 5), (START, 8, 100)], &[(MID, 7, 1), (MID, 8, 2)]];
    const IDLE: &[Rows] =
        &[&[(START, 7, 5), (START, 8, 100)], &[(MID, 0, 0), (MID, 8, 2)], &[(MID, 7, 1), (MID, 8, 1)]];
    const GARBAGE: i64 = -559_038_737;
    let (direct, oldest) = (Config::direct, Config::oldest);
    let implicit = || Config { state: Some(true), ..Config::direct() };
    let formula = || Config {
        parameters: vec![("sequence_stress_formula", "running-sum-plus-corrid-at-end")],
        corrid: Some("TYPE_UINT64"),
        ..Config::direct()
    };
    let cases: &[(&str, Config, &[Rows], &[i64])] = &[
        ("start-missing", stateless(), ONE, &[5, 2, 1]),
        ("start-spurious:once@1", stateless(), ONE, &[6, 3, 1]),
        ("execute-twice:once@1", stateless(), ONE, &[11, 2, 1]),
        ("skip-step:once@2", stateless(), ONE, &[6, 0, 1]),
        ("misdeliver", stateless(), TWO, &[101, 6, 2, 1]),
        ("off-by-one:once@2", direct(), ONE, &[5, 8, 8]),
        ("keep-state", direct(), ANOTHER, &[5, 7, 8]),
        ("keep-state", oldest(), ANOTHER, &[5, 7, 8]),
        ("keep-state", implicit(), ANOTHER, &[5, 7, 8]),
        ("reset-state:once@1", direct(), ONE, &[5, 2, 3]),
        ("stale-state", oldest(), ANOTHER, &[5, 7, 8]),
        ("swap-states", direct(), TWO, &[5, 100, 101, 7]),
        ("swap-states", oldest(), TWO, &[5, 100, 101, 7]),
        ("execute-twice:once@2", direct(), ONE, &[5, 9, 10]),
        ("skip-step:once@2", direct(), ONE, &[5, 5, 6]),
        ("state-not-saved:once@2", implicit(), ONE, &[5, 7, 6]),
        ("state-of-another-slot:once@1", implicit(), TWO, &[5, 100, 101, 102]),
        ("state-of-another-slot:once@2", implicit(), TWO, &[5, 100, 6, 7]),
        ("start-missing", direct(), ANOTHER, &[5, 7, 8]),
        ("start-spurious:once@1", direct(), ONE, &[5, 2, 3]),
        ("end-missing", formula(), ONE, &[5, 7, 8]),
        ("end-spurious:once@1", formula(), ONE, &[12, 2, 10]),
        ("ready-missing:once@2", direct(), ONE, &[5, 6]),
        ("ready-spurious", direct(), IDLE, &[5, 100, 102, 5 + GARBAGE + 1, 103]),
        ("corrid-zero:once@2", oldest(), ONE, &[5, 2, 6]),
        ("corrid-zero", formula(), ONE, &[5, 7, 8]),
        ("corrid-other:once@3", oldest(), TWO, &[5, 100, 6, 8]),
        ("misdeliver", direct(), TWO, &[100, 5, 102, 6]),
        ("misdeliver", direct(), &[&[(START, 7, 5), (MID, 0, 0), (START, 8, 6)]], &[6, 5]),
        ("model-error:once@2", direct(), ONE, &[5, 6]),
        ("empty-response:once@2", direct(), ONE, &[5, 8]),
    ];
    for (fault, config, batches, expected) in cases {
        let config = with(fault, config.clone());
        let (done, mut server) = converse(&config, batches);
        let sums: Vec<_> = done.iter().flat_map(Account::sums).collect();
        let errors = done.iter().filter(|done| !done.error().is_empty()).count();
        assert_eq!((sums, errors), (expected.to_vec(), usize::from(fault.starts_with("model"))), "{fault}");
        server.finalize();
        assert!(is_told(&world().log, fault), "{fault}: {:?}", world().log);
        server.end();
    }
}

#[test]
fn faults_of_sums_and_controls_change_the_number_of_steps_where_they_change_the_state() {
    // Of the two sequences beside each other one has made a step more.
    const ONE: &[Rows] = &[&[(START, 7, 5)], &[(MID, 7, 2)], &[(END, 7, 1)]];
    const ANOTHER: &[Rows] = &[&[(START, 7, 5)], &[(END, 7, 2)], &[(START, 7, 1)]];
    const TWO: &[Rows] = &[&[(START, 7, 5), (START, 8, 100)], &[(MID, 7, 1), (MID, 0, 0)], &[(MID, 7, 1), (MID, 8, 2)]];
    type Told = &'static [i64];
    // What a START finds without an initial state.
    const GARBAGE: i64 = 77;
    let cases: &[(&str, &[Rows], Told, Told)] = &[
        ("off-by-one:once@2", ONE, &[5, 8, 8], &[1, 2, 3]),
        ("reset-state:once@1", ONE, &[5, 2, 3], &[1, 1, 2]),
        ("execute-twice:once@2", ONE, &[5, 9, 10], &[1, 3, 4]),
        ("skip-step:once@2", ONE, &[5, 5, 6], &[1, 1, 2]),
        ("state-not-saved:once@2", ONE, &[5, 7, 6], &[1, 2, 2]),
        ("start-spurious:once@1", ONE, &[5, 2, 3], &[1, 1, 2]),
        ("start-missing:once@2", ANOTHER, &[5, 7, GARBAGE + 1], &[1, 2, GARBAGE + 1]),
        ("keep-state", ANOTHER, &[5, 7, 8], &[1, 2, 3]),
        ("stale-state", ANOTHER, &[5, 7, 8], &[1, 2, 3]),
        ("ready-missing:once@2", ONE, &[5, 6], &[1, 2]),
        ("model-error:once@2", ONE, &[5, 6], &[1, 2]),
        ("empty-response:once@2", ONE, &[5, 8], &[1, 2, 3]),
        ("swap-states", TWO, &[5, 100, 6, 101, 8], &[1, 1, 2, 2, 3]),
        ("state-of-another-slot:once@1", TWO, &[5, 100, 6, 101, 102], &[1, 1, 2, 2, 2]),
        ("state-of-another-slot:once@2", TWO, &[5, 100, 6, 7, 8], &[1, 1, 2, 3, 3]),
        ("misdeliver:once@2", TWO, &[5, 100, 6, 102, 7], &[1, 1, 2, 2, 3]),
    ];
    for (fault, batches, sums, counts) in cases {
        let config = with(fault, Config { state: Some(false), ..Config::two_states() });
        let (done, mut server) = converse(&config, batches);
        let told: (Vec<_>, Vec<_>) =
            (done.iter().flat_map(Account::sums).collect(), done.iter().flat_map(Account::counts).collect());
        assert_eq!(told, (sums.to_vec(), counts.to_vec()), "{fault}");
        server.finalize();
        assert!(is_told(&world().log, fault), "{fault}: {:?}", world().log);
        server.end();
    }
}

#[test]
fn a_fault_is_not_committed_where_it_would_not_show() {
    let implicit = || Config { state: Some(true), ..Config::direct() };
    let first: Rows = &[(START, 7, 5), (START, 8, 100)];
    let cases: &[(&str, Config, &[Rows], &[i64])] = &[
        ("stale-state", Config::direct(), &[first, &[(START, 9, 1)]], &[5, 100, 1]),
        ("stale-state", stateless(), &[first, &[(START, 7, 1)]], &[6, 101, 2]),
        ("keep-state", stateless(), &[first, &[(START, 7, 1)]], &[6, 101, 2]),
        ("reset-state", stateless(), &[first, &[(MID, 7, 1)]], &[6, 101, 1]),
        ("swap-states", stateless(), &[first, &[(MID, 7, 1), (MID, 8, 2)]], &[6, 101, 1, 2]),
        ("ready-spurious", stateless(), &[first, &[(MID, 0, 0), (MID, 8, 2)]], &[6, 101, 2]),
        ("stale-state", Config::direct(), &[&[(START, 7, 0)], &[(START, 7, 1)]], &[0, 1]),
        ("keep-state", Config::direct(), &[&[(START, 7, 0)], &[(START, 7, 1)]], &[0, 1]),
        ("reset-state", Config::direct(), &[&[(START, 7, 0)], &[(MID, 7, 1)]], &[0, 1]),
        ("start-missing", Config::direct(), &[&[(START, 7, 0)], &[(START, 7, 1)]], &[0, 1]),
        ("skip-step", Config::direct(), &[&[(START, 7, 0)]], &[0]),
        ("execute-twice", Config::direct(), &[&[(START, 7, 0)]], &[0]),
        ("swap-states", Config::direct(), &[first, &[(START, 9, 1), (MID, 8, 2)]], &[5, 100, 1, 102]),
        ("swap-states", Config::direct(), &[first, &[(MID, 0, 0), (MID, 8, 2)]], &[5, 100, 102]),
        (
            "swap-states",
            Config::direct(),
            &[&[(START, 7, 5), (START, 8, 5)], &[(MID, 7, 1), (MID, 8, 2)]],
            &[5, 5, 6, 7],
        ),
        ("state-of-another-slot", implicit(), &[first, &[(START, 9, 1), (MID, 8, 2)]], &[5, 100, 1, 102]),
        ("state-of-another-slot", Config::direct(), &[first, &[(MID, 7, 1), (MID, 8, 2)]], &[5, 100, 6, 102]),
        ("state-not-saved", implicit(), &[&[(START | END, 7, 5)]], &[5]),
        ("state-not-saved", implicit(), &[&[(START, 7, 0)], &[(MID, 7, 0)]], &[0, 0]),
        ("start-missing", implicit(), &[&[(START, 7, 5)]], &[5]),
        ("misdeliver", Config::direct(), &[&[(START, 7, 5), (START, 8, 5)]], &[5, 5]),
        ("ready-spurious", Config::direct(), &[&[(MID, 0, 0), (START, 8, 5)], &[(START, 7, 1)]], &[5, 1]),
        ("ready-spurious", implicit(), &[first, &[(MID, 0, 0), (MID, 8, 2)], &[(MID, 7, 1)]], &[5, 100, 102, 6]),
    ];
    for (fault, config, batches, expected) in cases {
        let (done, mut server) = converse(&with(fault, config.clone()), batches);
        let sums: Vec<_> = done.iter().flat_map(Account::sums).collect();
        assert_eq!((sums, done.iter().all(|done| done.error().is_empty())), (expected.to_vec(), true), "{fault}");
        server.finalize();
        assert!(!is_told(&world().log, fault), "{fault}: {:?}", world().log);
        server.end();
    }
}

#[test]
fn faults_of_several_states_are_what_a_model_tells() {
    const ONE: &[Rows] = &[&[(START, 7, 5)], &[(MID, 7, 2)], &[(END, 7, 1)]];
    const TWO: &[Rows] = &[&[(START, 7, 5), (START, 8, 100)], &[(MID, 7, 1), (MID, 8, 2)]];
    let cases: &[(&str, &[Rows], &[i64], &str)] = &[
        ("exchange-states:once@1", ONE, &[5, 6], "states are exchanged: 'ZETA_STATE' holds 'ALPHA_STATE', "),
        (
            "state-half-saved:once@1",
            ONE,
            &[5],
            "states are not of one step: 'ZETA_STATE' is 5, so that 'MIDDLE_STATE' has to be 25",
        ),
        (
            "state-half-saved:once@2",
            ONE,
            &[5, 7],
            "states are not of one step: 'ZETA_STATE' is 7, so that 'MIDDLE_STATE' has to be 35",
        ),
        ("state-not-saved:once@2", ONE, &[5, 7, 6], ""),
        ("swap-states", TWO, &[5, 100, 101, 7], ""),
        ("state-of-another-slot:once@2", TWO, &[5, 100, 6, 7], ""),
        ("reset-state:once@1", ONE, &[5, 2, 3], ""),
    ];
    for (fault, batches, sums, error) in cases {
        let config = with(fault, Config::copies(false));
        let (done, mut server) = converse(&config, batches);
        let told: Vec<_> = done.iter().flat_map(Account::sums).collect();
        let first = done.iter().map(Account::error).find(|error| !error.is_empty()).unwrap_or_default();
        assert_eq!(
            (&told[..], first.starts_with(error), first.is_empty()),
            (*sums, true, error.is_empty()),
            "{fault}: {first}"
        );
        server.finalize();
        assert!(is_told(&world().log, fault), "{fault}: {:?}", world().log);
        server.end();
    }
}

#[test]
fn a_model_that_checks_its_controls_tells_what_it_misheard() {
    for (fault, config, told) in [
        ("start-missing", Config::direct(), "control 'START' says false to the model and the request says true"),
        ("start-spurious", Config::direct(), "control 'START' says true to the model and the request says false"),
        ("end-missing", Config::direct(), "control 'END' says false to the model and the request says true"),
        ("end-spurious", Config::direct(), "control 'END' says true to the model and the request says false"),
        ("ready-missing", Config::direct(), "control 'READY' says false to the model and the request says true"),
        ("ready-spurious", Config::direct(), "slot 0 is idle: control 'READY' says true to the model"),
        ("corrid-zero", Config::oldest(), "control 'CORRID' says 0 to the model and the request says 7"),
        ("corrid-other", Config::oldest(), "control 'CORRID' says 8 to the model and the request says 7"),
    ] {
        let config = Config { parameters: vec![("fault", fault)], ..config };
        let (done, server) = converse(
            &config,
            &[
                &[(START, 7, 5), (START, 8, 6)],
                &[(MID, 7, 1)],
                &[(START, 7, 1), (START, 8, 1)],
                &[(MID, 0, 0), (MID, 8, 1)],
                &[(END, 7, 1)],
            ],
        );
        let errors: Vec<_> = done.iter().map(Account::error).collect();
        assert!(errors.iter().any(|error| error.starts_with(told)), "{fault}: {errors:?}");
        server.end();
    }
}

#[test]
fn faults_of_outputs_change_what_an_output_is() {
    let output = |fault| {
        let (mut done, server) = converse(&with(fault, Config::direct()), &[&[(START, 7, 5)]]);
        server.end();
        let answer = done.remove(0).answers.remove(0);
        let output = answer.outputs.into_iter().next().expect("an output");
        (output.name, output.code, output.shape, output.data)
    };
    let is = |name: &str, code, shape: &[i64], data: &[u8]| (name.to_owned(), code, shape.to_vec(), data.to_vec());
    assert_eq!(output("wrong-output-name"), is("OUTPUT_2", 8, &[1, 1], &[5, 0, 0, 0]));
    assert_eq!(output("wrong-output-type"), is("OUTPUT", 11, &[1, 1], &[5, 0, 0, 0]));
    assert_eq!(output("wrong-output-shape"), is("OUTPUT", 8, &[1], &[5, 0, 0, 0]));
    assert_eq!(output("wrong-output-length"), is("OUTPUT", 8, &[1, 1], &[5, 0, 0, 0, 5, 0, 0, 0]));
    assert_eq!(output("truncate-output"), is("OUTPUT", 8, &[1, 1], &[5, 0, 0]));
}

#[test]
fn an_answer_may_be_dropped() {
    let config = with("drop-response:once@2", Config::direct());
    let (done, server) = converse(&config, &[&[(START, 7, 5), (START, 8, 6)]]);
    assert_eq!((done[0].sums(), done[1].answers.len(), done[1].releases), (vec![5], 0, 1));
    assert_eq!(server.end_with_wrongs(), ["request 2 got 0 final answers"]);
}

/// What a decoupled model of three answers a request answers, and which of them is final.
fn several(fault: &'static str) -> (Vec<i64>, Vec<bool>, Server) {
    let parameters = vec![("sequence_stress_responses", "3")];
    let config = with(fault, Config { decoupled: true, parameters, ..Config::direct() });
    let (done, server) = converse(&config, &[&[(START, 7, 5)]]);
    let finals = done[0].answers.iter().map(|answer| answer.is_final).collect();
    (done[0].sums(), finals, server)
}

#[test]
fn of_several_answers_one_may_be_lost_or_repeated_or_two_exchanged_and_the_last_one_is_final() {
    for (fault, sums) in [
        ("drop-response:once@1", vec![6, 7]),
        ("drop-response:once@3", vec![5, 6]),
        ("lose-own-response", vec![6, 7]),
        ("swap-own-responses", vec![7, 6, 5]),
        ("surplus-response", vec![5, 5, 6, 7]),
        ("off-by-one", vec![5, 6, 8]),
    ] {
        let (seen, finals, server) = several(fault);
        assert_eq!(seen, sums, "{fault}");
        assert_eq!(finals.iter().position(|is_final| *is_final), Some(finals.len() - 1), "{fault}");
        server.end();
    }
}

#[test]
fn of_several_answers_none_may_be_said_to_be_the_last() {
    let (sums, finals, server) = several("lose-final-mark");
    assert_eq!((sums, finals), (vec![5, 6, 7], vec![false; 3]));
    assert_eq!(server.end_with_wrongs(), ["request 1 got 0 final answers"]);
}

#[test]
fn a_model_of_one_answer_commits_no_fault_of_several() {
    for fault in ["lose-own-response", "swap-own-responses", "surplus-response", "lose-final-mark"] {
        let (done, server) = converse(&with(fault, Config::direct()), &[&[(START, 7, 5)]]);
        assert_eq!((done[0].sums(), done[0].answers[0].is_final), (vec![5], true), "{fault}");
        server.end();
    }
}

#[test]
fn the_faults_of_state_and_of_outputs_work_for_every_data_type() {
    const TWO: &[Rows] = &[&[(START, 7, 5)], &[(END, 7, 2)], &[(START, 7, 1)]];
    for datatype in DATATYPES {
        let implicit = Config { state: Some(false), ..Config::direct() };
        for (fault, base, sums) in [
            ("keep-state", Config::direct(), [5, 7, 8]),
            ("keep-state", Config::oldest(), [5, 7, 8]),
            ("reset-state", Config::direct(), [5, 2, 1]),
            ("reset-state", implicit.clone(), [5, 2, 1]),
            ("stale-state", Config::oldest(), [5, 7, 8]),
            ("off-by-one:once@2", Config::direct(), [5, 8, 1]),
            ("execute-twice:once@2", Config::direct(), [5, 9, 1]),
            ("skip-step:once@2", implicit, [5, 5, 1]),
        ] {
            let (done, server) = converse(&with(fault, Config { datatype, ..base }), TWO);
            assert_eq!(done.iter().flat_map(Account::sums).collect::<Vec<_>>(), sums, "{fault}, {datatype}");
            server.end();
        }
        let config = Config { datatype, ..Config::direct() };
        let (done, server) = converse(&with("wrong-output-type", config.clone()), &[&[(START, 7, 5)]]);
        server.end();
        let right = encoded(datatype, &[5]);
        let output = done[0].output("OUTPUT");
        assert!(output.code != right.0 && output.data == right.1, "{datatype}");
    }
}

#[test]
fn late_answers_come_after_the_release_and_before_the_instance_is_gone() {
    for decoupled in [false, true] {
        let config = with("late-response", Config { decoupled, ..Config::direct() });
        let mut server = Server::running(&config);
        world().sleeping = Sleeping::Held;
        let batches: [Rows; 2] = [&[(START, 7, 5), (MID, 0, 0), (START, 8, 6)], &[(END, 7, 1)]];
        let done = server.converse(batches.iter().map(|rows| config.batch(rows)).collect());
        let counts: Vec<_> = done.iter().map(|done| (done.answers.len(), done.releases)).collect();
        assert_eq!(counts, [(0, 1), (1, 1), (0, 1), (0, 1)], "released, and the idle slot's alone answered");
        // The first answer is held, and with it those behind it.
        let held = wait_until(|world| !world.slept.is_empty()).slept.clone();
        assert!(matches!(held[..], [time] if time <= HOLD), "{held:?}");
        thread::scope(|scope| {
            scope.spawn(|| {
                // The instance gives its state back before it waits for the answers.
                drop(wait_until(|world| world.calls["TRITONBACKEND_ModelInstanceSetState"] == 2));
                wake();
            });
            server.finalize();
        });
        assert_eq!(world().slept.len(), 3);
        let sums: Vec<_> = world().accounts.values().flat_map(Account::sums).collect();
        assert_eq!(sums, [5, 6, 6]);
        server.end();
    }
}

#[test]
fn an_execution_or_a_release_may_take_longer() {
    let config = with("slow-execution", Config::direct());
    let server = Server::running(&config);
    world().sleeping = Sleeping::Skipped;
    let done = server.execute(config.batch(&[(START, 7, 5)]));
    assert_eq!((done[0].sums(), world().slept.as_slice()), (vec![5], &[HOLD][..]));
    server.end();

    let config = with("late-release", Config::direct());
    let server = Server::running(&config);
    world().sleeping = Sleeping::Held;
    thread::scope(|scope| {
        scope.spawn(|| server.execute(config.batch(&[(START, 7, 5)])));
        let (slept, account) = {
            let world = wait_until(|world| !world.slept.is_empty());
            (world.slept.clone(), world.accounts[&1].clone())
        };
        wake();
        assert_eq!((account.sums(), account.releases), (vec![5], 0), "answered, and not released yet");
        assert_eq!(slept, [HOLD]);
    });
    assert_eq!(world().accounts[&1].releases, 1);
    server.end();
}

#[test]
fn executions_may_be_counted_twice_or_not() {
    for (fault, times) in [("count-twice", 2), ("count-not", 0)] {
        let (done, server) = converse(&with(fault, Config::direct()), &[&[(START, 7, 5)]]);
        assert_eq!((done[0].sums(), &done[0].reports), (vec![5], &vec![true; times]));
        assert_eq!(world().batches, vec![1; times]);
        server.end();
    }
}

#[test]
fn memory_may_be_kept_at_each_start_and_goes_with_the_model() {
    let config = with("leak-memory", Config::direct());
    let (done, mut server) = converse(&config, &[&[(START, 7, 5)], &[(MID, 7, 1)]]);
    let kept = |server: &Server| server.model().leaked.lock().expect("nobody panicked").len();
    assert_eq!((done[1].sums(), kept(&server)), (vec![6], 1));
    server.execute(config.batch(&[(START, 7, 1), (START, 8, 1), (START, 9, 1), (START, 10, 1)]));
    assert_eq!(kept(&server), 3, "in tests, that is the most");
    server.finalize();
    assert_eq!(world().log, ["model 'sum': planted fault leak-memory: committed 5 of 5 times"]);
    server.end();
}

#[test]
fn the_process_may_be_ended() {
    if env::var_os(ALONE).is_some() {
        let (_, server) = converse(&with("crash", Config::direct()), &[&[(START, 7, 5)]]);
        server.end();
        return;
    }
    let ended = alone("the_process_may_be_ended");
    assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
}

#[test]
fn an_instance_may_hang() {
    if env::var_os(ALONE).is_some() {
        let config = with("hang-instance", Config::direct());
        let server = Server::running(&config);
        thread::scope(|scope| {
            scope.spawn(|| server.execute(config.batch(&[(START, 7, 5)])));
            let account = wait_until(|world| world.has_hung).accounts[&1].clone();
            let has_hung = account.answers.is_empty() && account.releases == 0 && account.reports.is_empty();
            process::exit(if has_hung { 17 } else { 18 });
        });
    }
    let ended = alone("an_instance_may_hang");
    assert_eq!(ended.status.code(), Some(17), "{ended:?}");
}

/// Runs one of these tests in a process of its own.
fn alone(test: &str) -> process::Output {
    let program = env::current_exe().expect("it has a path");
    let name = format!("{}::{test}", module_path!().split_once("::").map_or("", |(_, path)| path));
    Command::new(program).args(["--exact", &name]).env(ALONE, "1").output().expect("it runs")
}

#[test]
fn no_fault_breaks_more_than_it_is_to_break() {
    let configs = [
        Config::direct(),
        Config { corrid: Some("TYPE_STRING"), ..Config::direct() },
        Config::oldest(),
        Config { state: Some(true), ..Config::direct() },
        Config { decoupled: true, ..Config::direct() },
        Config { iterative: true, ..Config::direct() },
        Config { decoupled: true, iterative: true, ..Config::oldest() },
    ];
    for fault in Fault::names().filter(|fault| !["crash", "hang-instance"].contains(fault)) {
        for (config, check) in configs.iter().flat_map(|config| [(config, "true"), (config, "false")]) {
            let parameters = vec![("fault", fault), ("check_controls", check), ("fault_hold_ms", "0")];
            let config = Config { parameters, ..config.clone() };
            let server = Server::running(&config);
            let mut batches = vec![
                vec![config.ask(START, 7, &[5, 6]), config.ask(START, 8, &[100])],
                vec![config.ask(MID, 7, &[1, 2, 3]), config.ask(END, 8, &[1])],
                vec![config.ask(START, 7, &[]), config.ask(START, 8, &[1])],
                vec![config.ask(END, 7, &[4])],
            ];
            if config.strategy == "direct" {
                batches.insert(2, vec![config.padding(), config.padding(), config.ask(START, 9, &[1, 2])]);
            }
            server.converse(batches);
            let mut wrongs = server.end_with_wrongs();
            if ["drop-response", "lose-final-mark"].contains(&fault) {
                wrongs.retain(|wrong| !wrong.ends_with(" got 0 final answers"));
            }
            assert!(wrongs.is_empty(), "{fault}, {config:?}: {wrongs:#?}");
        }
    }
}
