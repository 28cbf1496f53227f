//! Whether the server is there.

use std::{sync::OnceLock, time::Duration};

use tokio::sync::Mutex;

use super::clock::Clock;
use wire::transport::{Access, CallError, Client};
use workload::{event::Nanos, scenario::Scenario};

/// The server may be restarting when a stream breaks: it is asked twice whether it is there.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// What is known of whether the server is there.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// Held by whoever looks: one at a time, so that the looks themselves do no harm.
    look: Mutex<()>,
    gone: OnceLock<(Nanos, String)>,
}

impl Liveness {
    /// When and why the server was found to be gone.
    pub(crate) fn gone(&self) -> Option<&(Nanos, String)> {
        self.gone.get()
    }

    /// Whether the server still answers after a stream broke for `reason`. Once it is gone it stays so.
    pub(crate) async fn is_there(&self, scenario: &Scenario, access: &Access, clock: &Clock, reason: &str) -> bool {
        let _look = self.look.lock().await;
        // Where this machine has no connection left nobody can tell.
        if self.gone().is_some() || access.shortage().is_some() {
            return false;
        }
        for pause in [Duration::ZERO, SECOND_LOOK] {
            tokio::time::sleep(pause).await;
            if answers(scenario, access).await {
                return true;
            }
        }
        if access.shortage().is_none() {
            _ = self.gone.set((clock.now(), reason.to_owned()));
        }
        false
    }
}

async fn answers(scenario: &Scenario, access: &Access) -> bool {
    let Ok(client) = Client::new(scenario.target.endpoint.for_calls(), access, scenario.limits.connect_ms.duration())
    else {
        return false;
    };
    matches!(
        client.server_live().await,
        Ok(true) | Err(CallError::Unimplemented | CallError::Rejected(_) | CallError::Restricted(_))
    )
}
