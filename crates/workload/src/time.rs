//! Times as files and flags have them: `1s`, `200ms`, `1m30s`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// A time in these words.
pub fn text(time: Duration) -> String {
    humantime::format_duration(time).to_string().replace(' ', "")
}

/// Writes a time in these words.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

/// Reads a time in these words.
///
/// # Errors
/// When the text is no time.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| D::Error::custom(format!("'{text}' is no time such as 500ms, 90s or 1h")))
}

/// The same of a time that there may be none of.
pub mod optional {
    use super::{Deserialize as _, Deserializer, Duration, Serializer};

    /// Writes the time, if there is one.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a time, if there is one.
    ///
    /// # Errors
    /// When the text is no time.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        #[derive(serde::Deserialize)]
        struct Time(#[serde(with = "super")] Duration);
        Option::<Time>::deserialize(deserializer).map(|time| time.map(|Time(time)| time))
    }
}
