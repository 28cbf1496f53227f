//! One connection of the client, and what it goes through.

use std::{io, sync::Weak};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{connection::Dialer, process::ClientProcess};
use crate::net::{Marks, Socket};
use workload::endpoint::{Endpoint, Scheme};

/// How the connections of one link to one endpoint are made.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) endpoint: Endpoint,
    pub(super) dialer: Dialer,
    /// Resets them, where they are made for one stream.
    pub(super) reset: Option<CancellationToken>,
    /// What they go through, if it is a process.
    pub(super) process: Option<Weak<ClientProcess>>,
    /// Which of them the faulty network took.
    pub(super) taken: Marks,
    /// On which of them the server said that the client should go away.
    pub(super) told: Marks,
}

impl Dial {
    /// Makes a connection.
    pub(super) async fn connect(&self) -> io::Result<Socket> {
        let Dialer { access, limit, .. } = &self.dialer;
        let made = timeout(access.terms.connect_timeout.unwrap_or(*limit), self.dial()).await?;
        let stream = made.inspect_err(|error| {
            if is_shortage(error) {
                access.ran_short(error);
            }
        })?;
        Ok(match &self.reset {
            Some(reset) => stream.reset_by(reset),
            None => stream,
        })
    }

    async fn dial(&self) -> io::Result<Socket> {
        let Dialer { access, path, program, .. } = &self.dialer;
        let address = match &self.process {
            None => self.endpoint.address(),
            Some(process) => {
                let process = process.upgrade().ok_or(io::ErrorKind::ConnectionReset)?;
                let program = program.as_ref().ok_or_else(|| io::Error::other("there is no program to start"))?;
                // It passes on whatever is spoken.
                process.start(program, &self.endpoint.clone().speaking(Scheme::Grpc)).await?
            }
        };
        let stream = match path {
            Some(path) => path.connect(&address, &self.taken).await?,
            None => Socket::connect(&address).await?,
        };
        // Whatever is on the way carries what only the server can read.
        access.secured(&self.endpoint, stream).await
    }
}

/// Whether a connection could not be made because this machine has no more files, ports or memory.
fn is_shortage(error: &io::Error) -> bool {
    /// Too many open files, of the system and of the process; on Windows too many sockets, and no more buffers for them.
    const CODES: [i32; 2] = if cfg!(windows) { [10024, 10055] } else { [23, 24] };
    let of_kind = matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory);
    of_kind || error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}
