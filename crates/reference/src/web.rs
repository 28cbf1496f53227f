//! Serving HTTP/1.1.

use std::{convert::Infallible, future::Future, io, thread};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use prost::bytes::Bytes;
use tokio::{runtime, sync::oneshot, task::JoinSet};
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::listen::Connections;
use wire::{net::Socket, simulation};

/// What a client gets.
pub(super) type Answered = Response<Full<Bytes>>;

/// An answer with this body, of the content type `kind`.
pub(super) fn answered(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Answered {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Serves on a thread of its own, where requests are handled in the order in which they come: among several threads the last of those
/// that come at once may be the first, and there are clients that send a sequence's steps on several connections without waiting.
pub(super) async fn in_order<W: Future<Output = ()>>(work: impl FnOnce() -> W + Send + 'static) -> io::Result<()> {
    if simulation::is_on() {
        // There is only this thread.
        work().await;
        return Ok(());
    }
    let abort = CancellationToken::new();
    // Whoever waits for this may be gone, and then the thread goes, too.
    let _guard = abort.clone().drop_guard();
    let (done, ended) = oneshot::channel();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("reference server".to_owned()).spawn(move || {
        runtime.block_on(async { abort.run_until_cancelled(work()).await });
        runtime.shutdown_background();
        let _ = done.send(());
    })?;
    let _ = ended.await;
    Ok(())
}

/// Serves connections until told to close, and then to the end of what is under way.
pub(super) async fn serve<F, A>(mut connections: Connections, close: CancellationToken, answer: F)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Answered, Infallible>> + Send + 'static,
{
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            connection = connections.next() => match connection {
                Some(Ok(connection)) => _ = open.spawn(serve_one(connection, close.clone(), answer.clone())),
                Some(Err(_)) => {}
                None => break,
            },
            Some(_) = open.join_next() => {}
        }
    }
    while open.join_next().await.is_some() {}
}

async fn serve_one<F, A>(connection: Socket, close: CancellationToken, answer: F)
where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Result<Answered, Infallible>>,
{
    let serving =
        http1::Builder::new().title_case_headers(true).serve_connection(TokioIo::new(connection), service_fn(answer));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = close.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ends: {error}");
    }
}
