//! What is known of the model under test.

mod settings;

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    arithmetic::Arithmetic,
    controls::Controls,
    inputs::{Sent, Values},
    number::Datatype,
    said::yes,
    tensor::{Shape, TensorSpec},
    version::ModelVersion,
};

pub use settings::{Chain, ChainStep, Link, Settings};

/// What the reference server calls itself in its metadata.
pub const REFERENCE_SERVER: &str = "sequence-stress";

/// How the sequence batcher puts sequences into batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// A sequence has a fixed slot of the batch.
    #[default]
    Direct,
    /// Candidate sequences take part in dynamic batches.
    Oldest,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "Direct",
            Self::Oldest => "Oldest",
        })
    }
}

/// What a model's statistics say of requests, or how far they rose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Requests that succeeded.
    pub success: u64,
    /// Requests that failed.
    pub fail: u64,
    /// Inferences.
    pub inference: u64,
    /// Executions, each of one batch.
    pub execution: u64,
}

/// What a model's statistics say, its versions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Requests, inferences and executions.
    pub counted: Counted,
    /// How long its requests took.
    pub spent: Spent,
}

impl Statistics {
    /// Those of two servers together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.counted.success += other.counted.success;
        self.counted.fail += other.counted.fail;
        self.counted.inference += other.counted.inference;
        self.counted.execution += other.counted.execution;
        self.spent += other.spent;
        self
    }
}

/// How long the requests that succeeded took in the server, all together, as a model's statistics say, or how far that rose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// From when the server took them in to the end of their responses.
    #[serde(rename = "request_us", with = "crate::micros::OfNs")]
    pub request_ns: u64,
    /// Of this, until the model began with their batch.
    #[serde(rename = "queue_us", with = "crate::micros::OfNs")]
    pub queue_ns: u64,
    /// Until the model had its inputs.
    #[serde(rename = "compute_input_us", with = "crate::micros::OfNs")]
    pub compute_input_ns: u64,
    /// Until it had computed.
    #[serde(rename = "compute_infer_us", with = "crate::micros::OfNs")]
    pub compute_infer_ns: u64,
    /// Until its outputs were there.
    #[serde(rename = "compute_output_us", with = "crate::micros::OfNs")]
    pub compute_output_ns: u64,
}

impl Spent {
    /// The same in whole µs, as files have it.
    #[must_use]
    pub fn whole_us(self) -> Self {
        let whole = |ns: u64| ns / 1000 * 1000;
        Self {
            request_ns: whole(self.request_ns),
            queue_ns: whole(self.queue_ns),
            compute_input_ns: whole(self.compute_input_ns),
            compute_infer_ns: whole(self.compute_infer_ns),
            compute_output_ns: whole(self.compute_output_ns),
        }
    }

    /// How long the model computed with its inputs and outputs, in ns.
    pub fn compute_ns(&self) -> u64 {
        self.compute_input_ns + self.compute_infer_ns + self.compute_output_ns
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.request_ns += other.request_ns;
        self.queue_ns += other.queue_ns;
        self.compute_input_ns += other.compute_input_ns;
        self.compute_infer_ns += other.compute_infer_ns;
        self.compute_output_ns += other.compute_output_ns;
    }
}

impl Statistics {
    /// How far they rose since `before`; none where one fell, as all do when a model is loaded anew.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let (now, then) = (&self.counted, &before.counted);
        let counted = Counted {
            success: now.success.checked_sub(then.success)?,
            fail: now.fail.checked_sub(then.fail)?,
            inference: now.inference.checked_sub(then.inference)?,
            execution: now.execution.checked_sub(then.execution)?,
        };
        let (now, then) = (&self.spent, &before.spent);
        let spent = Spent {
            request_ns: now.request_ns.checked_sub(then.request_ns)?,
            queue_ns: now.queue_ns.checked_sub(then.queue_ns)?,
            compute_input_ns: now.compute_input_ns.checked_sub(then.compute_input_ns)?,
            compute_infer_ns: now.compute_infer_ns.checked_sub(then.compute_infer_ns)?,
            compute_output_ns: now.compute_output_ns.checked_sub(then.compute_output_ns)?,
        };
        Some(Self { counted, spent })
    }
}

/// As what a model is told correlation IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToldIds {
    /// Not at all, or it is not known.
    #[default]
    None,
    /// Integers of some size.
    Integers,
    /// Texts.
    Texts,
}

/// How requests of several sequences are executed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Batching {
    /// How many instances take requests.
    pub instances: u32,
    /// The most requests of one execution.
    pub largest: u32,
}

impl Batching {
    /// How many requests all instances execute at a time.
    pub fn executed_at_once(self) -> u32 {
        self.instances.saturating_mul(self.largest)
    }
}

impl Default for Batching {
    fn default() -> Self {
        Self { instances: 1, largest: 1 }
    }
}

/// How long a step may wait for its turn in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// How many executions may come before a step's own because more sequences have a slot than are executed at a time.
    pub executions_before: u32,
    /// How long the scheduler may hold each batch back for more requests.
    pub queue_delay: Duration,
    /// For how long a sequence may wait, with a slot in one model of an ensemble, for slots in the others.
    #[serde(default)]
    pub between_models: Duration,
}

/// How many slots a model has in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlotRange {
    /// The fewest.
    pub fewest: u32,
    /// The most.
    pub most: u32,
}

/// The model under test, as the server and the command line tell it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// The model's name.
    pub name: String,
    /// The version of it that requests name; none where they leave that to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_version: Option<ModelVersion>,
    /// Which of its versions answers, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The server's name and version, as far as it tells.
    pub server: Option<String>,
    /// The input that steps go to.
    pub input: TensorSpec,
    /// The output that sums come from.
    pub output: TensorSpec,
    /// The shape that is sent, of input and output alike.
    #[schemars(with = "Vec<i64>")]
    pub shape: Shape,
    /// The models that it is made of, where it is an ensemble.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The model that its program calls for each request, where it calls one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<String>,
    /// What the model computes.
    #[serde(flatten)]
    pub arithmetic: Arithmetic,
    /// The sequence batcher's strategy, where it is known.
    pub strategy: Option<Strategy>,
    /// How many sequences can have a slot at a time, where it is known.
    pub slots: Option<u32>,
    /// How that changes in a run that loads the model with another strategy; none where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_in_phases: Option<SlotRange>,
    /// How its requests are executed together, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batching: Option<Batching>,
    /// The idle limit, where it is known.
    #[schemars(with = "Option<u64>")]
    #[serde(rename = "idle_limit_us", serialize_with = "micros", deserialize_with = "from_micros")]
    pub idle_limit: Option<Duration>,
    /// How long the model says that it takes to execute.
    #[schemars(with = "u64")]
    #[serde(rename = "execution_us", serialize_with = "micros", deserialize_with = "from_some_micros")]
    pub execution: Duration,
    /// How long a step may take in the server besides that: the scheduler's delay, and its turn among the slots.
    #[serde(skip)]
    pub turn: Turn,
    /// As what the model is told correlation IDs.
    #[serde(default)]
    pub told_ids: ToldIds,
    /// Whether a request could have several elements in one batch, if the sequence batcher allowed it.
    #[serde(default = "yes")]
    pub batches: bool,
    /// Why two sequences of one ID that are live at once would be mixed by the model itself; none where they are not.
    pub mixes_pipelined: Option<Cow<'static, str>>,
    /// Whether the server keeps the number of a sequence's steps besides its sum, so that it may take one for the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_count: bool,
    /// What it is told, where it says what it saw of each request and is asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controls: Option<Controls>,
    /// What it is sent and asked for, where no formula says what it computes.
    #[serde(skip)]
    pub tensors: Option<Arc<Tensors>>,
}

/// What a model without a formula is sent, and asked for.
#[derive(Debug)]
pub struct Tensors {
    /// The inputs, and how fast they are sent.
    pub sent: Sent,
    /// The names of the outputs.
    pub outputs: Vec<String>,
}

impl Model {
    /// What the tool's own sequences send to it.
    pub fn values(&self) -> Values {
        Values::new(self.arithmetic, self.tensors.as_ref().map(|tensors| Arc::clone(&tensors.sent.inputs)))
    }

    /// How many slots it has at all times of the run, at least.
    pub fn fewest_slots(&self) -> Option<u32> {
        self.slots_in_phases.map(|slots| slots.fewest).or(self.slots)
    }

    /// How many slots it has at any time of the run, at most.
    pub fn most_slots(&self) -> Option<u32> {
        self.slots_in_phases.map(|slots| slots.most).or(self.slots)
    }

    /// Whether a decoupled model can be asked for a last response even where there is nothing in it: what older servers do not
    /// know of they reject.
    pub fn asks_for_the_last(&self) -> bool {
        self.minor_of_triton().is_none_or(|minor| minor >= LAST_IS_ASKED_FOR_SINCE)
    }

    /// Whether the server knows of streams that errors end ([`crate::conversation::Transport::ends_with_errors`]). What does not know it ignores the wish.
    pub fn may_end_streams_with_errors(&self) -> bool {
        self.minor_of_triton().is_none_or(|minor| minor >= ERRORS_END_STREAMS_SINCE)
    }

    fn minor_of_triton(&self) -> Option<u32> {
        self.server.as_deref()?.strip_prefix("triton 2.")?.split('.').next()?.parse().ok()
    }

    /// The name and the type of the input.
    pub fn input(&self) -> (&str, Datatype) {
        (&self.input.name, self.arithmetic.datatype)
    }

    /// The outputs that each request asks for.
    pub fn outputs(&self) -> Vec<&str> {
        if let Some(tensors) = &self.tensors {
            return tensors.outputs.iter().map(String::as_str).collect();
        }
        let seen = self.controls.iter().map(|controls| controls.output.as_str());
        std::iter::once(self.output.name.as_str()).chain(seen).collect()
    }
}

/// The first Triton server 2 that knows `triton_grpc_error`, of release 24.08.
const ERRORS_END_STREAMS_SINCE: u32 = 49;
/// The Triton server 2 that certainly knows `triton_enable_empty_final_response`; 2.33 rejects it.
const LAST_IS_ASKED_FOR_SINCE: u32 = 36;

fn micros<T: Copy + Into<Option<Duration>>, S: Serializer>(time: &T, serializer: S) -> Result<S::Ok, S::Error> {
    (*time).into().map(|time| time.as_micros()).serialize(serializer)
}

fn from_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(Duration::from_micros))
}

fn from_some_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_know_streams_that_errors_end_since_24_08() {
        for (server, knows) in [
            (Some("triton 2.48.0"), false),
            (Some("triton 2.49.0"), true),
            (Some("sequence-stress 0.1.0"), true),
            (Some("hybrid-26.08 2.51.0"), true),
            (None, true),
        ] {
            let model = Model { server: server.map(str::to_owned), ..Model::default() };
            assert_eq!(model.may_end_streams_with_errors(), knows, "{server:?}");
        }
    }
}
