//! HTTP by hand, for tests.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

pub const LIMIT: Duration = Duration::from_secs(120);

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// By their names in small letters.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    fn is_whole(&self) -> bool {
        self.headers.get("content-length").is_some_and(|length| length.parse() == Ok(self.body.len()))
    }

    pub fn kind(&self) -> &str {
        self.headers.get("content-type").map_or("", String::as_str)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The text of an error; empty where it is none.
    pub fn error(&self) -> String {
        let json: Option<Value> = serde_json::from_slice(&self.body).ok();
        json.and_then(|json| Some(json.get("error")?.as_str()?.to_owned())).unwrap_or_default()
    }
}

/// The bytes of a request, after which the connection is closed.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = vec![format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")];
    if method == "POST" || !body.is_empty() {
        head.push(format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        head.push(format!("{name}: {value}\r\n"));
    }
    [head.concat().as_bytes(), b"\r\n", body].concat()
}

/// A connection that waits for an answer with a limit.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream
}

/// Sends a request, and returns the answer; none where the connection ends without one.
pub fn try_ask(mut stream: impl Read + Write, request: &[u8]) -> Option<Answer> {
    stream.write_all(request).ok()?;
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut some).ok()?;
        all.extend_from_slice(&some[..count]);
        // A process that the server began meanwhile may keep the connection open.
        if count == 0 || read(&all).is_some_and(|answer| answer.is_whole()) {
            return read(&all);
        }
    }
}

/// The answer that this is the beginning of.
fn read(all: &[u8]) -> Option<Answer> {
    let end = all.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Some(Answer { status, headers: lines.filter_map(header).collect(), body: all[end + 4..].to_vec() })
}

/// The same, of a server that answers.
pub fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let asked = request(method, path, headers, body);
    try_ask(connect(address), &asked).unwrap_or_else(|| panic!("{method} {path}: no answer"))
}
