//! The command as a person or a script uses it: messages, exit codes, output.

use std::{
    fs,
    process::{Command, Output, Stdio},
    time::Duration,
};

use crate::support::{
    SOLO, Setup, TestServer,
    tool::{tool, words},
};
use reference::{Fault, Planted};
use serde_json::Value;
use tempfile::TempDir;

fn command() -> Command {
    let mut command = tool();
    command.env_remove("NO_COLOR");
    command
}

fn run(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A scenario file that makes a run short, and the folder that holds it.
fn quick_scenario(more: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("quick.toml");
    let text = format!(
        "{more}\nload.workers = 2\nload.iterations = 10\nlimits.step_ms = 1\nlimits.quiet_ms = 20\nlimits.settle_ms = 300\nlimits.drain_ms = 20000\n\
        claims = {{}}\n"
    );
    fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

#[test]
fn bad_input_is_one_clear_line_and_exit_code_2() {
    let server = TestServer::start(Setup::default());
    let address = server.address.to_string();
    let (_folder, broken) = quick_scenario("\n\npatterns.common.vlid = 1");
    let scenario_error = format!("{broken}:3: patterns.common: there is no key 'vlid' here; did you mean 'valid'?");
    for (arguments, expected) in [
        (&["-t", "0"][..], "'0' for '--concurrency <N>': give a whole number from 1 to 100000"),
        (&["-t", "-3"], "'-3' for '--concurrency <N>'"),
        (&["-t", "many"], "'many' for '--concurrency <N>'"),
        (&["-i", "0"], "'0' for '--iterations <N>'"),
        (&["-i", "-1"], "'-1' for '--iterations <N>'"),
        (&["-r", "-1"], "'-1' for '--random-seed <SEED>': give a whole number, 0 or more"),
        (&["serve", "--grpc-port", "x"], "'x' for '--grpc-port <PORT>': give a whole number from 0 to 65535"),
        (&["--duration", "0s"], "whole seconds"),
        (&["--duration", "soon"], "give whole seconds, such as 90s or 1h"),
        (&["--response-limit", "0s"], "0 ms cannot be"),
        (&["--slots", "0"], "'0' for '--slots <N>'"),
        (&["--bogus"], "unexpected argument '--bogus' found"),
        (&["-v", "-q"], "cannot be used with"),
        (&["-u", "localhost"], "has no port"),
        (&["-u", "ftp://localhost:1"], "the scheme 'ftp' is not known"),
        (&["-m", ""], "a value is required for '--model <MODEL>'"),
        (&["-m", &"m".repeat(1025)], "target.model: the name has more than 1024 bytes"),
        (&["-t", "100001"], "'100001' for '--concurrency <N>': give a whole number from 1 to 100000"),
        (&["serv"], "'serv' is neither a subcommand nor an endpoint such as HOST:PORT; did you mean 'serve'?"),
        (&["--embeded"], "unexpected argument '--embeded' found; did you mean '--embedded'?"),
        (&["--scenario", "oredring"], "no built-in scenario of this name; did you mean 'ordering'?"),
        (&["--embedded", "--fault", "keep-stat"], "there is no fault 'keep-stat'; did you mean 'keep-state'?"),
        (&["explain", "wrong-sums"], "no cause 'wrong-sums'; did you mean 'wrong-sum'?"),
        (&["suite", "--embedded", "--only", "ordering", "--skip", "ordering"], "--skip leaves no scenario to run"),
        (&["suite", "--jobs", "2"], "--embedded"),
        (&["--scenario", "no/such.toml"], "no/such.toml: cannot read the scenario"),
        (&["--scenario", &broken], &scenario_error),
        (&["--json", "/no/such/folder/result.json"], "; make its folder first, or name another file (--json)"),
        (&["--json", "/"], "cannot write the result to /"),
        (&["--failure", "/no/such/folder/f.toml"], "cannot write the failure to /no/such/folder/f.toml"),
        (&["--failure", "-"], "--failure needs a file"),
        (&["--failure", "a", "--json", "a"], "--json and --failure name the same file"),
        (&["plan", "-i", "0"], "'0' for '--iterations <N>'"),
    ] {
        // The server is there, so that what is sent in spite of the error would be seen.
        let output = command().args(arguments).env("SEQUENCE_STRESS_URL", &address).output().expect("the command runs");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}\n  should have {expected}");
        assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
        assert!(error.starts_with("sequence-stress: ") && output.stdout.is_empty(), "{arguments:?}: {error}");
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn what_cannot_be_tested_is_one_clear_line_and_exit_code_4() {
    let output = run(&["-u", "127.0.0.1:1"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(
        error.starts_with("sequence-stress: cannot test 127.0.0.1:1: no connection") && error.lines().count() == 1,
        "{error}"
    );

    let server = TestServer::start(Setup::default());
    let output = run(&["-u", &server.address.to_string(), "-m", "nobody"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        text(&output.stderr).contains("no model 'nobody'; it has any_tensors, bls_oldest_sequence_bool, "),
        "{}",
        text(&output.stderr)
    );
    let output = run(&["-u", &server.address.to_string(), "-m", "oldest_sequence_int33"]);
    let error = text(&output.stderr);
    assert!(
        error.trim_end().ends_with("no model 'oldest_sequence_int33'; did you mean -m oldest_sequence_int32?"),
        "{error}"
    );

    let output = run(&["-u", &server.address.to_string(), "-t", "99999"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("open files"), "{}", text(&output.stderr));
}

#[test]
fn a_result_file_is_neither_lost_nor_left_behind_when_nothing_could_be_tested() {
    let folder = TempDir::new().expect("a folder");
    let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
    fs::write(&old, "what was there before, and is longer than nothing").expect("a file");
    for path in [&old, &new] {
        let output = run(&["-u", "127.0.0.1:1", "--json", path.to_str().expect("UTF-8")]);
        assert_eq!(output.status.code(), Some(4));
    }
    assert_eq!(fs::read_to_string(&old).expect("the file"), "what was there before, and is longer than nothing");
    assert!(!new.exists());
}

#[test]
fn a_failure_file_that_is_not_written_is_told_and_an_old_one_is_called_old() {
    let server = TestServer::start(Setup::default());
    let (folder, scenario) = quick_scenario("slots.check = false");
    let path = folder.path().join("failure.toml");
    let name = path.to_str().expect("UTF-8");
    let run = || run(&["-u", &server.address.to_string(), "--scenario", &scenario, "-q", "--failure", name]);
    let not_written = format!("sequence-stress: no violation: {name} is not written");
    assert_eq!(text(&run().stderr), format!("{not_written}\n"));
    assert!(!path.exists());
    fs::write(&path, "old").expect("a file");
    assert_eq!(text(&run().stderr), format!("{not_written}; the one that is there is from before\n"));
    assert_eq!(fs::read_to_string(&path).expect("the file"), "old");
}

#[test]
fn a_valid_run_says_so_to_people_and_machines() {
    let server = TestServer::start(Setup::default());
    let (folder, scenario) = quick_scenario("");
    let json = folder.path().join("result.json");
    fs::write(&json, "x".repeat(100_000)).expect("a file");
    let address = server.address.to_string();
    let arguments = ["-u", &address, "--scenario", &scenario, "-r", "5", "--json", json.to_str().expect("UTF-8")];
    let output = run(&arguments);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    let replay = format!("sequence-stress -t 2 -i 10 -r 5 -u {address} -m custom_sequence_int32 --scenario {scenario}");
    for expected in [
        "Direct, 8 slots, idle limit 500 ms",
        "\nVALID: ",
        "server counts  agree: ",
        "slots          all 8 are free, and none exists twice (checked in ",
        &replay,
    ] {
        assert!(shown.contains(expected), "{shown}\n  should have {expected}");
    }
    assert!(!shown.contains('\u{1b}'), "colours where no terminal is: {shown}");

    let result: Value = serde_json::from_str(&fs::read_to_string(&json).expect("the file")).expect("JSON");
    assert_eq!(result["verdict"], "valid");
    assert_eq!(result["seed"], 5);
    let of_slots = &result["slots_check"];
    assert_eq!((&of_slots["result"], &of_slots["slots"]), (&Value::from("all-there"), &Value::from(8)));
    let requests = [&result["requests"], &of_slots["requests"]].map(|count| count.as_u64().expect("a count"));
    assert_eq!(requests.iter().sum::<u64>() + SOLO, server.requests());
    assert_eq!(result["pending_requests"]["result"], "not-checked");
    assert_eq!(result["violations"], Value::Array(Vec::new()));
    assert_eq!(result["server_counts"]["result"], "agrees");
    assert!(result["requests_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    assert!(result["client_cpu_us_per_request"].as_f64().is_some_and(|cpu| cpu > 0.0));
    assert!(result["latency_us"]["step"]["p99"].as_u64().is_some_and(|us| us > 0));
    assert_matches_schema(&result);
}

#[test]
fn a_violation_is_shown_with_its_evidence_and_the_line_that_replays_it() {
    let server = TestServer::with_fault(Planted::always(Fault::OffByOne));
    let (folder, scenario) = quick_scenario("");
    let json = folder.path().join("result.json");
    let address = server.address.to_string();
    let output = run(&["-u", &address, "--scenario", &scenario, "-r", "5", "--json", json.to_str().expect("UTF-8")]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    let (live, report) = shown.split_once("\nINVALID: ").expect("a verdict");
    let lines: Vec<_> = live.lines().filter(|line| line.starts_with("wrong-sum, cause ")).collect();
    assert!(lines.iter().all(|line| line.chars().count() < 80 && line.contains(" ID ")), "{live}");
    assert!(!lines.is_empty() && lines.len() < 5, "one for each cause: {live}");
    for expected in [
        "seen           ",
        "(off by 1)",
        "correlation ID ",
        "cause          wrong-arithmetic: ",
        "docs/VIOLATIONS.md#wrong-sum",
    ] {
        assert!(report.contains(expected), "{report}\n  should have {expected}");
    }
    assert_eq!(shown.matches("sequence-stress -t 2 -i 10 -r 5").count(), 1, "{shown}");
    let too_wide = report.lines().find(|line| line.chars().count() > 80 && !line.starts_with("replay: "));
    assert_eq!(too_wide, None, "{report}");
    let result: Value = serde_json::from_str(&fs::read_to_string(&json).expect("the file")).expect("JSON");
    assert_eq!(result["verdict"], "invalid");
    let violations = result["violations"].as_array().expect("a list");
    assert!(
        violations.len() > 20 && violations.iter().all(|violation| violation["kind"] == "wrong-sum"),
        "{}",
        violations.len()
    );
    assert_eq!(result["violation_count"], violations.len());
    assert!(shown.contains(&format!("INVALID: {} violations: ", violations.len())), "{shown}");
    assert_matches_schema(&result);

    let output = run(&["-u", &address, "--scenario", &scenario, "-q"]);
    assert!(
        text(&output.stdout).lines().last().is_some_and(|line| line.starts_with("replay: ")),
        "{}",
        text(&output.stdout)
    );
    assert!(text(&output.stderr).is_empty());
}

#[test]
fn what_concerns_the_whole_run_is_told_too() {
    let server = TestServer::with_fault(Planted::always(Fault::CountTwice));
    let (folder, scenario) = quick_scenario("");
    let json = folder.path().join("result.json");
    let address = server.address.to_string();
    let output = run(&["-u", &address, "--scenario", &scenario, "--json", json.to_str().expect("UTF-8")]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    for expected in ["\nstatistics", "server counts  differ: ", "INVALID: 1 violation: 1 statistics"] {
        assert!(shown.contains(expected), "{shown}\n  should have {expected}");
    }
    let result: Value = serde_json::from_str(&fs::read_to_string(&json).expect("the file")).expect("JSON");
    assert_eq!(result["violations"][0]["kind"], "statistics");
    assert_matches_schema(&result);
}

#[test]
fn at_most_a_thousand_violations_are_kept_and_all_are_counted() {
    let server = TestServer::with_fault(Planted::always(Fault::WrongModelName));
    let (folder, scenario) = quick_scenario("slots.check = false");
    let json = folder.path().join("result.json");
    let address = server.address.to_string();
    let output =
        run(&["-u", &address, "--scenario", &scenario, "-i", "60", "-q", "--json", json.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_str(&fs::read_to_string(&json).expect("the file")).expect("JSON");
    assert_eq!(result["violations"].as_array().map(Vec::len), Some(1000));
    assert_eq!(
        result["violation_count"].as_u64(),
        result["outcomes"]["completed"].as_u64().map(|completed| completed + SOLO)
    );
    assert!(result["violation_count"].as_u64() > Some(1000));
}

#[test]
fn a_missed_threshold_is_exit_code_5_and_no_violation() {
    let server = TestServer::with_fault(Planted::once(Fault::LateResponse, 20));
    // The answer that is held back for 6 s is lawful: the longest lawful wait is longer.
    // It is that of a step in the middle: a START that waits beside a free slot is a violation.
    let more = "limits.lost_after_ms = 20000\nlength = { min = 40, max = 50 }\npatterns.common = { valid = 1 }\n\
                contexts = { common = 1, rare = 0, rare_probability = 0 }";
    let (_folder, scenario) = quick_scenario(more);
    let address = server.address.to_string();
    let output = run(&["-u", &address, "--scenario", &scenario, "--response-limit", "3s"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{shown}");
    assert!(
        shown.contains("THRESHOLD MISSED:") && shown.contains(" took longer than 3000 ms") && shown.contains("VALID"),
        "{shown}"
    );
}

#[test]
fn a_threshold_that_is_missed_is_no_violation() {
    let mut setup = Setup::default();
    setup.models.execution = Duration::from_millis(5);
    let server = TestServer::start(setup);
    let (_folder, scenario) = quick_scenario("fail_if = ['sequence.p50 > 1ms', 'wait_for_slot.max > 1min']");
    let output = run(&["-u", &server.address.to_string(), "--scenario", &scenario]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{shown}");
    assert!(shown.contains("THRESHOLD MISSED: sequence.p50 > 1ms: ") && shown.contains("VALID"), "{shown}");
    assert!(shown.contains("  threshold      wait_for_slot.max > 1min: "), "{shown}");
}

#[test]
fn a_threshold_of_which_nothing_was_measured_is_not_met() {
    let server = TestServer::start(Setup::default());
    let (_folder, scenario) = quick_scenario("");
    let alone = fs::read_to_string(&scenario).expect("a file");
    let populations = "
[[population]]
name = 'healthy'
[[population]]
name = 'cut off'
network.cut.after_bytes.constant = 10
fail_if = ['sequence.max > 1ms']";
    fs::write(&scenario, format!("{alone}{populations}")).expect("a file");
    let output = run(&["-u", &server.address.to_string(), "--scenario", &scenario]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("the threshold 'sequence.max > 1ms' of cut off was not measured"), "{shown}");
}

#[test]
fn what_started_the_server_is_part_of_the_line_that_replays_the_run() {
    let server = TestServer::start(Setup::default());
    let (_folder, scenario) = quick_scenario("");
    let output = command()
        .args(["--scenario", &scenario, "-r", "5", "-q"])
        .env("SEQUENCE_STRESS_URL", server.address.to_string())
        .env("SEQUENCE_STRESS_STARTER", "start-it --")
        .output()
        .expect("the command runs");
    let shown = text(&output.stdout);
    let line = format!(
        "replay: start-it -- {} -t 2 -i 10 -r 5 -m custom_sequence_int32",
        env!("CARGO_BIN_EXE_sequence-stress")
    );
    assert!(shown.contains(&line), "{shown}\n  should have {line}");
}

#[test]
fn what_is_not_used_is_told_and_is_not_in_the_line_that_replays_the_run() {
    let server = TestServer::start(Setup::default());
    let (_folder, scenario) = quick_scenario("limits.response_ms = 60000\nslots.check = false");
    let output = run(&["-u", &server.address.to_string(), "--scenario", &scenario, "-r", "5", "--slots", "3"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("not used: --slots 3: the model's configuration tells it\n"), "{shown}");
    assert!(shown.ends_with(&format!("-m custom_sequence_int32 --scenario {scenario}\n")), "{shown}");
}

#[test]
fn verbose_shows_each_step() {
    let server = TestServer::start(Setup::default());
    let (_folder, scenario) = quick_scenario("");
    let output = run(&["-u", &server.address.to_string(), "--scenario", &scenario, "-v"]);
    let steps = text(&output.stderr);
    let requests = usize::try_from(server.requests() - SOLO).expect("not many");
    assert_eq!(steps.matches(": sent ").count(), requests);
    assert_eq!(steps.matches(": completed ").count() + steps.matches(": rejected ").count(), requests);
}

/// Starts a long run, sends it a signal once it is under way, and a second one where asked for.
#[cfg(unix)]
fn interrupt(server: &TestServer, signals: &[&str], more: &[&str]) -> Output {
    let (_folder, scenario) = quick_scenario("");
    let child = command()
        .args(["-u", &server.address.to_string(), "--scenario", &scenario, "--duration", "1h"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let started = std::time::Instant::now();
    while server.requests() < 100 && server.faults_committed() == 0 {
        assert!(started.elapsed() < Duration::from_secs(30), "only {} requests came", server.requests());
        std::thread::sleep(Duration::from_millis(10));
    }
    for signal in signals {
        let sent = Command::new("kill").arg(signal).arg(child.id().to_string()).status().expect("kill runs");
        assert!(sent.success());
    }
    child.wait_with_output().expect("it ends")
}

#[test]
fn ctrl_c_and_sigterm_drain_and_print_the_summary() {
    for signal in ["-INT", "-TERM"] {
        let server = TestServer::start(Setup::default());
        let output = interrupt(&server, &[signal], &[]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{shown}{}", text(&output.stderr));
        assert!(
            shown.contains("UNKNOWN: the run was interrupted") && shown.contains("server counts  agree"),
            "{shown}"
        );
    }
}

#[test]
fn a_second_interrupt_ends_at_once() {
    // Nothing is answered any more, so the first interrupt alone would wait.
    let server = TestServer::that_freezes(50);
    let folder = TempDir::new().expect("a folder");
    // Two signals of one kind may arrive as one.
    let page = folder.path().join("run.html");
    let output = interrupt(&server, &["-INT", "-TERM"], &["--html", words(&page)]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("interrupted twice"), "{}", text(&output.stderr));
    assert_eq!(folder.path().read_dir().expect("a folder").count(), 0, "the events for the page are gone");
    // A run that waits for the drain limit prints a summary.
    assert!(!text(&output.stdout).contains("UNKNOWN"), "{}", text(&output.stdout));
}

#[test]
fn the_plan_is_printed_as_json_lines_and_nothing_is_sent() {
    let output = run(&["plan", "-t", "3", "-i", "4", "-r", "9"]);
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 12);
    assert_eq!((&lines[11]["worker"], &lines[11]["iteration"]), (&Value::from(2), &Value::from(3)));
    assert_eq!(run(&["plan", "-t", "3", "-i", "4", "-r", "9"]).stdout, output.stdout);
    assert_ne!(run(&["plan", "-t", "3", "-i", "4", "-r", "8"]).stdout, output.stdout);
}

#[test]
fn help_names_every_exit_code() {
    let help = text(&run(&["--help"]).stdout);
    for code in 0..6 {
        assert!(help.contains(&format!("\n  {code}  ")), "{code}: {help}");
    }
}

#[test]
fn help_is_given_in_every_way_that_it_is_asked_for() {
    for (arguments, same) in [
        (&["help", "--help"][..], &["--help"][..]),
        (&["help", "-h"], &["--help"]),
        (&["help", "check", "--help"], &["check", "--help"]),
        (&["help", "check"], &["check", "--help"]),
    ] {
        let (output, same) = (run(arguments), run(same));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), text(&same.stdout), "{arguments:?}");
    }
}

/// Checks a result against `docs/result.schema.json`.
#[track_caller]
fn assert_matches_schema(result: &Value) {
    let schema =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a JSON schema");
    let errors: Vec<_> =
        validator.iter_errors(result).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn a_thousand_workers_with_ten_contexts_each_fit_half_a_gigabyte() {
    let server = TestServer::start(Setup::default());
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    // Each context keeps a stream open, so that all ten thousand of them are there at the end.
    let scenario = "load.workers = 1000\nload.iterations = 40\nsending.connection = 'per-worker'\nsending.stream = 'per-context'\n\
        contexts = { common = 10, rare = 0, rare_probability = 0 }\nlength.normal = { mean = 2, stdev = 1 }\n\
        limits.quiet_ms = 100\nlimits.connect_ms = 60000\nlimits.lost_after_ms = 60000\nlimits.settle_ms = 30000\n\
        patterns.common = { valid = 1 }";
    fs::write(path("scenario.toml"), scenario).expect("a file");
    let address = server.address.to_string();
    let output =
        run(&["-u", &address, "-q", "-r", "1", "--scenario", &path("scenario.toml"), "--json", &path("result.json")]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let result: Value =
        serde_json::from_str(&fs::read_to_string(path("result.json")).expect("the file")).expect("JSON");
    assert_eq!(result["sequences"], 40_000);
    let peak = result["client_memory_bytes"]["peak"].as_u64().expect("a number");
    assert!(peak < 500_000_000, "{peak} bytes");
}
