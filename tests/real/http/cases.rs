//! What is answered to requests that are wrong in some way, and to those that are right in an odd way: word for word.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{INFER, MODEL, ask, input, with_real, with_reference};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const NO_ID: &str =
    "inference request to model 'custom_sequence_int32' must specify a non-zero or non-empty correlation ID";

fn no_member(name: &str) -> String {
    format!("Unable to parse '{name}': attempt to access non-existing object member '{name}'")
}

fn no_text(name: &str) -> String {
    format!("Unable to parse '{name}': attempt to access JSON non-string as string")
}

fn no_flag(name: &str) -> String {
    format!("Unable to parse '{name}': attempt to access JSON non-boolean as boolean")
}

fn no_unsigned(name: &str) -> String {
    format!("Unable to parse '{name}': attempt to access JSON non-unsigned-integer as unsigned-integer")
}

fn no_array(name: &str) -> String {
    format!("Unable to parse '{name}': attempt to access JSON non-array as array")
}

/// A whole sequence in one request, with these parameters besides.
fn with_parameters(more: &Value) -> Value {
    let mut parameters = json!({ "sequence_id": 77, "sequence_start": true, "sequence_end": true });
    for (name, value) in more.as_object().expect("members") {
        parameters[name] = value.clone();
    }
    json!({ "parameters": parameters, "inputs": [input(1)] })
}

fn with(name: &str, value: Value) -> Value {
    let mut body = with_parameters(&json!({}));
    body[name] = value;
    body
}

/// With an input in which this is so; null is without it.
fn with_input(name: &str, value: Value) -> Value {
    let mut changed = input(1);
    match value {
        Value::Null => _ = changed.as_object_mut().expect("members").remove(name),
        value => changed[name] = value,
    }
    with("inputs", json!([changed]))
}

fn with_output(parameters: &Value) -> Value {
    with("outputs", json!([{ "name": "OUTPUT", "parameters": parameters }]))
}

type Case = (Value, u16, String);

const ONLY_ONE: &str = "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But ";
const REGION: &str = "Unable to find shared memory region: 'r'";

fn own(text: &str) -> String {
    text.to_owned()
}

/// Requests that are rejected for what they are, or for their parameters.
fn wrong_parameters() -> Vec<Case> {
    let reserved = "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.";
    let other_type = "parameter 'other' has invalid type. It should be either 'int', 'bool', or 'string'.";
    let members = "failed to get request params.: attempt to get members for non-object";
    let no_start = |id: &str| {
        format!(
            "inference request for sequence {id} to model 'custom_sequence_int32' must specify the START flag on the first request of the sequence"
        )
    };
    vec![
        (json!([]), 500, no_member("inputs")),
        (json!({}), 500, no_member("inputs")),
        (json!({ "inputs": 3 }), 500, no_array("inputs")),
        (json!({ "inputs": [3] }), 400, format!("{ONLY_ONE}no field is set")),
        (json!({ "inputs": [input(1)] }), 400, own(NO_ID)),
        (with("id", json!(5)), 500, no_text("id")),
        (with("parameters", json!(3)), 500, own(members)),
        (with("parameters", json!(null)), 500, own(members)),
        (with("parameters", json!({ "sequence_id": 4567 })), 400, no_start("4567")),
        (with("parameters", json!({ "sequence_id": "zz" })), 400, no_start("zz")),
        (with_parameters(&json!({ "sequence_id": 1.5 })), 500, no_text("sequence_id")),
        (with_parameters(&json!({ "sequence_id": -1 })), 500, no_text("sequence_id")),
        (with_parameters(&json!({ "sequence_id": true })), 500, no_text("sequence_id")),
        (with_parameters(&json!({ "sequence_id": "" })), 400, own(NO_ID)),
        (
            with_parameters(&json!({ "sequence_id": "a".repeat(129) })),
            501,
            own("string correlation ID cannot be longer than 128 characters"),
        ),
        (with_parameters(&json!({ "sequence_start": 1 })), 500, no_flag("sequence_start")),
        (with_parameters(&json!({ "sequence_end": "true" })), 500, no_flag("sequence_end")),
        (with_parameters(&json!({ "timeout": -1 })), 500, no_unsigned("timeout")),
        (with_parameters(&json!({ "timeout": 1.5 })), 500, no_unsigned("timeout")),
        (with_parameters(&json!({ "priority": "1" })), 500, no_unsigned("priority")),
        (with_parameters(&json!({ "binary_data_output": 1 })), 500, no_flag("binary_data_output")),
        (with_parameters(&json!({ "triton_x": 1 })), 400, own(reserved)),
        (with_parameters(&json!({ "other": null })), 400, own(other_type)),
        (with_parameters(&json!({ "other": [] })), 400, own(other_type)),
    ]
}

/// Requests that are rejected for an input.
fn wrong_inputs() -> Vec<Case> {
    let signed = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer";
    let no_shape = "Unable to parse 'data': Shape does not match true shape of 'data' field";
    vec![
        (with_input("name", json!(null)), 500, no_member("name")),
        (with_input("name", json!(3)), 500, no_text("name")),
        (with_input("datatype", json!(null)), 500, no_member("datatype")),
        (with_input("shape", json!(null)), 500, no_member("shape")),
        (with_input("data", json!(null)), 400, format!("{ONLY_ONE}no field is set")),
        (
            with_input("parameters", json!({ "binary_data_size": 4 })),
            400,
            format!("{ONLY_ONE}set 'data' 'binary_data_size'"),
        ),
        (with_input("datatype", json!("INT31")), 400, own("invalid datatype for input INPUT")),
        (
            with_input("datatype", json!("BF16")),
            400,
            own("receiving BF16 data via JSON is not supported. Please use the binary data format for input INPUT"),
        ),
        (
            with_input("datatype", json!("FP32")),
            400,
            own(
                "[request id: <id_unknown>] inference input 'INPUT' data-type is 'FP32', but model 'custom_sequence_int32' expects 'INT32'",
            ),
        ),
        (with_input("shape", json!(3)), 500, no_array("shape")),
        (with_input("shape", json!(["1", 1])), 500, no_unsigned("shape")),
        (with_input("shape", json!([1, -1])), 500, no_unsigned("shape")),
        (
            with_input("shape", json!([])),
            400,
            own(
                "[request id: <id_unknown>] input 'INPUT' has no shape but model requires batch dimension for 'custom_sequence_int32'",
            ),
        ),
        (
            with("inputs", json!([{ "name": "INPUT", "datatype": "INT32", "shape": [2, 1], "data": [1, 2] }])),
            400,
            own(
                "inference request to model 'custom_sequence_int32' must specify batch-size 1 due to requirements of sequence batcher",
            ),
        ),
        (with_input("data", json!([1, 2])), 500, own(no_shape)),
        (with_input("data", json!([])), 500, own(no_shape)),
        (with_input("data", json!([1.0])), 500, own(signed)),
        (with_input("data", json!(["1"])), 500, own(signed)),
        (with_input("data", json!(1)), 500, no_array("data")),
        (with_input("name", json!("X")), 400, own("unexpected inference input 'X' for model 'custom_sequence_int32'")),
        (
            with("inputs", json!([])),
            400,
            own(
                "[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'custom_sequence_int32'. Got input(s) [], but missing required input(s) ['INPUT']. Please provide all required input(s).",
            ),
        ),
        (
            with("inputs", json!([input(1), input(1)])),
            400,
            own("[request id: <id_unknown>] input 'INPUT' already exists in request"),
        ),
    ]
}

/// Requests that are rejected for an output, or for a region that is not there.
fn wrong_outputs() -> Vec<Case> {
    vec![
        (with("outputs", json!(3)), 500, no_array("outputs")),
        (with("outputs", json!([{}])), 500, no_member("name")),
        (with("outputs", json!([{ "name": 3 }])), 500, no_text("name")),
        (
            with("outputs", json!([{ "name": "X" }])),
            400,
            own("unexpected inference output 'X' for model 'custom_sequence_int32'"),
        ),
        (with_output(&json!({ "binary_data": 1 })), 500, no_flag("binary_data")),
        (
            with_output(&json!({ "classification": "1" })),
            500,
            own("Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ),
        (with_output(&json!({ "shared_memory_region": "r" })), 404, own(REGION)),
        (
            with(
                "inputs",
                json!([{
                    "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "parameters": { "shared_memory_region": "r" }
                }]),
            ),
            404,
            own(REGION),
        ),
    ]
}

/// Requests that are right in an odd way, and what they are answered with.
fn taken() -> Vec<(Value, Value)> {
    let output =
        |data: Value, shape: Value| json!({ "name": "OUTPUT", "datatype": "INT32", "shape": shape, "data": data });
    let one = || output(json!([1]), json!([1, 1]));
    let seen = || json!({ "name": "SEEN", "datatype": "INT64", "shape": [1, 5], "data": [1, -1, 1, -1, 0] });
    let all = |first: Value| json!([first, seen()]);
    let two =
        |data: Value| with("inputs", json!([{ "name": "INPUT", "datatype": "INT32", "shape": [1, 2], "data": data }]));
    vec![
        (with_parameters(&json!({})), all(one())),
        (with_parameters(&json!({ "sequence_id": u64::MAX, "timeout": u64::MAX, "priority": 1 })), all(one())),
        (with_parameters(&json!({ "sequence_id": "a text", "other": 1.5, "more": "x" })), all(one())),
        (with("unknown", json!([1])), all(one())),
        (with_input("parameters", json!(3)), all(one())),
        (two(json!([1, 2])), all(output(json!([3, 3]), json!([1, 2])))),
        (two(json!([[[1]], 2])), all(output(json!([3, 3]), json!([1, 2])))),
        (
            with("inputs", json!([{ "name": "INPUT", "datatype": "INT32", "shape": [1, 0], "data": [] }])),
            all(output(json!([]), json!([1, 0]))),
        ),
        (with_input("data", json!([4_294_967_297_u64])), all(one())),
        (with_input("data", json!([-2_147_483_649_i64])), all(output(json!([i32::MAX]), json!([1, 1])))),
        (with("outputs", json!([])), all(one())),
        (with("outputs", json!([{ "name": "OUTPUT" }, { "name": "OUTPUT" }])), json!([one()])),
        (with("outputs", json!([{ "name": "SEEN" }, { "name": "OUTPUT" }])), all(one())),
        (with_output(&json!({ "classification": 0, "binary_data": false })), json!([one()])),
    ]
}

fn hold_infer(address: SocketAddr) {
    for (body, status, text) in [wrong_parameters(), wrong_inputs(), wrong_outputs()].concat() {
        let answer = ask(address, "POST", INFER, &[], body.to_string().as_bytes());
        assert_eq!((answer.status, answer.error(), answer.kind()), (status, text, JSON), "{body}");
    }
    for (body, outputs) in taken() {
        let answer = ask(address, "POST", INFER, &[], body.to_string().as_bytes());
        assert_eq!((answer.status, answer.kind()), (200, JSON), "{body}: {}", answer.text());
        assert_eq!(answer.json()["outputs"], outputs, "{body}");
    }
    let text = r#"{"id":"a\"b","inputs":[{"name":"INPUT","datatype":"INT32","shape":[1,1],"data":[1]}],"parameters":{"sequence_id":7,"sequence_start":true,"sequence_end":true},"outputs":[{"name":"OUTPUT"}]}"#;
    let answer = ask(address, "POST", INFER, &[], text.as_bytes());
    assert_eq!(
        answer.text(),
        r#"{"id":"a\"b","model_name":"custom_sequence_int32","model_version":"1","outputs":[{"name":"OUTPUT","datatype":"INT32","shape":[1,1],"data":[1]}]}"#
    );
}

/// Other paths, methods and bodies: what is asked, and status, kind of content and body of the answer.
const OTHERS: [(&str, &str, &str, u16, &str, &str); 31] = [
    ("GET", "/v2/health/live", "", 200, TEXT, ""),
    ("GET", "/v2/health/ready", "", 200, TEXT, ""),
    ("POST", "/v2/health/live", "", 405, TEXT, "Method Not Allowed"),
    ("POST", "/v2", "", 405, JSON, "Method Not Allowed"),
    ("GET", "/", "", 404, TEXT, "Not Found"),
    ("GET", "/v2/", "", 404, TEXT, "Not Found"),
    ("GET", "/v2/models", "", 404, TEXT, "Not Found"),
    ("GET", "/metrics", "", 404, TEXT, "Not Found"),
    ("GET", "MODEL/ready", "", 200, TEXT, ""),
    ("GET", "MODEL/versions/1/ready", "", 200, TEXT, ""),
    ("GET", "MODEL/versions/2/ready", "", 400, TEXT, "Model version not ready"),
    ("GET", "MODEL/versions/x/ready", "", 404, TEXT, "Not Found"),
    ("GET", "/v2/models/nobody/ready", "", 400, TEXT, "Model version not ready"),
    ("GET", "/v2/models/nobody", "", 404, JSON, "Request for unknown model: 'nobody' is not found"),
    ("GET", "/v2/models/a%5Fb", "", 404, JSON, "Request for unknown model: 'a%5Fb' is not found"),
    ("GET", "/v2/models/nobody/config", "", 404, JSON, "Request for unknown model: 'nobody' is not found"),
    ("GET", "/v2/models/nobody/stats", "", 400, JSON, "requested model 'nobody' is not available"),
    ("POST", "/v2/models/nobody/infer", "{", 404, TEXT, "Request for unknown model: 'nobody' is not found"),
    (
        "POST",
        "MODEL/versions/2/infer",
        "",
        404,
        TEXT,
        "Request for unknown model: 'custom_sequence_int32' version 2 is not found",
    ),
    ("GET", "MODEL/infer", "", 405, TEXT, "Method Not Allowed"),
    ("POST", "MODEL/infer", "", 400, JSON, NO_ID),
    (
        "POST",
        "MODEL/infer",
        "{",
        500,
        JSON,
        "failed to parse the request JSON buffer: Missing a name for object member. at 1",
    ),
    ("GET", "/v2/repository/index", "", 405, JSON, "Method Not Allowed"),
    ("POST", "/v2/repository/index", r#"{"ready":1}"#, 500, JSON, "attempt to access JSON non-boolean as boolean"),
    (
        "POST",
        "/v2/repository/models/nobody/load",
        "",
        500,
        JSON,
        "failed to load 'nobody', failed to poll from model repository",
    ),
    ("POST", "/v2/repository/models/nobody/unload", "{", 200, JSON, ""),
    ("POST", "LOAD", "{}", 200, JSON, ""),
    ("POST", "LOAD", r#"{"parameters":[]}"#, 500, JSON, "attempt to get members for non-object"),
    ("POST", "LOAD", r#"{"parameters":{"config":{}}}"#, 500, JSON, "attempt to access JSON non-string as string"),
    ("POST", "LOAD", r#"{"parameters":{"other":"x"}}"#, 500, JSON, "unexpected error on creating Triton parameter"),
    (
        "POST",
        "LOAD",
        r#"{"parameters":{"config":"{"}}"#,
        500,
        JSON,
        "failed to load 'custom_sequence_int32', failed to poll from model repository",
    ),
];

fn hold_others(address: SocketAddr) {
    for (method, path, body, status, kind, text) in OTHERS {
        let path = path.replace("MODEL", MODEL).replace("LOAD", "/v2/repository/models/custom_sequence_int32/load");
        let answer = ask(address, method, &path, &[], body.as_bytes());
        assert_eq!((answer.status, answer.kind(), answer.error()), (status, kind, text.to_owned()), "{method} {path}");
        assert!(!answer.body.is_empty() || text.is_empty(), "{method} {path}");
    }
}

fn hold_queries(address: SocketAddr) {
    let get = |path: &str| ask(address, "GET", path, &[], b"");
    let server = get("/v2").json();
    let extensions = server["extensions"].as_array().expect("extensions");
    assert!(extensions.contains(&json!("sequence")) && extensions.contains(&json!("binary_tensor_data")), "{server}");
    let metadata = r#"{"name":"custom_sequence_int32","versions":["1"],"platform":"sequence_stress","inputs":[{"name":"INPUT","datatype":"INT32","shape":[-1,-1]}],"outputs":[{"name":"OUTPUT","datatype":"INT32","shape":[-1,-1]},{"name":"SEEN","datatype":"INT64","shape":[-1,5]}]}"#;
    assert_eq!(
        (get(MODEL).text(), get(&format!("{MODEL}/versions/1")).text()),
        (metadata.to_owned(), metadata.to_owned())
    );
    let config = get(&format!("{MODEL}/config")).json();
    assert_eq!((&config["name"], &config["max_batch_size"]), (&json!("custom_sequence_int32"), &json!(4)));
    assert_eq!(config["sequence_batching"]["max_sequence_idle_microseconds"], json!(20_000_000));
    assert_eq!(config["input"][0]["data_type"], json!("TYPE_INT32"));
    let statistics = get(&format!("{MODEL}/stats")).json();
    let of_it = &statistics["model_stats"][0];
    assert_eq!((&of_it["name"], &of_it["version"]), (&json!("custom_sequence_int32"), &json!("1")));
    assert!(of_it["inference_stats"]["success"]["count"].is_u64(), "{statistics}");
    let all = get("/v2/models/stats").json();
    assert!(all["model_stats"].as_array().expect("models").len() > 5, "{all}");
    let index = ask(address, "POST", "/v2/repository/index", &[], b"").json();
    let entry = json!({ "name": "custom_sequence_int32", "version": "1", "state": "READY" });
    assert!(index.as_array().expect("models").contains(&entry), "{index}");
}

#[test]
fn wrong_requests_are_rejected_in_the_real_servers_words() {
    with_reference(|http, _| hold_infer(http));
}

#[test]
fn other_paths_are_answered_in_the_real_servers_words() {
    with_reference(|address, _| {
        hold_queries(address);
        hold_others(address);
    });
}

#[test]
#[ignore = "needs the real server: run scripts/test"]
fn the_real_server_says_the_same() {
    with_real(|address, _| {
        hold_queries(address);
        hold_infer(address);
        hold_others(address);
    });
}
