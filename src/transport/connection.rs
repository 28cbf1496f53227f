//! How connections to a server are made, and how the client ends them.

use std::{
    io,
    path::PathBuf,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::{Endpoint as TonicEndpoint, Uri};
use tower::service_fn;

use super::{
    access::{Access, Conduit},
    client::CallError,
    process::ClientProcess,
    tls::Protocol,
    wire::Wire,
};
use crate::{
    conversation::Connection,
    endpoint::Endpoint,
    proxy::{Harm, Path},
    sequence::UNREAD_BYTES,
};

/// Makes connections to a server, each when it is first used.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) endpoint: Endpoint,
    pub(crate) access: Access,
    pub(crate) limit: Duration,
    /// The faulty network on the way, if there is one.
    pub(crate) path: Option<Arc<Path>>,
    /// This program's executable, for connections that go through a process.
    pub(crate) program: Option<PathBuf>,
}

/// What streams are opened over: a connection, and another one where it is lost.
#[derive(Clone, Debug)]
pub struct Link {
    conduit: Conduit,
    harm: Harm,
}

/// Ends a connection that was made for one stream as no client should, and every one that takes its place. Dropped, it ends the
/// process that the connection goes through.
#[derive(Clone, Debug)]
pub struct Severer(How);

#[derive(Clone, Debug)]
enum How {
    /// The server gets a RST, and whatever is under way is lost.
    Reset(CancellationToken),
    /// The process is killed.
    Kill(Arc<ClientProcess>),
}

impl Link {
    /// What calls go over.
    #[must_use]
    pub fn conduit(&self) -> &Conduit {
        &self.conduit
    }

    /// What the network did to it.
    #[must_use]
    pub fn harm(&self) -> &Harm {
        &self.harm
    }
}

impl Severer {
    /// Ends the connection.
    pub fn sever(&self) {
        match &self.0 {
            How::Reset(token) => token.cancel(),
            How::Kill(process) => process.kill(),
        }
    }

    /// Whether the connection ended here although nobody asked for it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(&self.0, How::Kill(process) if process.is_gone())
    }
}

impl Dialer {
    /// A connection that many streams share.
    ///
    /// # Errors
    /// When the address is none.
    pub(crate) fn link(&self) -> Result<Link, CallError> {
        let harm = Harm::default();
        let conduit = match &self.path {
            None => self.access.conduit(&self.endpoint, self.limit)?,
            Some(_) => self.conduit_by(&self.tonic()?, CancellationToken::new(), None, harm.clone()),
        };
        Ok(Link { conduit, harm })
    }

    /// A connection that is made for one stream, and what ends it.
    ///
    /// # Errors
    /// When the address is none.
    pub(crate) fn made_for_a_stream(&self, over: Connection) -> Result<(Link, Severer), CallError> {
        let (harm, token) = (Harm::default(), CancellationToken::new());
        let tonic = match over {
            Connection::Narrow => self.tonic()?.initial_stream_window_size(UNREAD_BYTES),
            _ => self.tonic()?,
        };
        let (process, how) = if over == Connection::Process {
            let process = Arc::<ClientProcess>::default();
            (Some(Arc::downgrade(&process)), How::Kill(process))
        } else {
            (None, How::Reset(token.clone()))
        };
        let conduit = self.conduit_by(&tonic, token, process, harm.clone());
        Ok((Link { conduit, harm }, Severer(how)))
    }

    fn tonic(&self) -> Result<TonicEndpoint, CallError> {
        self.access.tonic(&self.endpoint)
    }

    fn conduit_by(
        &self,
        tonic: &TonicEndpoint,
        reset: CancellationToken,
        process: Option<Weak<ClientProcess>>,
        harm: Harm,
    ) -> Conduit {
        let dialer = self.clone();
        let connector = service_fn(move |_: Uri| {
            let (dialer, reset, process, harm) = (dialer.clone(), reset.clone(), process.clone(), harm.clone());
            async move {
                let limit = dialer.access.connect_limit(dialer.limit);
                let stream = timeout(limit, dialer.dial(process, &harm)).await??;
                Ok::<_, io::Error>(TokioIo::new(Resettable {
                    stream,
                    reset: Box::pin(reset.cancelled_owned()),
                    is_reset: false,
                }))
            }
        });
        self.access.over(tonic.connect_with_connector_lazy(connector))
    }

    async fn dial(&self, process: Option<Weak<ClientProcess>>, harm: &Harm) -> io::Result<Wire> {
        let address = match process {
            None => self.endpoint.address(),
            Some(process) => {
                let process = process.upgrade().ok_or(io::ErrorKind::ConnectionReset)?;
                let program = self.program.as_ref().ok_or_else(|| io::Error::other("there is no program to start"))?;
                process.start(program, &self.endpoint).await?
            }
        };
        let stream = match &self.path {
            Some(path) => path.connect(&address, harm).await?,
            None => TcpStream::connect(&address).await?,
        };
        // Whatever is on the way carries what only the server can read.
        self.access.secured(&self.endpoint, stream, Protocol::Http2).await
    }
}

/// A connection that fails, and is reset when it is dropped, once it is told to.
struct Resettable {
    stream: Wire,
    reset: Pin<Box<WaitForCancellationFutureOwned>>,
    is_reset: bool,
}

impl Resettable {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.is_reset && self.reset.as_mut().poll(context).is_ready() {
            self.is_reset = true;
            self.stream.set_zero_linger()?;
        }
        if self.is_reset { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        pin!(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        pin!(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that was reset is not closed in good order.
        self.check(context)?;
        pin!(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        pin!(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt as _, net::TcpListener};

    use super::*;
    use crate::transport::Client;

    #[tokio::test]
    async fn a_reset_is_what_the_server_sees() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = Endpoint::from(listener.local_addr().expect("an address"));
        let limit = Duration::from_secs(5);
        let dialer = Dialer { endpoint, access: Access::default(), limit, path: None, program: None };
        let (link, severer) = dialer.made_for_a_stream(Connection::Fresh).expect("an address");
        // Nobody answers the call; it only makes the connection.
        let call = tokio::spawn(Client::prove(link.conduit, limit));
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
