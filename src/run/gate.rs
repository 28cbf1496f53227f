//! When a run begins, and when it is to end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::{Barrier, Notify, watch};

/// What the threads of a run wait for: each other at its beginning and at its end, and the word to stop.
#[derive(Debug)]
pub(super) struct Gate {
    /// Passed when every thread is there.
    pub(super) start: Barrier,
    /// Closed until the first request may go out.
    open: watch::Sender<bool>,
    stopping: AtomicBool,
    /// Wakes those that sleep when the run is stopping.
    stopped: Notify,
    /// Each thread that works subscribes to it. Closed when none does any more: until then each keeps its connections, some of which
    /// others use.
    pub(super) at_work: watch::Sender<()>,
}

impl Gate {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            start: Barrier::new(threads),
            open: watch::Sender::new(false),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
            at_work: watch::Sender::new(()),
        }
    }

    /// Lets go those that wait for the beginning.
    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(super) async fn opened(&self) {
        // It is not dropped before this future.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }

    /// Starts no more iterations.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.stopped.notify_waiters();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    pub(super) async fn stopped(&self) {
        // Made before the look, so that a stop behind the look wakes it.
        let woken = self.stopped.notified();
        if !self.is_stopping() {
            woken.await;
        }
    }
}
