//! Two states of a sequence that the server keeps: which of them comes back in which tensor.

use serde_json::{Value, json};

use crate::support::triton::{Own, Triton};

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
