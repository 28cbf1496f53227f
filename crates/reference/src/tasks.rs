//! What a server does besides answering, for as long as one of its lives.

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Starts tasks that end with one life of a server.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    runtime: Handle,
    over: CancellationToken,
}

impl Tasks {
    /// Tasks on the runtime that this is called on.
    pub(super) fn here() -> Self {
        Self { runtime: Handle::current(), over: CancellationToken::new() }
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        self.runtime.spawn(async move { over.run_until_cancelled(work).await });
    }

    /// What tells others when they end.
    pub(super) fn over(&self) -> CancellationToken {
        self.over.child_token()
    }

    pub(super) fn end(&self) {
        self.over.cancel();
    }
}
