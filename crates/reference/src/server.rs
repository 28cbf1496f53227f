//! A running server: its listener, its threads, its end.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::JoinHandle,
    time::Duration,
};

use futures_util::{TryFutureExt as _, future::BoxFuture};
use hyper::{Response, header::HeaderValue};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
    task,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::{codec::CompressionEncoding, service::LayerExt as _};
use tonic_health::pb::health_server::HealthServer;
use tower::util::MapResponseLayer;

use super::{
    again::Again,
    fault::{Fault, Faults, Planted},
    folder::{Models, Source},
    grpc::{Service, tell_unreadable},
    health::Healthy,
    http,
    like::Like,
    listen::{Connections, connections},
    metrics,
    misbehaviour::Misbehaviour,
    repository::Repository,
    scheduler::HoldUntil,
    tasks::Tasks,
    tls::Tls,
    web,
};
use models::ModelOptions;
use wire::{net::Place, proto::grpc_inference_service_server::GrpcInferenceServiceServer, simulation};
use workload::seed::Seed;

/// The largest message that is taken, as with the real server.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;
/// Clients may cancel as many streams as they like.
const RESETS_MAX: usize = 100_000;
/// How long a shutdown waits for open streams.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// What is spoken over TLS.
const GRPC_PROTOCOL: &str = "h2";
const HTTP_PROTOCOL: &str = "http/1.1";
/// The header with the server's name.
const SERVED_BY: &str = "x-served-by";

/// A free port, for clients on this machine.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens for gRPC; port 0 is a free one.
    pub listen: SocketAddr,
    /// Where it listens for HTTP.
    pub listen_http: SocketAddr,
    /// Where it tells its metrics.
    pub listen_metrics: SocketAddr,
    /// With what gRPC and HTTP are secured, if they are.
    pub tls: Option<Tls>,
    /// Its models.
    pub models: ModelOptions,
    /// Models to serve in place of those.
    pub repository: Option<Models>,
    /// Whether it begins with no model loaded.
    pub explicit: bool,
    /// The faults that it commits.
    pub faults: Vec<Planted>,
    /// What decides when they happen.
    pub fault_seed: Seed,
    /// For how long a fault holds up what it makes late.
    pub fault_hold: Duration,
    /// Whether executions wait until something is queued.
    pub hold_until: HoldUntil,
    /// Which release of Triton it is like.
    pub like: Like,
    /// The age at which a gRPC connection's client is told to go away, if it ever is; what is under way is finished.
    pub max_connection_age: Option<Duration>,
    /// What the header `x-served-by` of its responses says, as a load balancer has it; without it there is no such header.
    pub name: Option<&'static str>,
    /// How many threads serve.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: ANY_PORT,
            listen_http: ANY_PORT,
            listen_metrics: ANY_PORT,
            tls: None,
            models: ModelOptions::default(),
            repository: None,
            explicit: false,
            faults: Vec::new(),
            fault_seed: Seed(0),
            fault_hold: Duration::from_secs(30),
            hold_until: HoldUntil::default(),
            like: Like::default(),
            max_connection_age: None,
            name: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Options {
    /// Whether models can be made of it.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn check(&self) -> Result<(), String> {
        self.acceptor(GRPC_PROTOCOL)?;
        Models::built_in(&self.models).map(drop)
    }

    fn acceptor(&self, protocol: &str) -> Result<Option<TlsAcceptor>, String> {
        self.tls.as_ref().map(|tls| tls.acceptor(protocol)).transpose()
    }
}

/// Why a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// A fault made it crash.
    Crashed,
}

/// A running server. Dropped, it ends at once.
#[derive(Debug)]
pub struct Server {
    /// Where it listens for gRPC.
    pub address: SocketAddr,
    /// Where it listens for HTTP.
    pub http: SocketAddr,
    /// Where it tells its metrics.
    pub metrics: SocketAddr,
    faults: Arc<Faults>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<Running>,
    again: Arc<Again>,
}

/// Where a server lives.
#[derive(Debug)]
enum Running {
    Thread(JoinHandle<Ended>),
    /// In the simulation of the thread that started it.
    Simulated(task::JoinHandle<Ended>),
}

impl Server {
    /// Starts a server with threads of its own, or in the [`simulation`] of this thread; it listens when this returns.
    ///
    /// # Errors
    /// Why it cannot, in one line.
    pub fn start(options: Options) -> Result<Self, String> {
        let models = match &options.repository {
            Some(models) => models.clone(),
            None => Models::built_in(&options.models)?,
        };
        let (grpc, address) = Listener::open(options.listen, options.acceptor(GRPC_PROTOCOL)?)?;
        let (http, http_address) = Listener::open(options.listen_http, options.acceptor(HTTP_PROTOCOL)?)?;
        let (metrics, metrics_address) = Listener::open(options.listen_metrics, None)?;
        let mut faults = Faults::new(&options.faults, options.fault_seed);
        faults.hold = options.fault_hold;
        let faults = Arc::new(faults);
        let (stop, stopped) = oneshot::channel();
        let again = Arc::<Again>::default();
        let listeners = Listeners { grpc, http, metrics };
        let sources = models.sources;
        let life = Life { listeners, sources, options, faults: Arc::clone(&faults), again: Arc::clone(&again) };
        let running = if simulation::is_on() {
            Running::Simulated(simulation::spawn(life.live_here(stopped)))
        } else {
            let thread = std::thread::Builder::new()
                .name("reference server".to_owned())
                .spawn(move || life.live(stopped))
                .map_err(|error| format!("cannot start a thread: {error}"))?;
            Running::Thread(thread)
        };
        Ok(Self {
            address,
            http: http_address,
            metrics: metrics_address,
            faults,
            stop: Some(stop),
            running: Some(running),
            again,
        })
    }

    /// What ends this server at once and starts it again at the same address: its connections are cut, its sequences gone. The
    /// error says in a line why the server did not start again.
    pub fn restarter(&self) -> impl Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync + 'static {
        let again = Arc::clone(&self.again);
        move || {
            let again = Arc::clone(&again);
            Box::pin(async move { again.life.ask("the embedded server did not start again").await })
        }
    }

    /// What lets the first instance of each model fail and come back: the states that it kept are lost. The error says in a line why
    /// that was not done.
    pub fn failure_of_an_instance(
        &self,
    ) -> impl Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync + 'static {
        let again = Arc::clone(&self.again);
        move || {
            let again = Arc::clone(&again);
            Box::pin(async move { again.failure.ask("no instance of the embedded server failed").await })
        }
    }

    /// How often a planted fault could have been committed.
    pub fn chances(&self, fault: Fault) -> u64 {
        self.faults.chances(fault)
    }

    /// How often a planted fault was committed.
    pub fn committed(&self, fault: Fault) -> u64 {
        self.faults.committed(fault)
    }

    /// When it was, in the order of time: the first 1,000 times.
    pub fn committed_at(&self, fault: Fault) -> Vec<tokio::time::Instant> {
        self.faults.committed_at(fault)
    }

    /// Stops it in good order: sequences that live may come to their end, within ten seconds.
    pub fn stop(mut self) -> Ended {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        self.ended()
    }

    /// Whether it is gone by itself.
    pub fn is_gone(&self) -> bool {
        self.running.as_ref().is_none_or(|running| match running {
            Running::Thread(thread) => thread.is_finished(),
            Running::Simulated(task) => task.is_finished(),
        })
    }

    fn ended(&mut self) -> Ended {
        let ended = match self.running.take() {
            Some(Running::Thread(thread)) => thread.join().ok(),
            Some(Running::Simulated(task)) => simulation::wait_for(task).ok(),
            None => None,
        };
        ended.unwrap_or(Ended::Crashed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        match &self.running {
            Some(Running::Thread(_)) => _ = self.ended(),
            Some(Running::Simulated(task)) => task.abort(),
            None => {}
        }
    }
}

/// A socket that stays from life to life, and with what its connections are secured.
struct Listener {
    socket: Place,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Listens, and says where.
    fn open(at: SocketAddr, tls: Option<TlsAcceptor>) -> Result<(Self, SocketAddr), String> {
        let (socket, address) = Place::listen(at).map_err(|error| format!("cannot listen on {at}: {error}"))?;
        Ok((Self { socket, tls }, address))
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, tls: self.tls.clone() })
    }

    /// Its connections until they are closed.
    fn connections(self, close: &CancellationToken) -> io::Result<Connections> {
        Ok(connections(self.socket.into_listener()?, self.tls, close.clone()))
    }
}

struct Listeners {
    grpc: Listener,
    http: Listener,
    metrics: Listener,
}

impl Listeners {
    /// Resets the connections that were made in memory.
    fn reset_all(&self) {
        for listener in [&self.grpc, &self.http, &self.metrics] {
            listener.socket.reset_all();
        }
    }

    /// Serves everything until told to close.
    fn serve(
        &self,
        service: &Service,
        max_age: Option<Duration>,
        close: &CancellationToken,
    ) -> io::Result<task::JoinHandle<Served>> {
        let grpc = serve(service.clone(), max_age, self.grpc.try_clone()?.connections(close)?);
        let (http, answering, closing) = (self.http.try_clone()?, service.clone(), close.clone());
        let http = web::in_order(move || async move {
            match http.connections(&closing) {
                Ok(connections) => {
                    let answer = move |request| {
                        let service = answering.clone();
                        let name = service.name.clone();
                        http::answer(service, request).map_ok(|answer| signed(answer, name))
                    };
                    web::serve(connections, closing, answer).await;
                }
                Err(error) => tracing::error!("the reference server does not serve HTTP: {error}"),
            }
        });
        let repository = Arc::clone(&service.repository);
        let metrics = web::serve(self.metrics.try_clone()?.connections(close)?, close.clone(), move |request| {
            std::future::ready(Ok(metrics::answer(&repository, &request)))
        });
        Ok(tokio::spawn(async move {
            let (grpc, http, ()) = tokio::join!(grpc, http, metrics);
            grpc.map_err(|error| error.to_string()).and(http.map_err(|error| error.to_string()))
        }))
    }
}

type Served = Result<(), String>;

/// What a server needs to live, several times where a fault restarts it.
struct Life {
    listeners: Listeners,
    sources: Vec<Source>,
    options: Options,
    faults: Arc<Faults>,
    again: Arc<Again>,
}

/// How a life ends: that of the server, or none where there is another one.
type End = Option<Ended>;

/// The same, where what goes wrong is the server's end.
fn told(end: Result<End, String>) -> End {
    end.unwrap_or_else(|error| {
        tracing::error!("the reference server ends: {error}");
        Some(Ended::Crashed)
    })
}

impl Life {
    fn live(self, mut stopped: oneshot::Receiver<()>) -> Ended {
        loop {
            let runtime = runtime::Builder::new_multi_thread()
                .worker_threads(self.options.threads.max(1))
                .thread_name("reference server")
                .enable_all()
                .build();
            let Ok(runtime) = runtime else {
                tracing::error!("the reference server cannot start its threads");
                return Ended::Crashed;
            };
            let end = runtime.block_on(async { self.once(&Tasks::here(), &mut stopped).await });
            // Connections that are still open are cut.
            runtime.shutdown_background();
            if let Some(ended) = told(end) {
                return ended;
            }
        }
    }

    /// The same within a runtime that goes on behind its end.
    async fn live_here(self, mut stopped: oneshot::Receiver<()>) -> Ended {
        loop {
            let tasks = Tasks::here();
            let end = self.once(&tasks, &mut stopped).await;
            tasks.end();
            self.listeners.reset_all();
            if let Some(ended) = told(end) {
                return ended;
            }
        }
    }

    async fn fail_when_asked(&self, repository: &Repository) -> Infallible {
        loop {
            self.again.failure.asked().await;
            repository.fail_an_instance();
            self.again.failure.done();
        }
    }

    async fn once(&self, tasks: &Tasks, stopped: &mut oneshot::Receiver<()>) -> Result<End, String> {
        let (sources, faults) = (self.sources.clone(), Arc::clone(&self.faults));
        let repository = Repository::new(sources, faults, self.options.hold_until, tasks.clone());
        if !self.options.explicit {
            repository.load_all().map_err(|failure| failure.message().to_owned())?;
        }
        self.again.life.done();
        let (blows, mut struck) = mpsc::unbounded_channel();
        let service = Service {
            repository: Arc::new(repository),
            misbehaviour: Arc::new(Misbehaviour::new(Arc::clone(&self.faults))),
            like: self.options.like,
            blows,
            name: self.options.name.and_then(|name| HeaderValue::from_str(name).ok()),
            exiting: Arc::default(),
        };
        loop {
            let close = tasks.over();
            let front = self.listeners.serve(&service, self.options.max_connection_age, &close);
            let mut front = front.map_err(|error| error.to_string())?;
            tokio::select! {
                told = &mut *stopped => {
                    if told.is_err() {
                        return Ok(Some(Ended::Stopped));
                    }
                    service.exiting.store(true, Relaxed);
                    service.repository.stop().await;
                    close.cancel();
                    let _ = tokio::time::timeout(CLOSE_LIMIT, &mut front).await;
                    return Ok(Some(Ended::Stopped));
                }
                () = self.again.life.asked() => return Ok(None),
                never = self.fail_when_asked(&service.repository) => match never {},
                blow = struck.recv() => match blow {
                    Some(Fault::GoAway) => close.cancel(),
                    Some(Fault::Restart) => return Ok(None),
                    _ => return Ok(Some(Ended::Crashed)),
                },
                ended = &mut front => return Err(format!("it does not accept connections any more: {ended:?}")),
            }
        }
    }
}

/// An answer with the server's name, where it has one.
fn signed<A>(mut answer: Response<A>, name: Option<HeaderValue>) -> Response<A> {
    if let Some(name) = name {
        answer.headers_mut().insert(SERVED_BY, name);
    }
    answer
}

/// Serves gRPC until the connections end, and then to the end of what is under way.
async fn serve(
    service: Service,
    max_age: Option<Duration>,
    connections: Connections,
) -> Result<(), tonic::transport::Error> {
    let name = service.name.clone();
    let inference = GrpcInferenceServiceServer::new(service)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let mut server = tonic::transport::Server::builder();
    if let Some(max_age) = max_age {
        server = server.max_connection_age(max_age);
    }
    server
        .max_concurrent_streams(u32::MAX)
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .add_service(MapResponseLayer::new(move |answer| signed(tell_unreadable(answer), name)).named_layer(inference))
        .add_service(HealthServer::new(Healthy))
        // A signal would make it drop connections that were taken and not served yet. Without one at all it would not
        // tell those that are open to go away.
        .serve_with_incoming_shutdown(connections, std::future::pending())
        .await
}
