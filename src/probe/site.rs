//! Where the tool's own sequences go, when, and whether the server is still there.

use std::{sync::OnceLock, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::preflight::Preflight;
use wire::transport::{Access, CallError, Client, Link};
use workload::{event::Nanos, scenario::Scenario};

/// The server may be restarting when a stream breaks: it is asked twice whether it is there.
pub(crate) const SECOND_LOOK: Duration = Duration::from_millis(500);

/// A server and a model as a run knows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'r> {
    pub(crate) scenario: &'r Scenario,
    pub(crate) access: &'r Access,
    pub(crate) preflight: &'r Preflight,
    pub(crate) clock: &'r Clock,
    pub(crate) liveness: &'r Liveness,
}

#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// Held by whoever looks: one at a time, so that the looks themselves do no harm.
    look: Mutex<()>,
    /// When and why the server was found to be gone.
    pub(crate) gone: OnceLock<(Nanos, String)>,
}

impl Site<'_> {
    pub(crate) fn link(&self) -> Result<Link, CallError> {
        Link::to(&self.scenario.target.endpoint, self.access, self.scenario.limits.connect_ms.duration())
    }

    /// Whether the server still answers after a stream broke for `reason`. Once it is gone it stays so.
    pub(crate) async fn server_is_there(&self, reason: &str) -> bool {
        let Liveness { look, gone } = self.liveness;
        let _look = look.lock().await;
        // Where this machine has no connection left nobody can tell.
        if gone.get().is_some() || self.access.shortage().is_some() {
            return false;
        }
        for pause in [Duration::ZERO, SECOND_LOOK] {
            tokio::time::sleep(pause).await;
            if self.server_answers().await {
                return true;
            }
        }
        if self.access.shortage().is_none() {
            _ = gone.set((self.clock.now(), reason.to_owned()));
        }
        false
    }

    async fn server_answers(&self) -> bool {
        let Scenario { target, limits, .. } = self.scenario;
        match Client::of(target, self.access, limits.connect_ms.duration()) {
            Ok(client) => answers(&client).await,
            Err(_) => false,
        }
    }

    /// The server that is gone: of several those that do not answer, or the endpoint where that is not known.
    pub(crate) async fn gone(&self) -> String {
        let Scenario { target, limits, .. } = self.scenario;
        let mut gone = Vec::new();
        if let Ok(client) = Client::of(target, self.access, limits.connect_ms.duration()) {
            for (endpoint, server) in client.replicas() {
                if !answers(server).await {
                    gone.push(endpoint.to_string());
                }
            }
        }
        if gone.is_empty() { target.endpoint.to_string() } else { gone.join(", ") }
    }
}

/// Whether a server is there, or each of several.
async fn answers(client: &Client) -> bool {
    matches!(
        client.server_live().await,
        Ok(true) | Err(CallError::Unimplemented | CallError::Rejected(_) | CallError::Restricted(_))
    )
}

/// Counts from when the first request could go out; until then it stands at zero.
#[derive(Debug, Default)]
pub(crate) struct Clock(OnceLock<Instant>);

impl Clock {
    pub(crate) fn started() -> Self {
        Self(Instant::now().into())
    }

    pub(crate) fn start(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Starts it as if that had been at this time.
    pub(crate) fn start_at(&self, zero: Instant) {
        self.0.get_or_init(|| zero);
    }

    pub(crate) fn has_started(&self) -> bool {
        self.0.get().is_some()
    }

    /// When it was started, if it was.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.0.get().copied()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(crate) fn now(&self) -> Nanos {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
