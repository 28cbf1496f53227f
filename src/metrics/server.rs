//! Serves the metrics to whoever fetches them, on a thread of its own.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener as Listener, TcpStream},
    runtime,
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

use super::{Metrics, exposition::Form};

/// How many connections are served at a time; more wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may take from its first byte to its last: each is of one request.
const LIMIT: Duration = Duration::from_secs(5);
/// How long the head of its request may take: a client that is not idle sends it at once.
const HEAD_LIMIT: Duration = Duration::from_secs(1);
/// How large the head of a request may be.
const HEAD_MAX: usize = 16 << 10;
/// How long it is waited where connections cannot be taken, because there are too many files.
const PAUSE: Duration = Duration::from_millis(100);
/// How long those wait that are being served when the server ends.
const ENDING: Duration = Duration::from_millis(500);

/// A server of the metrics, until it is dropped.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    metrics: Metrics,
    end: watch::Sender<bool>,
    /// Whether somebody has fetched the metrics when no run came any more.
    fetched: watch::Receiver<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens at this address, and serves from then on.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(crate) fn start(address: SocketAddr, metrics: &Metrics) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = watch::channel(false);
        let (fetch, fetched) = watch::channel(false);
        let its = metrics.clone();
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            runtime.block_on(serve(listener, its, ended, fetch));
            runtime.shutdown_background();
        })?;
        Ok(Self { address, metrics: metrics.clone(), end, fetched, thread: Some(thread) })
    }

    /// Waits until somebody has fetched the metrics as they are when no run comes any more, for so long at the most.
    pub(crate) async fn linger(&mut self, limit: Duration) {
        self.metrics.end();
        if !limit.is_zero() {
            // Where the thread is gone nobody fetches anything.
            let _ = timeout(limit, self.fetched.wait_for(|fetched| *fetched)).await;
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // It prints nothing, and a panic of it says so by itself.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, metrics: Metrics, mut ended: watch::Receiver<bool>, fetch: watch::Sender<bool>) {
    let Ok(listener) = Listener::from_std(listener) else { return };
    let (room, fetch) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Arc::new(fetch));
    let accept = async {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            let Ok((connection, _)) = listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            let (metrics, fetch) = (metrics.clone(), Arc::clone(&fetch));
            tokio::spawn(async move {
                if let Ok(true) = timeout(LIMIT, serve_one(connection, &metrics)).await {
                    fetch.send_replace(true);
                }
                drop(permit);
            });
        }
    };
    tokio::select! {
        () = accept => {}
        _ = ended.wait_for(|ended| *ended) => {}
    }
    // Those that have begun get their answers.
    let all = u32::try_from(CONNECTIONS_MAX).expect("few");
    let _ = timeout(ENDING, room.acquire_many(all)).await;
}

/// Serves one request; whether it got the last metrics there are.
async fn serve_one(connection: TcpStream, metrics: &Metrics) -> bool {
    let is_last = AtomicBool::new(false);
    let answer = |request: Request<Incoming>| {
        let (response, last) = answer(metrics, &request);
        is_last.fetch_or(last, Relaxed);
        async { Ok::<_, Infallible>(response) }
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .keep_alive(false)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(connection), service_fn(answer))
        .await;
    served.is_ok() && is_last.load(Relaxed)
}

/// The answer to a request, and whether it has the last metrics there are.
fn answer(metrics: &Metrics, request: &Request<Incoming>) -> (Response<Full<Bytes>>, bool) {
    let plain = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    };
    if request.uri().path() != "/metrics" {
        return (plain(StatusCode::NOT_FOUND, "The metrics are at /metrics.\n"), false);
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Use GET.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return (response, false);
    }
    let accept: Vec<_> = request.headers().get_all(ACCEPT).iter().filter_map(|its| its.to_str().ok()).collect();
    let (form, values) = (Form::asked_for(&accept.join(",")), metrics.values());
    let mut response = Response::new(Full::new(Bytes::from(form.page(&values))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    (response, values.is_final && *request.method() == Method::GET)
}
