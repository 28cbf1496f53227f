//! When a run begins, and when it is to end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::{Barrier, Notify, watch};

/// What the threads of a run wait for: each other at its beginning and at its end, and the word to stop.
#[derive(Debug)]
pub(super) struct Gate {
    /// Passed when every thread is there.
    pub(super) start: Barrier,
    /// Whether every thread is there.
    ready: watch::Sender<bool>,
    /// Whether nobody else is waited for.
    let_in: watch::Sender<bool>,
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
    /// Of so many threads; whether other processes begin with this one.
    pub(super) fn new(threads: usize, is_one_of_several: bool) -> Self {
        Self {
            start: Barrier::new(threads),
            ready: watch::Sender::new(false),
            let_in: watch::Sender::new(!is_one_of_several),
            open: watch::Sender::new(false),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
            at_work: watch::Sender::new(()),
        }
    }

    /// Waits until every thread is there, and until other processes are, too. A run that is stopping begins at once.
    pub(super) async fn pass(&self) {
        self.start.wait().await;
        self.ready.send_replace(true);
        tokio::select! {
            () = is_true(&self.let_in) => {}
            () = self.stopped() => {}
        }
    }

    /// Every thread of this process is there.
    pub(super) async fn ready(&self) {
        is_true(&self.ready).await;
    }

    /// The other processes are there, too.
    pub(super) fn let_in(&self) {
        self.let_in.send_replace(true);
    }

    /// Lets go those that wait for the beginning.
    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(super) async fn opened(&self) {
        is_true(&self.open).await;
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

async fn is_true(watched: &watch::Sender<bool>) {
    // The sender is not dropped before this future.
    let _ = watched.subscribe().wait_for(|is_true| *is_true).await;
}
