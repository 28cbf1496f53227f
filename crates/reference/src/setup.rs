//! How the server is, as files say it and as a run with the same server needs it.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::{Like, Options, Planted, When};
use models::ModelOptions;
use workload::{model::Strategy, seed::Seed, time};

/// What makes a server answer as another one: all of its options but where it listens and how many threads serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerSetup {
    /// The strategy of the models whose name does not say it.
    pub strategy: Strategy,
    /// How long a sequence may be idle.
    #[serde(with = "time")]
    pub idle_limit: Duration,
    /// Versions of each model.
    #[serde(skip_serializing_if = "is_one")]
    pub versions: u32,
    /// Instances of each model.
    pub instances: u32,
    /// The most requests of one execution, which with Direct are the slots of an instance.
    pub max_batch_size: u32,
    /// With Oldest, the slots of an instance; as many as `max_batch_size` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u32>,
    /// How long one execution takes; whole milliseconds.
    #[serde(with = "time")]
    pub execution_time: Duration,
    /// How long the scheduler may hold a batch back.
    #[serde(with = "time")]
    pub queue_delay: Duration,
    /// With Direct: the share of slots for which no batch is held back.
    #[serde(serialize_with = "share")]
    pub minimum_slot_utilization: f32,
    /// With Oldest: batch sizes for which no batch is held back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred_batch_size: Vec<u32>,
    /// Which release of Triton it is like.
    pub like: Like,
    /// The age at which a gRPC connection's client is told to go away, if it ever is.
    #[serde(with = "time::optional", skip_serializing_if = "Option::is_none")]
    pub grpc_max_connection_age: Option<Duration>,
    /// The faults that it commits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<Planted>,
    /// What decides when those with a probability happen.
    #[serde(with = "workload::wide")]
    pub fault_seed: u64,
    /// For how long a fault holds up what it makes late.
    #[serde(with = "time")]
    pub fault_hold: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// The shortest decimal number, as people write it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn share<S: Serializer>(share: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(share.to_string().parse().expect("a number as it is shown is one"))
}

impl Default for ServerSetup {
    fn default() -> Self {
        let options = Options::default();
        let models = options.models;
        Self {
            strategy: models.strategy,
            idle_limit: models.idle_limit,
            versions: models.versions,
            instances: models.instances,
            max_batch_size: models.max_batch_size,
            candidates: None,
            execution_time: models.execution,
            queue_delay: models.queue_delay,
            minimum_slot_utilization: models.minimum_slot_utilization,
            preferred_batch_size: models.preferred_batch_sizes,
            like: options.like,
            grpc_max_connection_age: options.max_connection_age,
            fault: options.faults,
            fault_seed: options.fault_seed.0,
            fault_hold: options.fault_hold,
        }
    }
}

impl ServerSetup {
    /// Whether a planted fault holds something up.
    pub fn holds_up(&self) -> bool {
        self.fault.iter().any(|planted| planted.fault.holds_up())
    }

    /// Whether chance decides when a planted fault happens.
    pub fn draws_faults(&self) -> bool {
        let is_drawn = |when| matches!(when, When::Probability(odds) if odds > 0.0 && odds < 1.0);
        self.fault.iter().any(|planted| is_drawn(planted.when))
    }
}

impl From<ServerSetup> for Options {
    fn from(setup: ServerSetup) -> Self {
        let models = ModelOptions {
            strategy: setup.strategy,
            versions: setup.versions,
            instances: setup.instances,
            max_batch_size: setup.max_batch_size,
            candidates: setup.candidates.unwrap_or(setup.max_batch_size),
            idle_limit: setup.idle_limit,
            execution: setup.execution_time,
            queue_delay: setup.queue_delay,
            minimum_slot_utilization: setup.minimum_slot_utilization,
            preferred_batch_sizes: setup.preferred_batch_size,
        };
        Self {
            models,
            faults: setup.fault,
            fault_seed: Seed(setup.fault_seed),
            fault_hold: setup.fault_hold,
            like: setup.like,
            max_connection_age: setup.grpc_max_connection_age,
            ..Self::default()
        }
    }
}
