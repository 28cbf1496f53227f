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

/// Something that is done to the server in the middle of a run. Sequences need not live through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerAction {
    /// The model is loaded anew, as it was configured before the run.
    Reload,
    /// The model is loaded anew with the Direct strategy.
    ReloadDirect,
    /// The model is loaded anew with the Oldest strategy.
    ReloadOldest,
    /// The server is ended and started again.
    Restart,
}

impl ServerAction {
    /// The strategy that the model is loaded with, where that is not its own.
    pub fn strategy(self) -> Option<Strategy> {
        match self {
            Self::ReloadDirect => Some(Strategy::Direct),
            Self::ReloadOldest => Some(Strategy::Oldest),
            Self::Reload | Self::Restart => None,
        }
    }

    /// What is done, for reports.
    pub fn what(self) -> &'static str {
        match self {
            Self::Reload => "the model was reloaded",
            Self::ReloadDirect => "the model was reloaded with Direct",
            Self::ReloadOldest => "the model was reloaded with Oldest",
            Self::Restart => "the server was restarted",
        }
    }
}
