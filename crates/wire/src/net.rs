//! Connections and listeners: the system's TCP, or memory where this thread is in a [`simulation`](crate::simulation); secured or not.

mod marks;

use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

pub use self::marks::{Mark, Marks};
use crate::simulation::{self, Bound, Pipe};

/// One end of a connection.
#[derive(Debug)]
pub enum Socket {
    /// The system's.
    Tcp(TcpStream),
    /// In memory.
    Memory(Pipe),
    /// TLS over one of these, at the client's end or the server's.
    Secured(Box<TlsStream<Socket>>),
}

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
            return simulation::connect(address).map(Self::Memory);
        }
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Both ends of a connection within this process.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let (one, other) = Pipe::pair(&CancellationToken::new());
        (Self::Memory(one), Self::Memory(other))
    }

    /// Has the connection reset when this end is dropped.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn set_zero_linger(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_zero_linger(),
            Self::Memory(pipe) => {
                pipe.set_zero_linger();
                Ok(())
            }
            Self::Secured(stream) => stream.get_mut().0.set_zero_linger(),
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
                Ok(Socket::Tcp(stream))
            }
            Self::Memory(bound) => bound.accept().await.map(Socket::Memory),
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<TlsStream<Socket>> for Socket {
    fn from(stream: TlsStream<Socket>) -> Self {
        Self::Secured(Box::new(stream))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => pin!(stream).poll_read(context, buffer),
            Self::Memory(pipe) => pin!(pipe).poll_read(context, buffer),
            Self::Secured(stream) => pin!(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => pin!(stream).poll_write(context, bytes),
            Self::Memory(pipe) => pin!(pipe).poll_write(context, bytes),
            Self::Secured(stream) => pin!(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => pin!(stream).poll_flush(context),
            Self::Memory(pipe) => pin!(pipe).poll_flush(context),
            Self::Secured(stream) => pin!(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => pin!(stream).poll_shutdown(context),
            Self::Memory(pipe) => pin!(pipe).poll_shutdown(context),
            Self::Secured(stream) => pin!(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => pin!(stream).poll_write_vectored(context, slices),
            Self::Memory(pipe) => pin!(pipe).poll_write_vectored(context, slices),
            Self::Secured(stream) => pin!(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Memory(pipe) => pipe.is_write_vectored(),
            Self::Secured(stream) => stream.is_write_vectored(),
        }
    }
}
