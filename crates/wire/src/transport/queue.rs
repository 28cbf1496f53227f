//! The steps of one stream on their way out, kept until it is certain that the server takes the stream in.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use tokio::sync::mpsc;
use tokio_stream::Stream;

use super::{gathered::Outstanding, lock};
use workload::sequence::Step;

/// The steps of a stream, for as many tries to open it as it takes.
#[derive(Debug)]
pub(super) struct Queue(Arc<Mutex<Steps>>);

/// The steps as one try sends them.
#[derive(Debug)]
pub(super) struct Sending {
    steps: Arc<Mutex<Steps>>,
    /// Which try it is.
    number: u32,
    /// How many of the steps that are kept it has sent.
    sent: usize,
}

#[derive(Debug)]
struct Steps {
    incoming: mpsc::Receiver<Step>,
    /// Where a request has several answers.
    outstanding: Option<Outstanding>,
    /// Those that a try has sent, until the stream is taken in.
    kept: Vec<Step>,
    is_taken_in: bool,
    tries: u32,
}

impl Queue {
    pub(super) fn new(incoming: mpsc::Receiver<Step>, outstanding: Option<Outstanding>) -> Self {
        let steps = Steps { incoming, outstanding, kept: Vec::new(), is_taken_in: false, tries: 0 };
        Self(Arc::new(Mutex::new(steps)))
    }

    /// Another try, which sends all steps; those before it send nothing more.
    pub(super) fn sending(&self) -> Sending {
        let mut steps = lock(&self.0);
        steps.tries += 1;
        Sending { steps: Arc::clone(&self.0), number: steps.tries, sent: 0 }
    }

    /// The server takes in what the last try sends: nothing is sent again.
    pub(super) fn are_taken_in(&self) {
        lock(&self.0).is_taken_in = true;
    }
}

impl Stream for Sending {
    type Item = Step;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Step>> {
        let Self { steps, number, sent } = self.get_mut();
        let mut steps = lock(steps);
        if steps.tries != *number {
            return Poll::Ready(None);
        }
        if let Some(step) = steps.kept.get(*sent).copied() {
            *sent += 1;
            return Poll::Ready(Some(step));
        }
        let next = ready!(steps.incoming.poll_recv(context));
        if let (Some(step), Some(outstanding)) = (next, &steps.outstanding) {
            outstanding.sent(step.request);
        }
        if steps.is_taken_in {
            steps.kept = Vec::new();
        } else if let Some(step) = next {
            steps.kept.push(step);
            *sent += 1;
        }
        Poll::Ready(next)
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;
    use workload::sequence::{Pattern, RequestId};

    fn step(number: u32) -> Step {
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: number };
        let (value, of) = (1.into(), 9);
        Step { request, pattern: Pattern::Valid, start: false, end: false, value, of, special: None }
    }

    async fn next(sending: &mut Sending) -> Option<u32> {
        sending.next().await.map(|step| step.request.step)
    }

    #[tokio::test]
    async fn another_try_sends_all_steps_and_the_one_before_it_none() {
        let (sender, receiver) = mpsc::channel(9);
        let queue = Queue::new(receiver, None);
        let mut first = queue.sending();
        for number in 0..3 {
            sender.send(step(number)).await.expect("there is room");
        }
        assert_eq!((next(&mut first).await, next(&mut first).await), (Some(0), Some(1)));
        let mut second = queue.sending();
        assert_eq!(next(&mut first).await, None, "it takes nothing from the second");
        // The server answers before all that was kept is sent again.
        assert_eq!(next(&mut second).await, Some(0));
        queue.are_taken_in();
        assert_eq!((next(&mut second).await, next(&mut second).await), (Some(1), Some(2)));
        sender.send(step(3)).await.expect("there is room");
        drop(sender);
        assert_eq!((next(&mut second).await, next(&mut second).await), (Some(3), None));
        assert!(lock(&queue.0).kept.is_empty(), "nothing is kept any more");
    }
}
