//! Controls of every type that a configuration may give them: no model is accused of what it saw of them, and what it sees wrongly is
//! found.

use std::{net::SocketAddr, time::Duration};

use oracle::ViolationKind;
use reference::ModelOptions;
use sequence_stress::{
    preflight::Note,
    report::describe,
    run::{RunResult, Setup},
};
use serde_json::{Value, json};
use workload::{
    endpoint::Endpoints,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};

use crate::support::{
    http,
    long::rounds,
    runs::{reference_server, run_alone},
    side_by_side,
    triton::{Own, Triton},
};

const MODEL: &str = "custom_dyna_sequence_int32";
/// Combinations at a time in the real server.
const AT_A_TIME: usize = 5;
const CORRIDS: [&str; 5] = ["INT32", "INT64", "UINT32", "UINT64", "STRING"];
const SCENARIO: &str = "
load = { workers = 2, iterations = 6 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
length = { min = 1, max = 6, constant = 5 }
limits = { lost_after_ms = 120000, connect_ms = 120000, quiet_ms = 10 }
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

fn configuration(model: &str, backend: &str, flag: &Value, corrid: &str) -> Value {
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
        "name": model,
        "backend": backend,
        "max_batch_size": 4,
        "input": [tensor("INPUT", "TYPE_INT32", -1)],
        "output": [tensor("OUTPUT", "TYPE_INT32", -1), tensor("SEEN", "TYPE_INT64", 5)],
        "instance_group": [{ "kind": "KIND_CPU" }],
        "sequence_batching": {
            "max_sequence_idle_microseconds": 10_000_000,
            "oldest": { "max_candidate_sequences": 4 },
            "control_input": controls,
        },
        "parameters": {
            "sequence_stress_formula": { "string_value": formula },
            "sequence_stress_controls": { "string_value": "SEEN" },
        },
    })
}

fn load(http: SocketAddr, model: &str, configuration: &Value) {
    let body = json!({ "parameters": { "config": configuration.to_string() } });
    let path = format!("/v2/repository/models/{model}/load");
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

fn stress(endpoints: &Endpoints, model: &str, corrid: &str, form: &str) -> RunResult {
    let text = format!("{SCENARIO}correlation_ids.form = '{form}'\ntarget.model = '{model}'");
    let overrides = Overrides { endpoint: Some(endpoints.clone()), ..Overrides::default() };
    let scenario = Scenario::resolve(&Source::from_text("test", &text), overrides).expect("a scenario");
    run_alone(Setup::new(scenario, Seed(5))).unwrap_or_else(|error| panic!("{corrid}: {error}"))
}

/// A combination of types, which a model of this name on a server whose models have this backend gets.
fn is_not_accused(endpoints: &Endpoints, http: SocketAddr, model: &str, backend: &str, flag: &Value, corrid: &str) {
    load(http, model, &configuration(model, backend, flag, corrid));
    let result = stress(endpoints, model, corrid, form(backend, corrid));
    let accused: Vec<_> = result.violations.iter().map(describe).collect();
    let total = result.tally.total();
    assert!(accused.is_empty() && total.completed > 20, "{backend} {flag} {corrid}: {accused:?} {total:?}");
    // Of a text the model tells a number alone, which is not compared.
    let left_out = result.preflight.notes.iter().filter(|note| matches!(note, Note::NotChecked(_))).count();
    assert_eq!(left_out, usize::from(corrid == "STRING"), "{corrid}: {:?}", result.preflight.notes);
}

/// All combinations of types.
fn all() -> Vec<(Value, &'static str)> {
    flags().iter().flat_map(|flag| CORRIDS.map(|corrid| (flag.clone(), corrid))).collect()
}

fn models() -> ModelOptions {
    ModelOptions { idle_limit: Duration::from_secs(10), execution: Duration::ZERO, ..ModelOptions::default() }
}

#[test]
fn the_reference_server_serves_controls_of_all_types() {
    let server = reference_server(models(), &[]);
    let endpoints = Endpoints::of_both(server.address, server.http);
    for (flag, corrid) in all() {
        is_not_accused(&endpoints, server.http, MODEL, "sequence_stress", &flag, corrid);
    }
}

#[test]
fn a_control_that_is_wrong_is_found_whatever_its_type() {
    for fault in ["start-spurious:once@3", "corrid-other:once@3"] {
        for flag in flags() {
            for corrid in ["INT32", "UINT64"] {
                let server = reference_server(models(), &[fault.parse().expect("a fault")]);
                load(server.http, MODEL, &configuration(MODEL, "sequence_stress", &flag, corrid));
                let result = stress(&Endpoints::of_both(server.address, server.http), MODEL, corrid, "integer");
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

/// Those of the combinations, each on a model of its own.
fn real_models_take(triton: &Triton, backend: &str, combinations: &[(Value, &str)]) {
    let (endpoints, http) = (triton.endpoints(), triton.http.parse().expect("an address"));
    side_by_side(AT_A_TIME, combinations, |(flag, corrid)| {
        is_not_accused(&endpoints, http, &triton.load(&Own::like(MODEL)), backend, flag, corrid);
    });
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn native_models_take_controls_of_all_types_in_the_real_server() {
    real_models_take(&Triton::native(), "sequence_stress", &all());
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn python_models_take_controls_of_all_types_in_the_real_server() {
    // Each model is a process, so that all combinations are for the long form; these have every type of the flags and of CORRID.
    let every_type = flags().into_iter().cycle().zip(CORRIDS).collect();
    real_models_take(&Triton::python(), "python", &rounds(every_type, all()));
}
