//! A connection that the client can reset.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::{Channel, Endpoint as TonicEndpoint, Uri};
use tower::service_fn;

use super::client::{CallError, reasons};
use crate::endpoint::Endpoint;

/// Resets a connection: the server gets a RST, and whatever is under way is lost.
#[derive(Clone, Debug, Default)]
pub struct Resetter(CancellationToken);

impl Resetter {
    /// Resets the connection, and every one that the same channel makes later.
    pub fn reset(&self) {
        self.0.cancel();
    }
}

/// A connection that is made when it is first used, and what resets it.
///
/// # Errors
/// When the address is none.
pub(crate) fn resettable_channel(endpoint: &Endpoint, limit: Duration) -> Result<(Channel, Resetter), CallError> {
    let resetter = Resetter::default();
    let token = resetter.0.clone();
    let connector = service_fn(move |uri: Uri| {
        let reset = token.clone();
        async move {
            let address = uri.authority().map_or("", |authority| authority.as_str());
            let stream = tokio::time::timeout(limit, TcpStream::connect(address)).await??;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(TokioIo::new(Resettable {
                stream,
                reset: Box::pin(reset.cancelled_owned()),
                is_reset: false,
            }))
        }
    });
    let endpoint =
        TonicEndpoint::from_shared(endpoint.uri()).map_err(|error| CallError::Unreachable(reasons(&error)))?;
    Ok((endpoint.connect_with_connector_lazy(connector), resetter))
}

/// A TCP stream that fails, and is reset when it is dropped, once it is told to.
struct Resettable {
    stream: TcpStream,
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
        let (channel, resetter) = resettable_channel(&endpoint, Duration::from_secs(5)).expect("an address");
        // Nobody answers the call; it only makes the connection.
        let call = tokio::spawn(Client::prove(channel, Duration::from_secs(5)));
        let (mut server, _) = listener.accept().await.expect("a connection");
        let mut preface = [0; 24];
        server.read_exact(&mut preface).await.expect("a preface");
        resetter.reset();
        let mut rest = Vec::new();
        let error = server.read_to_end(&mut rest).await.expect_err("it is not closed in good order");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        call.abort();
    }
}
