//! What a newcomer tries first: small runs, help, completions.

use std::{fs, process::Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::tool::{Serve, told, tool, unwrapped};

#[test]
fn a_run_that_flags_made_smaller_is_judged_by_what_it_did() {
    for smaller in [&["-i", "5"][..], &["-n", "20"], &["-t", "1", "-i", "10"], &["-c", "4", "-d", "2s"]] {
        let (code, shown) = told(&[&["--embedded", "--idle-limit", "300ms", "-r", "1"], smaller].concat());
        assert_eq!(code, Some(0), "{smaller:?}: {shown}");
        assert!(shown.contains("\nVALID: "), "{smaller:?}: {shown}");
    }
    let small = ["--embedded", "--idle-limit", "300ms", "-r", "1", "-t", "1", "-i", "1"];
    let (code, shown) = told(&small);
    assert!(code == Some(0) && unwrapped(&shown).contains("; a larger run reaches these, too"), "{shown}");
    let (code, shown) = told(&[&small[..], &["--require-claims"]].concat());
    assert!(code == Some(3) && shown.contains("UNKNOWN: not reached: "), "{shown}");
    assert!(shown.contains("-i 1 --require-claims -r 1"), "the replay line keeps the flag: {shown}");
}

/// A scenario of its own size has to reach its claims.
#[test]
fn a_scenario_at_its_own_size_has_to_reach_its_claims() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("s.toml");
    let text = "load = { workers = 2, iterations = 2 }\npatterns.common = { valid = 1 }\nclaims.idle-reap = 1\n";
    fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("UTF-8");
    let scenario = ["--embedded", "--idle-limit", "300ms", "-r", "1", "--scenario", path];
    for (flags, expected) in [(&[][..], 3), (&["-i", "3"], 3), (&["-i", "1"], 0), (&["-i", "1", "--require-claims"], 3)]
    {
        let (code, shown) = told(&[&scenario, flags].concat());
        assert_eq!(code, Some(expected), "{flags:?}: {shown}");
    }
}

#[test]
fn an_endpoint_needs_no_flag() {
    let server = Serve::start(&["--idle-limit", "300ms"]);
    let (code, shown) = told(&[&server.address, "-i", "2", "-t", "2", "-r", "1"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains(&format!("-u {} -m custom_sequence_int32", server.address)), "{shown}");
}

#[test]
fn short_help_fits_on_a_screen_and_a_half_and_long_help_has_every_option() {
    let (code, short) = told(&["-h"]);
    assert!(code == Some(0) && short.lines().count() <= 60, "{} lines: {short}", short.lines().count());
    assert!(short.lines().all(|line| line.chars().count() <= 100), "{short}");
    let (_, long) = told(&["--help"]);
    for heading in ["Load:", "Target:", "Authentication and TLS:", "What to check:", "Output:", "Embedded server:"] {
        assert!(long.contains(&format!("\n{heading}\n")), "{heading}: {long}");
    }
    for option in ["--compression", "--fault-hold", "--history-keep", "--require-claims", "--server-memory"] {
        assert!(long.contains(option) && !short.contains(option), "{option}");
    }
}

#[test]
fn completions_and_a_manual_are_printed() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script) = told(&["completions", shell]);
        assert!(code == Some(0) && script.contains("concurrency") && script.contains("replay"), "{shell}: {script}");
    }
    let (code, manual) = told(&["man"]);
    assert!(code == Some(0) && manual.contains(".TH sequence-stress 1") && manual.contains("concurrency"), "{manual}");
}

#[test]
fn the_suite_writes_the_results_of_all_scenarios_and_leaves_some_out() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("suite.json");
    let file = path.to_str().expect("UTF-8");
    let fault = ["--fault", "keep-state:once@3"];
    let chosen = ["--only", "rapid-cycling,ordering,idle-boundary", "--skip", "idle-boundary", "--jobs", "2"];
    let (code, shown) = told(&[&["suite", "--embedded", "-r", "1", "--json", file], &fault[..], &chosen].concat());
    assert_eq!(code, Some(1), "{shown}");
    let suite: Value = serde_json::from_str(&fs::read_to_string(&path).expect("a file")).expect("JSON");
    assert_eq!((&suite["exit_code"], &suite["seed"]), (&1.into(), &1.into()));
    let scenarios = suite["scenarios"].as_array().expect("a list");
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario["name"].as_str().expect("a name")).collect();
    // They are in the order of the suite, whichever ends first.
    assert_eq!(names, ["rapid-cycling", "ordering"], "{shown}");
    for scenario in scenarios {
        assert_eq!(
            (&scenario["outcome"], &scenario["result"]["verdict"]),
            (&"run".into(), &"invalid".into()),
            "{shown}"
        );
    }
    let schema =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/suite.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a JSON schema");
    let errors: Vec<_> =
        validator.iter_errors(&suite).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn what_is_the_whole_point_of_a_command_is_not_lost_in_silence() {
    let full = || fs::File::options().write(true).open("/dev/full").expect("a full disk");
    for arguments in [&["man"][..], &["completions", "bash"]] {
        let Output { status, stderr, .. } = tool().args(arguments).stdout(full()).output().expect("the command runs");
        let said = String::from_utf8_lossy(&stderr);
        assert!(
            status.code() == Some(2) && said.contains("cannot write to standard output: "),
            "{arguments:?}: {status}: {said}"
        );
    }
}

#[test]
fn a_quiet_run_says_which_check_was_asked_for_and_not_made() {
    let server = Serve::start(&["--idle-limit", "300ms"]);
    let small = [&*server.address, "-q", "-i", "2", "-t", "2", "-r", "1"];
    let (code, shown) = told(&[&small[..], &["--metrics-url", "127.0.0.1:1"]].concat());
    assert!(
        code == Some(0) && unwrapped(&shown).contains("pending not checked: http://127.0.0.1:1/metrics"),
        "{shown}"
    );
    let (code, shown) = told(&small);
    assert!(code == Some(0) && !shown.contains("not checked"), "{shown}");
}

#[test]
fn a_result_of_an_earlier_run_is_said_to_be_one_where_nothing_was_tested() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("result.json");
    let run = ["127.0.0.1:1", "--json", path.to_str().expect("UTF-8")];
    let (code, shown) = told(&run);
    assert!(code == Some(4) && !shown.contains("before"), "{shown}");
    fs::write(&path, "{}").expect("a file");
    let (code, shown) = told(&run);
    assert!(code == Some(4) && shown.contains("the one that is there is from before"), "{shown}");
    assert_eq!(fs::read_to_string(&path).expect("the file"), "{}");
}
