//! Messages that are no protobuf message: what the real server says to them.

use std::task::{Context, Poll};

use tonic::{
    Code, Status,
    codegen::{BoxFuture, Service, http},
    server::NamedService,
};

/// The words of the layer that reads messages.
const CANNOT_DECODE: &str = "failed to decode Protobuf message";

/// Whether a message could not be read, which says nothing of the connection.
pub(super) fn is_unreadable(status: &Status) -> bool {
    status.code() == Code::Internal && status.message().starts_with(CANNOT_DECODE)
}

/// A service that tells of unreadable messages in the real server's words.
#[derive(Clone, Debug)]
pub(super) struct TellsUnreadable<S>(pub(super) S);

impl<S: NamedService> NamedService for TellsUnreadable<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, Q, A> Service<http::Request<Q>> for TellsUnreadable<S>
where
    S: Service<http::Request<Q>, Response = http::Response<A>>,
    S::Future: Send + 'static,
    A: Default,
{
    type Response = http::Response<A>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Q>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            let status = Status::from_header_map(answer.headers());
            if status.is_some_and(|status| is_unreadable(&status)) {
                return Ok(Status::internal("Unable to parse request").into_http());
            }
            Ok(answer)
        })
    }
}
