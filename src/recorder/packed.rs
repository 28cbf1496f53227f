//! Forms in which what was counted and measured goes to another process, or to a file.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Times, series::Packed};

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(self.bytes()))
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64_STANDARD.decode(text).map_err(D::Error::custom)?;
        Self::read(bytes).map_err(|error| D::Error::custom(format!("a histogram: {error}")))
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Packed::smallest(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Packed::deserialize(deserializer)?.times())
    }
}

/// An array of any length; serde itself has those of up to 32 elements.
pub(super) mod array {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    pub(in super::super) fn serialize<T: Serialize, const N: usize, S: Serializer>(
        array: &[T; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(array)
    }

    pub(in super::super) fn deserialize<'de, T: Deserialize<'de>, const N: usize, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[T; N], D::Error> {
        let all = Vec::deserialize(deserializer)?;
        let count = all.len();
        all.try_into().map_err(|_| D::Error::custom(format!("{N} elements are expected, and {count} are there")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Tally;
    use oracle::ViolationKind;

    #[test]
    fn a_tally_is_read_back_exactly() {
        let mut tally = Tally::default();
        for us in [1, 7, 999, 1_000_003, 3_599_000_000] {
            tally.step.record(0, us * 1000);
        }
        tally.patterns[3].requests = 12;
        tally.wrong[2] = 1;
        tally.not_good.get_or_insert_default().lost = 4;
        tally.pacing.get_or_insert_default().late.record(0, 5000);
        tally.violation(ViolationKind::WrongSum);
        tally.other_words.insert("a step".to_owned(), "no".to_owned());
        let text = serde_json::to_string(&tally).expect("it has no keys but texts");
        let again: Tally = serde_json::from_str(&text).expect("it was written");
        assert_eq!(again.step.histogram(), tally.step.histogram());
        assert_eq!(serde_json::to_string(&again).expect("as before"), text);
        assert!(text.len() < 16_000, "{}", text.len());
    }

    #[test]
    fn what_is_no_histogram_is_rejected() {
        for text in ["\"\u{e9}\"", "\"AAAA\"", "\"HISTFAAAA\"", "3"] {
            assert!(serde_json::from_str::<Times>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Times>("\"\"").expect("an empty one").count(), 0);
    }
}
