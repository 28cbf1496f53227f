//! Times as files and flags have them: `1s`, `200ms`, `1m30s`.
//!
//! The functions are for serde's `with`. Their errors are those of the serializer and the deserializer, and a text that is no time.

#![expect(clippy::missing_errors_doc, reason = "serde's")]

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A time in these words.
pub fn text(time: Duration) -> String {
    humantime::format_duration(time).to_string().replace(' ', "")
}

fn time<E: Error>(text: &str) -> Result<Duration, E> {
    humantime::parse_duration(text).map_err(|_| E::custom(format!("'{text}' is no time such as 500ms, 90s or 1h")))
}

/// Writes a time in these words.
pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    text(*time).serialize(serializer)
}

/// Reads a time in these words.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    time(&String::deserialize(deserializer)?)
}

/// The same of a time that there may be none of.
pub mod optional {
    use super::{Deserialize as _, Deserializer, Duration, Serialize as _, Serializer, text};

    /// Writes the time, if there is one.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(text).serialize(serializer)
    }

    /// Reads a time, if there is one.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|text| super::time(&text)).transpose()
    }
}
