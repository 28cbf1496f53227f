//! A model's configuration, as the server tells it.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::parameters::Parameter;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) name: String,
    pub(super) max_batch_size: i64,
    pub(super) input: Vec<TensorConfig>,
    pub(super) output: Vec<TensorConfig>,
    pub(super) sequence_batching: Option<Batching>,
    pub(super) parameters: BTreeMap<String, Parameter>,
    pub(super) model_transaction_policy: TransactionPolicy,
}

#[derive(Deserialize)]
pub(super) struct TensorConfig {
    pub(super) name: String,
    pub(super) data_type: String,
    #[serde(default, deserialize_with = "sizes")]
    pub(super) dims: Vec<i64>,
    pub(super) reshape: Option<serde::de::IgnoredAny>,
}

/// Sizes, which protobuf writes as texts and the server as numbers.
fn sizes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<i64>, D::Error> {
    let read = |size: &Value| size.as_i64().or_else(|| size.as_str()?.parse().ok());
    let sizes: Vec<Value> = Vec::deserialize(from)?;
    sizes.iter().map(|size| read(size).ok_or_else(|| D::Error::custom(format!("{size} is no size")))).collect()
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TransactionPolicy {
    pub(super) decoupled: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Batching {
    pub(super) oldest: Option<serde::de::IgnoredAny>,
    pub(super) control_input: Vec<ControlInput>,
    pub(super) state: Vec<StateConfig>,
    pub(super) iterative_sequence: bool,
}

#[derive(Deserialize)]
pub(super) struct ControlInput {
    pub(super) name: String,
    #[serde(default)]
    pub(super) control: Vec<Control>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Control {
    pub(super) kind: Option<String>,
    pub(super) int32_false_true: Vec<i32>,
    pub(super) fp32_false_true: Vec<f32>,
    pub(super) bool_false_true: Vec<bool>,
    pub(super) data_type: String,
}

#[derive(Deserialize)]
pub(super) struct StateConfig {
    pub(super) input_name: String,
    pub(super) output_name: String,
    pub(super) data_type: String,
    #[serde(default, deserialize_with = "sizes")]
    pub(super) dims: Vec<i64>,
    #[serde(default)]
    pub(super) initial_state: Vec<serde::de::IgnoredAny>,
}
