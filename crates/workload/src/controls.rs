//! What a model says that it saw of a request, beside its answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sequence::{CorrelationId, Step};

/// The configuration parameter that names the output in which a model says what it saw.
pub const PARAMETER: &str = "sequence_stress_controls";
/// The type of that output.
pub const DATATYPE: &str = "INT64";
/// Its elements: START, END, READY, CORRID and the slot; -1 is what the model does not know.
pub const ELEMENTS: usize = 5;

/// What a model says that it saw of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What the control START said, where there is one.
    pub start: Option<bool>,
    /// What the control END said, where there is one.
    pub end: Option<bool>,
    /// What the control READY said, where there is one.
    pub ready: Option<bool>,
    slot: i32,
    /// The low 64 bits of the control CORRID, where there is one.
    pub corrid: i64,
}

impl Seen {
    /// What a model says that saw this.
    pub fn new([start, end, ready]: [Option<bool>; 3], corrid: i64, slot: Option<u32>) -> Self {
        let slot = slot.and_then(|slot| i32::try_from(slot).ok()).unwrap_or(-1);
        Self { start, end, ready, slot, corrid }
    }

    /// Reads the elements; none where they are no such thing.
    pub fn from_elements([start, end, ready, corrid, slot]: [i64; ELEMENTS]) -> Option<Self> {
        let flag = |element| match element {
            -1 => Some(None),
            0 | 1 => Some(Some(element == 1)),
            _ => None,
        };
        let slot = i32::try_from(slot).ok().filter(|slot| *slot >= -1)?;
        Some(Self { start: flag(start)?, end: flag(end)?, ready: flag(ready)?, slot, corrid })
    }

    /// Reads the elements, little-endian.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (elements, rest) = bytes.as_chunks();
        let elements: [[u8; 8]; ELEMENTS] = elements.try_into().ok().filter(|_| rest.is_empty())?;
        Self::from_elements(elements.map(i64::from_le_bytes))
    }

    /// The elements.
    pub fn elements(self) -> [i64; ELEMENTS] {
        let flag = |flag: Option<bool>| flag.map_or(-1, i64::from);
        [flag(self.start), flag(self.end), flag(self.ready), self.corrid, self.slot.into()]
    }

    /// The elements, little-endian.
    pub fn to_bytes(self) -> Vec<u8> {
        self.elements().into_iter().flat_map(i64::to_le_bytes).collect()
    }

    /// The slot, where the model knows it: instances and their slots are numbered through.
    pub fn slot(self) -> Option<u32> {
        u32::try_from(self.slot).ok()
    }
}

/// The controls that a model declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Told {
    /// Whether it is told START.
    pub start: bool,
    /// Whether it is told END.
    pub end: bool,
    /// Whether it is told READY.
    pub ready: bool,
    /// How many bits of the correlation ID it is told as a number.
    pub corrid_bits: Option<u32>,
}

/// In which output a model says what it saw, and what it can have seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Controls {
    /// The output's name.
    pub output: String,
    /// Its shape.
    pub shape: Vec<i64>,
    /// What the model is told.
    pub told: Told,
    /// How many slots there are that it can tell of, where that stays so.
    pub slots: Option<u32>,
}

/// A control that says something else to the model than the request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", untagged)]
pub enum Difference {
    /// A control that is true or false.
    Flag {
        /// Which.
        control: Flag,
        /// What it says to the model; none where it says nothing.
        told: Option<bool>,
        /// What the request says.
        said: bool,
    },
    /// The control CORRID.
    Corrid {
        /// The correlation ID that it tells the model, of as many bits as that gets.
        told: u64,
        /// The same bits of the request's.
        said: u64,
    },
}

/// A control that is true or false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Flag {
    /// The sequence begins.
    Start,
    /// The sequence ends.
    End,
    /// The slot has a request.
    Ready,
}

impl Told {
    /// What of a step the model saw otherwise, by control; nothing where it saw what was sent.
    pub fn differences(self, step: &Step, id: CorrelationId, seen: Seen) -> Vec<Difference> {
        let flags = [
            (Flag::Start, self.start, seen.start, step.start),
            (Flag::End, self.end, seen.end, step.end),
            (Flag::Ready, self.ready, seen.ready, true),
        ];
        let flags = flags.into_iter().filter(|(_, is_told, told, said)| *is_told && *told != Some(*said));
        let flags = flags.map(|(control, _, told, said)| Difference::Flag { control, told, said });
        let corrid = self.corrid_bits.and_then(|bits| {
            let low = |id: u64| if bits >= u64::BITS { id } else { id & ((1 << bits) - 1) };
            let (told, said) = (low(seen.corrid.cast_unsigned()), low(id.0.get()));
            (told != said).then_some(Difference::Corrid { told, said })
        });
        flags.chain(corrid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::{Pattern, RequestId};

    fn told(corrid_bits: Option<u32>) -> Told {
        Told { start: true, end: true, ready: true, corrid_bits }
    }

    #[test]
    fn what_was_seen_is_read_back_as_it_was_written() {
        let some = [Some(true), Some(false), None];
        for (flags, corrid, slot) in [(some, -1, None), ([None; 3], i64::MIN, Some(0)), (some, 7, Some(65_535))] {
            let seen = Seen::new(flags, corrid, slot);
            assert_eq!(Seen::from_bytes(&seen.to_bytes()), Some(seen));
            assert_eq!(seen.slot(), slot);
        }
        for elements in [[2, 0, 0, 0, 0], [0, -2, 0, 0, 0], [0, 0, 7, 0, 0], [0, 0, 0, 0, -2], [0, 0, 0, 0, 1 << 40]] {
            assert_eq!(Seen::from_elements(elements), None, "{elements:?}");
        }
        assert_eq!(Seen::from_bytes(&[0; 39]), None);
        assert_eq!(Seen::from_bytes(&[0; 48]), None);
    }

    #[test]
    fn each_control_is_compared_that_the_model_is_told() {
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        let step =
            Step { request, pattern: Pattern::Valid, start: true, end: false, value: 1.into(), of: 2, special: None };
        let id = CorrelationId(0x1_0000_0007.try_into().expect("not zero"));
        let right = Seen::new([Some(true), Some(false), Some(true)], 0x1_0000_0007, None);
        assert_eq!(told(Some(64)).differences(&step, id, right), []);
        let narrow = Seen { corrid: 7, ..right };
        assert_eq!(told(Some(32)).differences(&step, id, narrow), []);
        assert_eq!(told(Some(64)).differences(&step, id, narrow).len(), 1);
        let nothing = Seen::new([None; 3], -1, None);
        assert_eq!(told(Some(32)).differences(&step, id, nothing).len(), 4);
        let none = Told { start: false, end: false, ready: false, ..told(None) };
        assert_eq!(none.differences(&step, id, nothing), []);
        assert_eq!(
            told(None).differences(&step, id, Seen { start: Some(false), ..right }),
            [Difference::Flag { control: Flag::Start, told: Some(false), said: true }]
        );
    }
}
