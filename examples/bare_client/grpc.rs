//! Requests over gRPC, through the generated client.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status,
    transport::{Channel, Endpoint as TonicEndpoint, Uri},
};
use tower::service_fn;
use wire::proto::{
    InferParameter, ModelInferRequest, ModelInferResponse,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use workload::{endpoint::Endpoint, inputs::InputTensor};

use super::{Counts, Job, Request, first, tls::Tls};

pub(super) type Service = GrpcInferenceServiceClient<Channel>;

pub(super) fn connect(endpoint: &Endpoint, tls: Option<&Tls>, limit: Duration) -> Result<Service, String> {
    let tonic = TonicEndpoint::from_shared(endpoint.uri()).map_err(|error| format!("{endpoint}: {error}"))?;
    let tonic = tonic.connect_timeout(limit).tcp_nodelay(true);
    let Some(tls) = tls else { return Ok(Service::new(tonic.connect_lazy())) };
    let (tls, endpoint) = (tls.clone(), endpoint.clone());
    let connector = service_fn(move |_: Uri| {
        let (tls, endpoint) = (tls.clone(), endpoint.clone());
        async move { tls.connect(&endpoint).await.map(TokioIo::new) }
    });
    Ok(Service::new(tonic.connect_with_connector_lazy(connector)))
}

/// Sends requests one by one, each as a call of its own.
pub(super) async fn call(
    service: &mut Service,
    job: &Job,
    requests: Vec<Request>,
    counts: &mut Counts,
) -> Result<(), Status> {
    for request in requests {
        let response = service.model_infer(message(job, request)).await?.into_inner();
        counts.answer(1, number(&response)?);
    }
    Ok(())
}

/// Sends requests on a stream of their own, and reads what comes until the stream ends.
pub(super) async fn stream(
    service: &mut Service,
    job: &Job,
    requests: Vec<Request>,
    counts: &mut Counts,
) -> Result<(), Status> {
    let mut missing = requests.len();
    let (outgoing, queue) = mpsc::channel(missing);
    // A server may send no headers before its first response, so the requests are there before the call.
    for request in requests {
        outgoing.try_send(message(job, request)).expect("the queue has room for all");
    }
    let mut outgoing = Some(outgoing);
    let mut incoming = service.model_stream_infer(ReceiverStream::new(queue)).await?.into_inner();
    while let Some(answer) = incoming.message().await? {
        if !answer.error_message.is_empty() {
            return Err(Status::unknown(answer.error_message));
        }
        counts.answer(1, number(&answer.infer_response.unwrap_or_default())?);
        missing = missing.saturating_sub(1);
        if missing == 0 {
            outgoing = None;
        }
    }
    drop(outgoing);
    Ok(())
}

fn message(job: &Job, request: Request) -> ModelInferRequest {
    let output = |name: &String| InferRequestedOutputTensor { name: name.clone(), ..Default::default() };
    let mut raw_input_contents = Vec::with_capacity(request.inputs.len());
    let input = |InputTensor { name, datatype, shape, data }: InputTensor| {
        raw_input_contents.push(data);
        InferInputTensor { name, datatype: datatype.name().to_owned(), shape, ..Default::default() }
    };
    ModelInferRequest {
        model_name: job.scenario.target.model.clone(),
        id: request.id.to_string(),
        parameters: [
            parameter("sequence_id", ParameterChoice::Int64Param(request.sequence.0.get().cast_signed())),
            parameter("sequence_start", ParameterChoice::BoolParam(request.start)),
            parameter("sequence_end", ParameterChoice::BoolParam(request.end)),
        ]
        .into(),
        inputs: request.inputs.into_iter().map(input).collect(),
        outputs: job.outputs.iter().map(output).collect(),
        raw_input_contents,
        ..Default::default()
    }
}

fn parameter(name: &str, choice: ParameterChoice) -> (String, InferParameter) {
    (name.to_owned(), InferParameter { parameter_choice: Some(choice) })
}

/// The first number that an answer brings.
fn number(response: &ModelInferResponse) -> Result<i64, Status> {
    let number = response.raw_output_contents.first().and_then(|bytes| first(bytes));
    number.ok_or_else(|| Status::data_loss("an answer without a number came"))
}
