//! Connections that end before the server takes anything in from them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use sequence_stress::run::{RunError, RunResult, Setup};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use workload::seed::Seed;

use crate::support::runs::{run_alone, runtime, scenario_at, server_with};

/// One worker on one connection, so that few connections are made.
const SCENARIO: &str = "
load = { workers = 1, iterations = 5 }
sending.connection = 'per-worker'
patterns.common = { valid = 1 }
patterns.rare = { valid = 1 }
slots.check = false
claims = {}
";

const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// GOAWAY with the last stream that is taken in, and an error code.
fn go_away(last: u8, code: u8) -> Vec<u8> {
    vec![0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, code]
}

/// The first stream of the connection is rejected unread.
fn rejected() -> Vec<u8> {
    vec![0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7]
}

/// Waits for the first request, answers it with these frames, and closes the connection.
async fn end(mut near: TcpStream, frames: &[u8]) -> std::io::Result<()> {
    near.read_exact(&mut [0; PREFACE_BYTES]).await?;
    let mut header = [0; 9];
    while header[3] != HEADERS {
        near.read_exact(&mut header).await?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        near.read_exact(&mut vec![0; length as usize]).await?;
    }
    near.write_all(&[&SETTINGS, frames].concat()).await?;
    near.shutdown().await?;
    // What is unread would reset the connection.
    near.read_to_end(&mut Vec::new()).await.map(drop)
}

/// A run through a front that ends every other connection like this, and how many it ended.
fn stress(frames: Vec<u8>) -> (Result<RunResult, RunError>, usize) {
    let server = server_with(None);
    let upstream = server.address;
    let (ended, frames) = (Arc::new(AtomicUsize::new(0)), Arc::new(frames));
    let (tell, address) = std::sync::mpsc::channel::<SocketAddr>();
    let (stop, stopped) = oneshot::channel::<()>();
    let count = Arc::clone(&ended);
    let front = std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tell.send(listener.local_addr().expect("an address")).expect("a test that waits");
            let accept = async {
                for number in 0.. {
                    let (mut near, _) = listener.accept().await.expect("a connection");
                    let (frames, count) = (Arc::clone(&frames), Arc::clone(&count));
                    tokio::spawn(async move {
                        if number % 2 == 0 {
                            count.fetch_add(1, Relaxed);
                            // The client may be gone before it reads all.
                            let _ = end(near, &frames).await;
                        } else {
                            let mut far = TcpStream::connect(upstream).await.expect("the server is there");
                            let _ = copy_bidirectional(&mut near, &mut far).await;
                        }
                    });
                }
            };
            tokio::select! {
                () = accept => {}
                _ = stopped => {}
            }
        });
    });
    let address = address.recv().expect("it starts");
    let result = run_alone(Setup::new(scenario_at(address, SCENARIO), Seed(1)));
    drop(stop);
    front.join().expect("the front does not fail");
    (result, ended.load(Relaxed))
}

#[test]
fn what_the_server_did_not_take_in_goes_over_another_connection() {
    for frames in [go_away(0, 0), [rejected(), go_away(1, 0)].concat()] {
        let (result, ended) = stress(frames.clone());
        let result = result.expect("the server can be tested");
        assert_eq!(result.violations, [], "{frames:?}");
        assert!(result.tally.total().completed > 0, "{frames:?}");
        let go_aways = result.go_aways;
        // Of the last connections the client may have read nothing more.
        assert!(ended > 1 && go_aways.retried > 1 && go_aways.connections > 1, "{frames:?} {ended} {go_aways:?}");
        assert_eq!(go_aways.cut, 0, "{frames:?}");
    }
}

#[test]
fn a_connection_that_ends_with_an_error_is_not_tried_again() {
    let (result, ended) = stress(go_away(0, 2));
    let Err(RunError::Endpoint(why)) = result else { panic!("{:?}", result.map(|result| result.violations)) };
    assert_eq!(ended, 1, "{why}");
}
