//! Calls that are no inference, and their outcomes in words.

use std::time::Duration;

use tonic::{Response, Status};
use wire::proto::{
    ModelConfig, ModelConfigRequest, ModelInstanceGroup, ModelMetadataRequest, ModelMetadataResponse,
    ModelReadyRequest, ModelSequenceBatching, ModelStatisticsRequest, RepositoryIndexRequest,
    RepositoryModelUnloadRequest, ServerLiveRequest, ServerMetadataRequest, ServerReadyRequest,
    model_config::SchedulingChoice, model_metadata_response::TensorMetadata, model_sequence_batching::ControlInput,
    repository_index_response::ModelIndex,
};

use crate::{
    client::{Service, load_request},
    conversation::Query,
    setup::{Loading, Setup},
    transcript,
};

const CALL_LIMIT: Duration = Duration::from_secs(30);

/// Makes a call and tells its outcome; `loading` is for a model that is to be loaded.
pub(crate) async fn outcome(service: &mut Service, query: &Query, loading: &Loading) -> String {
    let told = tokio::time::timeout(CALL_LIMIT, tell(service, query, loading)).await;
    match told {
        Ok(Ok(words)) => words,
        Ok(Err(status)) => transcript::status(&status),
        Err(_) => "no answer in time".into(),
    }
}

async fn tell(service: &mut Service, query: &Query, loading: &Loading) -> Result<String, Status> {
    Ok(match query {
        Query::Live => service.server_live(ServerLiveRequest {}).await?.get_ref().live.to_string(),
        Query::Ready => service.server_ready(ServerReadyRequest {}).await?.get_ref().ready.to_string(),
        Query::ModelReady { model, version } => {
            let request = ModelReadyRequest { name: (*model).into(), version: (*version).into() };
            service.model_ready(request).await?.get_ref().ready.to_string()
        }
        Query::ServerMetadata => {
            let metadata = service.server_metadata(ServerMetadataRequest {}).await?.into_inner();
            let has = |extension: &str| metadata.extensions.iter().any(|has| has == extension);
            format!("has sequence: {}, has statistics: {}", has("sequence"), has("statistics"))
        }
        Query::ModelMetadata { model, version } => {
            let request = ModelMetadataRequest { name: (*model).into(), version: (*version).into() };
            metadata(service.model_metadata(request).await?.get_ref())
        }
        Query::ModelConfig { model } => {
            let request = ModelConfigRequest { name: (*model).into(), version: String::new() };
            service.model_config(request).await?.get_ref().config.as_ref().map_or_else(|| "nothing".into(), config)
        }
        Query::Index { ready } => {
            let entries = index(service, *ready).await?;
            let told: Vec<_> = entries.iter().filter(|entry| !entry.state.is_empty()).map(index_entry).collect();
            if told.is_empty() { "nothing".into() } else { told.join("; ") }
        }
        Query::StatisticsOf { model } => {
            let request = ModelStatisticsRequest { name: (*model).into(), version: String::new() };
            let of = service.model_statistics(request).await?.into_inner().model_stats;
            of.iter().map(|of| transcript::statistics(of, true)).collect::<Vec<_>>().join("; ")
        }
        Query::LoadUnchanged { model } => done(service.repository_model_load(load_request(model, None)).await)?,
        Query::LoadConfig { model, config } => {
            done(service.repository_model_load(load_request(model, Some(config))).await)?
        }
        Query::Load(setup) => {
            done(service.repository_model_load(load_request(setup.model, Some(&setup.json(loading)))).await)?
        }
        Query::Unload { model } => {
            let request = RepositoryModelUnloadRequest { model_name: (*model).into(), ..Default::default() };
            done(service.repository_model_unload(request).await)?
        }
    })
}

fn done<T>(outcome: Result<Response<T>, Status>) -> Result<String, Status> {
    outcome.map(|_| "done".into())
}

/// The repository's models, by name and version.
pub(crate) async fn index(service: &mut Service, ready: bool) -> Result<Vec<ModelIndex>, Status> {
    let request = RepositoryIndexRequest { repository_name: String::new(), ready };
    let mut models = service.repository_index(request).await?.into_inner().models;
    models.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(models)
}

fn index_entry(entry: &ModelIndex) -> String {
    let ModelIndex { name, version, state, reason } = entry;
    format!("{name} version '{version}' state '{state}' reason '{reason}'")
}

/// A model's metadata without its platform, which is the backend's affair.
fn metadata(of: &ModelMetadataResponse) -> String {
    let tensors = |of: &[TensorMetadata]| {
        let tensor = |of: &TensorMetadata| format!("{} {}{:?}", of.name, of.datatype, of.shape);
        of.iter().map(tensor).collect::<Vec<_>>().join(", ")
    };
    format!("{} {:?} takes {} gives {}", of.name, of.versions, tensors(&of.inputs), tensors(&of.outputs))
}

/// A model's configuration without its backend and platform.
fn config(of: &ModelConfig) -> String {
    let inputs: Vec<_> = of.input.iter().map(|of| format!("{} {:?}{:?}", of.name, of.data_type(), of.dims)).collect();
    let outputs: Vec<_> = of.output.iter().map(|of| format!("{} {:?}{:?}", of.name, of.data_type(), of.dims)).collect();
    let group = |of: &ModelInstanceGroup| format!("{} {} of {:?}", of.count, of.name, of.kind());
    let groups: Vec<_> = of.instance_group.iter().map(group).collect();
    // The note differs from one time to the next.
    let told = of.parameters.iter().filter(|(key, _)| *key != Setup::NOTE);
    let mut parameters: Vec<_> = told.map(|(key, value)| format!("{key}={}", value.string_value)).collect();
    parameters.sort();
    let batching = of.scheduling_choice.as_ref().and_then(|choice| match choice {
        SchedulingChoice::SequenceBatching(batching) => Some(batching),
        _ => None,
    });
    [
        format!("{} batch {}", of.name, of.max_batch_size),
        format!("takes {}", inputs.join(", ")),
        format!("gives {}", outputs.join(", ")),
        format!("instances {}", groups.join(", ")),
        format!("parameters {}", parameters.join(" ")),
        batching.map_or_else(|| "no sequences".into(), sequence_batching),
    ]
    .join("; ")
}

fn sequence_batching(of: &ModelSequenceBatching) -> String {
    let control = |of: &ControlInput| {
        let kinds =
            of.control.iter().map(|of| format!("{:?} {:?} {:?}", of.kind(), of.int32_false_true, of.data_type()));
        format!("{} {}", of.name, kinds.collect::<Vec<_>>().join(" and "))
    };
    let controls: Vec<_> = of.control_input.iter().map(control).collect();
    let strategy = of.strategy_choice.as_ref().map_or_else(|| "no strategy".into(), |strategy| format!("{strategy:?}"));
    format!("idle limit {} µs; controls {}; {strategy}", of.max_sequence_idle_microseconds, controls.join(", "))
}
