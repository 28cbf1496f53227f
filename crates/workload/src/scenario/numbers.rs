//! Numbers that cannot be wrong once they are read.

use std::{fmt, num::NonZeroU32, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Unexpected, Visitor},
};

/// A relative weight: finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Weight(pub f64);

impl TryFrom<f64> for Weight {
    type Error = String;

    fn try_from(weight: f64) -> Result<Self, String> {
        if weight.is_finite() && weight >= 0.0 {
            Ok(Self(weight))
        } else {
            Err(format!("{weight} is no weight: it has to be a number from 0 up"))
        }
    }
}

/// A probability, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Probability(pub f64);

impl TryFrom<f64> for Probability {
    type Error = String;

    fn try_from(odds: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&odds) {
            Ok(Self(odds))
        } else {
            Err(format!("{odds} is no probability: it has to be from 0 to 1"))
        }
    }
}

/// A time in milliseconds, above zero and at most a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Millis(u64);

impl Millis {
    /// A year.
    pub const MAX: u64 = 365 * 24 * 3600 * 1000;
    /// The shortest time.
    pub const LEAST: Self = Self(1);
    /// A second.
    pub const SECOND: Self = Self(1000);

    /// The time as the standard library has it.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl TryFrom<u64> for Millis {
    type Error = String;

    fn try_from(ms: u64) -> Result<Self, String> {
        if (1..=Self::MAX).contains(&ms) {
            Ok(Self(ms))
        } else {
            Err(format!("{ms} ms cannot be: it has to be from 1 ms to a year, {} ms", Self::MAX))
        }
    }
}

/// A normal distribution, with finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawNormal")]
pub struct Normal {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation, not negative.
    pub stdev: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNormal {
    mean: f64,
    stdev: f64,
}

impl TryFrom<RawNormal> for Normal {
    type Error = String;

    fn try_from(RawNormal { mean, stdev }: RawNormal) -> Result<Self, String> {
        if !mean.is_finite() {
            return Err(format!("the mean {mean} is not a finite number"));
        }
        if !(stdev.is_finite() && stdev >= 0.0) {
            return Err(format!("the stdev {stdev} is not a finite number from 0 up"));
        }
        Ok(Self { mean, stdev })
    }
}

/// A uniform distribution over whole numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawUniform<T>", bound(deserialize = "T: Deserialize<'de> + PartialOrd + fmt::Display"))]
pub struct Uniform<T> {
    /// The least value.
    pub min: T,
    /// The greatest value.
    pub max: T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUniform<T> {
    min: T,
    max: T,
}

impl<T: PartialOrd + fmt::Display> TryFrom<RawUniform<T>> for Uniform<T> {
    type Error = String;

    fn try_from(RawUniform { min, max }: RawUniform<T>) -> Result<Self, String> {
        if min <= max { Ok(Self { min, max }) } else { Err(format!("min {min} is above max {max}")) }
    }
}

/// How many steps of a sequence may be unanswered at a time: a number, or `"all"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Every step is sent without waiting.
    All,
    /// At most this many are unanswered.
    Steps(NonZeroU32),
}

impl Window {
    /// Whether one more step may be sent while this many are unanswered.
    pub fn has_room(self, unanswered: usize) -> bool {
        match self {
            Self::All => true,
            Self::Steps(most) => unanswered < most.get() as usize,
        }
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Steps(most) => most.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText {
            expected: "\"all\" or a whole number above 0",
            of_number: |steps| u32::try_from(steps).ok().and_then(NonZeroU32::new).map(Self::Steps),
            of_text: |text| (text == "all").then_some(Self::All),
        })
    }
}

/// Reads a value that is a whole number in a file, or a text.
pub(super) struct NumberOrText<T> {
    pub(super) expected: &'static str,
    pub(super) of_number: fn(u64) -> Option<T>,
    pub(super) of_text: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        (self.of_number)(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let value = u64::try_from(number).ok().and_then(self.of_number);
        value.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.of_text)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}
