//! The calls before and after a run.

use std::time::Duration;

use tonic::{Status, transport::Channel};

use super::{
    access::{Access, Conduit},
    call_error::CallError,
    configuration::config_of,
    connection::Dialer,
    goaway::Again,
    http::{Connections, Rest},
};
use crate::proto::{
    ModelConfig, ModelConfigRequest, ModelInferRequest, ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest,
    ModelRepositoryParameter, ModelStatisticsRequest, RepositoryIndexRequest, RepositoryModelLoadRequest,
    RepositoryModelUnloadRequest, ServerLiveRequest, ServerMetadataRequest, ServerReadyRequest,
    grpc_inference_service_client::GrpcInferenceServiceClient as Service, model_metadata_response::TensorMetadata,
    model_repository_parameter::ParameterChoice as RepositoryParameterChoice,
};
use workload::{endpoint::Endpoint, model::Counted, tensor::TensorSpec};

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

/// What a model's metadata declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its inputs.
    pub inputs: Vec<TensorSpec>,
    /// Its outputs.
    pub outputs: Vec<TensorSpec>,
    /// The versions that are served.
    pub versions: Vec<String>,
}

impl Declared {
    /// The version that answers where none is asked for: of several the highest.
    #[must_use]
    pub fn newest(&self) -> Option<&str> {
        self.versions.iter().map(String::as_str).max_by_key(|version| version.parse::<u64>().ok())
    }
}

impl Client {
    /// A connection to `endpoint`, made with the first call.
    ///
    /// # Errors
    /// When the endpoint is none.
    pub fn new(endpoint: &Endpoint, access: &Access, limit: Duration) -> Result<Self, CallError> {
        let link = Dialer::to(&endpoint.clone().into(), 0, access, limit).link()?;
        if endpoint.scheme.is_grpc() {
            return Ok(Self::over_grpc(link.conduit()?.clone(), limit));
        }
        Ok(Self::over_http(link.connections()?.clone(), limit))
    }

    pub(super) fn over_grpc(conduit: Conduit, limit: Duration) -> Self {
        Self { over: Over::Grpc(conduit), limit }
    }

    pub(super) fn over_http(connections: Connections, limit: Duration) -> Self {
        Self { over: Over::Http(Rest(connections)), limit }
    }

    /// The same with another time limit for each call.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
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

    /// Makes a call, and again where the server did not take it in.
    async fn call<Q: Clone, T, F>(
        &self,
        conduit: &Conduit,
        message: Q,
        call: impl Fn(Service<Channel>, tonic::Request<Q>) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let answered = async {
            let mut again = Again::default();
            loop {
                match call(conduit.service(), conduit.request(message.clone())).await {
                    Ok(answer) => return Ok(answer.into_inner()),
                    Err(status) if again.may_be_tried(&status, conduit) => {}
                    Err(status) => return Err(CallError::from(&status)),
                }
            }
        };
        self.limited(answered).await
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
            Ok(Err(error)) => Err(access.explain(error).with_text(|text| access.shown(text))),
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
        Ok(self
            .call(
                conduit,
                ServerLiveRequest {},
                |mut service, request| async move { service.server_live(request).await },
            )
            .await?
            .live)
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
        Ok(self
            .call(
                conduit,
                ServerReadyRequest {},
                |mut service, request| async move { service.server_ready(request).await },
            )
            .await?
            .ready)
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
        let metadata = self
            .call(conduit, ServerMetadataRequest {}, |mut service, request| async move {
                service.server_metadata(request).await
            })
            .await?;
        Ok(format!("{} {}", metadata.name, metadata.version).trim().to_owned())
    }

    /// Whether a stream of requests can be opened: one is, and closed again with no request in it. Over HTTP
    /// there are none.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn streams(&self) -> Result<(), CallError> {
        let Over::Grpc(conduit) = &self.over else { return Err(CallError::Unimplemented) };
        let whole = |mut service: Service<Channel>, request: tonic::Request<()>| async move {
            let request = request.map(|()| tokio_stream::empty());
            let mut answers = service.model_stream_infer(request).await?.into_inner();
            while answers.message().await?.is_some() {}
            Ok(tonic::Response::new(()))
        };
        self.call(conduit, (), whole).await
    }

    /// Whether an inference can be asked for in a call of its own: one is that nothing can come of.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn infers(&self, model: &str) -> Result<(), CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.infers(model)).await,
        };
        // One that names no model is told to nobody's statistics.
        let called = self
            .call(conduit, ModelInferRequest::default(), |mut service, request| async move {
                service.model_infer(request).await
            })
            .await;
        match called {
            Ok(_) | Err(CallError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
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
        Ok(self
            .call(conduit, request, |mut service, request| async move { service.model_ready(request).await })
            .await?
            .ready)
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
        let index = self
            .call(conduit, RepositoryIndexRequest::default(), |mut service, request| async move {
                service.repository_index(request).await
            })
            .await?;
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
        self.call(conduit, request, |mut service, request| async move { service.repository_model_load(request).await })
            .await?;
        Ok(())
    }

    async fn unload(&self, model: &str) -> Result<(), CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.unload(model)).await,
        };
        let request = RepositoryModelUnloadRequest { model_name: model.to_owned(), ..Default::default() };
        self.call(
            conduit,
            request,
            |mut service, request| async move { service.repository_model_unload(request).await },
        )
        .await?;
        Ok(())
    }

    /// What the model's metadata declares.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn declared(&self, model: &str) -> Result<Declared, CallError> {
        let conduit = match &self.over {
            Over::Grpc(conduit) => conduit,
            Over::Http(rest) => return self.limited(rest.declared(model)).await,
        };
        let request = ModelMetadataRequest { name: model.to_owned(), ..Default::default() };
        let ModelMetadataResponse { inputs, outputs, versions, .. } = self
            .call(conduit, request, |mut service, request| async move { service.model_metadata(request).await })
            .await?;
        let specs = |tensors: Vec<TensorMetadata>| {
            tensors
                .into_iter()
                .map(|TensorMetadata { name, datatype, shape }| TensorSpec { name, datatype, shape })
                .collect()
        };
        Ok(Declared { inputs: specs(inputs), outputs: specs(outputs), versions })
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
        let response = self
            .call(conduit, request, |mut service, request| async move { service.model_config(request).await })
            .await?;
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
        self.call(conduit, request, |mut service, request| async move { service.repository_model_load(request).await })
            .await?;
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
        let statistics = self
            .call(conduit, request, |mut service, request| async move { service.model_statistics(request).await })
            .await?;
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
