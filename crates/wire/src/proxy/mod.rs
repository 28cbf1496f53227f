//! A faulty network between a client and a server: it passes bytes on, and delays, slices, cuts and swallows them. It knows
//! nothing of what they mean. Who wants to know gets a copy ([`Copy`]).

mod course;
mod direction;
mod gate;

use std::{
    fmt,
    future::pending,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use self::{course::Course, direction::pass, gate::Gate};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, split},
    net::TcpListener,
    sync::Semaphore,
    time::timeout,
};

use tokio_util::io::InspectReader;

use crate::net::{Mark, Marks, Socket};
use workload::{
    scenario::{CutBy, Network},
    seed::Seed,
};

/// How many connections the proxy carries at a time; more wait.
const CONNECTIONS_MAX: usize = 4096;
/// For how long a connection that was closed in good order is read to its end, because what is unread would reset it.
const LINGER: Duration = Duration::from_secs(1);

/// Is given a copy of what a client sends on a connection, piece by piece. It has to be quick: the piece waits for it.
pub type Copy = Box<dyn FnMut(&[u8]) + Send>;

/// Makes the copy of each connection.
struct Copies(Box<dyn Fn() -> Copy + Send + Sync>);

/// The way from a worker to a server, which each of its connections takes.
#[derive(Debug)]
pub struct Path {
    network: Network,
    patience: Option<Duration>,
    seed: Seed,
    worker: u32,
    /// How many connections were made.
    made: AtomicU32,
    copies: Copies,
}

impl Path {
    /// A way through this network. A black hole that has no end swallows a connection until it is given up, after this
    /// `patience`; without one it swallows it for good.
    pub fn new(network: Network, patience: Option<Duration>, seed: Seed, worker: u32) -> Self {
        let copies = Copies(Box::new(|| Box::new(|_| ())));
        Self { network, patience, seed, worker, made: AtomicU32::new(0), copies }
    }

    /// The same, of each connection of which the client's bytes are copied.
    pub fn copied(self, copies: impl Fn() -> Copy + Send + Sync + 'static) -> Self {
        Self { copies: Copies(Box::new(copies)), ..self }
    }

    /// A connection to `address`; it is marked before it is cut, or swallowed for good.
    ///
    /// # Errors
    /// When no connection can be made.
    pub async fn connect(&self, address: &str, marks: &Marks) -> io::Result<Socket> {
        let far = Socket::connect(address).await?;
        let (client, near) = Socket::pair();
        tokio::spawn(carry(near, far, self.course(), self.copies.0(), marks.connection()));
        Ok(client)
    }

    fn course(&self) -> Course {
        let made = self.made.fetch_add(1, Relaxed);
        Course::draw(&self.network, self.patience, &mut self.seed.of_connection(self.worker, made))
    }
}

/// Takes connections in and carries each through this network to the server that `connect` connects to, until `shutdown` is done.
///
/// # Errors
/// When no connections can be taken in any more.
pub async fn serve<C>(
    listener: TcpListener,
    connect: impl Fn() -> C,
    path: Path,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()>
where
    C: Future<Output = io::Result<Socket>> + Send + 'static,
{
    let path = Arc::new(path);
    let carry = move |near, far| {
        let path = Arc::clone(&path);
        async move { carry(near, far, path.course(), path.copies.0(), Marks::default().connection()).await }
    };
    carry_each(listener, connect, carry, shutdown).await
}

/// Takes connections in, connects for each to the server, and has both ends carried, until `shutdown` is done.
///
/// # Errors
/// When no connections can be taken in any more.
pub(crate) async fn carry_each<C, F>(
    listener: TcpListener,
    connect: impl Fn() -> C,
    carry: impl Fn(Socket, Socket) -> F + Clone + Send + 'static,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()>
where
    C: Future<Output = io::Result<Socket>> + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accept = async {
        loop {
            let permit = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
            let (near, _) = listener.accept().await?;
            let (carry, connect) = (carry.clone(), connect());
            tokio::spawn(async move {
                // Where the server takes no connection, the client's ends at once.
                if let Ok(far) = connect.await {
                    // Without it the system would gather small pieces; where it cannot be had they are less small.
                    let _ = near.set_nodelay(true);
                    carry(near.into(), far).await;
                }
                drop(permit);
            });
        }
    };
    tokio::select! {
        failed = accept => failed,
        () = shutdown => Ok(()),
    }
}

/// Carries a connection to its end.
async fn carry(mut near: Socket, mut far: Socket, course: Course, copy: Copy, mark: Mark) {
    let Course { cut, hole, up, down } = course;
    let gate =
        Gate::new(&[cut.as_ref().and_then(|cut| cut.when.bytes), hole.as_ref().and_then(|hole| hole.when.bytes)]);
    let ending = {
        let (from_near, mut to_near) = split(&mut near);
        let mut from_near = InspectReader::new(from_near, copy);
        let (mut from_far, mut to_far) = split(&mut far);
        let passed = async {
            tokio::try_join!(
                pass(&mut from_near, &mut to_far, &gate, up),
                pass(&mut from_far, &mut to_near, &gate, down)
            )
        };
        let swallowed = async {
            let Some(hole) = hole else { return pending().await };
            hole.swallow(&gate, &mark).await;
        };
        let cut_off = async {
            let Some(cut) = cut else { return pending().await };
            cut.when.comes(&gate).await;
            mark.set();
            cut.by
        };
        tokio::select! {
            passed = passed => {
                if passed.is_ok() {
                    return;
                }
                CutBy::Rst
            }
            () = swallowed => CutBy::Rst,
            by = cut_off => by,
        }
    };
    match ending {
        // Dropped then, each is reset; one that is gone already cannot be.
        CutBy::Rst => _ = (near.set_zero_linger(), far.set_zero_linger()),
        CutBy::Fin => _ = timeout(LINGER, async { tokio::join!(close(&mut near), close(&mut far)) }).await,
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Copies")
    }
}

/// Closes an end in good order.
async fn close(end: &mut Socket) {
    let mut rest = [0; 1024];
    if end.shutdown().await.is_ok() {
        while end.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }
}

#[cfg(test)]
mod tests;
