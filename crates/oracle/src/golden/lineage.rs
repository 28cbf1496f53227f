//! How a state comes about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FaultKind;
use workload::{arithmetic::Arithmetic, inputs::InputSet, number::Number};

/// How a state comes about: by the steps of a track, or by what a fault makes of them. Steps count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lineage {
    /// The first steps of a track, one after the other.
    Track {
        /// The track's number.
        track: u32,
        /// How many steps.
        steps: u32,
    },
    /// The same, the last of them with END, of a model to which that makes a difference.
    Ended {
        /// The track's number.
        track: u32,
        /// How many steps.
        steps: u32,
    },
    /// What a fault in a track leaves behind its last step.
    Fault {
        /// The fault.
        kind: FaultKind,
        /// The track's number.
        track: u32,
        /// The step that is answered, which is the last.
        steps: u32,
    },
    /// The last step of some, on the state that another track left.
    Continued {
        /// The track of the step.
        track: u32,
        /// The step's number.
        step: u32,
        /// The track of the state.
        other: u32,
        /// How many steps of that had been executed.
        after: u32,
    },
}

impl Lineage {
    /// The inputs that lead there, each as track and step (both from 0), in their order.
    pub fn steps(self) -> Vec<(usize, usize)> {
        let of = |track: u32, steps: std::ops::Range<u32>| steps.map(move |step| (track as usize, step as usize));
        match self {
            Self::Track { track, steps } | Self::Ended { track, steps } => of(track, 0..steps).collect(),
            Self::Fault { kind, track, steps } => {
                let before = steps.saturating_sub(1);
                match kind {
                    FaultKind::StateReset => of(track, before..steps).collect(),
                    FaultKind::NotExecuted => {
                        of(track, 0..before.saturating_sub(1)).chain(of(track, before..steps)).collect()
                    }
                    FaultKind::ExecutedTwice => of(track, 0..steps).chain(of(track, before..steps)).collect(),
                    FaultKind::Exchanged => of(track, 0..before)
                        .chain(of(track, steps..steps + 1))
                        .chain(of(track, before..steps))
                        .collect(),
                    // These take a state of another track.
                    FaultKind::LeakedState | FaultKind::StateKept => of(track, 0..steps).collect(),
                }
            }
            Self::Continued { track, step, other, after } => {
                of(other, 0..after).chain(of(track, step.saturating_sub(1)..step)).collect()
            }
        }
    }

    /// The highest number of a step in it.
    pub(super) fn most_steps(self) -> u32 {
        match self {
            Self::Track { steps, .. } | Self::Ended { steps, .. } | Self::Fault { steps, .. } => steps,
            Self::Continued { step, after, .. } => step.max(after),
        }
    }

    /// The sum of the inputs' codes, with the mark of END where that makes a difference.
    pub fn sum(self, inputs: &InputSet) -> i64 {
        self.number(inputs).value()
    }

    /// The same as a number.
    pub fn number(self, inputs: &InputSet) -> Number {
        let codes = self.steps().into_iter().map(|(track, step)| inputs.number(track, step));
        let mark = if matches!(self, Self::Ended { .. }) { Arithmetic::END_MARK } else { 0 };
        codes.fold(InputSet::DATATYPE.number(mark), Number::wrapping_add)
    }

    /// How many steps were executed, one after the other.
    pub fn length(self) -> u32 {
        match self {
            Self::Track { steps, .. } | Self::Ended { steps, .. } => steps,
            Self::Fault { kind: FaultKind::StateReset, .. } => 1,
            Self::Fault { steps, .. } => steps + 1,
            Self::Continued { after, .. } => after + 1,
        }
    }
}

/// A state by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// The sum of its inputs' codes.
    pub sum: Number,
    /// How it comes about; none where no track leads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The track's name, and that of the other one where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracks: Vec<String>,
}

impl Named {
    pub(super) fn new(sum: Number, lineage: Option<Lineage>, inputs: &InputSet) -> Self {
        let tracks = match lineage {
            None => Vec::new(),
            Some(Lineage::Track { track, .. } | Lineage::Ended { track, .. } | Lineage::Fault { track, .. }) => {
                vec![track]
            }
            Some(Lineage::Continued { track, other, .. }) => vec![track, other],
        };
        let name =
            |track: u32| inputs.tracks().get(track as usize).map_or_else(String::new, |track| track.name.clone());
        Self { sum, lineage, tracks: tracks.into_iter().map(name).collect() }
    }
}
