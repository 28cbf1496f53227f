//! One resolved, valid description of a run; nothing after it sees a flag or a file.

mod access;
mod arrivals;
mod builtin;
mod distribution;
mod document;
mod file;
mod id;
mod network;
mod numbers;
mod overrides;
mod phase;
mod population;
mod reference;
mod replicas;
mod sending;
mod thresholds;
mod transports;
mod versions;
mod weights;
mod wording;

use std::{
    iter,
    num::{NonZeroU32, NonZeroU64},
};

pub use access::{AccessOverrides, Compression, Tls};
pub use arrivals::{Arrivals, Rate, Schedule};
pub use builtin::{BUILTIN, Builtin};
pub use distribution::{Distribution, Geometric, Listed, LogNormal};
use document::Document;
pub use file::{ScenarioError, Source};
pub use network::{BLACK_HOLE_MAX, BlackHole, CutBy, LATENCY_MAX, Network, NetworkCut};
pub use numbers::{Millis, Normal, Probability, Uniform, Weight, Window};
pub use overrides::Overrides;
pub use phase::{Phase, ServerAction};
pub use population::{
    Contexts, Drawn, DrawnValues, Elements, Length, Load, OwnIds, Patterns, Population, Think, Values,
};
pub use reference::{KEYS, Key};
pub use replicas::ReplicaOverrides;
pub use sending::{ConnectionOwner, Reuse, Sending, StreamLife};
use serde::{Deserialize, Serialize};
pub use thresholds::{GROWTH_LEAST, Kind, Measure, Scope, Statistic, Threshold, Whose, Window as PartOfRun};
pub use weights::Weights;
pub use wording::plain;

use crate::{
    claim::Claims,
    endpoint::{Endpoint, Endpoints},
    header::{Header, HeaderName},
    said::{is_default, yes},
    sequence::{IdForm, Pattern, Trait},
    version::ModelVersion,
};

/// The scenario that is used where none is named, and whose keys complete every other file.
pub const DEFAULT: &str = include_str!("../../../../scenarios/l0-sequence-stress.toml");

/// The most workers of a run: more is a slip of the finger.
pub const WORKERS_MAX: u32 = 100_000;
/// The most bytes of a model's name: paths and messages contain the name.
const MODEL_NAME_MAX: usize = 1024;
/// Of all workers together.
const CONTEXTS_MAX: u64 = 1_000_000;
/// Of a sequence.
const STEPS_MAX: u32 = 1_000_000;
const POPULATIONS_MAX: usize = 100;
const PHASES_MAX: usize = 100;
/// The slot check has a stream for each.
const SLOTS_MAX: u32 = 10_000;

/// What to send, to whom, how fast and within which limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Document", into = "Document")]
pub struct Scenario {
    /// Whom to send to.
    pub target: Target,
    /// Which correlation IDs belong to which worker.
    pub correlation_ids: CorrelationIds,
    /// Who sends what; never empty. The workers are numbered through all of them, in this order.
    pub populations: Vec<Population>,
    /// Its parts in time, in their order; none where there is one.
    pub phases: Vec<Phase>,
    /// How long things may take.
    pub limits: Limits,
    /// The count of the model's slots after the run.
    pub slots: Slots,
    /// Thresholds for the run as a whole; populations have their own.
    pub fail_if: Vec<Threshold>,
    /// How often the run has to reach what; none where that follows from the patterns.
    pub claims: Option<Claims>,
    /// How many iterations a run has to have before a claim that it misses makes its verdict unknown: zero, unless flags replace
    /// the scenario's own size.
    pub claims_from: u64,
}

/// Whom to send to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The server's endpoints.
    pub endpoint: Endpoints,
    /// The servers that the endpoint leads to, where they are several; without it there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Endpoints>,
    /// The header that carries the correlation ID besides: of each call, and of each stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_header: Option<HeaderName>,
    /// The header of responses that names the server which gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_header: Option<HeaderName>,
    /// The model's name.
    pub model: String,
    /// The version of it that requests name; none where the server takes the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ModelVersion>,
    /// Where the server tells its metrics over HTTP, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Endpoint>,
    /// Whether a model that says what it saw of each request is asked for that.
    #[serde(default = "yes")]
    pub controls: bool,
    /// What is sent with every call besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// Whom a secured endpoint has to be, and who calls there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Tls,
    /// How messages are compressed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compression: Compression,
    /// How long the making of a connection may take; without it `limits.connect_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ms: Option<Millis>,
    /// How often a connection is asked whether it is still there; without it never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_alive_ms: Option<Millis>,
    /// How long that may stay unanswered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_alive_timeout_ms: Option<Millis>,
    /// The largest message that is taken, in bytes; without it 4 MiB over gRPC and 16 MiB over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_bytes_max: Option<NonZeroU32>,
}

/// Which correlation IDs belong to which worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorrelationIds {
    /// The first ID of worker 0.
    #[serde(with = "id")]
    pub first: NonZeroU64,
    /// How many IDs belong to one worker.
    pub block: NonZeroU32,
    /// What they are on the wire, but for populations that have a form of their own.
    #[serde(default)]
    pub form: IdForm,
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
    /// How long a server that goes away is waited for; without it that is a violation at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconnect_ms: Option<Millis>,
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
    /// Whether the idle limit that the server really keeps is searched for then.
    #[serde(default)]
    pub idle_limit_search: bool,
}

impl Scenario {
    /// Reads a scenario file, completed by the default one, and puts the command line's values in place of the file's.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, has an unknown key or a value that cannot be, or when its values do
    /// not go together.
    pub fn resolve(source: &Source, overrides: Overrides) -> Result<Self, ScenarioError> {
        let mut scenario = source.parse()?;
        if source.is_a_file()
            && let Some((key, problem)) = scenario.cannot_be_sent()
        {
            return Err(source.error_at(&key, problem));
        }
        scenario.override_with(overrides);
        scenario.check().map_err(|(key, problem)| source.error_at(&key, problem))?;
        if source.is_a_file()
            && let Some(key) = source.patterns_in_vain(&scenario)
        {
            let problem =
                "nothing of it can be drawn: there are no such contexts, or an iteration goes to none of them";
            return Err(source.error_at(&key, problem.to_owned()));
        }
        Ok(scenario)
    }

    /// How many workers there are.
    pub fn workers(&self) -> u32 {
        self.populations.iter().map(|population| population.load.workers.get()).sum()
    }

    /// Whether the server may be restarted in the run, by the scenario or by somebody else.
    pub fn may_be_restarted(&self) -> bool {
        self.limits.reconnect_ms.is_some() || self.does_to_server(|action| action == ServerAction::Restart)
    }

    /// Whether the server may be restarted in the run, or its model be loaded anew.
    pub fn may_be_disturbed(&self) -> bool {
        self.limits.reconnect_ms.is_some() || self.does_to_server(|_| true)
    }

    /// Whether an instance of the model is killed in the run.
    pub fn kills_an_instance(&self) -> bool {
        self.does_to_server(ServerAction::kills)
    }

    fn does_to_server(&self, is_meant: impl Fn(ServerAction) -> bool) -> bool {
        self.phases.iter().filter_map(|phase| phase.server).any(is_meant)
    }

    /// The population that a worker is one of.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn population_of(&self, worker: u32) -> &Population {
        &self.populations[self.place_of_population(worker)]
    }

    /// Whether a population's network takes what is sent.
    pub fn has_network_that_takes(&self) -> bool {
        self.populations.iter().any(|population| population.network.takes())
    }

    /// The place of a worker's population.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn place_of_population(&self, worker: u32) -> usize {
        let mut left = worker;
        let is_its = |population: &Population| {
            let workers = population.load.workers.get();
            let is_its = left < workers;
            left = left.saturating_sub(workers);
            is_its
        };
        self.populations.iter().position(is_its).expect("one of the scenario's workers")
    }

    /// What a worker's correlation IDs are on the wire.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn id_form(&self, worker: u32) -> IdForm {
        self.form_in(self.population_of(worker))
    }

    /// The form of a population's correlation IDs.
    pub fn form_in(&self, population: &Population) -> IdForm {
        population.correlation_ids.as_ref().map_or(self.correlation_ids.form, |its| its.form)
    }

    /// All forms of correlation IDs; the looks after the run use the first.
    pub fn id_forms(&self) -> impl Iterator<Item = IdForm> {
        iter::once(self.correlation_ids.form).chain(self.populations.iter().map(|population| self.form_in(population)))
    }

    /// The phase in which a worker works; none where it works from the start.
    pub fn phase_of(&self, worker: u32) -> Option<usize> {
        self.phase_named(self.population_of(worker).phase.as_ref()?)
    }

    /// The place of the phase with this name.
    pub fn phase_named(&self, name: &str) -> Option<usize> {
        self.phases.iter().position(|phase| phase.name == name)
    }

    /// The most contexts that a worker has.
    pub fn most_contexts(&self) -> u32 {
        self.populations.iter().map(|population| population.contexts.count()).max().unwrap_or(0)
    }

    /// How many contexts all workers have together.
    pub fn contexts(&self) -> u64 {
        let of =
            |population: &Population| u64::from(population.load.workers.get()) * u64::from(population.contexts.count());
        self.populations.iter().map(of).sum()
    }

    /// The most steps of a sequence.
    pub fn longest(&self) -> u32 {
        self.populations.iter().map(|population| population.length.max.get()).max().unwrap_or(1)
    }

    /// Where a pattern is drawn, in any population.
    pub fn draws(&self, pattern: Pattern) -> Drawn {
        self.populations
            .iter()
            .map(|population| population.draws(pattern))
            .fold(Drawn::default(), |all, its| Drawn { common: all.common || its.common, rare: all.rare || its.rare })
    }

    /// The first pattern of this kind that is drawn anywhere.
    pub fn drawn(&self, is_of_kind: impl Fn(Pattern) -> bool) -> Option<Pattern> {
        Pattern::ALL.into_iter().find(|pattern| is_of_kind(*pattern) && self.draws(*pattern).anywhere())
    }

    /// Whether a pattern with this trait is drawn anywhere.
    pub fn draws_any(&self, its: Trait) -> bool {
        self.populations.iter().any(|population| population.draws_any(its))
    }

    /// Gives the scenario so many workers, and so many contexts to each. Where there are several versions of the model, each keeps its
    /// workers.
    ///
    /// # Errors
    /// When that is more than a scenario may have.
    pub fn fit(&mut self, workers: u32, contexts: u32) -> Result<(), String> {
        let none = || "there are none".to_owned();
        self.phases.clear();
        if self.has_several_versions() {
            if workers > self.workers() {
                return Err(format!("{workers} workers are more than the {} of all populations", self.workers()));
            }
        } else {
            self.populations.truncate(1);
            self.populations[0].load.workers = NonZeroU32::new(workers).ok_or_else(none)?;
        }
        for population in &mut self.populations {
            population.phase = None;
            population.contexts = Contexts { common: contexts, rare: 0, rare_probability: Probability(0.0) };
        }
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

    /// What does not go together, by key.
    fn check(&self) -> Result<(), (String, String)> {
        let at = |key: &str, problem: String| Err((key.to_owned(), problem));
        if self.populations.is_empty() {
            return at("population", "there is none".to_owned());
        }
        if self.populations.len() > POPULATIONS_MAX {
            return at("population", format!("{} are more than {POPULATIONS_MAX}", self.populations.len()));
        }
        let is_one_of_several = self.populations.len() > 1;
        let mut workers = 0_u32;
        for (index, population) in self.populations.iter().enumerate() {
            let is_listed = is_one_of_several || !population.name.is_empty();
            let place = |key: &str| if is_listed { format!("population[{index}].{key}") } else { key.to_owned() };
            if is_one_of_several && population.name.is_empty() {
                return at(&place("name"), "a population among others needs a name".to_owned());
            }
            if self.populations[..index].iter().any(|other| other.name == population.name) {
                return at(&place("name"), format!("there are two populations '{}'", population.name));
            }
            workers = workers.saturating_add(population.load.workers.get());
            if workers > WORKERS_MAX {
                return at(&place("load.workers"), format!("{workers} is more than {WORKERS_MAX}"));
            }
            population.check(self.correlation_ids.block).map_err(|(key, problem)| (place(key), problem))?;
        }
        self.check_phases()?;
        self.check_thresholds()?;
        if self.slots.max.get() > SLOTS_MAX {
            return at("slots.max", format!("{} is more than {SLOTS_MAX}", self.slots.max));
        }
        if self.target.model.is_empty() {
            return at("target.model", "the name is empty".into());
        }
        if self.target.model.len() > MODEL_NAME_MAX {
            return at("target.model", format!("the name has more than {MODEL_NAME_MAX} bytes"));
        }
        self.check_versions()?;
        self.target.check_access()?;
        self.target.check_replicas(self.phases.iter().any(Phase::manages))?;
        if self.last_id().is_none() {
            let CorrelationIds { first, block, .. } = self.correlation_ids;
            let (workers, largest) = (self.workers(), u64::MAX);
            let problem = format!("{workers} blocks of {block} IDs from {first} on go past the largest ID, {largest}");
            return at("correlation_ids", problem);
        }
        let contexts = self.contexts();
        if contexts > CONTEXTS_MAX {
            return at("contexts", format!("{contexts} contexts of all workers are more than {CONTEXTS_MAX}"));
        }
        Ok(())
    }

    fn check_phases(&self) -> Result<(), (String, String)> {
        if self.phases.len() > PHASES_MAX {
            return Err(("phase".to_owned(), format!("{} are more than {PHASES_MAX}", self.phases.len())));
        }
        for (index, population) in self.populations.iter().enumerate() {
            let Some(name) = population.phase.as_ref().filter(|name| self.phase_named(name).is_none()) else {
                continue;
            };
            let names: Vec<_> = self.phases.iter().map(|phase| phase.name.as_str()).collect();
            let problem = match names.as_slice() {
                [] => format!("there is no phase '{name}': the file has no [[phase]]"),
                names => format!("there is no phase '{name}', but {}", names.join(", ")),
            };
            return Err((format!("population[{index}].phase"), problem));
        }
        if self.limits.reconnect_ms.is_some() && self.does_to_server(|_| true) {
            let problem = "a phase restarts the server or reloads the model, so a server that is away cannot be told from that: leave it out";
            return Err(("limits.reconnect_ms".to_owned(), problem.to_owned()));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let Phase { name, pause_ms, server, other_model } = phase;
            let has_workers = self.populations.iter().any(|population| population.phase.as_deref() == Some(name));
            if other_model.as_ref().is_some_and(|other| other.is_empty() || *other == self.target.model) {
                let problem = "it names a model other than the tested one, which the tool unloads and loads";
                return Err((format!("phase[{index}].other_model"), problem.to_owned()));
            }
            let problem = if name.is_empty() {
                "a phase needs a name".to_owned()
            } else if self.phase_named(name) != Some(index) {
                format!("there are two phases '{name}'")
            } else if other_model.is_some() && !has_workers {
                format!("phase '{name}' loads another model while its workers run, and no population names it")
            } else if pause_ms.is_none() && server.is_none() && !has_workers {
                format!(
                    "in phase '{name}' nothing happens: no population names it, and it has no pause_ms and no server"
                )
            } else {
                continue;
            };
            return Err((format!("phase[{index}].name"), problem));
        }
        Ok(())
    }

    /// The last correlation ID that the workers may use.
    pub fn last_correlation_id(&self) -> u64 {
        self.last_id().unwrap_or(u64::MAX)
    }

    fn last_id(&self) -> Option<u64> {
        let CorrelationIds { first, block, .. } = self.correlation_ids;
        first.get().checked_add(u64::from(self.workers()) * u64::from(block.get()) - 1)
    }
}

#[cfg(test)]
mod tests;
