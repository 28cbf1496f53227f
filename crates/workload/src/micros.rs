//! Times in files have one unit: microseconds. The program counts some in milliseconds and some in nanoseconds.
//!
//! The modules are for serde's `with`. Their errors are those of the serializer and the deserializer.

#![expect(clippy::missing_errors_doc, reason = "serde's")]

/// A time, or a time that there may be none of.
pub trait Time: Copy {
    /// The same in another unit.
    fn map(self, unit: impl FnOnce(u64) -> u64) -> Self;
}

impl Time for u64 {
    fn map(self, unit: impl FnOnce(u64) -> u64) -> Self {
        unit(self)
    }
}

impl Time for Option<u64> {
    fn map(self, unit: impl FnOnce(u64) -> u64) -> Self {
        self.map(unit)
    }
}

macro_rules! microseconds {
    ($(#[$doc:meta])* $name:ident, $of:expr, $to:expr) => {
        $(#[$doc])*
        pub mod $name {
            use super::Time;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            /// Writes a time, or none.
            pub fn serialize<T: Time + Serialize, S: Serializer>(time: &T, serializer: S) -> Result<S::Ok, S::Error> {
                time.map($to).serialize(serializer)
            }

            /// Reads a time, or none.
            pub fn deserialize<'de, T: Time + Deserialize<'de>, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<T, D::Error> {
                Ok(T::deserialize(deserializer)?.map($of))
            }
        }
    };
}

microseconds! {
    /// A time that the program counts in milliseconds.
    of_ms, |us| us / 1000, |ms| ms.saturating_mul(1000)
}
microseconds! {
    /// A time that the program counts in nanoseconds; a file has it cut to microseconds.
    of_ns, |us| us.saturating_mul(1000), |ns| ns / 1000
}

#[cfg(test)]
mod tests {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Times {
        #[serde(rename = "waited_us", with = "super::of_ms")]
        waited_ms: u64,
        #[serde(rename = "limit_us", with = "super::of_ms")]
        limit_ms: Option<u64>,
        #[serde(rename = "at_us", with = "super::of_ns")]
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
