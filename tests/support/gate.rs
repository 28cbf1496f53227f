//! Stands between a client and a server.

#![allow(unreachable_pub, reason = "it is a module of tests, of which each uses its part")]

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Stands between client and server, and can be told to let nothing pass for a while.
pub struct Gate {
    pub address: SocketAddr,
    pub held: Arc<AtomicBool>,
}

impl Gate {
    /// Lets pass what the client sends, as `passes` makes it, for as long as that says so; then it is gone, and what it listened on with it.
    pub fn before(server: SocketAddr, passes: impl FnMut(&mut [u8]) -> bool + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (held, is_gone) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let gate = Self { address, held: Arc::clone(&held) };
        let passes = Arc::new(Mutex::new(passes));
        thread::spawn(move || {
            for client in listener.incoming() {
                if is_gone.load(Relaxed) {
                    return;
                }
                let client = client.expect("a connection");
                let server = TcpStream::connect(server).expect("the server is there");
                let ends = |one: &TcpStream, other: &TcpStream| {
                    (one.try_clone().expect("a handle"), other.try_clone().expect("a handle"))
                };
                for ((from, to), is_clients) in [(ends(&client, &server), true), (ends(&server, &client), false)] {
                    let (held, is_gone, passes) = (Arc::clone(&held), Arc::clone(&is_gone), Arc::clone(&passes));
                    let passes =
                        move |bytes: &mut [u8]| !is_clients || passes.lock().is_ok_and(|mut passes| passes(bytes));
                    thread::spawn(move || carry(from, to, &held, &is_gone, address, passes));
                }
            }
        });
        gate
    }
}

/// Carries what one end sends to the other one.
fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    held: &AtomicBool,
    is_gone: &AtomicBool,
    listens_at: SocketAddr,
    passes: impl Fn(&mut [u8]) -> bool,
) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !passes(&mut bytes[..count]) {
            is_gone.store(true, Relaxed);
            // Wakes the listener, which ends.
            let _ = TcpStream::connect(listens_at);
        }
        while held.load(Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        if is_gone.load(Relaxed) || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // One end may be gone already.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
