//! The calls before and after a run.

use std::{convert::identity, time::Duration};

use futures_util::future::try_join_all;
use prost::Message;
use serde::Deserialize;
use tonic::{Response, Status, transport::Uri};
use tonic_prost::ProstCodec;

use super::{
    access::Access,
    call_error::CallError,
    conduit::{Conduit, path_of},
    configuration::{Configuration, config_of},
    connection::{Dialer, Link},
    http::Connections,
};
use crate::proto::{self, model_metadata_response::TensorMetadata, model_repository_parameter::ParameterChoice};
use workload::{
    endpoint::{Endpoint, Protocol},
    model::{Counted, Spent, Statistics},
    scenario::Target,
    tensor::TensorSpec,
    version::ModelVersion,
};

/// A connection to a server, each call of which has a time limit.
///
/// Where the endpoint leads to several servers, and they are named, what is asked of the model is asked of each: counts are added up, and
/// they are ready if all of them are. Of what has to be the same on each the first one tells.
#[derive(Clone, Debug)]
pub struct Client {
    over: Over,
    limit: Duration,
    /// The servers behind the endpoint; none where it is the server itself.
    replicas: Vec<(Endpoint, Self)>,
    /// The model of which a version is meant, and the version.
    tested: Option<(String, ModelVersion)>,
}

/// What is spoken.
#[derive(Clone, Debug)]
enum Over {
    Grpc(Conduit),
    Http(Connections),
}

const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What a model's metadata declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Declared {
    /// Its inputs.
    pub inputs: Vec<TensorSpec>,
    /// Its outputs.
    pub outputs: Vec<TensorSpec>,
    /// The versions that are served.
    #[serde(default)]
    pub versions: Vec<String>,
}

impl Declared {
    /// The version that answers where none is asked for: of several the highest.
    pub fn newest(&self) -> Option<&str> {
        self.versions.iter().map(String::as_str).max_by_key(|version| version.parse::<u64>().ok())
    }
}

/// A call fails where no answer comes within the limit, or another one than the protocol has for it.
#[expect(clippy::missing_errors_doc, reason = "they are the same for each call")]
impl Client {
    /// A connection to `endpoint`, made with the first call.
    ///
    /// # Errors
    /// When the endpoint is none.
    pub fn new(endpoint: &Endpoint, access: &Access, limit: Duration) -> Result<Self, CallError> {
        let link = Dialer::to(&endpoint.clone().into(), 0, access, limit).link()?;
        Self::over(&link, endpoint.scheme.protocol(), limit)
    }

    /// A connection to a target's endpoint for calls, and to each of its replicas, where it names them. Calls about the target's model
    /// name the target's version.
    ///
    /// # Errors
    /// When an endpoint is none.
    pub fn of(target: &Target, access: &Access, limit: Duration) -> Result<Self, CallError> {
        let to = |endpoint: &Endpoint| Self::new(endpoint, access, limit);
        let replica = |endpoint: &Endpoint| Ok((endpoint.clone(), to(endpoint)?));
        let replicas = target.servers().iter().map(replica).collect::<Result<_, CallError>>()?;
        Ok(Self { replicas, ..to(target.endpoint.for_calls())? }.of_version(&target.model, target.version))
    }

    /// The servers behind the endpoint, each with a connection of its own; none where the endpoint is the server itself.
    pub fn replicas(&self) -> &[(Endpoint, Self)] {
        &self.replicas
    }

    /// The server that tells what is the same on all of them.
    fn first(&self) -> &Self {
        self.replicas.first().map_or(self, |(_, first)| first)
    }

    /// Asks each server; an error names the one that it is of.
    async fn each<'c, T, F>(&'c self, ask: impl Fn(&'c Self) -> F) -> Result<Vec<T>, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let asked = self.replicas.iter().map(|(endpoint, replica)| {
            let asked = ask(replica);
            async move { asked.await.map_err(|error| error.of_replica(endpoint)) }
        });
        try_join_all(asked).await
    }

    /// One whose calls go over a link.
    pub(super) fn over(link: &Link, protocol: Protocol, limit: Duration) -> Result<Self, CallError> {
        let over = match protocol {
            Protocol::Grpc => Over::Grpc(link.conduit()?.clone()),
            Protocol::Http => Over::Http(link.connections()?.clone()),
        };
        Ok(Self { over, limit, replicas: Vec::new(), tested: None })
    }

    /// The same, with this version meant of a model; without one the newest, and in statistics all together.
    #[must_use]
    pub fn of_version(&self, model: &str, version: Option<ModelVersion>) -> Self {
        let tested = version.map(|version| (model.to_owned(), version));
        let replicas =
            self.replicas.iter().map(|(endpoint, its)| (endpoint.clone(), its.of_version(model, version))).collect();
        Self { replicas, tested, ..self.clone() }
    }

    /// Which version of a model is meant; none where that is the newest.
    pub fn version(&self, model: &str) -> Option<ModelVersion> {
        self.tested.as_ref().filter(|(name, _)| name == model).map(|(_, version)| *version)
    }

    /// The same as calls have it.
    fn version_of(&self, model: &str) -> String {
        self.version(model).map(|version| version.to_string()).unwrap_or_default()
    }

    /// The same with another time limit for each call.
    pub fn with_limit(self, limit: Duration) -> Self {
        let replicas = self.replicas.into_iter().map(|(endpoint, its)| (endpoint, its.with_limit(limit))).collect();
        Self { limit, replicas, ..self }
    }

    /// Makes sure that a connection carries calls: one that a busy server has not taken in yet can look made and then be
    /// reset. Tries again until the limit has passed.
    pub(super) async fn prove(&self) -> Result<(), CallError> {
        let deadline = tokio::time::Instant::now() + self.limit;
        loop {
            match self.server_live().await {
                Ok(_) | Err(CallError::Unimplemented | CallError::Rejected(_) | CallError::Restricted(_)) => {
                    return Ok(());
                }
                Err(error) if tokio::time::Instant::now() + RETRY_AFTER >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(RETRY_AFTER).await,
            }
        }
    }

    /// A call over gRPC.
    async fn call<Q, A>(&self, conduit: &Conduit, method: &str, message: Q) -> Result<A, CallError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + Clone + 'static,
    {
        let answer = async {
            let (answer, _) = conduit.call(method, message, ProstCodec::default()).await;
            answer.map_err(|status| CallError::from(&status))
        };
        self.limited(answer).await
    }

    /// A call's answer, which has to come within the limit.
    async fn limited<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let access = match &self.over {
            Over::Grpc(conduit) => conduit.access(),
            Over::Http(http) => http.access(),
        };
        match tokio::time::timeout(self.limit, call).await {
            Ok(Ok(answer)) => {
                access.was_answered();
                Ok(answer)
            }
            Ok(Err(error)) => Err(access.explain(error).with_text(|text| access.shown(text))),
            Err(_) => Err(CallError::TimedOut(self.limit)),
        }
    }

    /// Whether the server is live.
    pub async fn server_live(&self) -> Result<bool, CallError> {
        if !self.replicas.is_empty() && !Box::pin(self.each(Self::server_live)).await?.into_iter().all(identity) {
            return Ok(false);
        }
        match &self.over {
            Over::Http(http) => self.limited(http.is_well(Uri::from_static("/v2/health/live"))).await,
            Over::Grpc(conduit) => {
                let proto::ServerLiveResponse { live } =
                    self.call(conduit, "ServerLive", proto::ServerLiveRequest {}).await?;
                Ok(live)
            }
        }
    }

    /// Whether the server is ready.
    pub async fn server_ready(&self) -> Result<bool, CallError> {
        if !self.replicas.is_empty() {
            return Ok(Box::pin(self.each(Self::server_ready)).await?.into_iter().all(identity));
        }
        match &self.over {
            Over::Http(http) => self.limited(http.is_well(Uri::from_static("/v2/health/ready"))).await,
            Over::Grpc(conduit) => {
                let proto::ServerReadyResponse { ready } =
                    self.call(conduit, "ServerReady", proto::ServerReadyRequest {}).await?;
                Ok(ready)
            }
        }
    }

    /// The server's name and version.
    pub async fn server_name(&self) -> Result<String, CallError> {
        let (name, version) = match &self.first().over {
            Over::Http(http) => self.limited(http.server_name()).await?,
            Over::Grpc(conduit) => {
                let request = proto::ServerMetadataRequest {};
                let proto::ServerMetadataResponse { name, version, .. } =
                    self.call(conduit, "ServerMetadata", request).await?;
                (name, version)
            }
        };
        Ok(format!("{name} {version}").trim().to_owned())
    }

    /// Whether a stream of requests can be opened: one is, and closed again with no request in it. Over HTTP
    /// there are none.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn streams(&self) -> Result<(), CallError> {
        let Over::Grpc(conduit) = &self.over else { return Err(CallError::Unimplemented) };
        let whole = conduit.tried(identity, |mut grpc| {
            let request = conduit.request(tokio_stream::empty());
            async move {
                let codec = ProstCodec::<proto::ModelInferRequest, proto::ModelStreamInferResponse>::default();
                let mut answers = grpc.streaming(request, path_of("ModelStreamInfer"), codec).await?.into_inner();
                while answers.message().await?.is_some() {}
                Ok::<_, Status>(Response::new(()))
            }
        });
        self.limited(async { whole.await.0.map_err(|status| CallError::from(&status)) }).await
    }

    /// Whether an inference can be asked for in a call of its own: one is that nothing can come of.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn infers(&self, model: &str) -> Result<(), CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(http) => return self.limited(http.infers(model, &self.version_of(model))).await,
        };
        // One that names no model is told to nobody's statistics.
        let called: Result<proto::ModelInferResponse, _> =
            self.call(conduit, "ModelInfer", proto::ModelInferRequest::default()).await;
        match called {
            Ok(_) | Err(CallError::Rejected(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the model is ready.
    pub async fn model_ready(&self, model: &str) -> Result<bool, CallError> {
        if !self.replicas.is_empty() {
            return Ok(Box::pin(self.each(|its| its.model_ready(model))).await?.into_iter().all(identity));
        }
        match &self.over {
            Over::Http(http) => self.limited(http.model_is_ready(model, &self.version_of(model))).await,
            Over::Grpc(conduit) => {
                let request = proto::ModelReadyRequest { name: model.to_owned(), version: self.version_of(model) };
                let proto::ModelReadyResponse { ready } = self.call(conduit, "ModelReady", request).await?;
                Ok(ready)
            }
        }
    }

    /// The names of the models that the server has.
    pub async fn models(&self) -> Result<Vec<String>, CallError> {
        match &self.first().over {
            Over::Http(http) => self.limited(http.models()).await,
            Over::Grpc(conduit) => {
                let request = proto::RepositoryIndexRequest::default();
                let proto::RepositoryIndexResponse { models } = self.call(conduit, "RepositoryIndex", request).await?;
                Ok(models.into_iter().map(|model| model.name).collect())
            }
        }
    }

    /// Unloads the model and loads it anew, so that its slots are as they were at the first.
    ///
    /// # Errors
    /// When a call fails; only a server that is told to, as by `--model-control-mode=explicit`, loads models when it is asked.
    pub async fn reload(&self, model: &str) -> Result<(), CallError> {
        if !self.replicas.is_empty() {
            return Box::pin(self.each(|its| its.reload(model))).await.map(drop);
        }
        if self.model_ready(model).await? {
            self.unload(model).await?;
        }
        self.load_with(model, None).await
    }

    /// Loads a model with this configuration, in place of what is loaded.
    ///
    /// # Errors
    /// When the call fails; only a server that is told to, as by `--model-control-mode=explicit`, loads models when it is asked.
    pub async fn load(&self, model: &str, configuration: &Configuration) -> Result<(), CallError> {
        if !self.replicas.is_empty() {
            return Box::pin(self.each(|its| its.load(model, configuration))).await.map(drop);
        }
        let json = configuration.to_json().map_err(CallError::Rejected)?;
        self.load_with(model, Some(json)).await
    }

    /// Unloads a model.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn unload(&self, model: &str) -> Result<(), CallError> {
        if !self.replicas.is_empty() {
            return Box::pin(self.each(|its| its.unload(model))).await.map(drop);
        }
        match &self.over {
            Over::Http(http) => self.limited(http.unload(model)).await,
            Over::Grpc(conduit) => {
                let request =
                    proto::RepositoryModelUnloadRequest { model_name: model.to_owned(), ..Default::default() };
                let proto::RepositoryModelUnloadResponse {} =
                    self.call(conduit, "RepositoryModelUnload", request).await?;
                Ok(())
            }
        }
    }

    /// Loads a model, with a configuration as JSON if there is one.
    async fn load_with(&self, model: &str, json: Option<String>) -> Result<(), CallError> {
        match &self.over {
            Over::Http(http) => self.limited(http.load(model, json.as_deref())).await,
            Over::Grpc(conduit) => {
                let config = json.map(|json| {
                    let choice = Some(ParameterChoice::StringParam(json));
                    ("config".to_owned(), proto::ModelRepositoryParameter { parameter_choice: choice })
                });
                let parameters = config.into_iter().collect();
                let request = proto::RepositoryModelLoadRequest {
                    model_name: model.to_owned(),
                    parameters,
                    ..Default::default()
                };
                let proto::RepositoryModelLoadResponse {} = self.call(conduit, "RepositoryModelLoad", request).await?;
                Ok(())
            }
        }
    }

    /// What the model's metadata declares.
    pub async fn declared(&self, model: &str) -> Result<Declared, CallError> {
        let conduit = match &self.first().over {
            Over::Grpc(conduit) => conduit,
            Over::Http(http) => return self.limited(http.declared(model, &self.version_of(model))).await,
        };
        let request = proto::ModelMetadataRequest { name: model.to_owned(), version: self.version_of(model) };
        let proto::ModelMetadataResponse { inputs, outputs, versions, .. } =
            self.call(conduit, "ModelMetadata", request).await?;
        let specs = |tensors: Vec<TensorMetadata>| {
            let spec = |TensorMetadata { name, datatype, shape }| TensorSpec { name, datatype, shape };
            tensors.into_iter().map(spec).collect()
        };
        Ok(Declared { inputs: specs(inputs), outputs: specs(outputs), versions })
    }

    /// The model's configuration.
    ///
    /// # Errors
    /// When the call fails, or brings none.
    pub async fn configuration(&self, model: &str) -> Result<Configuration, CallError> {
        let config = match &self.first().over {
            Over::Http(http) => {
                let json = self.limited(http.configuration(model, &self.version_of(model))).await?;
                config_of(&json).map_err(CallError::Rejected)?
            }
            Over::Grpc(conduit) => {
                let request = proto::ModelConfigRequest { name: model.to_owned(), version: self.version_of(model) };
                let proto::ModelConfigResponse { config } = self.call(conduit, "ModelConfig", request).await?;
                config.ok_or_else(|| CallError::Rejected("the answer holds no configuration".to_owned()))?
            }
        };
        Ok(Configuration(config))
    }

    /// What the model's statistics say: those of the version that is meant, or of all versions together.
    pub async fn counted(&self, model: &str) -> Result<Counted, CallError> {
        Ok(self.statistics(model).await?.counted)
    }

    /// The same, with how long requests waited and how long the model computed.
    pub async fn statistics(&self, model: &str) -> Result<Statistics, CallError> {
        if !self.replicas.is_empty() {
            let all = Box::pin(self.each(|its| its.statistics(model))).await?;
            return Ok(all.into_iter().fold(Statistics::default(), Statistics::and));
        }
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(http) => return self.limited(http.statistics(model, &self.version_of(model))).await,
        };
        let request = proto::ModelStatisticsRequest { name: model.to_owned(), version: self.version_of(model) };
        let statistics: proto::ModelStatisticsResponse = self.call(conduit, "ModelStatistics", request).await?;
        let Statistics { mut counted, mut spent } = Statistics::default();
        for version in statistics.model_stats.iter().filter(|version| version.name == model) {
            let requests = version.inference_stats.unwrap_or_default();
            counted.success += requests.success.unwrap_or_default().count;
            counted.fail += requests.fail.unwrap_or_default().count;
            counted.inference += version.inference_count;
            counted.execution += version.execution_count;
            let ns = |duration: Option<proto::StatisticDuration>| duration.unwrap_or_default().ns;
            spent += Spent {
                request_ns: ns(requests.success),
                queue_ns: ns(requests.queue),
                compute_input_ns: ns(requests.compute_input),
                compute_infer_ns: ns(requests.compute_infer),
                compute_output_ns: ns(requests.compute_output),
            };
        }
        Ok(Statistics { counted, spent })
    }
}
