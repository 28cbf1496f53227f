//! Endpoints that are not what the user thinks: one line says what is there and what to do.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use crate::support::tool::{Serve, tool};

/// The exit code and what is said.
fn stress(arguments: &[&str]) -> (Option<i32>, String) {
    let output = tool().args(arguments).args(["-i", "1"]).output().expect("the command runs");
    assert!(output.stdout.is_empty(), "{output:?}");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(error.lines().count(), 1, "{error}");
    (output.status.code(), error)
}

/// A listener that treats each connection so, until the test ends.
fn listener(treat: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| _ = thread::spawn(move || treat(stream))));
    address
}

/// A web server that has no page.
fn not_found(mut stream: TcpStream) {
    let mut seen = Vec::new();
    let mut bytes = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..read]);
        if seen.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            seen.clear();
            let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nnot found";
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Takes connections and says nothing.
fn silent(mut stream: TcpStream) {
    let mut bytes = [0; 1024];
    while let Ok(1..) = stream.read(&mut bytes) {}
}

#[test]
fn a_web_server_is_no_inference_server() {
    let address = listener(not_found);
    let (code, error) = stress(&[&format!("http://{address}")]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("is no inference server") && error.contains("Triton's HTTP port is 8000"), "{error}");
    let (code, error) = stress(&[&address]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("does not speak gRPC") && error.contains(&format!("http://{address}")), "{error}");
}

#[test]
fn the_ports_of_a_server_are_told_apart() {
    let server = Serve::start(&[]);
    let http = server.http.clone();
    let (code, error) = stress(&[&http]);
    assert!(
        code == Some(4) && error.contains("does not speak gRPC") && error.contains(&format!("http://{http}")),
        "{error}"
    );
    let (code, error) = stress(&[&format!("http://{}", server.address)]);
    assert!(code == Some(4) && error.contains("does not speak HTTP/1.1"), "{error}");
}

#[test]
fn a_silent_endpoint_is_told_within_its_timeout() {
    let address = listener(silent);
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("s.toml");
    std::fs::write(&path, "limits.connect_ms = 300").expect("a file");
    let (code, error) = stress(&[&address, "--scenario", path.to_str().expect("UTF-8")]);
    assert!(code == Some(4) && error.contains("no response within 300 ms"), "{error}");
}

#[test]
fn a_misspelt_model_leads_to_the_nearest() {
    let server = Serve::start(&[]);
    let (code, error) = stress(&[&server.address, "-m", "custom_sequnce_int32"]);
    assert!(code == Some(4) && error.trim_end().ends_with("did you mean -m custom_sequence_int32?"), "{error}");
    let (code, error) = stress(&[&server.address, "-m", "zzz"]);
    assert!(code == Some(4) && error.contains("no model 'zzz'; it has ") && error.contains(" more"), "{error}");
}
