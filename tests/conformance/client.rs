//! Streams and calls to a server, each in a task of its own, and what comes back as lines of a transcript.

use std::{net::SocketAddr, time::Duration};

use sequence_stress::proto::{
    ModelInferRequest, RepositoryModelLoadRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};
use tokio_stream::{StreamExt as _, wrappers::UnboundedReceiverStream};
use tonic::{
    Request,
    transport::{Channel, Endpoint},
};

use crate::{conversation::Opening, transcript};

pub(crate) type Service = GrpcInferenceServiceClient<Channel>;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// What came back on a link.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) line: String,
    /// Nothing comes after it.
    pub(crate) is_end: bool,
}

/// A stream or a call that is under way. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct Connection {
    requests: Option<UnboundedSender<ModelInferRequest>>,
    pub(crate) received: UnboundedReceiver<Received>,
    task: JoinHandle<()>,
    proxy: Option<JoinHandle<()>>,
}

/// A connection of its own, which is made when it is first used.
pub(crate) fn service(address: SocketAddr) -> Service {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    Service::new(endpoint.connect_timeout(CONNECT_LIMIT).tcp_nodelay(true).connect_lazy())
}

impl Connection {
    /// Opens a stream.
    pub(crate) async fn stream(address: SocketAddr, opening: Opening) -> Self {
        let (address, proxy) = match opening {
            Opening::Proxied => {
                let (address, proxy) = proxy(address).await;
                (address, Some(proxy))
            }
            Opening::Plain | Opening::GrpcError => (address, None),
        };
        let (requests, to_send) = unbounded_channel();
        let (sender, received) = unbounded_channel();
        let task = tokio::spawn(run_stream(service(address), opening, to_send, sender));
        Self { requests: Some(requests), received, task, proxy }
    }

    /// Begins a unary inference.
    pub(crate) fn call(address: SocketAddr, request: ModelInferRequest) -> Self {
        let (sender, received) = unbounded_channel();
        let task = tokio::spawn(async move {
            let line = match service(address).model_infer(request).await {
                Ok(response) => transcript::response(response.get_ref()),
                Err(status) => transcript::status(&status),
            };
            let _ = sender.send(Received { line, is_end: true });
        });
        Self { requests: None, received, task, proxy: None }
    }

    /// Sends a request on a stream that is open on this side.
    pub(crate) fn send(&self, request: ModelInferRequest) {
        let requests = self.requests.as_ref().expect("a conversation sends on open streams only");
        // A stream that the server has ended takes no more; its end is in the transcript.
        let _ = requests.send(request);
    }

    pub(crate) fn half_close(&mut self) {
        self.requests = None;
    }

    /// Cancels the call: the server is told at once.
    pub(crate) fn cancel(&self) {
        self.task.abort();
    }

    /// Cuts the connection without a word to the server.
    pub(crate) fn disconnect(&self) {
        self.proxy.as_ref().expect("only proxied streams are cut").abort();
        self.task.abort();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(proxy) = &self.proxy {
            proxy.abort();
        }
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
async fn proxy(upstream: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let task = tokio::spawn(async move {
        let Ok((mut near, _)) = listener.accept().await else { return };
        let Ok(mut far) = TcpStream::connect(upstream).await else { return };
        let _ = far.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    (address, task)
}

/// A request to load a model, with a configuration or without.
pub(crate) fn load_request(model: &str, config: Option<&str>) -> RepositoryModelLoadRequest {
    use sequence_stress::proto::{ModelRepositoryParameter, model_repository_parameter::ParameterChoice};
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
