//! How often each pattern is drawn.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap as _,
};

use super::Weight;
use crate::{keys, sequence::Pattern};

/// The relative weight of each pattern; what a file leaves out has weight 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights([Weight; Pattern::ALL.len()]);

impl Weights {
    /// The weights in the order of [`Pattern::ALL`].
    #[must_use]
    pub fn in_order(&self) -> [f64; Pattern::ALL.len()] {
        std::array::from_fn(|index| self.0[index].0)
    }

    /// The weight of one pattern.
    #[must_use]
    pub fn of(&self, pattern: Pattern) -> f64 {
        self.0[pattern.index()].0
    }
}

/// A pattern as the key of a table.
struct Key(Pattern);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        keys::place(deserializer, "pattern", Pattern::NAMES).map(|place| Self(Pattern::ALL[place]))
    }
}

impl<'de> Deserialize<'de> for Weights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = Weights;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of patterns and their weights")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Weights, A::Error> {
                let mut weights = Weights::default();
                while let Some(Key(pattern)) = map.next_key()? {
                    weights.0[pattern.index()] = map.next_value()?;
                }
                Ok(weights)
            }
        }
        deserializer.deserialize_map(Table)
    }
}

impl Serialize for Weights {
    /// Patterns of weight 0 are left out, but for those of Triton's own stress test.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for pattern in Pattern::ALL {
            if self.of(pattern) > 0.0 || pattern.is_of_triton() {
                map.serialize_entry(pattern.name(), &self.0[pattern.index()])?;
            }
        }
        map.end()
    }
}
