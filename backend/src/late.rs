//! Answers that are held back.

#![forbid(unsafe_code)]

use std::{
    sync::mpsc::{self, TrySendError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::boundary::{Level, Response, log, sleep};

/// So many answers are held at most; what comes then goes at once.
const HELD_MAX: usize = 65_536;

/// Sends answers after a time, in their order, from a thread of its own; ends when all are sent.
#[derive(Debug)]
pub(crate) struct LateAnswers {
    hold: Duration,
    /// None when it ends.
    queue: Option<mpsc::SyncSender<(Instant, Response)>>,
    thread: Option<JoinHandle<()>>,
}

impl LateAnswers {
    /// Each answer is held for so long.
    pub(crate) fn start(hold: Duration) -> Self {
        let (queue, answers) = mpsc::sync_channel::<(Instant, Response)>(HELD_MAX);
        let thread = thread::spawn(move || {
            for (due, answer) in answers {
                sleep(due.saturating_duration_since(Instant::now()));
                answer.send_late();
            }
        });
        Self { hold, queue: Some(queue), thread: Some(thread) }
    }

    /// Takes an answer, to send it later.
    pub(crate) fn add(&self, answer: Response) {
        let Some(queue) = &self.queue else { return };
        // The thread ends when the queue does, so there is room or there is not.
        if let Err(TrySendError::Full((_, answer)) | TrySendError::Disconnected((_, answer))) =
            queue.try_send((Instant::now() + self.hold, answer))
        {
            answer.send_late();
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
