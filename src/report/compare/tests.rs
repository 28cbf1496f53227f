use serde_json::{Value, json};

use super::*;
use crate::compare::tests::{ASKED, ran, result};

/// What a comparison of these results prints, its exit code and its JSON.
fn told(old: &[Value], new: &[Value], held: bool, quiet: bool) -> (String, u8, Value) {
    let runs = |name: &str, side: &[Value]| -> Vec<Ran> {
        (1..).zip(side).map(|(place, result)| ran(&format!("{name}-{place}.json"), result)).collect()
    };
    let (old, new) = (runs("old", old), runs("new", new));
    let comparisons = vec![Comparison::of(&old, &new, ASKED).expect("they are alike")];
    let compare = Compare { comparisons, least: ASKED.least, warm_up_s: ASKED.warm_up_s, held };
    let mut text = Vec::new();
    compare.write(quiet, &mut text).expect("memory takes it");
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    (text, compare.exit_code(), serde_json::from_slice(&compare.to_json()).expect("JSON"))
}

#[test]
fn a_regression_comes_first_and_the_table_follows() {
    let mut new = result(40, 12.1);
    (new["server_version"], new["model"]["slots"]) = (json!("triton 2.52.0"), json!(16));
    let (text, code, json) = told(&[result(40, 10.0)], &[new], false, false);
    insta::assert_snapshot!(text);
    assert_eq!((code, &json["exit_code"]), (5, &json!(5)));
    let comparison = &json["comparisons"][0];
    assert_eq!((&comparison["finding"], &comparison["doubt"]), (&json!("regression"), &Value::Null));
    let first = &comparison["measures"][0];
    assert_eq!(
        (&first["name"], &first["difference"], &first["unit"]),
        (&json!("step.mean"), &json!("worse"), &json!("us"))
    );
    assert!((first["ratio"].as_f64().expect("a number") - 1.21).abs() < 1e-6, "{first}");
}

#[test]
fn no_regression_says_what_was_seen_instead() {
    let (text, code, _) = told(&[result(40, 10.0)], &[result(40, 10.3)], false, true);
    insta::assert_snapshot!(text);
    assert_eq!(code, 0);
}

#[test]
fn what_is_not_known_says_what_helps() {
    let (text, code, json) = told(&[result(5, 10.0)], &[result(40, 12.0)], false, true);
    assert!(
        text.starts_with("UNKNOWN: too short to say: the seconds of the series make 3 independent blocks"),
        "{text}"
    );
    assert_eq!((code, &json["comparisons"][0]["measures"][0]["ratio"]), (3, &Value::Null));
    let two = [result(9, 10.0), result(9, 10.0)];
    let (text, code, _) = told(&two, &two, false, true);
    assert!(text.starts_with("UNKNOWN: too few runs to say: 2, and 3 are needed on each side"), "{text}");
    assert_eq!(code, 3);
}

#[test]
fn a_run_that_was_not_valid_is_named() {
    let changed = |verdict: &str, key: &str, value: Value| {
        let mut new = result(40, 10.0);
        (new["verdict"], new[key]) = (json!(verdict), value);
        new
    };
    let old = result(40, 10.0);
    for (new, expected, code) in [
        (
            changed("invalid", "violations_by_kind", json!({ "wrong-sum": 3 })),
            "note: new-1.json: the run is INVALID: wrong-sum 3; again: sequence-stress -r 7",
            1,
        ),
        (
            changed("unknown", "doubts", json!(["the run was interrupted"])),
            "note: new-1.json: the run is UNKNOWN: the run was interrupted",
            0,
        ),
        (
            changed("valid", "missed_thresholds", json!(["a response took 9 s"])),
            "note: new-1.json: the run missed a threshold: a response took 9 s",
            0,
        ),
    ] {
        let (text, of_held, _) = told(std::slice::from_ref(&old), std::slice::from_ref(&new), true, true);
        assert!(text.contains(expected), "{text}");
        assert_eq!(of_held, code, "{text}");
        // Of results that are there, violations were reported before.
        assert_eq!(told(std::slice::from_ref(&old), &[new], false, true).1, 0);
    }
    assert!(!told(std::slice::from_ref(&old), std::slice::from_ref(&old), true, true).0.contains("old-1"));
}

#[test]
fn figures_have_three_digits_and_a_unit() {
    for (quantity, value, expected) in [
        (Quantity::Time, 7.0, "7.00 µs"),
        (Quantity::Time, 12_345.0, "12.3 ms"),
        (Quantity::Time, 1_234_567.0, "1235 ms"),
        (Quantity::Rate, 1108.4, "1108/s"),
        (Quantity::Batch, 3.5, "3.50"),
        (Quantity::Cpu, 24.44, "24.4 %"),
        (Quantity::Memory, 53_200_000.0, "53.2 MB"),
    ] {
        assert_eq!(figure(quantity, value), expected);
    }
    for (ratio, expected) in [(1.0, "+0"), (0.9999, "+0"), (1.214, "+21"), (0.5, "-50"), (40.0, "×40")] {
        assert_eq!(signed(ratio), expected);
    }
    assert_eq!((percent(0.05), percent(0.025)), ("5 %".to_owned(), "2.5 %".to_owned()));
}
