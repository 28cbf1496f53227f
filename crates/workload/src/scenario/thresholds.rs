//! How long a population's sequences may take, beyond what a correct server has to keep.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Millis;

/// How long sequences may take, by percentile; one that is exceeded is a missed threshold, and no violation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// From sending the first step to the answer to the last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sequence_ms: BTreeMap<Percentile, Millis>,
    /// From sending a START to its answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slot_wait_ms: BTreeMap<Percentile, Millis>,
}

table! {
    /// A share of many that take no longer.
    pub enum Percentile: f64 {
        /// Half of them.
        P50 = "p50", 0.5;
        /// Nine in ten.
        P90 = "p90", 0.9;
        /// All but one in a hundred.
        P99 = "p99", 0.99;
        /// All but one in a thousand.
        P999 = "p99_9", 0.999;
        /// All of them.
        Max = "max", 1.0;
    }
}

impl Percentile {
    /// The share, from 0 to 1.
    pub fn share(self) -> f64 {
        *self.row()
    }
}
