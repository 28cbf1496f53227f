//! The calls before and after a run, over HTTP.

use hyper::{Method, StatusCode, Uri};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    super::{call_error::CallError, client::Declared},
    Body, Connections, over_http, path_of_version, path_under,
};
use workload::{
    model::{Spent, Statistics},
    scenario::Compression,
};

#[derive(Deserialize)]
struct Server {
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
}

#[derive(Deserialize)]
struct Stats {
    model_stats: Vec<OfAVersion>,
}

#[derive(Deserialize)]
struct OfAVersion {
    name: String,
    #[serde(default)]
    inference_count: u64,
    #[serde(default)]
    execution_count: u64,
    #[serde(default)]
    inference_stats: OfRequests,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfRequests {
    success: Count,
    fail: Count,
    queue: Count,
    compute_input: Count,
    compute_infer: Count,
    compute_output: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Count {
    count: u64,
    ns: u64,
}

impl Connections {
    /// Whether the server, or a model, is live or ready.
    pub(in crate::transport) async fn is_well(&self, at: Uri) -> Result<bool, CallError> {
        let answered = self.exchange(Method::GET, at, Body::default()).await?;
        match answered.status {
            StatusCode::OK => Ok(true),
            StatusCode::BAD_REQUEST | StatusCode::SERVICE_UNAVAILABLE => Ok(false),
            StatusCode::NOT_FOUND if answered.error().is_some() => Ok(false),
            _ => Err(answered.rejection()),
        }
    }

    /// Whether inferences can be asked for: one is that no server can make, as it has no input.
    pub(in crate::transport) async fn infers(&self, model: &str, version: &str) -> Result<(), CallError> {
        let ask = async |is_inference| {
            let body = Body { bytes: b"{}".to_vec(), is_inference, ..Body::default() };
            let answered = self.exchange(Method::POST, path_of_version(model, version, "/infer"), body).await?;
            match (answered.restricts(), answered.error()) {
                (false, Some(why)) => Ok((answered.status, why)),
                (false, None) if answered.status == StatusCode::OK => Ok((answered.status, String::new())),
                _ => Err(answered.rejection()),
            }
        };
        let plain = ask(false).await?;
        if self.access().terms.compression == Compression::None {
            return Ok(());
        }
        // Who can read it answers the same.
        let (status, why) = ask(true).await?;
        if plain == (status, why.clone()) {
            return Ok(());
        }
        Err(CallError::Rejected(format!("{why} ({status}), of a body that is compressed (--compression none)")))
    }

    pub(in crate::transport) async fn model_is_ready(&self, model: &str, version: &str) -> Result<bool, CallError> {
        self.is_well(path_of_version(model, version, "/ready")).await
    }

    pub(in crate::transport) async fn server_name(&self) -> Result<(String, String), CallError> {
        let Server { name, version } = self.get(Uri::from_static("/v2")).await?;
        Ok((name, version))
    }

    pub(in crate::transport) async fn models(&self) -> Result<Vec<String>, CallError> {
        let body = self.bytes(Method::POST, Uri::from_static("/v2/repository/index"), Vec::new()).await?;
        let models: Vec<Listed> = read(&body)?;
        Ok(models.into_iter().map(|model| model.name).collect())
    }

    pub(in crate::transport) async fn unload(&self, model: &str) -> Result<(), CallError> {
        self.bytes(Method::POST, repository_path(model, "unload"), Vec::new()).await.map(drop)
    }

    pub(in crate::transport) async fn load(&self, model: &str, config: Option<&str>) -> Result<(), CallError> {
        let body = config.map(|config| json!({ "parameters": { "config": config } }).to_string().into_bytes());
        self.bytes(Method::POST, repository_path(model, "load"), body.unwrap_or_default()).await.map(drop)
    }

    pub(in crate::transport) async fn declared(&self, model: &str, version: &str) -> Result<Declared, CallError> {
        self.get(path_of_version(model, version, "")).await
    }

    /// The model's configuration as JSON.
    pub(in crate::transport) async fn configuration(&self, model: &str, version: &str) -> Result<Vec<u8>, CallError> {
        self.bytes(Method::GET, path_of_version(model, version, "/config"), Vec::new()).await
    }

    pub(in crate::transport) async fn statistics(&self, model: &str, version: &str) -> Result<Statistics, CallError> {
        let Stats { model_stats } = self.get(path_of_version(model, version, "/stats")).await?;
        let Statistics { mut counted, mut spent } = Statistics::default();
        for version in model_stats.iter().filter(|version| version.name == model) {
            let requests = &version.inference_stats;
            counted.success += requests.success.count;
            counted.fail += requests.fail.count;
            counted.inference += version.inference_count;
            counted.execution += version.execution_count;
            spent += Spent {
                request_ns: requests.success.ns,
                queue_ns: requests.queue.ns,
                compute_input_ns: requests.compute_input.ns,
                compute_infer_ns: requests.compute_infer.ns,
                compute_output_ns: requests.compute_output.ns,
            };
        }
        Ok(Statistics { counted, spent })
    }

    async fn get<T: DeserializeOwned>(&self, at: Uri) -> Result<T, CallError> {
        read(&self.bytes(Method::GET, at, Vec::new()).await?)
    }

    async fn bytes(&self, method: Method, at: Uri, body: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let answered = self.exchange(method, at, Body { bytes: body, ..Body::default() }).await?;
        if answered.status == StatusCode::OK { Ok(answered.body.into()) } else { Err(answered.rejection()) }
    }
}

fn repository_path(model: &str, what: &str) -> Uri {
    path_under("/v2/repository/models", model, &format!("/{what}"))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(body)
        .map_err(|error| CallError::NotThisProtocol(over_http(&format!("its JSON is not as it should be: {error}"))))
}
