//! The traffic is as it is without the proxy, and the file has what was sent and nothing else.

use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
    net::SocketAddr,
};

use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{
    Response,
    body::{Bytes, Incoming},
    client::conn::http2::SendRequest,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{MODEL, Proxied, call, framed, tracks};
use crate::support::{
    http,
    request::step,
    runs::{run_alone, runtime, scenario_at, server_with},
};
use sequence_stress::run::Setup;
use wire::proto::{InferParameter, ModelInferRequest, infer_parameter::ParameterChoice};
use workload::{inputs::recording::read, seed::Seed};

/// What must not be in a recording.
const SECRETS: [&str; 6] = ["hunter2", "tenant", "token", "person@example.com", "987654321987", "secret"];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).expect("memory");
    gzip.finish().expect("memory")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(bytes).expect("memory");
    zlib.finish().expect("memory")
}

/// A step whose correlation ID is a text.
fn named(id: &str, element: i32, start: bool, end: bool) -> ModelInferRequest {
    let mut request = step(MODEL, 1, &[element], start, end);
    let choice = Some(ParameterChoice::StringParam(id.to_owned()));
    request.parameters.insert("sequence_id".to_owned(), InferParameter { parameter_choice: choice });
    request
}

type Sent = BoxBody<Bytes, Infallible>;

async fn http2(at: SocketAddr) -> SendRequest<Sent> {
    let stream = TcpStream::connect(at).await.expect("a connection");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn whole(messages: &[Bytes]) -> Sent {
    Full::new(Bytes::from(messages.concat())).boxed()
}

/// All of an answer: status, headers, body and trailers.
async fn told(answer: Response<Incoming>) -> String {
    let (head, body) = answer.into_parts();
    let body = body.collect().await.expect("a body");
    let sorted = |headers: &hyper::HeaderMap| {
        let mut all: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        all.retain(|header| !header.starts_with("date: "));
        all.sort();
        all
    };
    let trailers = body.trailers().map(sorted);
    format!("{} {:?} {:?} {trailers:?}", head.status, sorted(&head.headers), body.to_bytes())
}

/// Calls of all kinds, with their messages.
fn calls() -> Vec<(&'static str, Vec<Bytes>)> {
    let message = |request: &ModelInferRequest| framed(false, &request.encode_to_vec());
    let of = |element, start, end| step(MODEL, 987_654_321_987, &[element], start, end);
    let typed = {
        let mut request = of(2, false, false);
        request.raw_input_contents.clear();
        let contents = wire::proto::InferTensorContents { int_contents: vec![-2], ..Default::default() };
        request.inputs[0].contents = Some(contents);
        "a secret".clone_into(&mut request.id);
        request
    };
    vec![
        ("ModelInfer", vec![message(&of(1, true, false))]),
        ("ModelInfer", vec![message(&typed)]),
        ("ModelInfer", vec![framed(true, &gzip(&of(3, false, true).encode_to_vec()))]),
        ("ModelInfer", vec![message(&of(4, false, false))]),
        ("ModelInfer", vec![message(&step("no_such_model", 5, &[5], true, true))]),
        ("ModelInfer", vec![message(&step(MODEL, 0, &[6], true, true))]),
        ("ModelInfer", vec![framed(false, b"\xff\xff\xff")]),
        ("ServerMetadata", vec![framed(false, b"")]),
        (
            "ModelMetadata",
            vec![framed(
                false,
                &wire::proto::ModelMetadataRequest { name: MODEL.into(), ..Default::default() }.encode_to_vec(),
            )],
        ),
        ("NoSuchMethod", vec![framed(false, b"tenant")]),
        (
            "ModelStreamInfer",
            vec![
                message(&named("person@example.com", 10, true, false)),
                message(&named("person@example.com", 20, false, false)),
                framed(true, &gzip(&named("person@example.com", 30, false, true).encode_to_vec())),
                message(&named("secret", 40, false, true)),
            ],
        ),
    ]
}

/// Requests over HTTP of all kinds, as bytes.
fn requests() -> Vec<Vec<u8>> {
    let infer = |element: i32, start: bool, end: bool| {
        json!({
            "id": "a secret", "parameters": { "sequence_id": "person@example.com", "sequence_start": start, "sequence_end": end },
            "inputs": [{ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [[element]] }],
            // The other output tells the slot.
            "outputs": [{ "name": "OUTPUT" }],
        })
    };
    let binary = |element: i32, start: bool, end: bool| {
        let mut json = infer(element, start, end);
        json["inputs"][0].as_object_mut().expect("an input").remove("data");
        json["inputs"][0]["parameters"] = json!({ "binary_data_size": 4 });
        let json = json.to_string().into_bytes();
        (json.len().to_string(), [&json[..], &element.to_le_bytes()].concat())
    };
    let text = |json: Value| json.to_string().into_bytes();
    let path = format!("/v2/models/{MODEL}/infer?token=hunter2");
    let of_version = format!("/v2/models/{MODEL}/versions/1/infer");
    let token = ("Authorization", "Bearer hunter2");
    let post = |path: &str, headers: &[(&str, &str)], body: &[u8]| {
        http::request("POST", path, &[&[token], headers].concat(), body)
    };
    let (length, body) = binary(200, false, false);
    let mut chunked = b"POST /v2/models/custom_sequence_int32/infer HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Tenant: tenant\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in text(infer(500, false, true)).chunks(50) {
        chunked.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        chunked.extend([piece, b"\r\n"].concat());
    }
    chunked.extend(b"0\r\n\r\n");
    vec![
        post(&path, &[], &text(infer(100, true, false))),
        post(&of_version, &[("Inference-Header-Content-Length", &length)], &body),
        post(
            &path,
            &[("Content-Encoding", "gzip"), ("Accept-Encoding", "gzip")],
            &gzip(&text(infer(300, false, false))),
        ),
        post(&path, &[("Content-Encoding", "deflate")], &zlib(&text(infer(400, false, false)))),
        chunked,
        post(&path, &[], &text(infer(600, false, true))),
        post(&path, &[], b"{"),
        post("/v2/models/no_such_model/infer", &[], &text(infer(700, true, true))),
        http::request("GET", "/v2", &[token], b""),
        http::request("GET", "/v2/nowhere?token=hunter2", &[token], b""),
        http::request("GET", &format!("/v2/models/{MODEL}"), &[], b""),
    ]
}

/// All bytes that a server answers.
fn bytes(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = http::connect(at);
    stream.write_all(request).expect("a connection");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an answer");
    let text = String::from_utf8_lossy(&all).into_owned();
    text.lines().filter(|line| !line.to_lowercase().starts_with("date: ")).collect::<Vec<_>>().join("\n")
}

async fn answers(at: SocketAddr) -> Vec<String> {
    let mut client = http2(at).await;
    let mut all = Vec::new();
    for (method, messages) in calls() {
        let answer = client.send_request(call(at, method, whole(&messages))).await.expect("an answer");
        all.push(told(answer).await);
    }
    all
}

#[test]
fn calls_are_answered_as_without_the_proxy_and_recorded_without_their_headers() {
    let server = server_with(None);
    let (proxied, memory) = Proxied::to(&server, &[MODEL]);
    runtime().block_on(async {
        let (direct, through) = (answers(server.address).await, answers(proxied.grpc).await);
        assert_eq!(direct, through);
        assert_eq!(direct.len(), calls().len());
        assert!(direct[3].contains("grpc-status: 3") && direct[9].contains("grpc-status: 12"), "{direct:?}");
    });
    let summary = proxied.finish();
    let text = memory.text();
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert_eq!(
        (summary.requests, summary.sequences, summary.whole, summary.without_start),
        (8, 2, 2, 2),
        "{summary:?}"
    );
    let left_out: Vec<_> = summary.left_out.into_iter().collect();
    assert_eq!(left_out, [("it has no correlation ID", 1), ("it is for another model", 1)]);
    assert!(text.lines().nth(5).is_some_and(|line| line.contains("\"text\":true")), "{text}");
    let recording = read(&text).expect("a recording");
    assert!(!recording.is_cut && recording.lost == 0);
    let recorded = recording.into_model(Some(MODEL)).expect("the model");
    assert_eq!(tracks(&recorded), [vec![1, -2, 3], vec![10, 20, 30]]);
    assert_eq!((recorded.without_start, recorded.without_end), (2, 0));
    assert!(recorded.tracks.iter().all(|track| track.pauses.len() == 2));
}

#[test]
fn requests_over_http_are_answered_byte_by_byte_as_without_the_proxy_and_recorded_without_their_headers() {
    let server = server_with(None);
    let (proxied, memory) = Proxied::to(&server, &[]);
    let of = |at: SocketAddr| requests().iter().map(|request| bytes(at, request)).collect::<Vec<_>>();
    let (direct, through) = (of(server.http), of(proxied.http));
    assert_eq!(direct, through);
    assert!(direct[4].contains("1500") && direct[5].contains("400 Bad Request"), "{direct:?}");
    let summary = proxied.finish();
    let text = memory.text();
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert_eq!((summary.requests, summary.sequences, summary.whole), (7, 2, 2), "{summary:?}");
    assert_eq!(summary.left_out.into_iter().collect::<Vec<_>>(), [("it cannot be read", 1)]);
    let recording = read(&text).expect("a recording");
    assert_eq!(recording.lost, 1);
    assert_eq!(tracks(&recording.clone().into_model(Some("no_such_model")).expect("the model")), [[700]]);
    let recorded = recording.into_model(Some(MODEL)).expect("the model");
    assert_eq!(tracks(&recorded), [[100, 200, 300, 400, 500]]);
    assert_eq!(recorded.without_start, 1);
}

#[test]
fn connections_that_go_on_are_recorded_whatever_else_they_carry() {
    let server = server_with(None);
    let (proxied, memory) = Proxied::to(&server, &[]);
    let keep = |request: &[u8]| {
        let at = request.windows(19).position(|window| window == b"Connection: close\r\n").expect("it has one");
        [&request[..at], &request[at + 19..]].concat()
    };
    let mut requests = requests();
    let last = requests.pop().expect("requests");
    let pipelined = [requests.iter().flat_map(|request| keep(request)).collect(), last].concat();
    let (direct, through) = (bytes(server.http, &pipelined), bytes(proxied.http, &pipelined));
    assert_eq!(direct, through);
    assert_eq!(direct.matches("HTTP/1.1 ").count(), requests.len() + 1);
    proxied.finish();
    let recorded = read(&memory.text()).expect("a recording").into_model(Some(MODEL)).expect("the model");
    assert_eq!(tracks(&recorded), [[100, 200, 300, 400, 500]]);
}

#[test]
fn a_run_through_the_proxy_is_valid_and_each_of_its_requests_is_recorded() {
    const TEXT: &str = "
load = { workers = 3, iterations = 6 }
limits = { quiet_ms = 30, settle_ms = 5000, step_ms = 5 }
length = { min = 2, max = 8, uniform = { min = 2, max = 8 } }
slots.check = false
patterns.rare = { valid = 1 }
patterns.common = { valid = 4, valid-valid = 1, no-start = 1, no-end = 1, cancel-idle = 1 }
claims = {}";
    let server = server_with(None);
    for transport in ["grpc-stream", "grpc-unary"] {
        let (proxied, memory) = Proxied::to(&server, &[]);
        let text = format!("{TEXT}\nsending.transport = '{transport}'");
        let result = run_alone(Setup::new(scenario_at(proxied.grpc, &text), Seed(1))).expect("a run");
        assert_eq!(result.violations, [], "{transport}");
        let summary = proxied.finish();
        let sent = result.tally.total().requests;
        // The tool's first sequence is no part of the load.
        assert!(sent > 50 && (sent..sent + 10).contains(&summary.requests), "{transport}: {sent} {summary:?}");
        assert_eq!(summary.left_out.len(), 0, "{summary:?}");
        let recorded = read(&memory.text()).expect("a recording").into_model(None).expect("one model");
        let steps: usize = recorded.tracks.iter().map(|track| track.steps.len()).sum();
        assert_eq!(steps as u64 + recorded.without_start, summary.requests);
        assert_eq!(recorded.tracks.len() as u64, summary.sequences);
        assert_eq!(recorded.without_end, summary.sequences - summary.whole);
    }
}
