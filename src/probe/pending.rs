//! Whether the server still has requests that wait, after all were answered.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Site;
use crate::recorder::Tally;
use oracle::{Evidence, Violation, ViolationKind};
use wire::transport::pending_requests;

const POLL: Duration = Duration::from_millis(50);

/// What the server's count of pending requests says after the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum PendingRequests {
    /// None is left.
    None,
    /// Some are.
    Left {
        /// How many.
        count: u64,
    },
    /// It was not looked at, or tells nothing.
    NotChecked {
        /// Why.
        why: String,
    },
}

impl PendingRequests {
    /// Waits until no request is pending, as long as statistics may take to settle. `excuse` is why the count would tell nothing.
    pub(crate) async fn look(site: Site<'_>, tally: &Tally, excuse: Option<String>) -> Self {
        let Site { scenario, access, preflight, .. } = site;
        let Some(metrics) = &scenario.target.metrics else {
            return Self::NotChecked { why: "the server's metrics are not known (--metrics-url)".to_owned() };
        };
        if let Some(why) = excuse {
            return Self::NotChecked { why };
        }
        let (model, limit) = (&scenario.target.model, scenario.limits.connect_ms.duration());
        // What was cut may still be worked off in the backlog.
        let straggling = if tally.cut { preflight.limits.lawful } else { Duration::ZERO };
        let deadline = Instant::now() + scenario.limits.settle_ms.duration().max(straggling);
        loop {
            match pending_requests(metrics, access, model, limit).await {
                Ok(0) => return Self::None,
                Ok(count) if Instant::now() >= deadline => return Self::Left { count },
                Ok(_) => tokio::time::sleep(POLL).await,
                Err(why) => return Self::NotChecked { why },
            }
        }
    }

    /// The violation that requests left behind are.
    pub(crate) fn violation(&self, at_ns: u64, tally: &Tally) -> Option<Violation> {
        let Self::Left { count } = self else { return None };
        let evidence = Evidence::Pending { sent: tally.total().sent(), seen: *count };
        Some(Violation::of_the_run(ViolationKind::PendingLeft, at_ns, evidence))
    }
}
