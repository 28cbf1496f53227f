//! Streams that take little memory while nothing goes over them.
//!
//! The gRPC library has two buffers for each stream, and they stay as large as the largest burst that went through them. With thousands of
//! open streams, these buffers are most of the memory. So this module gives the library a response in small pieces, and takes each request
//! from the library alone. It joins requests that go out at the same time. Their buffer is freed when they are sent.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{TryFutureExt as _, future::MapOk};
use hyper::body::{Body, Bytes, Frame};
use prost::bytes::BytesMut;
use tonic::{
    body::Body as TonicBody,
    codegen::http::{Request, Response},
    transport::{Channel, channel::ResponseFuture},
};
use tower::Service;

/// The largest piece of a response that the library gets. Its buffer has twice as many bytes.
const PIECE: usize = 512;
/// So many joined bytes go out at once.
const ENOUGH: usize = 16 * 1024;

/// A channel whose calls are streams that take little memory.
#[derive(Clone, Debug)]
pub(super) struct Frugal(pub(super) Channel);

type Split = fn(Response<TonicBody>) -> Response<InPieces<TonicBody>>;

impl Service<Request<TonicBody>> for Frugal {
    type Response = Response<InPieces<TonicBody>>;
    type Error = <Channel as Service<Request<TonicBody>>>::Error;
    type Future = MapOk<ResponseFuture, Split>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<TonicBody>) -> Self::Future {
        let split: Split = |response| response.map(|body| InPieces { body, rest: Bytes::new() });
        self.0.call(request.map(|body| TonicBody::new(Together { body, behind: Behind::Nothing }))).map_ok(split)
    }
}

/// A body that comes in small pieces.
#[derive(Debug)]
pub(super) struct InPieces<B> {
    body: B,
    /// What has come, and is not handed on yet.
    rest: Bytes,
}

impl<B: Body<Data = Bytes> + Unpin> Body for InPieces<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self { body, rest } = self.get_mut();
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = rest.split_to(rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

/// A body whose pieces go out together, as many as there are at a time.
struct Together<B: Body> {
    body: B,
    behind: Behind<B>,
}

/// What is behind the pieces that went out last.
enum Behind<B: Body> {
    Nothing,
    /// What is no data, or an error.
    Next(Result<Frame<Bytes>, B::Error>),
    End,
}

impl<B: Body<Data = Bytes, Error: Unpin> + Unpin> Body for Together<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self { body, behind } = self.get_mut();
        let mut all = BytesMut::new();
        while matches!(behind, Behind::Nothing) && all.len() < ENOUGH {
            match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => all.extend_from_slice(&data),
                    Err(other) => *behind = Behind::Next(Ok(other)),
                },
                Poll::Ready(Some(Err(error))) => *behind = Behind::Next(Err(error)),
                Poll::Ready(None) => *behind = Behind::End,
                Poll::Pending if all.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if !all.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(all.freeze()))));
        }
        match std::mem::replace(behind, Behind::Nothing) {
            Behind::Next(next) => Poll::Ready(Some(next)),
            Behind::End | Behind::Nothing => {
                *behind = Behind::End;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.behind {
            Behind::Nothing => self.body.is_end_stream(),
            Behind::Next(_) => false,
            Behind::End => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::HeaderMap;

    use super::*;

    /// What a body has.
    enum Given {
        Frame(Frame<Bytes>),
        Error(&'static str),
        NothingYet,
    }

    use Given::NothingYet;

    /// A body that gives this.
    fn body(given: Vec<Given>) -> impl Body<Data = Bytes, Error = &'static str> + Unpin {
        let mut given = VecDeque::from(given);
        StreamBody::new(futures_util::stream::poll_fn(move |context| match given.pop_front() {
            Some(Given::Frame(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Given::Error(error)) => Poll::Ready(Some(Err(error))),
            Some(NothingYet) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }))
    }

    fn data(length: usize) -> Given {
        Given::Frame(Frame::data(vec![length.to_le_bytes()[0]; length].into()))
    }

    fn trailers() -> Given {
        Given::Frame(Frame::trailers(HeaderMap::new()))
    }

    /// How many bytes come at a time, trailers as none, and the error.
    async fn told(mut body: impl Body<Data = Bytes, Error = &'static str> + Unpin) -> Vec<Result<usize, &'static str>> {
        let mut told = Vec::new();
        while let Some(frame) = body.frame().await {
            told.push(frame.map(|frame| frame.into_data().map_or(0, |data| data.len())));
        }
        assert!(body.is_end_stream() || told.last().is_some_and(|last| matches!(last, Ok(0) | Err(_))));
        told
    }

    fn in_pieces(given: Vec<Given>) -> impl Body<Data = Bytes, Error = &'static str> + Unpin {
        InPieces { body: body(given), rest: Bytes::new() }
    }

    fn together(given: Vec<Given>) -> impl Body<Data = Bytes, Error = &'static str> + Unpin {
        Together { body: body(given), behind: Behind::Nothing }
    }

    #[tokio::test]
    async fn what_comes_is_split_and_nothing_of_it_is_lost() {
        let all = vec![data(3), NothingYet, data(2 * PIECE + 1), data(PIECE), trailers()];
        let pieces = [3, PIECE, PIECE, 1, PIECE, 0].map(Ok);
        assert_eq!(told(in_pieces(all)).await, pieces);
        let bytes = in_pieces(vec![data(1500), data(3)]).collect().await.expect("no error").to_bytes();
        assert_eq!(bytes, [vec![220; 1500], vec![3; 3]].concat());
        assert_eq!(told(in_pieces(vec![data(1), Given::Error("gone")])).await, [Ok(1), Err("gone")]);
    }

    #[tokio::test]
    async fn what_is_there_goes_out_together_and_what_is_behind_it_after_it() {
        let all = vec![data(3), data(4), NothingYet, data(5), NothingYet, NothingYet, data(6), trailers()];
        assert_eq!(told(together(all)).await, [7, 5, 6, 0].map(Ok));
        let bytes = together(vec![data(2), NothingYet, data(3), data(1)]).collect().await.expect("no error").to_bytes();
        assert_eq!(bytes, [2, 2, 3, 3, 3, 1].as_slice());
        assert_eq!(told(together(vec![data(1), data(1), Given::Error("gone")])).await, [Ok(2), Err("gone")]);
        let much = (0..5).map(|_| data(ENOUGH / 2)).collect();
        assert_eq!(told(together(much)).await, [ENOUGH, ENOUGH, ENOUGH / 2].map(Ok), "no more than enough at a time");
        assert_eq!(told(together(vec![])).await, []);
    }
}
