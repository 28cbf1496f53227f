//! How connections to a server are made, and how the client ends them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    access::Access, call_error::CallError, client::Client, conduit::Conduit, dial::Dial, http::Connections,
    process::ClientProcess,
};
use crate::{net::Marks, proxy::Path};
use workload::{
    conversation::{Connection, Transport},
    endpoint::{Endpoint, Endpoints, Protocol},
    sequence::UNREAD_BYTES,
};

/// Makes connections to a server, each when it is first used.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// Where gRPC is spoken, if it is anywhere.
    pub grpc: Option<Endpoint>,
    /// Where HTTP is spoken, if it is anywhere.
    pub http: Option<Endpoint>,
    /// What it takes to be let in.
    pub access: Access,
    /// How long making a connection may take.
    pub limit: Duration,
    /// The faulty network on the way, if there is one.
    pub path: Option<Arc<Path>>,
    /// This program's executable, for connections that go through a process.
    pub program: Option<PathBuf>,
}

/// What streams are opened over: a connection, and another one where it is lost; for HTTP as many as there are calls at a time.
/// None is made before it is used.
#[derive(Clone, Debug)]
pub struct Link {
    grpc: Option<Conduit>,
    http: Option<Connections>,
}

/// Ends a connection that was made for one stream as no client should, and every one that takes its place. Dropped, it ends the
/// process that the connection goes through.
#[derive(Clone, Debug)]
pub struct Severer {
    /// Cancelled, it gives the server a RST, and whatever is under way is lost.
    reset: CancellationToken,
    /// What is killed instead, where the connection goes through a process.
    process: Option<Arc<ClientProcess>>,
}

impl Link {
    /// A link to a server over nothing but the system's network.
    ///
    /// # Errors
    /// When an address is none.
    pub fn to(endpoints: &Endpoints, access: &Access, limit: Duration) -> Result<Self, CallError> {
        Dialer::to(endpoints, 0, access, limit).link()
    }

    pub(super) fn conduit(&self) -> Result<&Conduit, CallError> {
        self.grpc.as_ref().ok_or(CallError::NoEndpoint("gRPC"))
    }

    pub(super) fn connections(&self) -> Result<&Connections, CallError> {
        self.http.as_ref().ok_or(CallError::NoEndpoint("HTTP"))
    }

    /// Which connections of this way the network took.
    pub fn taken(&self, by: Transport) -> Marks {
        let dial = match by.protocol() {
            Protocol::Grpc => self.grpc.as_ref().map(|conduit| &*conduit.dial),
            Protocol::Http => self.http.as_ref().map(Connections::dial),
        };
        dial.map(|dial| dial.taken.clone()).unwrap_or_default()
    }

    /// Makes sure that a connection carries calls.
    ///
    /// # Errors
    /// When it does not.
    pub async fn prove(self, by: Transport, limit: Duration) -> Result<(), CallError> {
        Client::over(&self, by.protocol(), limit)?.prove().await
    }
}

impl Severer {
    /// Ends the connection.
    pub fn sever(&self) {
        match &self.process {
            Some(process) => process.kill(),
            None => self.reset.cancel(),
        }
    }

    /// Whether the connection ended here although nobody asked for it.
    pub fn has_failed(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.is_gone())
    }
}

impl Dialer {
    /// One that makes connections over nothing but the system's network, to the endpoints whose turn it is at this place.
    pub fn to(endpoints: &Endpoints, place: usize, access: &Access, limit: Duration) -> Self {
        let [grpc, http] = Protocol::ALL.map(|protocol| endpoints.of(protocol, place).cloned());
        Self { grpc, http, access: access.clone(), limit, path: None, program: None }
    }

    /// Where connections for this transport lead.
    pub fn endpoint(&self, by: Transport) -> Option<&Endpoint> {
        match by.protocol() {
            Protocol::Grpc => self.grpc.as_ref(),
            Protocol::Http => self.http.as_ref(),
        }
    }

    /// A connection of each kind that many streams share.
    ///
    /// # Errors
    /// When an address is none.
    pub fn link(&self) -> Result<Link, CallError> {
        let conduit = |at| Ok::<_, CallError>(Conduit::new(&self.access.tonic(at)?, self.dial(at)));
        let http = self.http.as_ref().map(|at| Connections::new(self.dial(at)));
        Ok(Link { grpc: self.grpc.as_ref().map(conduit).transpose()?, http })
    }

    /// A connection that is made for one stream, and what ends it.
    ///
    /// # Errors
    /// When the address is none.
    pub fn made_for_a_stream(&self, over: Connection, by: Transport) -> Result<(Link, Severer), CallError> {
        let process = (over == Connection::Process).then(Arc::<ClientProcess>::default);
        let severer = Severer { reset: CancellationToken::new(), process };
        let dial = |at| {
            let (reset, process) = (severer.reset.clone(), severer.process.as_ref().map(Arc::downgrade));
            Dial { reset: Some(reset), process, ..self.dial(at) }
        };
        let mut link = Link { grpc: None, http: None };
        if by.is_http() {
            link.http = self.http.as_ref().map(|at| Connections::new(dial(at)));
        } else if let Some(at) = &self.grpc {
            let mut tonic = self.access.tonic(at)?;
            if over == Connection::Narrow {
                tonic = tonic.initial_stream_window_size(UNREAD_BYTES);
            }
            link.grpc = Some(Conduit::new(&tonic, dial(at)));
        }
        Ok((link, severer))
    }

    fn dial(&self, endpoint: &Endpoint) -> Dial {
        Dial {
            endpoint: endpoint.clone(),
            dialer: self.clone(),
            reset: None,
            process: None,
            taken: Marks::default(),
            told: Marks::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::{io::AsyncReadExt as _, net::TcpListener};

    use super::*;

    #[tokio::test]
    async fn a_reset_is_what_the_server_sees() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = Endpoint::from(listener.local_addr().expect("an address"));
        let limit = Duration::from_secs(60);
        let dialer = Dialer::to(&endpoint.into(), 0, &Access::default(), limit);
        let (link, severer) = dialer.made_for_a_stream(Connection::Fresh, Transport::GrpcStream).expect("an address");
        // Nobody answers the call; it only makes the connection.
        let call = tokio::spawn(link.prove(Transport::GrpcStream, limit));
        let (mut server, _) = listener.accept().await.expect("a connection");
        let mut preface = [0; 24];
        server.read_exact(&mut preface).await.expect("a preface");
        severer.sever();
        let mut rest = Vec::new();
        let error = server.read_to_end(&mut rest).await.expect_err("it is not closed in good order");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        call.abort();
    }
}
