//! The tool as a process.

#![allow(unreachable_pub, dead_code, reason = "each test file uses its part")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

/// The tool, which is told nothing by the environment and has nothing to read.
pub fn tool() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sequence-stress"));
    for name in ["SEQUENCE_STRESS_URL", "SEQUENCE_STRESS_METRICS", "SEQUENCE_STRESS_STARTER", "SEQUENCE_STRESS_RESTART"]
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// `sequence-stress serve`, ended when it is dropped.
pub struct Serve {
    pub process: Child,
    pub address: String,
}

impl Serve {
    pub fn start(options: &[&str]) -> Self {
        let mut command = tool();
        command.args(["serve", "--grpc-port", "0"]).args(options).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("serving gRPC at ").expect("an address").to_owned();
        Self { process, address }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
