//! Recording what clients send: the traffic is as it is without the proxy, and the file has what was sent and nothing else.

use std::{
    convert::Infallible,
    error::Error as _,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write},
    net::SocketAddr,
    process::{Child, ChildStdout, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming},
    client::conn::http2::SendRequest,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use crate::support::{
    http,
    request::step,
    runs::{run_alone, runtime, scenario_at, server_with},
    tls::{Authority, TlsFront},
    tool::{text, tool, words},
};
use reference::Server;
use sequence_stress::run::Setup;
use wire::{
    net::Socket,
    proto::{InferParameter, ModelInferRequest, infer_parameter::ParameterChoice},
    proxy::{Copy, Path, serve},
    recording::{MEMORY_MAX, Recorder, Summary},
};
use workload::{
    inputs::{
        Track,
        recording::{Recorded, read},
    },
    scenario::Network,
    seed::Seed,
};

const MODEL: &str = "custom_sequence_int32";
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);
/// What must not be in a recording.
const SECRETS: [&str; 6] = ["hunter2", "tenant", "token", "person@example.com", "987654321987", "secret"];

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("UTF-8")
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A proxy between clients and a server that records.
struct Proxied {
    grpc: SocketAddr,
    http: SocketAddr,
    recorder: Recorder,
    _stop: oneshot::Sender<()>,
}

impl Proxied {
    fn start(to: [SocketAddr; 2], recorder: Recorder) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let taps = Arc::new(recorder.taps());
        std::thread::spawn(move || {
            let runtime = runtime();
            runtime.block_on(async {
                let mut serving = Vec::new();
                for to in to {
                    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                    tell.send(listener.local_addr().expect("an address")).expect("a test that waits");
                    let taps = Arc::clone(&taps);
                    let path = Path::new(Network::default(), None, Seed(1), 0).copied(move || -> Copy {
                        let mut tap = taps();
                        Box::new(move |bytes| tap.came(bytes))
                    });
                    let connect = move || async move { Socket::connect(&to.to_string()).await };
                    serving.push(tokio::spawn(serve(listener, connect, path, std::future::pending())));
                }
                let _ = stopped.await;
            });
            runtime.shutdown_background();
        });
        let address = || told.recv().expect("it starts");
        Self { grpc: address(), http: address(), recorder, _stop: stop }
    }

    fn to(server: &Server, models: &[&str]) -> (Self, Memory) {
        let memory = Memory::default();
        let models = models.iter().map(|&model| model.to_owned()).collect();
        let recorder = Recorder::start(memory.clone(), models, MEMORY_MAX, |_| ()).expect("memory");
        (Self::start([server.address, server.http], recorder), memory)
    }

    fn finish(self) -> Summary {
        self.recorder.finish().expect("it is written")
    }
}

/// A message with what stands before it.
fn framed(is_compressed: bool, message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[u8::from(is_compressed)], &length[..], message].concat().into()
}

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

fn call<B>(at: SocketAddr, method: &str, body: B) -> Request<B> {
    Request::post(format!("http://{at}/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", "gzip")
        .header("authorization", "Bearer hunter2")
        .header("x-tenant", "tenant")
        .body(body)
        .expect("a request")
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

/// The elements of each step.
fn elements(Track { steps, .. }: &Track) -> Vec<i32> {
    let of = |data: &[u8]| i32::from_le_bytes(data.try_into().expect("four bytes"));
    steps.iter().map(|step| of(&step[0].data)).collect()
}

fn tracks(recorded: &Recorded) -> Vec<Vec<i32>> {
    recorded.tracks.iter().map(elements).collect()
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

/// A server of HTTP/2 that answers the first piece of each request, and tells how each ends.
async fn server_that_tells() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let tell = tell.clone();
                async move {
                    let mut body = request.into_body();
                    let first = body.frame().await.expect("a piece").expect("a piece").into_data().expect("data");
                    tokio::spawn(async move {
                        let how = loop {
                            match body.frame().await {
                                None => break "end".to_owned(),
                                // The end may come with nothing.
                                Some(Ok(_)) => {}
                                Some(Err(error)) => {
                                    break error.source().map_or_else(|| error.to_string(), ToString::to_string);
                                }
                            }
                        };
                        let _ = tell.send(how);
                    });
                    // It goes on after that until the client has enough.
                    let pieces = unfold(Some(first), |piece| async move {
                        match piece {
                            Some(piece) => Some((Ok::<_, Infallible>(Frame::data(piece)), None)),
                            None => std::future::pending().await,
                        }
                    });
                    Ok::<_, Infallible>(Response::new(StreamBody::new(pieces)))
                }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (address, told)
}

#[test]
fn streams_are_answered_closed_and_cancelled_through_the_proxy() {
    runtime().block_on(async {
        let (address, mut ends) = server_that_tells().await;
        let recorder = Recorder::start(io::sink(), Vec::new(), MEMORY_MAX, |_| ()).expect("a sink");
        let proxied = Proxied::start([address; 2], recorder);
        let message = framed(false, &step(MODEL, 7, &[1], true, false).encode_to_vec());
        let stream = TcpStream::connect(proxied.grpc).await.expect("a connection");
        let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        for (reset, expected) in [(None, "end"), (Some(h2::Reason::CANCEL), "stream no longer needed")] {
            let mut client = client.clone().ready().await.expect("room");
            let request = call(address, "ModelStreamInfer", ());
            let (answer, mut send) = client.send_request(request, false).expect("a stream");
            send.send_data(message.clone(), false).expect("a message");
            // No headers come before the server has the first message.
            let mut body = answer.await.expect("headers").into_body();
            assert_eq!(body.data().await.expect("a piece").expect("a piece"), message);
            match reset {
                None => send.send_data(Bytes::new(), true).expect("the end"),
                Some(reason) => send.send_reset(reason),
            }
            let told = ends.recv().await.expect("it tells");
            assert!(told.contains(expected), "{told}");
        }
        let summary = proxied.finish();
        assert_eq!((summary.requests, summary.sequences, summary.whole), (2, 2, 0), "{summary:?}");
    });
}

/// A file that takes nothing until it is told to, and then everything.
struct Stuck(mpsc::Receiver<()>, Memory);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.text().contains('\n') {
            // Told so once, it gets an error from then on.
            let _ = self.0.recv();
        }
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn send(at: SocketAddr, element: i32, start: bool, end: bool) {
    let path = format!("/v2/models/{MODEL}/infer");
    let body = json!({
        "parameters": { "sequence_id": 5, "sequence_start": start, "sequence_end": end },
        "inputs": [{ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [element] }],
    });
    let answer = http::ask(at, "POST", &path, &[], body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_slow_disk_does_not_stop_the_traffic_and_what_is_lost_is_counted() {
    const STEPS: i32 = 60;
    let server = server_with(None);
    let (go, wait) = mpsc::channel();
    let memory = Memory::default();
    let slow = Recorder::start(Stuck(wait, memory.clone()), Vec::new(), 8 << 10, |_| ()).expect("memory");
    let proxied = Proxied::start([server.address, server.http], slow);
    for element in 1..=STEPS {
        send(proxied.http, element, element == 1, false);
    }
    drop(go);
    let summary = proxied.finish();
    let lost = summary.left_out.get("the file was written too slowly").copied().expect("some are lost");
    assert!(summary.requests > 5 && lost > 5, "{summary:?}");
    assert_eq!(summary.requests + lost, u64::from(STEPS.unsigned_abs()));
    let recording = read(&memory.text()).expect("a recording");
    assert_eq!(recording.lost, lost);
    // What came before the gap is a track without END.
    let recorded = recording.into_model(None).expect("one model");
    let kept = tracks(&recorded).concat();
    assert_eq!(kept, (1..=STEPS).take(kept.len()).collect::<Vec<_>>());
    assert_eq!(recorded.without_end, 1);
    assert_eq!(kept.len() as u64 + recorded.without_start, summary.requests);
}

/// A file that is full after its first line.
struct FullFile(bool);

impl Write for FullFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 = bytes.contains(&b'\n');
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_once_and_calls_still_pass() {
    let server = server_with(None);
    let (tell, told) = mpsc::channel();
    let failed = move |error: &io::Error| tell.send(error.kind()).expect("a test that waits");
    let recorder = Recorder::start(FullFile(false), Vec::new(), MEMORY_MAX, failed).expect("the first line");
    let proxied = Proxied::start([server.address, server.http], recorder);
    send(proxied.http, 1, true, false);
    assert_eq!(told.recv_timeout(LIMIT), Ok(io::ErrorKind::StorageFull));
    send(proxied.http, 2, false, false);
    send(proxied.http, 3, false, true);
    let (summary, error) = proxied.recorder.finish().expect_err("it is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(summary.left_out.get("the file was written too slowly"), Some(&2), "{summary:?}");
}

/// `sequence-stress proxy --record`, ended when it is dropped.
struct Tool {
    process: Child,
    lines: io::Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl Tool {
    fn start(flags: &[&str]) -> Self {
        let mut process = tool()
            .arg("proxy")
            .args(flags)
            .arg("--while-stdin-is-open")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("UTF-8");
        let address = line.rsplit(' ').next().expect("a word").parse().expect("an address");
        let recording = lines.next().expect("a line").expect("UTF-8");
        assert!(recording.starts_with("recording to "), "{recording}");
        Self { process, lines, address }
    }

    /// Ends it in good order, and returns what it says then.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.process.stdin.take());
        let said: Vec<_> = self.lines.by_ref().map(|line| line.expect("UTF-8")).collect();
        (self.process.wait().expect("it ends").code(), said.join("\n"))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_command_records_and_a_killed_one_leaves_what_can_be_read() {
    let server = server_with(None);
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("traffic.jsonl");
    let to = format!("http://{}", server.http);
    let flags = ["--to", &to, "--record", words(&path), "-m", MODEL];
    let proxy = Tool::start(&flags);
    send(proxy.address, 1, true, false);
    send(proxy.address, 2, false, true);
    let (code, said) = proxy.end();
    assert_eq!(code, Some(0));
    assert!(said.contains("2 requests of 1 sequence: 1 whole, 0 without END or with a gap"), "{said}");
    let recorded = |path: &std::path::Path| read(&fs::read_to_string(path).expect("a file")).expect("a recording");
    assert_eq!(tracks(&recorded(&path).into_model(None).expect("one model")), [[1, 2]]);

    let mut proxy = Tool::start(&flags);
    send(proxy.address, 3, true, false);
    send(proxy.address, 4, false, false);
    let began = Instant::now();
    while fs::read_to_string(&path).expect("a file").lines().count() < 3 {
        assert!(began.elapsed() < LIMIT, "nothing is written before the end");
        std::thread::sleep(LOOK);
    }
    proxy.process.kill().expect("it runs");
    assert_eq!(tracks(&recorded(&path).into_model(None).expect("one model")), [[3, 4]]);
}

#[test]
fn the_command_speaks_tls_to_the_server() {
    let (server, authority) = (server_with(None), Authority::new());
    let front = TlsFront::start(server.http, &authority, "server", false);
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("traffic.jsonl");
    let (to, ca) = (format!("https://{}", front.address), authority.file("ca.pem"));
    let proxy = Tool::start(&["-u", &to, "--ca", &ca, "--record", words(&path)]);
    send(proxy.address, 9, true, true);
    assert_eq!(proxy.end().0, Some(0));
    let recording = read(&fs::read_to_string(&path).expect("a file")).expect("a recording");
    assert_eq!(tracks(&recording.into_model(None).expect("one model")), [[9]]);
}

#[test]
fn what_the_command_cannot_do_is_told_in_a_line() {
    let folder = TempDir::new().expect("a folder");
    let old = folder.path().join("old.jsonl");
    fs::write(&old, "old").expect("a file");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    for (flags, code, said) in [
        (&["--to", "h:1,h:2"][..], 2, "--to names 2 endpoints of gRPC"),
        (&["--to", "h:1", "--http-port", "5"], 2, "--http-port needs endpoints of both"),
        (&["--to", "h:1", "-m", "m"], 2, "--record"),
        (&["--to", "grpcs://h:1", "--ca", "x"], 2, "need --record"),
        (&["--to", "grpcs://h:1", "--ca", "/nowhere", "--record", "/dev/null"], 2, "/nowhere"),
        (&["--to", "h:1", "--record", "/nowhere/at/all"], 2, "cannot write the recording /nowhere/at/all"),
        (&["--to", "h:1", "--port", &port, "--record", words(&old)], 4, "choose another port"),
    ] {
        let output = tool().arg("proxy").args(flags).output().expect("it runs");
        let error = text(&output);
        assert!(output.status.code() == Some(code) && error.contains(said), "{flags:?}: {error}");
        assert_eq!(error.trim().lines().count(), 1, "{error}");
    }
    assert_eq!(fs::read_to_string(&old).expect("a file"), "old", "it is not replaced before the proxy listens");
}
