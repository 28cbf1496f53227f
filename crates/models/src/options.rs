//! What models of all families have in common.

use std::time::Duration;

use formats::element::ElementType;

use super::dtype::Dtype;
use workload::model::Strategy;

/// The shapes and limits of models.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOptions {
    /// The strategy of the models whose name does not say it.
    pub strategy: Strategy,
    /// Versions of each model, all of which the server is to serve.
    pub versions: u32,
    /// Instances of each model.
    pub instances: u32,
    /// The most requests of one execution, which with Direct are the slots of an instance.
    pub max_batch_size: u32,
    /// With Oldest, the slots of an instance.
    pub candidates: u32,
    /// How long a sequence may be idle.
    pub idle_limit: Duration,
    /// How long one execution takes; whole milliseconds.
    pub execution: Duration,
    /// How long the scheduler may hold a batch back.
    pub queue_delay: Duration,
    /// With Direct: the share of slots for which no batch is held back.
    pub minimum_slot_utilization: f32,
    /// With Oldest: batch sizes for which no batch is held back.
    pub preferred_batch_sizes: Vec<u32>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            strategy: Strategy::Direct,
            versions: 1,
            instances: 1,
            max_batch_size: 8,
            candidates: 8,
            idle_limit: Duration::from_secs(1),
            execution: Duration::from_millis(3),
            queue_delay: Duration::ZERO,
            minimum_slot_utilization: 0.0,
            preferred_batch_sizes: Vec::new(),
        }
    }
}

/// The type of START, END and READY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ControlType {
    /// 0 and 1.
    Int32,
    /// 0.0 and 1.0.
    Fp32,
    /// False and true.
    Bool,
}

impl ControlType {
    pub(super) fn element(self) -> ElementType {
        match self {
            Self::Int32 => ElementType::Int32,
            Self::Fp32 => ElementType::Fp32,
            Self::Bool => ElementType::Bool,
        }
    }
}

/// The type of CORRID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "their names say it")]
pub enum CorridType {
    Int32,
    Uint32,
    Int64,
    Uint64,
    String,
}

impl CorridType {
    pub(super) fn dtype(self) -> Dtype {
        match self {
            Self::Int32 => Dtype::Int32,
            Self::Uint32 => Dtype::Uint32,
            Self::Int64 => Dtype::Int64,
            Self::Uint64 => Dtype::Uint64,
            Self::String => Dtype::Object,
        }
    }
}

/// A further part of a configuration. It changes how the server runs a model, and not what the model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Extra {
    /// The server sends each instance a request of zeros before the model is ready.
    Warmup,
    /// With `--rate-limit=execution_count`, an execution waits for the one resource of its instances.
    RateLimiter,
    /// With Oldest: responses come in the order of the requests.
    PreserveOrdering,
    /// The model goes before others.
    Priority,
}

impl Extra {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Warmup, Self::RateLimiter, Self::PreserveOrdering, Self::Priority];
}

/// What a new sequence's state is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InitialState {
    /// Nothing that models may rely on; state that models keep themselves begins with 0.
    #[default]
    None,
    /// 0, which the server gives.
    Zero,
    /// A number that is not 0, which a file of the server's has.
    File {
        /// The bytes of the file; those of a remarkable number where nobody gave any.
        data: Option<Vec<u8>>,
    },
}

/// What models are to be like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Shapes and limits.
    pub models: ModelOptions,
    /// The strategy of all models, whatever their names say.
    pub strategy: Option<Strategy>,
    /// The type of START, END and READY; none is the one that the data type says.
    pub control: Option<ControlType>,
    /// The type of CORRID; none is the one that the backend has.
    pub corrid: Option<CorridType>,
    /// Parameters for all configurations, which stand before what they would have.
    pub parameters: Vec<(String, String)>,
    /// Further parts of all configurations.
    pub extras: Vec<Extra>,
    /// What names begin with in place of what the backend says.
    pub prefix: Option<String>,
    /// Whether names say nothing of where state is kept, what it begins with and of any number of elements: Triton has such models in
    /// repositories of their own.
    pub plain_names: bool,
    /// The release of the server that they are for, YEAR.MONTH.
    pub release: Option<String>,
    /// How many elements INPUT and OUTPUT of networks have; none is 16.
    pub network_width: Option<u32>,
}

/// How many elements INPUT and OUTPUT of networks have where nobody says it.
pub(super) const NETWORK_WIDTH: u32 = 16;
