//! Requests over HTTP/1.1, with hyper's client and serde's JSON.

use std::{error::Error, time::Duration};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    StatusCode,
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use workload::{endpoint::Endpoint, inputs::InputTensor};

use super::{Counts, Job, Request, first, tls::Tls};

const HEADER_LENGTH: &str = "inference-header-content-length";

/// One connection.
pub(super) struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    is_binary: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    id: String,
    parameters: Sequence,
    inputs: Vec<Input<'a>>,
    outputs: Vec<Output<'a>>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the protocol's names")]
struct Sequence {
    sequence_id: u64,
    sequence_start: bool,
    sequence_end: bool,
}

#[derive(Serialize)]
struct Input<'a> {
    name: &'a str,
    datatype: &'a str,
    shape: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<InputParameters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<[i64; 1]>,
}

#[derive(Serialize)]
struct InputParameters {
    binary_data_size: usize,
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    parameters: OutputParameters,
}

#[derive(Serialize)]
struct OutputParameters {
    binary_data: bool,
}

#[derive(Deserialize)]
struct Answer {
    outputs: Vec<Answered>,
}

#[derive(Deserialize)]
struct Answered {
    data: Option<Vec<i64>>,
}

impl Client {
    pub(super) async fn connect(
        endpoint: &Endpoint,
        tls: Option<&Tls>,
        is_binary: bool,
        limit: Duration,
    ) -> Result<Self, String> {
        let sender = tokio::time::timeout(limit, connect(endpoint, tls)).await;
        let sender = sender.map_err(|error| format!("{endpoint}: {error}"))?;
        let sender = sender.map_err(|error| format!("{endpoint}: {error}"))?;
        Ok(Self { sender, host: endpoint.address(), is_binary })
    }

    /// Sends requests one by one.
    pub(super) async fn call(&mut self, job: &Job, requests: Vec<Request>, counts: &mut Counts) -> Result<(), String> {
        for request in &requests {
            let number = self.infer(job, request).await.map_err(|error| format!("a call failed: {error}"))?;
            counts.answer(1, number);
        }
        Ok(())
    }

    async fn infer(&mut self, job: &Job, request: &Request) -> Result<i64, Box<dyn Error>> {
        let mut body = serde_json::to_vec(&self.body(job, request))?;
        let model = &job.scenario.target.model;
        let mut head = hyper::Request::post(format!("/v2/models/{model}/infer")).header(HOST, &self.host);
        if self.is_binary {
            head = head.header(CONTENT_TYPE, "application/octet-stream").header(HEADER_LENGTH, body.len());
            request.inputs.iter().for_each(|input| body.extend_from_slice(&input.data));
        } else {
            head = head.header(CONTENT_TYPE, "application/json");
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(head.body(Full::from(body))?).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        if head.status != StatusCode::OK {
            return Err(format!("{}: {}", head.status, String::from_utf8_lossy(&body)).into());
        }
        if !self.is_binary {
            let answer: Answer = serde_json::from_slice(&body)?;
            let number = answer.outputs.first().and_then(|output| output.data.as_ref()?.first().copied());
            return Ok(number.ok_or("an answer without a number came")?);
        }
        let json_bytes = head.headers.get(HEADER_LENGTH).ok_or("an answer without bytes came")?.to_str()?.parse()?;
        let (json, bytes) = body.split_at_checked(json_bytes).ok_or("an answer that is too short came")?;
        let _: Answer = serde_json::from_slice(json)?;
        Ok(first(bytes).ok_or("an answer without a number came")?)
    }

    fn body<'r>(&self, job: &'r Job, request: &'r Request) -> Body<'r> {
        let input = |InputTensor { name, datatype, shape, data }: &'r InputTensor| Input {
            name,
            datatype: datatype.name(),
            shape,
            parameters: self.is_binary.then_some(InputParameters { binary_data_size: data.len() }),
            data: if self.is_binary { None } else { first(data).map(|number| [number]) },
        };
        let output = |name: &'r String| Output { name, parameters: OutputParameters { binary_data: self.is_binary } };
        Body {
            id: request.id.to_string(),
            parameters: Sequence {
                sequence_id: request.sequence.0.get(),
                sequence_start: request.start,
                sequence_end: request.end,
            },
            inputs: request.inputs.iter().map(input).collect(),
            outputs: job.outputs.iter().map(output).collect(),
        }
    }
}

async fn connect(endpoint: &Endpoint, tls: Option<&Tls>) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error>> {
    if let Some(tls) = tls {
        return Ok(start(tls.connect(endpoint).await?).await?);
    }
    let stream = TcpStream::connect(endpoint.address()).await?;
    stream.set_nodelay(true)?;
    Ok(start(stream).await?)
}

/// Speaks HTTP/1.1 over a connection.
async fn start(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<Full<Bytes>>, hyper::Error> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // A call that is under way tells what becomes of the connection.
    tokio::spawn(connection);
    Ok(sender)
}
