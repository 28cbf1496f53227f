//! The faulty networks of a simulated run: what a connection does to the messages that it carries, drawn when it is made.
//!
//! A message is one piece: a network that splits it into smaller ones does nothing here.

use std::{collections::BTreeMap, mem};

use slab::Slab;

use super::{super::nanos, What, World};
use workload::{
    conversation::Connection as Over,
    event::{ContextId, Nanos},
    scenario::{BLACK_HOLE_MAX, ConnectionOwner, Distribution, LATENCY_MAX},
};

/// About how many bytes a request takes, and its answer.
const MESSAGE_BYTES: u64 = 256;
const MS: Nanos = 1_000_000;

/// In which direction a message travels.
#[derive(Clone, Copy, Debug)]
pub(super) enum To {
    Server,
    Client,
}

/// The connections that faulty networks carry.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: Slab<Connection>,
    /// Those that are there for further streams: of a worker, or of one of its contexts.
    there: BTreeMap<(u32, Option<u32>), usize>,
}

/// A connection over a faulty network.
#[derive(Debug)]
struct Connection {
    worker: u32,
    /// The streams that it carries.
    streams: Vec<usize>,
    /// How many bytes passed, and at how many it is cut, or nothing passes any more.
    passed: u64,
    cut: Option<u64>,
    hole: Hole,
    /// Whether a time at which it is cut is still to come.
    is_to_be_cut: bool,
    /// When each direction has room for the next message.
    free: [Nanos; 2],
    is_taken: bool,
}

/// A while in which nothing passes.
#[derive(Clone, Copy, Debug)]
struct Hole {
    /// From when on, or from how many bytes on.
    at: Option<Nanos>,
    bytes: Option<u64>,
    /// For how long; without it for ever.
    lasts: Option<Nanos>,
}

impl World<'_> {
    /// The connection for what a context sends, if its network is faulty.
    pub(super) fn connection(&mut self, ContextId { worker, context }: ContextId, over: Over) -> Option<usize> {
        let population = (worker < self.helper()).then(|| self.plan.scenario.population_of(worker));
        let population = population.filter(|population| !population.network.is_clear())?;
        let owner = match population.sending.connection {
            ConnectionOwner::PerWorker => (worker, None),
            ConnectionOwner::PerContext => (worker, Some(context)),
        };
        if over.is_made_for_it() {
            return Some(self.connect(worker));
        }
        if let Some(connection) = self.connections.there.get(&owner) {
            return Some(*connection);
        }
        let connection = self.connect(worker);
        self.connections.there.insert(owner, connection);
        Some(connection)
    }

    fn connect(&mut self, worker: u32) -> usize {
        let network = &self.plan.scenario.population_of(worker).network;
        let random = &mut self.random;
        let mut draw = |drawn: &Option<Distribution>| drawn.as_ref().map(|drawn| u64::from(drawn.draw(random)));
        let cut = network.cut.as_ref().map(|cut| (draw(&cut.after_ms), draw(&cut.after_bytes)));
        let hole = network.black_hole.as_ref().map(|hole| Hole {
            at: draw(&hole.after_ms).map(|ms| self.now + ms * MS),
            bytes: draw(&hole.after_bytes),
            lasts: draw(&hole.for_ms).map(|ms| (ms * MS).min(nanos(BLACK_HOLE_MAX))),
        });
        let cut_after = cut.and_then(|(ms, _)| ms);
        let connection = self.connections.all.insert(Connection {
            worker,
            streams: Vec::new(),
            passed: 0,
            cut: cut.and_then(|(_, bytes)| bytes),
            hole: hole.unwrap_or(Hole { at: None, bytes: None, lasts: None }),
            is_to_be_cut: cut_after.is_some(),
            free: [0; 2],
            is_taken: false,
        });
        if let Some(after_ms) = cut_after {
            self.schedule(self.now + after_ms * MS, What::Cut(connection));
        }
        connection
    }

    /// A connection carries a stream from now on.
    pub(super) fn carries(&mut self, connection: usize, stream: usize) {
        let streams = &mut self.connections.all[connection].streams;
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }

    /// A connection does not carry a stream any more.
    pub(super) fn carries_no_more(&mut self, connection: usize, stream: usize) {
        self.connections.all[connection].streams.retain(|other| *other != stream);
        self.forget_if_unused(connection);
    }

    fn forget_if_unused(&mut self, connection: usize) {
        let Connections { all, there } = &mut self.connections;
        let is_unused = |its: &Connection| its.streams.is_empty() && !its.is_to_be_cut;
        if all.get(connection).is_some_and(is_unused) && there.values().all(|other| *other != connection) {
            all.remove(connection);
        }
    }

    /// When a message arrives that is given to a connection now and would arrive at this time; not at all where it is swallowed.
    pub(super) fn passes(&mut self, connection: usize, to: To, mut arrives: Nanos) -> Option<Nanos> {
        let its = &mut self.connections.all[connection];
        if its.is_taken {
            return None;
        }
        let network = &self.plan.scenario.population_of(its.worker).network;
        if let Some(drawn) = &network.latency_ms {
            arrives += (u64::from(drawn.draw(&mut self.random)) * MS).min(nanos(LATENCY_MAX));
        }
        if let Some(kib) = network.bandwidth_kib_s {
            let free = &mut its.free[to as usize];
            *free = self.now.max(*free) + MESSAGE_BYTES * 1000 * MS / (u64::from(kib.get()) << 10);
            arrives = arrives.max(*free);
        }
        its.passed += MESSAGE_BYTES;
        let Hole { at, bytes, lasts } = &mut its.hole;
        if bytes.is_some_and(|bytes| its.passed >= bytes) {
            // It begins behind so many bytes, and is there once.
            *bytes = None;
            *at = Some(at.map_or(self.now, |at| at.min(self.now)));
        }
        if let Some(begins) = at.filter(|begins| arrives >= *begins) {
            match lasts {
                Some(lasts) => arrives = arrives.max(begins + *lasts),
                None => its.is_taken = true,
            }
        }
        if its.is_taken {
            return None;
        }
        if its.cut.is_some_and(|bytes| its.passed >= bytes) {
            self.cut(connection);
            return None;
        }
        Some(arrives)
    }

    /// The server ends its connections: each new stream has another one.
    pub(super) fn forget_connections(&mut self) {
        for connection in mem::take(&mut self.connections.there).into_values() {
            self.forget_if_unused(connection);
        }
    }

    /// The time has come at which the network cuts a connection.
    pub(super) fn cut_in_time(&mut self, connection: usize) {
        self.connections.all[connection].is_to_be_cut = false;
        self.cut(connection);
        self.forget_if_unused(connection);
    }

    /// The network takes a connection: the server sees what its client sees.
    fn cut(&mut self, connection: usize) {
        self.connections.there.retain(|_, its| *its != connection);
        let its = &mut self.connections.all[connection];
        if !mem::replace(&mut its.is_taken, true) {
            for stream in its.streams.clone() {
                self.taken(stream);
            }
        }
    }

    /// Whether the network has taken the connection of a stream, whose client has waited for it.
    pub(in super::super) fn give_up(&mut self, stream: usize) -> bool {
        let connection = self.streams[stream].connection;
        let is_taken = connection.is_some_and(|connection| self.connections.all[connection].is_taken);
        if is_taken {
            self.connections.there.retain(|_, its| Some(*its) != connection);
        }
        is_taken
    }
}
