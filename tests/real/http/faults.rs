//! Faults of the reference server over HTTP.

use reference::{Ended, Fault, Planted};
use serde_json::{Value, json};

use super::{
    INFER, MODEL,
    http::{connect, request, try_ask},
    infer, step, sum, with_faults,
};
use crate::support::runs::block_on;

/// What a first step and a step without START are answered with.
fn answers(fault: Option<Fault>) -> (u16, Value, (u16, String)) {
    let faults: Vec<_> = fault.map(Planted::always).into_iter().collect();
    let server = with_faults(&faults);
    let mut first = step(7, "S", 5);
    first["id"] = json!("mine");
    let (first, rejected) = (infer(server.http, &first), infer(server.http, &step(8, "", 5)));
    if let Some(fault) = fault {
        assert!(server.committed(fault) > 0, "{fault}");
    }
    (first.status, first.json(), (rejected.status, rejected.error()))
}

#[test]
fn answers_are_spoiled() {
    let (status, right, rejected) = answers(None);
    assert_eq!((status, &right["id"], &right["outputs"][0]["data"]), (200, &json!("mine"), &json!([5])));
    assert_eq!((rejected.0, rejected.1.contains("START")), (400, true));
    for (fault, pointer, wrong) in [
        (Fault::OffByOne, "/outputs/0/data", json!([6])),
        (Fault::WrongRequestId, "/id", json!("9999-0-0-0")),
        (Fault::WrongModelName, "/model_name", json!("another")),
        (Fault::WrongOutputName, "/outputs/0/name", json!("OUTPUT_2")),
        (Fault::WrongOutputType, "/outputs/0/datatype", json!("FP32")),
        (Fault::WrongOutputShape, "/outputs/0/shape", json!([1])),
        (Fault::WrongOutputLength, "/outputs/0/data", json!([5, 0])),
        (Fault::TruncateOutput, "/outputs/0/data", json!([])),
        (Fault::EmptyResponse, "/outputs", json!([])),
    ] {
        let (status, answer, _) = answers(Some(fault));
        assert_eq!((status, answer.pointer(pointer)), (200, Some(&wrong)), "{fault}: {answer}");
    }
}

#[test]
fn errors_are_spoiled_and_made() {
    assert_eq!(answers(Some(Fault::WrongErrorText)).2, (400, "no".to_owned()));
    assert_eq!(answers(Some(Fault::WrongErrorCode)).2.0, 500);
    let (status, answer, _) = answers(Some(Fault::ModelError));
    assert_eq!((status, answer["error"].as_str()), (500, Some("the model could not execute the request")));
    assert_eq!(answers(Some(Fault::AcceptNoStart)).2.0, 200);
}

#[test]
fn the_server_crashes_restarts_and_sends_away() {
    let asked = request("POST", INFER, &[], step(7, "S", 5).to_string().as_bytes());
    let server = with_faults(&[Planted::always(Fault::Crash)]);
    assert!(try_ask(connect(server.http), &asked).is_none());
    assert_eq!(server.stop(), Ended::Crashed);

    let server = with_faults(&[Planted::once(Fault::Restart, 2)]);
    assert_eq!(sum(server.http, &step(7, "S", 5)), 5);
    assert!(try_ask(connect(server.http), &asked).is_none());
    // Of the sequence nothing is left.
    assert_eq!(infer(server.http, &step(7, "", 5)).status, 400);

    let server = with_faults(&[Planted::always(Fault::GoAway)]);
    for (flags, expected) in [("S", 1), ("", 2), ("E", 3)] {
        assert_eq!(sum(server.http, &step(7, flags, 1)), expected);
    }
    assert_eq!(server.committed(Fault::GoAway), 3);
}

#[test]
fn a_restart_from_outside_is_one_of_all_front_ends() {
    let server = with_faults(&[]);
    assert_eq!(sum(server.http, &step(7, "S", 5)), 5);
    block_on(server.restarter()()).expect("it starts again");
    assert_eq!(infer(server.http, &step(7, "", 5)).status, 400);
    for (address, path) in [(server.http, MODEL), (server.metrics, "/metrics")] {
        assert_eq!(super::ask(address, "GET", path, &[], b"").status, 200);
    }
}

#[test]
fn an_answer_is_not_sent() {
    let server = with_faults(&[Planted::once(Fault::DropResponse, 1)]);
    let mut waiting = connect(server.http);
    let asked = request("POST", INFER, &[], step(7, "S", 5).to_string().as_bytes());
    std::io::Write::write_all(&mut waiting, &asked).expect("it is taken");
    while server.committed(Fault::DropResponse) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(sum(server.http, &step(7, "E", 1)), 6);
    waiting.set_nonblocking(true).expect("it can be set");
    let read = std::io::Read::read(&mut waiting, &mut [0]);
    assert_eq!(read.expect_err("there is no answer").kind(), std::io::ErrorKind::WouldBlock);
}
