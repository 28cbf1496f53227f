//! Runs that several processes hold together.

mod files;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Setup, TestServer,
    long::rounds,
    tool::{told, tool, unwrapped, words},
};

/// How long something may take that a process does at once.
const LIMIT: Duration = Duration::from_secs(60);
/// Small sequences, quickly one after the other.
const SCENARIO: &str = "
limits = { quiet_ms = 20, settle_ms = 3000, drain_ms = 5000 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
patterns.common = { valid = 3, no-start = 1, valid-no-end = 1 }
length = { min = 1, max = 12, normal = { mean = 6, stdev = 3 } }
claims = {}
";

static JOBS: AtomicU32 = AtomicU32::new(0);

/// The ranks of a job, as Slurm starts them.
struct Job {
    folder: TempDir,
    of: u32,
    number: u32,
}

/// A rank that was waited for.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Job {
    fn of(of: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("small.toml"), SCENARIO).expect("it is written");
        Self { folder, of, number: JOBS.fetch_add(1, Relaxed) }
    }

    fn file(&self, name: &str) -> String {
        words(&self.folder.path().join(name)).to_owned()
    }

    fn json(&self, name: &str) -> Value {
        let text = fs::read(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_slice(&text).expect("a result")
    }

    fn command(&self, rank: u32, more: &[&str]) -> Command {
        let mut command = tool();
        command.env("SLURM_PROCID", rank.to_string()).env("SLURM_STEP_NUM_TASKS", self.of.to_string());
        command.env("SLURM_JOB_ID", format!("{}-{}", std::process::id(), self.number)).env("SLURM_STEP_ID", "0");
        command.args(["--rendezvous", "127.0.0.1", "--results", &self.file("results")]);
        // Without it a busy machine may be too slow.
        if !more.contains(&"--rendezvous-limit") {
            command.args(["--rendezvous-limit", "60s"]);
        }
        command.args(["--scenario", &self.file("small.toml")]).args(more);
        command
    }

    fn begin(&self, rank: u32, more: &[&str]) -> Child {
        let mut command = self.command(rank, more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts")
    }

    /// Starts all ranks of a long run, and waits until the server has got so many requests.
    fn at_work(&self, server: &TestServer, requests: u64, more: &[&str]) -> Vec<Child> {
        let address = server.address.to_string();
        let words = [&["-u", &address, "-d", "50s", "-r", "1"], more].concat();
        let ranks = (0..self.of).map(|rank| self.begin(rank, &words)).collect();
        wait_for(server, requests);
        ranks
    }

    /// Starts all ranks, and waits for them.
    fn run(&self, more: &[&str]) -> Vec<Ended> {
        (0..self.of).map(|rank| self.begin(rank, more)).collect::<Vec<_>>().into_iter().map(end).collect()
    }
}

fn end(child: Child) -> Ended {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), out: text(&output.stdout), errors: text(&output.stderr) }
}

fn codes(ended: &[Ended]) -> Vec<Option<i32>> {
    ended.iter().map(|its| its.code).collect()
}

/// Waits until the server has executed so many requests.
fn wait_for(server: &TestServer, requests: u64) {
    let began = Instant::now();
    while server.requests() < requests {
        assert!(began.elapsed() < LIMIT, "the server has {} of {requests} requests", server.requests());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ranks_send_together_what_one_process_sends_alone() {
    let job = Job::of(3);
    let load = ["--embedded", "-c", "8", "-i", "12", "-r", "7", "--json"];
    let alone = job.file("alone.json");
    let (code, report) = told(&[&load[..], &[&alone, "--scenario", &job.file("small.toml")]].concat());
    assert_eq!(code, Some(0), "{report}");
    let together = job.file("together.json");
    let ended = job.run(&[&load[..], &[&together, "--history", &job.file("all.jsonl")]].concat());
    assert_eq!(codes(&ended), [Some(0); 3], "{ended:?}");
    let report = unwrapped(&ended[0].out);
    for expected in ["3 ranks hold this run; correlation IDs 1 to 10800", "server counts agree", "ranks 3 on 1 host"] {
        assert!(report.contains(expected), "{expected} in {report}");
    }
    for other in &ended[1..] {
        assert!(other.out.is_empty() && other.errors.is_empty(), "{other:?}");
    }
    let (alone, together) = (job.json("alone.json"), job.json("together.json"));
    assert_eq!(alone["patterns"], together["patterns"]);
    let ranks = together["ranks"]["ranks"].as_array().expect("the ranks");
    let sum = |key: &str| ranks.iter().map(|rank| rank[key].as_u64().expect(key)).sum::<u64>();
    let requests = together["requests"].as_u64().expect("a number");
    assert_eq!((ranks.len(), sum("requests"), sum("iterations")), (3, requests, 8 * 12));
    assert_eq!(together["ranks"]["clock_uncertainty_us"], 0, "one machine has one clock");
    let of_series: u64 =
        together["series"].as_array().expect("a series").iter().map(|its| its["requests"].as_u64().unwrap_or(0)).sum();
    assert_eq!(of_series, requests, "each second of each rank is in the series");
    // The history has what all ranks saw, and can be judged again.
    let (code, checked) = told(&["check", &job.file("all.jsonl"), "-q"]);
    assert!(code == Some(0) && checked.contains(&format!("VALID: {requests} responses checked")), "{checked}");
    // The files of the ranks come to the same.
    let merged = job.file("merged.json");
    let (code, report) = told(&["report", "--merge", &job.file("results"), "--json", &merged]);
    assert_eq!(code, Some(0), "{report}");
    let merged = job.json("merged.json");
    for key in [
        "verdict",
        "patterns",
        "latency_us",
        "violations_by_kind",
        "server_counts",
        "slots_check",
        "ranks",
        "iterations",
    ] {
        assert_eq!(merged[key], together[key], "{key}");
    }
}

#[test]
fn a_fault_between_sequences_of_two_ranks_is_named_with_both() {
    let job = Job::of(4);
    // A worker that has one sequence at a time gets no state from another one of its own.
    let one_at_a_time = "contexts = { common = 1, rare = 0, rare_probability = 0 }
patterns.common = { valid = 1 }
length = { min = 6, max = 12, normal = { mean = 9, stdev = 2 } }
claims = {}
";
    fs::write(job.file("small.toml"), one_at_a_time).expect("it is written");
    let failure = job.file("failure.toml");
    let more =
        ["--embedded", "-c", "4", "-i", "60", "-r", "3", "--fault", "swap-states:once@200", "--failure", &failure];
    let ended = job.run(&more);
    assert_eq!(codes(&ended), [Some(1), Some(0), Some(0), Some(0)], "{ended:?}");
    let report = unwrapped(&ended[0].out);
    // Of four workers on four ranks, no two are of one rank.
    assert!(report.contains("cause swapped-states") && report.contains("was answered from rank"), "{report}");
    let failure = fs::read_to_string(failure).expect("a failure");
    let workers = (0..4).filter(|worker| failure.contains(&format!("worker = {worker}\n"))).count();
    assert_eq!(workers, 4, "what all ranks sent is in the failure");
}

#[test]
fn load_and_thresholds_are_those_of_the_whole() {
    let job = Job::of(2);
    let result = job.file("result.json");
    let common = ["--embedded", "-r", "3", "--json", &result, "--fail-if"];
    let ended = job.run(&[&common[..], &["throughput < 1000/s", "--rate", "40/s", "-d", "2s"]].concat());
    assert_eq!(codes(&ended), [Some(5), Some(0)], "{ended:?}");
    let arrivals = &job.json("result.json")["arrivals"][0];
    let number = |key: &str| arrivals[key].as_u64().expect(key);
    assert_eq!((number("begun") + number("not_begun"), number("workers")), (80, 512), "{arrivals}");
    // A threshold of one rank's second ends the run of all.
    let ended = job.run(&[&common[..], &["throughput > 1/s in any 1s abort", "-d", "50s"]].concat());
    assert_eq!(codes(&ended), [Some(5), Some(0)], "{ended:?}");
    assert!(job.json("result.json")["elapsed_s"].as_f64().expect("a time") < 40.0);
}

#[test]
fn the_first_violation_of_any_rank_ends_the_run_of_all() {
    let job = Job::of(2);
    let ended = job.run(&["--embedded", "-r", "3", "-d", "50s", "--fail-fast", "--fault", "off-by-one:once@200"]);
    assert_eq!(codes(&ended), [Some(1), Some(0)], "{ended:?}");
    let text = unwrapped(&ended[0].out);
    assert!(text.contains("INVALID: 1 violation: 1 wrong-sum"), "{text}");
}

#[test]
fn a_rank_that_is_killed_ends_the_run_and_is_named() {
    let (job, server) = (Job::of(3), TestServer::start(Setup::default()));
    let mut ranks = job.at_work(&server, 200, &["--json", &job.file("result.json")]);
    ranks[2].kill().expect("it is there");
    let ended: Vec<_> = ranks.into_iter().map(end).collect();
    assert_eq!(codes(&ended), [Some(3), Some(3), None], "{ended:?}");
    let report = unwrapped(&ended[0].out);
    assert!(report.contains("UNKNOWN: rank 2 was lost: its connection "), "{report}");
    assert!(report.contains("not checkable: rank 2 was lost"), "{report}");
    let ranks = job.json("result.json")["ranks"].clone();
    assert_eq!((&ranks["attempt"], &ranks["correlation_ids"][0]), (&0.into(), &1.into()));
    assert!(ranks["ranks"][1]["lost"].is_null() && ranks["ranks"][2]["lost"].is_string(), "{ranks}");
    // Its sequences may live on in the server: the next attempt has other correlation IDs, and accuses nobody.
    let (address, again) = (server.address.to_string(), job.file("again.json"));
    let more = ["-u", &address, "-i", "10", "-r", "1", "--json", &again];
    let ended = job.run(&more);
    assert_eq!(codes(&ended), [Some(0); 3], "{ended:?}");
    let ranks = job.json("again.json")["ranks"].clone();
    assert_eq!((&ranks["attempt"], &ranks["correlation_ids"][0]), (&1.into(), &1_000_001.into()));
}

#[test]
fn a_rank_that_stands_still_is_lost() {
    let (job, server) = (Job::of(2), TestServer::start(Setup::default()));
    let ranks = job.at_work(&server, 100, &[]);
    let standing = Pid::from_raw(ranks[1].id().cast_signed());
    kill(standing, Signal::SIGSTOP).expect("it is there");
    let mut ranks = ranks.into_iter();
    let first = end(ranks.next().expect("rank 0"));
    kill(standing, Signal::SIGCONT).expect("it is there");
    let second = end(ranks.next().expect("rank 1"));
    let report = unwrapped(&first.out);
    assert!(first.code == Some(3) && report.contains("rank 1 was lost: it said nothing for"), "{report}");
    let expected = "rank 1: rank 0 gave this rank up: it said nothing for 8 s; what this rank measured is in ";
    assert!(second.code == Some(3) && second.errors.contains(expected), "{second:?}");
}

#[test]
fn when_rank_0_stands_still_the_others_do_not_wait_for_it() {
    let (job, server) = (Job::of(2), TestServer::start(Setup::default()));
    let ranks = job.at_work(&server, 100, &[]);
    let standing = Pid::from_raw(ranks[0].id().cast_signed());
    kill(standing, Signal::SIGSTOP).expect("it is there");
    let mut ranks = ranks.into_iter();
    let mut first = ranks.next().expect("rank 0");
    let second = end(ranks.next().expect("rank 1"));
    // It is still standing.
    first.kill().and_then(|()| first.wait()).expect("it is there");
    let expected = "rank 1: rank 0 is gone (it said nothing for 8 s); what this rank measured is in ";
    assert!(second.code == Some(3) && second.errors.contains(expected), "{second:?}");
}

#[test]
fn an_interrupt_of_any_rank_is_one_of_the_run() {
    let (job, server) = (Job::of(2), TestServer::start(Setup::default()));
    let ranks = job.at_work(&server, 100, &[]);
    kill(Pid::from_raw(ranks[1].id().cast_signed()), Signal::SIGTERM).expect("it is there");
    let ended: Vec<_> = ranks.into_iter().map(end).collect();
    assert_eq!(codes(&ended), [Some(3), Some(0)], "{ended:?}");
    let report = unwrapped(&ended[0].out);
    assert!(report.contains("UNKNOWN: the run was interrupted") && report.contains("server counts agree"), "{report}");
}

#[test]
fn an_interrupt_is_heeded_while_rank_0_looks_at_the_slots() {
    let mut setup = Setup::default();
    // What is left without END keeps its slot for so long, and the look at the slots waits for that.
    setup.models.idle_limit = Duration::from_secs(40);
    let (job, server) = (Job::of(2), TestServer::start(setup));
    let more = ["-u", &server.address.to_string(), "-c", "2", "-i", "2", "-r", "3"];
    let text = SCENARIO.replace("{ valid = 3, no-start = 1, valid-no-end = 1 }", "{ no-end = 1 }");
    fs::write(job.file("small.toml"), text).expect("it is written");
    let ranks: Vec<_> = (0..2).map(|rank| job.begin(rank, &more)).collect();
    let (began, file) = (Instant::now(), job.folder.path().join("results/rank-1.json"));
    while !file.exists() {
        assert!(began.elapsed() < LIMIT, "rank 1 has not come to its end");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(ranks[1].id().cast_signed()), Signal::SIGTERM).expect("it is there");
    let ended: Vec<_> = ranks.into_iter().map(end).collect();
    assert_eq!(ended[0].code, Some(3), "{ended:?}");
    assert!(ended[0].out.contains("UNKNOWN: the run was interrupted"), "{ended:?}");
}

#[test]
fn ranks_that_do_not_come_are_named_and_nothing_is_sent() {
    let (job, server) = (Job::of(4), TestServer::start(Setup::default()));
    let limit = ["--rendezvous-limit", "300ms", "-u", &server.address.to_string()];
    let ended = end(job.begin(0, &limit));
    let expected = "ranks 1, 2, 3 of 4 did not come within 0.3 s";
    assert!(ended.code == Some(4) && ended.errors.contains(expected) && ended.errors.lines().count() == 1, "{ended:?}");
    let ended = end(job.begin(3, &limit));
    assert!(ended.code == Some(4) && ended.errors.contains("rank 3 found no rank 0 within 0.3 s"), "{ended:?}");
    assert_eq!(server.requests(), 0);
}

#[test]
fn what_several_ranks_cannot_hold_is_said_before_anything_is_sent() {
    let job = Job::of(2);
    let server = TestServer::start(Setup::default());
    let phases = "[[phase]]\nname = 'one'\n[[population]]\nname = 'a'\nphase = 'one'\n";
    let rows: [(&str, &[&str], &str); 3] = [
        (SCENARIO, &["-c", "1"], "2 ranks share 1 worker: give each at least one (-c 2 or more)"),
        (SCENARIO, &["--reconnect", "2m"], "several ranks cannot hold this run"),
        (phases, &[], "it has phases"),
    ];
    for (scenario, more, expected) in rows {
        fs::write(job.file("small.toml"), scenario).expect("it is written");
        let ended = job.run(&[&["-u", &server.address.to_string()], more].concat());
        assert_eq!(codes(&ended), [Some(2), Some(3)], "{ended:?}");
        assert!(ended[0].errors.contains(expected) && ended[0].errors.lines().count() == 1, "{ended:?}");
        assert!(ended[1].errors.is_empty(), "{ended:?}");
    }
    assert_eq!(server.requests(), 0);
    // What is the work of one process is not done by several at once.
    let mut suite = tool();
    suite.args(["suite", "--embedded"]).env("SLURM_PROCID", "0").env("SLURM_STEP_NUM_TASKS", "2");
    let ended = end(suite.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts"));
    assert!(ended.code == Some(2) && ended.errors.contains("the work of one process"), "{ended:?}");
    // Where nobody asks for a number of workers, each rank has one.
    let many = Job::of(10);
    let ended = many.run(&["--embedded", "-i", "1", "-r", "1"]);
    assert!(ended[0].out.contains("10 workers") && ended[0].code == Some(0), "{ended:?}");
    // Who is one of one is alone.
    let one = Job::of(1);
    let mut alone = one.command(0, &["--embedded", "-c", "2", "-i", "2", "-q"]);
    let ended = end(alone.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts"));
    assert!(ended.code == Some(0) && !ended.out.contains("ranks"), "{ended:?}");
}

#[test]
fn a_rank_whose_file_cannot_be_written_says_so_and_the_result_is_whole() {
    let job = Job::of(2);
    let blocked = Path::new(&job.file("results")).join("rank-1.json");
    fs::create_dir_all(&blocked).expect("a folder where the file would be");
    let ended = job.run(&["--embedded", "-c", "4", "-i", "4", "-r", "1"]);
    assert_eq!(codes(&ended), [Some(0); 2], "{ended:?}");
    assert!(
        ended[1].errors.contains("cannot write") && ended[1].errors.contains("rank 0 has what it measured"),
        "{ended:?}"
    );
}

#[test]
fn the_limit_of_a_server_is_searched_by_all_ranks() {
    let job = Job::of(2);
    let result = job.file("limit.json");
    // Whatever is tried is too much, and one of the ranks has no worker.
    let more = ["--embedded", "--find-limit=1..1", "--fail-if", "step.p50 > 1us", "-d", "4s", "--json", &result];
    let ended = job.run(&more);
    assert_eq!(codes(&ended), [Some(3), Some(0)], "{ended:?}");
    let result = job.json("limit.json");
    let trials = result["trials"].as_array().expect("trials");
    assert!(trials.len() >= 2 && result["overloaded"] == 1.0, "{result}");
}

#[test]
fn ranks_send_and_judge_a_model_without_a_formula() {
    let job = Job::of(2);
    let golden = job.file("gru.golden");
    let (code, text) =
        told(&["golden", "--embedded", "-m", "gru_float32", "--tracks", "4", "--steps", "16", "-o", &golden]);
    assert_eq!(code, Some(0), "{text}");
    let more = ["--embedded", "-m", "gru_float32", "-c", "4", "-i", "6", "-r", "3", "--golden", &golden];
    let ended = job.run(&more);
    assert_eq!(codes(&ended), [Some(0); 2], "{ended:?}");
    assert!(ended[0].out.contains("VALID: "), "{ended:?}");
    // Each rank judges what it was answered.
    let ended = job.run(&[&more[..], &["--fault", "swap-states:once@10"]].concat());
    assert_eq!(codes(&ended), [Some(1), Some(0)], "{ended:?}");
}

#[test]
fn ranks_wait_for_one_that_comes_late() {
    let job = Job::of(3);
    let load = ["--embedded", "-c", "3", "-i", "3", "-r", "1"];
    let early: Vec<_> = (0..2).map(|rank| job.begin(rank, &load)).collect();
    // Longer than a rank may be silent.
    std::thread::sleep(Duration::from_secs(9));
    let late = job.begin(2, &load);
    let ended: Vec<_> = early.into_iter().chain([late]).map(end).collect();
    assert_eq!(codes(&ended), [Some(0); 3], "{ended:?}");
}
