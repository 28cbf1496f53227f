//! What is done to a server from outside: it ends and starts again, or an instance of each model fails.

use std::{
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Release},
    },
    time::Duration,
};

use tokio::sync::Notify;

/// How long it may take, and how often that is looked at.
const DONE_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(2);

/// Something that can be asked for, and how often it was done.
#[derive(Debug, Default)]
pub(super) struct Deed {
    asked: Notify,
    done: AtomicU64,
}

impl Deed {
    /// Asks for it, and waits until it is done.
    ///
    /// # Errors
    /// `not_done`, when that takes too long.
    pub(super) async fn ask(&self, not_done: &str) -> Result<(), String> {
        let before = self.done.load(Acquire);
        self.asked.notify_one();
        let done = async {
            while self.done.load(Acquire) == before {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(DONE_WITHIN, done).await.map_err(|_| not_done.to_owned())
    }

    /// Waits until somebody asks for it.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// It was done.
    pub(super) fn done(&self) {
        self.done.fetch_add(1, Release);
    }
}

/// Has a server end and start again, or an instance of each model fail.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// A life begins: the first one unasked.
    pub(super) life: Deed,
    pub(super) failure: Deed,
}
