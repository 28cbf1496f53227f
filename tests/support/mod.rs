//! An endpoint for tests: the reference server, or the real one, behind a proxy that changes what it tells of itself.

#![allow(unreachable_pub, dead_code, reason = "each test file uses its part")]

pub mod balancer;
pub mod front;
pub mod gate;
pub mod http;
pub mod long;
pub mod metered;
pub mod numbers;
pub mod request;
pub mod runs;
pub mod scrape;
pub mod sequences;
pub mod tls;
pub mod tool;
pub mod triton;

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::stream::unfold;
use hyper_util::rt::TokioIo;
use reference::{Fault, ModelOptions, Options, Planted, Server};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{
    Request, Response, Status, Streaming,
    codegen::BoxStream,
    transport::{Channel, Uri},
};
use tower::service_fn;
use wire::{
    net::{Place, Socket},
    proto::{
        InferParameter, ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse,
        ModelMetadataRequest, ModelMetadataResponse, ModelParameter, ModelReadyRequest, ModelReadyResponse,
        ModelStatisticsRequest, ModelStatisticsResponse, ModelStreamInferResponse, ModelTransactionPolicy,
        RepositoryIndexRequest, RepositoryIndexResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest,
        ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
        grpc_inference_service_client::GrpcInferenceServiceClient,
        grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
        infer_parameter::ParameterChoice,
    },
    simulation,
};

/// Does a test for each of these, so many at a time.
pub fn side_by_side<R: Sync>(at_a_time: usize, rows: &[R], test: impl Fn(&R) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(rows.len()) {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Relaxed)) {
                    test(row);
                }
            });
        }
    });
}

/// Does a test for each of these, all at the same time, because most of it is waiting.
pub fn at_the_same_time<R: Sync>(rows: &[R], test: impl Fn(&R) + Sync) {
    side_by_side(rows.len(), rows, test);
}

/// By how much a late answer is late.
pub const LATE: Duration = Duration::from_secs(6);

pub const MODEL: &str = "custom_sequence_int32";

/// The requests of the sequence that is alone before each run.
pub const SOLO: u64 = 3;

/// What is behind the proxy, and what the proxy changes.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that an endpoint may lack")]
pub struct Setup {
    /// The real server's address; else a reference server is started.
    pub upstream: Option<String>,
    pub models: ModelOptions,
    pub faults: Vec<Planted>,
    pub streams: bool,
    pub has_metadata: bool,
    pub has_config: bool,
    pub has_statistics: bool,
    pub ready: bool,
    pub datatype: Option<&'static str>,
    pub sequence_batching: bool,
    pub decoupled: bool,
    pub formula: Option<&'static str>,
    /// Rejects steps whose correlation IDs are texts.
    pub rejects_texts: bool,
    /// Gives START to steps of sequences that have none: all of them, or the one with this number, from 1.
    pub adds_start: Option<AddsStart>,
    /// Who does not send this header, a name and a value, is rejected.
    pub wants_header: Option<(&'static str, &'static str)>,
    /// Says that it is this version of Triton.
    pub version: Option<&'static str>,
    /// Rejects in other words.
    pub has_other_words: bool,
    /// Leaves the request out of errors that come over a stream.
    pub has_anonymous_errors: bool,
    /// Dies when asked for statistics for this many times.
    pub dies_at_statistics: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddsStart {
    Always,
    Once(u64),
}

impl Default for Setup {
    fn default() -> Self {
        let models = ModelOptions {
            instances: 2,
            max_batch_size: 4,
            candidates: 4,
            idle_limit: Duration::from_millis(500),
            execution: Duration::ZERO,
            ..ModelOptions::default()
        };
        Self {
            upstream: None,
            models,
            faults: Vec::new(),
            streams: true,
            has_metadata: true,
            has_config: true,
            has_statistics: true,
            ready: true,
            datatype: None,
            sequence_batching: true,
            decoupled: false,
            formula: None,
            rejects_texts: false,
            adds_start: None,
            wants_header: None,
            version: None,
            has_other_words: false,
            has_anonymous_errors: false,
            dies_at_statistics: None,
        }
    }
}

/// A running endpoint; it stops when it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    state: Arc<State>,
    server: Option<Server>,
    faults: Vec<Planted>,
    _stop: oneshot::Sender<()>,
}

impl TestServer {
    pub fn start(setup: Setup) -> Self {
        let (mut server, mut upstream) = (None, setup.upstream.clone());
        if upstream.is_none() {
            let options = Options {
                models: setup.models.clone(),
                faults: setup.faults.clone(),
                threads: 1,
                fault_hold: LATE,
                ..Options::default()
            };
            let started = Server::start(options).expect("a free port");
            upstream = Some(started.address.to_string());
            server = Some(started);
        }
        let (die, died) = oneshot::channel::<()>();
        let state = Arc::new(State { die: Mutex::new(Some(die)), ..State::default() });
        let (stop, stopped) = oneshot::channel::<()>();
        let faults = setup.faults.clone();
        let upstream = upstream.expect("one or the other");
        let address = serve(upstream, Arc::new(setup), Arc::clone(&state), stopped, died);
        Self { address, state, server, faults, _stop: stop }
    }

    pub fn with_fault(planted: Planted) -> Self {
        Self::start(Setup { faults: vec![planted], ..Setup::default() })
    }

    /// A server that executes nothing any more from this execution on.
    pub fn that_freezes(execution: u64) -> Self {
        let mut setup = Setup { faults: vec![Planted::once(Fault::HangInstance, execution)], ..Setup::default() };
        setup.models.instances = 1;
        Self::start(setup)
    }

    /// How often its one planted fault was committed.
    pub fn faults_committed(&self) -> u64 {
        let server = self.server.as_ref().expect("a reference server");
        self.faults.iter().map(|planted| server.committed(planted.fault)).sum()
    }

    /// How many requests of sequences came.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Relaxed)
    }

    /// How often a START was added.
    pub fn starts_added(&self) -> u64 {
        self.state.starts_added.load(Relaxed)
    }
}

fn serve(
    upstream: String,
    setup: Arc<Setup>,
    state: Arc<State>,
    stopped: oneshot::Receiver<()>,
    died: oneshot::Receiver<()>,
) -> SocketAddr {
    let (place, address) = Place::listen(([127, 0, 0, 1], 0).into()).expect("a port");
    let serving = async move {
        let dial = upstream.clone();
        let connector = service_fn(move |_: Uri| {
            let dial = dial.clone();
            async move { Socket::connect(&dial).await.map(TokioIo::new) }
        });
        let upstream = tonic::transport::Endpoint::from_shared(format!("http://{upstream}")).expect("an address");
        let client = GrpcInferenceServiceClient::new(upstream.connect_with_connector_lazy(connector));
        let wants = setup.wants_header;
        let let_in = move |request: Request<()>| match wants {
            Some((name, value)) if request.metadata().get(name).is_none_or(|sent| sent != value) => {
                Err(Status::unauthenticated("who are you?"))
            }
            _ => Ok(request),
        };
        let proxy = Proxy { client, setup, state };
        let again = place.try_clone().expect("a handle");
        let listener = place.into_listener().expect("a runtime");
        let incoming = unfold(listener, async |listener| Some((listener.accept().await, listener)));
        let server = tonic::transport::Server::builder()
            .add_service(GrpcInferenceServiceServer::with_interceptor(proxy, let_in))
            .serve_with_incoming(incoming);
        tokio::select! {
            _ = server => {}
            _ = stopped => {}
            Ok(()) = died => {}
        }
        again.reset_all();
    };
    if simulation::is_on() {
        simulation::spawn(serving);
    } else {
        std::thread::spawn(move || {
            let runtime = runs::runtime();
            runtime.block_on(serving);
            runtime.shutdown_background();
        });
    }
    address
}

#[derive(Default)]
struct State {
    requests: AtomicU64,
    no_starts: AtomicU64,
    starts_added: AtomicU64,
    statistics: AtomicU64,
    live: Mutex<HashSet<i64>>,
    die: Mutex<Option<oneshot::Sender<()>>>,
}

#[derive(Clone)]
struct Proxy {
    client: GrpcInferenceServiceClient<Channel>,
    setup: Arc<Setup>,
    state: Arc<State>,
}

impl Proxy {
    fn client(&self) -> GrpcInferenceServiceClient<Channel> {
        self.client.clone()
    }

    /// Counts a request, and adds START where that is planted.
    fn take(&self, request: &mut ModelInferRequest) {
        self.state.requests.fetch_add(1, Relaxed);
        let Some(adds) = self.setup.adds_start else { return };
        let parameter = |name: &str| request.parameters.get(name).and_then(|p| p.parameter_choice.clone());
        let is_set = |name| matches!(parameter(name), Some(ParameterChoice::BoolParam(true)));
        let Some(ParameterChoice::Int64Param(id)) = parameter("sequence_id") else {
            panic!("no sequence_id: {request:?}")
        };
        let mut live = self.state.live.lock().unwrap_or_else(PoisonError::into_inner);
        let lacks_start = !is_set("sequence_start") && !live.contains(&id);
        if is_set("sequence_end") {
            live.remove(&id);
        } else {
            live.insert(id);
        }
        if lacks_start
            && [AddsStart::Always, AddsStart::Once(self.state.no_starts.fetch_add(1, Relaxed) + 1)].contains(&adds)
        {
            self.state.starts_added.fetch_add(1, Relaxed);
            let choice = Some(ParameterChoice::BoolParam(true));
            request.parameters.insert("sequence_start".into(), InferParameter { parameter_choice: choice });
        }
    }

    async fn forward(
        self,
        mut requests: Streaming<ModelInferRequest>,
        out: mpsc::Sender<Result<ModelStreamInferResponse, Status>>,
    ) {
        let (sender, receiver) = mpsc::channel(64);
        let (proxy, rejections) = (self.clone(), out.clone());
        tokio::spawn(async move {
            while let Some(Ok(mut request)) = requests.next().await {
                if proxy.setup.rejects_texts && has_text_id(&request) {
                    let error_message = "sequence_id has to be an integer".to_owned();
                    let infer_response = Some(ModelInferResponse { id: request.id, ..Default::default() });
                    let _ = rejections.send(Ok(ModelStreamInferResponse { error_message, infer_response })).await;
                    continue;
                }
                proxy.take(&mut request);
                if sender.send(request).await.is_err() {
                    return;
                }
            }
        });
        let answers = self.client().model_stream_infer(ReceiverStream::new(receiver)).await;
        let mut answers = match answers {
            Ok(answers) => answers.into_inner(),
            Err(status) => {
                let _ = out.send(Err(status)).await;
                return;
            }
        };
        while let Some(mut answer) = answers.next().await {
            if let Ok(ModelStreamInferResponse { error_message, infer_response }) = &mut answer
                && self.setup.has_anonymous_errors
                && !error_message.is_empty()
            {
                *infer_response = None;
            }
            if let Ok(ModelStreamInferResponse { error_message, .. }) = &mut answer
                && self.setup.has_other_words
                && !error_message.is_empty()
            {
                "this is not possible".clone_into(error_message);
            }
            if out.send(answer).await.is_err() {
                return;
            }
        }
    }
}

fn has_text_id(request: &ModelInferRequest) -> bool {
    let id = request.parameters.get("sequence_id").and_then(|id| id.parameter_choice.as_ref());
    matches!(id, Some(ParameterChoice::StringParam(_)))
}

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl GrpcInferenceService for Proxy {
    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Reply<BoxStream<ModelStreamInferResponse>> {
        if !self.setup.streams {
            return Err(Status::unimplemented("no ModelStreamInfer"));
        }
        let (sender, receiver) = mpsc::channel(256);
        tokio::spawn(self.clone().forward(request.into_inner(), sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn server_live(&self, request: Request<ServerLiveRequest>) -> Reply<ServerLiveResponse> {
        self.client().server_live(request.into_inner()).await
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Reply<ServerReadyResponse> {
        Ok(Response::new(ServerReadyResponse { ready: self.setup.ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Reply<ModelReadyResponse> {
        self.client().model_ready(request.into_inner()).await
    }

    async fn server_metadata(&self, request: Request<ServerMetadataRequest>) -> Reply<ServerMetadataResponse> {
        let mut told = self.client().server_metadata(request.into_inner()).await?;
        if let Some(version) = self.setup.version {
            let ServerMetadataResponse { name, version: its, .. } = told.get_mut();
            "triton".clone_into(name);
            version.clone_into(its);
        }
        Ok(told)
    }

    async fn repository_index(&self, request: Request<RepositoryIndexRequest>) -> Reply<RepositoryIndexResponse> {
        self.client().repository_index(request.into_inner()).await
    }

    async fn model_metadata(&self, request: Request<ModelMetadataRequest>) -> Reply<ModelMetadataResponse> {
        if !self.setup.has_metadata {
            return Err(Status::unimplemented("no ModelMetadata"));
        }
        let mut response = self.client().model_metadata(request.into_inner()).await?;
        if let Some(datatype) = self.setup.datatype {
            for tensor in &mut response.get_mut().inputs {
                datatype.clone_into(&mut tensor.datatype);
            }
        }
        Ok(response)
    }

    async fn model_config(&self, request: Request<ModelConfigRequest>) -> Reply<ModelConfigResponse> {
        if !self.setup.has_config {
            return Err(Status::unimplemented("no ModelConfig"));
        }
        let mut response = self.client().model_config(request.into_inner()).await?;
        let config = response.get_mut().config.get_or_insert_default();
        if !self.setup.sequence_batching {
            config.scheduling_choice = None;
        }
        if self.setup.decoupled {
            config.model_transaction_policy = Some(ModelTransactionPolicy { decoupled: true });
        }
        if let Some(formula) = self.setup.formula {
            let parameter = ModelParameter { string_value: formula.into() };
            config.parameters.insert("sequence_stress_formula".into(), parameter);
        }
        Ok(response)
    }

    async fn model_statistics(&self, request: Request<ModelStatisticsRequest>) -> Reply<ModelStatisticsResponse> {
        if !self.setup.has_statistics {
            return Err(Status::unimplemented("no ModelStatistics"));
        }
        if self.setup.dies_at_statistics == Some(self.state.statistics.fetch_add(1, Relaxed) + 1) {
            let die = self.state.die.lock().unwrap_or_else(PoisonError::into_inner).take();
            die.expect("it dies once").send(()).expect("the proxy runs");
            std::future::pending::<()>().await;
        }
        self.client().model_statistics(request.into_inner()).await
    }
}
