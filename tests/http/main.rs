//! The front end over HTTP: the reference server and, with `--ignored`, the real one are asked the same and have to say the same.

#[path = "../support/http.rs"]
#[allow(unreachable_pub, dead_code, reason = "each test file uses its part")]
mod http;
#[path = "../support/triton.rs"]
#[allow(unreachable_pub, dead_code, reason = "each test file uses its part")]
mod triton;

mod cases;
mod conversations;
mod faults;
mod metrics;
mod tls;

use std::{net::SocketAddr, time::Duration};

use sequence_stress::reference::{ModelOptions, Options, Planted, Server};
use serde_json::{Value, json};

use self::{
    http::{Answer, ask},
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

/// Holds these with the reference server.
fn with_reference(hold: impl Fn(SocketAddr)) {
    let server = Server::start(options()).expect("free ports");
    hold(server.http);
}

/// Holds these with the real server, whose control mode lets models be loaded.
fn with_real(hold: impl Fn(SocketAddr)) {
    let modes =
        ["--idle-limit-ms", "20000", "--server-arg=--model-control-mode=explicit", "--server-arg=--load-model=*"];
    let server = Triton::start(&modes);
    hold(server.http.parse().expect("an address"));
    server.stop();
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
