//! The reference server's models of which no client can tell the outputs, over the wire.

use std::time::Duration;

use reference::{ModelOptions, Options, Server, models_without_formula};
use tokio_stream::StreamExt as _;
use tonic::{Code, transport::Channel};
use wire::proto::{
    InferParameter, ModelConfigRequest, ModelInferRequest, ModelMetadataRequest, ModelStreamInferResponse,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    infer_parameter::ParameterChoice::{BoolParam, Int64Param},
    model_infer_request::InferInputTensor,
};

const LIMIT: Duration = Duration::from_secs(60);

type Client = GrpcInferenceServiceClient<Channel>;

fn run(test: impl AsyncFnOnce(Client)) {
    let models = ModelOptions { execution: Duration::ZERO, ..ModelOptions::default() };
    let server = Server::start(Options { models, ..Options::default() }).expect("a free port");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::connect(format!("http://{}", server.address)).await.expect("the server is there");
        tokio::time::timeout(LIMIT, test(client)).await.expect("it takes too long");
    });
}

/// A tensor of this type, each byte of which is this one.
fn tensor(name: &str, datatype: &str, shape: &[i64], byte: u8) -> (InferInputTensor, Vec<u8>) {
    let elements: i64 = shape.iter().product();
    let size = match datatype {
        "BOOL" | "INT8" | "UINT8" => 1,
        "INT16" | "UINT16" | "FP16" | "BF16" => 2,
        "INT64" | "UINT64" | "FP64" => 8,
        _ => 4,
    };
    let data = match datatype {
        "BYTES" => [1, 0, 0, 0, byte].repeat(usize::try_from(elements).expect("few")),
        _ => vec![byte; usize::try_from(elements * size).expect("few")],
    };
    let (name, datatype, shape) = (name.to_owned(), datatype.to_owned(), shape.to_vec());
    (InferInputTensor { name, datatype, shape, ..Default::default() }, data)
}

/// A step; flags are `S` for START and `E` for END.
fn step(model: &str, flags: &str, tensors: Vec<(InferInputTensor, Vec<u8>)>) -> ModelInferRequest {
    let parameters = [
        ("sequence_id", Int64Param(7)),
        ("sequence_start", BoolParam(flags.contains('S'))),
        ("sequence_end", BoolParam(flags.contains('E'))),
        ("triton_enable_empty_final_response", BoolParam(flags.contains('F'))),
    ];
    let parameter = |(name, choice): (&str, _)| (name.to_owned(), InferParameter { parameter_choice: Some(choice) });
    let (inputs, raw_input_contents) = tensors.into_iter().unzip();
    let parameters = parameters.map(parameter).into();
    ModelInferRequest { model_name: model.to_owned(), parameters, inputs, raw_input_contents, ..Default::default() }
}

/// How many outputs a response has, and whether it says that it is the last one.
fn told(answer: &ModelStreamInferResponse) -> (usize, bool) {
    assert_eq!(answer.error_message, "");
    let response = answer.infer_response.as_ref().expect("a response");
    let mark = response.parameters.get("triton_final_response").and_then(|mark| mark.parameter_choice.clone());
    (response.outputs.len(), mark == Some(BoolParam(true)))
}

#[test]
fn each_step_of_a_decoupled_layer_has_as_many_responses_as_its_input_says_and_a_last_one() {
    run(async |mut client| {
        let model = "gru_decoupled_float32";
        let mut counts = Vec::new();
        for byte in 0..16 {
            let input = || vec![tensor("INPUT", "FP32", &[1, 16], byte)];
            let mut seen = Vec::new();
            for flags in ["SF", "F", "EF"] {
                let request = step(model, flags, input());
                let answers = client.model_stream_infer(tokio_stream::once(request)).await.expect("a stream");
                let answers: Vec<_> =
                    answers.into_inner().map(|answer| told(&answer.expect("an answer"))).collect().await;
                let (last, others) = answers.split_last().expect("a last one");
                assert!(last.1 && others.iter().all(|(outputs, is_last)| *outputs == 1 && !is_last), "{answers:?}");
                seen.push(answers.iter().filter(|(outputs, _)| *outputs == 1).count());
            }
            assert!(seen.iter().all(|count| *count == seen[0]), "{seen:?}");
            counts.push(seen[0]);
        }
        assert!((0..4).all(|count| counts.contains(&count)) && counts.iter().all(|count| *count < 4), "{counts:?}");
    });
}

#[test]
fn tensors_of_every_type_go_in_and_come_out_and_one_may_be_left_out() {
    run(async |mut client| {
        let model = "any_tensors";
        let request = ModelMetadataRequest { name: model.to_owned(), ..Default::default() };
        let metadata = client.model_metadata(request).await.expect("metadata").into_inner();
        let tensors = |byte| -> Vec<_> {
            let shape =
                |shape: &[i64]| shape.iter().map(|size| if *size == -1 { 1 } else { *size }).collect::<Vec<_>>();
            let each = metadata.inputs.iter();
            each.map(|input| tensor(&input.name, &input.datatype, &shape(&input.shape), byte)).collect()
        };
        assert_eq!((metadata.inputs.len(), metadata.outputs.len()), (14, 14));
        let response = client.model_infer(step(model, "S", tensors(1))).await.expect("it is taken").into_inner();
        for (output, (expected, data)) in
            response.outputs.iter().zip(metadata.outputs.iter().zip(&response.raw_output_contents))
        {
            assert_eq!((&output.name, &output.datatype), (&expected.name, &expected.datatype));
            assert!(output.shape == [1, 2] && !data.is_empty(), "{output:?}");
        }
        let without = |name: &str| {
            let mut tensors = tensors(1);
            tensors.retain(|(input, _)| input.name != name);
            tensors
        };
        client.model_infer(step(model, "", without("INPUT_FP64"))).await.expect("it is optional");
        let rejected = client.model_infer(step(model, "", without("INPUT_BF16"))).await.expect_err("it is not");
        assert_eq!(rejected.code(), Code::InvalidArgument);
        let text = "[request id: <id_unknown>] expected number of inputs between 13 and 14 but got 13 inputs for model \
            'any_tensors'.";
        let missing = "but missing required input(s) ['INPUT_BF16']. Please provide all required input(s).";
        let said = rejected.message();
        assert!(said.starts_with(text) && said.ends_with(missing), "{said}");
        // As many as there have to be, one of them under another name: the real server only counts them.
        let mut renamed = without("INPUT_FP64");
        renamed[0].0.name = "NO_SUCH_INPUT".to_owned();
        let rejected = client.model_infer(step(model, "", renamed)).await.expect_err("nobody knows it");
        assert!(rejected.message().contains("unexpected inference input 'NO_SUCH_INPUT'"), "{}", rejected.message());
        let config = client.model_config(ModelConfigRequest { name: model.to_owned(), ..Default::default() }).await;
        let config = config.expect("a configuration").into_inner().config.expect("one");
        let optional: Vec<_> = config.input.iter().filter(|input| input.optional).map(|input| &*input.name).collect();
        assert_eq!(optional, ["INPUT_FP64"]);
    });
}

#[test]
fn a_request_names_the_outputs_that_it_wants_of_each_model() {
    run(async |mut client| {
        for model in models_without_formula().iter().filter(|model| !model.contains("decoupled")) {
            let request = ModelMetadataRequest { name: (*model).to_owned(), ..Default::default() };
            let metadata = client.model_metadata(request).await.expect("metadata").into_inner();
            let inputs = metadata.inputs.iter().map(|input| {
                let shape: Vec<_> = input.shape.iter().map(|size| size.abs()).collect();
                tensor(&input.name, &input.datatype, &shape, 1)
            });
            let mut request = step(model, "SE", inputs.collect());
            let name = metadata.outputs.last().expect("an output").name.clone();
            request.outputs.push(wire::proto::model_infer_request::InferRequestedOutputTensor {
                name: name.clone(),
                ..Default::default()
            });
            let response = client.model_infer(request).await.expect("it is taken").into_inner();
            let names: Vec<_> = response.outputs.iter().map(|output| &*output.name).collect();
            assert_eq!((names, response.raw_output_contents.len()), (vec![&*name], 1), "{model}");
        }
    });
}
