//! The front end over HTTP: the reference server and, with `--ignored`, the real one are asked the same and have to say the same.

mod cases;
mod conversations;
mod faults;
mod metrics;
mod tls;

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reference::{ModelOptions, Options, Planted, Server};
use serde_json::{Value, json};

use crate::support::{
    http::{self, Answer, ask},
    triton::Triton,
};

const MODEL: &str = "/v2/models/custom_sequence_int32";
const INFER: &str = "/v2/models/custom_sequence_int32/infer";

/// A reference server with four slots, as the real one has them here.
fn options() -> Options {
    let models = ModelOptions { max_batch_size: 4, idle_limit: Duration::from_secs(20), ..ModelOptions::default() };
    Options { models, ..Options::default() }
}

fn with_faults(faults: &[Planted]) -> Server {
    Server::start(Options { faults: faults.to_vec(), ..options() }).expect("free ports")
}

/// Holds these with the reference server: at its address for HTTP and its address for metrics.
fn with_reference(hold: impl Fn(SocketAddr, SocketAddr)) {
    let server = Server::start(options()).expect("free ports");
    hold(server.http, server.metrics);
}

/// Holds these with the real server, whose control mode lets models be loaded; one test at a time, because the slots and the name of
/// one model are the subject of both.
fn with_real(hold: impl Fn(SocketAddr, SocketAddr)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Triton::shared(&["--idle-limit-ms", "20000", "--explicit", "--server-arg=--load-model=*"]);
    let [http, metrics] = [&server.http, &server.metrics].map(|text| text.parse().expect("an address"));
    hold(http, metrics);
}

/// An input of one element.
fn input(value: impl Into<Value>) -> Value {
    let value = value.into();
    json!({ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [value] })
}

/// A step of a sequence.
fn step(id: impl Into<Value>, flags: &str, value: i32) -> Value {
    let parameters = json!({
        "sequence_id": id.into(), "sequence_start": flags.contains('S'), "sequence_end": flags.contains('E')
    });
    json!({ "parameters": parameters, "inputs": [input(value)], "outputs": [{ "name": "OUTPUT" }] })
}

fn infer(address: SocketAddr, body: &Value) -> Answer {
    ask(address, "POST", INFER, &[], body.to_string().as_bytes())
}

/// The sum that a step is answered with.
fn sum(address: SocketAddr, body: &Value) -> i64 {
    let answer = infer(address, body);
    assert_eq!(answer.status, 200, "{body}: {}", answer.text());
    answer.json()["outputs"][0]["data"][0].as_i64().expect("a sum")
}
