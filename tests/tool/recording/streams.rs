//! Streams that are answered before they end, and streams that are cancelled.

use std::{convert::Infallible, error::Error as _, io, net::SocketAddr};

use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};

use super::{MODEL, Proxied, call, framed};
use crate::support::{request::step, runs::runtime};
use wire::recording::{MEMORY_MAX, Recorder};

/// A server of HTTP/2 that answers the first piece of each request, and tells how each ends.
async fn server_that_tells() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let tell = tell.clone();
                async move {
                    let mut body = request.into_body();
                    let first = body.frame().await.expect("a piece").expect("a piece").into_data().expect("data");
                    tokio::spawn(async move {
                        let how = loop {
                            match body.frame().await {
                                None => break "end".to_owned(),
                                // The end may come with nothing.
                                Some(Ok(_)) => {}
                                Some(Err(error)) => {
                                    break error.source().map_or_else(|| error.to_string(), ToString::to_string);
                                }
                            }
                        };
                        let _ = tell.send(how);
                    });
                    // It goes on after that until the client has enough.
                    let pieces = unfold(Some(first), |piece| async move {
                        match piece {
                            Some(piece) => Some((Ok::<_, Infallible>(Frame::data(piece)), None)),
                            None => std::future::pending().await,
                        }
                    });
                    Ok::<_, Infallible>(Response::new(StreamBody::new(pieces)))
                }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (address, told)
}

#[test]
fn streams_are_answered_closed_and_cancelled_through_the_proxy() {
    runtime().block_on(async {
        let (address, mut ends) = server_that_tells().await;
        let recorder = Recorder::start(io::sink(), Vec::new(), MEMORY_MAX, |_| ()).expect("a sink");
        let proxied = Proxied::start([address; 2], recorder);
        let message = framed(false, &step(MODEL, 7, &[1], true, false).encode_to_vec());
        let stream = TcpStream::connect(proxied.grpc).await.expect("a connection");
        let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        for (reset, expected) in [(None, "end"), (Some(h2::Reason::CANCEL), "stream no longer needed")] {
            let mut client = client.clone().ready().await.expect("room");
            let request = call(address, "ModelStreamInfer", ());
            let (answer, mut send) = client.send_request(request, false).expect("a stream");
            send.send_data(message.clone(), false).expect("a message");
            // No headers come before the server has the first message.
            let mut body = answer.await.expect("headers").into_body();
            assert_eq!(body.data().await.expect("a piece").expect("a piece"), message);
            match reset {
                None => send.send_data(Bytes::new(), true).expect("the end"),
                Some(reason) => send.send_reset(reason),
            }
            let told = ends.recv().await.expect("it tells");
            assert!(told.contains(expected), "{told}");
        }
        let summary = proxied.finish();
        assert_eq!((summary.requests, summary.sequences, summary.whole), (2, 2, 0), "{summary:?}");
    });
}
