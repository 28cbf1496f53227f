//! Faults of the reference server that the tool's own scenario does not show, each against what a correct one does.

use crate::support::request;
use std::time::Duration;

use reference::{Fault, ModelOptions, Options, Planted, Server};
use tokio_stream::StreamExt as _;
use tonic::{Code, Status, transport::Channel};
use wire::proto::{ModelInferRequest, ModelInferResponse, grpc_inference_service_client::GrpcInferenceServiceClient};

const LIMIT: Duration = Duration::from_secs(20);

fn server(faults: &[Fault]) -> Server {
    let models =
        ModelOptions { execution: Duration::ZERO, max_batch_size: 4, candidates: 4, ..ModelOptions::default() };
    let faults = faults.iter().map(|fault| Planted::always(*fault)).collect();
    Server::start(Options { models, faults, ..Options::default() }).expect("a free port")
}

/// A step of a sequence: its flags are `S` for START and `E` for END.
fn step(model: &str, id: i64, flags: &str, value: i32) -> ModelInferRequest {
    request::step(model, id, &[value], flags.contains('S'), flags.contains('E'))
}

fn sum(response: &ModelInferResponse) -> Option<i32> {
    let bytes = response.raw_output_contents.first()?;
    Some(i32::from_le_bytes(bytes.as_slice().try_into().expect("four bytes")))
}

struct Client(GrpcInferenceServiceClient<Channel>);

impl Client {
    async fn new(server: &Server) -> Self {
        let connected = GrpcInferenceServiceClient::connect(format!("http://{}", server.address)).await;
        Self(connected.expect("the server accepts connections"))
    }

    async fn call(&mut self, request: ModelInferRequest) -> Result<Option<i32>, Status> {
        self.0.model_infer(request).await.map(|response| sum(response.get_ref()))
    }

    /// Sends a stream's requests, half-closes, and takes what comes.
    async fn stream(&mut self, requests: Vec<ModelInferRequest>) -> Vec<Option<i32>> {
        let answers = self.0.model_stream_infer(tokio_stream::iter(requests)).await.expect("a stream");
        let mut answers = answers.into_inner();
        let mut sums = Vec::new();
        while let Some(answer) = answers.next().await {
            sums.push(answer.expect("an answer").infer_response.as_ref().and_then(sum));
        }
        sums
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("it takes too long") })
}

#[test]
fn end_missing_leaves_the_models_sum_behind() {
    // The model drops a sum at END; without START the next one would go on from what is left.
    let both = |faults: &[Fault]| {
        let server = server(faults);
        run(async {
            let mut client = Client::new(&server).await;
            let model = "oldest_sequence_int32";
            client.call(step(model, 7, "SE", 5)).await.expect("an answer");
            client.call(step(model, 7, "", 1)).await.expect("it is taken")
        })
    };
    assert_eq!(both(&[Fault::AcceptNoStart]), Some(1));
    assert_eq!(both(&[Fault::AcceptNoStart, Fault::EndMissing]), Some(6));
}

#[test]
fn ready_spurious_adds_to_a_sequence_that_is_not_in_the_batch() {
    for model in ["custom_sequence_int32", "implicit_sequence_int32", "implicit_initial_sequence_int32"] {
        let sums = |faults: &[Fault]| {
            let server = server(faults);
            run(async {
                let mut client = Client::new(&server).await;
                client.call(step(model, 1, "S", 10)).await.expect("an answer");
                // In the next slot, with the first one as padding.
                client.call(step(model, 2, "S", 100)).await.expect("an answer");
                client.call(step(model, 1, "E", 1)).await.expect("an answer")
            })
        };
        assert_eq!(sums(&[]), Some(11), "{model}");
        assert_eq!(sums(&[Fault::ReadySpurious]), Some(111), "{model}");
    }
}

#[test]
fn wrong_error_code_shows_where_codes_are_told() {
    for (faults, code) in [(&[][..], Code::InvalidArgument), (&[Fault::WrongErrorCode], Code::Internal)] {
        let server = server(faults);
        let error = run(async {
            let mut client = Client::new(&server).await;
            client.call(step("custom_sequence_int32", 1, "", 1)).await.expect_err("it has no START")
        });
        assert_eq!(error.code(), code);
        assert!(error.message().contains("must specify the START flag"), "{error}");
    }
}

#[test]
fn final_answers_are_lost() {
    let steps = |range: std::ops::Range<i32>| {
        range
            .map(|value| step("custom_sequence_int32", 1, if value == 0 { "S" } else { "" }, value))
            .collect::<Vec<_>>()
    };
    let answered = |faults: &[Fault]| {
        let mut options =
            Options { faults: faults.iter().map(|fault| Planted::always(*fault)).collect(), ..Options::default() };
        options.models.execution = Duration::from_millis(20);
        let server = Server::start(options).expect("a free port");
        run(async { Client::new(&server).await.stream(steps(0..5)).await.len() })
    };
    assert_eq!(answered(&[]), 5);
    assert!(answered(&[Fault::LoseFinalResponses]) < 5);
}

#[test]
fn goaway_lets_what_is_under_way_finish_and_new_connections_in() {
    let server = server(&[Fault::GoAway]);
    // Connections come while others are told to go.
    run(futures_util::future::join_all((0..4).map(async |client| {
        for id in 1..9 {
            let steps = [("S", 1), ("", 2), ("E", 3)];
            let steps = steps.map(|(flags, value)| step("oldest_sequence_int32", 10 * client + id, flags, value));
            let sums = Client::new(&server).await.stream(steps.into()).await;
            assert_eq!(sums, [Some(1), Some(3), Some(6)]);
        }
    })));
    assert!(server.committed(Fault::GoAway) > 0);
}
