//! A small server for tests: it speaks the inference protocol, keeps sums by correlation ID, and commits planted faults.
//! It has no scheduler; what a scheduler does is tested against the real tritonserver.

#![allow(unreachable_pub, dead_code, reason = "each test file uses its part")]

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use sequence_stress::proto::{
    InferParameter, InferStatistics, ModelConfig, ModelConfigRequest, ModelConfigResponse, ModelInferRequest,
    ModelInferResponse, ModelInstanceGroup, ModelMetadataRequest, ModelMetadataResponse, ModelParameter,
    ModelReadyRequest, ModelReadyResponse, ModelSequenceBatching, ModelStatistics, ModelStatisticsRequest,
    ModelStatisticsResponse, ModelStreamInferResponse, ModelTransactionPolicy, RepositoryIndexRequest,
    RepositoryIndexResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
    ServerReadyRequest, ServerReadyResponse, StatisticDuration,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
    infer_parameter::ParameterChoice,
    model_config::SchedulingChoice,
    model_infer_response::InferOutputTensor,
    model_metadata_response::TensorMetadata,
    model_sequence_batching::{StrategyChoice, StrategyOldest},
    repository_index_response::ModelIndex,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};
use tokio_stream::{
    StreamExt as _,
    wrappers::{ReceiverStream, TcpListenerStream},
};
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream, transport::Channel};

pub const MODEL: &str = "custom_sequence_int32";

/// What a test plants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    OffByOne,
    KeepState,
    Swap,
    HoldBack,
    AcceptNoStart,
    RefuseStart,
    RefuseInTheMiddle,
    OtherError,
    OtherRefusal,
    Drop,
    Duplicate,
    Reorder,
    WrongId,
    WrongModel,
    WrongName,
    WrongType,
    WrongShape,
    Truncate,
    CloseEarly,
    NeverClose,
    Die,
    DieWhenAsked,
    Freeze,
    CountTwice,
    CountNot,
}

/// When the fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// At this chance, counted from 1, and never again.
    Once(u64),
}

/// What the server offers.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a server may lack")]
pub struct Setup {
    pub fault: Option<(Fault, When)>,
    pub idle_limit: Duration,
    pub has_config: bool,
    pub has_statistics: bool,
    pub oldest: bool,
    /// `max_candidate_sequences` of Oldest.
    pub candidates: i32,
    pub queue_delay: Duration,
    pub ready: bool,
    pub datatype: &'static str,
    pub sequence_batching: bool,
    pub decoupled: bool,
    pub formula: Option<&'static str>,
    /// Requests go on to the real server there, and faults are committed on the way.
    pub upstream: Option<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            fault: None,
            idle_limit: Duration::from_millis(500),
            has_config: true,
            has_statistics: true,
            oldest: false,
            candidates: 0,
            queue_delay: Duration::ZERO,
            ready: true,
            datatype: "INT32",
            sequence_batching: true,
            decoupled: false,
            formula: None,
            upstream: None,
        }
    }
}

/// A running server; it stops when it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    _stop: oneshot::Sender<()>,
}

impl TestServer {
    pub fn start(setup: Setup) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (die, died) = oneshot::channel::<()>();
        let state = Arc::new(Mutex::new(State { die: Some(die), ..State::default() }));
        let (tell_address, address) = std::sync::mpsc::channel();
        let service = Service { setup: Arc::new(setup), state: Arc::clone(&state) };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                tell_address.send(listener.local_addr().expect("an address")).expect("a test that waits");
                let server = tonic::transport::Server::builder()
                    .add_service(GrpcInferenceServiceServer::new(service))
                    .serve_with_incoming(TcpListenerStream::new(listener));
                tokio::select! {
                    _ = server => {}
                    _ = stopped => {}
                    Ok(()) = died => {}
                }
            });
            runtime.shutdown_background();
        });
        Self { address: address.recv().expect("the server starts"), state, _stop: stop }
    }

    pub fn with_fault(fault: Fault, when: When) -> Self {
        Self::start(Setup { fault: Some((fault, when)), ..Setup::default() })
    }

    /// How often the fault was committed.
    pub fn faults_committed(&self) -> u64 {
        lock(&self.state).committed
    }

    /// How many requests came.
    pub fn requests(&self) -> u64 {
        lock(&self.state).requests
    }
}

#[derive(Default)]
struct State {
    sums: HashMap<i64, (i32, Instant)>,
    requests: u64,
    successes: u64,
    chances: u64,
    committed: u64,
    frozen: bool,
    die: Option<oneshot::Sender<()>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no test thread panics with the state")
}

#[derive(Clone)]
struct Service {
    setup: Arc<Setup>,
    state: Arc<Mutex<State>>,
}

/// What a request asks for.
struct Step {
    id: i64,
    start: bool,
    end: bool,
    value: i32,
}

impl Step {
    fn of(request: &ModelInferRequest) -> Self {
        let parameter = |name: &str| request.parameters.get(name).and_then(|p| p.parameter_choice.clone());
        let flag = |name| matches!(parameter(name), Some(ParameterChoice::BoolParam(true)));
        let Some(ParameterChoice::Int64Param(id)) = parameter("sequence_id") else {
            panic!("no sequence_id: {request:?}")
        };
        assert_eq!(request.inputs[0].shape, [1, 1]);
        let value = i32::from_le_bytes(request.raw_input_contents[0].as_slice().try_into().expect("4 bytes"));
        Self { id, start: flag("sequence_start"), end: flag("sequence_end"), value }
    }
}

type Answers = Vec<ModelStreamInferResponse>;

impl Service {
    /// Whether the fault happens now, at a chance for it.
    fn commits(&self, state: &mut State, fault: Fault) -> bool {
        let Some((planted, when)) = self.setup.fault else { return false };
        if planted != fault {
            return false;
        }
        state.chances += 1;
        let happens = match when {
            When::Always => true,
            When::Once(chance) => state.chances == chance,
        };
        state.committed += u64::from(happens);
        happens
    }

    /// The sum, or the text of the refusal.
    fn execute(&self, request: &ModelInferRequest) -> Result<i32, String> {
        let Step { id, start, end, value } = Step::of(request);
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.requests += 1;
        let now = Instant::now();
        let live =
            state.sums.get(&id).copied().filter(|(_, last)| now - *last < self.setup.idle_limit).map(|(sum, _)| sum);
        let refusal = Err(format!(
            "inference request for sequence {id} to model '{}' must specify the START flag on the first request of the sequence",
            request.model_name
        ));
        if self.commits(state, Fault::OtherError) {
            return Err("the model is out of order".into());
        }
        if start && self.commits(state, Fault::RefuseStart) {
            return refusal;
        }
        let mut before = match live {
            Some(sum) if !start => {
                if self.commits(state, Fault::RefuseInTheMiddle) {
                    state.sums.remove(&id);
                    return refusal;
                }
                let other = state
                    .sums
                    .iter()
                    .find(|(other, (sum_there, _))| **other != id && *sum_there != sum)
                    .map(|(k, v)| (*k, *v));
                match other {
                    Some((other, (its_sum, last))) if self.commits(state, Fault::Swap) => {
                        state.sums.insert(other, (sum, last));
                        its_sum
                    }
                    _ => sum,
                }
            }
            // The last sum of the slot that the sequence takes over.
            _ if start => match state.sums.get(&(-id)).map(|(sum, _)| *sum) {
                Some(sum) if sum != 0 && self.commits(state, Fault::KeepState) => sum,
                _ => 0,
            },
            _ if self.commits(state, Fault::AcceptNoStart) => 0,
            _ if self.commits(state, Fault::OtherRefusal) => return Err("no".into()),
            _ => return refusal,
        };
        before = before.wrapping_add(value);
        state.sums.insert(id, (before, now));
        if end {
            state.sums.remove(&id);
            state.sums.insert(-id, (before, now));
        }
        let counted =
            if self.commits(state, Fault::CountTwice) { 2 } else { u64::from(!self.commits(state, Fault::CountNot)) };
        state.successes += counted;
        if self.commits(state, Fault::OffByOne) {
            before += 1;
        }
        Ok(before)
    }

    fn answer(&self, request: &ModelInferRequest) -> ModelStreamInferResponse {
        let response = ModelInferResponse { id: request.id.clone(), ..Default::default() };
        match self.execute(request) {
            Err(error_message) => ModelStreamInferResponse { error_message, infer_response: Some(response) },
            Ok(sum) => {
                let output = InferOutputTensor {
                    name: "OUTPUT".into(),
                    datatype: "INT32".into(),
                    shape: vec![1, 1],
                    ..Default::default()
                };
                let infer_response = Some(ModelInferResponse {
                    model_name: request.model_name.clone(),
                    outputs: vec![output],
                    raw_output_contents: vec![sum.to_le_bytes().into()],
                    ..response
                });
                ModelStreamInferResponse { infer_response, ..Default::default() }
            }
        }
    }

    /// Commits the faults of the way back. `held` is an answer that waits to be sent after the next one.
    fn spoil(&self, mut answer: ModelStreamInferResponse, held: &mut Option<ModelStreamInferResponse>) -> Answers {
        let state = &mut *lock(&self.state);
        let is_good = answer.error_message.is_empty();
        let response = answer.infer_response.get_or_insert_default();
        if self.commits(state, Fault::WrongId) {
            response.id = "9999-0-0-0".into();
        }
        if is_good {
            let output = &mut response.outputs[0];
            if self.commits(state, Fault::WrongModel) {
                response.model_name = "another".into();
            }
            if self.commits(state, Fault::WrongName) {
                output.name = "OTHER".into();
            }
            if self.commits(state, Fault::WrongType) {
                output.datatype = "FP32".into();
            }
            if self.commits(state, Fault::WrongShape) {
                output.shape = vec![1];
            }
            if self.commits(state, Fault::Truncate) {
                response.raw_output_contents[0].pop();
            }
        }
        if self.commits(state, Fault::Drop) {
            return Vec::new();
        }
        if self.commits(state, Fault::Duplicate) {
            return vec![answer.clone(), answer];
        }
        if let Some(earlier) = held.take() {
            return vec![answer, earlier];
        }
        // Only with another answer to come is it an exchange.
        let sum_is_first = is_good && response_step(&answer) == Some(0);
        if sum_is_first && self.commits(state, Fault::Reorder) {
            *held = Some(answer);
            return Vec::new();
        }
        vec![answer]
    }

    async fn serve_stream(
        self,
        mut requests: Streaming<ModelInferRequest>,
        out: mpsc::Sender<Result<ModelStreamInferResponse, Status>>,
    ) {
        let mut held = None;
        while let Some(Ok(request)) = requests.next().await {
            let (late, die, freeze, close) = {
                let state = &mut *lock(&self.state);
                state.frozen |= self.commits(state, Fault::Freeze);
                let die = self.commits(state, Fault::Die).then(|| state.die.take());
                (self.commits(state, Fault::HoldBack), die, state.frozen, self.commits(state, Fault::CloseEarly))
            };
            if let Some(die) = die {
                if let Some(die) = die {
                    let _ = die.send(());
                }
                std::future::pending::<()>().await;
            }
            if freeze {
                std::future::pending::<()>().await;
            }
            if close {
                return;
            }
            let answer = self.answer(&request);
            if late {
                tokio::time::sleep(Duration::from_secs(6)).await;
            }
            for answer in self.spoil(answer, &mut held) {
                if out.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        }
        if self.commits(&mut lock(&self.state), Fault::NeverClose) {
            std::future::pending::<()>().await;
        }
    }

    /// Hands a stream on to the real server, with what makes it accept a sequence that has no START.
    async fn forward_stream(
        self,
        upstream: String,
        mut requests: Streaming<ModelInferRequest>,
        out: mpsc::Sender<Result<ModelStreamInferResponse, Status>>,
    ) {
        let (sender, receiver) = mpsc::channel(64);
        let service = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(mut request)) = requests.next().await {
                let Step { id, start, end, .. } = Step::of(&request);
                {
                    let state = &mut *lock(&service.state);
                    let is_live = state.sums.contains_key(&id);
                    if !start && !is_live && service.commits(state, Fault::AcceptNoStart) {
                        let choice = Some(ParameterChoice::BoolParam(true));
                        request.parameters.insert("sequence_start".into(), InferParameter { parameter_choice: choice });
                    }
                    if end {
                        state.sums.remove(&id);
                    } else {
                        state.sums.insert(id, (0, Instant::now()));
                    }
                }
                if sender.send(request).await.is_err() {
                    return;
                }
            }
        });
        let mut client = client(&upstream);
        let Ok(answers) = client.model_stream_infer(ReceiverStream::new(receiver)).await else { return };
        let mut answers = answers.into_inner();
        while let Some(answer) = answers.next().await {
            if out.send(answer).await.is_err() {
                return;
            }
        }
    }
}

fn response_step(answer: &ModelStreamInferResponse) -> Option<u32> {
    let id = &answer.infer_response.as_ref()?.id;
    id.rsplit_once('-').and_then(|(_, step)| step.parse().ok())
}

fn client(upstream: &str) -> GrpcInferenceServiceClient<Channel> {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{upstream}")).expect("an address");
    GrpcInferenceServiceClient::new(endpoint.connect_lazy())
}

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Reply<BoxStream<ModelStreamInferResponse>> {
        let (sender, receiver) = mpsc::channel(256);
        let service = self.clone();
        match self.setup.upstream.clone() {
            Some(upstream) => _ = tokio::spawn(service.forward_stream(upstream, request.into_inner(), sender)),
            None => _ = tokio::spawn(service.serve_stream(request.into_inner(), sender)),
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Reply<ServerLiveResponse> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Reply<ServerReadyResponse> {
        Ok(Response::new(ServerReadyResponse { ready: self.setup.ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Reply<ModelReadyResponse> {
        if let Some(upstream) = &self.setup.upstream {
            return client(upstream).model_ready(request.into_inner()).await;
        }
        Ok(Response::new(ModelReadyResponse { ready: request.get_ref().name == MODEL }))
    }

    async fn server_metadata(&self, _: Request<ServerMetadataRequest>) -> Reply<ServerMetadataResponse> {
        Ok(Response::new(ServerMetadataResponse { name: "test".into(), version: "1".into(), extensions: Vec::new() }))
    }

    async fn repository_index(&self, _: Request<RepositoryIndexRequest>) -> Reply<RepositoryIndexResponse> {
        let index = ModelIndex { name: MODEL.into(), ..Default::default() };
        Ok(Response::new(RepositoryIndexResponse { models: vec![index] }))
    }

    async fn model_metadata(&self, request: Request<ModelMetadataRequest>) -> Reply<ModelMetadataResponse> {
        if let Some(upstream) = &self.setup.upstream {
            return client(upstream).model_metadata(request.into_inner()).await;
        }
        let tensor =
            |name: &str| TensorMetadata { name: name.into(), datatype: self.setup.datatype.into(), shape: vec![-1, 1] };
        let response = ModelMetadataResponse {
            name: MODEL.into(),
            inputs: vec![tensor("INPUT")],
            outputs: vec![tensor("OUTPUT")],
            ..Default::default()
        };
        Ok(Response::new(response))
    }

    async fn model_config(&self, request: Request<ModelConfigRequest>) -> Reply<ModelConfigResponse> {
        if let Some(upstream) = &self.setup.upstream {
            return client(upstream).model_config(request.into_inner()).await;
        }
        if !self.setup.has_config {
            return Err(Status::unimplemented("no ModelConfig"));
        }
        let batching = ModelSequenceBatching {
            max_sequence_idle_microseconds: u64::try_from(self.setup.idle_limit.as_micros()).expect("short"),
            strategy_choice: self.setup.oldest.then(|| {
                StrategyChoice::Oldest(StrategyOldest {
                    max_candidate_sequences: self.setup.candidates,
                    max_queue_delay_microseconds: u64::try_from(self.setup.queue_delay.as_micros()).expect("short"),
                    ..Default::default()
                })
            }),
            ..Default::default()
        };
        let parameters = self
            .setup
            .formula
            .map(|formula| ("sequence_stress_formula".into(), ModelParameter { string_value: formula.into() }));
        let config = ModelConfig {
            name: MODEL.into(),
            max_batch_size: 4,
            instance_group: vec![ModelInstanceGroup { count: 2, ..Default::default() }],
            scheduling_choice: self.setup.sequence_batching.then_some(SchedulingChoice::SequenceBatching(batching)),
            model_transaction_policy: Some(ModelTransactionPolicy { decoupled: self.setup.decoupled }),
            parameters: parameters.into_iter().collect(),
            ..Default::default()
        };
        Ok(Response::new(ModelConfigResponse { config: Some(config) }))
    }

    async fn model_statistics(&self, request: Request<ModelStatisticsRequest>) -> Reply<ModelStatisticsResponse> {
        if let Some(upstream) = &self.setup.upstream {
            return client(upstream).model_statistics(request.into_inner()).await;
        }
        if !self.setup.has_statistics {
            return Err(Status::unimplemented("no ModelStatistics"));
        }
        let (count, die) = {
            let state = &mut *lock(&self.state);
            (state.successes, if self.commits(state, Fault::DieWhenAsked) { state.die.take() } else { None })
        };
        if let Some(die) = die {
            let _ = die.send(());
            std::future::pending::<()>().await;
        }
        let inference_stats =
            Some(InferStatistics { success: Some(StatisticDuration { count, ns: 0 }), ..Default::default() });
        let of_the_model =
            ModelStatistics { name: MODEL.into(), inference_count: count, inference_stats, ..Default::default() };
        Ok(Response::new(ModelStatisticsResponse { model_stats: vec![of_the_model] }))
    }
}
