//! Answers that are held back.

#![forbid(unsafe_code)]

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::boundary::{HeldAnswer, Level, log};

/// Sends answers after a time, in their order, from a thread of its own; ends when all are sent.
#[derive(Debug)]
pub(crate) struct LateAnswers {
    hold: Duration,
    /// None when it ends.
    queue: Option<mpsc::Sender<(Instant, HeldAnswer)>>,
    thread: Option<JoinHandle<()>>,
}

impl LateAnswers {
    /// Each answer is held for so long.
    pub(crate) fn start(hold: Duration) -> Self {
        let (queue, answers) = mpsc::channel::<(Instant, HeldAnswer)>();
        let thread = thread::spawn(move || {
            for (due, answer) in answers {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                answer.send();
            }
        });
        Self { hold, queue: Some(queue), thread: Some(thread) }
    }

    /// Takes an answer, to send it later.
    pub(crate) fn add(&self, answer: HeldAnswer) {
        // The thread ends when the queue does; were it gone, the answer would go now, by its error.
        if let Some(queue) = &self.queue
            && let Err(mpsc::SendError((_, answer))) = queue.send((Instant::now() + self.hold, answer))
        {
            answer.send();
        }
    }
}

impl Drop for LateAnswers {
    fn drop(&mut self) {
        // The library may be closed after this, so no thread may run in it.
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log(Level::Error, "the thread of late answers panicked");
        }
    }
}
