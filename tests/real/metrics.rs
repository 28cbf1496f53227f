//! Metrics as a real Prometheus reads them, and a dashboard as Grafana's own description of dashboards has it.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    http::{LIMIT, connect, try_ask},
    metered::Metered,
    scrape::Page,
    tool::{text, words},
};
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// A run that violates once and misses a threshold.
const FAULTY: [&str; 7] =
    ["--embedded", "-r42", "-t4", "--idle-limit=500ms", "--fault=off-by-one:once@300", "--fail-if", "step.max > 1us"];

/// A folder or file that `scripts/test` got.
fn path_of(variable: &str) -> PathBuf {
    env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set: scripts/test sets it")).into()
}

/// Prometheus, which fetches the metrics of one address each second; ended when it is dropped.
struct Prometheus {
    process: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(folder: &Path, of: SocketAddr) -> Self {
        let configuration = folder.join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\nscrape_configs: [{{ job_name: run, static_configs: [{{ targets: ['{of}'] }}] }}]\n"
        );
        fs::write(&configuration, text).expect("a file");
        let mut command = Command::new(path_of("SEQUENCE_STRESS_PROMETHEUS").join("prometheus"));
        command.args(["--config.file", words(&configuration), "--storage.tsdb.path", words(&folder.join("data"))]);
        command.args(["--web.listen-address", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut said = BufReader::new(process.stderr.take().expect("a pipe"));
        let address = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).expect("UTF-8") > 0, "Prometheus ends before it listens");
            let told = line.split_once("msg=\"Listening on\" address=").and_then(|(_, rest)| rest.trim().parse().ok());
            if let Some(address) = told {
                break address;
            }
        };
        // It would wait for somebody to read what it says.
        thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        Self { process, address }
    }

    /// What it answers to a query: each series of the result.
    fn query(&self, query: &str) -> Vec<Value> {
        let encoded = query.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
        // To an older client it sends no chunks.
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
        let answer = try_ask(connect(self.address), request.as_bytes()).expect("an answer");
        // For a moment it is not ready.
        if answer.status == 503 {
            return Vec::new();
        }
        let json = answer.json();
        assert_eq!(json["status"], "success", "{query}: {json}");
        json.pointer("/data/result").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// The one value that a query has; none where it has none.
    fn value(&self, query: &str) -> Option<f64> {
        let result = self.query(query);
        result.first()?.pointer("/value/1")?.as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The queries of the dashboard, for one job and all scenarios, over ten seconds.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/grafana.json")).expect("a file");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let of = |target: &Value| {
        let query = target["expr"].as_str().expect("a query");
        query.replace("$__rate_interval", "10s").replace("$job", "run").replace("$scenario", ".*")
    };
    targets.map(of).collect()
}

#[test]
#[ignore = "needs Prometheus"]
fn prometheus_reads_a_run_and_answers_the_queries_of_the_dashboard() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let mut run = Metered::begin(&[&FAULTY[..], &["-d", "25s", "--json", words(&json)]].concat());
    let prometheus = Prometheus::start(folder.path(), run.address);
    let (queries, began) = (queries(), Instant::now());
    assert!(queries.len() > 20, "{queries:?}");
    // The last page is fetched by Prometheus, and that ends the process.
    let mut unanswered = queries.clone();
    while !unanswered.is_empty() {
        unanswered.retain(|query| prometheus.query(query).is_empty());
        assert!(began.elapsed() < LIMIT && run.child.try_wait().expect("a process").is_none(), "{unanswered:?}");
        thread::sleep(LOOK);
    }
    let report = run.report("replay: ");
    assert_eq!(run.child.wait().expect("it ends").code(), Some(1), "{report}");
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let counted = ["/outcomes/requests", "/violation_count"].map(|path| result.pointer(path).and_then(Value::as_f64));
    let last = ["requests", "violations"].map(|name| format!("sum(last_over_time(sequence_stress_{name}_total[5m]))"));
    let began = Instant::now();
    // What it has fetched it stores a moment later.
    while last.each_ref().map(|query| prometheus.value(query)) != counted {
        assert!(began.elapsed() < LIMIT, "{counted:?}: {:?}", last.map(|query| prometheus.value(&query)));
        thread::sleep(LOOK);
    }
    assert!(counted[1] > Some(0.0));
}

#[test]
#[ignore = "needs promtool"]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    let mut run = Metered::begin(&[&FAULTY[..], &["-i", "60"]].concat());
    let early = Page::fetch(run.address);
    run.report("replay: ");
    let (last, _) = run.end();
    for page in [early, last] {
        let mut command = Command::new(path_of("SEQUENCE_STRESS_PROMETHEUS").join("promtool"));
        command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        child.stdin.take().expect("a pipe").write_all(page.text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), text(&output)), (Some(0), String::new()), "{}", page.text);
    }
}

#[test]
#[ignore = "needs a Python package"]
fn the_dashboard_has_only_what_grafana_knows() {
    let mut command = Command::new("python3");
    command.arg(Path::new(ROOT).join("scripts/testing/dashboard.py")).arg(Path::new(ROOT).join("docs/grafana.json"));
    let output = command.env("PYTHONPATH", path_of("SEQUENCE_STRESS_GRAFANA")).output().expect("it runs");
    assert_eq!((output.status.code(), text(&output).trim().to_owned()), (Some(0), String::new()));
}
