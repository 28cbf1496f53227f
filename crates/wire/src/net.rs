//! Connections and listeners: the system's TCP, or memory where this thread is in a [`simulation`](crate::simulation); secured or not.

mod marks;

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex},
    net::{TcpListener, TcpStream, lookup_host},
};
use tokio_rustls::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

pub use self::marks::{Mark, Marks};
use crate::simulation::{self, Bound};

/// How many bytes each direction of a connection in memory holds before its writer has to wait.
const ROOM: usize = 256 << 10;

/// One end of a connection. Each end can close its direction or reset both.
#[derive(Debug)]
pub struct Socket {
    /// Resets a connection in memory. It goes before the bytes do, so that the other end sees no end in good order.
    when_dropped: Option<DropGuard>,
    bytes: Bytes,
    /// Once one of these is done, the connection fails, and is reset when it is dropped.
    resets: Vec<Pin<Box<WaitForCancellationFutureOwned>>>,
}

/// What carries a connection.
#[derive(Debug)]
enum Bytes {
    /// The system.
    Tcp(TcpStream),
    /// Memory. Both ends have the token, and fail once it is cancelled.
    Memory(DuplexStream, CancellationToken),
    /// TLS over one of these, at the client's end or the server's.
    Secured(Box<TlsStream<Socket>>),
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// A tonic server asks for this of what it serves.
impl Connected for Socket {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

impl Socket {
    /// Connects to `HOST:PORT`. A small message goes out at once.
    ///
    /// # Errors
    /// When no connection can be made.
    pub async fn connect(address: &str) -> io::Result<Self> {
        if simulation::is_on() {
            return simulation::connect(address);
        }
        let mut failed = None;
        for address in lookup_host(address).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream.into());
                }
                // This machine may not have IPv6: what became of another address says more.
                Err(error) if failed.is_some() && error.kind() == io::ErrorKind::AddrNotAvailable => {}
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"))))
    }

    /// Both ends of a connection within this process.
    pub fn pair() -> (Self, Self) {
        Self::pair_until(&CancellationToken::new())
    }

    /// The same, which the end of `life` resets, too.
    pub(crate) fn pair_until(life: &CancellationToken) -> (Self, Self) {
        let (one, other) = duplex(ROOM);
        let reset = life.child_token();
        let end = |bytes| Self::over(Bytes::Memory(bytes, reset.clone())).reset_by(&reset);
        (end(one), end(other))
    }

    fn over(bytes: Bytes) -> Self {
        Self { when_dropped: None, bytes, resets: Vec::new() }
    }

    /// The same, which fails once `token` is cancelled, and is reset when it is dropped then.
    pub(crate) fn reset_by(mut self, token: &CancellationToken) -> Self {
        self.resets.push(Box::pin(token.clone().cancelled_owned()));
        self
    }

    /// Has the connection reset when this end is dropped.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn set_zero_linger(&mut self) -> io::Result<()> {
        match &mut self.bytes {
            Bytes::Tcp(stream) => stream.set_zero_linger()?,
            Bytes::Memory(_, reset) => self.when_dropped = Some(reset.clone().drop_guard()),
            Bytes::Secured(stream) => stream.get_mut().0.set_zero_linger()?,
        }
        Ok(())
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.resets.iter_mut().any(|reset| reset.as_mut().poll(context).is_ready()) {
            self.set_zero_linger()?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }

    fn bytes(&mut self) -> Pin<&mut dyn Duplex> {
        match &mut self.bytes {
            Bytes::Tcp(stream) => Pin::new(stream),
            Bytes::Memory(stream, _) => Pin::new(stream),
            Bytes::Secured(stream) => Pin::new(stream),
        }
    }
}

/// A place that is listened at until its last handle is dropped, whoever takes the connections in.
#[derive(Debug)]
pub enum Place {
    /// The system's.
    Tcp(std::net::TcpListener),
    /// In memory.
    Memory(Arc<Bound>),
}

impl Place {
    /// Listens there, and says where that is; port 0 is a free one.
    ///
    /// # Errors
    /// When nothing can listen there.
    pub fn listen(at: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        if simulation::is_on() {
            return Bound::new(at).map(|(bound, address)| (Self::Memory(Arc::new(bound)), address));
        }
        let listener = std::net::TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((Self::Tcp(listener), address))
    }

    /// Another handle.
    ///
    /// # Errors
    /// When the system has none left.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Memory(bound) => Ok(Self::Memory(Arc::clone(bound))),
        }
    }

    /// What takes the connections in, on the runtime that this is called on.
    ///
    /// # Errors
    /// When the runtime cannot have it.
    pub fn into_listener(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(listener) => TcpListener::from_std(listener).map(Listener::Tcp),
            Self::Memory(bound) => Ok(Listener::Memory(bound)),
        }
    }

    /// Resets all connections in memory; the system resets those of a process, or of a runtime, when that ends.
    pub fn reset_all(&self) {
        if let Self::Memory(bound) = self {
            bound.reset_all();
        }
    }
}

/// Takes connections in.
#[derive(Debug)]
pub enum Listener {
    /// From the system.
    Tcp(TcpListener),
    /// From memory.
    Memory(Arc<Bound>),
}

impl Listener {
    /// The next connection. A small message goes out at once.
    ///
    /// # Errors
    /// When it is gone already, or too many are open.
    pub async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Where it cannot be set the connection is gone already, which shows soon.
                let _ = stream.set_nodelay(true);
                Ok(stream.into())
            }
            Self::Memory(bound) => bound.accept().await,
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::over(Bytes::Tcp(stream))
    }
}

impl From<TlsStream<Socket>> for Socket {
    fn from(stream: TlsStream<Socket>) -> Self {
        Self::over(Bytes::Secured(Box::new(stream)))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        self.bytes().poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        self.bytes().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bytes().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that was reset is not closed in good order.
        self.check(context)?;
        self.bytes().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        self.bytes().poll_write_vectored(context, slices)
    }

    /// Each kind is.
    fn is_write_vectored(&self) -> bool {
        true
    }
}
