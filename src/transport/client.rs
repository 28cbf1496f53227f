//! The calls before and after a run.

use std::{error::Error, fmt, time::Duration};

use tonic::{Code, Status};

use super::{
    access::{Access, Conduit},
    configuration::config_of,
    connection::Dialer,
    http::{Connections, Rest},
    tls::tls_failure,
};
use crate::{
    controls::Told,
    endpoint::Endpoint,
    model::{Settings, Strategy, ToldIds},
    proto::{
        DataType, ModelConfig, ModelConfigRequest, ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest,
        ModelRepositoryParameter, ModelSequenceBatching, ModelStatisticsRequest, RepositoryIndexRequest,
        RepositoryModelLoadRequest, RepositoryModelUnloadRequest, ServerLiveRequest, ServerMetadataRequest,
        ServerReadyRequest,
        model_config::SchedulingChoice,
        model_instance_group::Kind,
        model_metadata_response::TensorMetadata,
        model_repository_parameter::ParameterChoice as RepositoryParameterChoice,
        model_sequence_batching::{Control, StrategyChoice, control},
    },
    tensor::TensorSpec,
};

/// A connection to a server, each call of which has a time limit.
#[derive(Clone, Debug)]
pub struct Client {
    over: Over,
    limit: Duration,
}

/// What is spoken.
#[derive(Clone, Debug)]
enum Over {
    Grpc(Conduit),
    Http(Rest),
}

const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No connection could be made.
    Unreachable(String),
    /// The call was not answered within the limit.
    TimedOut(Duration),
    /// A connection was made, and could not be secured.
    NotSecured(String),
    /// The server lets nobody do that who does not say who he is.
    Restricted(String),
    /// Something answered that does not speak this protocol.
    NotThisProtocol(String),
    /// The server does not have this call.
    Unimplemented,
    /// The server said no.
    Refused(String),
    /// No endpoint of the server speaks this.
    NoEndpoint(&'static str),
}

impl CallError {
    pub(super) fn no_endpoint(what: &'static str) -> Self {
        Self::NoEndpoint(what)
    }
}

/// What a model's statistics say of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counted {
    /// Requests that succeeded.
    pub success: u64,
    /// Requests that failed.
    pub fail: u64,
    /// Inferences.
    pub inference: u64,
    /// Executions, each of one batch.
    pub execution: u64,
}

impl Client {
    /// A connection to `endpoint`, made with the first call.
    ///
    /// # Errors
    /// When the endpoint is none.
    pub fn new(endpoint: &Endpoint, access: &Access, limit: Duration) -> Result<Self, CallError> {
        if endpoint.scheme.is_grpc() {
            return Ok(Self::over_grpc(access.conduit(endpoint, limit)?, limit));
        }
        let link = Dialer::to(&endpoint.clone().into(), 0, access, limit).link()?;
        Ok(Self::over_http(link.connections()?.clone(), limit))
    }

    pub(super) fn over_grpc(conduit: Conduit, limit: Duration) -> Self {
        Self { over: Over::Grpc(conduit), limit }
    }

    pub(super) fn over_http(connections: Connections, limit: Duration) -> Self {
        Self { over: Over::Http(Rest(connections)), limit }
    }

    /// The same with another time limit for each call.
    pub(crate) fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Makes sure that a connection carries calls: one that a busy server has not taken in yet can look made and then be
    /// reset. Tries again until the limit has passed.
    pub(super) async fn prove(&self) -> Result<(), CallError> {
        let deadline = tokio::time::Instant::now() + self.limit;
        loop {
            match self.server_live().await {
                Ok(_) | Err(CallError::Unimplemented | CallError::Refused(_) | CallError::Restricted(_)) => {
                    return Ok(());
                }
                Err(error) if tokio::time::Instant::now() + RETRY_AFTER >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(RETRY_AFTER).await,
            }
        }
    }

    async fn call<T>(&self, call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, CallError> {
        self.limited(async { call.await.map(tonic::Response::into_inner).map_err(|status| CallError::from(&status)) })
            .await
    }

    /// A call's answer, which has to come within the limit.
    async fn limited<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let access = match &self.over {
            Over::Grpc(conduit) => &conduit.access,
            Over::Http(rest) => rest.0.access(),
        };
        match tokio::time::timeout(self.limit, call).await {
            Ok(Ok(answer)) => {
                access.was_answered();
                Ok(answer)
            }
            Ok(Err(error)) => Err(access.explain(error)),
            Err(_) => Err(CallError::TimedOut(self.limit)),
        }
    }

    /// Whether the server is live.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn server_live(&self) -> Result<bool, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.is_well("/v2/health/live")).await,
        };
        Ok(self.call(conduit.service().server_live(conduit.request(ServerLiveRequest {}))).await?.live)
    }

    /// Whether the server is ready.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn server_ready(&self) -> Result<bool, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.is_well("/v2/health/ready")).await,
        };
        Ok(self.call(conduit.service().server_ready(conduit.request(ServerReadyRequest {}))).await?.ready)
    }

    /// The server's name and version.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn server_name(&self) -> Result<String, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.server_name()).await,
        };
        let metadata = self.call(conduit.service().server_metadata(conduit.request(ServerMetadataRequest {}))).await?;
        Ok(format!("{} {}", metadata.name, metadata.version).trim().to_owned())
    }

    /// Whether a stream of requests can be opened: one is, and closed again with no request in it. Over HTTP
    /// there are none.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn streams(&self) -> Result<(), CallError> {
        let Over::Grpc(conduit) = &self.over else { return Err(CallError::Unimplemented) };
        let mut service = conduit.service();
        let all = async {
            let call = service.model_stream_infer(conduit.request(tokio_stream::empty()));
            let mut answers = call.await?.into_inner();
            while answers.message().await?.is_some() {}
            Ok(tonic::Response::new(()))
        };
        self.call(all).await
    }

    /// Whether the model is ready.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn model_ready(&self, model: &str) -> Result<bool, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.model_is_ready(model)).await,
        };
        let request = ModelReadyRequest { name: model.to_owned(), ..Default::default() };
        Ok(self.call(conduit.service().model_ready(conduit.request(request))).await?.ready)
    }

    /// The names of the models that the server has.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn models(&self) -> Result<Vec<String>, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.models()).await,
        };
        let index =
            self.call(conduit.service().repository_index(conduit.request(RepositoryIndexRequest::default()))).await?;
        Ok(index.models.into_iter().map(|model| model.name).collect())
    }

    /// Unloads the model and loads it anew, so that its slots are as they were at the first.
    ///
    /// # Errors
    /// When a call fails; only a server that is told to, as by `--model-control-mode=explicit`, loads models when it is asked.
    pub async fn reload(&self, model: &str) -> Result<(), CallError> {
        if self.model_ready(model).await? {
            self.unload(model).await?;
        }
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.load(model, None)).await,
        };
        let request = RepositoryModelLoadRequest { model_name: model.to_owned(), ..Default::default() };
        self.call(conduit.service().repository_model_load(conduit.request(request))).await?;
        Ok(())
    }

    async fn unload(&self, model: &str) -> Result<(), CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.unload(model)).await,
        };
        let request = RepositoryModelUnloadRequest { model_name: model.to_owned(), ..Default::default() };
        self.call(conduit.service().repository_model_unload(conduit.request(request))).await?;
        Ok(())
    }

    /// The model's inputs and outputs.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn model_tensors(&self, model: &str) -> Result<(Vec<TensorSpec>, Vec<TensorSpec>), CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.model_tensors(model)).await,
        };
        let request = ModelMetadataRequest { name: model.to_owned(), ..Default::default() };
        let ModelMetadataResponse { inputs, outputs, .. } =
            self.call(conduit.service().model_metadata(conduit.request(request))).await?;
        let specs = |tensors: Vec<TensorMetadata>| {
            tensors
                .into_iter()
                .map(|TensorMetadata { name, datatype, shape }| TensorSpec { name, datatype, shape })
                .collect()
        };
        Ok((specs(inputs), specs(outputs)))
    }

    pub(super) async fn model_config(&self, model: &str) -> Result<ModelConfig, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => {
                let json = self.limited(rest.configuration(model)).await?;
                return config_of(&json).map_err(CallError::Refused);
            }
        };
        let request = ModelConfigRequest { name: model.to_owned(), ..Default::default() };
        let response = self.call(conduit.service().model_config(conduit.request(request))).await?;
        response.config.ok_or_else(|| CallError::Refused("the answer holds no configuration".to_owned()))
    }

    /// Loads a model with a configuration as JSON.
    pub(super) async fn load_with(&self, model: &str, json: String) -> Result<(), CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.load(model, Some(&json))).await,
        };
        let parameter =
            ModelRepositoryParameter { parameter_choice: Some(RepositoryParameterChoice::StringParam(json)) };
        let request = RepositoryModelLoadRequest {
            model_name: model.to_owned(),
            parameters: [("config".to_owned(), parameter)].into(),
            ..Default::default()
        };
        self.call(conduit.service().repository_model_load(conduit.request(request))).await?;
        Ok(())
    }

    /// What the model's statistics say, all its versions together.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn counted(&self, model: &str) -> Result<Counted, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.counted(model)).await,
        };
        let request = ModelStatisticsRequest { name: model.to_owned(), ..Default::default() };
        let statistics = self.call(conduit.service().model_statistics(conduit.request(request))).await?;
        let mut counted = Counted::default();
        for version in statistics.model_stats.iter().filter(|version| version.name == model) {
            let requests = version.inference_stats.unwrap_or_default();
            counted.success += requests.success.unwrap_or_default().count;
            counted.fail += requests.fail.unwrap_or_default().count;
            counted.inference += version.inference_count;
            counted.execution += version.execution_count;
        }
        Ok(counted)
    }
}

/// What the server takes for the idle limit where the configuration leaves it at 0.
const DEFAULT_IDLE_LIMIT: Duration = Duration::from_secs(1);

pub(super) fn settings(config: &ModelConfig) -> Settings {
    let parameters =
        config.parameters.iter().map(|(key, parameter)| (key.clone(), parameter.string_value.clone())).collect();
    let decoupled = config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice else {
        return Settings {
            strategy: None,
            slots: 0,
            executed_at_once: 0,
            queue_delay: Duration::ZERO,
            idle_limit: DEFAULT_IDLE_LIMIT,
            implicit_state: false,
            told_ids: ToldIds::None,
            told: Told::default(),
            batches: false,
            decoupled,
            iterative: false,
            parameters,
        };
    };
    let batch = u32::try_from(config.max_batch_size).unwrap_or(0).max(1);
    let (strategy, slots_of_an_instance) = match &batching.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => {
            let candidates = u32::try_from(oldest.max_candidate_sequences).unwrap_or(0);
            (Strategy::Oldest, if candidates > 0 { candidates } else { batch })
        }
        Some(StrategyChoice::Direct(_)) | None => (Strategy::Direct, batch),
    };
    let queue_delay = Duration::from_micros(match &batching.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => oldest.max_queue_delay_microseconds,
        Some(StrategyChoice::Direct(direct)) => direct.max_queue_delay_microseconds,
        None => 0,
    });
    let idle_limit = match batching.max_sequence_idle_microseconds {
        0 => DEFAULT_IDLE_LIMIT,
        limit => Duration::from_micros(limit),
    };
    let controls = batching.control_input.iter().flat_map(|input| &input.control);
    Settings {
        strategy: Some(strategy),
        slots: instances(config).saturating_mul(slots_of_an_instance),
        executed_at_once: instances(config).saturating_mul(batch),
        queue_delay,
        idle_limit,
        implicit_state: !batching.state.is_empty(),
        told_ids: told_ids(batching),
        told: told(controls),
        batches: config.max_batch_size > 0,
        decoupled,
        iterative: batching.iterative_sequence,
        parameters,
    }
}

fn told_ids(batching: &ModelSequenceBatching) -> ToldIds {
    let mut controls = batching.control_input.iter().flat_map(|input| &input.control);
    match controls.find(|control| control.kind() == control::Kind::ControlSequenceCorrid) {
        Some(control) if control.data_type() == DataType::TypeString => ToldIds::Texts,
        Some(_) => ToldIds::Integers,
        None => ToldIds::None,
    }
}

/// What a model is told by these controls.
fn told<'c>(controls: impl Iterator<Item = &'c Control>) -> Told {
    use control::Kind::{ControlSequenceCorrid, ControlSequenceEnd, ControlSequenceReady, ControlSequenceStart};
    controls.fold(Told::default(), |told, control| match control.kind() {
        ControlSequenceStart => Told { start: true, ..told },
        ControlSequenceEnd => Told { end: true, ..told },
        ControlSequenceReady => Told { ready: true, ..told },
        ControlSequenceCorrid => {
            let corrid_bits = match control.data_type() {
                DataType::TypeInt64 | DataType::TypeUint64 => Some(u64::BITS),
                DataType::TypeInt32 | DataType::TypeUint32 => Some(u32::BITS),
                // What a server makes a text of is not the number's digits everywhere.
                _ => None,
            };
            Told { corrid_bits, ..told }
        }
    })
}

/// How many instances take requests.
fn instances(config: &ModelConfig) -> u32 {
    let of_group = |group: &crate::proto::ModelInstanceGroup| {
        let count = u32::try_from(group.count).unwrap_or(0).max(1);
        let gpus = u32::try_from(group.gpus.len()).unwrap_or(u32::MAX).max(1);
        if group.kind() == Kind::Gpu { count.saturating_mul(gpus) } else { count }
    };
    config.instance_group.iter().filter(|group| !group.passive).map(of_group).fold(0, u32::saturating_add).max(1)
}

impl From<&Status> for CallError {
    fn from(status: &Status) -> Self {
        let text = describe(status);
        if let Some(why) = status.source().and_then(tls_failure) {
            return Self::NotSecured(why);
        }
        if is_restricted(status) {
            return Self::Restricted(text);
        }
        match (status.code(), !is_from_the_server(status)) {
            (Code::Unavailable, _) => Self::Unreachable(text),
            (_, true) => Self::NotThisProtocol(format!("gRPC ({text})")),
            // Which is said of a call, too, whose compression a server does not have.
            (Code::Unimplemented, false) if text.to_lowercase().contains("compress") => Self::Refused(text),
            (Code::Unimplemented, false) => Self::Unimplemented,
            (_, false) => Self::Refused(text),
        }
    }
}

/// Whether the server wants to know who calls. Triton says it with a code that else means that it is not there.
fn is_restricted(status: &Status) -> bool {
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => true,
        Code::Unavailable => status.source().is_none() && status.message().starts_with("This protocol is restricted"),
        _ => false,
    }
}

/// Whether a status came in gRPC's own headers: not from an HTTP server that knows no gRPC, and not from the library, whose statuses
/// have a cause, or one of these texts.
pub(super) fn is_from_the_server(status: &Status) -> bool {
    let of_the_library = ["grpc-status header missing", "Missing response message"];
    status.source().is_none() && !of_the_library.iter().any(|text| status.message().starts_with(text))
}

/// A status in words for people.
pub(super) fn describe(status: &Status) -> String {
    if let Some(cause) = status.source() {
        return reasons(cause);
    }
    let message = status.message().trim();
    if message.is_empty() { status.code().description().to_owned() } else { message.to_owned() }
}

/// An error and what it came from, innermost last, each said once.
pub(super) fn reasons(error: &dyn Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        // The library's word for 'it did not work', which says nothing that its cause does not.
        let says_nothing = text == "transport error" && error.source().is_some();
        if !says_nothing && !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => {
                write!(f, "no connection: {why}; is a server running there, and is this its port?")
            }
            Self::TimedOut(limit) => write!(f, "no answer within {} ms", limit.as_millis()),
            Self::NotSecured(why) => write!(f, "the connection cannot be secured: {why}"),
            Self::Restricted(why) => {
                write!(f, "the server lets only some in: {why}; give the header that it wants with -H 'NAME: VALUE'")
            }
            Self::NotThisProtocol(why) => {
                write!(f, "what answers does not speak the inference protocol over {why}")
            }
            Self::Unimplemented => f.write_str("the server does not have this call"),
            Self::Refused(why) => write!(f, "the server said: {why}"),
            Self::NoEndpoint(what) => write!(f, "there is no endpoint for {what}"),
        }
    }
}

impl Error for CallError {}
