//! `sequence-stress proxy --record`.

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{LIMIT, MODEL, send, tracks};
use crate::support::{
    runs::server_with,
    tls::{Authority, TlsFront},
    tool::{text, tool, words},
};
use workload::inputs::recording::read;

const LOOK: Duration = Duration::from_millis(2);

/// `sequence-stress proxy --record`, ended when it is dropped.
struct Tool {
    process: Child,
    lines: io::Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl Tool {
    fn start(flags: &[&str]) -> Self {
        let mut process = tool()
            .arg("proxy")
            .args(flags)
            .arg("--while-stdin-is-open")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("UTF-8");
        let address = line.rsplit(' ').next().expect("a word").parse().expect("an address");
        let recording = lines.next().expect("a line").expect("UTF-8");
        assert!(recording.starts_with("recording to "), "{recording}");
        Self { process, lines, address }
    }

    /// Ends it in good order, and returns what it says then.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.process.stdin.take());
        let said: Vec<_> = self.lines.by_ref().map(|line| line.expect("UTF-8")).collect();
        (self.process.wait().expect("it ends").code(), said.join("\n"))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_command_records_and_a_killed_one_leaves_what_can_be_read() {
    let server = server_with(None);
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("traffic.jsonl");
    let to = format!("http://{}", server.http);
    let flags = ["--to", &to, "--record", words(&path), "-m", MODEL];
    let proxy = Tool::start(&flags);
    send(proxy.address, 1, true, false);
    send(proxy.address, 2, false, true);
    let (code, said) = proxy.end();
    assert_eq!(code, Some(0));
    assert!(said.contains("2 requests of 1 sequence: 1 whole, 0 without END or with a gap"), "{said}");
    let recorded = |path: &std::path::Path| read(&fs::read_to_string(path).expect("a file")).expect("a recording");
    assert_eq!(tracks(&recorded(&path).into_model(None).expect("one model")), [[1, 2]]);

    let mut proxy = Tool::start(&flags);
    send(proxy.address, 3, true, false);
    send(proxy.address, 4, false, false);
    let began = Instant::now();
    while fs::read_to_string(&path).expect("a file").lines().count() < 3 {
        assert!(began.elapsed() < LIMIT, "nothing is written before the end");
        std::thread::sleep(LOOK);
    }
    proxy.process.kill().expect("it runs");
    assert_eq!(tracks(&recorded(&path).into_model(None).expect("one model")), [[3, 4]]);
}

#[test]
fn the_command_speaks_tls_to_the_server() {
    let (server, authority) = (server_with(None), Authority::new());
    let front = TlsFront::start(server.http, &authority, "server", false);
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("traffic.jsonl");
    let (to, ca) = (format!("https://{}", front.address), authority.file("ca.pem"));
    let proxy = Tool::start(&["-u", &to, "--ca", &ca, "--record", words(&path)]);
    send(proxy.address, 9, true, true);
    assert_eq!(proxy.end().0, Some(0));
    let recording = read(&fs::read_to_string(&path).expect("a file")).expect("a recording");
    assert_eq!(tracks(&recording.into_model(None).expect("one model")), [[9]]);
}

#[test]
fn what_the_command_cannot_do_is_told_in_a_line() {
    let folder = TempDir::new().expect("a folder");
    let old = folder.path().join("old.jsonl");
    fs::write(&old, "old").expect("a file");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    for (flags, code, said) in [
        (&["--to", "h:1,h:2"][..], 2, "--to names 2 endpoints of gRPC"),
        (&["--to", "h:1", "--http-port", "5"], 2, "--http-port needs endpoints of both"),
        (&["--to", "h:1", "-m", "m"], 2, "--record"),
        (&["--to", "grpcs://h:1", "--ca", "x"], 2, "need --record"),
        (&["--to", "grpcs://h:1", "--ca", "/nowhere", "--record", "/dev/null"], 2, "/nowhere"),
        (&["--to", "h:1", "--record", "/nowhere/at/all"], 2, "cannot write the recording /nowhere/at/all"),
        (&["--to", "h:1", "--port", &port, "--record", words(&old)], 4, "choose another port"),
    ] {
        let output = tool().arg("proxy").args(flags).output().expect("it runs");
        let error = text(&output);
        assert!(output.status.code() == Some(code) && error.contains(said), "{flags:?}: {error}");
        assert_eq!(error.trim().lines().count(), 1, "{error}");
    }
    assert_eq!(fs::read_to_string(&old).expect("a file"), "old", "it is not replaced before the proxy listens");
}
