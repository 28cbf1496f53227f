//! How long a population's sequences may take, beyond what a correct server has to keep.

use std::{collections::BTreeMap, fmt};

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

impl Thresholds {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequence_ms.is_empty() && self.slot_wait_ms.is_empty()
    }
}

/// A share of many that take no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Percentile {
    /// Half of them.
    #[serde(rename = "p50")]
    P50,
    /// Nine in ten.
    #[serde(rename = "p90")]
    P90,
    /// All but one in a hundred.
    #[serde(rename = "p99")]
    P99,
    /// All but one in a thousand.
    #[serde(rename = "p99_9")]
    P999,
    /// All of them.
    #[serde(rename = "max")]
    Max,
}

impl Percentile {
    /// The share, from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P90 => 0.9,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
            Self::Max => 1.0,
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
        })
    }
}
