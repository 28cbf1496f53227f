//! What configurations say, and what is rejected.

#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::*;

/// A model that is right: INT32 on Direct, with all controls.
fn config() -> Value {
    json!({
        "max_batch_size": 4,
        "input": [{ "name": "INPUT", "data_type": "TYPE_INT32", "dims": [-1] }],
        "output": [{ "name": "OUTPUT", "data_type": "TYPE_INT32", "dims": ["-1"] }],
        "sequence_batching": {
            "direct": {},
            "control_input": [
                { "name": "START", "control": [{ "kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1] }] },
                { "name": "END", "control": [{ "kind": "CONTROL_SEQUENCE_END", "fp32_false_true": [0.0, 1.0] }] },
                { "name": "READY", "control": [{ "kind": "CONTROL_SEQUENCE_READY", "bool_false_true": [false, true] }] },
                { "name": "CORRID", "control": [{ "kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64" }] },
            ],
        },
    })
}

fn state(datatype: &str, initial: &Value) -> Value {
    json!({ "input_name": "INPUT_STATE", "output_name": "OUTPUT_STATE", "data_type": datatype, "initial_state": initial })
}

/// With other values at these places.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut config = config();
    for (place, value) in changes {
        let (parent, key) = place.rsplit_once('/').expect("a place");
        let parent = config.pointer_mut(parent).expect("the place is there");
        match (parent, value) {
            (Value::Object(parent), Value::Null) => drop(parent.remove(key)),
            (Value::Object(parent), value) => drop(parent.insert(key.to_owned(), value.clone())),
            (Value::Array(parent), Value::Null) => drop(parent.remove(key.parse().expect("an index"))),
            (Value::Array(parent), value) => parent[key.parse::<usize>().expect("an index")] = value.clone(),
            (parent, _) => panic!("{parent} has no parts"),
        }
    }
    config
}

fn read(changes: &[(&str, Value)]) -> Result<Spec, String> {
    Spec::read(&with(changes).to_string())
}

fn parameters(given: &[(&str, &str)]) -> (&'static str, Value) {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), json!({ "string_value": value })));
    ("/parameters", given.collect::<serde_json::Map<_, _>>().into())
}

/// Of the stateless formula, and these.
fn stateless(more: &[(&str, &str)]) -> (&'static str, Value) {
    parameters(&[&[("sequence_stress_formula", "ready-times-input-plus-start")], more].concat())
}

const START: &str = "/sequence_batching/control_input/0";
const END: &str = "/sequence_batching/control_input/1";
const READY: &str = "/sequence_batching/control_input/2";
const CORRID: &str = "/sequence_batching/control_input/3";
const DIRECT: &str = "/sequence_batching/direct";
const OLDEST: &str = "/sequence_batching/oldest";
const STATE: &str = "/sequence_batching/state";

#[test]
fn what_a_configuration_says_is_what_the_model_is() {
    let spec = read(&[]).expect("it is right");
    assert!(spec.batches && !spec.decoupled && !spec.is_iterative() && spec.state.is_none());
    assert_eq!(
        (spec.key, spec.shape_of(Seen::Slot), spec.parameters.check_controls),
        (StateKey::Corrid, vec![1, 1], true)
    );
    assert_eq!(spec.parameters.hold.as_secs(), 10);
    let spec = read(&[
        ("/max_batch_size", json!(0)),
        (CORRID, Value::Null),
        ("/model_transaction_policy", json!({ "decoupled": true })),
        ("/sequence_batching/iterative_sequence", json!(true)),
        parameters(&[("execute_delay_ms", "0.5"), ("check_controls", "false"), ("note", "anything"), ("fault", "")]),
    ]);
    let spec = spec.expect("it is right");
    assert!(!spec.batches && spec.decoupled && spec.is_iterative());
    assert_eq!((spec.key, spec.shape_of(Seen::Slot), spec.parameters.check_controls), (StateKey::Slot, vec![1], false));
    assert_eq!(spec.parameters.execution.as_micros(), 500);
    let initial = json!([{ "name": "begin", "zero_data": true }]);
    for (initial, has_initial) in [(json!([]), false), (initial.clone(), true)] {
        let spec = read(&[(STATE, json!([state("TYPE_INT32", &initial)]))]).expect("it is right");
        assert_eq!(spec.state.map(|state| state.has_initial), Some(has_initial));
    }
    let without_start = read(&[(STATE, json!([state("TYPE_INT32", &initial)])), (START, Value::Null)]);
    assert!(without_start.expect("the state tells where a sequence begins").controls.start.is_none());
    let only_start = read(&[
        (DIRECT, Value::Null),
        (OLDEST, json!({})),
        (END, Value::Null),
        ("/sequence_batching/control_input/1", Value::Null),
    ]);
    let only_start = only_start.expect("Oldest needs neither END nor READY").controls;
    assert!(only_start.end.is_none() && only_start.ready.is_none() && only_start.corrid.is_some());
}

#[test]
fn the_first_kind_of_control_is_the_one_that_goes_without_saying() {
    let spec = read(&[("/sequence_batching/control_input/0/control/0/kind", Value::Null)]).expect("it is right");
    assert_eq!(spec.controls.start.map(|start| start.tensor.to_string()), Some("START".to_owned()));
}

#[test]
fn outputs_are_the_result_and_what_the_model_saw_in_any_order() {
    let output = |name: &str, datatype: &str| json!({ "name": name, "data_type": datatype });
    let seen = json!([output("SLOT", "TYPE_INT32"), output("SUM", "TYPE_INT32"), output("SAW_CORRID", "TYPE_UINT64")]);
    let spec = read(&[("/output", seen)]).expect("it is right");
    let names: Vec<_> = spec.outputs.iter().map(ToString::to_string).collect();
    assert_eq!(
        (names, spec.seen),
        (vec!["SUM".into(), "SLOT".into(), "SAW_CORRID".into()], vec![Seen::Slot, Seen::Corrid])
    );
}

#[test]
#[rustfmt::skip]
fn what_a_model_cannot_be_is_rejected_with_the_tensor_or_the_parameter() {
    let output = |name: &str, datatype: &str| json!({ "name": name, "data_type": datatype });
    let two = |name: &str, datatype: &str| json!([output("OUTPUT", "TYPE_INT32"), output(name, datatype)]);
    let control = |control: Value| json!({ "name": "CONTROL", "control": [control] });
    let zero = json!([{ "zero_data": true }]);
    let int32 = |initial: &Value| json!([state("TYPE_INT32", initial)]);
    let formula = parameters(&[("sequence_stress_formula", "running-sum-plus-corrid-at-end")]);
    let copies = || parameters(&[("sequence_stress_states", "copies")]);
    let open = |dims: &[i64]| {
        let mut state = state("TYPE_INT32", &json!([]));
        state["dims"] = json!(dims);
        state
    };
    let by_slot = parameters(&[("state_key", "slot")]);
    let cases: Vec<(Vec<(&str, Value)>, &str)> = vec![
        (vec![("/sequence_batching", Value::Null)], "sequence_batching is missing"),
        (vec![("/input", json!([]))], "input: one is wanted, and there are 0"),
        (vec![("/input", two("OTHER", "TYPE_INT32"))], "input: one is wanted, and there are 2"),
        (vec![("/input/0/data_type", json!("TYPE_INVALID"))], "tensor 'INPUT': data type TYPE_INVALID is not served"),
        (vec![("/input/0/data_type", json!("TYPE_BOOL"))], "input 'INPUT': TYPE_BOOL has no sum"),
        (vec![("/input/0/name", json!("IN\0PUT"))], "there is a NUL in its name"),
        (vec![("/input/0/data_type", Value::Null)], "the configuration cannot be read: missing field `data_type`"),
        (vec![("/output", json!([]))], "output: one for the result is wanted"),
        (vec![("/output", json!([output("SLOT", "TYPE_INT32")]))], "output: one for the result is wanted"),
        (vec![("/output/0/data_type", json!("TYPE_FP32"))], "output 'OUTPUT': it is TYPE_FP32 and has to be TYPE_INT32"),
        (vec![("/output/0/data_type", json!("TYPE_BF16"))], "tensor 'OUTPUT': data type TYPE_BF16 is not served, because its sums are exact up to 256 alone"),
        (vec![("/output", two("SECOND", "TYPE_INT32"))], "outputs 'OUTPUT' and 'SECOND': one of them is the result, and the other one none of SAW_START"),
        (vec![("/output", two("SLOT", "TYPE_INT64"))], "output 'SLOT': it is TYPE_INT64 and has to be TYPE_INT32"),
        (vec![("/output", two("SAW_CORRID", "TYPE_INT32"))], "output 'SAW_CORRID': it is TYPE_INT32 and has to be TYPE_UINT64"),
        (vec![("/output", two("SAW_CORRID", "TYPE_UINT64")), (CORRID, Value::Null)], "output 'SAW_CORRID': control_input has no CONTROL_SEQUENCE_CORRID"),
        (vec![("/output", two("SAW_END", "TYPE_INT32")), (END, Value::Null)], "output 'SAW_END': control_input has no CONTROL_SEQUENCE_END"),
        (vec![("/output", two("SAW_READY", "TYPE_INT32")), (READY, Value::Null)], "output 'SAW_READY': control_input has no CONTROL_SEQUENCE_READY"),
        (vec![("/output", two("SAW_START", "TYPE_INT32")), (START, Value::Null)], "output 'SAW_START': control_input has no CONTROL_SEQUENCE_START"),
        (vec![("/output/0/dims", json!([2]))], "output 'OUTPUT': its dims are [2] and have to be [-1]"),
        (vec![("/output", json!([output("OUTPUT", "TYPE_INT32"), { "name": "SLOT", "data_type": "TYPE_INT32", "dims": ["3"] }]))], "output 'SLOT': its dims are [3] and have to be [1]"),
        (vec![(START, Value::Null)], "CONTROL_SEQUENCE_START is missing"),
        (vec![(START, Value::Null), (STATE, int32(&json!([])))], "CONTROL_SEQUENCE_START is missing"),
        (vec![(READY, Value::Null)], "CONTROL_SEQUENCE_READY is missing: with Direct"),
        (vec![(READY, Value::Null), (STATE, int32(&zero))], "CONTROL_SEQUENCE_READY is missing: with Direct"),
        (vec![(END, Value::Null), formula.clone()], "CONTROL_SEQUENCE_END is missing: sequence_stress_formula"),
        (vec![(CORRID, Value::Null), formula], "CONTROL_SEQUENCE_CORRID is missing: sequence_stress_formula"),
        (vec![(CORRID, Value::Null), parameters(&[("state_key", "corrid")])], "CONTROL_SEQUENCE_CORRID is missing: parameter 'state_key' is 'corrid'"),
        (vec![(CORRID, Value::Null), (DIRECT, Value::Null), (OLDEST, json!({}))], "CONTROL_SEQUENCE_CORRID is missing: with Oldest"),
        (vec![(DIRECT, Value::Null), (OLDEST, json!({})), by_slot.clone()], "parameter 'state_key': with Oldest"),
        (vec![(STATE, int32(&zero)), by_slot], "parameter 'state_key': the server keeps this model's state"),
        (vec![(STATE, int32(&zero)), ("/sequence_batching/iterative_sequence", json!(true))], "iterative_sequence: "),
        (vec![(STATE, json!([state("TYPE_FP32", &zero)]))], "state 'INPUT_STATE': it is TYPE_FP32 and has to be TYPE_INT32"),
        (vec![(STATE, json!([state("TYPE_BF16", &zero)]))], "tensor 'INPUT_STATE': data type TYPE_BF16 is not served"),
        (vec![(STATE, json!(vec![state("TYPE_INT32", &zero); 3]))], "state: one or two are served, and there are 3"),
        (vec![(STATE, json!([state("TYPE_INT32", &zero), state("TYPE_INT32", &json!([]))]))], "states 'INPUT_STATE' and 'INPUT_STATE': one of them has an initial_state; give it to all or to none"),
        (vec![(STATE, json!([state("TYPE_FP32", &zero), state("TYPE_INT32", &zero)]))], "state 'INPUT_STATE': it is TYPE_FP32 and has to be TYPE_INT32"),
        (vec![(STATE, json!([state("TYPE_INT32", &zero), state("TYPE_BOOL", &zero)]))], "state 'INPUT_STATE': TYPE_BOOL has no sum"),
        (vec![(STATE, int32(&zero)), ("/output", two("COUNT", "TYPE_INT64"))], "output 'COUNT': the model has no second state"),
        (vec![("/output", two("COUNT", "TYPE_INT32"))], "output 'COUNT': it is TYPE_INT32 and has to be TYPE_INT64"),
        (vec![(STATE, int32(&zero)), parameters(&[("state_update_order", "reversed")])], "parameter 'state_update_order': the model has no two states"),
        (vec![parameters(&[("sequence_stress_states", "copies")])], "parameter 'sequence_stress_states': the server keeps no state of this model"),
        (vec![parameters(&[("sequence_stress_states", "sums")])], "parameter 'sequence_stress_states': 'sums' is none of count, copies"),
        (vec![copies(), (STATE, json!(vec![state("TYPE_INT32", &zero); 5]))], "state: one to four are served, and there are 5"),
        (vec![copies(), (STATE, json!([state("TYPE_INT32", &zero), state("TYPE_FP32", &json!([]))]))], "states 'INPUT_STATE' and 'INPUT_STATE': one of them has an initial_state; give it to all or to none"),
        (vec![copies(), (STATE, json!([open(&[-1, -1])]))], "state 'INPUT_STATE': one of its dims may be -1, and not several"),
        (vec![copies(), (STATE, int32(&zero)), ("/output", two("COUNT", "TYPE_INT64"))], "output 'COUNT': the model has no second state"),
        (vec![parameters(&[("state_update_order", "sorted")])], "parameter 'state_update_order': 'sorted' is none of declared, reversed"),
        (vec![(END, control(json!({ "kind": "CONTROL_SEQUENCE_NOTHING" })))], "control 'CONTROL': CONTROL_SEQUENCE_NOTHING is not known"),
        (vec![(END, control(json!({ "kind": "CONTROL_SEQUENCE_END" })))], "control 'CONTROL': it needs two values"),
        (vec![(END, control(json!({ "kind": "CONTROL_SEQUENCE_END", "int32_false_true": [1] })))], "control 'CONTROL': it needs two values"),
        (vec![(END, control(json!({ "kind": "CONTROL_SEQUENCE_END", "fp32_false_true": [2.5, 2.5] })))], "control 'CONTROL': its values for false and true are the same"),
        (vec![(CORRID, control(json!({ "kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_FP32" })))], "control 'CONTROL': TYPE_FP32 cannot hold a correlation ID"),
        (vec![(CORRID, control(json!({ "kind": "CONTROL_SEQUENCE_CORRID" })))], "tensor 'CONTROL': data type  is not served"),
        (vec![parameters(&[("exeute_delay_ms", "5")])], "parameter 'exeute_delay_ms' is not known; known are execute_delay_ms"),
        (vec![parameters(&[("execute_delay_ms", "-1")])], "parameter 'execute_delay_ms': '-1' is no time in ms from 0 to 3600000"),
        (vec![parameters(&[("execute_delay_ms", "3600001")])], "parameter 'execute_delay_ms': '3600001'"),
        (vec![parameters(&[("execute_delay_ms", "NaN")])], "parameter 'execute_delay_ms': 'NaN'"),
        (vec![parameters(&[("execute_delay_ms", "")])], "parameter 'execute_delay_ms': ''"),
        (vec![parameters(&[("fault_hold_ms", "soon")])], "parameter 'fault_hold_ms': 'soon' is no time"),
        (vec![parameters(&[("fault_seed", "-1")])], "parameter 'fault_seed': '-1' is no whole number from 0 up"),
        (vec![parameters(&[("fault", "off-by-one,no-such")])], "parameter 'fault': 'no-such' is no fault of a model; those are off-by-one"),
        (vec![parameters(&[("fault", "crash:2")])], "parameter 'fault': 'crash:2': after ':' comes a probability"),
        (vec![parameters(&[("error_on_value", "1.5")])], "parameter 'error_on_value': '1.5' is no number of TYPE_INT32"),
        (vec![parameters(&[("panic_on_value", "2147483648")])], "parameter 'panic_on_value': '2147483648' is no number of TYPE_INT32"),
        (vec![parameters(&[("state_key", "id")])], "parameter 'state_key': 'id' is none of slot, corrid"),
        (vec![parameters(&[("sequence_stress_controls", "SAW")])], "parameter 'sequence_stress_controls': 'SAW' is none of SEEN"),
        (vec![parameters(&[("sequence_stress_controls", "SEEN")])], "parameter 'sequence_stress_controls': there is no output 'SEEN'"),
        (vec![("/output", two("SEEN", "TYPE_INT32"))], "output 'SEEN': it is TYPE_INT32 and has to be TYPE_INT64"),
        (vec![("/output", json!([output("OUTPUT", "TYPE_INT32"), { "name": "SEEN", "data_type": "TYPE_INT64", "dims": [1] }]))], "output 'SEEN': its dims are [1] and have to be [5]"),
        (vec![parameters(&[("check_controls", "no")])], "parameter 'check_controls': 'no' is none of true, false"),
        (vec![parameters(&[("sequence_stress_formula", "sum")])], "parameter 'sequence_stress_formula': 'sum' is none of running-sum"),
        (vec![parameters(&[("sequence_stress_initial_state", "zero")])], "parameter 'sequence_stress_initial_state': 'zero' is no number of TYPE_INT32"),
        (vec![parameters(&[("sequence_stress_initial_state", "5")]), (STATE, int32(&json!([])))], "parameter 'sequence_stress_initial_state': the server keeps this model's state, which has no initial_state"),
        (vec![parameters(&[("sequence_stress_responses", "3")])], "parameter 'sequence_stress_responses': the model is not decoupled"),
        (vec![parameters(&[("sequence_stress_responses", "10001")])], "parameter 'sequence_stress_responses': '10001' is no whole number from 0 to 10000"),
        (vec![parameters(&[("sequence_stress_iterations", "3")])], "parameter 'sequence_stress_iterations': the model is not iterative"),
        (vec![parameters(&[("sequence_stress_iterations", "0")])], "parameter 'sequence_stress_iterations': '0' is no whole number from 1 to 10000"),
        (vec![(STATE, int32(&zero)), stateless(&[])], "state: with 'ready-times-input-plus-start' the model keeps nothing"),
        (vec![stateless(&[("state_key", "slot")])], "parameter 'state_key': with 'ready-times-input-plus-start' the model keeps nothing"),
        (vec![stateless(&[("sequence_stress_initial_state", "5")])], "parameter 'sequence_stress_initial_state': with 'ready-times-input-plus-start'"),
        (vec![stateless(&[]), ("/sequence_batching/iterative_sequence", json!(true))], "iterative_sequence: with 'ready-times-input-plus-start'"),
    ];
    for (changes, reason) in cases {
        let error = read(&changes).map(|_| ()).expect_err(reason);
        assert!(error.contains(reason), "{changes:?} is rejected with '{error}' and not with '{reason}'");
    }
}
