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
    /// A model that is unloaded and loaded again and again while its workers run. Sequences of the tested model live through it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_model: Option<String>,
}

impl Phase {
    /// Whether it asks the server to do more than to serve.
    pub fn manages(&self) -> bool {
        self.server.is_some() || self.other_model.is_some()
    }

    /// Whether the model is loaded with another configuration than its own before it.
    pub fn changes_model(&self) -> bool {
        self.server.is_some_and(|action| action.strategy().is_some() || action.times_the_instances() > 1)
    }
}

table! {
    /// Something that is done to the server in the middle of a run. Sequences need not live through it.
    pub enum ServerAction: Row {
        /// The model is loaded anew, as it was configured before the run.
        Reload = "reload", Row { done: "the model was reloaded", ..RELOAD };
        /// The model is loaded anew with the Direct strategy.
        ReloadDirect = "reload-direct",
            Row { strategy: Some(Strategy::Direct), done: "the model was reloaded with Direct", ..RELOAD };
        /// The model is loaded anew with the Oldest strategy.
        ReloadOldest = "reload-oldest",
            Row { strategy: Some(Strategy::Oldest), done: "the model was reloaded with Oldest", ..RELOAD };
        /// The server is ended and started again.
        Restart = "restart", Row { loads: false, done: "the server was restarted", ..RELOAD };
        /// The model is loaded anew with twice as many instances.
        MoreInstances = "more-instances",
            Row { instances: 2, done: "the model was reloaded with twice as many instances", ..RELOAD };
        /// The model is unloaded, and then loaded as it was configured before the run.
        Unload = "unload", Row { unloads: true, done: "the model was unloaded and loaded", ..RELOAD };
        /// The process of one of the model's instances is killed, and comes back. Where the server does not start it again, the model is
        /// unloaded and loaded.
        KillStub = "kill-stub",
            Row { unloads: true, kills: true, done: "an instance of the model was killed, and came back", ..RELOAD };
    }
}

/// What an action is like.
struct Row {
    /// Whether it loads the model.
    loads: bool,
    /// Whether it unloads the model before.
    unloads: bool,
    /// Whether it kills an instance of the model.
    kills: bool,
    /// The strategy that the model is loaded with, where that is not its own.
    strategy: Option<Strategy>,
    /// How many times as many instances the model then has.
    instances: u32,
    /// What was done.
    done: &'static str,
}

const RELOAD: Row = Row { loads: true, unloads: false, kills: false, strategy: None, instances: 1, done: "" };

impl ServerAction {
    /// The strategy that the model is loaded with, where that is not its own.
    pub fn strategy(self) -> Option<Strategy> {
        self.row().strategy
    }

    /// How many times as many instances as its own the model is loaded with.
    pub fn times_the_instances(self) -> u32 {
        self.row().instances
    }

    /// Whether it loads the model.
    pub fn loads(self) -> bool {
        self.row().loads
    }

    /// Whether it unloads the model before it loads it.
    pub fn unloads(self) -> bool {
        self.row().unloads
    }

    /// Whether it kills an instance of the model: the state that the instance kept is lost.
    pub fn kills(self) -> bool {
        self.row().kills
    }

    /// What was done, for reports.
    pub fn done(self) -> &'static str {
        self.row().done
    }
}
