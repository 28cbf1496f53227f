//! How often each pattern is drawn.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Weight;
use crate::{
    keys,
    sequence::{Pattern, Trait::OfTriton},
};

/// The relative weight of each pattern; what a file leaves out has weight 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights([Weight; Pattern::ALL.len()]);

impl Weights {
    /// The weight of one pattern.
    pub fn of(&self, pattern: Pattern) -> f64 {
        self.0[pattern.index()].0
    }
}

impl<'de> Deserialize<'de> for Weights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        keys::table(deserializer, "a table of patterns and their weights", "pattern", Pattern::NAMES).map(Self)
    }
}

impl Serialize for Weights {
    /// Patterns of weight 0 are left out, but for those of Triton's own stress test.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let weights = Pattern::ALL.into_iter().zip(self.0);
        serializer.collect_map(weights.filter(|(pattern, weight)| weight.0 > 0.0 || pattern.has(OfTriton)))
    }
}
