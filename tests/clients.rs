//! The reference server and clients that others wrote: NVIDIA's Python client, and the C++ `perf_analyzer`.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long a client may take, many times what it does take.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// `sequence-stress serve`, ended when it is dropped.
struct Serve {
    process: Child,
    address: String,
}

impl Serve {
    fn start(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sequence-stress"));
        command.args(["serve", "--grpc-port", "0"]).args(options).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("serving gRPC at ").expect("an address").to_owned();
        Self { process, address }
    }

    fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("it can be asked").is_none()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command to its end within the limit; returns its exit code and all that it printed.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("output");
    let output = fs::File::create(&path).expect("a file");
    let errors = output.try_clone().expect("it can be shared");
    let mut child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().expect("it runs");
    let began = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            break status.code();
        }
        if began.elapsed() > LIMIT {
            child.kill().expect("it can be ended");
            child.wait().expect("it has ended");
            break None;
        }
        thread::sleep(LOOK);
    };
    (code, String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned())
}

fn told(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("scripts/test tells {name}"))
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn nvidias_python_client_is_served() {
    let mut serve = Serve::start(&["--max-batch-size", "4"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/tritonclient_grpc.py");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    let (code, output) = run(Command::new("python3").arg(script).arg(&serve.address).env("PYTHONPATH", packages));
    assert_eq!((code, output.as_str()), (Some(0), "OK\n"), "{output}");
    assert!(serve.is_running());
}

#[test]
#[ignore = "needs NVIDIA's perf_analyzer: run scripts/test"]
fn perf_analyzer_is_served() {
    let mut serve = Serve::start(&[]);
    for model in ["custom_sequence_int32", "custom_dyna_sequence_int32"] {
        let mut command = Command::new(told("SEQUENCE_STRESS_PERF_ANALYZER"));
        command.env("LD_LIBRARY_PATH", told("SEQUENCE_STRESS_PERF_ANALYZER_LIBRARIES"));
        command.args(["-m", model, "-u", &serve.address, "-i", "grpc", "--streaming", "--shape", "INPUT:1"]);
        command.args(["--sequence-length", "8", "--concurrency-range", "4", "--request-count", "500"]);
        let (code, output) = run(&mut command);
        assert_eq!(code, Some(0), "{model}: {output}");
        let lower = output.to_lowercase();
        assert!(!["error", "fail", "warn"].iter().any(|word| lower.contains(word)), "{model}: {output}");
        // It sends at least as many, and finds each of them in the server's statistics.
        let number = |of: &str| {
            let line = output.lines().find_map(|line| line.trim().strip_prefix(of));
            let count = line.and_then(|rest| rest.split_whitespace().next()).map(str::parse::<u32>);
            count.unwrap_or_else(|| panic!("{model}: no {of:?} in {output}")).expect("a number")
        };
        let sent = number("Request count:");
        assert!(sent >= 500, "{output}");
        assert_eq!((number("Inference count:"), number("Successful request count:")), (sent, sent), "{output}");
        assert!(serve.is_running());
    }
}
