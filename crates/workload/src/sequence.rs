//! What the tool and the server talk about: correlation IDs, patterns, sequences and their steps.

mod flaw;
mod id;
mod pattern;

use std::{borrow::Cow, collections::BTreeMap, fmt, num::NonZeroU16, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use self::{
    flaw::Flaw,
    id::{CorrelationId, IdForm, WireId},
    pattern::{Pattern, STEADY_STEPS, Shape, Trait},
};
use crate::{number::Number, said::is_default};

/// The most answers that a server can send over a narrow connection while the client reads nothing.
pub const UNREAD_MAX: u32 = 4;
/// The room that such a connection has for what is not read, in bytes. An answer takes some 90 to 150.
pub const UNREAD_BYTES: u32 = 256;

/// What sets a request apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Special {
    /// It has a flaw.
    Flaw(Flaw),
    /// Its sequence may wait for a slot no longer than so many microseconds after it came.
    TimeoutUs(u64),
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flaw(flaw) => write!(f, "with {flaw}"),
            Self::TimeoutUs(us) => write!(f, "within {us} us"),
        }
    }
}

/// A run of steps on one correlation ID, from a START to an END unless one of them is left out on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sequence {
    /// Which of the worker's contexts has its ID, counted from the conversation's own.
    #[serde(skip_serializing_if = "is_default")]
    pub id: u32,
    /// Whether the first step carries START.
    pub start: bool,
    /// Whether the last step carries END.
    pub end: bool,
    /// The input of each step; never empty.
    pub values: Vec<i64>,
    /// Over how many elements each is spread; empty where that is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<NonZeroU16>,
    /// By the index of a step: what is wrong with it. The last step has no flaw.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flaws: BTreeMap<u32, Flaw>,
    /// How long the client does nothing before each step but the first, in ms; empty where it never does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub think_ms: Vec<u32>,
}

impl Sequence {
    /// How many steps it has.
    ///
    /// # Panics
    /// When there are more than 32 bits can count; a length is such a number.
    pub fn steps(&self) -> u32 {
        u32::try_from(self.values.len()).expect("a length is a 32-bit number")
    }

    /// Whether a step carries START, and whether END: the first one that has no flaw and the last one, and those with a flaw that
    /// come right before one of them.
    pub fn flags(&self, step: u32) -> (bool, bool) {
        let right = (step..self.steps()).find(|step| !self.flaws.contains_key(step)).unwrap_or(step);
        let is_first = (0..right).all(|before| self.flaws.contains_key(&before));
        (self.start && is_first, self.end && right + 1 == self.steps())
    }
}

/// The name of one request, unlike that of any other request of the run. On the wire:
/// `worker-context-sequence-step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    /// The worker's index.
    pub worker: u32,
    /// The context's index in the worker.
    pub context: u32,
    /// The how-manieth sequence of the worker this is, from 0.
    pub sequence: u32,
    /// The step's index in its sequence.
    pub step: u32,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each request is written so.
        let mut buffer = itoa::Buffer::new();
        f.write_str(buffer.format(self.worker))?;
        for number in [self.context, self.sequence, self.step] {
            f.write_str("-")?;
            f.write_str(buffer.format(number))?;
        }
        Ok(())
    }
}

impl FromStr for RequestId {
    type Err = NotARequestId;

    fn from_str(text: &str) -> Result<Self, NotARequestId> {
        let (mut numbers, mut place, mut digits) = ([0_u32; 4], 0, 0);
        for byte in text.bytes() {
            let number = numbers.get_mut(place).ok_or(NotARequestId)?;
            match byte {
                b'-' if digits > 0 => (place, digits) = (place + 1, 0),
                // Another text of the same numbers, such as one with a sign, is not the ID that was sent.
                b'0'..=b'9' if digits == 0 || *number > 0 => {
                    let longer = number.checked_mul(10).and_then(|tens| tens.checked_add(u32::from(byte - b'0')));
                    *number = longer.ok_or(NotARequestId)?;
                    digits += 1;
                }
                _ => return Err(NotARequestId),
            }
        }
        let [worker, context, sequence, step] = numbers;
        if place == 3 && digits > 0 { Ok(Self { worker, context, sequence, step }) } else { Err(NotARequestId) }
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for RequestId {
    fn schema_name() -> Cow<'static, str> {
        "RequestId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "The name of a request: worker-context-sequence-step." })
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::custom(format!("'{text}' is no request ID")))
    }
}

/// The text is not a [`RequestId`] as this tool writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARequestId;

/// One request of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The request's own ID.
    #[serde(rename = "request_id")]
    pub request: RequestId,
    /// The pattern that the step's sequence is part of.
    pub pattern: Pattern,
    /// Whether the step carries START.
    pub start: bool,
    /// Whether the step carries END.
    pub end: bool,
    /// The sum of the INPUT tensor's elements.
    pub value: Number,
    /// How many steps the sequence has.
    pub of: u32,
    /// What sets it apart, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub special: Option<Special>,
}

impl Step {
    /// What is wrong with it, if anything is: then it has to be rejected, and changes nothing.
    pub fn flaw(&self) -> Option<Flaw> {
        match self.special {
            Some(Special::Flaw(flaw)) => Some(flaw),
            Some(Special::TimeoutUs(_)) | None => None,
        }
    }

    /// Whether a server that is right rejects it as the plan has it: for a flaw, or because its sequence begins without START.
    pub fn is_to_be_rejected(&self) -> bool {
        self.flaw().is_some() || (self.is_first() && !self.start)
    }

    /// Whether this is its sequence's first step.
    pub fn is_first(&self) -> bool {
        self.request.step == 0
    }

    /// Whether this is its sequence's last step.
    pub fn is_last(&self) -> bool {
        self.request.step + 1 == self.of
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = match (self.start, self.end) {
            (true, true) => " START END",
            (true, false) => " START",
            (false, true) => " END",
            (false, false) => "",
        };
        write!(f, "{} step {}/{}{flags} value {}", self.pattern, self.request.step + 1, self.of, self.value)?;
        if self.value.elements() > NonZeroU16::MIN {
            write!(f, " in {} elements", self.value.elements())?;
        }
        self.special.map_or(Ok(()), |special| write!(f, " {special}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_read_back_from_the_wire() {
        let id = RequestId { worker: 7, context: 3, sequence: 4_000_000_000, step: 15 };
        assert_eq!(id.to_string(), "7-3-4000000000-15");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn other_texts_are_no_request_ids() {
        for text in [
            "",
            "7",
            "7-4-15",
            "7-3-4-15-1",
            "a-3-4-15",
            "7-3--15",
            "7-3-4-15 ",
            "-7-3-4-15",
            "+7-3-4-15",
            "07-3-4-15",
            "7-3-4-00",
        ] {
            assert_eq!(text.parse::<RequestId>(), Err(NotARequestId), "{text:?}");
        }
    }

    #[test]
    fn steps_with_a_flaw_carry_the_flags_of_the_next_one_that_has_none() {
        let flaws = [0, 2, 3].map(|step| (step, Flaw::IdZero)).into();
        let sequence = Sequence { start: true, end: true, values: vec![1; 5], flaws, ..Sequence::default() };
        let carried: Vec<_> = (0..5).map(|step| sequence.flags(step)).collect();
        assert_eq!(carried, [(true, false), (true, false), (false, true), (false, true), (false, true)]);
        let one = Sequence { values: vec![1], flaws: BTreeMap::new(), ..sequence };
        assert_eq!(one.flags(0), (true, true));
    }
}
