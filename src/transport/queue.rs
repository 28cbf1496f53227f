//! The steps of one stream on their way out, kept until it is certain that the server takes the stream in.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::sync::mpsc;
use tokio_stream::Stream;

use super::gathered::Outstanding;
use crate::sequence::Step;

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

fn lock(steps: &Mutex<Steps>) -> MutexGuard<'_, Steps> {
    steps.lock().unwrap_or_else(PoisonError::into_inner)
}
