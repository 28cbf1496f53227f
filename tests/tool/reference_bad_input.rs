//! The reference server under traffic that is not what a client should send: it says so, and goes on serving others.

use crate::support::request;
use std::{net::SocketAddr, time::Duration};

use prost::{Message as _, bytes::Buf as _};
use reference::{ModelOptions, Options, Server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};
use wire::proto::{
    InferParameter, ModelInferRequest, ModelStreamInferResponse,
    grpc_inference_service_client::GrpcInferenceServiceClient, infer_parameter::ParameterChoice,
};

const LIMIT: Duration = Duration::from_secs(120);
const MODEL: &str = "custom_sequence_int32";
const STREAM: PathAndQuery = PathAndQuery::from_static("/inference.GRPCInferenceService/ModelStreamInfer");
const UNARY: PathAndQuery = PathAndQuery::from_static("/inference.GRPCInferenceService/ModelInfer");
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A server with a slot for every sequence that a test leaves behind, which none of them loses however slow the machine is.
fn server() -> Server {
    let models = ModelOptions {
        max_batch_size: 1024,
        idle_limit: Duration::from_secs(3600),
        execution: Duration::ZERO,
        ..ModelOptions::default()
    };
    Server::start(Options { models, ..Options::default() }).expect("it starts")
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("{what} takes over {LIMIT:?}"))
}

fn step(id: i64, value: i32, start: bool, end: bool) -> ModelInferRequest {
    ModelInferRequest { id: value.to_string(), ..request::step(MODEL, id, &[value], start, end) }
}

fn sequence(id: i64) -> [ModelInferRequest; 3] {
    [step(id, 1, true, false), step(id, 2, false, false), step(id, 3, false, true)]
}

async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
    within("connecting", endpoint.connect()).await.expect("it connects")
}

fn sums(answers: &[ModelStreamInferResponse]) -> Vec<i32> {
    let sum = |answer: &ModelStreamInferResponse| {
        assert_eq!(answer.error_message, "");
        let response = answer.infer_response.as_ref().expect("a response");
        i32::from_le_bytes(response.raw_output_contents[0][..].try_into().expect("four bytes"))
    };
    answers.iter().map(sum).collect()
}

/// A whole sequence by each of the two ways is served rightly on a new connection.
async fn assert_serves(server: &Server) {
    assert!(!server.is_gone(), "the server is gone");
    let mut client = GrpcInferenceServiceClient::new(connect(server.address).await);
    let whole = async {
        let requests = tokio_stream::iter(sequence(1_000_001));
        let mut stream = client.model_stream_infer(requests).await.expect("a stream").into_inner();
        let mut answers = Vec::new();
        while let Some(answer) = stream.message().await.expect("it stays open") {
            answers.push(answer);
        }
        assert_eq!(sums(&answers), [1, 3, 6]);
        for (request, sum) in sequence(1_000_002).into_iter().zip([1_i32, 3, 6]) {
            let response = client.model_infer(request).await.expect("an answer").into_inner();
            assert_eq!(response.raw_output_contents, [sum.to_le_bytes()]);
        }
    };
    within("a sequence", whole).await;
}

/// Sends bytes, and reads until the server closes the connection or says nothing for a while.
async fn converse(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = within("connecting", TcpStream::connect(address)).await.expect("it connects");
    // The server may have closed before everything was sent.
    let _ = within("sending", stream.write_all(bytes)).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    let end = Instant::now() + Duration::from_millis(500);
    while let Ok(Ok(read @ 1..)) = tokio::time::timeout_at(end, stream.read(&mut buffer)).await {
        answer.extend_from_slice(&buffer[..read]);
    }
    answer
}

/// Bytes without any order, the same each time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_http2_are_closed() {
    let server = server();
    let frame_too_large = [PREFACE, SETTINGS, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat();
    let preface_and_noise = [PREFACE, SETTINGS, &noise(100_000)].concat();
    let headers_that_are_none = [PREFACE, SETTINGS, &[0, 0, 4, 1, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]].concat();
    let half_a_frame = [PREFACE, SETTINGS, &[0, 1, 0, 0, 0]].concat();
    let http1 = b"POST /v2/models/custom_sequence_int32/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    for bytes in [
        &noise(100_000)[..],
        &[0; 64],
        http1,
        b"\n",
        &PREFACE[..7],
        &frame_too_large,
        &preface_and_noise,
        &headers_that_are_none,
        &half_a_frame,
    ] {
        converse(server.address, bytes).await;
        assert_serves(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_more_do_not_keep_others_out() {
    let server = server();
    let mut open = Vec::new();
    for index in 0..200_usize {
        let mut stream = within("connecting", TcpStream::connect(server.address)).await.expect("it connects");
        let begin = [PREFACE, SETTINGS].concat();
        let some = &begin[..(index * 7) % (begin.len() + 1)];
        within("sending", stream.write_all(some)).await.expect("it is sent");
        if index % 3 == 0 {
            within("closing", stream.shutdown()).await.expect("it is closed in one direction");
        }
        open.push(stream);
    }
    assert_serves(&server).await;
    drop(open);
    assert_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_come_and_go() {
    let server = server();
    for index in 0..1000 {
        let mut stream = within("connecting", TcpStream::connect(server.address)).await.expect("it connects");
        if index % 2 == 0 {
            within("sending", stream.write_all(PREFACE)).await.expect("it is sent");
        }
    }
    assert_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_streams_are_opened_and_reset() {
    let server = server();
    let channel = connect(server.address).await;
    for id in 1..=1000 {
        let mut client = GrpcInferenceServiceClient::new(channel.clone());
        let requests = tokio_stream::iter((id % 2 == 0).then(|| step(id, 1, true, false)));
        let never_ends = tokio_stream::StreamExt::chain(requests, tokio_stream::pending());
        let call = tokio::spawn(async move { client.model_stream_infer(never_ends).await.map(drop) });
        tokio::task::yield_now().await;
        call.abort();
        within("aborting", call).await.map_or_else(
            |error| assert!(error.is_cancelled(), "{error}"),
            |opened| opened.expect("a stream that was answered before it was reset"),
        );
    }
    assert_serves(&server).await;
    // The connection has not suffered.
    let mut client = GrpcInferenceServiceClient::new(channel);
    let answer = within("an answer", client.model_infer(step(2_000, 5, true, true))).await.expect("an answer");
    assert_eq!(answer.into_inner().raw_output_contents, [5_i32.to_le_bytes()]);
}

/// Messages as bytes, right or not.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).into()))
    }
}

async fn raw_unary(channel: &Channel, message: Vec<u8>) -> Result<Vec<u8>, Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("it is ready");
    grpc.unary(Request::new(message), UNARY, Raw).await.map(tonic::Response::into_inner)
}

async fn raw_stream(channel: &Channel, messages: Vec<Vec<u8>>) -> Result<Streaming<Vec<u8>>, Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("it is ready");
    let messages = tokio_stream::StreamExt::chain(tokio_stream::iter(messages), tokio_stream::pending());
    grpc.streaming(Request::new(messages), STREAM, Raw).await.map(tonic::Response::into_inner)
}

/// Bytes that are no message: a tag without what it announces, a type of wire that there is not, a text that is none, and
/// a length beyond the end.
const NO_MESSAGES: [&[u8]; 4] = [&[0x0a], &[0x0f, 1, 2], &[0x0a, 2, 0xff, 0xfe], &[0x0a, 0x7f, b'x']];

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_what_is_no_message_is_told_so() {
    let server = server();
    let channel = connect(server.address).await;
    for bytes in NO_MESSAGES {
        let status = within("an answer", raw_unary(&channel, bytes.into())).await.expect_err("it is rejected");
        assert_eq!((status.code(), status.message()), (Code::Internal, "Unable to parse request"), "{bytes:?}");
        assert_serves(&server).await;
    }
    within("an answer", raw_unary(&channel, step(1, 1, true, true).encode_to_vec())).await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_in_good_order_behind_what_is_no_message() {
    let server = server();
    let channel = connect(server.address).await;
    for (index, bytes) in (0..).zip(NO_MESSAGES) {
        let [first, second, third] = sequence(10 + index).map(|step| step.encode_to_vec());
        let messages = vec![first, second, bytes.to_vec(), third];
        let all = async {
            let mut stream = raw_stream(&channel, messages).await.expect("a stream");
            let mut answers = Vec::new();
            while let Some(answer) = stream.message().await.expect("it ends in good order") {
                answers.push(ModelStreamInferResponse::decode(answer.as_slice()).expect("a response"));
            }
            answers
        };
        // What came before is answered, and what came behind is lost.
        assert_eq!(sums(&within("a stream", all).await), [1, 3], "{bytes:?}");
        assert_serves(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_has_nothing_but_what_is_no_message_ends_in_good_order() {
    let server = server();
    let channel = connect(server.address).await;
    let all = async {
        match raw_stream(&channel, vec![vec![0x0a]]).await {
            Ok(mut stream) => stream.message().await,
            Err(status) => Err(status),
        }
    };
    assert_eq!(within("a stream", all).await.expect("it ends in good order"), None);
    assert_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_100_mib_is_taken() {
    let server = server();
    let mut client = GrpcInferenceServiceClient::new(connect(server.address).await);
    let mut request = step(1, 4, true, true);
    let large = ParameterChoice::StringParam("x".repeat(100 << 20));
    request.parameters.insert("comment".to_owned(), InferParameter { parameter_choice: Some(large) });
    let answer = within("an answer", client.model_infer(request)).await.expect("an answer").into_inner();
    assert_eq!(answer.raw_output_contents, [4_i32.to_le_bytes()]);
    assert_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_announced_and_does_not_come_keeps_nobody_up() {
    let server = server();
    let mut stream = within("connecting", TcpStream::connect(server.address)).await.expect("it connects");
    // A request head in HPACK's plain form, and DATA that announces a message of 2 GiB and has 5 bytes.
    let mut head = vec![0x83, 0x86, 0x04, 42];
    head.extend(UNARY.as_str().bytes());
    head.extend([0x41, 1, b'a', 0x0f, 0x10, 16]);
    head.extend(b"application/grpc");
    assert_eq!(usize::from(head[3]), UNARY.as_str().len());
    let length = u8::try_from(head.len()).expect("it is short");
    let data = [0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 0x7f, 0xff, 0xff, 0xff];
    let all = [PREFACE, SETTINGS, &[0, 0, length, 1, 4, 0, 0, 0, 1], &head, &data].concat();
    within("sending", stream.write_all(&all)).await.expect("it is sent");
    assert_serves(&server).await;
    let mut buffer = [0; 64];
    let read = timeout(Duration::from_millis(200), stream.read(&mut buffer)).await;
    assert!(read.is_err() || read.is_ok_and(|read| read.is_ok_and(|read| read > 0)), "the connection is still open");
    drop(stream);
    assert_serves(&server).await;
}
