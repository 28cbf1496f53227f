//! A world of its own on one thread: its time passes when nothing is left to do, and its network is memory.
//!
//! What runs in it waits for minutes in milliseconds, and no other program can make it late. The reference server and a
//! run that are started on a thread with a [`Simulation`] are part of it; the module `net` connects them.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
};

use tokio::{
    runtime::{self, Runtime},
    sync::{Mutex, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::net::Socket;

/// The first port that a listener gets that asks for any.
const FIRST_PORT: u16 = 1024;

thread_local! {
    static CURRENT: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The simulation of this thread, until it is dropped with all that runs in it.
#[derive(Debug)]
pub struct Simulation(Rc<World>);

#[derive(Debug)]
struct World {
    runtime: Runtime,
    ports: RefCell<HashMap<u16, Port>>,
    next_port: Cell<u16>,
    /// How many more connections there can be.
    connections_left: Cell<u64>,
}

/// What the system says to a process that may open no more files.
const TOO_MANY_OPEN_FILES: i32 = if cfg!(windows) { 10024 } else { 24 };

/// Where something listens.
#[derive(Debug)]
struct Port {
    connections: mpsc::UnboundedSender<Socket>,
    /// Resets all connections to it.
    life: CancellationToken,
}

impl Simulation {
    /// Begins one.
    ///
    /// # Panics
    /// When this thread is in a simulation already, or the system lets it have no runtime.
    pub fn begin() -> Self {
        let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime of one thread needs a few file descriptors");
        let world = World {
            runtime,
            ports: RefCell::default(),
            next_port: Cell::new(FIRST_PORT),
            connections_left: Cell::new(u64::MAX),
        };
        let world = Rc::new(world);
        let before = CURRENT.replace(Some(Rc::clone(&world)));
        assert!(before.is_none(), "this thread is in a simulation already");
        Self(world)
    }

    /// Does something in it, and what else runs in it meanwhile.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.runtime.block_on(work)
    }

    /// Lets clients make so many more connections. For each that is wanted after them the system has no file.
    pub fn limit_connections(&self, left: u64) {
        self.0.connections_left.set(left);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        CURRENT.take();
    }
}

fn current() -> Option<Rc<World>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether this thread is in a simulation.
pub fn is_on() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Has something done in this thread's simulation.
///
/// # Panics
/// When the thread is in none.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    current().expect("a simulation").runtime.spawn(work)
}

/// Does something in this thread's simulation, and waits for it.
///
/// # Panics
/// When the thread is in none, or what runs in it calls this.
pub fn wait_for<T>(work: impl Future<Output = T>) -> T {
    current().expect("a simulation").runtime.block_on(work)
}

/// Connects to where something listens, of which only the port counts. Fails where nothing does.
pub(crate) fn connect(address: &str) -> io::Result<Socket> {
    let world = current().ok_or(io::ErrorKind::NetworkUnreachable)?;
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
    let left = world.connections_left.get().checked_sub(1);
    world.connections_left.set(left.ok_or_else(|| io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES))?);
    let ports = world.ports.borrow();
    let listening: &Port = ports.get(&port).ok_or(io::ErrorKind::ConnectionRefused)?;
    let (near, far) = Socket::pair_until(&listening.life);
    listening.connections.send(far).map_err(|_| io::ErrorKind::ConnectionRefused)?;
    Ok(near)
}

/// Listens in a simulation until it is dropped.
#[derive(Debug)]
pub struct Bound {
    port: u16,
    connections: Mutex<mpsc::UnboundedReceiver<Socket>>,
}

impl Bound {
    /// Listens at a port, or at any where that is 0.
    ///
    /// # Errors
    /// When something listens there already.
    pub fn new(at: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let world = current().ok_or(io::ErrorKind::NetworkUnreachable)?;
        let mut ports = world.ports.borrow_mut();
        let port = if at.port() == 0 { world.next_port.replace(world.next_port.get() + 1) } else { at.port() };
        if ports.contains_key(&port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (sender, connections) = mpsc::unbounded_channel();
        ports.insert(port, Port { connections: sender, life: CancellationToken::new() });
        let bound = Self { port, connections: Mutex::new(connections) };
        Ok((bound, SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)))
    }

    /// The next connection.
    ///
    /// # Errors
    /// When the simulation is over.
    pub async fn accept(&self) -> io::Result<Socket> {
        self.connections.lock().await.recv().await.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Resets all connections that were made to it, as the end of a process does.
    pub fn reset_all(&self) {
        if let Some(world) = current()
            && let Some(port) = world.ports.borrow_mut().get_mut(&self.port)
        {
            std::mem::take(&mut port.life).cancel();
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.reset_all();
        if let Some(world) = current() {
            world.ports.borrow_mut().remove(&self.port);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::{Instant, sleep},
    };

    use super::*;

    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn an_hour_passes_at_once() {
        let simulation = Simulation::begin();
        let slept = simulation.run(async {
            let began = Instant::now();
            sleep(Duration::from_secs(3600)).await;
            began.elapsed()
        });
        assert_eq!(slept, Duration::from_secs(3600));
    }

    #[test]
    fn bytes_pass_between_a_client_and_what_listens() {
        let simulation = Simulation::begin();
        simulation.run(async {
            let (bound, address) = Bound::new(ANY).expect("a port");
            let mut client = connect(&address.to_string()).expect("it listens");
            let mut server = bound.accept().await.expect("a connection");
            client.write_all(b"to").await.expect("room");
            server.write_all(b"and fro").await.expect("room");
            client.shutdown().await.expect("it is open");
            drop(server.shutdown().await);
            let (mut come, mut back) = (String::new(), String::new());
            server.read_to_string(&mut come).await.expect("an end");
            client.read_to_string(&mut back).await.expect("an end");
            assert_eq!((&*come, &*back), ("to", "and fro"));
            drop(bound);
            let rejected = connect(&address.to_string()).expect_err("nothing listens");
            assert_eq!(rejected.kind(), io::ErrorKind::ConnectionRefused);
        });
    }

    #[test]
    fn a_reset_is_seen_at_both_ends() {
        let simulation = Simulation::begin();
        simulation.run(async {
            let (bound, address) = Bound::new(ANY).expect("a port");
            let mut one = connect(&address.to_string()).expect("it listens");
            let mut its_end = bound.accept().await.expect("a connection");
            let mut other = connect(&address.to_string()).expect("it listens");
            its_end.set_zero_linger().expect("it is open");
            drop(its_end);
            assert_eq!(one.read_u8().await.expect_err("it was reset").kind(), io::ErrorKind::ConnectionReset);
            bound.reset_all();
            assert_eq!(other.write_u8(1).await.expect_err("it was reset").kind(), io::ErrorKind::ConnectionReset);
            let mut next = connect(&address.to_string()).expect("it still listens");
            next.write_u8(1).await.expect("it is open");
        });
    }
}
