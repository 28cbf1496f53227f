//! Correlation IDs, and what they are on the wire.

use std::{fmt, num::NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number that makes requests one sequence. Zero would mean 'no sequence', so it cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CorrelationId(pub NonZeroU64);

impl CorrelationId {
    /// The ID as requests carry it. A number of 2^63 and more turns negative there.
    pub fn on_the_wire(self, form: IdForm) -> WireId {
        match form {
            IdForm::Integer | IdForm::OneBit => WireId::Number(self.told(form).0.get().cast_signed()),
            IdForm::Alike if self.0.get() % ALIKE == ALIKE - 1 => WireId::Number(self.group().cast_signed()),
            IdForm::Text | IdForm::LongText | IdForm::NonAscii | IdForm::Alike | IdForm::Nul => {
                WireId::Text(self.written(form))
            }
        }
    }

    /// The ID as the server receives it, if that is a number.
    pub fn told(self, form: IdForm) -> Self {
        if form != IdForm::OneBit {
            return self;
        }
        let (triple, member) = (self.0.get() / 3 % (u64::MAX >> 2) + 1, self.0.get() % 3);
        let (lower, upper) = (6 + triple % 64 % 26, 32 + triple % 32);
        // Both bits are 0 in the first of three, and follow from its last six: so no number is in two triples.
        let first = with_zero_at(upper, with_zero_at(lower, triple));
        let number = match member {
            0 => first,
            1 => first | 1 << upper,
            _ => first | 1 << lower,
        };
        Self(NonZeroU64::new(number).expect("a triple is not 0"))
    }

    /// The number that eight IDs share.
    fn group(self) -> u64 {
        self.0.get() / ALIKE + 1
    }

    /// The ID as the server's messages have it.
    pub fn written(self, form: IdForm) -> String {
        match form {
            IdForm::Integer | IdForm::OneBit => self.told(form).to_string(),
            IdForm::Alike => alike(self.group(), self.0.get() % ALIKE),
            IdForm::Text => format!("id-{self}"),
            IdForm::Nul => format!("id-{}{}", self.0.get() / 2, if self.0.get().is_multiple_of(2) { "" } else { "\0" }),
            IdForm::LongText => format!("{:->width$}", self.0, width = LONGEST_TEXT),
            IdForm::NonAscii => format!("séquence-№{self}"),
        }
    }

    /// The ID that comes so many IDs later.
    ///
    /// # Panics
    /// When there are not that many; the blocks of a scenario are known to fit.
    pub fn after(self, ids: u32) -> Self {
        Self(self.0.checked_add(ids.into()).expect("a scenario's blocks do not overflow"))
    }
}

/// The number with a 0 put in as its bit `bit`. Its highest bit is lost.
fn with_zero_at(bit: u64, number: u64) -> u64 {
    let below = (1 << bit) - 1;
    (number & !below) << 1 | number & below
}

/// The most bytes of a correlation ID that is a text.
const LONGEST_TEXT: usize = 128;

/// What correlation IDs are on the wire; inside the tool they are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdForm {
    /// The number itself.
    #[default]
    Integer,
    /// A text with the number in it.
    Text,
    /// A text as long as it may be.
    #[serde(rename = "text-128")]
    LongText,
    /// A text with characters that are more than a byte each.
    NonAscii,
    /// Numbers in threes: the second and the third differ from the first by one bit, of the upper 32 and of the lower.
    OneBit,
    /// Texts in eights that are nearly the same; one of the eight is a number.
    Alike,
    /// Texts in pairs: the second is the first with a NUL at the end.
    Nul,
}

/// How many IDs are nearly the same where they are alike. The last of them is a number.
const ALIKE: u64 = 8;

/// One of those, by the number that they share.
fn alike(group: u64, member: u64) -> String {
    match member {
        0 => format!("suite-{group}-caf\u{e9}"),
        // Decomposed.
        1 => format!("suite-{group}-cafe\u{301}"),
        2 => format!("SUITE-{group}-CAF\u{c9}"),
        3 => format!("suite-{group}-caf\u{e9} "),
        // They differ in the last of all the bytes that there may be.
        4 => format!("{group:->width$}a", width = LONGEST_TEXT - 1),
        5 => format!("{group:->width$}b", width = LONGEST_TEXT - 1),
        // A text, and the number.
        _ => group.to_string(),
    }
}

impl IdForm {
    /// Whether two IDs are made to be nearly the same.
    pub fn makes_near(self, one: CorrelationId, other: CorrelationId) -> bool {
        let of = match self {
            Self::OneBit => 3,
            Self::Alike => ALIKE,
            Self::Nul => 2,
            Self::Integer | Self::Text | Self::LongText | Self::NonAscii => return false,
        };
        one != other && one.0.get() / of == other.0.get() / of
    }

    /// Whether it is a text.
    pub fn is_text(self) -> bool {
        !matches!(self, Self::Integer | Self::OneBit)
    }

    /// Whether a model that keeps its state by correlation ID may lawfully take two of them for one.
    pub fn is_near(self) -> bool {
        matches!(self, Self::OneBit | Self::Alike | Self::Nul)
    }
}

/// A correlation ID as requests carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireId {
    /// In an `int64_param`.
    Number(i64),
    /// In a `string_param`.
    Text(String),
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ids(first: u64, count: u64) -> impl Iterator<Item = CorrelationId> {
        (first..first + count).map(|id| CorrelationId(NonZeroU64::new(id).expect("not 0")))
    }

    #[test]
    fn ids_that_are_nearly_the_same_are_not() {
        for first in [1, 2, 3, 250_000_001, 3 << 32, 1 << 63, u64::MAX - 100_000] {
            let numbers: HashSet<_> = ids(first, 100_000).map(|id| id.told(IdForm::OneBit)).collect();
            let texts: HashSet<_> =
                ids(first, 100_000).map(|id| format!("{:?}", id.on_the_wire(IdForm::Alike))).collect();
            assert_eq!((numbers.len(), texts.len()), (100_000, 100_000), "from {first}");
        }
        assert!(ids(1, 48).all(|id| id.written(IdForm::Alike).len() <= LONGEST_TEXT));
    }

    #[test]
    fn two_of_three_ids_differ_from_the_first_by_one_bit_each() {
        let told: Vec<_> = ids(3, 96).map(|id| id.told(IdForm::OneBit).0.get()).collect();
        let bits: HashSet<_> = told.chunks(3).flat_map(|its| [its[0] ^ its[1], its[0] ^ its[2]]).collect();
        let every: HashSet<_> = (6..64).map(|bit| 1 << bit).collect();
        assert_eq!(bits, every);
    }

    #[test]
    fn large_correlation_ids_are_negative_on_the_wire() {
        let id = CorrelationId(NonZeroU64::MAX);
        assert_eq!(id.on_the_wire(IdForm::Integer), WireId::Number(-1));
        assert_eq!(id.written(IdForm::Integer), u64::MAX.to_string());
    }

    #[test]
    fn ids_are_texts_of_every_length_and_none_is_too_long_or_like_another() {
        let forms = [IdForm::Integer, IdForm::Text, IdForm::LongText, IdForm::NonAscii];
        let mut seen = Vec::new();
        for id in [1, 10, u64::MAX] {
            let id = CorrelationId(NonZeroU64::new(id).expect("not zero"));
            let written = forms.map(|form| id.written(form));
            assert!(written[2].len() == LONGEST_TEXT && written.iter().all(|text| text.len() <= LONGEST_TEXT));
            assert!(!written[3].is_ascii() && !seen.iter().any(|text| written.contains(text)), "{written:?}");
            assert_eq!(id.on_the_wire(IdForm::Text), WireId::Text(written[1].clone()));
            seen.extend(written);
        }
    }
}
