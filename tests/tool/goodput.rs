//! What of a server's responses a client can use.

use std::time::Duration;

use crate::support::{
    runs::{run_alone, scenario_at, server_of_four},
    tool::{told, unwrapped},
};
use reference::{Fault, Planted};
use sequence_stress::run::{RunResult, Setup};
use wire::simulation::Simulation;
use workload::seed::Seed;

const COMMON: &str = "
load = { workers = 4, iterations = 20 }
limits.quiet_ms = 20
limits.lost_after_ms = 2000
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 3, no-start = 1 }
sending = { reuse = 'after-response', window = 1 }
slots.check = false
";

fn stress(faults: &[Planted], execution_ms: u64, more: &str) -> RunResult {
    let _simulation = Simulation::begin();
    let server = server_of_four(Duration::from_secs(5), Duration::from_millis(execution_ms), faults);
    let scenario = scenario_at(server.address, &format!("{COMMON}{more}"));
    run_alone(Setup::new(scenario, Seed(3))).expect("a run")
}

#[test]
fn a_correct_servers_responses_and_planned_errors_are_good() {
    let tally = stress(&[], 1, "").tally;
    let total = tally.total();
    assert!(total.rejected > 0 && total.completed > 100, "{total:?}");
    assert_eq!((tally.good(), tally.not_good()), (total.answered(), 0));
}

#[test]
fn what_is_wrong_lost_or_refused_without_need_is_not() {
    for fault in [Fault::OffByOne, Fault::DropResponse, Fault::RejectMidSequence] {
        let result = stress(&[Planted::once(fault, 50)], 1, "");
        let (tally, total) = (&result.tally, result.tally.total());
        assert!(!result.violations.is_empty(), "{fault}");
        assert!(tally.not_good() >= 1 && tally.good() + 20 > total.requests, "{fault}: {} {total:?}", tally.not_good());
        assert!(tally.good() + tally.not_good() <= total.requests, "{fault}: {} {total:?}", tally.not_good());
        assert_eq!(tally.good_at_quantile_us(1.0), None, "{fault}");
        assert!(tally.good_at_quantile_us(0.5).is_some(), "{fault}");
    }
}

#[test]
fn what_comes_late_is_not() {
    let tally = stress(&[], 30, "limits.response_ms = 10").tally;
    assert_eq!((tally.good() + tally.not_good(), tally.good_at_quantile_us(0.5)), (tally.total().answered(), None));
    // Rejections take no time.
    assert!(tally.good() <= tally.total().rejected && tally.not_good() >= tally.total().completed, "{}", tally.good());
}

#[test]
fn both_are_reported_where_they_differ() {
    let run = |fault: &[&str]| told(&[&["--embedded", "-i20", "-r5"], fault].concat());
    let (code, text) = run(&[]);
    assert!(code == Some(0) && !text.contains("goodput"), "{text}");
    let (code, text) = run(&["--fault", "off-by-one:once@100"]);
    assert!(code == Some(1) && unwrapped(&text).contains("goodput "), "{text}");
    let row = text.lines().find(|line| line.starts_with("  good ")).expect("a row of good steps");
    assert!(row.ends_with('∞') && !row.contains("∞ "), "{row}");
}
