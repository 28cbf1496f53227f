//! Against a small HTTP server that tells what it was asked and answers what it is told.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full};
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};

use super::*;
use crate::transport::{Client, Declared, Link, Stream};
use workload::{
    conversation::Transport,
    endpoint::{Endpoint, Endpoints, Scheme},
    event::{Code, Received},
    model::Model,
    number::Datatype,
    scenario::{Overrides, Scenario, Source},
    sequence::{Flaw, Pattern, RequestId, Special, WireId},
    tensor::{TensorData, TensorSpec},
};

/// Only a hang takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// What the server was asked.
#[derive(Debug)]
struct Asked {
    /// Over which of its connections, counted from 1.
    connection: usize,
    method: Method,
    path: String,
    json: Value,
    bytes: Vec<u8>,
    encoding: Option<String>,
}

/// What it answers: a status, how many bytes are JSON where others follow, and the body.
type Answer = (u16, Option<usize>, Vec<u8>);

/// Starts a server that answers so, and tells of each request.
async fn server(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> (Endpoints, mpsc::Receiver<Asked>) {
    server_that_keeps(true, answer).await
}

/// The same, which keeps connections or closes each when it has answered.
async fn server_that_keeps(
    keeps: bool,
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> (Endpoints, mpsc::Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::from(listener.local_addr().expect("an address")).speaking(Scheme::Http);
    let (asked, tells) = mpsc::channel(64);
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        let mut connection = 0;
        while let Ok((stream, _)) = listener.accept().await {
            connection += 1;
            let (answer, asked) = (Arc::clone(&answer), asked.clone());
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let (answer, asked) = (Arc::clone(&answer), asked.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.expect("a body").to_bytes();
                    let named = |name| Some(head.headers.get(name)?.to_str().expect("a text").to_owned());
                    let (encoding, accepts) = (named(CONTENT_ENCODING), named(ACCEPT_ENCODING));
                    let of = |name: &Option<String>| {
                        name.as_ref().map_or(Compression::None, |name| compression::named(name).expect("it is known"))
                    };
                    let body =
                        compression::decompress(of(&encoding), body, BODY_MAX).expect("a body").expect("a small one");
                    let length = head.headers.get(HEADER_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
                    let (json, bytes) = body.split_at(length.unwrap_or(body.len()));
                    let json = serde_json::from_slice(json).unwrap_or(Value::Null);
                    let (method, path) = (head.method, head.uri.path().to_owned());
                    let id = head.headers.get("x-sequence-id").cloned();
                    let its = Asked { connection, method, path, json, bytes: bytes.into(), encoding };
                    let (status, length, body) = answer(&its);
                    let _ = asked.send(its).await;
                    let mut response = Response::builder().status(status);
                    if let Some(length) = length {
                        response = response.header(HEADER_LENGTH, length);
                    }
                    if let Some(name) = &accepts {
                        response = response.header(CONTENT_ENCODING, name);
                    }
                    // As if each sequence had a server of its own.
                    if let Some(id) = id {
                        response = response.header("x-served-by", id);
                    }
                    let body = compression::compress(of(&accepts), body);
                    Ok::<_, Infallible>(response.body(Full::new(Bytes::from(body))).expect("a response"))
                }
            });
            tokio::spawn(http1::Builder::new().keep_alive(keeps).serve_connection(TokioIo::new(stream), service));
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
    let tensor = |name: &str| TensorSpec { name: name.to_owned(), ..TensorSpec::default() };
    let (input, output) = (tensor("INPUT"), tensor("OUTPUT"));
    let model = Model { name: "a model".to_owned(), input, output, shape: vec![1, 1].into(), ..Model::default() };
    RequestTemplate::of(&model, WireId::Number(-2))
}

/// Sends steps one after the other, and returns what came of each.
async fn sent(endpoints: &Endpoints, by: Transport, steps: &[Step]) -> Vec<Message> {
    sent_by(endpoints, by, &Access::default(), steps).await
}

async fn sent_by(endpoints: &Endpoints, by: Transport, access: &Access, steps: &[Step]) -> Vec<Message> {
    let link = Link::to(endpoints, access, LIMIT).expect("a link");
    let Stream { outgoing, mut incoming } = Stream::open(&link, by, template()).expect("it is spoken");
    for step in steps {
        outgoing.room_now().expect("room").send(*step);
    }
    drop(outgoing);
    let mut messages = Vec::new();
    loop {
        let message = tokio::time::timeout(LIMIT, incoming.next()).await.expect("an answer");
        let is_end = matches!(message, Message::End | Message::Broken(_) | Message::Lapsed(_));
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
            (response.model.as_str(), response.outputs[0].data.alike(Datatype::Int32, 1)),
            ("a model", Some(Ok((-5).into())))
        );
        let Some(Asked { method, path, json, bytes, encoding: None, .. }) = asked.recv().await else {
            panic!("nothing is compressed")
        };
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
    let output = || json!({ "name": "O", "datatype": "FP16", "shape": [1], "data": [0.5] });
    let (endpoints, _asked) = server(move |asked| match asked.json["parameters"]["timeout"].as_u64() {
        Some(1) => in_json(503, &json!({ "error": "too late" })),
        Some(2) => (502, None, b"<html>".to_vec()),
        Some(3) => in_json(200, &json!({ "outputs": "none" })),
        Some(4) => (200, Some(99), b"{}".to_vec()),
        Some(5) => in_json(200, &json!({ "id": "1-2-3-4", "error": "no", "outputs": [output()] })),
        Some(6) => in_json(400, &json!({ "error": "no", "outputs": [output()] })),
        _ => in_json(200, &json!({ "outputs": [output()] })),
    })
    .await;
    let messages = sent(&endpoints, Transport::Http, &[step(Some(Special::TimeoutUs(1)))]).await;
    let rejected = received(&messages[0]);
    let expected =
        Received { id: "1-2-3-4".into(), result: Err("too late".into()), code: Some(Code::Http(503)), outputs: 0 };
    assert_eq!(rejected, &expected);
    for (us, status) in [(5, 200), (6, 400)] {
        let messages = sent(&endpoints, Transport::Http, &[step(Some(Special::TimeoutUs(us)))]).await;
        let code = Some(Code::Http(status));
        assert_eq!(
            received(&messages[0]),
            &Received { id: "1-2-3-4".into(), result: Err("no".into()), code, outputs: 1 }
        );
    }
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
        let shown = |asked: Asked| format!("{:?}", (asked.path, asked.json, asked.bytes));
        let plain = shown(asked.recv().await.expect("a request"));
        let mut seen = vec![plain];
        for flaw in Flaw::ALL {
            sent(&endpoints, by, &[step(Some(Special::Flaw(flaw)))]).await;
            let request = shown(asked.recv().await.expect("a request"));
            assert!(!seen.contains(&request), "{flaw}: {request}");
            seen.push(request);
        }
    }
}

/// What a target with these keys takes.
fn access(keys: &str) -> Access {
    let source = Source::from_text("test", keys);
    let scenario = Scenario::resolve(&source, Overrides::default()).expect("a scenario");
    Access::new(&scenario.target).expect("what it takes")
}

#[tokio::test]
async fn what_is_inferred_goes_compressed_both_ways() {
    let output =
        json!({ "name": "OUTPUT", "datatype": "INT32", "shape": [1, 1], "parameters": { "binary_data_size": 4 } });
    let answer = json!({ "id": "1-2-3-4", "model_name": "a model", "outputs": [output] }).to_string().into_bytes();
    let (endpoints, mut asked) = server(move |asked| match asked.path.as_str() {
        "/v2" => in_json(200, &json!({ "name": "triton" })),
        _ => (200, Some(answer.len()), [&answer, &[7_u8, 0, 0, 0][..]].concat()),
    })
    .await;
    for name in ["gzip", "deflate"] {
        let access = access(&format!("target.compression = '{name}'"));
        let messages = sent_by(&endpoints, Transport::HttpBinary, &access, &[step(None)]).await;
        let response = received(&messages[0]).result.as_ref().expect("an answer");
        assert_eq!(response.outputs[0].data.alike(Datatype::Int32, 1), Some(Ok(7.into())));
        let asked_for = asked.recv().await.expect("a request");
        assert_eq!(
            (asked_for.encoding.as_deref(), asked_for.bytes.as_slice()),
            (Some(name), &[0xfb, 0xff, 0xff, 0xff][..])
        );
        assert_eq!(asked_for.json["id"], "1-2-3-4");
        // A server takes nothing else compressed.
        let client = Client::new(endpoints.for_calls(), &access, LIMIT).expect("an address");
        assert_eq!(client.server_name().await.as_deref(), Ok("triton"));
        assert_eq!(asked.recv().await.expect("a request").encoding, None);
    }
}

#[tokio::test]
async fn an_id_goes_out_in_a_header_and_the_server_is_told_where_it_changes() {
    let (endpoints, _asked) = server(|asked| match asked.json["parameters"]["timeout"].as_u64() {
        Some(1) => in_json(400, &json!({ "error": "no" })),
        _ => in_json(200, &json!({ "outputs": [] })),
    })
    .await;
    let both = access("target.sequence_header = 'X-Sequence-ID'\ntarget.server_header = 'x-served-by'");
    let link = Link::to(&endpoints, &both, LIMIT).expect("a link");
    let Stream { outgoing, mut incoming } = Stream::open(&link, Transport::Http, template()).expect("it is spoken");
    for special in [None, Some(Special::TimeoutUs(1)), None] {
        outgoing.room_now().expect("room").send(step(special));
    }
    drop(outgoing);
    let Message::ServedBy(Some(name)) = incoming.told().await else { panic!("the server comes first") };
    assert_eq!(name.to_string(), (u64::MAX - 1).to_string());
    for _ in 0..3 {
        assert!(matches!(incoming.told().await, Message::Received(_)), "it is the same for errors");
    }
    assert!(matches!(incoming.told().await, Message::End));
    // Without the option nothing of it is sent.
    let messages =
        sent_by(&endpoints, Transport::Http, &access("target.server_header = 'x-served-by'"), &[step(None)]).await;
    assert!(matches!(messages.as_slice(), [Message::Received(_), Message::End]), "{messages:?}");
}

#[test]
fn texts_that_differ_do_so_in_a_header() {
    let in_a_header = |text: &str| template().with_id(WireId::Text(text.to_owned())).id_in_a_header();
    assert_eq!(in_a_header("a-7"), "a%2D7");
    assert_eq!(in_a_header("a\u{0}b"), "a%00b");
    assert_eq!(in_a_header("ö\n"), "%C3%B6%0A");
    assert_ne!(in_a_header("a%00b"), in_a_header("a\u{0}b"));
}

#[tokio::test]
async fn an_answer_that_is_too_large_or_not_what_it_says_is_told() {
    let (endpoints, _asked) = server(|_| (200, None, vec![b' '; 5_000])).await;
    let small = access("target.message_bytes_max = 1000\ntarget.compression = 'gzip'");
    let messages = sent_by(&endpoints, Transport::Http, &small, &[step(None)]).await;
    let [Message::Broken(reason)] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(reason, "the response is larger than 1000 bytes (target.message_bytes_max)");
    let client = Client::new(endpoints.for_calls(), &small, LIMIT).expect("an address");
    assert_eq!(client.server_name().await, Err(CallError::TooLarge(1000)));
    for (encoding, part) in [("br", "compressed as 'br'"), ("gzip", "not gzip, as it says")] {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))]);
        let failure = taken_apart(&headers, Bytes::from_static(b"{}"), 1000).expect_err("it is neither").to_string();
        assert!(failure.contains(part), "{failure}");
    }
}

#[tokio::test]
async fn who_is_not_let_in_is_told_so() {
    let restricted = "This API is restricted, expecting header 'stress-key'";
    let (endpoints, _asked) = server(move |asked| match asked.path.as_str() {
        "/v2/models/none/infer" => (404, None, b"not here".to_vec()),
        "/v2/models/m/infer" => in_json(400, &json!({ "error": "no inputs" })),
        "/v2/health/live" | "/v2/models/m/stats" => (401, None, b"<html>".to_vec()),
        "/v2/models/a%20model/infer" if asked.json["parameters"]["timeout"] == 1 => (401, None, b"<html>".to_vec()),
        _ => in_json(403, &json!({ "error": restricted })),
    })
    .await;
    let client = Client::new(endpoints.for_calls(), &Access::default(), LIMIT).expect("an address");
    let unauthorized = || CallError::Restricted("HTTP status 401 Unauthorized".to_owned());
    assert_eq!(client.server_live().await, Err(unauthorized()));
    assert_eq!(client.counted("m").await.err(), Some(unauthorized()));
    assert_eq!(client.server_name().await, Err(CallError::Restricted(restricted.to_owned())));
    assert_eq!(client.model_ready("m").await, Err(CallError::Restricted(restricted.to_owned())));
    assert_eq!(client.infers("other").await, Err(CallError::Restricted(restricted.to_owned())));
    assert_eq!(client.infers("none").await, Err(CallError::Unimplemented));
    assert_eq!(client.infers("m").await, Ok(()));
    let messages = sent(&endpoints, Transport::Http, &[step(None)]).await;
    assert_eq!(received(&messages[0]).code, Some(Code::Http(403)));
    let messages = sent(&endpoints, Transport::Http, &[step(Some(Special::TimeoutUs(1)))]).await;
    let [Message::Broken(reason)] = messages.as_slice() else { panic!("{messages:?}") };
    assert!(reason.starts_with("the server wants authentication: HTTP status 401"), "{reason}");
}

#[tokio::test]
async fn a_server_that_reads_no_compressed_bodies_is_told() {
    let (endpoints, _asked) = server(|asked| {
        let error = if asked.encoding.is_some() { "failed to parse" } else { "no inputs" };
        in_json(400, &json!({ "error": error }))
    })
    .await;
    let client = |access: Access| Client::new(endpoints.for_calls(), &access, LIMIT).expect("an address");
    assert_eq!(client(Access::default()).infers("m").await, Ok(()));
    let rejected = client(access("target.compression = 'gzip'")).infers("m").await;
    assert!(matches!(&rejected, Err(CallError::Rejected(why)) if why.contains("--compression none")), "{rejected:?}");
}

#[tokio::test]
async fn a_connection_carries_one_call_after_the_other_until_it_is_closed() {
    for (keeps, expected) in [(true, [1, 1, 1]), (false, [1, 2, 3])] {
        let (endpoints, mut asked) = server_that_keeps(keeps, |_| in_json(400, &json!({ "error": "no" }))).await;
        let messages = sent(&endpoints, Transport::Http, &[step(None); 3]).await;
        assert!(
            matches!(
                messages.as_slice(),
                [Message::Received(_), Message::Received(_), Message::Received(_), Message::End]
            ),
            "{messages:?}"
        );
        let mut connections = [0; 3];
        for connection in &mut connections {
            *connection = asked.recv().await.expect("a request").connection;
        }
        assert_eq!(connections, expected);
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

/// A server that answers so many requests on each connection, and closes it: with the last answer, or when one more request comes.
async fn server_that_closes(answers: usize, at_once: bool) -> Endpoints {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::from(listener.local_addr().expect("an address")).speaking(Scheme::Http);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut bytes = [0; 4096];
            for answered in 0..=answers {
                if answered == answers && at_once {
                    break;
                }
                let read = tokio::io::AsyncReadExt::read(&mut connection, &mut bytes).await.expect("bytes");
                if answered == answers || read == 0 {
                    break;
                }
                let body = r#"{"error":"no"}"#;
                let answer = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                tokio::io::AsyncWriteExt::write_all(&mut connection, answer.as_bytes()).await.expect("it is written");
            }
        }
    });
    endpoint.into()
}

/// What comes of two steps with a rest in between.
async fn two_with_a_rest(endpoints: &Endpoints, rest: Duration) -> [Message; 2] {
    let link = Link::to(endpoints, &Access::default(), LIMIT).expect("a link");
    let Stream { outgoing, mut incoming } = Stream::open(&link, Transport::Http, template()).expect("it is spoken");
    outgoing.room_now().expect("room").send(step(None));
    let first = tokio::time::timeout(LIMIT, incoming.next()).await.expect("an answer");
    tokio::time::sleep(rest).await;
    outgoing.room_now().expect("room").send(step(None));
    [first, tokio::time::timeout(LIMIT, incoming.next()).await.expect("an answer")]
}

#[tokio::test]
async fn a_server_that_closes_what_carried_nothing_for_a_while_is_not_accused() {
    let rest = 2 * MAY_LAPSE_AFTER;
    let told = two_with_a_rest(&server_that_closes(1, true).await, rest).await;
    assert!(matches!(told, [Message::Received(_), Message::Received(_)]), "a new connection is made: {told:?}");
    let told = two_with_a_rest(&server_that_closes(1, false).await, rest).await;
    assert!(matches!(told, [Message::Received(_), Message::Lapsed(_)]), "it met the request: {told:?}");
    // A new connection that is closed with a request on it has no such excuse.
    let messages = sent(&server_that_closes(0, false).await, Transport::Http, &[step(None)]).await;
    assert!(matches!(messages.as_slice(), [Message::Broken(_)]), "{messages:?}");
}

#[tokio::test]
async fn a_secret_that_the_server_repeats_is_not_told_and_a_long_text_is_cut() {
    let secret = "Bearer s3cr3t-and-more";
    let (endpoints, _asked) = server(move |asked| match asked.path.as_str() {
        "/v2" => in_json(403, &json!({ "error": format!("not let in: {secret}") })),
        _ => in_json(400, &json!({ "error": format!("bad token s3cr3t-and-more {}", "x".repeat(1 << 20)) })),
    })
    .await;
    let access = access(&format!("target.headers = ['authorization: {secret}']"));
    let client = Client::new(endpoints.for_calls(), &access, LIMIT).expect("an address");
    assert_eq!(client.server_name().await, Err(CallError::Restricted("not let in: …".to_owned())));
    let messages = sent_by(&endpoints, Transport::Http, &access, &[step(None)]).await;
    let text = received(&messages[0]).result.as_ref().expect_err("a rejection");
    assert!(
        text.starts_with("bad token … xxx") && text.ends_with("x … (1048590 bytes)") && text.len() < 5000,
        "{text}"
    );
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
            &json!({ "inputs": [{ "name": "I", "datatype": "INT32", "shape": [-1, 1] }], "outputs": [], "versions": ["1"] }),
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
    let Declared { inputs, outputs, versions } = client.declared("m").await.expect("tensors");
    assert_eq!((inputs[0].name.as_str(), inputs[0].shape.as_slice(), outputs.len()), ("I", [-1, 1].as_slice(), 0));
    assert_eq!(versions, ["1"]);
    let settings = client.configuration("m").await.expect("a configuration").settings();
    assert_eq!((settings.slots, settings.idle_limit), (6, Duration::from_micros(7)));
    let counted = client.counted("m").await.expect("counts");
    assert_eq!((counted.success, counted.fail, counted.inference, counted.execution), (3, 2, 5, 4));
    assert_eq!(client.counted("other").await, Err(CallError::Unimplemented));
    assert_eq!(client.reload("m").await, Ok(()));
    assert_eq!(client.reload("none").await, Err(CallError::Rejected("no such model".to_owned())));
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
