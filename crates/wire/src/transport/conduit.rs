//! Calls and streams over gRPC.

use std::{convert::identity, error::Error, io, sync::Arc, time::Duration};

use hyper::header::{HeaderName, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio_util::io::InspectReader;
use tonic::{
    Response, Status,
    body::Body,
    client::{Grpc, GrpcService},
    codec::Codec,
    codegen::http::uri::PathAndQuery,
    metadata::MetadataMap,
    transport::{Channel, Endpoint as TonicEndpoint, Uri},
};
use tower::service_fn;

use super::{
    access::Access,
    call_error::{describe, is_from_the_server},
    codec::StepCodec,
    dial::Dial,
    goaway::{Began, RETRIES_MAX, Watch, is_unprocessed},
    stream::{Message, Told},
    template::RequestTemplate,
};
use workload::{
    event::{Code, Received, ServerName},
    header::ENDS_WITH_ERRORS,
    sequence::Step,
};

/// A connection, made when it is first used, with what every call over it carries.
#[derive(Clone, Debug)]
pub(super) struct Conduit {
    channel: Channel,
    /// The header with the correlation ID of the sequences that go over it, where the run sends one.
    sequence: Option<(HeaderName, HeaderValue)>,
    /// How long each call or stream may take, as the server is told it.
    within: Option<Duration>,
    /// Whether an error of a request ends the stream that it is on, as the stream's status.
    pub(super) ends_with_errors: bool,
    /// How it is made.
    pub(super) dial: Arc<Dial>,
}

/// How a call went that was answered, or failed.
#[derive(Clone, Debug)]
pub(super) struct Went {
    /// Over which connection.
    pub(super) began: Began,
    /// Who answered it, where a header says that.
    pub(super) by: Option<ServerName>,
}

impl Conduit {
    pub(super) fn new(tonic: &TonicEndpoint, dial: Dial) -> Self {
        let dial = Arc::new(dial);
        let dials = Arc::clone(&dial);
        let connector = service_fn(move |_: Uri| {
            let dial = Arc::clone(&dials);
            async move {
                let stream = dial.connect().await?;
                let mut watch = Watch::new(dial.told.connection(), dial.dialer.access.clone());
                Ok::<_, io::Error>(TokioIo::new(InspectReader::new(stream, move |bytes: &[u8]| watch.came(bytes))))
            }
        });
        let channel = tonic.connect_with_connector_lazy(connector);
        Self { channel, sequence: None, within: None, ends_with_errors: false, dial }
    }

    /// The same for the sequences of one context.
    pub(super) fn of_sequences(&self, template: &RequestTemplate) -> Self {
        Self { sequence: self.access().sequence_header(template), ..self.clone() }
    }

    /// The same with a deadline for each call and stream.
    pub(super) fn within(self, within: Option<Duration>) -> Self {
        Self { within, ..self }
    }

    /// The same for streams that end with a request's error.
    pub(super) fn ending_with_errors(self) -> Self {
        Self { ends_with_errors: true, ..self }
    }

    pub(super) fn access(&self) -> &Access {
        &self.dial.dialer.access
    }

    /// A call's message with what every call carries.
    pub(super) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let mut headers = self.access().terms.headers.clone();
        headers.extend(self.sequence.clone());
        if self.ends_with_errors {
            headers.insert(HeaderName::from_static(ENDS_WITH_ERRORS), HeaderValue::from_static("true"));
        }
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        if let Some(within) = self.within {
            request.set_timeout(within);
        }
        request
    }

    fn grpc<S>(&self, service: S) -> Grpc<S> {
        let mut grpc = Grpc::new(service);
        if let Some(encoding) = self.access().encoding() {
            grpc = grpc.send_compressed(encoding).accept_compressed(encoding);
        }
        if let Some(max) = self.access().terms.message_bytes_max {
            grpc = grpc.max_decoding_message_size(max);
        }
        grpc
    }

    /// Sends a step in a call of its own, and brings what came of it.
    pub(super) async fn infer(self, template: RequestTemplate, step: Step) -> Told {
        match self.call("ModelInfer", step, StepCodec::of_calls(template)).await {
            (Ok(piece), went) => Told { by: went.by, message: Message::Received(piece.received) },
            (Err(status), went) => {
                let message = went.began.lapsed(&status).unwrap_or_else(|| rejection(&step, &status));
                Told { by: went.by, message }
            }
        }
    }

    /// A call's answer, and how it went.
    pub(super) async fn call<C>(&self, method: &str, message: C::Encode, codec: C) -> (Result<C::Decode, Status>, Went)
    where
        C: Codec<Encode: Clone + Send + Sync + 'static, Decode: Send + Sync + 'static> + Clone,
    {
        self.tried(identity, |mut grpc| {
            let (request, path, codec) = (self.request(message.clone()), path_of(method), codec.clone());
            async move { grpc.unary(request, path, codec).await }
        })
        .await
    }

    /// Makes a call, or opens a stream, and again on another connection where the server has certainly not processed it. It goes over what
    /// `over` makes of the channel.
    pub(super) async fn tried<S, T, F>(
        &self,
        over: impl Fn(Channel) -> S,
        call: impl Fn(Grpc<S>) -> F,
    ) -> (Result<T, Status>, Went)
    where
        S: GrpcService<Body, Error: Into<Box<dyn Error + Send + Sync>>>,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut tries = 0;
        loop {
            let (mut grpc, began) = (self.grpc(over(self.channel.clone())), Began::now(&self.dial));
            let answer = match grpc.ready().await {
                Ok(()) => call(grpc).await,
                Err(error) => Err(Status::from_error(error.into())),
            };
            match answer {
                Err(status) if tries < RETRIES_MAX && is_unprocessed(&status) => {
                    tries += 1;
                    self.access().count(|went| went.retried += 1);
                }
                answer => {
                    let metadata = answer.as_ref().map_or_else(Status::metadata, Response::metadata);
                    let by = self.access().server_of(metadata.as_ref());
                    return (answer.map(Response::into_inner), Went { began, by });
                }
            }
        }
    }
}

/// An error that a call ended with, which has the server's word or the library's.
fn rejection(step: &Step, status: &Status) -> Message {
    if !is_from_the_server(status) {
        return Message::Broken(describe(status));
    }
    let code = told_code(status);
    let result = Err(status.message().to_owned());
    Message::Received(Received { id: step.request.to_string(), result, code, outputs: 0 })
}

/// The code of a status, where the server told it.
pub(super) fn told_code(status: &Status) -> Option<Code> {
    let code = u16::try_from(i32::from(status.code())).ok().map(Code::Grpc);
    code.filter(|_| is_from_the_server(status))
}

/// Where a method of the protocol is called.
pub(super) fn path_of(method: &str) -> PathAndQuery {
    format!("/inference.GRPCInferenceService/{method}").parse().expect("a method's name can be in a path")
}
