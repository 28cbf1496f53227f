//! Against a small HTTP server that tells what it was asked and answers what it is told.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full};
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};

use super::*;
use crate::{
    conversation::Transport,
    endpoint::{Endpoints, Scheme},
    event::{Code, Received},
    number::Datatype,
    sequence::{Flaw, Pattern, RequestId, Special, WireId},
    tensor::TensorData,
    transport::{Client, Link, Stream},
};

const LIMIT: Duration = Duration::from_secs(10);

/// What the server was asked.
#[derive(Debug)]
struct Asked {
    method: Method,
    path: String,
    json: Value,
    bytes: Vec<u8>,
}

/// What it answers: a status, how many bytes are JSON where others follow, and the body.
type Answer = (u16, Option<usize>, Vec<u8>);

/// Starts a server that answers so, and tells of each request.
async fn server(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> (Endpoints, mpsc::Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::from(listener.local_addr().expect("an address")).speaking(Scheme::Http);
    let (asked, tells) = mpsc::channel(64);
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answer, asked) = (Arc::clone(&answer), asked.clone());
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let (answer, asked) = (Arc::clone(&answer), asked.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.expect("a body").to_bytes();
                    let length = head.headers.get(HEADER_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
                    let (json, bytes) = body.split_at(length.unwrap_or(body.len()));
                    let json = serde_json::from_slice(json).unwrap_or(Value::Null);
                    let its =
                        Asked { method: head.method, path: head.uri.path().to_owned(), json, bytes: bytes.into() };
                    let (status, length, body) = answer(&its);
                    let _ = asked.send(its).await;
                    let mut response = Response::builder().status(status);
                    if let Some(length) = length {
                        response = response.header(HEADER_LENGTH, length);
                    }
                    Ok::<_, Infallible>(response.body(Full::new(Bytes::from(body))).expect("a response"))
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (endpoint.into(), tells)
}

fn in_json(status: u16, json: &Value) -> Answer {
    (status, None, json.to_string().into_bytes())
}

fn step(special: Option<Special>) -> Step {
    let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
    Step { request, pattern: Pattern::Valid, start: true, end: false, value: (-5).into(), of: 6, special }
}

fn template() -> RequestTemplate {
    RequestTemplate::new("a model", ("INPUT", Datatype::Int32), &vec![1, 1].into(), &["OUTPUT"], WireId::Number(-2))
}

/// Sends steps one after the other, and returns what came of each.
async fn sent(endpoints: &Endpoints, by: Transport, steps: &[Step]) -> Vec<Message> {
    let link = Link::to(endpoints, &Access::default(), LIMIT).expect("a link");
    let Stream { outgoing, mut incoming } = Stream::open(&link, by, template()).expect("it is spoken");
    for step in steps {
        outgoing.room_now().expect("room").send(*step);
    }
    drop(outgoing);
    let mut messages = Vec::new();
    loop {
        let message = tokio::time::timeout(LIMIT, incoming.next()).await.expect("an answer");
        let is_end = matches!(message, Message::End | Message::Broken(_));
        messages.push(message);
        if is_end {
            return messages;
        }
    }
}

fn received(message: &Message) -> &Received {
    match message {
        Message::Received(received) => received,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn steps_go_out_in_json_and_as_bytes_and_answers_are_read_in_both() {
    for (by, outputs) in [
        (Transport::Http, json!([{ "name": "OUTPUT", "datatype": "INT32", "shape": [1, 1], "data": [-5] }])),
        (
            Transport::HttpBinary,
            json!([{ "name": "OUTPUT", "datatype": "INT32", "shape": [1, 1], "parameters": { "binary_data_size": 4 } }]),
        ),
    ] {
        let binary = by == Transport::HttpBinary;
        let answer = json!({ "id": "1-2-3-4", "model_name": "a model", "outputs": outputs }).to_string().into_bytes();
        let (endpoints, mut asked) = server(move |_| {
            let length = binary.then_some(answer.len());
            let bytes: &[u8] = if binary { &[0xfb, 0xff, 0xff, 0xff] } else { &[] };
            (200, length, [&answer, bytes].concat())
        })
        .await;
        let messages = sent(&endpoints, by, &[step(None), step(None)]).await;
        assert!(matches!(messages.as_slice(), [_, _, Message::End]), "{messages:?}");
        let answer = received(&messages[0]);
        assert_eq!((answer.request(), answer.code), (Some(step(None).request), None));
        let response = answer.result.as_ref().expect("an answer");
        assert_eq!(
            (response.model.as_str(), response.outputs[0].data.single(Datatype::Int32)),
            ("a model", Some(Ok((-5).into())))
        );
        let Asked { method, path, json, bytes } = asked.recv().await.expect("a request");
        assert_eq!((method, path.as_str()), (Method::POST, "/v2/models/a%20model/infer"));
        let mut input = json!({ "name": "INPUT", "datatype": "INT32", "shape": [1, 1] });
        if binary {
            input["parameters"] = json!({ "binary_data_size": 4 });
            assert_eq!(bytes, [0xfb, 0xff, 0xff, 0xff]);
        } else {
            input["data"] = json!([-5]);
            assert!(bytes.is_empty());
        }
        let parameters = json!({ "sequence_id": u64::MAX - 1, "sequence_start": true, "sequence_end": false });
        let outputs = json!([{ "name": "OUTPUT", "parameters": { "binary_data": binary } }]);
        let expected = json!({ "id": "1-2-3-4", "parameters": parameters, "inputs": [input], "outputs": outputs });
        assert_eq!(json, expected);
    }
}

#[tokio::test]
async fn an_error_is_received_with_its_status_and_what_is_none_breaks() {
    let (endpoints, _asked) = server(|asked| match asked.json["parameters"]["timeout"].as_u64() {
        Some(1) => in_json(503, &json!({ "error": "too late" })),
        Some(2) => (502, None, b"<html>".to_vec()),
        Some(3) => in_json(200, &json!({ "outputs": "none" })),
        Some(4) => (200, Some(99), b"{}".to_vec()),
        _ => in_json(200, &json!({ "outputs": [{ "name": "O", "datatype": "FP16", "shape": [1], "data": [0.5] }] })),
    })
    .await;
    let messages = sent(&endpoints, Transport::Http, &[step(Some(Special::TimeoutUs(1)))]).await;
    let refused = received(&messages[0]);
    let expected = Received { id: "1-2-3-4".into(), result: Err("too late".into()), code: Some(Code::Http(503)) };
    assert_eq!(refused, &expected);
    for (us, why) in [(2, "the HTTP status 502 came"), (3, "no inference response"), (4, "99 bytes of JSON")] {
        let messages = sent(&endpoints, Transport::Http, &[step(Some(Special::TimeoutUs(us)))]).await;
        let [Message::Broken(reason)] = messages.as_slice() else { panic!("{messages:?}") };
        assert!(reason.contains(why), "{reason}");
    }
    let messages = sent(&endpoints, Transport::Http, &[step(None)]).await;
    let response = received(&messages[0]).result.as_ref().expect("an answer");
    assert_eq!(response.outputs[0].data, TensorData::Absent, "of a type that is not known");
}

#[tokio::test]
async fn each_flaw_makes_a_request_of_its_own() {
    for by in [Transport::Http, Transport::HttpBinary] {
        let (endpoints, mut asked) = server(|_| in_json(400, &json!({ "error": "no" }))).await;
        let plain = sent(&endpoints, by, &[step(None)]).await;
        assert_eq!(received(&plain[0]).result, Err("no".to_owned()));
        let plain = format!("{:?}", asked.recv().await.expect("a request"));
        let mut seen = vec![plain];
        for flaw in Flaw::ALL {
            sent(&endpoints, by, &[step(Some(Special::Flaw(flaw)))]).await;
            let request = format!("{:?}", asked.recv().await.expect("a request"));
            assert!(!seen.contains(&request), "{flaw}: {request}");
            seen.push(request);
        }
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::from(listener.local_addr().expect("an address")).speaking(Scheme::Http);
    let link = Link::to(&endpoint.into(), &Access::default(), LIMIT).expect("a link");
    let Stream { outgoing, mut incoming } = Stream::open(&link, Transport::Http, template()).expect("it is spoken");
    outgoing.room_now().expect("room").send(step(None));
    let call = tokio::spawn(async move { incoming.next().await });
    let (mut server, _) = listener.accept().await.expect("a connection");
    let mut some = [0; 16];
    tokio::io::AsyncReadExt::read_exact(&mut server, &mut some).await.expect("a request");
    call.abort();
    let mut rest = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(&mut server, &mut rest);
    tokio::time::timeout(LIMIT, ended).await.expect("the connection ends").expect("in good order");
}

#[tokio::test]
async fn the_calls_before_and_after_a_run_are_understood() {
    let (endpoints, _asked) = server(|asked| match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/v2/health/live" | "/v2/models/m/ready")
        | ("POST", "/v2/repository/models/m/unload" | "/v2/repository/models/m/load") => (200, None, Vec::new()),
        ("GET", "/v2/health/ready") => (400, None, Vec::new()),
        ("GET", "/v2/models/none/ready") => in_json(400, &json!({ "error": "Model version not ready" })),
        ("GET", "/v2") => in_json(200, &json!({ "name": "triton", "version": "2", "extensions": [] })),
        ("POST", "/v2/repository/index") => in_json(200, &json!([{ "name": "m", "state": "READY" }])),
        ("GET", "/v2/models/m") => in_json(
            200,
            &json!({ "inputs": [{ "name": "I", "datatype": "INT32", "shape": [-1, 1] }], "outputs": [] }),
        ),
        ("GET", "/v2/models/m/config") => in_json(
            200,
            &json!({ "name": "m", "max_batch_size": 4, "not_known": [1], "instance_group": [{ "count": 2, "kind": "KIND_CPU" }],
                "sequence_batching": { "max_sequence_idle_microseconds": "7", "oldest": { "max_candidate_sequences": 3 } } }),
        ),
        ("GET", "/v2/models/m/stats") => in_json(
            200,
            &json!({ "model_stats": [{ "name": "m", "inference_count": 5, "execution_count": 4,
                "inference_stats": { "success": { "count": 3, "ns": 1 }, "fail": { "count": 2, "ns": 1 } } }] }),
        ),
        ("POST", "/v2/repository/models/none/load") => in_json(400, &json!({ "error": "no such model" })),
        _ => (404, None, Vec::new()),
    })
    .await;
    let client = Client::new(endpoints.for_calls(), &Access::default(), LIMIT).expect("an address");
    assert_eq!((client.server_live().await, client.server_ready().await), (Ok(true), Ok(false)));
    assert_eq!((client.model_ready("m").await, client.model_ready("none").await), (Ok(true), Ok(false)));
    assert_eq!(client.model_ready("other").await, Err(CallError::Unimplemented));
    assert_eq!(client.server_name().await.as_deref(), Ok("triton 2"));
    assert_eq!(client.models().await, Ok(vec!["m".to_owned()]));
    let (inputs, outputs) = client.model_tensors("m").await.expect("tensors");
    assert_eq!((inputs[0].name.as_str(), inputs[0].shape.as_slice(), outputs.len()), ("I", [-1, 1].as_slice(), 0));
    let settings = client.configuration("m").await.expect("a configuration").settings();
    assert_eq!((settings.slots, settings.idle_limit), (6, Duration::from_micros(7)));
    let counted = client.counted("m").await.expect("counts");
    assert_eq!((counted.success, counted.fail, counted.inference, counted.execution), (3, 2, 5, 4));
    assert_eq!(client.counted("other").await, Err(CallError::Unimplemented));
    assert_eq!(client.reload("m").await, Ok(()));
    assert_eq!(client.reload("none").await, Err(CallError::Refused("no such model".to_owned())));
    let configuration = client.configuration("m").await.expect("a configuration");
    assert_eq!(client.load("m", &configuration).await, Ok(()));
}

#[tokio::test]
async fn what_speaks_no_http_is_told_apart_from_what_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::from(listener.local_addr().expect("an address")).speaking(Scheme::Http);
    let client = Client::new(&endpoint, &Access::default(), LIMIT).expect("an address");
    let call = tokio::spawn(async move { client.server_live().await });
    let (mut stream, _) = listener.accept().await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"no HTTP at all\r\n\r\n").await.expect("it is taken");
    let answer = call.await.expect("it ends");
    assert!(matches!(answer, Err(CallError::NotThisProtocol(_))), "{answer:?}");
    drop(listener);
    let client = Client::new(&endpoint, &Access::default(), LIMIT).expect("an address");
    let answer = client.server_live().await;
    assert!(matches!(answer, Err(CallError::Unreachable(_))), "{answer:?}");
}
