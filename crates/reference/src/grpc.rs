//! The gRPC front end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use hyper::header::HeaderValue;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tonic::{
    Code, Request, Response, Status, Streaming,
    codegen::{BoxStream, http},
};

use super::{
    decode::decode,
    ensemble::enter,
    fault::Fault,
    like::Like,
    misbehaviour::Misbehaviour,
    repository::Repository,
    scheduler::SequenceId,
    served::{Answer, Asked, Reply, Served},
    spec::{Spec, TensorSpec},
    stream::Outbox,
};
use wire::proto::{
    ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse,
    ModelStreamInferResponse, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
    RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse, ServerLiveRequest,
    ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
    grpc_inference_service_server::GrpcInferenceService, model_metadata_response::TensorMetadata,
    model_repository_parameter::ParameterChoice,
};
use workload::model::REFERENCE_SERVER;

/// The protocol's extensions that this server has.
const EXTENSIONS: [&str; 7] = [
    "sequence",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
];

/// The words of the layer that reads messages.
const CANNOT_DECODE: &str = "failed to decode Protobuf message";

/// Whether a message could not be read, which says nothing of the connection.
fn is_unreadable(status: &Status) -> bool {
    status.code() == Code::Internal && status.message().starts_with(CANNOT_DECODE)
}

/// Tells of a message that is no protobuf message in the real server's words.
pub(super) fn tell_unreadable<A: Default>(answer: http::Response<A>) -> http::Response<A> {
    let status = Status::from_header_map(answer.headers());
    let is_unreadable = status.is_some_and(|status| is_unreadable(&status));
    if is_unreadable { Status::internal("Unable to parse request").into_http() } else { answer }
}

/// What it means for a request that its client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Cancels,
    Ignored,
}

/// The service, for all connections.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) repository: Arc<Repository>,
    pub(super) misbehaviour: Arc<Misbehaviour>,
    pub(super) like: Like,
    /// The faults of the whole server that happen.
    pub(super) blows: mpsc::UnboundedSender<Fault>,
    /// What answers are signed with, if anything.
    pub(super) name: Option<HeaderValue>,
    pub(super) exiting: Arc<AtomicBool>,
}

type CallResult<T> = Result<Response<T>, Status>;

/// Cancels a call's request when the call goes before its answer is there.
struct CancelsWhenDropped {
    cancelled: Arc<AtomicBool>,
    model: Arc<Served>,
    sequence: SequenceId,
    is_answered: bool,
}

impl Drop for CancelsWhenDropped {
    fn drop(&mut self) {
        if !self.is_answered && !self.cancelled.swap(true, Relaxed) {
            self.model.disconnected(&self.sequence);
            self.model.cancelled();
        }
    }
}

impl Service {
    /// Commits the faults that happen when a request arrives.
    async fn suffer(&self) {
        for fault in [Fault::Crash, Fault::Restart, Fault::GoAway] {
            if self.misbehaviour.happens(fault) {
                // Nobody listens any more where it was struck before.
                let _ = self.blows.send(fault);
                if fault != Fault::GoAway {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Commits the fault of a server that does not survive a request that it rejects over HTTP.
    pub(super) async fn suffer_rejection(&self) {
        if self.misbehaviour.happens(Fault::CrashAtRejection) {
            let _ = self.blows.send(Fault::Crash);
            std::future::pending::<()>().await;
        }
    }

    fn check_not_exiting(&self, otherwise: &str) -> Result<(), Status> {
        if self.exiting.load(Relaxed) { Err(Status::unavailable(otherwise)) } else { Ok(()) }
    }

    fn read(
        &self,
        model: &Served,
        request: ModelInferRequest,
        cancelled: Arc<AtomicBool>,
        reply: Reply,
    ) -> Result<Asked, Status> {
        let spec = model.spec();
        let mut request = decode(request, &spec, cancelled, reply)?;
        self.like.check(&request.id, &model.name, &spec)?;
        request.id = self.misbehaviour.fold(request.id);
        Ok(request)
    }

    async fn call(&self, request: ModelInferRequest) -> Answer {
        let model = self.repository.find(&request.model_name, &request.model_version)?;
        if model.spec().is_decoupled {
            let text = "ModelInfer RPC doesn't support models with decoupled transaction policy";
            return Err(Status::unimplemented(text));
        }
        let cancelled = Arc::<AtomicBool>::default();
        let (sender, receiver) = oneshot::channel();
        let request = self.read(&model, request, Arc::clone(&cancelled), Reply::Call(sender))?;
        let mut guard = CancelsWhenDropped {
            cancelled,
            model: Arc::clone(&model),
            sequence: request.id.clone(),
            is_answered: false,
        };
        let answer = match enter(&self.repository, &model, request) {
            Err(failure) => Err(failure),
            // The sender is gone only with the model's runtime.
            Ok(()) => receiver.await.unwrap_or_else(|_| Err(Status::unavailable("Socket closed"))),
        };
        guard.is_answered = true;
        answer
    }

    /// Has a model execute a request, with the faults of calls.
    pub(super) async fn infer(&self, request: ModelInferRequest, gone: Gone) -> Answer {
        self.suffer().await;
        let answer = match gone {
            Gone::Cancels => self.call(request).await,
            Gone::Ignored => {
                let service = self.clone();
                let call = tokio::spawn(async move { service.call(request).await });
                call.await.unwrap_or_else(|_| Err(Status::internal("the request could not be handled")))
            }
        };
        if self.misbehaviour.happens(Fault::DropResponse) {
            std::future::pending::<()>().await;
        }
        self.misbehaviour.faults.hold_up(Fault::LateResponse).await;
        match answer {
            Ok(mut response) => {
                self.misbehaviour.spoil(&mut response);
                Ok(response)
            }
            Err(failure) => Err(self.misbehaviour.spoil_code(self.misbehaviour.spoil_error(failure))),
        }
    }

    async fn read_stream(self, mut requests: Streaming<ModelInferRequest>, outbox: Arc<Outbox>) {
        loop {
            if !outbox.room().await {
                return;
            }
            let next = requests.next().await;
            if !outbox.is_open() {
                return;
            }
            match next {
                None => return outbox.half_close(),
                // What cannot be read ends the stream as if the client had closed it, as with the real server.
                Some(Err(status)) if is_unreadable(&status) => return outbox.half_close(),
                Some(Err(_)) => return outbox.cancel(),
                Some(Ok(request)) => {
                    self.suffer().await;
                    if self.misbehaviour.happens(Fault::CloseStream) {
                        return outbox.close();
                    }
                    self.take_from_stream(request, &outbox);
                }
            }
        }
    }

    fn take_from_stream(&self, request: ModelInferRequest, outbox: &Arc<Outbox>) {
        let place = outbox.reserve();
        let request_id = request.id.clone();
        let accepted = self.repository.find(&request.model_name, &request.model_version).and_then(|model| {
            let reply = Reply::Stream { outbox: Arc::clone(outbox), place };
            let request = self.read(&model, request, Arc::clone(&outbox.cancelled), reply)?;
            outbox.uses(&model, &request.id);
            enter(&self.repository, &model, request)
        });
        if let Err(failure) = accepted {
            outbox.reject(place, request_id, failure);
        }
    }
}

fn metadata(tensors: &[TensorSpec], spec: &Spec) -> Vec<TensorMetadata> {
    let one = |tensor: &TensorSpec| TensorMetadata {
        name: tensor.name.to_string(),
        datatype: tensor.datatype.name().to_owned(),
        shape: spec.shape(-1, &tensor.dims),
    };
    tensors.iter().map(one).collect()
}

/// How long a call may take: a number of at most eight digits, and its unit.
fn timeout(value: &str) -> Option<Duration> {
    let (number, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if number.len() > 8 || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

fn reject_named_repository(name: &str) -> Result<(), Status> {
    if !name.is_empty() {
        return Err(Status::unimplemented("'repository_name' specification is not supported"));
    }
    Ok(())
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> CallResult<ServerLiveResponse> {
        self.check_not_exiting("Server exiting")?;
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> CallResult<ServerReadyResponse> {
        self.check_not_exiting("Server exiting")?;
        Ok(Response::new(ServerReadyResponse { ready: true }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> CallResult<ModelReadyResponse> {
        self.check_not_exiting("Server not ready")?;
        let ModelReadyRequest { name, version } = request.into_inner();
        Ok(Response::new(ModelReadyResponse { ready: self.repository.is_ready(&name, &version)? }))
    }

    async fn server_metadata(&self, _: Request<ServerMetadataRequest>) -> CallResult<ServerMetadataResponse> {
        Ok(Response::new(ServerMetadataResponse {
            name: REFERENCE_SERVER.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: EXTENSIONS.map(str::to_owned).into(),
        }))
    }

    async fn model_metadata(&self, request: Request<ModelMetadataRequest>) -> CallResult<ModelMetadataResponse> {
        let ModelMetadataRequest { name, version } = request.into_inner();
        let served = self.repository.find(&name, &version)?;
        let spec = served.spec();
        Ok(Response::new(ModelMetadataResponse {
            name,
            versions: self.repository.versions(&served, &version),
            platform: if spec.steps.is_empty() { spec.config.backend.clone() } else { spec.config.platform.clone() },
            inputs: metadata(&spec.inputs, &spec),
            outputs: metadata(&spec.outputs, &spec),
        }))
    }

    async fn model_config(&self, request: Request<ModelConfigRequest>) -> CallResult<ModelConfigResponse> {
        let ModelConfigRequest { name, version } = request.into_inner();
        let spec = self.repository.find(&name, &version)?.spec();
        Ok(Response::new(ModelConfigResponse { config: Some(spec.config.clone()) }))
    }

    async fn model_statistics(&self, request: Request<ModelStatisticsRequest>) -> CallResult<ModelStatisticsResponse> {
        self.check_not_exiting("Server not ready")?;
        let ModelStatisticsRequest { name, version } = request.into_inner();
        let models = self.repository.counting(&name, &version)?;
        let model_stats = models.iter().map(|model| model.statistics()).collect();
        Ok(Response::new(ModelStatisticsResponse { model_stats }))
    }

    async fn repository_index(&self, request: Request<RepositoryIndexRequest>) -> CallResult<RepositoryIndexResponse> {
        self.check_not_exiting("Server not ready")?;
        let RepositoryIndexRequest { repository_name, ready } = request.into_inner();
        reject_named_repository(&repository_name)?;
        Ok(Response::new(RepositoryIndexResponse { models: self.repository.index(ready) }))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> CallResult<RepositoryModelLoadResponse> {
        self.check_not_exiting("Server not ready")?;
        let RepositoryModelLoadRequest { repository_name, model_name, parameters } = request.into_inner();
        reject_named_repository(&repository_name)?;
        let config = match parameters.get("config").map(|parameter| &parameter.parameter_choice) {
            None => None,
            Some(Some(ParameterChoice::StringParam(config))) => Some(config.as_str()),
            Some(_) => {
                return Err(Status::invalid_argument(
                    "invalid value type for 'config' parameter, expected string_param.",
                ));
            }
        };
        self.repository.load(&model_name, config)?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> CallResult<RepositoryModelUnloadResponse> {
        self.check_not_exiting("Server not ready")?;
        let RepositoryModelUnloadRequest { repository_name, model_name, .. } = request.into_inner();
        reject_named_repository(&repository_name)?;
        self.repository.unload(&model_name);
        Ok(Response::new(RepositoryModelUnloadResponse {}))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> CallResult<ModelInferResponse> {
        Ok(Response::new(self.infer(request.into_inner(), Gone::Cancels).await?))
    }

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> CallResult<BoxStream<ModelStreamInferResponse>> {
        let closes_on_error = request.metadata().get("triton_grpc_error").is_some_and(|value| value == "true");
        let (outbox, mut responses) = Outbox::new(closes_on_error, Arc::clone(&self.misbehaviour));
        // Until the first response it is heeded for us, and then no more.
        responses.end_within(request.metadata().get("grpc-timeout").and_then(|value| timeout(value.to_str().ok()?)));
        tokio::spawn(self.clone().read_stream(request.into_inner(), outbox));
        // As the real server does, no headers are sent before there is something to send.
        let first = responses.next().await;
        Ok(Response::new(Box::pin(tokio_stream::iter(first).chain(responses))))
    }
}
