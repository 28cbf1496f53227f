//! Requests that are left pending in the server, as its metrics tell them.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::support::{
    MODEL,
    runs::{reference_server, run_alone, scenario},
    tool::tool,
};
use oracle::ViolationKind;
use reference::ModelOptions;
use sequence_stress::{
    probe::PendingRequests,
    run::{RunResult, Setup},
};
use workload::seed::Seed;

/// What a run says where these metrics are told.
fn run_with_metrics(metrics: &str) -> RunResult {
    let models = ModelOptions { idle_limit: Duration::from_millis(100), ..ModelOptions::default() };
    let server = reference_server(models, &[]);
    let text = format!(
        "target = {{ endpoint = '{}', model = '{MODEL}', metrics = '{metrics}' }}\nload = {{ workers = 1, iterations = 3 }}\n\
         limits = {{ connect_ms = 3000, settle_ms = 300, quiet_ms = 20 }}\nslots.check = false",
        server.address
    );
    let setup = Setup { embedded: true, ..Setup::new(scenario(&text), Seed(3)) };
    run_alone(setup).expect("the server can be tested")
}

/// A listener that treats each connection so, and how many there were.
fn listener(serve: impl Fn(usize, TcpStream) + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(counter.fetch_add(1, Relaxed), stream);
        }
    });
    (address, connections)
}

/// Metrics that tell these counts of pending requests, the last of them for ever.
fn metrics(counts: &'static [u64]) -> (String, Arc<AtomicUsize>) {
    listener(move |nth, stream| {
        let count = counts[nth.min(counts.len() - 1)];
        let other = "nv_inference_pending_request_count{model=\"other\",version=\"1\"} 7";
        let ours = format!("nv_inference_pending_request_count{{model=\"{MODEL}\",version=\"1\"}} {count}");
        answer(stream, "200 OK", &format!("# TYPE nv_inference_pending_request_count gauge\n{other}\n{ours}\n"));
    })
}

fn answer(mut stream: TcpStream, status: &str, body: &str) {
    let mut request = [0; 1024];
    let length = stream.read(&mut request).expect("a request");
    assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\n"), "{:?}", request[..length].escape_ascii());
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).expect("somebody who listens");
}

#[test]
fn pending_requests_that_are_worked_off_are_no_violation() {
    let (address, asked) = metrics(&[5, 2, 0]);
    let result = run_with_metrics(&address);
    assert_eq!((result.pending, result.violations), (PendingRequests::None, Vec::new()));
    assert_eq!(asked.load(Relaxed), 3);
}

#[test]
fn pending_requests_that_are_left_are_a_violation() {
    let (address, _) = metrics(&[5, 2]);
    let result = run_with_metrics(&address);
    assert_eq!(result.pending, PendingRequests::Left { count: 2 });
    let [violation] = result.violations.as_slice() else { panic!("{:#?}", result.violations) };
    assert_eq!(violation.kind, ViolationKind::PendingLeft);
}

#[test]
fn metrics_that_cannot_be_read_are_told_and_no_violation() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string();
    let silent = listener(|_, stream| std::mem::forget(stream)).0;
    let hangs_up = listener(|_, stream| drop(stream)).0;
    let missing = listener(|_, stream| answer(stream, "404 Not Found", "")).0;
    let empty = listener(|_, stream| answer(stream, "200 OK", "")).0;
    for (address, expected) in [
        (free, "refused"),
        (silent, "no response within 3000 ms"),
        (hangs_up, "cannot be read"),
        (missing, "404 Not Found"),
        (empty, "has no nv_inference_pending_request_count of model"),
    ] {
        let result = run_with_metrics(&address);
        assert_eq!(result.violations, []);
        let PendingRequests::NotChecked { why } = result.pending else { panic!("{:?}", result.pending) };
        assert!(why.contains(expected) && why.contains(&address) && why.lines().count() == 1, "{why}");
    }
}

#[test]
fn a_replay_elsewhere_looks_at_the_metrics_of_that_server() {
    let models = ModelOptions { idle_limit: Duration::from_millis(100), ..ModelOptions::default() };
    let server = reference_server(models, &[]);
    let (left, _) = metrics(&[3]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "format = 'sequence-stress-failure'\nversion = 1\nfound = 'pending-left'\nkind = 'pending-left'\nseed = 1\n\
         [[conversation]]\nworker = 0\ncontext = 0\npattern = 'valid'\nat_us = 0\nacts = ['send 0 START END 1']\n\
         [scenario]\ntarget = {{ endpoint = 'localhost:1', model = '{MODEL}', metrics = '{left}' }}\n\
         limits = {{ connect_ms = 20000, settle_ms = 300, quiet_ms = 20 }}\n"
    );
    std::fs::write(file.path(), text).expect("a file");
    let replay = |more: &[&str]| {
        let url = server.address.to_string();
        let output = tool().arg("replay").arg(file.path()).args(["-u", &url]).args(more).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = replay(&["--metrics-url", &left]);
    assert!(code == Some(1) && said.contains("pending-left: failed in 1 of 1 run"), "{said}");
    let (code, said) = replay(&[]);
    assert!(code == Some(0) && said.contains("pending-left: did not fail in 1 run"), "{said}");
}

#[test]
fn an_embedded_server_tells_its_pending_requests() {
    // The only instance hangs, and what comes behind its last execution waits for ever.
    let quick = ["--embedded", "-t", "2", "-i", "3", "-r", "5", "--idle-limit", "200ms", "--execution-time", "0ms"];
    let run = |more: &[&str]| {
        let output = tool().args(quick).args(more).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let right = run(&[]);
    assert!(right.contains("pending        no requests\n"), "{right}");
    let wrong = run(&["--fault", "hang-instance:once@3"]);
    assert!(wrong.contains(" left in the server\n"), "{wrong}");
}
