//! Several states of a sequence that the server keeps: which of them comes back in which tensor.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{
    at_the_same_time,
    triton::{Own, Triton},
};

/// The default scenario with fewer passes, too few for what it claims. Each sequence has a step after START.
const SHORT: &str = "load.workers = 4\nload.iterations = 10\nlength = { min = 2, max = 12 }\nlimits.quiet_ms = 200\n\
    limits.lost_after_ms = 120000\nlimits.connect_ms = 120000\nclaims = {}\n";

/// Names whose inputs have the same order as their outputs, though not that of the configuration, and names that have not.
const ALIKE: [(&str, &str); 2] = [("ZETA_STATE", "ZETA_STATE_OUT"), ("ALPHA_STATE", "ALPHA_STATE_OUT")];
const CROSSED: [(&str, &str); 2] = [("CACHE", "CACHE_NEXT"), ("CACHE_LEN", "CACHE_LEN_NEXT")];
/// Sums and numbers of steps of a sequence of 100, 5 and 7.
const RIGHT: [(i64, i64); 3] = [(100, 1), (105, 2), (112, 3)];
/// The same where the sum comes back as the number of steps, and the other way round.
const EXCHANGED: [(i64, i64); 3] = [(100, 1), (6, 101), (108, 7)];

fn configuration(model: &str, strategy: &str, names: [(&str, &str); 2], sizes: [i64; 2], one_buffer: bool) -> Value {
    let tensor = |name: &str, datatype: &str| json!({ "name": name, "data_type": datatype, "dims": [1] });
    let control = |name: &str| {
        let control = json!({ "kind": format!("CONTROL_SEQUENCE_{name}"), "int32_false_true": [0, 1] });
        json!({ "name": name, "control": [control] })
    };
    let state = |((input, output), size): ((&str, &str), i64)| {
        json!({
            "input_name": input, "output_name": output, "data_type": "TYPE_INT32", "dims": [size],
            "use_same_buffer_for_input_output": one_buffer,
        })
    };
    let mut batching = json!({
        "max_sequence_idle_microseconds": 60_000_000,
        "control_input": [control("START"), control("READY")],
        "state": names.into_iter().zip(sizes).map(state).collect::<Vec<_>>(),
    });
    batching[strategy] = json!({});
    json!({
        "name": model,
        "backend": "sequence_stress",
        "max_batch_size": 4,
        "input": [tensor("INPUT", "TYPE_INT32")],
        "output": [tensor("OUTPUT", "TYPE_INT32"), tensor("COUNT", "TYPE_INT64")],
        "instance_group": [{ "kind": "KIND_CPU" }],
        "sequence_batching": batching,
    })
}

/// The outputs of a step, or its error.
fn step(triton: &Triton, model: &str, value: i64, [start, end]: [bool; 2]) -> Result<(i64, i64), String> {
    let body = json!({
        "parameters": { "sequence_id": 1, "sequence_start": start, "sequence_end": end },
        "inputs": [{ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [value] }],
    });
    let (status, answer) = triton.ask("POST", &format!("/v2/models/{model}/infer"), &body);
    if status != 200 {
        return Err(answer["error"].as_str().expect("a text").to_owned());
    }
    let number = |name: &str| {
        let output = answer["outputs"].as_array()?.iter().find(|output| output["name"] == name)?;
        output["data"][0].as_i64()
    };
    Ok((number("OUTPUT").expect("a sum"), number("COUNT").expect("a number of steps")))
}

/// The outputs of a sequence of 100, 5 and 7.
fn outputs(triton: &Triton, model: &str) -> [Result<(i64, i64), String>; 3] {
    let steps = [(100, [true, false]), (5, [false, false]), (7, [false, true])];
    steps.map(|(value, flags)| step(triton, model, value, flags))
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn release_24_10_exchanges_two_states_whose_inputs_have_another_order_by_name_than_their_outputs() {
    let triton = Triton::native();
    let model = triton.load(&Own::like("implicit_sequence_int32"));
    for strategy in ["direct", "oldest"] {
        for (names, one_buffer, expected) in
            [(ALIKE, false, RIGHT), (ALIKE, true, RIGHT), (CROSSED, false, EXCHANGED), (CROSSED, true, RIGHT)]
        {
            let config = configuration(&model, strategy, names, [1, 1], one_buffer);
            load(&triton, &model, &config);
            assert_eq!(outputs(&triton, &model), expected.map(Ok), "{config}");
        }
        load(&triton, &model, &configuration(&model, strategy, CROSSED, [2, 5], false));
        let error = Err("tensor 'CACHE': the server gives it the shape [1, 5], and its dims are [2]".to_owned());
        assert_eq!(outputs(&triton, &model), [Ok((100, 1)), error.clone(), error], "{strategy}");
        load(&triton, &model, &configuration(&model, strategy, ALIKE, [2, 5], false));
        assert_eq!(outputs(&triton, &model), RIGHT.map(Ok), "{strategy}");
    }
}

/// Loads a model again, with another configuration.
fn load(triton: &Triton, model: &str, configuration: &Value) {
    let body = json!({ "parameters": { "config": configuration.to_string() } });
    let (status, answer) = triton.ask("POST", &format!("/v2/repository/models/{model}/load"), &body);
    assert_eq!(status, 200, "{configuration}: {answer}");
}

/// What a run says of a model: the kinds of violations with the causes that are named first.
fn found(triton: &Triton, model: &str, seed: u64) -> BTreeSet<(String, String)> {
    let result = triton.stress(model, SHORT, &["-r", &seed.to_string()]);
    assert!(result["outcomes"]["completed"].as_u64() > Some(10), "{model}: {:#}", result["outcomes"]);
    let violations = result["violations"].as_array().expect("a list");
    let explained = violations.iter().filter(|violation| violation["explanations"][0].is_object());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found: BTreeSet<_> =
        explained.map(|violation| (text(&violation["kind"]), text(&violation["explanations"][0]["cause"]))).collect();
    assert_eq!(found.is_empty(), result["verdict"] == "valid", "{model}: {result:#}");
    found
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn release_24_10_keeps_two_and_three_states_and_exchanges_those_with_crossed_names() {
    let triton = Triton::native();
    let right =
        ["twin_state", "triple_state", "triple_state_initial", "triple_state_initial_file", "triple_state_dyna"];
    let crossed = ["twin_state_crossed", "triple_state_crossed", "triple_state_crossed_dyna"];
    let exchanged = BTreeSet::from([("unexpected-error".to_owned(), "exchanged-states".to_owned())]);
    let of = |all: &[&'static str], expected| {
        all.iter().map(|family| (*family, BTreeSet::clone(&expected))).collect::<Vec<_>>()
    };
    let cases = [of(&right, BTreeSet::new()), of(&crossed, exchanged)].concat();
    at_the_same_time(&cases, |(family, expected)| {
        let model = triton.load(&Own::like(&format!("{family}_sequence_int32")));
        assert_eq!(found(&triton, &model, 3), *expected, "{family}");
    });
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn planted_faults_of_states_are_found_and_named_in_models_with_three_of_them() {
    let triton = Triton::native();
    // What goes wrong in a sequence for the second time may look like something else. Without an initial state, a START whose states are not
    // kept leaves what was there before, which is of no step.
    let cases = [
        ("exchange-states:0.05", ("unexpected-error", "exchanged-states"), true),
        ("state-half-saved:0.05", ("unexpected-error", "states-of-several-steps"), true),
        ("swap-states:0.05", ("wrong-sum", "swapped-states"), false),
        ("state-not-saved:0.05", ("wrong-sum", "effect-lost"), false),
        ("state-of-another-slot:0.05", ("wrong-sum", "leaked-state"), false),
    ];
    at_the_same_time(&cases, |(fault, (kind, cause), is_alone)| {
        let model =
            triton.load(&Own { parameters: &[("fault", fault)], ..Own::like("triple_state_initial_sequence_int32") });
        let found = found(&triton, &model, 4);
        assert!(found.contains(&((*kind).to_owned(), (*cause).to_owned())), "{fault}: {found:?}");
        assert!(found.iter().all(|(its, _)| its == kind) && (found.len() == 1 || !is_alone), "{fault}: {found:?}");
    });
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn release_24_10_gives_a_state_of_open_shape_in_one_buffer_its_first_shape() {
    let triton = Triton::aside();
    let model = triton.load(&Own::like("triple_state_sequence_int32"));
    let (_, mut config) = triton.ask("GET", &format!("/v2/models/{model}/config"), &Value::Null);
    for one_buffer in [false, true] {
        let states = config["sequence_batching"]["state"].as_array_mut().expect("a list");
        for state in states {
            state["use_same_buffer_for_input_output"] = one_buffer.into();
        }
        load(&triton, &model, &config);
        assert_eq!(triton.step(&model, 7, 8, true), Ok(8));
        let second = triton.step(&model, 7, 1, false);
        let wrong = "tensor 'MIDDLE_STATE': its shape [1, 1] and its 36 bytes do not agree";
        assert_eq!(second, if one_buffer { Err(wrong.to_owned()) } else { Ok(9) });
    }
}
