//! Runs of hours, in seconds: checkpoints, the verdict so far, and servers that are restarted by somebody.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{
    runs::{block_on, quick_server as server, run_alone, scenario, scenario_at},
    tool::{Serve, told, tool, unwrapped, with_hangup, words},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use oracle::ViolationKind;
use reference::{Fault, Planted, Server};
use sequence_stress::probe::Accounting;
use sequence_stress::run::{Asked, End, Observer, Progress, RunResult, Setup, SoFar, run};
use serde_json::Value;
use tokio::{sync::mpsc, time::sleep};
use wire::simulation::Simulation;
use workload::{scenario::Distribution, seed::Seed};

/// How long something may take that a process does at once.
const LIMIT: Duration = Duration::from_secs(60);

const COMMON: &str = "
limits = { quiet_ms = 20, settle_ms = 3000, lost_after_ms = 20000 }
contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 3, no-start = 1 }
length = { min = 1, max = 12, normal = { mean = 6, stdev = 3 } }
sending = { reuse = 'after-response', window = 2 }
think.iteration_ms.constant = 20
claims = {}
";

fn setup(server: &Server, more: &str) -> Setup {
    Setup::new(scenario_at(server.address, &format!("{COMMON}{more}")), Seed(3))
}

/// Keeps what it is told of a run that goes on, and asks once, after a second and a half.
#[derive(Default)]
struct Keeper {
    checkpoints: Vec<RunResult>,
    verdicts: Vec<RunResult>,
    asks: Option<Asked>,
}

impl Observer for Keeper {
    fn progress(&mut self, progress: &Progress) {
        if let Some(asked) = self.asks.take_if(|_| progress.elapsed >= Duration::from_millis(1500)) {
            asked.ask();
        }
    }

    fn checkpoint(&mut self, so_far: RunResult) {
        self.checkpoints.push(so_far);
    }

    fn verdict(&mut self, so_far: RunResult) {
        self.verdicts.push(so_far);
    }
}

#[test]
fn a_run_tells_what_it_has_shown_so_far() {
    let _simulation = Simulation::begin();
    let server = server(&[Planted::once(Fault::OffByOne, 900)]);
    let so_far = SoFar {
        checkpoint_every: Some(Duration::from_secs(1)),
        verdict_every: Some(Duration::from_secs(2)),
        verdict_asked: Asked::default(),
        ..SoFar::default()
    };
    let mut keeper = Keeper { asks: Some(so_far.verdict_asked.clone()), ..Keeper::default() };
    let (_interrupt, interrupts) = mpsc::channel(1);
    let setup = Setup { so_far, ..setup(&server, "load = { workers = 4, duration_s = 3 }") };
    let result = block_on(run(setup, &mut keeper, interrupts)).expect("a run");
    assert_eq!((result.end, result.tally.violation_count()), (End::Known, 1));
    let requests: Vec<_> = keeper.checkpoints.iter().map(|its| its.tally.total().requests).collect();
    assert!((2..=3).contains(&requests.len()) && requests.is_sorted() && requests[0] > 50, "{requests:?}");
    assert_eq!(keeper.verdicts.len(), 2, "one each two seconds, and the one that was asked for");
    for its in keeper.checkpoints.iter().chain(&keeper.verdicts) {
        assert_eq!(its.end, End::NotYet);
    }
    let (first, last) = (&keeper.checkpoints[0], keeper.checkpoints.last().expect("one"));
    assert_eq!((first.tally.violation_count(), last.tally.violation_count()), (0, 1));
    assert_eq!(last.violations, result.violations, "with their evidence and causes");
    let missing = result.tally.total().requests - last.tally.total().requests;
    assert!(missing * 2 < result.tally.total().requests, "{missing} of {}", result.tally.total().requests);
}

/// A run of the tool.
struct Run {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    said: Lines<BufReader<ChildStderr>>,
}

impl Run {
    /// Begins a run, and waits until it says before the first request what it will send.
    fn begin(arguments: &[&str]) -> Self {
        Self::of(tool().args(arguments))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = out.next().expect("a line").expect("UTF-8");
        assert!(line.contains(" at "), "{line}");
        Self { child, out, said }
    }

    /// Waits until it says a line with this text; returns all that it said until then.
    fn says(&mut self, text: &str) -> String {
        let mut all = String::new();
        for line in self.said.by_ref() {
            all = all + &line.expect("UTF-8") + "\n";
            if all.lines().last().is_some_and(|line| line.contains(text)) {
                return all;
            }
        }
        panic!("it ended without '{text}': {all}");
    }

    /// Waits until it has judged responses, and found nothing; returns the report so far.
    fn judges(&mut self) -> String {
        loop {
            self.signal(Signal::SIGUSR1);
            let verdict = self.says(" SO FAR: ");
            let report = self.says("replay: ");
            if verdict.lines().last().is_some_and(|line| line.starts_with("VALID")) {
                return report;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().try_into().expect("a process ID");
        kill(Pid::from_raw(id), signal).expect("the process is there");
    }

    /// Waits for its end; returns its exit code, what it wrote, and what it said that was not waited for.
    fn end(mut self) -> (Option<i32>, String, String) {
        let rest: String = self.said.by_ref().map(|line| line.expect("UTF-8") + "\n").collect();
        let out: String = self.out.by_ref().map(|line| line.expect("UTF-8") + "\n").collect();
        (self.child.wait().expect("it ends").code(), unwrapped(&out), rest)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn a_killed_run_leaves_a_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, csv, log] = ["json", "csv", "log"].map(|name| folder.path().join(name));
    let files = ["--json", words(&json), "--csv", words(&csv), "--hdr-log", words(&log)];
    let started = Instant::now();
    let mut run = Run::begin(&[&["--embedded", "-d1h", "-r7", "--checkpoint=1s"], &files[..]].concat());
    while !log.exists() {
        assert!(started.elapsed() < LIMIT, "no checkpoint");
        std::thread::sleep(Duration::from_millis(20));
    }
    run.child.kill().and_then(|()| run.child.wait()).expect("it ends");
    let result = read(&json);
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result.schema.json")).expect("a file");
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).expect("JSON")).expect("a schema");
    assert!(validator.is_valid(&result), "{result}");
    let told = (&result["complete"], &result["verdict"], &result["exit_code"]);
    assert_eq!(told, (&false.into(), &"unknown".into(), &3.into()));
    assert_eq!(result["doubts"], Value::from(vec!["the run had not ended"]));
    assert!(
        result["requests"].as_u64() > Some(0) && !result["series"].as_array().expect("rows").is_empty(),
        "{result}"
    );
    assert!(fs::read_to_string(&csv).expect("a file").lines().count() >= 2);
    let left = fs::read_dir(folder.path()).expect("a folder").count();
    assert!(left <= 4, "at most what the kill met half written");
}

#[test]
fn the_result_takes_the_place_of_its_checkpoints() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("json");
    let (code, text) = told(&["--embedded", "-d2s", "-r7", "--checkpoint=1s", "--json", words(&json)]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!((&read(&json)["complete"], &read(&json)["verdict"]), (&true.into(), &"valid".into()));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let (code, text) = told(&["--embedded", "--checkpoint=1s"]);
    assert!(
        code == Some(2) && text.contains("--checkpoint has nothing to write") && text.lines().count() == 1,
        "{text}"
    );
    let (code, text) = told(&["--embedded", "--checkpoint=100ms", "--json", words(&json)]);
    assert!(code == Some(2) && text.contains("give whole seconds") && text.lines().count() == 1, "{text}");
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_told_once_and_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).expect("a folder");
    let json = gone.join("json");
    let mut run = Run::begin(&["--embedded", "-d4s", "-r7", "--checkpoint=1s", "--json", words(&json)]);
    fs::remove_dir_all(&gone).expect("it is there");
    let before = run.says("the run goes on, and a killed run leaves no newer result");
    assert!(before.contains(&format!("cannot write the result to {}: ", json.display())), "{before}");
    let (code, out, said) = run.end();
    assert!(out.contains("VALID: "), "{out}");
    // The result cannot be written either.
    assert!(code == Some(2) && !said.contains("the run goes on") && said.contains("cannot write the result"), "{said}");
}

#[test]
fn whoever_sends_sigusr1_is_told_the_verdict_so_far() {
    for (fault, expected) in [(None, " SO FAR: "), (Some("--fault=off-by-one:once@1"), "INVALID SO FAR: 1 violation: ")]
    {
        let arguments = [&["--embedded", "-d1h", "-r7"], fault.as_slice()].concat();
        let mut run = Run::begin(&arguments);
        if fault.is_some() {
            assert!(run.out.any(|line| line.expect("UTF-8").contains("wrong-sum")), "the violation is told");
        }
        for _ in 0..2 {
            run.signal(Signal::SIGUSR1);
            run.says(expected);
            let rest = run.says("replay: ");
            assert!(rest.contains("requests in ") && !rest.contains("server counts"), "{rest}");
        }
        run.signal(Signal::SIGINT);
        let (code, _, said) = run.end();
        assert_eq!(code, Some(if fault.is_some() { 1 } else { 3 }), "{said}");
    }
}

#[test]
fn a_closed_terminal_ends_a_run_with_its_verdict_unless_it_is_to_outlive_that() {
    let arguments = ["--embedded", "-d1h", "-r7"];
    let interrupted = |run: Run| {
        let (code, out, said) = run.end();
        assert!(code == Some(3) && out.contains("UNKNOWN: the run was interrupted (seed 7)"), "{code:?} {out}{said}");
    };
    let begun = |of_a_hangup: &str| {
        let words = with_hangup(of_a_hangup);
        let mut run = Run::of(Command::new(&words[0]).args(&words[1..]).args(arguments));
        run.judges();
        run.signal(Signal::SIGHUP);
        run
    };
    interrupted(begun("SIG_DFL"));
    // As `nohup` starts it.
    let mut run = begun("SIG_IGN");
    run.judges();
    run.signal(Signal::SIGINT);
    interrupted(run);
}

/// A run that reconnects, on a server that somebody restarts after two seconds and a half.
fn restarted(server: &Server, setup: Setup) -> RunResult {
    let restart = server.restarter();
    let (_interrupt, interrupts) = mpsc::channel(1);
    let mut nobody = ();
    let somebody = async {
        sleep(Duration::from_millis(2500)).await;
        restart().await.expect("it starts again");
    };
    let (result, ()) = block_on(async { tokio::join!(run(setup, &mut nobody, interrupts), somebody) });
    result.expect("a run")
}

/// What a scenario says for a server at this address.
fn at_endpoint(server: &Server, transport: &str, more: &str) -> Setup {
    let endpoint = if transport == "http" { format!("http://{}", server.http) } else { server.address.to_string() };
    let common = COMMON.replace("sending = {", &format!("sending = {{ transport = '{transport}',"));
    let common = common.replace("limits = {", "limits = { reconnect_ms = 10000,");
    Setup::new(scenario(&format!("target.endpoint = '{endpoint}'\n{common}{more}")), Seed(3))
}

#[test]
fn a_server_that_somebody_restarts_is_not_accused() {
    for (transport, model) in [
        ("grpc-stream", "custom_sequence_int32"),
        ("grpc-stream", "implicit_sequence_int32"),
        ("grpc-stream", "oldest_sequence_int32"),
        ("grpc-unary", "custom_sequence_int32"),
        ("http", "implicit_sequence_int32"),
    ] {
        let _simulation = Simulation::begin();
        let server = server(&[]);
        let more = format!("load = {{ workers = 2, duration_s = 4 }}\ntarget.model = '{model}'");
        let result = restarted(&server, at_endpoint(&server, transport, &more));
        let what = format!("{model} over {transport}");
        assert_eq!(result.violations, [], "{what}");
        assert_eq!(result.restarts.count, 1, "{what}: {:?}", result.restarts);
        let [absence] = result.restarts.absences[..] else { panic!("{what}: {:?}", result.restarts) };
        assert_eq!(absence.is_another, Some(true), "{what}");
        assert!((2300..3100).contains(&(absence.at_ns / 1_000_000)), "{what}: {absence:?}");
        assert!(matches!(result.accounting, Accounting::NotCheckable { .. }), "{what}: {:?}", result.accounting);
        // It goes on, and nearly all is judged.
        let total = result.tally.total();
        assert!(total.unjudged * 3 < total.answered() && result.elapsed >= Duration::from_secs(4), "{what}: {total:?}");
    }
}

#[test]
fn a_restart_that_no_request_meets_is_seen() {
    let _simulation = Simulation::begin();
    let server = server(&[]);
    let mut setup = at_endpoint(&server, "grpc-stream", "load = { workers = 1, duration_s = 4 }");
    setup.scenario.populations[0].think.iteration_ms = Distribution::Constant(900);
    let result = restarted(&server, setup);
    assert_eq!((result.violations, result.restarts.count), (Vec::new(), 1));
}

#[test]
fn a_server_that_counts_too_little_is_not_taken_for_one_that_was_restarted() {
    for fault in [Planted::once(Fault::CountNot, 20), Planted::always(Fault::CountNot)] {
        let _simulation = Simulation::begin();
        let server = server(&[fault]);
        let setup = at_endpoint(&server, "grpc-stream", "load = { workers = 2, duration_s = 3 }");
        let result = run_alone(setup).expect("a run");
        let kinds: Vec<_> = result.tally.violations.keys().copied().collect();
        assert_eq!((kinds, result.restarts.count), (vec![ViolationKind::Statistics], 0));
    }
}

#[test]
fn what_is_wrong_before_and_after_a_restart_is_found() {
    for chance in [100, 2200] {
        let _simulation = Simulation::begin();
        let server = server(&[Planted::once(Fault::OffByOne, chance)]);
        let result = restarted(&server, at_endpoint(&server, "grpc-stream", "load = { workers = 4, duration_s = 4 }"));
        let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        assert_eq!((kinds, result.restarts.count), (vec![ViolationKind::WrongSum], 1));
        let is_after = result.violations[0].at_ns > result.restarts.absences[0].at_ns;
        assert_eq!(is_after, chance > 500, "{:?}", result.restarts);
    }
}

#[test]
fn a_server_that_is_not_restarted_is_accused_as_ever() {
    for (fault, chance, seconds, kind) in [
        (Fault::SayNotReady, 3, 4, ViolationKind::NotReady),
        (Fault::CloseStream, 200, 1, ViolationKind::StreamBroken),
        (Fault::DropResponse, 200, 1, ViolationKind::Lost),
        (Fault::ModelError, 200, 1, ViolationKind::UnexpectedError),
        (Fault::RejectMidSequence, 200, 1, ViolationKind::SpuriousStartError),
    ] {
        let _simulation = Simulation::begin();
        let server = server(&[Planted::once(fault, chance)]);
        let more = format!("load = {{ workers = 2, duration_s = {seconds} }}");
        let mut setup = at_endpoint(&server, "grpc-stream", &more);
        let limits = &mut setup.scenario.limits;
        (limits.lost_after_ms, limits.step_ms) = (1500.try_into().expect("a time"), 1.try_into().expect("a time"));
        let result = run_alone(setup).expect("a run");
        let kinds: Vec<_> = result.tally.violations.keys().copied().collect();
        assert_eq!((kinds, result.restarts.count), (vec![kind], 0), "{fault}: {:?}", result.violations);
    }
}

#[test]
fn a_server_that_comes_back_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, history, checked] = ["json", "history", "checked"].map(|name| folder.path().join(name));
    let mut first = Serve::start(&[]);
    let files = ["--json", words(&json), "--history", words(&history), "--history-keep=all"];
    let mut run = Run::begin(&[&["-u", &first.address, "-d1h", "-r7", "--reconnect=1m"], &files[..]].concat());
    run.judges();
    first.kill();
    run.says("the server does not answer: waiting up to 60s until it is ready again");
    let _second = first.again(&[]);
    let back = run.says("the server is ready again: it was away at ");
    assert!(back.contains("another process since"), "{back}");
    let report = unwrapped(&run.judges());
    assert!(report.contains("server away 1 time: at "), "{report}");
    run.signal(Signal::SIGINT);
    let (code, out, said) = run.end();
    assert!(code == Some(3) && out.contains("UNKNOWN: the run was interrupted (seed 7)"), "{out}{said}");
    let restarts = &read(&json)["restarts"];
    assert_eq!((&restarts["count"], &restarts["absences"][0]["is_another"]), (&1.into(), &true.into()), "{restarts}");
    let (code, text) = told(&["check", words(&history), "--json", words(&checked)]);
    assert_eq!((code, &read(&checked)["restarts"]), (Some(3), restarts), "{text}");
}

#[test]
fn a_server_that_does_not_come_back_has_died() {
    let mut server = Serve::start(&[]);
    let mut run = Run::begin(&["-u", &server.address, "-d1h", "-r7", "--reconnect=1s"]);
    run.judges();
    server.kill();
    run.says("the server does not answer: waiting up to 1s until it is ready again");
    let (code, out, said) = run.end();
    assert_eq!(code, Some(1), "{out}{said}");
    assert!(out.contains("INVALID: 1 violation: 1 server-died"), "{out}");
    assert!(out.contains("was not ready again within 1 s"), "{out}");
}

#[test]
fn a_run_does_not_reconnect_where_its_scenario_restarts_the_server() {
    let (code, text) = told(&["--embedded", "--scenario", "server-restart", "--reconnect=1m"]);
    assert!(code == Some(2) && text.contains("leave it out") && text.lines().count() == 1, "{text}");
}
