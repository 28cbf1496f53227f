//! Controls of every type that a configuration may give them: no model is accused of what it saw of them, and what it sees wrongly is
//! found.

mod support;

use std::{net::SocketAddr, time::Duration};

use sequence_stress::{
    endpoint::Endpoints,
    engine::{RunResult, Setup},
    oracle::ViolationKind,
    reference::ModelOptions,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};
use serde_json::{Value, json};
use support::{
    http,
    runs::{reference_server, run_alone},
    triton::Triton,
};

const MODEL: &str = "custom_dyna_sequence_int32";
const CORRIDS: [&str; 5] = ["INT32", "INT64", "UINT32", "UINT64", "STRING"];
const SCENARIO: &str = "
load = { workers = 2, iterations = 6 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
length = { min = 1, max = 6, constant = 5 }
limits = { settle_ms = 100, quiet_ms = 10 }
slots.check = false
claims = {}
correlation_ids.first = 3000000000
";

/// What START, END and READY are where they are false and where they are true.
fn flags() -> [Value; 4] {
    [
        json!({ "int32_false_true": [0, 1] }),
        json!({ "int32_false_true": [7, -5] }),
        json!({ "fp32_false_true": [0.0, 1.0] }),
        json!({ "bool_false_true": [false, true] }),
    ]
}

fn configuration(backend: &str, flag: &Value, corrid: &str) -> Value {
    let control = |name: &str, what: &Value| {
        let mut control = what.clone();
        control["kind"] = json!(format!("CONTROL_SEQUENCE_{name}"));
        json!({ "name": name, "control": [control] })
    };
    // A text is no number to be added.
    let formula = if corrid == "STRING" { "running-sum" } else { "running-sum-plus-corrid-at-end" };
    let mut controls: Vec<_> = ["START", "END", "READY"].map(|name| control(name, flag)).into();
    controls.push(control("CORRID", &json!({ "data_type": format!("TYPE_{corrid}") })));
    let tensor = |name: &str, datatype: &str, size: i64| json!({ "name": name, "data_type": datatype, "dims": [size] });
    json!({
        "name": MODEL,
        "backend": backend,
        "max_batch_size": 4,
        "input": [tensor("INPUT", "TYPE_INT32", -1)],
        "output": [tensor("OUTPUT", "TYPE_INT32", -1), tensor("SEEN", "TYPE_INT64", 5)],
        "instance_group": [{ "kind": "KIND_CPU" }],
        "sequence_batching": {
            "max_sequence_idle_microseconds": 300_000,
            "oldest": { "max_candidate_sequences": 4 },
            "control_input": controls,
        },
        "parameters": {
            "sequence_stress_formula": { "string_value": formula },
            "sequence_stress_controls": { "string_value": "SEEN" },
        },
    })
}

fn load(http: SocketAddr, configuration: &Value) {
    let body = json!({ "parameters": { "config": configuration.to_string() } });
    let path = format!("/v2/repository/models/{MODEL}/load");
    let answer = http::ask(http, "POST", &path, &[], body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{configuration}: {}", answer.text());
}

/// The real server has room for 128 bytes in a CORRID that is a text, and its Python backend takes what it leaves empty for further texts.
fn form(backend: &str, corrid: &str) -> &'static str {
    match (backend, corrid) {
        ("python", "STRING") => "text-128",
        (_, "STRING") => "text",
        _ => "integer",
    }
}

fn stress(endpoints: &Endpoints, corrid: &str, form: &str) -> RunResult {
    let text = format!("{SCENARIO}correlation_ids.form = '{form}'\ntarget.model = '{MODEL}'");
    let overrides = Overrides { endpoint: Some(endpoints.clone()), ..Overrides::default() };
    let scenario = Scenario::resolve(&Source::from_text("test", &text), overrides).expect("a scenario");
    run_alone(Setup::new(scenario, Seed(5))).unwrap_or_else(|error| panic!("{corrid}: {error}"))
}

/// Each combination of types, on a server whose models have this backend.
fn with_all_types(grpc: SocketAddr, http: SocketAddr, backend: &str) {
    let endpoints = Endpoints::of_both(grpc, http);
    for flag in flags() {
        for corrid in CORRIDS {
            load(http, &configuration(backend, &flag, corrid));
            let result = stress(&endpoints, corrid, form(backend, corrid));
            let accused: Vec<_> = result.violations.iter().map(ToString::to_string).collect();
            let total = result.tally.total();
            assert!(accused.is_empty() && total.completed > 20, "{backend} {flag} {corrid}: {accused:?} {total:?}");
            // Of a text the model tells a number alone, which is not compared.
            let left_out = result.preflight.notes.iter().filter(|note| note.contains("not checked")).count();
            assert_eq!(left_out, usize::from(corrid == "STRING"), "{corrid}: {:?}", result.preflight.notes);
        }
    }
}

fn models() -> ModelOptions {
    ModelOptions { idle_limit: Duration::from_millis(300), execution: Duration::ZERO, ..ModelOptions::default() }
}

#[test]
fn the_reference_server_serves_controls_of_all_types() {
    let server = reference_server(models(), &[]);
    with_all_types(server.address, server.http, "sequence_stress");
}

#[test]
fn a_control_that_is_wrong_is_found_whatever_its_type() {
    for fault in ["start-spurious:once@3", "corrid-other:once@3"] {
        for flag in flags() {
            for corrid in ["INT32", "UINT64"] {
                let server = reference_server(models(), &[fault.parse().expect("a fault")]);
                load(server.http, &configuration("sequence_stress", &flag, corrid));
                let result = stress(&Endpoints::of_both(server.address, server.http), corrid, "integer");
                let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
                assert!(
                    kinds.contains(&ViolationKind::WrongControl),
                    "{fault} {flag} {corrid}: {:?}",
                    result.violations
                );
            }
        }
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn native_and_python_models_take_controls_of_all_types_in_the_real_server() {
    for (backend, option) in [("sequence_stress", None), ("python", Some("--python"))] {
        let options: Vec<_> = ["--explicit", "--time-limit", "300"].into_iter().chain(option).collect();
        let triton = Triton::start(&options);
        let [grpc, http] = [&triton.grpc, &triton.http].map(|text| text.parse().expect("an address"));
        with_all_types(grpc, http, backend);
        triton.stop();
    }
}
