//! `sequence-stress hostile` against real servers, which some of its requests end.

use crate::support::triton::{text, with_triton};

/// What the tool says, and its exit code, of requests of these kinds: number 0, and one neighbour.
fn hostile(server: &[&str], kinds: &str) -> (Option<i32>, String) {
    let tool = [env!("CARGO_BIN_EXE_sequence-stress"), "hostile", "--yes-this-may-end-the-server", "-r", "1"];
    let only = ["--only", kinds, "--neighbours", "1"];
    // So long that no live sequence goes idle while a server is started again.
    let server = [server, &["--idle-limit-ms", "20000"]].concat();
    let output = with_triton(&server, &[&tool[..], &only].concat()).output().expect("it runs");
    (output.status.code(), text(&output))
}

fn assert_ended(server: &[&str], kinds: &str, parts: &[&str]) {
    let (code, text) = hostile(server, kinds);
    assert_eq!(code, Some(1), "{text}");
    for part in parts.iter().chain(&["\n  harmed others      0\n"]) {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_request_that_ends_a_release_is_named_and_others_are_not() {
    let parts = [
        "ENDED the server: json-shape number 0 (CWE-789, server#8676), seed 1\n",
        "\n  many-chunks          2  HTTP 200: 2\n",
    ];
    assert_ended(&[], "json-shape,many-chunks", &parts);
    let (code, text) = hostile(&[], "many-chunks,output-twice");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("SURVIVED: 4 hostile requests to triton "), "{text}");
}

#[test]
#[ignore = "needs the front ends that SEQUENCE_STRESS_FRONT_ENDS names the release of: run scripts/test"]
fn newer_front_ends_survive_what_ends_older_ones_and_end_by_another_request() {
    let release = std::env::var("SEQUENCE_STRESS_FRONT_ENDS").expect("scripts/test says which front ends there are");
    let parts = [
        "ENDED the server: header-length number 0 (CWE-248, server#8925), seed 1\n",
        "\n  json-shape           2  HTTP 400: 2\n",
    ];
    assert_ended(&["--frontend", &release], "json-shape,header-length", &parts);
}
