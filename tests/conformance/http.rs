//! Inference over HTTP: a gRPC client's request as JSON, with the tensors' bytes in it or behind it, and the answer as a line.

use std::{fmt::Write as _, net::SocketAddr};

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use prost::bytes::Bytes;
use serde_json::{Map, Value, json};
use wire::{
    net::Socket,
    proto::{ModelInferRequest, infer_parameter::ParameterChoice},
};

use crate::{conversation::By, transcript};

/// Where the JSON ends, if bytes follow it.
const JSON_LENGTH: &str = "inference-header-content-length";

type Object = Map<String, Value>;

/// An inference on a connection of its own; its answer in a line.
pub(crate) async fn infer(address: SocketAddr, by: By, request: ModelInferRequest) -> String {
    match try_infer(address, by, &request).await {
        Ok(line) => line,
        Err(error) => format!("no answer: {error}"),
    }
}

async fn try_infer(
    address: SocketAddr,
    by: By,
    request: &ModelInferRequest,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let stream = Socket::connect(&address.to_string()).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender.
    tokio::spawn(connection);
    let version = &request.model_version;
    let version = if version.is_empty() { String::new() } else { format!("/versions/{version}") };
    let path = format!("/v2/models/{}{version}/infer", request.model_name);
    let (json, bytes) = body(request, by == By::HttpBinary);
    let json = Value::Object(json).to_string();
    let mut asked = Request::post(path).header("host", address.to_string());
    if !bytes.is_empty() {
        asked = asked.header(JSON_LENGTH, json.len());
    }
    let asked = asked.body(Full::new(Bytes::from([json.into_bytes(), bytes].concat())))?;
    let (head, body) = sender.send_request(asked).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    let length = head.headers.get(JSON_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let (json, bytes) =
        body.split_at_checked(length.unwrap_or(body.len())).ok_or("the JSON is longer than the body")?;
    Ok(match (head.status.as_u16(), serde_json::from_slice(json)) {
        (200, Ok(Value::Object(json))) => response(json, bytes),
        (status, Ok(Value::Object(json))) if json.len() == 1 && json.contains_key("error") => {
            format!("{status} '{}'", json["error"].as_str().unwrap_or("an error that is no text"))
        }
        (status, _) => format!("{status} with the body '{}'", String::from_utf8_lossy(&body)),
    })
}

/// A request as JSON, and the bytes behind it.
fn body(request: &ModelInferRequest, is_binary: bool) -> (Object, Vec<u8>) {
    let mut raw = request.raw_input_contents.iter();
    let mut behind = Vec::new();
    let mut inputs = Vec::new();
    for input in &request.inputs {
        let mut json = Object::new();
        json.insert("name".into(), input.name.as_str().into());
        json.insert("datatype".into(), input.datatype.as_str().into());
        json.insert("shape".into(), input.shape.as_slice().into());
        if let Some(contents) = &input.contents {
            json.insert("data".into(), contents.int_contents.as_slice().into());
        } else if let Some(bytes) = raw.next() {
            let elements = transcript::elements(&input.datatype, bytes).filter(|_| !is_binary);
            if elements.is_none() {
                behind.extend_from_slice(bytes);
            }
            let (name, value) = match elements {
                Some(elements) => ("data", elements.into()),
                None => ("parameters", json!({ "binary_data_size": bytes.len() })),
            };
            json.insert(name.into(), value);
        }
        inputs.push(Value::Object(json));
    }
    let mut parameters: Object = request
        .parameters
        .iter()
        .filter_map(|(name, of)| Some((name.clone(), value(of.parameter_choice.as_ref()?))))
        .collect();
    let of_output = if is_binary { json!({ "binary_data": true }) } else { json!({}) };
    let output = |name: &str| json!({ "name": name, "parameters": of_output });
    let outputs: Vec<_> = request.outputs.iter().map(|output_| output(&output_.name)).collect();
    if is_binary && outputs.is_empty() {
        parameters.insert("binary_data_output".into(), true.into());
    }
    let mut json = Object::new();
    for (name, value, is_there) in [
        ("id", Value::from(request.id.as_str()), !request.id.is_empty()),
        ("inputs", inputs.into(), true),
        ("outputs", outputs.into(), !request.outputs.is_empty()),
        ("parameters", parameters.into(), true),
    ] {
        if is_there {
            json.insert(name.into(), value);
        }
    }
    (json, behind)
}

fn value(of: &ParameterChoice) -> Value {
    match of {
        ParameterChoice::BoolParam(value) => (*value).into(),
        ParameterChoice::Int64Param(value) => (*value).into(),
        ParameterChoice::StringParam(value) => value.as_str().into(),
        ParameterChoice::DoubleParam(value) => (*value).into(),
        ParameterChoice::Uint64Param(value) => (*value).into(),
    }
}

/// A response's line, as gRPC's is; what no response has to have is told by its name.
fn response(mut json: Object, mut bytes: &[u8]) -> String {
    let mut text = |name: &str| json.remove(name).map_or_else(String::new, |value| plain(&value));
    let (id, model, version) = (text("id"), text("model_name"), text("model_version"));
    let outputs = json.remove("outputs");
    let outputs: Vec<_> =
        outputs.as_ref().and_then(Value::as_array).into_iter().flatten().map(|its| output(its, &mut bytes)).collect();
    let mut line = format!("{id}: {} of {model} {version}", outputs.join(", "));
    let mut rest: Vec<_> = json.iter().map(|(name, value)| format!(" {name} {value}")).collect();
    rest.sort();
    let _ = write!(line, "{}", rest.concat());
    if !bytes.is_empty() {
        let _ = write!(line, " and {} bytes more", bytes.len());
    }
    line
}

fn output(of: &Value, bytes: &mut &[u8]) -> String {
    let datatype = of["datatype"].as_str().unwrap_or_default();
    let contents = match (&of["data"], of["parameters"]["binary_data_size"].as_u64()) {
        (Value::Array(data), _) => data.iter().map(plain).collect::<Vec<_>>().join(" "),
        (_, Some(size)) => {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let Some((its, rest)) = bytes.split_at_checked(size) else { return format!("{of} of which bytes lack") };
            *bytes = rest;
            format!("binary {}", transcript::contents(datatype, its))
        }
        _ => "nothing".into(),
    };
    let shape: Vec<i64> = of["shape"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    format!("{} {datatype}{shape:?} {contents}", plain(&of["name"]))
}

/// A value without the quotes that a text has.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}
