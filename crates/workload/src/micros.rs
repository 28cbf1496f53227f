//! Times in files have one unit: microseconds. The program counts some in milliseconds and some in nanoseconds.

macro_rules! microseconds {
    ($(#[$doc:meta])* $name:ident, $of:expr, $to:expr) => {
        $(#[$doc])*
        pub mod $name {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            /// For serde's `with`.
            ///
            /// # Errors
            /// Those of the serializer.
            pub fn serialize<S: Serializer>(time: &u64, serializer: S) -> Result<S::Ok, S::Error> {
                $to(*time).serialize(serializer)
            }

            /// For serde's `with`.
            ///
            /// # Errors
            /// Those of the deserializer.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
                Ok($of(u64::deserialize(deserializer)?))
            }

            /// The same where there may be none.
            pub mod optional {
                use super::{Deserialize, Deserializer, Serialize, Serializer};

                /// For serde's `with`.
                ///
                /// # Errors
                /// Those of the serializer.
                pub fn serialize<S: Serializer>(time: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
                    time.map($to).serialize(serializer)
                }

                /// For serde's `with`.
                ///
                /// # Errors
                /// Those of the deserializer.
                pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
                    Ok(Option::deserialize(deserializer)?.map($of))
                }
            }
        }
    };
}

microseconds! {
    /// A time that the program counts in milliseconds.
    of_ms, |us: u64| us / 1000, |ms: u64| ms.saturating_mul(1000)
}
microseconds! {
    /// A time that the program counts in nanoseconds; a file has it cut to microseconds.
    of_ns, |us: u64| us.saturating_mul(1000), |ns: u64| ns / 1000
}

#[cfg(test)]
mod tests {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Times {
        #[serde(rename = "waited_us", with = "super::of_ms")]
        waited_ms: u64,
        #[serde(rename = "limit_us", with = "super::of_ms::optional")]
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
