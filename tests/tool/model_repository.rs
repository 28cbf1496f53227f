//! `serve --model-repository`: the models that `scripts/with-triton --write-models` writes for the real server.

use crate::support::request;
use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::Command,
    time::Duration,
};

use crate::support::tool::{Serve, tool};
use tonic::{Code, transport::Channel};
use wire::proto::{
    ModelConfigRequest, ModelInferRequest, ModelParameter, RepositoryIndexRequest, RepositoryModelLoadRequest,
    grpc_inference_service_client::GrpcInferenceServiceClient,
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const LIMIT: Duration = Duration::from_secs(60);

/// The models for the real server.
fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(format!("{ROOT}/scripts/with-triton"));
    command.env("SEQUENCE_STRESS_TOOL", env!("CARGO_BIN_EXE_sequence-stress"));
    let output = command.args(["--execute-delay-ms", "0", "--write-models"]).arg(folder.path()).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("it takes too long") })
}

async fn connect(serve: &Serve) -> GrpcInferenceServiceClient<Channel> {
    GrpcInferenceServiceClient::connect(format!("http://{}", serve.address)).await.expect("the server is there")
}

/// A step with the elements of small numbers, in the model's own type.
fn step(model: &str, datatype: &str, batches: bool, value: u16, start: bool, end: bool) -> ModelInferRequest {
    let mut step = request::step(model, 7, &[value.into()], start, end);
    datatype.clone_into(&mut step.inputs[0].datatype);
    step.inputs[0].shape = if batches { vec![1, 1] } else { vec![1] };
    step.raw_input_contents = vec![bytes(datatype, value)];
    step
}

fn bytes(datatype: &str, value: u16) -> Vec<u8> {
    match datatype {
        "INT8" | "UINT8" => vec![u8::try_from(value).expect("small")],
        "INT16" | "UINT16" => value.to_le_bytes().to_vec(),
        // Its fraction has ten bits, and these numbers are below 32.
        "FP16" => {
            let power = value.ilog2();
            let bits = (power + 15) << 10 | (u32::from(value) - (1 << power)) << (10 - power);
            u16::try_from(bits).expect("five bits and ten").to_le_bytes().to_vec()
        }
        "INT32" | "UINT32" => u32::from(value).to_le_bytes().to_vec(),
        "INT64" | "UINT64" => u64::from(value).to_le_bytes().to_vec(),
        "FP32" => f32::from(value).to_le_bytes().to_vec(),
        "FP64" => f64::from(value).to_le_bytes().to_vec(),
        "BYTES" => {
            let text = value.to_string();
            [&u32::try_from(text.len()).expect("few").to_le_bytes()[..], text.as_bytes()].concat()
        }
        other => panic!("{other}"),
    }
}

/// What sequence 7 of 5, 6 and 7 is answered by a model that says this of itself.
fn sums(parameters: &HashMap<String, ModelParameter>) -> [u16; 3] {
    let said = |key: &str| parameters.get(key).map(|parameter| parameter.string_value.as_str());
    let initial: u16 = said("sequence_stress_initial_state").map_or(0, |number| number.parse().expect("a number"));
    match said("sequence_stress_formula").expect("a formula") {
        "running-sum" => [initial + 5, initial + 11, initial + 18],
        "running-sum-plus-corrid-at-end" => [5, 11, 25],
        "ready-times-input-plus-start" => [6, 6, 7],
        "ready-times-input-plus-start-plus-corrid-at-end" => [6, 6, 14],
        // An ensemble whose second step adds up the sums of the first.
        "none" => [5, 16, 34],
        other => panic!("{other}"),
    }
}

#[test]
fn one_repository_is_for_the_real_server_and_this_one() {
    let folder = written();
    let path = folder.path().to_str().expect("UTF-8");
    let serve = Serve::start(&["--model-repository", path]);
    run(async {
        let mut client = connect(&serve).await;
        let index = client.repository_index(RepositoryIndexRequest::default()).await.expect("an index").into_inner();
        let names: Vec<_> = index.models.iter().map(|model| model.name.as_str()).collect();
        let mut folders: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        folders.sort_by_key(|entry| entry.as_ref().expect("an entry").file_name());
        assert_eq!(names.len(), folders.len());
        assert!(names.len() > 15 && index.models.iter().all(|model| model.state == "READY"), "{index:?}");
        for name in names {
            let request = ModelConfigRequest { name: name.to_owned(), ..Default::default() };
            let config = client.model_config(request).await.expect("a configuration").into_inner();
            let config = config.config.expect("a configuration");
            let (batches, policy) = (config.max_batch_size > 0, config.model_transaction_policy);
            if policy.is_some_and(|policy| policy.decoupled) {
                continue;
            }
            let datatype = config.input[0].data_type().as_str_name().trim_start_matches("TYPE_");
            let datatype = if datatype == "STRING" { "BYTES" } else { datatype };
            let steps = [(5, true, false), (6, false, false), (7, false, true)];
            for ((value, start, end), sum) in steps.into_iter().zip(sums(&config.parameters)) {
                let answer = client.model_infer(step(name, datatype, batches, value, start, end)).await;
                let answer = answer.unwrap_or_else(|status| panic!("{name}: {status}")).into_inner();
                assert_eq!(answer.raw_output_contents, [bytes(datatype, sum)], "{name}");
            }
        }
    });
}

#[test]
fn models_that_echo_what_they_saw_are_served() {
    let folder = written();
    let serve = Serve::start(&["--model-repository", folder.path().to_str().expect("UTF-8")]);
    run(async {
        let mut client = connect(&serve).await;
        for model in ["echo_sequence_int32", "echo_dyna_sequence_int32"] {
            for (start, end) in [(true, false), (false, false), (false, true)] {
                let all = ModelInferRequest {
                    outputs: Vec::new(),
                    ..request::step(model, 0x1234_5678_9abc, &[1], start, end)
                };
                let answer = client.model_infer(all).await.expect("an answer").into_inner();
                let of = |name: &str| {
                    let index = answer.outputs.iter().position(|output| output.name == name).expect("an output");
                    assert_eq!(answer.outputs[index].shape, [1, 1]);
                    answer.raw_output_contents[index].clone()
                };
                let flags = ["SAW_START", "SAW_END", "SAW_READY"].map(of);
                assert_eq!(flags, [start, end, true].map(|flag| i32::from(flag).to_le_bytes().to_vec()), "{model}");
                assert_eq!(of("SAW_CORRID"), 0x1234_5678_9abc_u64.to_le_bytes(), "{model}");
                assert_eq!([of("SLOT"), of("INSTANCE")], [[0; 4], [0; 4]], "{model}");
            }
        }
    });
}

#[test]
fn models_are_loaded_when_a_client_asks_for_them() {
    let folder = written();
    let serve = Serve::start(&["--explicit", "--model-repository", folder.path().to_str().expect("UTF-8")]);
    run(async {
        let mut client = connect(&serve).await;
        let model = "custom_sequence_int32";
        let first = request::step(model, 7, &[5], true, false);
        let status = client.model_infer(first.clone()).await.expect_err("it is not loaded");
        assert_eq!(status.code(), Code::NotFound);
        let load = |name: &str| RepositoryModelLoadRequest { model_name: name.to_owned(), ..Default::default() };
        client.repository_model_load(load(model)).await.expect("it is loaded");
        assert_eq!(client.model_infer(first).await.expect("an answer").get_ref().raw_output_contents, [[5, 0, 0, 0]]);
        assert!(client.repository_model_load(load("oldest_sequence_int64")).await.is_err(), "it is built in");
    });
}

fn append(path: &Path, text: &str) -> usize {
    let before = fs::read_to_string(path).expect("it is there");
    fs::write(path, format!("{before}{text}")).expect("it can be written");
    before.lines().count() + 1
}

#[test]
fn a_repository_that_is_wrong_is_not_served_and_what_is_not_known_is_said() {
    let folder = written();
    let config = folder.path().join("oldest_sequence_int32/config.pbtxt");
    let line = append(&config, "flavour { sweet: true }\n");
    let mut command = tool();
    command.args(["serve", "--grpc-port", "0", "--http-port", "0", "--metrics-port", "0", "--model-repository"]);
    command.arg(folder.path());
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("it runs");
    let mut said = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut said).expect("a line");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let served = "model oldest_sequence_int32: running-sum of INT32, Oldest";
    assert!(lines.map(|line| line.expect("UTF-8")).any(|line| line == served));
    child.kill().and_then(|()| child.wait()).expect("it ends");
    let place = format!("{}:{line}: 'flavour' is not known to this server, ignored", config.display());
    assert!(said.contains(&place), "{said}");

    let line = append(&config, "max_batch_size: many\n");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len(), said.lines().count()), (Some(2), 0, 1), "{said}");
    assert!(said.contains(&format!("{}:{line}: ", config.display())), "{said}");
}

#[test]
fn a_model_with_two_outputs_of_one_name_is_not_served() {
    let folder = written();
    append(
        &folder.path().join("oldest_sequence_int32/config.pbtxt"),
        "output { name: \"OUTPUT\" data_type: TYPE_INT32 dims: [ 1 ] }\n",
    );
    let mut command = tool();
    command.args(["serve", "--grpc-port", "0", "--http-port", "0", "--metrics-port", "0", "--model-repository"]);
    let output = command.arg(folder.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("there are two outputs 'OUTPUT'"), "{said}");
}
