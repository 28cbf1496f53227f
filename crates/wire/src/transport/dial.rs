//! One connection of the client, and how it is reset.

use std::{
    io,
    path::PathBuf,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::Uri;
use tower::Service;

use super::{access::Access, goaway::Watch, process::ClientProcess, tls::Protocol};
use crate::{
    net::{Marks, Socket},
    proxy::Path,
};
use workload::endpoint::{Endpoint, Scheme};

/// Makes the connections of one link to one endpoint. To the library it makes those of gRPC.
#[derive(Clone, Debug)]
pub(super) struct Connector(pub(super) Arc<Dial>);

/// How connections are made.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) endpoint: Endpoint,
    pub(super) access: Access,
    pub(super) limit: Duration,
    pub(super) path: Option<Arc<Path>>,
    pub(super) program: Option<PathBuf>,
    /// Resets them, where they are made for one stream.
    pub(super) reset: Option<CancellationToken>,
    /// What they go through, if it is a process.
    pub(super) process: Option<Weak<ClientProcess>>,
    /// Which of them the faulty network took.
    pub(super) taken: Marks,
    /// On which of them the server said that the client should go away.
    pub(super) told: Marks,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Wire>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let its = self.clone();
        Box::pin(async move {
            let wire = its.connect().await?;
            let Dial { told, access, .. } = &*its.0;
            let watch = Some(Watch::new(told.connection(), access.go_aways()));
            Ok(TokioIo::new(Wire { watch, ..wire }))
        })
    }
}

impl Connector {
    /// Makes a connection.
    pub(super) async fn connect(&self) -> io::Result<Wire> {
        let dial = &self.0;
        let stream = timeout(dial.access.connect_limit(dial.limit), dial.dial()).await??;
        let reset = dial.reset.clone().map(|reset| Box::pin(reset.cancelled_owned()));
        Ok(Wire { stream, reset, is_reset: false, watch: None })
    }
}

impl Dial {
    async fn dial(&self) -> io::Result<Socket> {
        let address = match &self.process {
            None => self.endpoint.address(),
            Some(process) => {
                let process = process.upgrade().ok_or(io::ErrorKind::ConnectionReset)?;
                let program = self.program.as_ref().ok_or_else(|| io::Error::other("there is no program to start"))?;
                // It passes on whatever is spoken.
                process.start(program, &self.endpoint.clone().speaking(Scheme::Grpc)).await?
            }
        };
        let stream = match &self.path {
            Some(path) => path.connect(&address, &self.taken).await?,
            None => Socket::connect(&address).await?,
        };
        let protocol = if self.endpoint.scheme.is_grpc() { Protocol::Http2 } else { Protocol::Http1 };
        // Whatever is on the way carries what only the server can read.
        self.access.secured(&self.endpoint, stream, protocol).await
    }
}

/// A connection. Once it is told to, it fails, and is reset when it is dropped.
pub(super) struct Wire {
    stream: Socket,
    reset: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    is_reset: bool,
    /// Looks at what comes, where that is HTTP/2.
    watch: Option<Watch>,
}

impl Wire {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(reset) = &mut self.reset else { return Ok(()) };
        if !self.is_reset && reset.as_mut().poll(context).is_ready() {
            self.is_reset = true;
            self.stream.set_zero_linger()?;
        }
        if self.is_reset { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        let before = buffer.filled().len();
        ready!(pin!(&mut self.stream).poll_read(context, buffer))?;
        if let Some(watch) = &mut self.watch {
            watch.came(&buffer.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
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
