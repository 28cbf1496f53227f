//! What a calibration found out about a model.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

workload::table! {
    /// A fault that a calibration commits on purpose, alone on the server, to see whether the model's outputs show it.
    pub enum FaultKind {
        /// The state was reset in the middle of a sequence.
        StateReset = "state-reset";
        /// A step was not executed.
        NotExecuted = "not-executed";
        /// A step was executed twice.
        ExecutedTwice = "executed-twice";
        /// A step and the next one were executed in the other order.
        Exchanged = "exchanged";
        /// A step went on from the state of another sequence.
        LeakedState = "leaked-state";
        /// START went on from a state that was there.
        StateKept = "state-kept";
    }
}

workload::table! {
    /// What END does to the outputs of the step that carries it.
    #[derive(Default)]
    pub enum EndEffect {
        /// Nobody has looked.
        #[default]
        Unknown = "unknown";
        /// The outputs are those of the same step without END.
        Nothing = "nothing";
        /// They are others, and always the same.
        Changes = "changes";
        /// They differ from one correlation ID to the next.
        NotRepeatable = "not-repeatable";
    }
}

impl EndEffect {
    /// Whether a step may be answered otherwise because it has END.
    pub fn matters(self) -> bool {
        self != Self::Nothing
    }
}

/// What a calibration found out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// By output: how far answers to the same were apart.
    pub noise: Vec<Noise>,
    /// How many tracks were left out, because their outputs are like those of others or like each other.
    #[serde(default)]
    pub left_out: u32,
    /// How many states can be told apart.
    pub fingerprints: Fingerprints,
    /// What END does to the outputs.
    #[serde(default)]
    pub at_end: EndEffect,
    /// Which faults the outputs show.
    pub visible: Vec<Visible>,
}

impl Facts {
    /// The faults that the outputs do not show, or at no step for certain.
    pub fn hidden(&self) -> impl Iterator<Item = FaultKind> {
        self.visible.iter().filter(|seen| seen.from_step.is_none()).map(|seen| seen.kind)
    }

    /// Whether the outputs show what state a model is in; so, too, where that was not tried. The state of another sequence tells: what
    /// resets a state may also change what the model is told of START.
    pub fn show_states(&self) -> bool {
        let tried = [FaultKind::LeakedState, FaultKind::NotExecuted];
        let of = |kind| self.visible.iter().find(|seen| seen.kind == kind && seen.tried > 0);
        tried.into_iter().find_map(of).is_none_or(|seen| seen.shown > 0)
    }
}

/// How far answers to the same inputs were apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// The output.
    pub output: String,
    /// Alone on the server, from one time to the next, at the most; by the rule's measure.
    #[serde(deserialize_with = "or_infinite")]
    #[schemars(with = "Option<f64>")]
    pub run: f64,
    /// Beside others, at the most.
    #[serde(deserialize_with = "or_infinite")]
    #[schemars(with = "Option<f64>")]
    pub batch: f64,
    /// With another correlation ID, at the most.
    #[serde(default, deserialize_with = "or_infinite")]
    #[schemars(with = "Option<f64>")]
    pub ids: f64,
    /// The step at which it was the most, from 1.
    pub at_step: u32,
    /// How far two states that differ are apart, in the middle of all.
    #[serde(deserialize_with = "or_infinite")]
    #[schemars(with = "Option<f64>")]
    pub typical: f64,
    /// Whether elements are NaN, which are equal to NaN.
    pub has_nan: bool,
}

impl Noise {
    /// How many times what was measured an answer may be off: what was measured is the largest of a sample.
    pub const SAFETY: f64 = 8.0;

    /// Whether it is the correlation ID that makes a difference which nothing else explains.
    pub fn is_of_ids(&self) -> bool {
        self.ids > Self::SAFETY * self.run.max(self.batch)
    }
}

/// JSON has no infinite number, and null in its place: so far apart are answers of which one has more responses.
fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// How many states can be told apart by the outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprints {
    /// Pairs of states that were compared.
    pub pairs: u64,
    /// Those that are apart by at least ten tolerances.
    pub distinct: u64,
}

impl Fingerprints {
    /// The least share of pairs that have to be told apart, in percent, for a run to be valid.
    pub const LEAST_PERCENT: u64 = 90;

    /// Whether they are enough to judge by.
    pub fn are_enough(self) -> bool {
        self.pairs > 0 && self.distinct.saturating_mul(100) >= self.pairs.saturating_mul(Self::LEAST_PERCENT)
    }
}

/// Whether a fault shows in the outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Visible {
    /// The fault.
    pub kind: FaultKind,
    /// How often it was committed.
    pub tried: u32,
    /// How often it showed at once, by at least two tolerances.
    pub shown: u32,
    /// From which step on it always showed, counted from 1; none where it did not.
    pub from_step: Option<u32>,
}
