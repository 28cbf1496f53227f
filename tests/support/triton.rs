//! The real tritonserver, for tests: `scripts/with-triton`, and a server that is asked over HTTP.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};

use super::http;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The command with a server, which is ended after three minutes.
pub fn with_triton(options: &[&str], command: &[&str]) -> Command {
    let mut with_triton = Command::new(format!("{ROOT}/scripts/with-triton"));
    with_triton.env("SEQUENCE_STRESS_TOOL", env!("CARGO_BIN_EXE_sequence-stress"));
    // Models that are given have the idle limit that they say.
    let of_models: &[&str] = if options.contains(&"--repository") { &[] } else { &["--idle-limit-ms", "200"] };
    with_triton.args(of_models).args(["--time-limit", "180"]).args(options).arg("--").args(command);
    with_triton.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    with_triton
}

/// Everything that was printed.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A server that runs until it is dropped.
pub struct Triton {
    process: Child,
    pub grpc: String,
    pub http: String,
    pub pid: String,
}

impl Triton {
    pub fn start(options: &[&str]) -> Self {
        let script = "echo $TRITON_GRPC; echo $TRITON_HTTP; echo $TRITON_PID; read line || true";
        let mut command = with_triton(options, &["sh", "-c", script]);
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("it runs");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let [grpc, http, pid] = [(); 3].map(|()| lines.next().expect("the server starts").expect("UTF-8"));
        Self { process, grpc, http, pid }
    }

    /// Asks over HTTP, and returns the status and the body.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let address = self.http.parse().expect("an address");
        let answer = http::ask(address, method, path, &[], body.to_string().as_bytes());
        (answer.status, if answer.body.is_empty() { Value::Null } else { answer.json() })
    }

    /// One step of a sequence; the answer's sum or the error's text.
    pub fn step(&self, id: u32, value: i32, start: bool) -> Result<i64, String> {
        let body = json!({
            "parameters": { "sequence_id": id, "sequence_start": start },
            "inputs": [{ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [value] }],
        });
        let (status, answer) = self.ask("POST", "/v2/models/custom_sequence_int32/infer", &body);
        match status {
            200 => Ok(answer["outputs"][0]["data"][0].as_i64().expect("a sum")),
            _ => Err(answer["error"].as_str().expect("a text").to_owned()),
        }
    }

    /// Ends the server, which has to be in good order.
    pub fn stop(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().expect("it ends").success());
    }
}

impl Drop for Triton {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
