//! What stands before a server that speaks HTTP, such as a proxy that does not let everybody in.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use tokio::{net::TcpListener, sync::oneshot};

use super::runs::runtime;

/// A request with its body.
pub type Asked = Request<Bytes>;
/// A status and a body, in place of the server's answer.
pub type Rejection = (u16, &'static str);

/// Carries requests on to a server, until it is dropped, but for those that it rejects.
pub struct HttpFront {
    pub address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl HttpFront {
    pub fn start(upstream: SocketAddr, rejects: impl Fn(&Asked) -> Option<Rejection> + Send + Sync + 'static) -> Self {
        let rejects = Arc::new(rejects);
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, address) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = runtime();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("a test that waits");
                let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
                let accept = async {
                    loop {
                        let (near, _) = listener.accept().await.expect("a connection");
                        near.set_nodelay(true).expect("it is set");
                        let (rejects, client) = (Arc::clone(&rejects), client.clone());
                        let service = service_fn(move |request: Request<Incoming>| {
                            let (rejects, client) = (Arc::clone(&rejects), client.clone());
                            async move {
                                let (head, body) = request.into_parts();
                                let body = body.collect().await.map(http_body_util::Collected::to_bytes);
                                // Who goes while it sends is answered nothing.
                                let mut asked = Request::from_parts(head, body.unwrap_or_default());
                                if let Some((status, body)) = rejects(&asked) {
                                    let response = Response::builder().status(status).body(Full::<Bytes>::from(body));
                                    return Ok::<_, Infallible>(response.expect("a response"));
                                }
                                let path = asked.uri().path_and_query().map_or("/", |path| path.as_str());
                                *asked.uri_mut() = format!("http://{upstream}{path}").parse().expect("an address");
                                let answer = client.request(asked.map(Full::from)).await.expect("the server answers");
                                let (head, body) = answer.into_parts();
                                let body = body.collect().await.expect("a whole answer").to_bytes();
                                Ok(Response::from_parts(head, Full::<Bytes>::from(body)))
                            }
                        });
                        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(near), service));
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        Self { address: address.recv().expect("it starts"), _stop: stop }
    }
}
