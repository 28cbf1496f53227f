//! The first correlation ID as files have it.

use std::{fmt, num::NonZeroU64};

use serde::{
    Deserializer, Serializer,
    de::{Error, Unexpected, Visitor},
};

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
    struct Id;
    impl Visitor<'_> for Id {
        type Value = NonZeroU64;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a nonzero u64")
        }

        fn visit_u64<E: Error>(self, id: u64) -> Result<NonZeroU64, E> {
            NonZeroU64::new(id).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(id), &self))
        }

        fn visit_i64<E: Error>(self, id: i64) -> Result<NonZeroU64, E> {
            let wrong = |_| E::invalid_value(Unexpected::Signed(id), &self);
            u64::try_from(id).map_err(wrong).and_then(|id| self.visit_u64(id))
        }

        fn visit_str<E: Error>(self, id: &str) -> Result<NonZeroU64, E> {
            id.parse().map_err(|_| E::invalid_type(Unexpected::Str(id), &self))
        }
    }
    deserializer.deserialize_any(Id)
}
