//! One resolved, valid description of a run; nothing after it sees a flag or a file.

mod file;
mod numbers;
mod weights;

use std::{
    fmt,
    num::{NonZeroU32, NonZeroU64},
};

pub use file::{ScenarioError, Source};
pub use numbers::{Millis, Normal, Probability, Uniform, Weight, Window};
use serde::{Deserialize, Serialize};
pub use weights::Weights;

use crate::{claim::Claims, endpoint::Endpoint, sequence::Pattern};

/// The scenario that is used where none is named, and whose keys complete every other file.
pub const DEFAULT: &str = include_str!("../../scenarios/l0-sequence-stress.toml");

/// More than this is a slip of the finger: workers, contexts of all workers together, and steps of a sequence.
const WORKERS_MAX: u32 = 100_000;
const CONTEXTS_MAX: u64 = 1_000_000;
const STEPS_MAX: u32 = 1_000_000;
/// The slot check has a stream for each.
const SLOTS_MAX: u32 = 10_000;

/// What to send, to whom, how fast and within which limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Whom to send to.
    pub target: Target,
    /// How much to send.
    pub load: Load,
    /// The stream contexts of each worker.
    pub contexts: Contexts,
    /// Which correlation IDs belong to which worker.
    pub correlation_ids: CorrelationIds,
    /// How often each pattern is drawn.
    pub patterns: Patterns,
    /// How many steps a sequence has.
    pub length: Length,
    /// The inputs of the steps.
    pub values: Values,
    /// How the steps travel.
    pub sending: Sending,
    /// How long things may take.
    pub limits: Limits,
    /// The count of the model's slots after the run.
    pub slots: Slots,
    /// How often the run has to reach what; none where that follows from the patterns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Claims>,
}

/// Whom to send to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The server's gRPC endpoint.
    pub endpoint: Endpoint,
    /// The model's name.
    pub model: String,
    /// Where the server tells its metrics over HTTP, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Endpoint>,
}

/// How much to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Tasks that run one pass after the other.
    pub workers: NonZeroU32,
    /// Passes of each worker; none where only `duration_s` ends the run.
    pub iterations: Option<NonZeroU64>,
    /// Seconds after which no pass is started any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<NonZeroU64>,
}

/// The stream contexts of each worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// Those that are used all the time.
    pub common: u32,
    /// Those that are used in turn, so seldom that their sequences go idle.
    pub rare: u32,
    /// The odds that a pass goes to a rare one.
    pub rare_probability: Probability,
}

impl Contexts {
    /// How many contexts a worker has.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.common + self.rare
    }
}

/// Which correlation IDs belong to which worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorrelationIds {
    /// The first ID of worker 0.
    pub first: NonZeroU64,
    /// How many IDs belong to one worker.
    pub block: NonZeroU32,
}

/// How often each pattern is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// In common contexts.
    pub common: Weights,
    /// In rare contexts.
    pub rare: Weights,
}

/// Where a pattern is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// In common contexts.
    pub common: bool,
    /// In rare contexts.
    pub rare: bool,
}

/// How many steps a sequence has: a draw, rounded towards zero, kept within `min` and `max`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// The fewest steps.
    pub min: NonZeroU32,
    /// The most steps.
    pub max: NonZeroU32,
    /// The distribution that is drawn from.
    pub normal: Normal,
}

/// The inputs of the steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Values {
    /// The distribution that is drawn from.
    pub uniform: Uniform,
}

/// How the steps travel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sending {
    /// How long a gRPC stream lives.
    pub stream: StreamLife,
    /// Who shares a connection.
    pub connection: ConnectionOwner,
    /// When an ID's next START is sent.
    pub reuse: Reuse,
    /// How many steps of a sequence may be unanswered at a time.
    pub window: Window,
}

/// How long a gRPC stream lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamLife {
    /// A new stream for each sequence. Sequences that are sent back to back share one, because nothing orders the
    /// requests of two streams.
    PerSequence,
    /// One stream for the context's life.
    PerContext,
}

/// Who shares a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionOwner {
    /// Each context has its own.
    PerContext,
    /// The contexts of a worker share one.
    PerWorker,
}

/// When the second sequence of a pass is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// At once, behind the first one's END.
    Pipelined,
    /// When the first one's END was answered.
    AfterAnswer,
}

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// A missing answer is lost after this and the longest lawful wait.
    pub lost_after_ms: Millis,
    /// What one step may take in the server, the model's own execution delay not counted.
    pub step_ms: Millis,
    /// For each call before and after the run.
    pub connect_ms: Millis,
    /// For what is still under way when the run is interrupted.
    pub drain_ms: Millis,
    /// For the model's statistics to settle after the last answer.
    pub settle_ms: Millis,
    /// How long nobody else may use the model before and after the run.
    pub quiet_ms: Millis,
    /// A threshold: an answer that takes longer misses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ms: Option<Millis>,
}

/// The count of the model's slots after the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// Whether they are counted.
    pub check: bool,
    /// A model with more is left alone.
    pub max: NonZeroU32,
    /// The longest idle limit that is waited for where the run left sequences without END.
    pub wait_ms: Millis,
}

/// What the command line says in place of the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// In place of `target.endpoint`.
    pub endpoint: Option<Endpoint>,
    /// In place of `target.model`.
    pub model: Option<String>,
    /// In place of `target.metrics`.
    pub metrics: Option<Endpoint>,
    /// In place of `load.workers`.
    pub workers: Option<NonZeroU32>,
    /// In place of `load.iterations`.
    pub iterations: Option<NonZeroU64>,
    /// In place of `load.duration_s`; without `iterations` it alone ends the run.
    pub duration_s: Option<NonZeroU64>,
    /// In place of `limits.response_ms`.
    pub response_ms: Option<Millis>,
}

impl Scenario {
    /// Reads a scenario file, completed by the default one, and puts the command line's values in place of the file's.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, has an unknown key or a value that cannot be, or when its values do
    /// not go together.
    pub fn resolve(source: &Source, overrides: Overrides) -> Result<Self, ScenarioError> {
        let mut scenario = source.parse()?;
        scenario.override_with(overrides);
        scenario.check().map_err(|(key, problem)| source.error_at(key, problem))?;
        Ok(scenario)
    }

    /// Where a pattern is drawn: where it has a weight, and the contexts are used.
    #[must_use]
    pub fn draws(&self, pattern: Pattern) -> Drawn {
        let Contexts { common, rare, rare_probability: Probability(odds) } = self.contexts;
        Drawn {
            common: common > 0 && odds < 1.0 && self.patterns.common.of(pattern) > 0.0,
            rare: rare > 0 && odds > 0.0 && self.patterns.rare.of(pattern) > 0.0,
        }
    }

    /// Gives the scenario so many workers, and so many contexts to each.
    ///
    /// # Errors
    /// When that is more than a scenario may have.
    pub fn fit(&mut self, workers: u32, contexts: u32) -> Result<(), String> {
        let none = || "there are none".to_owned();
        self.load.workers = NonZeroU32::new(workers).ok_or_else(none)?;
        self.contexts = Contexts { common: contexts, rare: 0, rare_probability: Probability(0.0) };
        let block = self.correlation_ids.block.max(NonZeroU32::new(contexts).ok_or_else(none)?);
        self.correlation_ids.block = block;
        self.check().map_err(|(key, problem)| format!("{key}: {problem}"))
    }

    /// The scenario, where its values go together; one that was read as a whole is not yet known to be right.
    ///
    /// # Errors
    /// What does not go together, with its key.
    pub fn checked(self) -> Result<Self, String> {
        self.check().map_err(|(key, problem)| format!("{key}: {problem}"))?;
        Ok(self)
    }

    fn override_with(&mut self, overrides: Overrides) {
        let Overrides { endpoint, model, metrics, workers, iterations, duration_s, response_ms } = overrides;
        if let Some(endpoint) = endpoint {
            self.target.endpoint = endpoint;
        }
        if let Some(model) = model {
            self.target.model = model;
        }
        if metrics.is_some() {
            self.target.metrics = metrics;
        }
        if let Some(workers) = workers {
            self.load.workers = workers;
        }
        if duration_s.is_some() {
            self.load.duration_s = duration_s;
            self.load.iterations = None;
        }
        if iterations.is_some() {
            self.load.iterations = iterations;
        }
        if response_ms.is_some() {
            self.limits.response_ms = response_ms;
        }
    }

    /// What does not go together, by key.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let workers = self.load.workers.get();
        if workers > WORKERS_MAX {
            return Err(("load.workers", format!("{workers} is more than {WORKERS_MAX}")));
        }
        if self.slots.max.get() > SLOTS_MAX {
            return Err(("slots.max", format!("{} is more than {SLOTS_MAX}", self.slots.max)));
        }
        if self.target.model.is_empty() {
            return Err(("target.model", "the name is empty".into()));
        }
        self.check_contexts()?;
        self.check_correlation_ids()?;
        check_weights("patterns.common", self.contexts.common, &self.patterns.common)?;
        check_weights("patterns.rare", self.contexts.rare, &self.patterns.rare)?;
        if self.length.max.get() > STEPS_MAX {
            return Err(("length.max", format!("{} is more than {STEPS_MAX}", self.length.max)));
        }
        let contexts = u64::from(workers) * u64::from(self.contexts.count());
        if contexts > CONTEXTS_MAX {
            return Err(("contexts", format!("{contexts} contexts of all workers are more than {CONTEXTS_MAX}")));
        }
        if self.length.min > self.length.max {
            return Err(("length.min", format!("{} is above length.max, {}", self.length.min, self.length.max)));
        }
        Ok(())
    }

    fn check_contexts(&self) -> Result<(), (&'static str, String)> {
        let Contexts { common, rare, rare_probability: Probability(odds) } = self.contexts;
        if common.checked_add(rare).is_none_or(|count| count == 0 || count > self.correlation_ids.block.get()) {
            let problem = format!(
                "{common} common and {rare} rare contexts do not fit a block of {} correlation IDs: the blocks of \
                 neighbouring workers would overlap",
                self.correlation_ids.block
            );
            let none = "common and rare are both 0, so there is nothing to send on".to_owned();
            return Err(("contexts", if common == 0 && rare == 0 { none } else { problem }));
        }
        if common == 0 && odds < 1.0 {
            return Err(("contexts.rare_probability", format!("{odds} with no common contexts: it has to be 1")));
        }
        if rare == 0 && odds > 0.0 {
            return Err(("contexts.rare_probability", format!("{odds} with no rare contexts: it has to be 0")));
        }
        Ok(())
    }

    fn check_correlation_ids(&self) -> Result<(), (&'static str, String)> {
        let CorrelationIds { first, block } = self.correlation_ids;
        let used = u64::from(self.load.workers.get()) * u64::from(block.get());
        match first.get().checked_add(used - 1) {
            Some(_) => Ok(()),
            None => Err((
                "correlation_ids",
                format!(
                    "{} blocks of {block} IDs from {first} on go past the largest ID, {}",
                    self.load.workers,
                    u64::MAX
                ),
            )),
        }
    }
}

fn check_weights(key: &'static str, contexts: u32, weights: &Weights) -> Result<(), (&'static str, String)> {
    let sum: f64 = weights.in_order().iter().sum();
    if contexts > 0 && sum <= 0.0 {
        return Err((key, "all weights are 0, so there is nothing to draw".into()));
    }
    if !sum.is_finite() {
        return Err((key, "the weights are too large to be added up".into()));
    }
    Ok(())
}

impl fmt::Display for StreamLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerSequence => "a stream per sequence",
            Self::PerContext => "a stream per context",
        })
    }
}

impl fmt::Display for ConnectionOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerContext => "a connection per context",
            Self::PerWorker => "a connection per worker",
        })
    }
}

#[cfg(test)]
mod tests;
