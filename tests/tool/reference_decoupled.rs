//! The reference server's models that answer a request several times, or not at all. What they say was taken from tritonserver
//! 2.51.0, with native models and with models of the Python backend.

use crate::support::request;
use std::time::Duration;

use reference::{Fault, ModelOptions, Options, Planted, Server};
use serde_json::json;
use tokio_stream::StreamExt as _;
use tonic::{Code, transport::Channel};
use wire::proto::{
    InferParameter, ModelInferRequest, ModelRepositoryParameter, ModelStatisticsRequest, ModelStreamInferResponse,
    RepositoryModelLoadRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
    infer_parameter::ParameterChoice::BoolParam, model_repository_parameter::ParameterChoice,
};

const LIMIT: Duration = Duration::from_secs(60);
const FAMILIES: [&str; 2] = ["decoupled_sequence_int32", "decoupled_oldest_sequence_int32"];

fn server(faults: &[Fault]) -> Server {
    let models = ModelOptions { execution: Duration::ZERO, ..ModelOptions::default() };
    let faults = faults.iter().map(|fault| Planted::always(*fault)).collect();
    Server::start(Options { models, faults, ..Options::default() }).expect("a free port")
}

async fn connect(server: &Server) -> GrpcInferenceServiceClient<Channel> {
    GrpcInferenceServiceClient::connect(format!("http://{}", server.address)).await.expect("the server is there")
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("it takes too long") })
}

/// What an answer says: its request's name, its sums or its error, and whether it says that it is the last, or not.
type Said = (String, Result<Vec<i32>, String>, Option<bool>);

fn said(answer: ModelStreamInferResponse) -> Said {
    let response = answer.infer_response.expect("a response");
    let mark = response.parameters.get("triton_final_response").and_then(|mark| mark.parameter_choice.clone());
    let is_last = mark.map(|mark| mark == BoolParam(true));
    let sums = response.raw_output_contents.iter().flat_map(|bytes| bytes.as_chunks().0.to_vec());
    let sums = sums.map(i32::from_le_bytes).collect();
    (response.id, if answer.error_message.is_empty() { Ok(sums) } else { Err(answer.error_message) }, is_last)
}

/// A named step.
fn step(model: &str, name: &str, value: i32, start: bool, end: bool) -> ModelInferRequest {
    ModelInferRequest { id: name.to_owned(), ..request::step(model, 7, &[value], start, end) }
}

async fn stream(client: &mut GrpcInferenceServiceClient<Channel>, requests: Vec<ModelInferRequest>) -> Vec<Said> {
    let answers = client.model_stream_infer(tokio_stream::iter(requests)).await.expect("a stream");
    answers.into_inner().map(|answer| said(answer.expect("an answer"))).collect().await
}

fn sum(name: &str, sum: i32, is_last: bool) -> Said {
    (name.to_owned(), Ok(vec![sum]), Some(is_last))
}

async fn load(client: &mut GrpcInferenceServiceClient<Channel>, model: &str, responses: &str) -> Result<(), String> {
    let tensor = |name| json!({ "name": name, "data_type": "TYPE_INT32", "dims": [-1] });
    let config = json!({
        "max_batch_size": 4,
        "input": [tensor("INPUT")],
        "output": [tensor("OUTPUT")],
        "sequence_batching": { "control_input": [{
            "name": "START", "control": [{ "kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1] }]
        }] },
        "parameters": { "sequence_stress_responses": { "string_value": responses } },
        "model_transaction_policy": { "decoupled": true },
    });
    let choice = ParameterChoice::StringParam(config.to_string());
    let parameters = [("config".to_owned(), ModelRepositoryParameter { parameter_choice: Some(choice) })].into();
    let request = RepositoryModelLoadRequest { model_name: model.to_owned(), parameters, ..Default::default() };
    client.repository_model_load(request).await.map(drop).map_err(|status| status.message().to_owned())
}

#[test]
fn a_decoupled_model_answers_each_request_so_often_as_it_is_told() {
    let server = server(&[]);
    run(async {
        let mut client = connect(&server).await;
        for model in FAMILIES {
            let steps = [("a", 5, true, false), ("b", 6, false, false), ("c", 7, false, true)];
            let steps = steps.map(|(name, value, start, end)| step(model, name, value, start, end));
            let told = stream(&mut client, steps.into()).await;
            let each = |(name, first): (&'static str, i32)| [0, 1, 2].map(|more| sum(name, first + more, more == 2));
            let expected: Vec<_> = [("a", 5), ("b", 11), ("c", 18)].into_iter().flat_map(each).collect();
            assert_eq!(told, expected, "{model}");
            let rejected = stream(&mut client, vec![step(model, "n", 1, false, false)]).await;
            assert!(rejected[0].1.as_ref().is_err_and(|text| text.contains("must specify the START flag")));
            assert_eq!((rejected.len(), rejected[0].2), (1, None));
            let unary = client.model_infer(step(model, "u", 1, true, true)).await.expect_err("it is rejected");
            let text = "ModelInfer RPC doesn't support models with decoupled transaction policy";
            assert_eq!((unary.code(), unary.message()), (Code::Unimplemented, text));
            let request = ModelStatisticsRequest { name: model.to_owned(), ..Default::default() };
            let statistics = client.model_statistics(request).await.expect("counts").into_inner().model_stats;
            assert_eq!((statistics[0].inference_count, statistics[0].execution_count), (3, 3), "{model}");
        }
    });
}

#[test]
fn a_request_without_answers_ends_with_an_empty_one_where_that_is_wanted() {
    let server = server(&[]);
    run(async {
        let mut client = connect(&server).await;
        let model = FAMILIES[0];
        load(&mut client, model, "0").await.expect("it is served");
        let silent = step(model, "a", 5, true, false);
        let mut wanted = step(model, "b", 6, false, false);
        let parameter = InferParameter { parameter_choice: Some(BoolParam(true)) };
        wanted.parameters.insert("triton_enable_empty_final_response".to_owned(), parameter);
        let answers = client.model_stream_infer(tokio_stream::iter([silent, wanted])).await.expect("a stream");
        let answers: Vec<_> = answers.into_inner().map(|answer| answer.expect("an answer")).collect().await;
        let [only] = answers.as_slice() else { panic!("{answers:?}") };
        let response = only.infer_response.as_ref().expect("a response");
        assert_eq!((&*response.model_name, &*response.model_version, response.outputs.len()), (model, "", 0));
        assert_eq!(said(only.clone()), ("b".to_owned(), Ok(Vec::new()), Some(true)));
        // Both were executed.
        load(&mut client, model, "x").await.expect_err("it is no number");
        let problem = load(&mut client, "custom_sequence_int32", "1001").await.expect_err("it is too large");
        assert!(problem.contains("'1001' is no number from 0 to 1000"), "{problem}");
    });
}

#[test]
fn an_iterative_model_executes_a_request_again_and_again() {
    let server = server(&[]);
    run(async {
        let mut client = connect(&server).await;
        let model = "iterative_sequence_int32";
        for _ in 0..2 {
            let told = stream(&mut client, vec![step(model, "a", 5, true, false)]).await;
            assert_eq!(told, [sum("a", 5, false), sum("a", 10, false), sum("a", 15, true)]);
        }
        let rejected = stream(&mut client, vec![step(model, "n", 1, false, false)]).await;
        assert!(rejected[0].1.as_ref().is_err_and(|text| text.contains("must specify the START flag")), "{rejected:?}");
        let request = ModelStatisticsRequest { name: model.to_owned(), ..Default::default() };
        let statistics = client.model_statistics(request).await.expect("counts").into_inner().model_stats;
        assert_eq!((statistics[0].inference_count, statistics[0].execution_count), (2, 6));
        let fail = statistics[0].inference_stats.as_ref().and_then(|all| all.fail).expect("a count");
        assert_eq!(fail.count, 2, "the server's own ends");
    });
}

#[test]
fn faults_of_several_answers_are_committed() {
    for (fault, expected) in [
        (Fault::LoseOwnResponse, vec![sum("a", 6, false), sum("a", 7, true)]),
        (Fault::SwapOwnResponses, vec![sum("a", 7, false), sum("a", 6, false), sum("a", 5, true)]),
        (Fault::LoseFinalMark, vec![sum("a", 5, false), sum("a", 6, false), ("a".to_owned(), Ok(vec![7]), None)]),
        (Fault::SurplusResponse, vec![sum("a", 5, false), sum("a", 5, false), sum("a", 6, false), sum("a", 7, true)]),
    ] {
        let server = server(&[fault]);
        run(async {
            let mut client = connect(&server).await;
            assert_eq!(stream(&mut client, vec![step(FAMILIES[0], "a", 5, true, true)]).await, expected, "{fault}");
            let once = stream(&mut client, vec![step("custom_sequence_int32", "a", 5, true, true)]).await;
            assert_eq!(once, [sum("a", 5, true)], "{fault}: there is one answer only");
        });
    }
}
