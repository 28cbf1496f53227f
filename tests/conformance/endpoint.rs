//! Servers to talk to, and how they are started.

use std::{
    fmt,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use models::ModelOptions;
use reference::{Fault, HoldUntil, Options, Planted, Server};
use tempfile::TempDir;

use crate::setup::Backend;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The reference server's name in reports.
pub(crate) const REFERENCE: &str = "the reference server";
/// A server ends with its process. This limit is for one that hangs; the long form may take four hours.
const SERVER_SECONDS: &str = "14400";

/// What a server needs besides its models' configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// `TRITONSERVER_DELAY_SCHEDULER` holds Direct's executions back until so many requests wait in slots.
    pub(crate) delay_scheduler: Option<u32>,
    /// `TRITONSERVER_BACKLOG_DELAY_SCHEDULER` does until so many wait in the backlog, too.
    pub(crate) backlog_delay_scheduler: Option<u32>,
    /// How many versions its repository has of each model, where that is more than one.
    pub(crate) versions: Option<u32>,
}

impl Environment {
    fn variables(self) -> Vec<String> {
        let both = [
            ("TRITONSERVER_DELAY_SCHEDULER", self.delay_scheduler),
            ("TRITONSERVER_BACKLOG_DELAY_SCHEDULER", self.backlog_delay_scheduler),
        ];
        both.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}"))).collect()
    }
}

/// Where a server speaks gRPC and HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
}

/// A server that runs until it is dropped.
pub(crate) struct Endpoint {
    pub(crate) name: &'static str,
    pub(crate) backend: Backend,
    pub(crate) addresses: Addresses,
    _server: Box<dyn Send>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {}", self.name, self.addresses.grpc)
    }
}

/// The real server. It is ended by the end of its input, which comes with this process's own end too.
struct Real {
    process: Child,
    #[expect(dead_code, reason = "it is deleted when it is dropped, after the server has ended")]
    repository: Option<TempDir>,
}

impl Drop for Real {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// A model repository with so many versions of each model.
fn repository(versions: u32) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sequence-stress"));
    command.arg("repository").arg(folder.path()).args(["--tester", "--dtype", "int32", "--versions"]);
    let written = command.arg(versions.to_string()).output().expect("it runs");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    folder
}

/// Starts the real tritonserver, with no model loaded.
pub(crate) fn real(environment: Environment, backend: Backend) -> Endpoint {
    let mut command = Command::new(format!("{ROOT}/scripts/with-triton"));
    command.env("SEQUENCE_STRESS_TOOL", env!("CARGO_BIN_EXE_sequence-stress"));
    command.args([
        "--explicit",
        "--server-arg=--disable-auto-complete-config",
        "--server-arg=--exit-timeout-secs=2",
        "--time-limit",
        SERVER_SECONDS,
    ]);
    if backend == Backend::Python {
        command.arg("--python");
    }
    let repository = environment.versions.map(repository);
    if let Some(folder) = &repository {
        command.arg("--repository").arg(folder.path());
    }
    for variable in environment.variables() {
        command.args(["--server-env", &variable]);
    }
    if let Ok(log) = std::env::var("SEQUENCE_STRESS_CONFORMANCE_LOG") {
        command.args(["--log", &log, "--server-arg=--log-verbose=1"]);
    }
    command.args(["--", "sh", "-c", "echo $TRITON_GRPC $TRITON_HTTP; read line || true"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("with-triton runs");
    let mut told = String::new();
    let out = child.stdout.take().expect("a pipe");
    let server = Real { process: child, repository };
    BufReader::new(out).read_line(&mut told).expect("the server's addresses");
    let mut told = told.split_whitespace().map(str::parse);
    let mut address = || told.next().and_then(Result::ok).expect("with-triton starts a server and tells its addresses");
    let addresses = Addresses { grpc: address(), http: address() };
    Endpoint { name: name(backend), backend, addresses, _server: Box::new(server) }
}

/// The real server's name in reports.
pub(crate) fn name(backend: Backend) -> &'static str {
    match backend {
        Backend::Native => "tritonserver 24.10",
        Backend::Python => "tritonserver 24.10 with Python models",
    }
}

/// Starts the reference server in this process, with no model loaded, and with a fault that the real one has.
pub(crate) fn reference(environment: Environment) -> Endpoint {
    let requests = |count: Option<u32>| count.unwrap_or(0) as usize;
    let hold_until = HoldUntil {
        queued: requests(environment.delay_scheduler),
        backlog: requests(environment.backlog_delay_scheduler),
    };
    let faults = vec![Planted::always(Fault::OrphanAtCancel)];
    let models = ModelOptions { versions: environment.versions.unwrap_or(1), ..ModelOptions::default() };
    let options = Options { hold_until, faults, models, explicit: true, ..Options::default() };
    let server = Server::start(options).expect("a free port");
    let addresses = Addresses { grpc: server.address, http: server.http };
    Endpoint { name: REFERENCE, backend: Backend::Native, addresses, _server: Box::new(server) }
}
