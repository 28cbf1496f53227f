//! The tool as a process.

#![allow(unreachable_pub, dead_code, reason = "each test file uses its part")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// The tool, which is told nothing by the environment and has nothing to read.
pub fn tool() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sequence-stress"));
    for name in ["URL", "METRICS", "STARTER", "RESTART"] {
        command.env_remove(format!("SEQUENCE_STRESS_{name}"));
    }
    command.env_remove("GITHUB_STEP_SUMMARY");
    command.stdin(Stdio::null());
    command
}

/// The words of a command that starts the tool, and has it do with SIGHUP what Python calls `SIG_DFL`, or `SIG_IGN` as `nohup` does. What
/// starts the tests may ignore it, and a shell leaves ignored what was ignored when it started.
pub fn with_hangup(of_it: &str) -> Vec<String> {
    let script = format!(
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.{of_it}); os.execv(sys.argv[1], sys.argv[1:])"
    );
    let tool = env!("CARGO_BIN_EXE_sequence-stress");
    ["python3", "-c", &script, tool].map(str::to_owned).into()
}

/// What the tool says to these arguments.
pub fn run(arguments: &[&str]) -> Output {
    tool().args(arguments).output().expect("the command runs")
}

/// What a command wrote: to standard output, and then to standard error.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// The exit code and the text of the tool with these arguments.
pub fn told(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(arguments);
    (output.status.code(), text(&output))
}

/// A path as an argument.
pub fn words(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// `sequence-stress serve`, ended when it is dropped.
pub struct Serve {
    pub process: Child,
    pub address: String,
    pub http: String,
    pub metrics: String,
}

impl Serve {
    pub fn start(options: &[&str]) -> Self {
        Self::at(["0", "0", "0"], options)
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process.kill().and_then(|()| self.process.wait()).expect("it can be ended");
    }

    /// A server at the ports of this one, which has ended.
    pub fn again(&self, options: &[&str]) -> Self {
        let port = |address: &'_ str| address.rsplit_once(':').expect("a port").1.to_owned();
        let ports = [&self.address, &self.http, &self.metrics].map(|address| port(address));
        Self::at(ports.each_ref().map(String::as_str), options)
    }

    fn at([grpc, http, metrics]: [&str; 3], options: &[&str]) -> Self {
        let mut command = tool();
        command
            .args(["serve", "--grpc-port", grpc, "--http-port", http, "--metrics-port", metrics])
            .args(options)
            .stdout(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut lines = BufReader::new(process.stdout.as_mut().expect("a pipe")).lines();
        let [address, http, metrics] = ["serving gRPC at ", "serving HTTP at ", "metrics at http://"].map(|words| {
            let line = lines.next().expect("a line").expect("UTF-8");
            line.strip_prefix(words).unwrap_or_else(|| panic!("{line}")).to_owned()
        });
        Self { process, address, http, metrics: metrics.trim_end_matches("/metrics").to_owned() }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A text without its line breaks and indents, which depend on the width of the report.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
