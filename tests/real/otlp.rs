//! `--otlp` with a real collector of OpenTelemetry, rotel.

use std::{
    env, fs,
    fs::File,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::support::tool::{text, tool, words};
use serde_json::Value;

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// The collector, which writes all that it receives to a file; ended when it is dropped.
struct Collector {
    process: Child,
    grpc: SocketAddr,
}

impl Collector {
    fn start(log: &Path) -> Self {
        // Somebody else may have taken a port that was just free.
        loop {
            if let Some(started) = Self::try_start(log) {
                return started;
            }
        }
    }

    fn try_start(log: &Path) -> Option<Self> {
        let folder = env::var_os("SEQUENCE_STRESS_ROTEL").expect("scripts/test sets SEQUENCE_STRESS_ROTEL");
        let free = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let [grpc, http] = [free(), free()].map(|listener| listener.local_addr().expect("an address"));
        let mut command = Command::new(Path::new(&folder).join("rotel-agent"));
        command.args(["start", "--exporter", "blackhole", "--debug-log", "traces", "--debug-log", "metrics"]);
        command.args(["--debug-log-verbosity", "detailed", "--otlp-grpc-endpoint", &grpc.to_string()]);
        command.args(["--otlp-http-endpoint", &http.to_string()]).env("NO_COLOR", "1");
        let file = File::create(log).expect("a file");
        command.stdout(file.try_clone().expect("a handle")).stderr(file).stdin(Stdio::null());
        let mut started = Self { process: command.spawn().expect("it runs"), grpc };
        while started.process.try_wait().expect("a process").is_none() {
            if TcpStream::connect(grpc).is_ok() {
                return Some(started);
            }
            thread::sleep(LOOK);
        }
        None
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "needs rotel"]
fn a_collector_gets_the_metrics_and_a_trace_of_each_sequence_with_a_violation() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, log] = ["run.json", "rotel.log"].map(|name| folder.path().join(name));
    let collector = Collector::start(&log);
    let mut command = tool();
    command.args(["--embedded", "-r42", "-t4", "-i60", "--idle-limit=500ms", "--fault=off-by-one:once@300", "--otlp"]);
    command.args(["--json", words(&json)]).env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.grpc));
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "500").env("OTEL_RESOURCE_ATTRIBUTES", "deployment=a-test");
    let output = command.output().expect("it runs");
    let said = text(&output);
    assert!(output.status.code() == Some(1) && !said.contains("collector"), "{said}");
    drop(collector);
    let got = fs::read_to_string(&log).expect("UTF-8");
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let number =
        |path: &str| result.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {result}"));
    let last = got.rsplit("ResourceMetrics #").next().expect("one");
    let count = number("/latency_us/step/count");
    for (name, line, expected) in [
        ("requests", "Value", number("/outcomes/requests")),
        ("violations", "Value", number("/violation_count")),
        ("step_duration", "Count", count),
        ("step_duration", "Sum", count * number("/latency_us/step/mean") / 1e6),
        ("sequence_duration", "Count", number("/latency_us/sequence/count")),
        ("slot_wait", "Count", number("/latency_us/wait_for_slot/count")),
    ] {
        let told = value(last, name, line);
        assert!((told / expected - 1.0).abs() < 0.001, "{name} {line}: {told}, and not {expected}");
    }
    assert!(last.contains("service.name: Str(sequence-stress)") && last.contains("deployment: Str(a-test)"), "{last}");
    let spans: Vec<_> = got.split("Span #").skip(1).collect();
    let named = |name: &str| -> Vec<&str> {
        let is_its = |span: &&str| span.contains(&format!("    Name           : {name}\n"));
        spans.iter().copied().filter(is_its).collect()
    };
    let (roots, steps) = (named("sequence"), named("step"));
    let [root] = roots[..] else { panic!("{} traces\n{got}", roots.len()) };
    let request = result.pointer("/violations/0/request_id").and_then(Value::as_str).expect("a request");
    for text in ["pattern: Str(", "correlation_id: Str(", "seed: Str(42)", "Status message : wrong-sum"] {
        assert!(root.contains(text), "{text}: {root}");
    }
    let id = |span: &str, what: &str| {
        let line = span.lines().find_map(|line| line.trim().strip_prefix(what)?.trim_start().strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{what}: {span}")).trim().to_owned()
    };
    let is_child =
        |step: &&str| id(step, "Parent ID") == id(root, "ID") && id(step, "Trace ID") == id(root, "Trace ID");
    // The steps before it were kept; the tool did not wait for those after it.
    let before: usize = request.rsplit('-').next().and_then(|step| step.parse().ok()).expect("a step");
    assert!(steps.iter().all(is_child) && steps.len() > before, "{request}: {} steps", steps.len());
    let wrong: Vec<_> = steps.iter().filter(|step| step.contains("Name: violation")).collect();
    let [wrong] = wrong[..] else { panic!("{} steps are wrong", wrong.len()) };
    for text in
        [&format!("request_id: Str({request})"), "kind: Str(wrong-sum)", "cause: Str(wrong-arithmetic)", "off by 1"]
    {
        assert!(wrong.contains(text), "{text}: {wrong}");
    }
}

/// A number of a metric in the collector's log.
fn value(log: &str, name: &str, line: &str) -> f64 {
    let metric = log.split("-> Name: ").find_map(|text| text.strip_prefix(&format!("sequence_stress.{name}\n")));
    let metric = metric.unwrap_or_else(|| panic!("{name}: {log}"));
    let value = metric.lines().find_map(|its| its.strip_prefix(&format!("{line}: ")));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{name} {line}: {metric}"))
}
