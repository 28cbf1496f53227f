//! Client deadlines in the real tritonserver.

use serde_json::Value;

use crate::support::{
    at_the_same_time,
    triton::{Own, Triton},
};

/// One worker, so that the server executes what does not wait for a batch. Few deadlines: one in some ten thousand ends the server
/// (docs/FINDINGS.md).
const SCENARIO: &str = "
load = { workers = 1, iterations = 24 }
contexts = { common = 0, rare = 6, rare_probability = 1 }
patterns.rare = { deadline = 1 }
length = { min = 3, max = 3, constant = 3 }
values.uniform = { min = -2147483648, max = 2147483647 }
sending = { window = 1, deadline_ms = { constant = 50 } }
limits = { lost_after_ms = 120000, connect_ms = 120000 }
claims = { deadline-passed = 10 }
";

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_start_whose_deadline_passes_in_the_queue_is_dropped_under_oldest_and_that_is_named() {
    let server = Triton::aside();
    for transport in ["grpc-stream", "grpc-unary"] {
        at_the_same_time(&["oldest_sequence_int32", "implicit_dyna_sequence_int32"], |like| {
            // A request waits three deadlines for others that never come.
            let model = server.load(&Own { queue_delay_ms: 150, idle_ms: 5000, ..Own::like(like) });
            let result = server.stress(&model, SCENARIO, &["-r", "5", "--transport", transport]);
            let violations = result["violations"].as_array().expect("a list");
            assert!(!violations.is_empty(), "{like}, {transport}: {result:#}");
            // Where a state is undefined it may, by chance, be one that another cause explains.
            let is_named = |violation: &Value| violation["explanations"][0]["cause"] == "start-dropped";
            assert!(violations.iter().any(is_named), "{like}, {transport}: {violations:#?}");
            for violation in violations {
                assert_eq!(violation["kind"], "wrong-sum", "{like}, {transport}: {violation:#}");
            }
        });
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn what_is_executed_beyond_its_deadline_is_right() {
    let server = Triton::aside();
    at_the_same_time(&["grpc-stream", "grpc-unary", "http-binary"], |transport| {
        // Longer than the deadline; nothing waits before it.
        let model = server.load(&Own { execute_ms: 100, idle_ms: 5000, ..Own::like("custom_sequence_int32") });
        let result = server.stress(&model, SCENARIO, &["-r", "5", "--transport", transport]);
        assert_eq!(result["verdict"], "valid", "{transport}: {result:#}");
        let unheard = &result["server_counts"]["unheard"];
        // A machine that is busy may take as long as the deadline to connect.
        assert!(unheard["executed"].as_u64() >= Some(1), "{transport}: {unheard}");
    });
}
