//! Ensembles of sequence models in the real tritonserver.

use serde_json::{Value, json};

use crate::support::{
    at_the_same_time,
    long::is_long,
    triton::{Own, Triton},
};

const ENSEMBLES: [&str; 3] =
    ["ensemble_sequence_int32", "ensemble_oldest_sequence_int32", "ensemble_two_sequence_int32"];
/// Few iterations and no claims, and an answer is lost when it does not come in two minutes, so that no machine is too slow.
const SHORT: &str = "load.iterations = 8\nlimits.lost_after_ms = 120000\nlimits.connect_ms = 120000\nclaims = {}\n";

fn kinds(result: &Value) -> Vec<String> {
    result["violations_by_kind"].as_object().expect("an object").keys().cloned().collect()
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn ensembles_are_valid() {
    let server = Triton::aside();
    at_the_same_time(&ENSEMBLES, |like| {
        let model = server.load(&Own { idle_ms: 500, ..Own::like(like) }.shape(2, 2));
        let seeds = if is_long() { 10 } else { 3 };
        for seed in 1..=seeds {
            let result = server.stress(&model, SHORT, &["-r", &seed.to_string()]);
            assert_eq!(result["verdict"], "valid", "{like}, seed {seed}: {:#}", result["violations"]);
            assert_eq!(result["server_counts"]["result"], "agrees", "{like}: {:#}", result["server_counts"]);
            assert_eq!(result["slots_check"]["result"], "all-there", "{like}: {:#}", result["slots_check"]);
        }
    });
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn what_a_step_of_an_ensemble_does_wrong_is_found() {
    let server = Triton::aside();
    let rows = [
        ("ensemble_sequence_int32", "reset-state:once@60", "wrong-sum"),
        // The native model itself answers with an error where a control does not say what the request does.
        ("ensemble_oldest_sequence_int32", "end-missing:once@4", "unexpected-error"),
        ("ensemble_two_sequence_int32", "start-missing:once@4", "unexpected-error"),
    ];
    at_the_same_time(&rows, |(like, fault, kind)| {
        let model = server.load(&Own { parameters: &[("fault", fault)], idle_ms: 500, ..Own::like(like) });
        let result = server.stress(&model, SHORT, &["-r", "1"]);
        assert!(kinds(&result).iter().any(|its| its == kind), "{like} {fault}: {:#}", result["violations"]);
    });
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn an_ensemble_says_which_step_rejects_a_request() {
    let server = Triton::aside();
    let model = server.load(&Own::like("ensemble_two_sequence_int32"));
    let text = format!(
        "in ensemble '{model}', inference request for sequence 7 to model '{model}_step1' must specify the START flag on the first \
         request of the sequence"
    );
    assert_eq!(server.step(&model, 7, 5, false), Err(text));
    let step = |flags: Value| {
        let mut parameters = json!({ "sequence_id": 7 });
        parameters.as_object_mut().expect("an object").extend(flags.as_object().expect("an object").clone());
        let inputs = [json!({ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [5] })];
        json!({ "parameters": parameters, "inputs": inputs, "outputs": [{ "name": "OUTPUT" }] })
    };
    let infer = |model: &str, flags| server.ask("POST", &format!("/v2/models/{model}/infer"), &step(flags));
    let (status, answer) = infer(&model, json!({ "sequence_start": true }));
    assert_eq!((status, answer["outputs"][0]["data"][0].as_i64()), (200, Some(6)), "{answer}");
    // A step behind its ensemble's back ends the sequence in the second model alone.
    assert_eq!(infer(&format!("{model}_step2"), json!({ "sequence_end": true })).0, 200);
    let rejection = server.step(&model, 7, 5, false).expect_err("the second step has no sequence");
    assert!(rejection.contains(&format!("to model '{model}_step2' must specify the START flag")), "{rejection}");
}
