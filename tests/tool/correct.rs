//! Every check of the tool, against a reference server that commits no fault; `tests/tool/detection.rs` has those that do.

use std::time::Duration;

use crate::support::runs::{self, reference_server, run_alone};
use reference::{ModelOptions, Server};
use sequence_stress::{
    probe::Accounting,
    run::{RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::{scenario::Scenario, seed::Seed};

/// Short limits, so that a missing answer is lost soon.
const SCENARIO: &str = "
load = { workers = 3, iterations = 40 }
limits = { lost_after_ms = 1000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1, no-start = 2 }
";

const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";
const IMPLICIT: &str = "implicit_sequence_int32";

fn server(model: &str) -> Server {
    let models = ModelOptions {
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_millis(500),
        execution: Duration::from_millis(u64::from(model == OLDEST)),
        ..ModelOptions::default()
    };
    reference_server(models, &[])
}

fn scenario(server: &Server, model: &str, more: &str) -> Scenario {
    runs::scenario(&format!("{SCENARIO}{more}\ntarget = {{ endpoint = '{}', model = '{model}' }}", server.address))
}

fn run_scenario(scenario: Scenario, seed: u64) -> RunResult {
    let setup = Setup { embedded: true, ..Setup::new(scenario, Seed(seed)) };
    run_alone(setup).expect("the server can be tested")
}

#[test]
fn a_correct_server_is_not_accused() {
    for (seed, model) in
        (0..).zip([DIRECT, OLDEST, IMPLICIT, "implicit_initial_sequence_int32", "custom_nobatch_sequence_int32"])
    {
        let _simulation = Simulation::begin();
        let server = server(model);
        let result = run_scenario(scenario(&server, model, ""), seed);
        assert_eq!(result.violations, [], "{model}");
        let total = result.tally.total();
        assert_eq!((total.indeterminate, total.failed), (0, 0), "{total:?}");
        // Some may be where the process is held up for as long as the idle limit.
        assert!(total.unjudged * 10 < total.completed, "{total:?}");
        assert!(total.rejected > 0 && total.completed > 1000, "{total:?}");
        assert_eq!(total.sequences, total.sequences_as_designed);
        assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{:?}", result.accounting);
    }
}

#[test]
fn a_correct_server_is_not_accused_whatever_the_stream_policy() {
    for sending in [
        "stream = 'per-context'",
        "connection = 'per-worker'",
        "stream = 'per-context'\nsending.connection = 'per-worker'\nsending.window = 1",
        "window = 3\nsending.reuse = 'after-response'",
    ] {
        let _simulation = Simulation::begin();
        let server = server(DIRECT);
        let result = run_scenario(scenario(&server, DIRECT, &format!("sending.{sending}")), 1);
        assert_eq!(result.violations, [], "{sending}");
        assert!(result.tally.total().completed > 1000);
    }
}
