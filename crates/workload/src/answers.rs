//! How often a model answers a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number::Number;

/// How often a model answers a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// Once.
    #[default]
    One,
    /// So many times, after one execution: to each answer but the first one more is added than to the one before.
    Several(u32),
    /// The request is a whole sequence and is executed so many times, each of which adds its INPUT; each execution is answered.
    EachOf(u32),
    /// The same, and the last execution alone is answered.
    LastOf(u32),
}

impl Answers {
    /// The configuration parameter that tells how often a decoupled model answers a request; where it is absent that is once.
    pub const RESPONSES: &str = "sequence_stress_responses";
    /// The configuration parameter that tells how often an iterative model executes a request; where it is absent that is
    /// [`Self::USUAL_EXECUTIONS`].
    pub const ITERATIONS: &str = "sequence_stress_iterations";
    /// How often an iterative model executes a request that does not say it.
    pub const USUAL_EXECUTIONS: u32 = 3;
    /// The most answers and executions that the parameters may tell.
    pub const MOST: u32 = 10_000;

    /// How many answers a request gets.
    pub fn count(self) -> u32 {
        match self {
            Self::One | Self::LastOf(_) => 1,
            Self::Several(count) | Self::EachOf(count) => count,
        }
    }

    /// How often a request's INPUT is added, at the most.
    pub fn executions(self) -> u32 {
        match self {
            Self::One | Self::Several(_) => 1,
            Self::EachOf(count) | Self::LastOf(count) => count,
        }
    }

    /// Whether answers come as a series of which the last is marked, because the model is decoupled.
    pub fn are_series(self) -> bool {
        matches!(self, Self::Several(_) | Self::EachOf(_))
    }

    /// Whether a request is a whole sequence, which the server ends by itself.
    pub fn are_iterative(self) -> bool {
        matches!(self, Self::EachOf(_) | Self::LastOf(_))
    }

    /// What the answer with this number, from 0, has in it besides the sum with the request's INPUT added once.
    pub fn besides(self, number: u32, input: Number) -> Number {
        let times = match self {
            Self::One => 0,
            Self::Several(_) => return input.datatype().number(number.into()),
            Self::EachOf(_) => number,
            Self::LastOf(count) => count.saturating_sub(1),
        };
        input.wrapping_mul(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Datatype;

    #[test]
    fn each_answer_is_told_from_the_first() {
        let input = Number::from(-5);
        let besides =
            |answers: Answers| (0..3).map(|number| answers.besides(number, input).value()).collect::<Vec<_>>();
        assert_eq!(besides(Answers::Several(3)), [0, 1, 2]);
        assert_eq!(besides(Answers::EachOf(3)), [0, -5, -10]);
        assert_eq!(Answers::LastOf(3).besides(0, input).value(), -10);
        assert_eq!(Answers::One.besides(0, input).value(), 0);
        let large = Datatype::Uint32.number(0xffff_ffff);
        assert_eq!(Answers::EachOf(3).besides(2, large), Datatype::Uint32.number(0xffff_fffe), "it wraps");
    }
}
