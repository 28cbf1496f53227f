//! Connections that come in, secured or not.

use std::{io, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::{TlsAcceptor, TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use wire::net::{Listener, Socket};

/// How many connections wait to be served.
const WAITING_MAX: usize = 64;
/// How many handshakes are under way at once, and how long one may take.
const HANDSHAKES_MAX: usize = 256;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How long it is waited where connections cannot be taken, because there are too many.
const PAUSE: Duration = Duration::from_millis(10);

/// Connections as they come, until it is told to close.
pub(super) type Connections = ReceiverStream<io::Result<Socket>>;

/// Takes connections. The stream ends behind the last one that was taken before it was told to close.
pub(super) fn connections(listener: Listener, tls: Option<TlsAcceptor>, close: CancellationToken) -> Connections {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(take(listener, tls, sender, close));
    ReceiverStream::new(receiver)
}

async fn take(
    listener: Listener,
    tls: Option<TlsAcceptor>,
    sender: mpsc::Sender<io::Result<Socket>>,
    close: CancellationToken,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    while !sender.is_closed() {
        let Some(accepted) = close.run_until_cancelled(listener.accept()).await else {
            break;
        };
        let Ok(stream) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(tls) = tls.clone() else {
            let _ = sender.send(Ok(stream)).await;
            continue;
        };
        let permit = Arc::clone(&handshakes).acquire_owned().await;
        let sender = sender.clone();
        tokio::spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream)).await {
                Ok(Ok(stream)) => _ = sender.send(Ok(TlsStream::from(stream).into())).await,
                Ok(Err(error)) => tracing::debug!("a client's handshake fails: {error}"),
                Err(_) => tracing::debug!("a client's handshake takes too long"),
            }
        });
    }
}
