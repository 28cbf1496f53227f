//! What a model computes, and in which numbers.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    answers::Answers,
    number::{Datatype, Number},
    said::is_default,
    sequence::{CorrelationId, Step},
};

table! {
    /// What a model computes.
    #[derive(Default)]
    pub enum Formula: Traits {
        /// OUTPUT is the sum of the sequence's INPUTs so far, in the arithmetic of their type.
        #[default]
        RunningSum = "running-sum", Traits { at_end: AtEnd::Nothing, is_stateless: false };
        /// The same, and the answer to END has the correlation ID added.
        RunningSumPlusCorrid = "running-sum-plus-corrid-at-end", Traits { at_end: AtEnd::Corrid, is_stateless: false };
        /// OUTPUT is INPUT, and one more at START, whatever was before.
        Stateless = "ready-times-input-plus-start", Traits { at_end: AtEnd::Nothing, is_stateless: true };
        /// The same, and the answer to END has the correlation ID added.
        StatelessPlusCorrid = "ready-times-input-plus-start-plus-corrid-at-end",
            Traits { at_end: AtEnd::Corrid, is_stateless: true };
        /// No formula: OUTPUT is what the model answered on an idle server, as a golden file has it.
        Golden = "golden", Traits { at_end: AtEnd::Nothing, is_stateless: false };
        /// The same of a model that answers a step otherwise where the step has END, or may.
        GoldenWithEnd = "golden-with-end", Traits { at_end: AtEnd::Mark, is_stateless: false };
    }
}

struct Traits {
    at_end: AtEnd,
    is_stateless: bool,
}

/// What the answer to END has added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtEnd {
    Nothing,
    /// The correlation ID.
    Corrid,
    /// What makes of it another answer than that of the same step without END.
    Mark,
}

impl FromStr for Formula {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::named(name).ok_or_else(|| format!("'{name}' is no formula: there are {}", Self::NAMES.join(", ")))
    }
}

impl Formula {
    /// The configuration parameter that names the formula; where it is absent the formula is the running sum.
    pub const PARAMETER: &str = "sequence_stress_formula";

    /// Whether an answer depends on its request alone, so that it tells nothing of the sequence's state.
    pub fn is_stateless(self) -> bool {
        self.row().is_stateless
    }

    /// Whether a golden file says what the model answers.
    pub fn is_golden(self) -> bool {
        matches!(self, Self::Golden | Self::GoldenWithEnd)
    }

    /// Whether the answer to END has the correlation ID added.
    pub fn adds_corrid(self) -> bool {
        self.row().at_end == AtEnd::Corrid
    }
}

/// How a model computes. Inside the tool a sum is that of the sequence's inputs alone, so that nothing but this knows what else
/// an answer has in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arithmetic {
    /// In which numbers.
    #[serde(default)]
    pub datatype: Datatype,
    /// By which formula.
    #[serde(default)]
    pub formula: Formula,
    /// What a new sequence's state begins with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_state: i64,
    /// How often it answers a request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answers: Answers,
    /// Of floating-point numbers, how many bits a value has with its sign, so that no sum is rounded; none where all fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_bits: Option<u32>,
}

impl Arithmetic {
    /// The configuration parameter that tells what a new sequence's state begins with; where it is absent that is 0.
    pub const INITIAL_STATE: &str = "sequence_stress_initial_state";

    /// What tells the answer to END from that to the same step without it, where no sum is the answer. It is even, and codes of inputs are odd.
    pub const END_MARK: i64 = 0x5e9d_0e4d_3a7c_1b26;

    /// The most bits of a value of a type that has not all whole numbers.
    const VALUE_BITS_MAX: u32 = 48;
    /// Sequences are taken to be at least so long: some patterns have more steps than lengths are drawn.
    pub(crate) const LONG: u32 = 32;

    /// How many bits the values of a type may have, so that sums are exact over so many steps of so many sequences that may come
    /// together, and so much besides; none where all have it.
    ///
    /// # Errors
    /// Where too few are left.
    pub fn value_bits(datatype: Datatype, longest: u32, sequences: u32, besides: u64) -> Result<Option<u32>, String> {
        let Some(exact) = datatype.exact_bits() else { return Ok(None) };
        let steps = u64::from(longest.max(Self::LONG)) * u64::from(sequences);
        // One bit of a value is its sign.
        let farthest = (1_u64 << exact).saturating_sub(besides) / steps;
        let bits = farthest.checked_ilog2().map_or(0, |bits| bits + 1).min(Self::VALUE_BITS_MAX);
        // With fewer sums do not tell values apart. FP16 has never many.
        let fewest = if exact < 16 { 2 } else { 4 };
        if bits < fewest {
            return Err(format!(
                "sums over {longest} steps are not exact in {datatype}: set a smaller length.max, or take a model of another type"
            ));
        }
        Ok(Some(bits))
    }

    /// The number that is sent for a value: modulo the width of the type, or so that sums are exact.
    pub fn number(&self, value: i64) -> Number {
        let value = match self.value_bits {
            Some(bits) => value.wrapping_shl(i64::BITS - bits).wrapping_shr(i64::BITS - bits),
            None => value,
        };
        self.datatype.number(value)
    }

    /// What an answer, of several the first, has in it besides the sum of the sequence's inputs.
    fn besides(&self, step: &Step, id: CorrelationId) -> Number {
        let number = |value| self.datatype.number(value);
        let initial = number(self.initial_state).wrapping_add(self.answers.besides(0, step.value));
        match self.formula.row().at_end {
            AtEnd::Corrid if step.end => {}
            AtEnd::Mark if step.end => return initial.wrapping_add(number(Self::END_MARK)),
            AtEnd::Nothing | AtEnd::Corrid | AtEnd::Mark => return initial,
        }
        let id = id.0.get().cast_signed();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "models are told so many bits where they compute with no more"
        )]
        let id = match self.datatype {
            Datatype::Int64 | Datatype::Uint64 => id,
            _ => i64::from(id as i32),
        };
        initial.wrapping_add(number(id))
    }

    /// The sum that an answer to a step tells.
    pub fn sum(&self, answer: Number, step: &Step, id: CorrelationId) -> Number {
        answer.wrapping_sub(self.besides(step, id))
    }

    /// The answer to a step that tells a sum.
    pub fn answer(&self, sum: Number, step: &Step, id: CorrelationId) -> Number {
        sum.wrapping_add(self.besides(step, id))
    }

    /// Where an answer depends on its request alone: what it has to be.
    pub fn stateless_answer(&self, step: &Step, id: CorrelationId) -> Option<Number> {
        let sum = || step.value.wrapping_add(self.datatype.number(step.start.into()));
        self.formula.is_stateless().then(|| self.answer(sum(), step, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::{Pattern, RequestId};

    fn id(number: u64) -> CorrelationId {
        CorrelationId(number.try_into().expect("not zero"))
    }

    fn step(arithmetic: &Arithmetic, start: bool, end: bool, value: i64) -> Step {
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        let value = arithmetic.number(value);
        Step { request, pattern: Pattern::Valid, start, end, value, of: 3, special: None }
    }

    #[test]
    fn what_else_an_answer_has_in_it_is_taken_away_and_comes_back() {
        for datatype in Datatype::ALL {
            for formula in [Formula::RunningSum, Formula::RunningSumPlusCorrid] {
                let arithmetic = Arithmetic { datatype, formula, initial_state: 100, ..Arithmetic::default() };
                for end in [false, true] {
                    let step = step(&arithmetic, false, end, 7);
                    let answer = arithmetic.answer(step.value, &step, id(5000));
                    let added = if end && formula.adds_corrid() { 5000 } else { 0 };
                    assert_eq!(answer, datatype.number(107 + added), "{datatype} {formula:?}");
                    assert_eq!(arithmetic.sum(answer, &step, id(5000)), step.value);
                    assert_eq!(arithmetic.stateless_answer(&step, id(5000)), None);
                }
            }
        }
    }

    #[test]
    fn a_correlation_id_is_added_in_as_many_bits_as_the_type_has() {
        let large = id(0xffff_ffff_8000_0001);
        for (datatype, expected) in [
            (Datatype::Int8, "1"),
            (Datatype::Int16, "1"),
            (Datatype::Uint8, "1"),
            (Datatype::Uint16, "1"),
            (Datatype::Int32, "-2147483647"),
            (Datatype::Uint32, "2147483649"),
            (Datatype::Int64, "-2147483647"),
            (Datatype::Uint64, "18446744071562067969"),
            (Datatype::Fp64, "-2147483647"),
            (Datatype::Bytes, "-2147483647"),
        ] {
            let arithmetic = Arithmetic { datatype, formula: Formula::RunningSumPlusCorrid, ..Arithmetic::default() };
            let step = step(&arithmetic, false, true, 0);
            assert_eq!(arithmetic.answer(step.value, &step, large).to_string(), expected, "{datatype}");
        }
    }

    #[test]
    fn without_a_state_the_request_alone_decides() {
        let with = |formula| Arithmetic { formula, ..Arithmetic::default() };
        for (formula, start, end, expected) in [
            (Formula::Stateless, false, false, 7),
            (Formula::Stateless, true, true, 8),
            (Formula::StatelessPlusCorrid, true, false, 8),
            (Formula::StatelessPlusCorrid, false, true, 5007),
        ] {
            let arithmetic = with(formula);
            let step = step(&arithmetic, start, end, 7);
            assert_eq!(arithmetic.stateless_answer(&step, id(5000)), Some(expected.into()));
        }
    }

    #[test]
    fn floating_point_values_leave_room_for_exact_sums() {
        assert_eq!(Arithmetic::value_bits(Datatype::Int32, u32::MAX, 8, 0), Ok(None));
        for (datatype, longest, sequences, besides, bits) in [
            (Datatype::Fp16, 1, 8, 1000, 3),
            (Datatype::Fp16, 32, 8, 1024, 3),
            (Datatype::Fp16, 32, 8, 1025, 2),
            (Datatype::Fp16, 100, 2, 1000, 3),
            (Datatype::Fp16, 100, 8, 400, 2),
            (Datatype::Fp32, 1, 8, 0, 17),
            (Datatype::Fp32, 1000, 8, 0, 12),
            (Datatype::Fp64, 1_000_000, 8, 1 << 52, 30),
        ] {
            let value_bits = Arithmetic::value_bits(datatype, longest, sequences, besides);
            assert_eq!(value_bits, Ok(Some(bits)), "{datatype} {longest} {sequences} {besides}");
            let arithmetic = Arithmetic { datatype, value_bits: Some(bits), ..Arithmetic::default() };
            let most = (1_i64 << (bits - 1)) - 1;
            assert_eq!(arithmetic.number(most).value(), most);
            assert_eq!(arithmetic.number(most + 1).value(), -most - 1, "as integers wrap");
            let sum = (most + 1) * i64::from(longest.max(Arithmetic::LONG)) * i64::from(sequences);
            assert!(sum + besides.cast_signed() <= 1 << datatype.exact_bits().expect("some"));
        }
        for (datatype, longest, besides) in [
            (Datatype::Fp32, 1 << 20, 0),
            (Datatype::Fp16, 129, 0),
            (Datatype::Fp16, 32, 1600),
            (Datatype::Fp16, 1, u64::MAX),
            (Datatype::Fp16, u32::MAX, 0),
        ] {
            assert!(Arithmetic::value_bits(datatype, longest, 8, besides).is_err(), "{datatype} {longest} {besides}");
        }
        for formula in Formula::NAMES {
            assert_eq!(Formula::named(formula).map(Formula::name), Some(*formula));
        }
    }
}
