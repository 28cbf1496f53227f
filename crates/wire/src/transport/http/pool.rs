//! The connections to one endpoint, which are kept for the next calls.

use std::{sync::Mutex, time::Duration};

use super::{
    super::{dial::Dial, lock},
    Failure,
};
use http_body_util::Full;
use hyper::{
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

/// How many connections are kept that carry nothing just now.
const IDLE_MAX: usize = 4;

/// A connection, for one call at a time. When it is dropped with a call under way, it ends.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// Connections, each made when all others carry a call.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) dial: Dial,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl Pool {
    pub(super) fn new(dial: Dial) -> Self {
        Self { dial, idle: Mutex::default() }
    }

    /// A connection that carries nothing, and for how long it has carried nothing, where it is not new; nobody else has it until it is
    /// given back.
    pub(super) async fn take(&self) -> Result<(Connection, Option<Duration>), Failure> {
        while let Some((mut connection, since)) = self.pop() {
            // The other end may have closed it.
            if connection.ready().await.is_ok() {
                return Ok((connection, Some(since.elapsed())));
            }
        }
        let stream = self.dial.connect().await.map_err(Failure::Connect)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(Failure::Call)?;
        // What becomes of it is told to the call that it carries.
        tokio::spawn(connection);
        Ok((sender, None))
    }

    /// Keeps a connection whose call is over.
    pub(super) fn keep(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push((connection, Instant::now()));
        }
    }

    fn pop(&self) -> Option<(Connection, Instant)> {
        lock(&self.idle).pop()
    }
}
