//! Models that get more instances, and that are unloaded and loaded, in the real tritonserver while sequences are live.

use crate::support::{
    long::is_long,
    triton::{Own, Triton},
};

/// The scenario, without limits that a busy machine misses.
const SCENARIO: &str = concat!(
    "limits = { lost_after_ms = 120000, connect_ms = 120000 }\n",
    include_str!("../../scenarios/model-management.toml")
);

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_model_that_gets_more_instances_and_is_unloaded_and_loaded_is_not_accused() {
    let server = Triton::aside();
    for like in ["custom_sequence_int32", "implicit_dyna_sequence_int32"] {
        let model = server.load(&Own { idle_ms: 500, ..Own::like(like) }.shape(1, 4));
        let seeds = if is_long() { 10 } else { 3 };
        for seed in 1..=seeds {
            let result = server.stress(&model, SCENARIO, &["-r", &seed.to_string()]);
            assert_eq!(result["verdict"], "valid", "{like}, seed {seed}: {result:#}");
            let done: Vec<_> = result["phases"]
                .as_array()
                .expect("phases")
                .iter()
                .filter_map(|phase| phase["server"].as_str())
                .collect();
            assert_eq!(done.len(), 3, "{done:?}");
            let slots = &result["slots_check"];
            assert_eq!((slots["result"].as_str(), slots["slots"].as_u64()), (Some("all-there"), Some(4)), "{slots:#}");
        }
    }
}

/// The scenario in which another model is loaded, without limits that a busy machine misses.
const OTHERS: &str = concat!(
    "limits = { lost_after_ms = 120000, connect_ms = 120000 }\n",
    include_str!("../../scenarios/other-models.toml")
);

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_model_beside_another_that_is_loaded_again_and_again_is_not_accused() {
    let server = Triton::aside();
    let other = server.load(&Own::like("custom_sequence_float32"));
    let scenario = OTHERS.replace("custom_sequence_float32", &other);
    for like in ["custom_sequence_int32", "implicit_dyna_sequence_int32"] {
        let model = server.load(&Own { idle_ms: 500, ..Own::like(like) }.shape(1, 4));
        let seeds = if is_long() { 10 } else { 3 };
        for seed in 1..=seeds {
            let result = server.stress(&model, &scenario, &["-r", &seed.to_string()]);
            assert_eq!(result["verdict"], "valid", "{like}, seed {seed}: {result:#}");
            assert_eq!(result["server_counts"]["result"], "agrees", "{like}: {:#}", result["server_counts"]);
            assert!(result["phases"][0]["other_loads"].as_u64() > Some(0), "{:#}", result["phases"]);
        }
    }
}
