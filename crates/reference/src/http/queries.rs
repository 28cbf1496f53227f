//! What is asked besides inference: turned into the gRPC call that asks the same, and its answer into JSON.

use std::{collections::HashMap, sync::LazyLock};

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde::Serialize;
use tonic::Request;

use super::{json::Json, rejection::Rejection, route::Model};
use crate::grpc::Service;
use wire::proto::{
    self, ModelConfigRequest, ModelMetadataRequest, ModelReadyRequest, ModelRepositoryParameter,
    ModelStatisticsRequest, RepositoryIndexRequest, RepositoryModelLoadRequest, RepositoryModelUnloadRequest,
    ServerMetadataRequest, grpc_inference_service_server::GrpcInferenceService as _,
    model_repository_parameter::ParameterChoice,
};

type Answer = Result<Vec<u8>, Rejection>;

#[derive(Serialize)]
struct Indexed {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

/// A message of the protocol in protobuf's mapping, with the fields' own names and all numbers as numbers.
fn message(name: &str, of: &impl Message) -> Answer {
    static POOL: LazyLock<DescriptorPool> =
        LazyLock::new(|| DescriptorPool::decode(proto::DESCRIPTORS).expect("the build made them"));
    let descriptor = POOL.get_message_by_name(&format!("inference.{name}")).expect("proto/ has it");
    let mut dynamic = DynamicMessage::new(descriptor);
    let cannot = |error: String| Rejection::internal(format!("cannot write {name}: {error}"));
    dynamic.transcode_from(of).map_err(|error| cannot(error.to_string()))?;
    let options =
        SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false).skip_default_fields(false);
    let mut out = Vec::new();
    let mut writer = serde_json::Serializer::new(&mut out);
    dynamic.serialize_with_options(&mut writer, &options).map_err(|error| cannot(error.to_string()))?;
    Ok(out)
}

pub(super) async fn server_metadata(service: &Service) -> Answer {
    let told = service.server_metadata(Request::new(ServerMetadataRequest {})).await?;
    message("ServerMetadataResponse", told.get_ref())
}

pub(super) async fn model_ready(service: &Service, Model { name, version }: Model) -> Answer {
    let told = service.model_ready(Request::new(ModelReadyRequest { name, version })).await;
    let is_ready = told.is_ok_and(|told| told.get_ref().ready);
    let not_ready = || Rejection::bad_request("Model version not ready").said_as_text();
    is_ready.then(Vec::new).ok_or_else(not_ready)
}

pub(super) async fn model_metadata(service: &Service, Model { name, version }: Model) -> Answer {
    let told = service.model_metadata(Request::new(ModelMetadataRequest { name, version })).await?;
    message("ModelMetadataResponse", told.get_ref())
}

pub(super) async fn model_config(service: &Service, Model { name, version }: Model) -> Answer {
    let told = service.model_config(Request::new(ModelConfigRequest { name, version })).await?.into_inner();
    message("ModelConfig", &told.config.unwrap_or_default())
}

pub(super) async fn statistics(service: &Service, Model { name, version }: Model) -> Answer {
    let told = service.model_statistics(Request::new(ModelStatisticsRequest { name, version })).await?;
    message("ModelStatisticsResponse", told.get_ref())
}

/// A body of JSON; none where there is nothing in it.
fn read(body: &[u8]) -> Result<Option<Json>, Rejection> {
    if body.is_empty() {
        return Ok(None);
    }
    let read = Json::read(body).map(Some);
    read.map_err(|problem| Rejection::internal(format!("failed to parse the request JSON buffer: {problem}")))
}

pub(super) async fn index(service: &Service, body: &[u8]) -> Answer {
    let ready = match read(body)?.as_ref().and_then(|json| json.get("ready")) {
        Some(ready) => ready.as_bool().map_err(Rejection::internal)?,
        None => false,
    };
    let request = RepositoryIndexRequest { ready, ..RepositoryIndexRequest::default() };
    let told = service.repository_index(Request::new(request)).await?.into_inner();
    let of = |model: proto::repository_index_response::ModelIndex| {
        // A model that never was loaded is told by its name alone.
        let version = if model.state.is_empty() { String::new() } else { model.version };
        Indexed { name: model.name, version, state: model.state, reason: model.reason }
    };
    let models: Vec<_> = told.models.into_iter().map(of).collect();
    Ok(serde_json::to_vec(&models).expect("names can be written"))
}

pub(super) async fn load(service: &Service, model_name: String, body: &[u8]) -> Answer {
    let mut parameters = HashMap::new();
    if let Some(given) = read(body)?.as_ref().and_then(|json| json.get("parameters")) {
        for (name, value) in given.as_members().map_err(Rejection::internal)? {
            let text = value.as_text().map_err(Rejection::internal)?;
            if name != "config" && !name.starts_with("file:") {
                return Err(Rejection::internal("unexpected error on creating Triton parameter"));
            }
            let parameter_choice = Some(ParameterChoice::StringParam(text));
            parameters.insert(name.clone(), ModelRepositoryParameter { parameter_choice });
        }
        if !parameters.is_empty() && !parameters.contains_key("config") {
            let text = format!("failed to load '{model_name}', failed to poll from model repository");
            return Err(Rejection::internal(text));
        }
    }
    let request = RepositoryModelLoadRequest { model_name, parameters, ..RepositoryModelLoadRequest::default() };
    service.repository_model_load(Request::new(request)).await?;
    Ok(Vec::new())
}

pub(super) async fn unload(service: &Service, model_name: String) -> Answer {
    let request = RepositoryModelUnloadRequest { model_name, ..RepositoryModelUnloadRequest::default() };
    service.repository_model_unload(Request::new(request)).await?;
    Ok(Vec::new())
}
