//! Parts of a run in time.

use serde::{Deserialize, Serialize};

use super::Millis;
use crate::model::Strategy;

/// A part of a run in time: it begins when the workers of the one before it are done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What populations and reports call it.
    pub name: String,
    /// How long its workers rest before they begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<Millis>,
    /// What is done to the server after the pause, before its workers begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerAction>,
}

impl Phase {
    /// Whether the model is loaded with another strategy than its own before it.
    pub fn switches_strategy(&self) -> bool {
        self.server.is_some_and(|action| action.strategy().is_some())
    }
}

table! {
    /// Something that is done to the server in the middle of a run. Sequences need not live through it.
    pub enum ServerAction: Row {
        /// The model is loaded anew, as it was configured before the run.
        Reload = "reload", Row(None, "the model was reloaded");
        /// The model is loaded anew with the Direct strategy.
        ReloadDirect = "reload-direct", Row(Some(Strategy::Direct), "the model was reloaded with Direct");
        /// The model is loaded anew with the Oldest strategy.
        ReloadOldest = "reload-oldest", Row(Some(Strategy::Oldest), "the model was reloaded with Oldest");
        /// The server is ended and started again.
        Restart = "restart", Row(None, "the server was restarted");
    }
}

/// The strategy that the model is loaded with, where that is not its own, and what was done.
struct Row(Option<Strategy>, &'static str);

impl ServerAction {
    /// The strategy that the model is loaded with, where that is not its own.
    pub fn strategy(self) -> Option<Strategy> {
        self.row().0
    }

    /// What was done, for reports.
    pub fn done(self) -> &'static str {
        self.row().1
    }
}
