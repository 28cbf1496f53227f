//! The reference server's models: every family with every type of numbers.

use std::time::Duration;

use crate::support::numbers::{TYPES, Type, bytes_of, contents_of};
use reference::{Fault, ModelOptions, Options, Planted, Server, model_names};
use serde_json::{Value, json};
use tonic::{Code, Status, transport::Channel};
use wire::proto::{
    InferParameter, InferTensorContents, ModelInferRequest, ModelRepositoryParameter, RepositoryModelLoadRequest,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    infer_parameter::ParameterChoice::{BoolParam, Int64Param},
    model_infer_request::InferInputTensor,
    model_repository_parameter,
};

const LIMIT: Duration = Duration::from_secs(120);
/// Its low 32 bits are 3.
const ID: i64 = 0x1_0000_0003;

/// A step with this input; flags are `S` for START and `E` for END.
fn step(model: &str, id: i64, flags: &str, datatype: &str, shape: &[i64], raw: Option<Vec<u8>>) -> ModelInferRequest {
    let parameters = [
        ("sequence_id", Int64Param(id)),
        ("sequence_start", BoolParam(flags.contains('S'))),
        ("sequence_end", BoolParam(flags.contains('E'))),
    ];
    let parameter = |(name, choice): (&str, _)| (name.to_owned(), InferParameter { parameter_choice: Some(choice) });
    ModelInferRequest {
        model_name: model.to_owned(),
        parameters: parameters.map(parameter).into(),
        inputs: vec![InferInputTensor {
            name: "INPUT".to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
            ..Default::default()
        }],
        raw_input_contents: raw.into_iter().collect(),
        ..Default::default()
    }
}

struct Client {
    client: GrpcInferenceServiceClient<Channel>,
    /// It ends with the client.
    _server: Server,
}

impl Client {
    async fn new(faults: &[Fault]) -> Self {
        let models = ModelOptions {
            execution: Duration::ZERO,
            idle_limit: Duration::from_secs(3600),
            max_batch_size: 4,
            candidates: 4,
            ..ModelOptions::default()
        };
        let faults = faults.iter().map(|fault| Planted::always(*fault)).collect();
        let server = Server::start(Options { models, faults, ..Options::default() }).expect("a free port");
        let client = GrpcInferenceServiceClient::connect(format!("http://{}", server.address)).await;
        Self { client: client.expect("the server accepts connections"), _server: server }
    }

    /// The elements of the sum, as bytes.
    async fn call(&mut self, request: ModelInferRequest) -> Result<Vec<u8>, Status> {
        let datatype = request.inputs[0].datatype.clone();
        let mut response = self.client.model_infer(request).await?.into_inner();
        assert_eq!((&*response.outputs[0].name, &response.outputs[0].datatype), ("OUTPUT", &datatype));
        Ok(response.raw_output_contents.swap_remove(0))
    }

    /// Three steps with the inputs FIRST, 1 and 5.
    async fn sequence(&mut self, model: &str, of: &Type, is_typed: bool) -> [Vec<u8>; 3] {
        let shape = if model.contains("nobatch") { &[1][..] } else { &[1, 1] };
        let mut sums = [const { Vec::new() }; 3];
        for ((flags, input), sum) in [("S", of.first), ("", "1"), ("E", "5")].into_iter().zip(&mut sums) {
            let raw = (!is_typed).then(|| bytes_of(of.datatype, input));
            let mut request = step(model, ID, flags, of.datatype, shape, raw);
            request.inputs[0].contents = is_typed.then(|| contents_of(of.datatype, input));
            *sum = self.call(request).await.unwrap_or_else(|status| panic!("{model}: {status}"));
        }
        sums
    }

    async fn load(&mut self, model: &str, config: &Value) -> Result<(), Status> {
        let choice = model_repository_parameter::ParameterChoice::StringParam(config.to_string());
        let config = ModelRepositoryParameter { parameter_choice: Some(choice) };
        let request = RepositoryModelLoadRequest {
            model_name: model.to_owned(),
            parameters: [("config".to_owned(), config)].into(),
            ..Default::default()
        };
        self.client.repository_model_load(request).await.map(drop)
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("it takes too long") })
}

#[test]
fn each_family_computes_with_each_type() {
    run(async {
        let mut client = Client::new(&[]).await;
        let mut tried = 0;
        for of in TYPES {
            for model in model_names().filter(|name| name.rsplit('_').next() == Some(of.name)) {
                if ["decoupled", "iterative", "ensemble_two"].iter().any(|other| model.contains(other)) {
                    continue;
                }
                let is_implicit = model.contains("implicit") || model.contains("_state_");
                let expected = match (model.contains("stateless"), model.contains("dyna"), is_implicit) {
                    (true, false, _) => [of.first_and_one, "1", "5"],
                    (true, true, _) => [of.first_and_one, "1", of.five_and_id],
                    (false, true, false) => [of.first, of.second, of.third_and_id],
                    _ => [of.first, of.second, of.third],
                };
                // The protocol has no list for FP16.
                for is_typed in [false, true].into_iter().filter(|is_typed| !is_typed || of.datatype != "FP16") {
                    let sums = client.sequence(model, &of, is_typed).await;
                    assert_eq!(sums, expected.map(|sum| bytes_of(of.datatype, sum)), "{model}");
                }
                tried += 1;
            }
        }
        assert_eq!(tried, 19 * TYPES.len());
    });
}

#[test]
fn wrong_data_is_rejected_as_by_the_real_server_and_the_sequence_goes_on() {
    // What is said was taken from tritonserver 2.51.0.
    let of = |dt: &str| format!("for inference input 'INPUT' for model 'custom_sequence_{dt}'");
    let texts = |texts: &[&str]| texts.iter().flat_map(|text| bytes_of("BYTES", text)).collect::<Vec<_>>();
    let size = |dt: &str, expected, got| {
        format!(
            "[request id: <id_unknown>] input byte size mismatch for input 'INPUT' for model 'custom_sequence_{dt}'. \
             Expected {expected}, got {got}"
        )
    };
    let counted = |rest: String| format!("[request id: <id_unknown>] {rest}");
    let cut = |left| {
        counted(format!(
            "incomplete string length indicator {}, expecting 4 bytes but only {left} bytes available. Please make sure the \
             string length indicator is in one buffer.",
            of("object")
        ))
    };
    let cases = [
        ("int64", "INT64", vec![1, 1], vec![0; 7], size("int64", 8, 7)),
        ("int64", "INT64", vec![1, 2], vec![0; 8], size("int64", 16, 8)),
        ("uint32", "UINT32", vec![1, 1], vec![0; 5], size("uint32", 4, 5)),
        ("float64", "FP64", vec![1, 1], vec![0; 9], size("float64", 8, 9)),
        ("int8", "INT8", vec![1, 1], vec![], size("int8", 1, 0)),
        ("float16", "FP16", vec![1, 1], vec![0; 1], size("float16", 2, 1)),
        (
            "float32",
            "INT32",
            vec![1, 1],
            vec![0; 4],
            counted(
                "inference input 'INPUT' data-type is 'INT32', but model 'custom_sequence_float32' expects 'FP32'"
                    .to_owned(),
            ),
        ),
        (
            "object",
            "BYTES",
            vec![1, 2],
            texts(&["3"]),
            counted(format!("expected 2 string elements {}, got 1", of("object"))),
        ),
        ("object", "BYTES", vec![1, 1], vec![], counted(format!("expected 1 string elements {}, got 0", of("object")))),
        (
            "object",
            "BYTES",
            vec![1, 1],
            texts(&["3", "4"]),
            counted(format!("unexpected number of string elements 2 {}, expecting 1", of("object"))),
        ),
        ("object", "BYTES", vec![1, 1], vec![1, 0], cut(2)),
        ("object", "BYTES", vec![1, 1], [texts(&["3"]), vec![0]].concat(), cut(1)),
        ("object", "BYTES", vec![1, 1], texts(&["abc"]), "tensor 'INPUT': 'abc' is no INT32 in decimal".to_owned()),
        (
            "object",
            "BYTES",
            vec![1, 1],
            texts(&["2147483648"]),
            "tensor 'INPUT': '2147483648' is no INT32 in decimal".to_owned(),
        ),
        (
            "object",
            "BYTES",
            vec![1, 1],
            b"\x05\0\0\0ab".to_vec(),
            "tensor 'INPUT': an element of it is cut off".to_owned(),
        ),
    ];
    run(async {
        let mut client = Client::new(&[]).await;
        for of in TYPES.iter().filter(|of| of.name != "bool") {
            let model = &format!("custom_sequence_{}", of.name);
            let good = |flags, value| step(model, 9, flags, of.datatype, &[1, 1], Some(bytes_of(of.datatype, value)));
            assert!(client.call(good("S", "20")).await.is_ok());
            for (_, datatype, shape, raw, text) in cases.iter().filter(|case| case.0 == of.name) {
                let status = client.call(step(model, 9, "", datatype, shape, Some(raw.clone()))).await.expect_err(text);
                assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text.as_str()));
            }
            let mut other = step(model, 9, "", of.datatype, &[1, 1], None);
            other.inputs[0].contents = Some(InferTensorContents { bool_contents: vec![true], ..Default::default() });
            let status = client.call(other).await.expect_err("BOOL");
            let text = format!(
                "unexpected explicit tensor data for input tensor 'INPUT' for model '{model}' of type 'BOOL', expected \
                 datatype '{}'",
                of.datatype
            );
            assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text.as_str()));
            let sum = client.call(good("E", "22")).await.expect("it goes on");
            assert_eq!(sum, bytes_of(of.datatype, "42"), "{model}");
        }
    });
}

/// As tritonserver 2.51.0 does it.
#[test]
fn small_types_stand_in_the_lists_of_larger_ones_each_element_with_its_low_bits() {
    let ints = |int_contents: &[i32]| InferTensorContents { int_contents: int_contents.into(), ..Default::default() };
    let uints =
        |uint_contents: &[u32]| InferTensorContents { uint_contents: uint_contents.into(), ..Default::default() };
    let floats = || InferTensorContents { fp32_contents: vec![5.0], ..Default::default() };
    let cases = [
        ("int8", ints(&[256 + 5]), Ok(())),
        ("int16", ints(&[65536 + 5]), Ok(())),
        ("uint8", uints(&[256 + 5]), Ok(())),
        ("uint16", uints(&[65536 + 5]), Ok(())),
        ("int8", uints(&[5]), Err("UINT32")),
        ("uint16", ints(&[5]), Err("INT32")),
        ("float16", floats(), Err("FP32")),
        ("float16", uints(&[5]), Err("UINT32")),
    ];
    run(async {
        let mut client = Client::new(&[]).await;
        for (name, contents, expected) in cases {
            let of = TYPES.iter().find(|of| of.name == name).expect("there is such a type");
            let model = format!("custom_sequence_{name}");
            let mut request = step(&model, 9, "SE", of.datatype, &[1, 1], None);
            request.inputs[0].contents = Some(contents);
            match (client.call(request).await, expected) {
                (Ok(sum), Ok(())) => assert_eq!(sum, bytes_of(of.datatype, "5"), "{model}"),
                (Err(status), Err(list)) => {
                    let text = format!(
                        "unexpected explicit tensor data for input tensor 'INPUT' for model '{model}' of type '{list}', \
                         expected datatype '{}'",
                        of.datatype
                    );
                    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text.as_str()));
                }
                (answer, _) => panic!("{model}: {answer:?}"),
            }
        }
    });
}

/// A configuration with these controls, this state and these parameters.
#[expect(clippy::needless_pass_by_value, reason = "so calls are shorter")]
fn config(datatype: &str, oldest: bool, controls: Value, state: Value, parameters: &[(&str, &str)]) -> Value {
    let tensor = |name| json!({ "name": name, "data_type": datatype, "dims": [1] });
    let strategy = if oldest { "oldest" } else { "direct" };
    let parameter = |(name, value): &(&str, &str)| ((*name).to_owned(), json!({ "string_value": value }));
    json!({
        "max_batch_size": 4,
        "input": [tensor("INPUT")],
        "output": [tensor("OUTPUT")],
        "sequence_batching": { strategy: {}, "control_input": controls, "state": state },
        "parameters": parameters.iter().map(parameter).collect::<serde_json::Map<_, _>>(),
    })
}

fn control(name: &str, what: &Value) -> Value {
    let mut control = json!({ "kind": format!("CONTROL_SEQUENCE_{name}") });
    control.as_object_mut().expect("an object").extend(what.as_object().expect("an object").clone());
    json!({ "name": name, "control": [control] })
}

#[test]
fn controls_may_have_any_type() {
    let model = "custom_sequence_int64";
    let formula = [("sequence_stress_formula", "running-sum-plus-corrid-at-end")];
    let flags = [
        json!({ "int32_false_true": [5, 7] }),
        json!({ "fp32_false_true": [0.5, 1.5] }),
        json!({ "bool_false_true": [true, false] }),
    ];
    run(async {
        let mut client = Client::new(&[]).await;
        for flag in &flags {
            for (corrid, id) in [("INT32", 3), ("UINT32", 3), ("INT64", ID), ("UINT64", ID), ("STRING", ID)] {
                let id_type = json!({ "data_type": format!("TYPE_{corrid}") });
                let [start, ready, end] = ["START", "READY", "END"].map(|name| control(name, flag));
                let controls = json!([start, ready, end, control("CORRID", &id_type)]);
                let config = config("TYPE_INT64", true, controls, json!([]), &formula);
                client.load(model, &config).await.expect("it is served");
                for (flags, value, sum) in [("S", "1", 1), ("", "2", 3), ("E", "4", 7 + id)] {
                    let raw = Some(bytes_of("INT64", value));
                    let told = client.call(step(model, ID, flags, "INT64", &[1, 1], raw)).await.expect("a sum");
                    assert_eq!(told, sum.to_le_bytes(), "{flag} {corrid} {flags}");
                }
            }
        }
    });
}

#[test]
fn a_new_sequence_begins_with_the_initial_state() {
    let flags = json!({ "int32_false_true": [0, 1] });
    let controls = json!([control("START", &flags), control("READY", &flags)]);
    let state = |initial: Value| json!([{ "input_name": "I", "output_name": "O", "data_type": "TYPE_FP64", "dims": [1], "initial_state": initial }]);
    let zero = json!([{ "name": "zero", "data_type": "TYPE_FP64", "dims": [1], "zero_data": true }]);
    let model = "custom_sequence_float64";
    run(async {
        let mut client = Client::new(&[]).await;
        for (state, initial, first, second) in [
            (json!([]), "0.5", "3.5", "7.5"),
            (state(json!([])), "0.5", "3.5", "7.5"),
            (state(zero.clone()), "0", "3", "7"),
        ] {
            let parameters = [("sequence_stress_initial_state", initial)];
            let config = config("TYPE_FP64", false, controls.clone(), state, &parameters);
            client.load(model, &config).await.expect("it is served");
            for _ in 0..2 {
                for (flags, value, sum) in [("S", "3", first), ("E", "4", second)] {
                    let raw = Some(bytes_of("FP64", value));
                    let told = client.call(step(model, 7, flags, "FP64", &[1, 1], raw)).await.expect("a sum");
                    assert_eq!(told, bytes_of("FP64", sum), "{config}");
                }
            }
        }
        for (state, parameters, problem) in [
            (state(zero.clone()), [("sequence_stress_initial_state", "1")], "begins with 0, and a parameter says 1"),
            (json!([]), [("sequence_stress_initial_state", "one")], "'one' is no number of type FP64"),
            (json!([]), [("sequence_stress_formula", "product")], "'product' is not served"),
        ] {
            let config = config("TYPE_FP64", false, controls.clone(), state, &parameters);
            let status = client.load(model, &config).await.expect_err(problem);
            assert!(status.message().contains(problem), "{status}");
        }
    });
}

#[test]
fn faults_are_committed_with_each_type() {
    run(async {
        for fault in [Fault::OffByOne, Fault::ExecuteTwice, Fault::SkipStep, Fault::ResetState, Fault::StateNotSaved] {
            let mut client = Client::new(&[fault]).await;
            for of in TYPES {
                let model = match fault {
                    Fault::StateNotSaved => format!("implicit_initial_sequence_{}", of.name),
                    _ => format!("custom_sequence_{}", of.name),
                };
                // Small numbers, because large ones of FP32 hide a one.
                let small = Type { first: "10", ..of };
                let right = ["10", "11", "16"].map(|sum| bytes_of(of.datatype, sum));
                assert_ne!(client.sequence(&model, &small, false).await, right, "{fault} {model}");
            }
        }
        let mut client = Client::new(&[Fault::WrongOutputType, Fault::WrongOutputLength]).await;
        for of in TYPES {
            let model = format!("custom_sequence_{}", of.name);
            let one = bytes_of(of.datatype, "1");
            let request = step(&model, 5, "SE", of.datatype, &[1, 1], Some(one.clone()));
            let response = client.client.model_infer(request).await.expect("an answer").into_inner();
            assert_ne!(response.outputs[0].datatype, of.datatype);
            let more = if of.datatype == "BYTES" { 4 } else { one.len() };
            assert_eq!(response.raw_output_contents[0].len(), one.len() + more, "{model}");
        }
    });
}
