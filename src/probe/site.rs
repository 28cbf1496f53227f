//! Where the tool's own sequences go.

use super::{clock::Clock, liveness::Liveness};
use crate::preflight::Preflight;
use wire::transport::{Access, CallError, Link};
use workload::scenario::Scenario;

/// A server and a model as a run knows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'r> {
    pub(crate) scenario: &'r Scenario,
    pub(crate) access: &'r Access,
    pub(crate) preflight: &'r Preflight,
    pub(crate) clock: &'r Clock,
    pub(crate) liveness: &'r Liveness,
}

impl Site<'_> {
    /// A connection of its own.
    pub(super) fn link(&self) -> Result<Link, CallError> {
        Link::to(&self.scenario.target.endpoint, self.access, self.scenario.limits.connect_ms.duration())
    }

    /// Whether the server still answers after a stream broke for `reason`.
    pub(crate) async fn server_is_there(&self, reason: &str) -> bool {
        self.liveness.is_there(self.scenario, self.access, self.clock, reason).await
    }
}
