//! Real servers, each of which holds one conversation at a time.

use std::{
    ops::Deref,
    sync::{Condvar, Mutex, MutexGuard},
};

use crate::{
    endpoint::{self, Endpoint, Environment},
    setup::Backend,
};

/// Servers at a time: more conversations at once would disturb each other's timing.
const SERVERS: usize = 3;

/// The servers of this process. Those that are free end with the process.
static SERVERS_NOW: (Mutex<Servers>, Condvar) = (Mutex::new(Servers { running: 0, free: Vec::new() }), Condvar::new());

struct Servers {
    running: usize,
    free: Vec<(Environment, Endpoint)>,
}

/// Room for another server.
enum Room {
    None,
    Free,
    InPlaceOf(#[expect(dead_code, reason = "it ends when it is dropped")] Endpoint),
}

impl Servers {
    /// A free server of this kind.
    fn take(&mut self, environment: Environment, backend: Backend) -> Option<Endpoint> {
        let is_it = |(of, endpoint): &(Environment, Endpoint)| *of == environment && endpoint.backend == backend;
        let index = self.free.iter().position(is_it)?;
        Some(self.free.swap_remove(index).1)
    }

    /// Whether another server may be started, and which one has to end for it.
    fn room(&mut self) -> Room {
        if self.running < SERVERS {
            self.running += 1;
            return Room::Free;
        }
        self.free.pop().map_or(Room::None, |(_, endpoint)| Room::InPlaceOf(endpoint))
    }
}

fn servers() -> MutexGuard<'static, Servers> {
    SERVERS_NOW.0.lock().expect("nobody panics with it")
}

/// A server that holds a conversation.
pub(crate) struct Pooled {
    environment: Environment,
    /// From when it has started until it is given back.
    endpoint: Option<Endpoint>,
}

impl Pooled {
    /// Waits for a server of this kind, or for room to start one. A new one has held no conversation yet.
    pub(crate) fn take(environment: Environment, backend: Backend, is_new: bool) -> Self {
        let mut servers = servers();
        let endpoint = loop {
            if !is_new && let Some(endpoint) = servers.take(environment, backend) {
                break endpoint;
            }
            let room = servers.room();
            if matches!(room, Room::None) {
                servers = SERVERS_NOW.1.wait(servers).expect("nobody panics with it");
                continue;
            }
            // The other server ends, and the new one starts, while others look for theirs.
            drop(servers);
            drop(room);
            // A server that does not start gives its room back, because this value is dropped then.
            let mut pooled = Self { environment, endpoint: None };
            pooled.endpoint = Some(endpoint::real(environment, backend));
            return pooled;
        };
        Self { environment, endpoint: Some(endpoint) }
    }

    /// Ends a server that has died.
    pub(crate) fn discard(mut self) {
        self.endpoint = None;
    }
}

impl Deref for Pooled {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        self.endpoint.as_ref().expect("it is not given back yet")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut servers = servers();
        match self.endpoint.take() {
            Some(endpoint) => servers.free.push((self.environment, endpoint)),
            None => servers.running -= 1,
        }
        drop(servers);
        SERVERS_NOW.1.notify_all();
    }
}
