//! The native models in the real tritonserver: what they reject, what they keep, what they survive.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use wire::proto::{
    ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    grpc_inference_service_client::GrpcInferenceServiceClient, infer_parameter::ParameterChoice,
};

use crate::support::{
    http,
    request::step,
    runs::runtime,
    triton::{Own, Triton, text, with_triton},
};

/// By how much a server's memory may differ for other reasons than a leak.
const MAY_GROW_KIB: u64 = 1024;

/// A configuration of the native model with state by slot, for one case changed in one place.
fn changed(place: &str, value: Value) -> String {
    let flag = |name: &str| {
        let kind = format!("CONTROL_SEQUENCE_{name}");
        json!({ "name": name, "control": [{ "kind": kind, "int32_false_true": [0, 1] }] })
    };
    let mut config = json!({
        "backend": "sequence_stress",
        "max_batch_size": 4,
        "input": [{ "name": "INPUT", "data_type": "TYPE_INT32", "dims": [-1] }],
        "output": [{ "name": "OUTPUT", "data_type": "TYPE_INT32", "dims": [-1] }],
        "instance_group": [{ "kind": "KIND_CPU" }],
        "sequence_batching": { "control_input": [flag("START"), flag("READY")] },
        "parameters": {},
    });
    let (parent, name) = place.rsplit_once('/').expect("a path");
    let parent = config.pointer_mut(parent).expect("it is there");
    match name.parse::<usize>() {
        Ok(index) if value.is_null() => _ = parent.as_array_mut().expect("an array").remove(index),
        _ => parent[name] = value,
    }
    config.to_string()
}

fn parameter(value: &str) -> Value {
    json!({ "string_value": value })
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_native_model_that_cannot_be_served_is_rejected_and_the_text_names_what_is_wrong() {
    let triton = Triton::native();
    let model = triton.load(&Own::like("custom_sequence_int32"));
    let load = |config: &str| {
        let body = json!({ "parameters": { "config": config } });
        triton.ask("POST", &format!("/v2/repository/models/{model}/load"), &body)
    };
    for (place, value, named) in [
        ("/parameters/fault", parameter("no-such-fault"), "no-such-fault"),
        ("/parameters/fault", parameter("off-by-one:2"), "off-by-one:2"),
        ("/parameters/execute_delay_ms", parameter("soon"), "execute_delay_ms"),
        ("/parameters/no_such_parameter", parameter("1"), "no_such_parameter"),
        ("/parameters/state_key", parameter("corrid"), "CORRID"),
        ("/parameters/sequence_stress_formula", parameter("running-sum-plus-corrid-at-end"), "CONTROL_SEQUENCE_END"),
        ("/sequence_batching/control_input/0", Value::Null, "CONTROL_SEQUENCE_START"),
        ("/sequence_batching/control_input/1", Value::Null, "CONTROL_SEQUENCE_READY"),
        ("/sequence_batching/oldest", json!({}), "CORRID"),
        ("/input/0/data_type", json!("TYPE_BOOL"), "INPUT"),
        ("/output/0/data_type", json!("TYPE_FP32"), "OUTPUT"),
    ] {
        let (status, answer) = load(&changed(place, value));
        let text = answer["error"].as_str().unwrap_or_default();
        assert!(status == 400 && text.contains(named), "{place}: {status} {answer}");
    }
    let (status, answer) = load(&changed("/parameters/note", parameter("nothing is wrong")));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(triton.step(&model, 1, 5, true), Ok(5));
    let output = with_triton(&["--model-parameter", "no_such_parameter=1"], &["true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(125), "{}", text(&output));
    assert!(text(&output).contains("no_such_parameter") && text(&output).lines().count() == 1, "{}", text(&output));
}

/// The memory of a process, in KiB.
fn resident_kib(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// How often each thread of a process has gone to sleep, by the thread's number; `None` where a thread is not asleep.
fn sleeps(pid: &str) -> Option<BTreeMap<OsString, String>> {
    let mut sleeps = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs") {
        let thread = thread.expect("an entry");
        // A thread may have ended since.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else { return None };
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a line").trim();
        if !line("State:").starts_with('S') {
            return None;
        }
        sleeps.insert(thread.file_name(), line("voluntary_ctxt_switches:").to_owned());
    }
    Some(sleeps)
}

/// Waits for a moment in which all threads of the server are asleep: nothing of it is under way then. Server 2.51.0 misses a wake-up of
/// its own scheduler now and then when a model is unloaded in the very moment in which an execution ends, and the model then stays as it
/// is for ever.
fn until_at_rest(pid: &str) {
    loop {
        let before = sleeps(pid);
        if before.is_some() && before == sleeps(pid) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn native_models_that_are_loaded_and_unloaded_again_and_again_leave_no_memory_behind() {
    // The server's memory is the subject, so nobody else may use the server.
    let triton = Triton::start(&["--explicit", "--execute-delay-ms", "0"]);
    let model = "custom_sequence_int32";
    let repository = |what: &str| {
        assert_eq!(triton.ask("POST", &format!("/v2/repository/models/{model}/{what}"), &json!({})).0, 200, "{what}");
    };
    let is_unloaded = || {
        let (_, index) = triton.ask("POST", "/v2/repository/index", &json!({}));
        let models = index.as_array().expect("an array");
        models.iter().find(|entry| entry["name"] == model).expect("it is there")["reason"] == "unloaded"
    };
    let mut after_50 = 0;
    for round in 1..=350 {
        repository("load");
        assert_eq!((triton.step(model, 7, 5, true), triton.step(model, 7, 6, false)), (Ok(5), Ok(11)));
        until_at_rest(&triton.pid);
        repository("unload");
        let began = Instant::now();
        while !is_unloaded() {
            assert!(began.elapsed() < http::LIMIT, "round {round}: it is still there");
            thread::sleep(Duration::from_millis(2));
        }
        if round == 50 {
            after_50 = resident_kib(&triton.pid);
        }
    }
    let at_the_end = resident_kib(&triton.pid);
    assert!(at_the_end < after_50 + MAY_GROW_KIB, "{after_50} KiB after 50 rounds, {at_the_end} KiB after 350");
    triton.stop();
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_panic_in_a_model_is_an_error_of_one_request_alone() {
    // The variable is one of the whole server, which holds each model's first batch back until all four sequences are in it.
    let options = ["--model-parameter", "panic_on_value=66", "--server-env", "TRITONSERVER_DELAY_SCHEDULER=4"];
    let triton = Triton::start(&[&options[..], &["--idle-limit-ms", "60000"]].concat());
    let model = "custom_sequence_int32";
    let values = [1, 20, 66, 3000];
    let first: Vec<_> = thread::scope(|scope| {
        let begun = [1, 2, 3, 4].map(|id| {
            let triton = &triton;
            scope.spawn(move || triton.step(model, id, values[id as usize - 1], true))
        });
        begun.map(|step| step.join().expect("it ends")).into()
    });
    assert_eq!((&first[0], &first[1], &first[3]), (&Ok(1), &Ok(20), &Ok(3000)));
    assert!(first[2].as_ref().is_err_and(|error| error.contains("panic")), "{first:?}");
    // The server counts an execution after the answers to its requests.
    let statistics = counted(&triton, model, 4);
    assert_eq!(statistics["model_stats"][0]["batch_stats"][0]["batch_size"], 4, "they shared a batch: {statistics:#}");
    assert_eq!(triton.step(model, 1, 1, false), Ok(2));
    assert_eq!(triton.step(model, 4, 1, false), Ok(3001));
    assert!(triton.step(model, 2, 66, false).is_err());
    assert_eq!((triton.step(model, 3, 7, true), triton.step(model, 3, 8, false)), (Ok(7), Ok(15)));
    triton.stop();
}

/// The statistics of a model, when this many requests are in them with their executions.
fn counted(triton: &Triton, model: &str, requests: u64) -> Value {
    let began = Instant::now();
    loop {
        let (_, statistics) = triton.ask("GET", &format!("/v2/models/{model}/stats"), &Value::Null);
        let of_it = &statistics["model_stats"][0];
        let [success, fail] =
            ["success", "fail"].map(|of| of_it["inference_stats"][of]["count"].as_u64().unwrap_or_default());
        let is_executed = of_it["batch_stats"].as_array().is_some_and(|batches| !batches.is_empty());
        if success + fail == requests && is_executed && of_it["inference_count"].as_u64() >= Some(success) {
            return statistics;
        }
        assert!(began.elapsed() < http::LIMIT, "{statistics:#}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// All the answers that a stream of these requests gets.
fn answers(triton: &Triton, requests: Vec<ModelInferRequest>) -> Vec<ModelStreamInferResponse> {
    first_answers(triton, requests, usize::MAX)
}

/// The first answers that a stream of these requests gets, so many at most.
fn first_answers(triton: &Triton, requests: Vec<ModelInferRequest>, most: usize) -> Vec<ModelStreamInferResponse> {
    runtime().block_on(async {
        let url = format!("http://{}", triton.grpc);
        let mut client = GrpcInferenceServiceClient::connect(url).await.expect("a connection");
        let stream = client.model_stream_infer(tokio_stream::iter(requests)).await.expect("a stream");
        let mut stream = stream.into_inner();
        let mut answers = Vec::new();
        while answers.len() < most {
            match tokio::time::timeout(http::LIMIT, stream.message()).await {
                Ok(Ok(Some(answer))) => answers.push(answer),
                Ok(Ok(None)) => break,
                other => panic!("{other:?} after {answers:?}"),
            }
        }
        answers
    })
}

/// The elements of an INT32 output.
fn output(answer: &ModelInferResponse, name: &str) -> Vec<i32> {
    let index = answer.outputs.iter().position(|output| output.name == name);
    let index = index.unwrap_or_else(|| panic!("no {name} in {answer:?}"));
    answer.raw_output_contents[index].as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
}

/// What an answer says: its sums, or its error's text; and whether it is the last one to its request.
fn said(answer: &ModelStreamInferResponse) -> (Result<Vec<i32>, &str>, bool) {
    let response = answer.infer_response.as_ref().expect("a response");
    let last =
        response.parameters.get("triton_final_response").and_then(|parameter| parameter.parameter_choice.as_ref());
    let sums =
        if answer.error_message.is_empty() { Ok(output(response, "OUTPUT")) } else { Err(&*answer.error_message) };
    (sums, last == Some(&ParameterChoice::BoolParam(true)))
}

/// What a request is answered with, on a stream of its own: the sums and whether they are the last ones, or the error.
fn told(triton: &Triton, model: &str, value: i32, start: bool, end: bool) -> Vec<(Result<i32, String>, bool)> {
    answers(triton, vec![step(model, 7, &[value], start, end)]).iter().map(one_sum).collect()
}

fn one_sum(answer: &ModelStreamInferResponse) -> (Result<i32, String>, bool) {
    let (sums, is_last) = said(answer);
    (sums.map(|sums| sums[0]).map_err(str::to_owned), is_last)
}

/// A model that executes at once. No sequence goes idle in a test, however slow the machine is.
fn at_once(like: &str) -> Own<'_> {
    Own { execute_ms: 0, idle_ms: 60_000, ..Own::like(like) }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn decoupled_models_answer_several_times_and_iterative_ones_are_executed_several_times() {
    let triton = Triton::native();
    let three = |sums: [i32; 3]| sums.map(|sum| (Ok(sum), sum == sums[2])).to_vec();
    for family in ["decoupled_sequence_int32", "decoupled_oldest_sequence_int32"] {
        let model = &triton.load(&at_once(family));
        // The server does not keep the order between answers of one request and of the next, so each has a stream of its own.
        assert_eq!(told(&triton, model, 5, true, false), three([5, 6, 7]), "{model}");
        assert_eq!(told(&triton, model, 10, false, false), three([15, 16, 17]), "{model}");
        assert_eq!(told(&triton, model, -20, false, true), three([-5, -4, -3]), "{model}");
        let body = json!({ "inputs": [{ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [5] }] });
        let (status, answer) = triton.ask("POST", &format!("/v2/models/{model}/infer"), &body);
        assert!(status == 501 && answer["error"].as_str().is_some_and(|text| text.contains("decoupled")), "{answer}");
    }

    // To the server an iterative sequence is a single request, of which it makes the END itself.
    let model = triton.load(&at_once("iterative_sequence_int32"));
    // A START right behind the last answer to a request of the same ID may be rejected (docs/FINDINGS.md).
    for id in [7, 8] {
        let told = answers(&triton, vec![step(&model, id, &[5], true, false)]);
        assert_eq!(told.iter().map(one_sum).collect::<Vec<_>>(), three([5, 10, 15]), "{id}");
    }
    // The END that the server makes behind each of the two is counted as a failure.
    let statistics = counted(&triton, &model, 4);
    let statistics = &statistics["model_stats"][0];
    let fail = &statistics["inference_stats"]["fail"]["count"];
    let counts = [&statistics["execution_count"], &statistics["inference_count"], fail];
    assert_eq!(counts, [&json!(6), &json!(2), &json!(2)]);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn an_iterative_request_that_ends_its_sequence_loses_it_when_it_is_rescheduled() {
    let triton = Triton::native();
    let model = triton.load(&at_once("iterative_sequence_int32"));
    // The server logs the rejection as an error of its own, and goes on.
    let told = told(&triton, &model, 5, true, true);
    let rejected = format!(
        "inference request for sequence 7 to model '{model}' must specify the START flag on the first request of the sequence"
    );
    assert_eq!(told.iter().map(|(sum, _)| sum.clone()).collect::<Vec<_>>(), [Ok(5), Err(rejected)]);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn faults_of_several_answers_are_seen_by_the_client() {
    let triton = Triton::native();
    let with = |fault| triton.load(&Own { parameters: &[("fault", fault)], ..at_once("decoupled_sequence_int32") });
    for (fault, expected) in [
        ("drop-response:once@2", vec![(5, false), (7, true)]),
        ("lose-own-response:once@1", vec![(6, false), (7, true)]),
        ("swap-own-responses:once@1", vec![(7, false), (6, false), (5, true)]),
        ("surplus-response:once@1", vec![(5, false), (5, false), (6, false), (7, true)]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(sum, is_last)| (Ok(sum), is_last)).collect();
        assert_eq!(told(&triton, &with(fault), 5, true, false), expected, "{fault}");
    }
    // Then the server waits for the last answer, and does not close the stream.
    let answers = first_answers(&triton, vec![step(&with("lose-final-mark"), 7, &[5], true, true)], 3);
    let expected = [5, 6, 7].map(|sum| (Ok(sum), false));
    assert_eq!(answers.iter().map(one_sum).collect::<Vec<_>>(), expected);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_model_tells_what_it_saw_where_its_configuration_asks_for_that() {
    let triton = Triton::native();
    for like in ["echo_sequence_int32", "echo_dyna_sequence_int32"] {
        let model = &triton.load(&at_once(like).shape(2, 2));
        let steps = [
            step(model, 0x1234_5678_9abc, &[1, 2], true, false),
            step(model, 0x1234_5678_9abc, &[3], false, false),
            step(model, 0x1234_5678_9abc, &[4], false, true),
        ];
        // Who asks for no output in particular gets them all.
        let told = answers(&triton, steps.map(|step| ModelInferRequest { outputs: Vec::new(), ..step }).into());
        let of =
            |answer: &ModelStreamInferResponse, name| output(answer.infer_response.as_ref().expect("a response"), name);
        let flags =
            |answer: &ModelStreamInferResponse| ["SAW_START", "SAW_END", "SAW_READY"].map(|name| of(answer, name));
        let flags: Vec<_> = told.iter().map(flags).collect();
        let expected = [[1, 0, 1], [0, 0, 1], [0, 1, 1]].map(|flags| flags.map(|flag| vec![flag]));
        assert_eq!(flags, expected, "{model}");
        for answer in &told {
            assert_eq!(of(answer, "SAW_CORRID"), [0x5678_9abc, 0x1234], "{model}");
            assert_eq!(of(answer, "SLOT"), of(&told[0], "SLOT"), "{model}");
            assert_eq!(of(answer, "INSTANCE"), of(&told[0], "INSTANCE"), "{model}");
        }
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn controls_that_do_not_say_what_the_request_says_are_an_error_that_the_client_sees() {
    let triton = Triton::native();
    for (fault, text) in [
        ("start-spurious:once@1", "control 'START' says true to the model and the request says false"),
        ("end-missing:once@1", "control 'END' says false to the model and the request says true"),
        ("ready-missing:once@2", "control 'READY' says false to the model and the request says true"),
        ("corrid-zero:once@2", "control 'CORRID' says 0 to the model and the request says 7"),
    ] {
        let model = &triton.load(&Own { parameters: &[("fault", fault)], ..at_once("oldest_sequence_int32") });
        let steps = [(1, true, false), (20, false, false), (300, false, true)];
        let steps = steps.map(|(value, start, end)| step(model, 7, &[value], start, end));
        let told = answers(&triton, steps.into());
        let wrong: Vec<_> = told.iter().map(said).filter_map(|(sums, _)| sums.err()).collect();
        assert_eq!(wrong, [text], "{fault}");
    }
}
