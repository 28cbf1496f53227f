use std::path::Path;

use serde_json::{Value, json};

use super::*;

/// A result with so many seconds, in which each latency is `ms` long and a little more or less in turn.
pub(crate) fn result(seconds: usize, ms: f64) -> Value {
    let row = |at: usize| {
        let us = 1000.0 * ms * if at.is_multiple_of(2) { 0.99 } else { 1.01 };
        json!({
            "at_s": at, "lasts_s": 1, "responses": 100, "good": 100, "requests": 100,
            "step_mean_us": us, "step_p50_us": us, "step_p99_us": 2.0 * us,
            "sequence_mean_us": 5.0 * us, "sequence_p50_us": 5.0 * us, "sequence_p99_us": 9.0 * us,
            "wait_for_slot_mean_us": null, "server_queue_us": 100.0 + us, "mean_batch": 3.5,
            "client_cpu_percent": 20.0, "client_memory_bytes": 50_000_000,
        })
    };
    json!({
        "schema_version": crate::report::SCHEMA_VERSION, "tool_version": "0.1.0", "server_version": "triton 2.51.0",
        "verdict": "valid", "exit_code": 0, "doubts": [], "missed_thresholds": [], "violations_by_kind": {}, "seed": 7,
        "replay": "sequence-stress -r 7", "embedded": false, "elapsed_s": seconds,
        "host": { "name": "here", "os": "linux", "arch": "x86_64", "cpus": 2 },
        "model": { "name": "m", "input": { "name": "INPUT" }, "slots": 8 },
        "scenario": { "load": { "workers": 8, "duration_s": 60 }, "claims_from": 0, "target": { "endpoint": "one:8001", "model": "m" } },
        "series": (0..seconds).map(row).collect::<Vec<_>>(),
    })
}

/// The run that has this result, in a file of this name.
pub(crate) fn ran(name: &str, result: &Value) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("result.json");
    std::fs::write(&path, result.to_string()).expect("a file");
    let mut ran = Ran::read(&path).expect("a result");
    ran.file = Path::new(name).to_owned();
    ran
}

pub(crate) const ASKED: Asked = Asked { least: 0.05, warm_up_s: 2 };

fn with(mut result: Value, pointer: &str, value: Value) -> Value {
    *result.pointer_mut(pointer).expect("it is there") = value;
    result
}

fn finding(old: &Value, new: &Value) -> (Finding, Vec<(Measure, Difference)>) {
    let (old, new) = ([ran("old.json", old)], [ran("new.json", new)]);
    let comparison = Comparison::of(&old, &new, ASKED).expect("they are alike");
    let differ = comparison.rows.iter().filter(|row| row.difference != Difference::None);
    (comparison.finding(), differ.map(|row| (row.measure, row.difference)).collect())
}

#[test]
fn a_difference_counts_if_it_is_certain_large_enough_and_felt() {
    let old = result(40, 10.0);
    assert_eq!(finding(&old, &old), (Finding::NoRegression, vec![]));
    let (found, differ) = finding(&old, &result(40, 12.0));
    assert_eq!((found, differ[0]), (Finding::Regression, (Measure::StepMean, Difference::Worse)));
    assert!(differ.contains(&(Measure::ServerQueue, Difference::Worse)), "{differ:?}");
    let (found, differ) = finding(&old, &result(40, 8.0));
    assert_eq!((found, differ[0]), (Finding::NoRegression, (Measure::StepMean, Difference::Better)));
    let (found, differ) = finding(&old, &result(40, 10.3));
    assert_eq!((found, differ[0]), (Finding::NoRegression, (Measure::StepMean, Difference::Slight)));

    // What a user does not feel is no regression.
    let changed = |key: &str, value: Value| {
        let mut new = old.clone();
        new["series"].as_array_mut().expect("rows").iter_mut().for_each(|row| row[key] = value.clone());
        finding(&old, &new)
    };
    let cpu = vec![(Measure::ClientCpu, Difference::Worse)];
    assert_eq!(changed("client_cpu_percent", json!(40.0)), (Finding::NoRegression, cpu));
    assert_eq!(changed("mean_batch", json!(7)), (Finding::NoRegression, vec![(Measure::MeanBatch, Difference::Other)]));
    // Less is worse of goodput, and nothing at all is the worst.
    for good in [80, 0] {
        assert_eq!(changed("good", json!(good)), (Finding::Regression, vec![(Measure::Goodput, Difference::Worse)]));
    }
    assert_eq!(changed("good", json!(120)), (Finding::NoRegression, vec![(Measure::Goodput, Difference::Better)]));
}

#[test]
fn a_rate_fixes_the_throughput() {
    let measures = |result: &Value| {
        let runs = [ran("a.json", result)];
        Comparison::of(&runs, &runs, ASKED).expect("alike").rows.iter().map(|row| row.measure).collect::<Vec<_>>()
    };
    let closed = result(40, 10.0);
    let open = with(closed.clone(), "/scenario/load", json!({ "workers": 8, "rate": "20/s" }));
    let populations = json!({ "population": [{ "load": { "workers": 8, "rate": "20/s" } }] });
    let several = with(closed.clone(), "/scenario", populations);
    let has = |result| measures(result).contains(&Measure::Throughput);
    assert!(has(&closed) && !has(&open) && !has(&several));
    assert!(measures(&open).contains(&Measure::Goodput));
}

#[test]
fn the_warm_up_and_an_interval_that_is_cut_short_do_not_count() {
    let old = result(40, 10.0);
    let mut new = old.clone();
    let rows = new["series"].as_array_mut().expect("rows");
    for at in [0, 1, 39] {
        rows[at]["step_p50_us"] = json!(1_000_000);
    }
    new["elapsed_s"] = json!(39.5);
    assert_eq!(finding(&old, &new), (Finding::NoRegression, vec![]));
    new["elapsed_s"] = json!(40.0);
    let runs = [ran("new.json", &new)];
    let comparison = Comparison::of(&runs, &runs, ASKED).expect("alike");
    assert_eq!(comparison.observed, Observed::Blocks { old: 38, new: 38 });
}

#[test]
fn too_little_is_unknown_and_a_regression_is_one_all_the_same() {
    let doubt = |old: &Value, new: &Value| {
        let (old, new) = ([ran("old.json", old)], [ran("new.json", new)]);
        Comparison::of(&old, &new, ASKED).expect("alike").doubt()
    };
    let (short, long) = (result(5, 10.0), result(40, 10.0));
    assert_eq!(doubt(&short, &long), Some(Doubt::FewBlocks { blocks: 3, least: 8 }));
    assert_eq!(finding(&short, &long).0, Finding::Unknown);
    assert_eq!(doubt(&long, &long), None);
    let mut silent = long.clone();
    silent["series"].as_array_mut().expect("rows").iter_mut().for_each(|row| {
        for key in ["step_mean_us", "step_p50_us"] {
            row[key] = Value::Null;
        }
    });
    assert_eq!(doubt(&long, &silent), Some(Doubt::NothingMeasured));
    assert_eq!(doubt(&with(long.clone(), "/series", json!([])), &long), Some(Doubt::NothingMeasured));
    // Latencies that jump hide everything; goodput that is gone is seen beside them.
    let mut noisy = long.clone();
    for (at, row) in noisy["series"].as_array_mut().expect("rows").iter_mut().enumerate() {
        for key in ["step_mean_us", "step_p50_us"] {
            row[key] = json!(if at % 5 == 0 { 90_000 } else { 3_000 });
        }
    }
    assert_eq!(doubt(&long, &noisy), Some(Doubt::TooNoisy));
    noisy["series"].as_array_mut().expect("rows").iter_mut().for_each(|row| row["good"] = json!(1));
    assert_eq!(finding(&long, &noisy).0, Finding::Regression);
}

#[test]
fn several_runs_are_pairs_if_their_seeds_are() {
    let runs = |ms: [f64; 3], seeds: [u64; 3]| -> Vec<Ran> {
        let one = |(ms, seed)| ran(&format!("{seed}.json"), &with(result(9, ms), "/seed", json!(seed)));
        ms.into_iter().zip(seeds).map(one).collect()
    };
    let compared = |old: &[Ran], new: &[Ran]| {
        let comparison = Comparison::of(old, new, ASKED).expect("alike");
        (comparison.observed, comparison.finding())
    };
    // The rounds differ by half, and the new run is slower by a fifth in each.
    let (old, new) = (runs([10.0, 15.0, 22.0], [1, 2, 3]), runs([18.2, 12.0, 26.0], [2, 1, 3]));
    assert_eq!(compared(&old, &new), (Observed::Pairs(3), Finding::Regression));
    let others = runs([18.2, 12.0, 26.0], [2, 1, 4]);
    assert_eq!(compared(&old, &others), (Observed::Runs { old: 3, new: 3 }, Finding::Unknown));
    let same = runs([18.2, 12.0, 26.0], [2, 2, 3]);
    assert_eq!(compared(&same, &same), (Observed::Runs { old: 3, new: 3 }, Finding::Unknown));
    assert_eq!(compared(&old[..2], &new[..2]), (Observed::Pairs(2), Finding::Unknown));
    let error = Comparison::of(&old, &new[..1], ASKED).expect_err("one against several");
    assert_eq!(error, "cannot compare 3 with 1: give one result against one, or several on each side (--vs)");
}

#[test]
fn results_of_different_things_are_not_compared() {
    let old = result(40, 10.0);
    for (pointer, value, expected) in [
        ("/model/name", json!("other"), "model.name: 'm' and 'other'"),
        ("/model/input/name", json!("IN"), "model.input.name: 'INPUT' and 'IN'"),
        ("/embedded", json!(true), "embedded: false and true"),
        ("/scenario/load/workers", json!(16), "scenario.load.workers: 8 and 16"),
        ("/scenario/load", json!({ "workers": 8 }), "scenario.load.duration_s: 60 and none"),
    ] {
        let (old, new) = ([ran("old.json", &old)], [ran("new.json", &with(old.clone(), pointer, value))]);
        let error = Comparison::of(&old, &new, ASKED).expect_err(pointer);
        let expected = format!(
            "cannot compare old.json with new.json: {expected}; both runs need the same model and the same scenario"
        );
        assert_eq!(error, expected);
    }
    // Another server may be elsewhere, have another version and another number of slots.
    let mut new = with(old.clone(), "/scenario/target/endpoint", json!("two:8001"));
    new["scenario"]["claims_from"] = json!(9);
    (new["server_version"], new["model"]["slots"]) = (json!("triton 2.52.0"), json!(16));
    let (old, new) = ([ran("old.json", &old)], [ran("new.json", &new)]);
    assert!(Comparison::of(&old, &new, ASKED).is_ok());
    assert_eq!(old[0].configured_otherwise(&new[0]), Some("model.slots: 8 and 16".to_owned()));
}
