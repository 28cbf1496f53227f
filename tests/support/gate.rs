//! Stands between a client and a server in a simulation.

#![allow(unreachable_pub, reason = "it is a module of tests, of which each uses its part")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split},
    sync::watch,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use wire::{
    net::{Place, Socket},
    simulation,
};

/// What becomes of some bytes that the client sent.
pub enum Pass {
    Now,
    After(Duration),
    /// The gate closes all its connections, and accepts no other.
    Never,
}

type Passes = Arc<Mutex<dyn FnMut(&mut [u8]) -> Pass + Send>>;

/// Stands between client and server until the simulation ends.
pub struct Gate {
    pub address: SocketAddr,
    /// Nothing passes while this is true.
    pub held: watch::Sender<bool>,
    gone: CancellationToken,
}

impl Gate {
    /// A gate that asks `passes` about all bytes that the client sends; `passes` may change them.
    pub fn before(server: SocketAddr, passes: impl FnMut(&mut [u8]) -> Pass + Send + 'static) -> Self {
        let (place, address) = Place::listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let (held, gone) = (watch::Sender::new(false), CancellationToken::new());
        let gate = Self { address, held: held.clone(), gone: gone.clone() };
        let passes: Passes = Arc::new(Mutex::new(passes));
        simulation::spawn(async move {
            let listener = place.into_listener().expect("a runtime");
            while let Some(Ok(client)) = gone.run_until_cancelled(listener.accept()).await {
                let server = Socket::connect(&server.to_string()).await.expect("the server is there");
                let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
                for (from, to, passes) in
                    [(from_client, to_server, Some(Arc::clone(&passes))), (from_server, to_client, None)]
                {
                    tokio::spawn(carry(from, to, held.subscribe(), gone.clone(), passes));
                }
            }
        });
        gate
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// Carries what one end sends to the other one, until the gate is gone or one end closes.
async fn carry(
    mut from: ReadHalf<Socket>,
    mut to: WriteHalf<Socket>,
    mut held: watch::Receiver<bool>,
    gone: CancellationToken,
    passes: Option<Passes>,
) {
    let mut bytes = [0; 4096];
    while let Some(Ok(count @ 1..)) = gone.run_until_cancelled(from.read(&mut bytes)).await {
        let bytes = &mut bytes[..count];
        match passes.as_ref().map_or(Pass::Now, |passes| passes.lock().expect("no panic")(bytes)) {
            Pass::Now => {}
            Pass::After(delay) => sleep(delay).await,
            Pass::Never => gone.cancel(),
        }
        // It fails when the gate is gone.
        let _ = held.wait_for(|held| !held).await;
        if gone.is_cancelled() || to.write_all(bytes).await.is_err() {
            break;
        }
    }
    // The other end may be closed already.
    let _ = to.shutdown().await;
}
