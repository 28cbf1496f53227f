//! Streams and calls to a server, each in a task of its own, and what comes back as lines of a transcript.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::{StreamExt as _, wrappers::UnboundedReceiverStream};
use tonic::{
    Request,
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;
use wire::{
    net::{Place, Socket},
    proto::{ModelInferRequest, RepositoryModelLoadRequest, grpc_inference_service_client::GrpcInferenceServiceClient},
};

use crate::{
    conversation::{By, Opening},
    endpoint::Addresses,
    http, transcript,
};

pub(crate) type Service = GrpcInferenceServiceClient<Channel>;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// What came back on a link.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) line: String,
    /// Nothing comes after it.
    pub(crate) is_end: bool,
}

/// A stream or calls that are under way. Dropping it cancels them.
#[derive(Debug)]
pub(crate) struct Connection {
    way: Way,
    pub(crate) received: UnboundedReceiver<Received>,
    tasks: Vec<JoinHandle<()>>,
    proxy: Option<JoinHandle<()>>,
}

/// What requests go out on.
#[derive(Debug)]
enum Way {
    Stream(UnboundedSender<ModelInferRequest>),
    /// Calls, whose answers are handed over in their order.
    Calls {
        answers: UnboundedSender<Received>,
        last: oneshot::Receiver<()>,
    },
    /// No more requests come.
    Closed,
}

/// A connection of its own, which is made when it is first used.
pub(crate) fn service(address: SocketAddr) -> Service {
    let connector = service_fn(move |_: Uri| async move {
        let socket = timeout(CONNECT_LIMIT, Socket::connect(&address.to_string())).await??;
        Ok::<_, io::Error>(TokioIo::new(socket))
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    Service::new(endpoint.connect_with_connector_lazy(connector))
}

impl Connection {
    /// Opens a stream.
    pub(crate) fn stream(address: SocketAddr, opening: Opening) -> Self {
        let (address, proxy) = match opening {
            Opening::Proxied => {
                let (address, proxy) = proxy(address);
                (address, Some(proxy))
            }
            Opening::Plain | Opening::GrpcError => (address, None),
        };
        let (requests, to_send) = unbounded_channel();
        let (sender, received) = unbounded_channel();
        let task = tokio::spawn(run_stream(service(address), opening, to_send, sender));
        Self { way: Way::Stream(requests), received, tasks: vec![task], proxy }
    }

    /// One on which calls are made.
    pub(crate) fn calls() -> Self {
        let (answers, received) = unbounded_channel();
        let (_, last) = oneshot::channel();
        Self { way: Way::Calls { answers, last }, received, tasks: Vec::new(), proxy: None }
    }

    /// Begins an inference.
    pub(crate) fn call(&mut self, addresses: Addresses, by: By, request: ModelInferRequest) {
        match by {
            By::Unary => self.begin(call_unary(addresses.grpc, request)),
            By::Http | By::HttpBinary => self.begin(http::infer(addresses.http, by, request)),
        }
    }

    fn begin(&mut self, answer: impl Future<Output = String> + Send + 'static) {
        let Way::Calls { answers, last } = &mut self.way else { panic!("a conversation calls on links of calls only") };
        let (done, next) = oneshot::channel();
        let before = std::mem::replace(last, next);
        let answers = answers.clone();
        self.tasks.push(tokio::spawn(async move {
            let line = answer.await;
            // That it is gone is as good as that it is done.
            let _ = before.await;
            let _ = answers.send(Received { line, is_end: false });
            let _ = done.send(());
        }));
    }

    /// Sends a request on a stream that is open on this side.
    pub(crate) fn send(&self, request: ModelInferRequest) {
        let Way::Stream(requests) = &self.way else { panic!("a conversation sends on open streams only") };
        // A stream that the server has ended takes no more; its end is in the transcript.
        let _ = requests.send(request);
    }

    pub(crate) fn half_close(&mut self) {
        self.way = Way::Closed;
    }

    /// Cancels the calls: the server is told at once.
    pub(crate) fn cancel(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    /// Cuts the connection without a word to the server.
    pub(crate) fn disconnect(&self) {
        self.proxy.as_ref().expect("only proxied streams are cut").abort();
        self.cancel();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.cancel();
        if let Some(proxy) = &self.proxy {
            proxy.abort();
        }
    }
}

async fn call_unary(address: SocketAddr, request: ModelInferRequest) -> String {
    match service(address).model_infer(request).await {
        Ok(response) => transcript::response(response.get_ref()),
        Err(status) => transcript::status(&status),
    }
}

async fn run_stream(
    mut service: Service,
    opening: Opening,
    to_send: UnboundedReceiver<ModelInferRequest>,
    sender: UnboundedSender<Received>,
) {
    let mut request = Request::new(UnboundedReceiverStream::new(to_send));
    if opening == Opening::GrpcError {
        request.metadata_mut().insert("triton_grpc_error", "true".parse().expect("ASCII"));
    }
    // The call is answered with the first response only, so nothing that is to be sent may wait for it.
    let mut responses = match service.model_stream_infer(request).await {
        Ok(response) => response.into_inner(),
        Err(status) => {
            let _ = sender.send(Received { line: transcript::status(&status), is_end: true });
            return;
        }
    };
    loop {
        let received = match responses.next().await {
            Some(Ok(response)) => Received { line: transcript::stream_response(&response), is_end: false },
            Some(Err(status)) => Received { line: transcript::status(&status), is_end: true },
            None => Received { line: "the end".into(), is_end: true },
        };
        let is_end = received.is_end;
        if sender.send(received).is_err() || is_end {
            return;
        }
    }
}

/// Hands one connection on, until it is aborted.
fn proxy(upstream: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    let (place, address) = Place::listen(([127, 0, 0, 1], 0).into()).expect("a port");
    let listener = place.into_listener().expect("a runtime");
    let task = tokio::spawn(async move {
        let Ok(mut near) = listener.accept().await else { return };
        let Ok(mut far) = Socket::connect(&upstream.to_string()).await else { return };
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    (address, task)
}

/// A request to load a model, with a configuration or without.
pub(crate) fn load_request(model: &str, config: Option<&str>) -> RepositoryModelLoadRequest {
    use wire::proto::{ModelRepositoryParameter, model_repository_parameter::ParameterChoice};
    let parameter = |config: &str| {
        let parameter_choice = Some(ParameterChoice::StringParam(config.into()));
        ("config".to_owned(), ModelRepositoryParameter { parameter_choice })
    };
    RepositoryModelLoadRequest {
        model_name: model.into(),
        parameters: config.map(parameter).into_iter().collect(),
        ..Default::default()
    }
}
