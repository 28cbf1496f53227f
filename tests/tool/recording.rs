//! Recording what clients send.

mod command;
mod disk;
mod streams;
mod traffic;

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use hyper::{Request, body::Bytes};
use serde_json::json;
use tokio::{net::TcpListener, sync::oneshot};

use crate::support::{http, runs::runtime};
use reference::Server;
use wire::{
    net::Socket,
    proxy::{Copy, Path, serve},
    recording::{MEMORY_MAX, Recorder, Summary},
};
use workload::{
    inputs::{Track, recording::Recorded},
    scenario::Network,
    seed::Seed,
};

const MODEL: &str = "custom_sequence_int32";
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);
/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("UTF-8")
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A proxy between clients and a server that records.
struct Proxied {
    grpc: SocketAddr,
    http: SocketAddr,
    recorder: Recorder,
    _stop: oneshot::Sender<()>,
}

impl Proxied {
    fn start(to: [SocketAddr; 2], recorder: Recorder) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let taps = Arc::new(recorder.taps());
        std::thread::spawn(move || {
            let runtime = runtime();
            runtime.block_on(async {
                let mut serving = Vec::new();
                for to in to {
                    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                    tell.send(listener.local_addr().expect("an address")).expect("a test that waits");
                    let taps = Arc::clone(&taps);
                    let path = Path::new(Network::default(), None, Seed(1), 0).copied(move || -> Copy {
                        let mut tap = taps();
                        Box::new(move |bytes| tap.came(bytes))
                    });
                    let connect = move || async move { Socket::connect(&to.to_string()).await };
                    serving.push(tokio::spawn(serve(listener, connect, path, std::future::pending())));
                }
                let _ = stopped.await;
            });
            runtime.shutdown_background();
        });
        let address = || told.recv().expect("it starts");
        Self { grpc: address(), http: address(), recorder, _stop: stop }
    }

    fn to(server: &Server, models: &[&str]) -> (Self, Memory) {
        let memory = Memory::default();
        let models = models.iter().map(|&model| model.to_owned()).collect();
        let recorder = Recorder::start(memory.clone(), models, MEMORY_MAX, |_| ()).expect("memory");
        (Self::start([server.address, server.http], recorder), memory)
    }

    fn finish(self) -> Summary {
        self.recorder.finish().expect("it is written")
    }
}

/// A message with what stands before it.
fn framed(is_compressed: bool, message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[u8::from(is_compressed)], &length[..], message].concat().into()
}

fn call<B>(at: SocketAddr, method: &str, body: B) -> Request<B> {
    Request::post(format!("http://{at}/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", "gzip")
        .header("authorization", "Bearer hunter2")
        .header("x-tenant", "tenant")
        .body(body)
        .expect("a request")
}

fn send(at: SocketAddr, element: i32, start: bool, end: bool) {
    let path = format!("/v2/models/{MODEL}/infer");
    let body = json!({
        "parameters": { "sequence_id": 5, "sequence_start": start, "sequence_end": end },
        "inputs": [{ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [element] }],
    });
    let answer = http::ask(at, "POST", &path, &[], body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The elements of each step.
fn elements(Track { steps, .. }: &Track) -> Vec<i32> {
    let of = |data: &[u8]| i32::from_le_bytes(data.try_into().expect("four bytes"));
    steps.iter().map(|step| of(&step[0].data)).collect()
}

fn tracks(recorded: &Recorded) -> Vec<Vec<i32>> {
    recorded.tracks.iter().map(elements).collect()
}
