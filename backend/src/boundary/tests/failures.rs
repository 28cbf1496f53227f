//! What happens when a C function fails, when the model panics, and when the controls are not what the client said.

use super::{
    mock::{Account, TOLD_TO_FAIL, world},
    server::{Config, END, MID, START, Server, encoded, text_element},
};

/// Fails one call of a function from now on, counted from 1.
fn fail(function: &'static str, nth: usize) {
    let mut world = world();
    let so_far = world.calls.get(function).copied().unwrap_or(0);
    world.to_fail = Some((function, so_far + nth));
}

fn errors(done: &[Account]) -> Vec<&str> {
    done.iter().map(Account::error).collect()
}

#[test]
fn requests_stay_the_servers_when_it_cannot_make_a_response_for_each() {
    for (config, function) in [
        (Config::direct(), "TRITONBACKEND_ResponseNew"),
        (Config { decoupled: true, ..Config::direct() }, "TRITONBACKEND_ResponseFactoryNew"),
    ] {
        let server = Server::running(&config);
        server.execute([config.ask(START, 7, &[5])]);
        for nth in 1..=3 {
            fail(function, nth);
            let asks = [config.ask(MID, 7, &[1]), config.ask(START, 8, &[1]), config.padding()];
            let requests = asks.map(|ask| world().arrive(ask));
            let said = server.execute_once(0, &requests);
            assert_eq!(said, Err((1, TOLD_TO_FAIL.to_owned())));
            for request in requests {
                let account = &world().accounts[&request];
                assert!(account.answers.is_empty() && account.releases == 0, "{account:?}");
            }
        }
        let after = server.execute([config.ask(MID, 7, &[1])]);
        assert_eq!(after[0].sums(), [6], "what was not executed changed nothing");
        server.end();
    }
}

#[test]
fn a_call_that_fails_for_one_request_is_told_to_that_request_alone() {
    let config = Config { state: Some(true), corrid: Some("TYPE_UINT64"), ..Config::direct() };
    for (function, nth) in [
        ("TRITONBACKEND_RequestFlags", 2),
        ("TRITONBACKEND_RequestInput", 7 + 1),
        ("TRITONBACKEND_InputProperties", 7 + 2),
        ("TRITONBACKEND_InputBuffer", 7 + 5),
        ("TRITONBACKEND_RequestOutputCount", 2),
        ("TRITONBACKEND_RequestOutputName", 2),
        ("TRITONBACKEND_ResponseOutput", 2),
        ("TRITONBACKEND_OutputBuffer", 2),
        ("TRITONBACKEND_StateNew", 2),
        ("TRITONBACKEND_StateBuffer", 2),
        ("TRITONBACKEND_StateUpdate", 2),
    ] {
        let server = Server::running(&config);
        fail(function, nth);
        let done = server.execute([7, 8, 9].map(|id| config.ask(START, id, &[5])));
        assert_eq!(errors(&done), ["", TOLD_TO_FAIL, ""], "{function}");
        assert_eq!((done[0].sums(), done[2].sums()), (vec![5], vec![5]), "{function}");
        let reports: Vec<_> = done.iter().flat_map(|done| done.reports.clone()).collect();
        assert_eq!(reports, [true, false, true], "{function}");
        server.end();
    }
}

#[test]
fn an_answer_that_cannot_be_sent_is_logged_and_the_others_are_sent() {
    let config = Config::direct();
    let server = Server::running(&config);
    fail("TRITONBACKEND_ResponseSend", 2);
    let done = server.execute([7, 8, 9].map(|id| config.ask(START, id, &[5])));
    let answers: Vec<_> = done.iter().map(|done| done.answers.len()).collect();
    assert_eq!(answers, [1, 0, 1]);
    assert_eq!(done[1].reports, [false]);
    assert_eq!(world().log, [format!("sending an answer: {TOLD_TO_FAIL}")]);
    server.end();
}

#[test]
fn of_several_answers_the_one_that_fails_is_the_last_and_tells_why() {
    let parameters = vec![("sequence_stress_responses", "3")];
    let config = Config { decoupled: true, parameters, ..Config::direct() };
    for function in [
        "TRITONBACKEND_ResponseNewFromFactory",
        "TRITONBACKEND_ResponseSend",
        "TRITONBACKEND_ResponseOutput",
        "TRITONBACKEND_OutputBuffer",
    ] {
        let server = Server::running(&config);
        fail(function, 2);
        let done = server.execute([config.ask(START, 7, &[1]), config.ask(START, 8, &[4])]);
        let told: Vec<_> = done[0].answers.iter().map(|answer| (answer.is_final, answer.error.is_some())).collect();
        assert_eq!(told, [(false, false), (true, true)], "{function}");
        assert_eq!((done[0].sums(), done[1].sums()), (vec![1], vec![4, 5, 6]), "{function}");
        server.end();
    }
}

#[test]
fn when_no_answer_can_be_made_it_is_told_that_there_is_none() {
    let config = Config { decoupled: true, parameters: vec![("error_on_value", "5")], ..Config::direct() };
    let server = Server::running(&config);
    fail("TRITONBACKEND_ResponseNewFromFactory", 1);
    let done = server.execute([config.ask(START, 7, &[5])]);
    assert!(done[0].answers[0].outputs.is_empty() && done[0].error().is_empty(), "{done:?}");
    assert_eq!(world().log, [format!("answering with an error: {TOLD_TO_FAIL}")]);
    server.end();
}

#[test]
fn when_it_cannot_be_told_that_there_is_no_answer_an_error_is_one() {
    let config = Config { decoupled: true, parameters: vec![("sequence_stress_responses", "0")], ..Config::direct() };
    let server = Server::running(&config);
    fail("TRITONBACKEND_ResponseFactorySendFlags", 1);
    let done = server.execute([config.ask(START, 7, &[5])]);
    assert_eq!((done[0].error(), done[0].answers[0].is_final), (TOLD_TO_FAIL, true));
    server.end();
}

#[test]
fn a_late_answer_that_cannot_be_made_is_an_error_in_time() {
    for decoupled in [false, true] {
        let parameters = vec![("fault", "late-response"), ("fault_hold_ms", "5")];
        let config = Config { decoupled, parameters, ..Config::direct() };
        for function in ["TRITONBACKEND_ResponseOutput", "TRITONBACKEND_OutputBuffer"] {
            let server = Server::running(&config);
            fail(function, 1);
            let done = server.execute([config.ask(START, 7, &[5])]);
            assert_eq!(errors(&done), [TOLD_TO_FAIL], "{function}, decoupled: {decoupled}");
            server.end();
        }
    }
}

#[test]
fn a_late_answer_that_cannot_be_sent_is_logged() {
    let parameters = vec![("fault", "late-response"), ("fault_hold_ms", "5")];
    let config = Config { parameters, ..Config::direct() };
    let mut server = Server::running(&config);
    fail("TRITONBACKEND_ResponseSend", 1);
    server.execute([config.ask(START, 7, &[5])]);
    server.finalize();
    assert_eq!(world().log[0], format!("sending a late answer: {TOLD_TO_FAIL}"));
    server.end();
}

#[test]
fn a_request_that_cannot_be_rescheduled_is_answered_with_that() {
    for decoupled in [false, true] {
        let config = Config { iterative: true, decoupled, ..Config::direct() };
        let server = Server::running(&config);
        fail("TRITONBACKEND_RequestRelease", 2);
        let done = server.execute([config.ask(START, 7, &[5]), config.ask(START, 8, &[4])]);
        let last = done[1].answers.last().expect("an answer");
        assert_eq!(last.error, Some((1, TOLD_TO_FAIL.to_owned())), "decoupled: {decoupled}");
        assert_eq!((done[1].reschedules, done[1].releases), (0, 1));
        assert_eq!(done[0].sums(), if decoupled { vec![5, 10, 15] } else { vec![15] });
        server.end();
    }
}

#[test]
fn a_request_that_cannot_be_released_keeps_nobody_else_from_it() {
    let config = Config::direct();
    let server = Server::running(&config);
    fail("TRITONBACKEND_RequestRelease", 1);
    let done = server.execute([config.ask(START, 7, &[1]), config.ask(START, 8, &[4])]);
    assert_eq!((done[0].sums(), done[1].sums()), (vec![1], vec![4]));
    assert_eq!(world().log, [format!("releasing a request: {TOLD_TO_FAIL}")]);
    server.end();
}

#[test]
fn what_the_server_says_it_gives_and_does_not_is_an_error() {
    let state = Config { state: Some(true), ..Config::direct() };
    let decoupled = Config { decoupled: true, ..Config::direct() };
    for (config, function, error) in [
        (&state, "TRITONBACKEND_OutputBuffer", "tensor 'OUTPUT': the server gave no buffer"),
        (&state, "TRITONBACKEND_StateBuffer", "tensor 'OUTPUT_STATE': the server gave no buffer"),
        (&state, "TRITONBACKEND_InputBuffer", "control 'START' is [], which is neither its false nor its true"),
        (&decoupled, "TRITONBACKEND_ResponseNewFromFactory", ""),
    ] {
        let server = Server::running(config);
        world().gives_nothing = Some(function);
        assert_eq!(errors(&server.execute([config.ask(START, 7, &[5])])), [error], "{function}");
        server.end();
    }
    for (config, function, error) in [
        (&state, "TRITONBACKEND_ResponseNew", "the server gave no response"),
        (&decoupled, "TRITONBACKEND_ResponseFactoryNew", "the server gave no response factory"),
    ] {
        let server = Server::running(config);
        world().gives_nothing = Some(function);
        let request = world().arrive(config.ask(START, 7, &[5]));
        assert_eq!(server.execute_once(0, &[request]), Err((1, error.to_owned())), "{function}");
        server.end();
    }
    let server = Server::new(&state.json());
    world().gives_nothing = Some("TRITONSERVER_MessageSerializeToJson");
    let (_, text) = server.load().expect_err("there is no configuration");
    assert!(text.starts_with("the configuration cannot be read"), "{text}");
    server.end();
}

#[test]
fn a_request_that_makes_the_model_panic_fails_alone() {
    let config = Config { parameters: vec![("panic_on_value", "13")], ..Config::direct() };
    let server = Server::running(&config);
    server.execute([7, 8, 9].map(|id| config.ask(START, id, &[5])));
    let done = server.execute([config.ask(MID, 7, &[1]), config.ask(MID, 8, &[13]), config.ask(MID, 9, &[2])]);
    let panicked = "the model panicked: the input is 13, the value of panic_on_value";
    assert_eq!(errors(&done), ["", panicked, ""]);
    assert_eq!((done[0].sums(), done[2].sums()), (vec![6], vec![7]));
    let after = server.execute([config.ask(MID, 7, &[1]), config.ask(MID, 8, &[1]), config.ask(MID, 9, &[1])]);
    let sums: Vec<_> = after.iter().flat_map(Account::sums).collect();
    assert_eq!(sums, [7, 6, 8], "the panic changed nothing");
    server.end();
}

#[test]
fn a_panic_of_an_execution_leaves_no_request_without_an_answer() {
    // The clock is read before the requests are read, before and after they are executed, and after they are answered.
    for reading in 1..=4 {
        for config in [
            Config::direct(),
            Config { decoupled: true, ..Config::direct() },
            Config { iterative: true, ..Config::direct() },
            Config { state: Some(false), ..Config::direct() },
        ] {
            let server = Server::running(&config);
            world().clock_panics_at = Some(reading);
            let done = server.execute([config.ask(START, 7, &[1, 2]), config.padding(), config.ask(START, 8, &[3])]);
            let gave_up = "the backend gave this request up; the server's log may tell why";
            let last = |done: &Account| done.answers.last().and_then(|answer| answer.error.clone());
            if reading < 4 || config.iterative {
                assert_eq!(last(&done[2]), Some((1, gave_up.to_owned())), "reading {reading} of {config:?}");
            } else {
                assert_eq!((last(&done[2]), done[2].sums()), (None, vec![3]), "of {config:?}");
            }
            let logged = "an execution panicked: this reading of the clock was told to panic";
            assert_eq!(world().log, [logged]);
            let after = server.execute([config.ask(START, 7, &[5])]);
            assert_eq!(after[0].sums(), [if config.iterative { 15 } else { 5 }], "the instance goes on");
            server.end();
        }
    }
}

#[test]
fn each_control_that_is_not_what_the_client_said_is_an_error() {
    let config = Config { corrid: Some("TYPE_UINT64"), ..Config::direct() };
    let other = Config { corrid: Some("TYPE_STRING"), ..Config::direct() };
    let (yes, no) = (1_i32.to_le_bytes().to_vec(), 0_i32.to_le_bytes().to_vec());
    let (end, not_end) = (1_f32.to_le_bytes().to_vec(), (-1_f32).to_le_bytes().to_vec());
    for (config, ask, name, told, said) in [
        (&config, config.ask(MID, 7, &[5]).with("START", yes.clone()), "START", "true", "false"),
        (&config, config.ask(START, 7, &[5]).with("START", no.clone()), "START", "false", "true"),
        (&config, config.ask(START, 7, &[5]).with("END", end), "END", "true", "false"),
        (&config, config.ask(START | END, 7, &[5]).with("END", not_end), "END", "false", "true"),
        (&config, config.ask(START, 7, &[5]).with("READY", vec![0]), "READY", "false", "true"),
        (&config, config.ask(START, 7, &[5]).with("CORRID", 8_u64.to_le_bytes().into()), "CORRID", "8", "7"),
        (&other, other.ask(START, 7, &[5]).with("CORRID", text_element("red")), "CORRID", "'red'", "7"),
    ] {
        let server = Server::running(config);
        let done = server.execute([ask, config.ask(START, 9, &[6])]);
        let expected = format!("control '{name}' says {told} to the model and the request says {said}");
        assert_eq!(errors(&done), [&expected[..], ""]);
        assert_eq!(done[1].sums(), [6]);
        server.end();
    }
}

#[test]
fn a_text_that_is_not_the_clients_is_an_error() {
    let config = Config { corrid: Some("TYPE_STRING"), ..Config::direct() };
    let server = Server::running(&config);
    let mut ask = config.ask(START, 7, &[5]);
    ask.id = super::mock::Id::Text(c"blue".into());
    assert_eq!(errors(&server.execute([ask])), ["control 'CORRID' says '7' to the model and the request says 'blue'"]);
    server.end();
}

#[test]
fn an_idle_slot_that_is_said_to_be_ready_is_told_to_the_others_of_its_batch() {
    let config = Config { corrid: Some("TYPE_UINT64"), ..Config::direct() };
    for (name, data, told, said) in [
        ("READY", vec![1], "true", "false"),
        ("START", 1_i32.to_le_bytes().into(), "true", "false"),
        ("CORRID", 9_u64.to_le_bytes().into(), "9", "0"),
    ] {
        let server = Server::running(&config);
        let done = server.execute([config.ask(START, 7, &[5]), config.padding().with(name, data)]);
        let expected = format!("slot 1 is idle: control '{name}' says {told} to the model and the request says {said}");
        assert_eq!(errors(&done), [&expected[..], &expected[..]]);
        server.end();
    }
}

#[test]
fn a_control_that_is_neither_of_its_values_or_of_another_type_is_an_error() {
    let config = Config { corrid: Some("TYPE_STRING"), ..Config::direct() };
    let server = Server::running(&config);
    let mut float = config.ask(START, 9, &[5]);
    float.input("END").code = 8;
    let done = server.execute([
        config.ask(START, 7, &[5]).with("START", 2_i32.to_le_bytes().into()),
        config.ask(START, 8, &[5]).with("READY", vec![]),
        float,
        config.ask(START, 10, &[5]).with("CORRID", vec![9, 0, 0, 0, b'1']),
    ]);
    assert_eq!(
        errors(&done),
        [
            "control 'START' is [2, 0, 0, 0], which is neither its false nor its true",
            "control 'READY' is [], which is neither its false nor its true",
            "control 'END' is TYPE_INT32 and not TYPE_FP32",
            "control 'CORRID' is cut off",
        ]
    );
    server.end();
}

#[test]
fn controls_are_believed_where_they_are_not_to_be_checked() {
    let config = Config {
        corrid: Some("TYPE_UINT64"),
        parameters: vec![("check_controls", "false"), ("state_key", "slot")],
        ..Config::direct()
    };
    let server = Server::running(&config);
    server.execute([config.ask(START, 7, &[5]), config.ask(START, 8, &[6])]);
    let done = server.execute([
        config.ask(MID, 7, &[1]).with("START", encoded("TYPE_INT32", &[1]).1),
        config.ask(MID, 8, &[1]).with("READY", vec![0]),
        config.padding().with("READY", vec![1]),
        config.ask(MID, 9, &[1]).with("CORRID", 8_u64.to_le_bytes().into()),
    ]);
    assert_eq!(errors(&done), [""; 4]);
    let sums: Vec<_> = done.iter().map(Account::sums).collect();
    assert_eq!(sums, [vec![1], vec![], vec![], vec![1]]);
    server.end();
}

#[test]
fn an_idle_slot_that_is_ready_is_never_rescheduled() {
    let config = Config { iterative: true, parameters: vec![("check_controls", "false")], ..Config::direct() };
    let server = Server::running(&config);
    let mut padding = config.padding().with("READY", vec![1]);
    padding.set("INPUT", encoded("TYPE_INT32", &[1, 2]).1);
    padding.input("INPUT").shape = vec![1, 2];
    let done = server.execute([config.ask(START, 7, &[5, 6]), padding]);
    assert_eq!((done[0].reschedules, done[0].sums(), done[1].reschedules), (2, vec![33, 33], 0));
    server.end();
}
