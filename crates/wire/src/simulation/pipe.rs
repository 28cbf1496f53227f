//! A connection in memory.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How many bytes each direction holds before its writer has to wait.
const ROOM: usize = 256 << 10;

/// One end of a connection in memory. Each can close its direction or reset both, as with TCP.
#[derive(Debug)]
pub struct Pipe {
    bytes: DuplexStream,
    reset: CancellationToken,
    is_reset: Pin<Box<WaitForCancellationFutureOwned>>,
    resets_when_dropped: bool,
}

impl Pipe {
    /// Both ends of a connection, which the end of `life` resets, too.
    #[must_use]
    pub fn pair(life: &CancellationToken) -> (Self, Self) {
        let (one, other) = duplex(ROOM);
        let reset = life.child_token();
        let end = |bytes| Self {
            bytes,
            is_reset: Box::pin(reset.clone().cancelled_owned()),
            reset: reset.clone(),
            resets_when_dropped: false,
        };
        (end(one), end(other))
    }

    /// Has the connection reset when this end is dropped.
    pub fn set_zero_linger(&mut self) {
        self.resets_when_dropped = true;
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.is_reset.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if self.resets_when_dropped {
            self.reset.cancel();
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        pin!(&mut self.bytes).poll_read(context, buffer)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        pin!(&mut self.bytes).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.bytes).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        pin!(&mut self.bytes).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        pin!(&mut self.bytes).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }
}
