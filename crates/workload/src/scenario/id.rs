//! The first correlation ID as files have it.

use std::num::NonZeroU64;

use serde::{Deserializer, Serializer};

use super::numbers::NumberOrText;

/// A number; from 2^63 on a text, because a TOML table holds no such number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(super) fn serialize<S: Serializer>(id: &NonZeroU64, serializer: S) -> Result<S::Ok, S::Error> {
    match i64::try_from(id.get()) {
        Ok(id) => serializer.serialize_i64(id),
        Err(_) => serializer.collect_str(id),
    }
}

/// A number, or a text that is one.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU64, D::Error> {
    deserializer.deserialize_any(NumberOrText {
        expected: "a nonzero u64",
        of_number: NonZeroU64::new,
        of_text: |id| id.parse().ok(),
    })
}
