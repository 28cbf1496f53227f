//! `sequence-stress hostile`: requests that have ended real servers, and what they do to the sequences of others.

use std::fs;

use tempfile::TempDir;
use wire::hostile::Hostile;

use crate::support::tool::told;

const YES: &str = "--yes-this-may-end-the-server";

fn hostile(more: &[&str]) -> (Option<i32>, String) {
    told(&[&["hostile", "--embedded", "-r", "1", YES][..], more].concat())
}

#[test]
fn nothing_is_sent_unless_the_user_says_so() {
    let (code, text) = told(&["hostile", "--embedded"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(YES) && text.lines().count() == 1, "{text}");
    let (code, text) = hostile(&["--only", "jason"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("give one of json-shape, "), "{text}");
}

#[test]
fn a_correct_server_and_the_sequences_of_others_survive() {
    for model in ["custom_sequence_int32", "oldest_sequence_int32", "custom_sequence_object"] {
        let (code, text) = hostile(&["--neighbours", "2", "-m", model]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.starts_with("SURVIVED: 27 hostile requests ") && text.contains(" 7 live sequences"), "{text}");
        assert!(text.contains("  json-shape           3  HTTP "), "{text}");
    }
}

#[test]
fn a_request_that_ends_the_server_is_named_and_reported_for_the_vendor_alone() {
    let folder = TempDir::new().expect("a folder");
    let reports = folder.path().join("reports");
    let to = ["--only", "output-twice,json-shape", "--reports", reports.to_str().expect("UTF-8")];
    let (code, text) = hostile(&[&to[..], &["--fault", "crash-at-rejection"]].concat());
    assert_eq!(code, Some(1), "{text}");
    for part in [
        "ENDED the server: json-shape number 0 (CWE-789, server#8676), seed 1\n",
        "--only json-shape --number 0 -r 1 -m custom_sequence_int32 --embedded --fault crash-at-rejection\n",
        "\nINVALID: 9 hostile requests ",
        "  not sent           7: the server is gone",
    ] {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
    // What is printed may be shown to others.
    assert!(!text.contains("POST") && !text.contains("\"shape\""), "{text}");
    let report = fs::read_to_string(reports.join("json-shape-1-0.md")).expect("a report");
    for part in [
        "# One HTTP request ends the server\n",
        "for the vendor alone",
        "| CWE-789 ",
        "bytes.fromhex(\"504f5354",
        "backend",
    ] {
        assert!(report.contains(part), "'{part}' is not in: {report}");
    }
}

#[test]
fn what_is_done_to_the_sequences_of_others_is_told() {
    // The sequence before and the first looks have chances before. A long idle limit keeps the live sequences alive on a busy machine.
    for (fault, kind) in [
        ("reset-state:once@5", "wrong-sum"),
        ("reject-mid-sequence:once@5", "spurious-start-error"),
        ("leak-slot-at-end:once@4", "lost"),
    ] {
        let (code, text) =
            hostile(&["--only", "output-twice", "--number", "0", "--idle-limit", "3s", "--fault", fault]);
        assert_eq!(code, Some(1), "{fault}: {text}");
        let told = "HARMED others: output-twice number 0 (CWE-694, core#493), seed 1\n";
        assert!(text.contains(told) && text.contains(&format!("  others saw     {kind} at ")), "{fault}: {text}");
    }
    // What is wrong before is told as that.
    let (code, text) = hostile(&["--fault", "off-by-one"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("before a hostile request is sent (wrong-sum)"), "{text}");
}

#[test]
fn the_page_has_each_kind() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/HOSTILE.md")).expect("a page");
    for kind in Hostile::ALL {
        let row = format!("| `{kind}` | {} | ", kind.class());
        assert!(page.contains(&row), "{row}");
    }
}
