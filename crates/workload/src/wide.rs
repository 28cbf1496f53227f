//! Whole numbers of 64 bits as TOML files have them: from 2^63 on as a text, because a TOML table holds no such number.

use std::fmt::Display;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::number::Written;

/// What a file may have.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it has to be a whole number of 64 bits")]
enum Wide {
    Number(Written),
    Text(String),
}

/// Writes a number, or a text.
///
/// # Errors
/// The serializer's.
pub fn serialize<T: Copy + Into<Written>, S: Serializer>(number: &T, serializer: S) -> Result<S::Ok, S::Error> {
    match (*number).into() {
        Written::Signed(number) => serializer.serialize_i64(number),
        Written::Unsigned(number) => serializer.collect_str(&number),
    }
}

/// Reads a number, or a text that is one.
///
/// # Errors
/// When it is neither, or not such a number.
pub fn deserialize<'de, T: TryFrom<Written, Error: Display>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let written = match Wide::deserialize(deserializer)? {
        Wide::Number(number) => number,
        Wide::Text(text) => {
            text.parse().map_err(|_| D::Error::custom(format!("'{text}' is no whole number of 64 bits")))?
        }
    };
    T::try_from(written).map_err(D::Error::custom)
}
