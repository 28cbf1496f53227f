//! Client deadlines: what of a stream, or of a call, comes in time.

use std::{
    future::Future,
    pin::Pin,
    task::{Poll, ready},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::stream::{Message, Pieces, Told};
use workload::event::{Code, Received};

/// By how much the server's deadline may come before the client's: gRPC's servers round times to milliseconds, and read their clock seldom.
const CLOCKS_DIFFER: Duration = Duration::from_millis(5);
/// `CANCELLED` and `DEADLINE_EXCEEDED`.
const ENDS: [Code; 2] = [Code::Grpc(1), Code::Grpc(4)];

/// A call that is given up when it has taken so long.
pub(super) async fn of_a_call(call: impl Future<Output = Told>, within: Option<Duration>) -> Told {
    let Some(within) = within else { return call.await };
    let deadline = Instant::now() + within;
    match timeout_at(deadline, call).await {
        Ok(told) if is_near(deadline) && may_be_its_end(&told.message) => {
            Told { by: told.by, message: Message::DeadlinePassed }
        }
        Ok(told) => told,
        Err(_) => Told { by: None, message: Message::DeadlinePassed },
    }
}

/// A stream that is given up so long after it was first asked for something. What came in time is read, however late.
pub(super) fn of_a_stream(pieces: Pieces, within: Duration) -> Pieces {
    let mut left = Some(pieces);
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    stream::poll_fn(move |context| {
        let Some(pieces) = &mut left else { return None.into() };
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(within)));
        let piece = pieces.poll_next_unpin(context);
        let is_near = is_near(timer.deadline());
        match piece {
            Poll::Ready(Some(Err(message))) if is_near && may_be_its_end(&message) => {}
            Poll::Ready(Some(Ok(piece))) if is_near && is_cancelled(&piece.received) => {}
            Poll::Ready(piece) => return Poll::Ready(piece),
            Poll::Pending => ready!(timer.as_mut().poll(context)),
        }
        // Nothing else comes, and the server is told.
        left = None;
        Poll::Ready(Some(Err(Message::DeadlinePassed)))
    })
    .boxed()
}

/// Whether the server may think that a deadline has passed: it has a clock of its own.
fn is_near(deadline: Instant) -> bool {
    Instant::now() + CLOCKS_DIFFER >= deadline
}

/// Whether it is what a stream brings for a request that was cancelled: nothing, or an error without a word.
fn is_cancelled(received: &Received) -> bool {
    match &received.result {
        Ok(response) => response.is_empty(),
        Err(text) => text.is_empty(),
    }
}

/// Whether it may be what a server, or its connection, says when a deadline has passed there.
fn may_be_its_end(message: &Message) -> bool {
    match message {
        Message::Received(received) => {
            received.result.is_err() && received.code.is_some_and(|code| ENDS.contains(&code))
        }
        Message::Status(code, _) => ENDS.contains(code),
        Message::Broken(_) | Message::Lapsed(_) => true,
        Message::ServedBy(_) | Message::End | Message::DeadlinePassed => false,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::{super::codec::Piece, *};
    use workload::{event::Response, tensor::Tensor};

    const WITHIN: Duration = Duration::from_millis(100);
    /// A time before the deadline that is none of the server's.
    const EARLY: Duration = Duration::from_millis(90);
    /// One at which the server's clock may say that it has passed.
    const NEAR: Duration = Duration::from_millis(96);

    fn received(result: Result<Response, &str>, code: Option<u16>) -> Received {
        let result = result.map_err(str::to_owned);
        Received { id: "0-0-0-0".to_owned(), result, code: code.map(Code::Grpc), outputs: 0 }
    }

    fn output() -> Response {
        Response { outputs: vec![Tensor::default()], ..Response::default() }
    }

    /// What comes of a call that brings this after some time.
    async fn call(after: Duration, message: Message) -> Message {
        let brings = async move {
            sleep(after).await;
            Told { by: None, message }
        };
        of_a_call(brings, Some(WITHIN)).await.message
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_given_up_at_its_deadline_and_what_came_before_counts() {
        let began = Instant::now();
        let never = of_a_call(pending(), Some(WITHIN)).await;
        assert!(matches!(never.message, Message::DeadlinePassed), "{never:?}");
        assert_eq!(began.elapsed(), WITHIN);
        let passes = |message: &Message| matches!(message, Message::DeadlinePassed);
        for (after, result, code, expected) in [
            (EARLY, Ok(output()), None, false),
            (NEAR, Ok(output()), None, false),
            (NEAR, Err("Deadline Exceeded"), Some(4), true),
            (NEAR, Err(""), Some(1), true),
            // What is wrong for another reason is wrong near the deadline, too, and what ends long before it is no deadline.
            (NEAR, Err("must specify the START flag"), Some(3), false),
            (EARLY, Err("Deadline Exceeded"), Some(4), false),
        ] {
            let message = call(after, Message::Received(received(result, code))).await;
            assert_eq!(passes(&message), expected, "{after:?} {message:?}");
        }
        assert!(passes(&call(NEAR, Message::Broken("reset".to_owned())).await));
        assert!(!passes(&call(EARLY, Message::Broken("reset".to_owned())).await));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_brings_what_comes_in_time_and_then_that_its_deadline_passed() {
        let piece = |result| Piece { received: received(result, None), is_last: None };
        let stream = |pieces: Vec<Result<Piece, Message>>| {
            of_a_stream(stream::iter(pieces).chain(stream::pending()).boxed(), WITHIN)
        };
        let mut answers = stream(vec![Ok(piece(Ok(output()))), Ok(piece(Ok(Response::default()))), Ok(piece(Err("")))]);
        for _ in 0..3 {
            assert!(matches!(answers.next().await, Some(Ok(_))), "they come in time");
        }
        let began = Instant::now();
        assert!(matches!(answers.next().await, Some(Err(Message::DeadlinePassed))));
        assert!(began.elapsed() >= WITHIN && answers.next().await.is_none());
        // What a stream brings for what was cancelled, or that it ends, is the deadline's where that is near.
        for (after, expected) in [(EARLY, false), (NEAR, true)] {
            for late in
                [Ok(piece(Ok(Response::default()))), Ok(piece(Err(""))), Err(Message::Broken("reset".to_owned()))]
            {
                let told = format!("{late:?}");
                let comes = async move {
                    sleep(after).await;
                    late
                };
                let mut answers = of_a_stream(stream::once(comes).boxed(), WITHIN);
                let passed = matches!(answers.next().await, Some(Err(Message::DeadlinePassed)));
                assert_eq!(passed, expected, "{after:?} {told}");
            }
        }
    }
}
