//! Times in files have one unit: microseconds. The program counts some in milliseconds and some in nanoseconds.

use schemars::JsonSchema;
use serde::{Deserializer, Serialize, Serializer, de::DeserializeOwned};

/// A time, or one that there may not be.
pub trait Time: Copy + Serialize + DeserializeOwned {
    /// The same in another unit.
    fn convert(self, to: fn(u64) -> u64) -> Self;
}

impl Time for u64 {
    fn convert(self, to: fn(u64) -> u64) -> Self {
        to(self)
    }
}

impl Time for Option<u64> {
    fn convert(self, to: fn(u64) -> u64) -> Self {
        self.map(to)
    }
}

macro_rules! microseconds {
    ($(#[$doc:meta])* $name:ident, $of:expr, $to:expr) => {
        $(#[$doc])*
        #[derive(JsonSchema)]
        #[schemars(inline, transparent)]
        pub struct $name<T = u64>(T);

        impl<T: Time> $name<T> {
            /// For serde's `with`.
            ///
            /// # Errors
            /// Those of the serializer.
            pub fn serialize<S: Serializer>(time: &T, serializer: S) -> Result<S::Ok, S::Error> {
                time.convert($to).serialize(serializer)
            }

            /// For serde's `with`.
            ///
            /// # Errors
            /// Those of the deserializer.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
                Ok(T::deserialize(deserializer)?.convert($of))
            }
        }
    };
}

microseconds! {
    /// A time that the program counts in milliseconds.
    OfMs, |us| us / 1000, |ms| ms.saturating_mul(1000)
}
microseconds! {
    /// A time that the program counts in nanoseconds; a file has it cut to microseconds.
    OfNs, |us| us.saturating_mul(1000), |ns| ns / 1000
}

#[cfg(test)]
mod tests {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Times {
        #[serde(rename = "waited_us", with = "super::OfMs")]
        waited_ms: u64,
        #[serde(rename = "limit_us", with = "super::OfMs::<Option<u64>>")]
        limit_ms: Option<u64>,
        #[serde(rename = "at_us", with = "super::OfNs")]
        at_ns: u64,
    }

    #[test]
    fn times_are_written_and_read_as_microseconds() {
        for (limit_ms, limit) in [(Some(3), "3000"), (None, "null")] {
            let times = Times { waited_ms: 20, limit_ms, at_ns: 5000 };
            let text = serde_json::to_string(&times).expect("JSON");
            assert_eq!(text, format!("{{\"waited_us\":20000,\"limit_us\":{limit},\"at_us\":5}}"));
            assert_eq!(serde_json::from_str::<Times>(&text).expect("times"), times);
        }
    }
}
