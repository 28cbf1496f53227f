use std::fs;

use serde_json::json;

use super::*;
use crate::{
    compare::tests::result,
    reading::{LARGEST, TEXT_MAX},
};

fn read(bytes: &[u8]) -> Result<Ran, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("result.json");
    fs::write(&path, bytes).expect("a file");
    Ran::read(&path).map_err(|error| error.replace(&path.display().to_string(), "FILE"))
}

fn with(pointer: &str, value: Value) -> Vec<u8> {
    let mut result = result(20, 10.0);
    *result.pointer_mut(pointer).expect("it is there") = value;
    result.to_string().into_bytes()
}

#[test]
fn a_file_that_is_no_result_is_told_in_one_line() {
    let sound = result(20, 10.0).to_string();
    assert!(read(sound.as_bytes()).is_ok());
    let many = vec![json!({ "at_s": 1, "lasts_s": 1, "responses": 1, "good": 1 }); INTERVALS_MAX + 1];
    let deep = format!("{{\"schema_version\": {}", "[".repeat(100_000)).into_bytes();
    for (bytes, expected) in [
        (b"".to_vec(), "it is no result (EOF"),
        (b"{\"schema_version\": NaN}".to_vec(), "it is no result (expected value"),
        (b"[]".to_vec(), "it is no result (invalid"),
        (b"{}".to_vec(), "it has no schema_version"),
        (b"\x28\xb5\x2f\xfd history".to_vec(), "it is no result (expected value"),
        (deep, "it is no result ("),
        (sound.as_bytes()[..sound.len() / 2].to_vec(), "it is no result (EOF"),
        (with("/schema_version", json!(2)), "its schema_version is 2, and this sequence-stress reads"),
        (with("/schema_version", json!(-1)), "it is no result (invalid value"),
        (with("/series", Value::Null), "it has no series"),
        (with("/series", json!(many)), "its series has 601 intervals, and a run writes at most 600"),
        (with("/series/3/step_p50_us", json!(-5)), "interval 3 of its series has a figure that cannot be"),
        (with("/series/4/good", json!(-1)), "interval 4 of its series has a figure that cannot be"),
        (with("/series/5/lasts_s", json!(0)), "interval 5 of its series has a figure that cannot be"),
        (with("/series/6/step_mean_us", json!(1e300)), "interval 6 of its series has a figure that cannot be"),
        (with("/series/6/step_mean_us", json!("NaN")), "it is no result (invalid type: string"),
        (with("/verdict", json!("fine")), "it is no result (unknown variant"),
        (with("/verdict", json!("a\n\u{1b}[31mb")), "it is no result (unknown variant `a  [31mb`"),
        (with("/verdict", json!("é".repeat(9999))), "it is no result (unknown variant `éé"),
        (with("/scenario", json!("l0")), "it is no result (invalid type: string"),
    ] {
        let error = read(&bytes).expect_err(expected);
        assert!(error.starts_with(&format!("cannot compare FILE: {expected}")), "{error}");
        assert!(error.ends_with("give results that --json of a run wrote") && !error.contains('\n'), "{error}");
    }
    let mut suite = result(20, 10.0);
    suite["scenarios"] = json!([]);
    let error = read(suite.to_string().as_bytes()).expect_err("a suite");
    assert!(error.contains("it is the result of a suite"), "{error}");
    let error = Ran::read(Path::new("/nowhere/result.json")).expect_err("no file");
    assert!(error.starts_with("cannot compare /nowhere/result.json: No such file"), "{error}");
}

#[test]
fn what_is_no_file_or_too_large_is_not_read() {
    for path in ["/dev/zero", "/"] {
        let error = Ran::read(Path::new(path)).expect_err(path);
        assert!(error.contains("it is no file"), "{error}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(LARGEST + 1).expect("a file with a hole");
    let error = Ran::read(file.path()).expect_err("it is too large");
    assert!(error.contains("it has 268435457 bytes, and no result is as large"), "{error}");
}

#[test]
fn texts_of_a_file_are_shown_in_one_line() {
    let ran = read(&with("/server_version", json!("a\r\nb\u{7}c"))).expect("a result");
    assert_eq!(ran.server.as_deref(), Some("a  b c"));
    let ran = read(&with("/replay", json!("é".repeat(9999)))).expect("a result");
    assert_eq!((ran.replay.chars().count(), ran.replay.ends_with('…')), (TEXT_MAX + 1, true));
}

#[test]
fn the_first_difference_is_named_and_long_values_are_cut() {
    let old = json!({ "a": { "b": [1, { "c": 2 }] }, "d": "x" });
    assert_eq!(difference("", &old, &old), None);
    let differs = |new: Value| difference("", &old, &new).expect("they differ");
    assert_eq!(differs(json!({ "a": { "b": [1, { "c": 3 }] }, "d": "x" })), "a.b.1.c: 2 and 3");
    assert_eq!(differs(json!({ "a": { "b": [1] }, "d": "x" })), "a.b: [1,{\"c\":2}] and [1]");
    assert_eq!(differs(json!({ "a": old["a"], "d": "x\ny" })), "d: 'x' and 'x\\ny'");
    assert_eq!(differs(json!({ "a": old["a"], "d": "x", "e": 1 })), "e: none and 1");
    let long = differs(json!({ "a": old["a"], "d": "é".repeat(1000) }));
    assert!(long.ends_with('…') && long.chars().count() < 80, "{long}");
}
