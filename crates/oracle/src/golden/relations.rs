//! What holds of a model's outputs although nobody measured them: the same steps from START on are answered with the same outputs, whatever
//! was there before, beside it, and on the way.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Compare, Gathered, Golden, Misfit, Output, read};
use crate::Place;
use workload::{conversation::Transport, event::Nanos, number::Number};

/// How many bytes of outputs are kept at the most. States that come later are not compared.
const KEPT_MAX: usize = 256 << 20;
/// About how many bytes an answer takes beside its outputs.
const ENTRY: usize = 512;
/// How many answers to one state are kept that differ.
const SIGHTINGS_MAX: usize = 8;
/// Two answers may both be off, in opposite directions.
const BOTH: f64 = 2.0;

/// What a run expects of the outputs of a model without a formula.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// What was measured before it.
    pub golden: Arc<Golden>,
    /// What the run itself saw.
    pub relations: Arc<Relations>,
}

impl Expectation {
    /// That of a new run.
    pub fn of(golden: Arc<Golden>) -> Self {
        Self { golden, relations: Arc::default() }
    }
}

impl Deref for Expectation {
    type Target = Golden;

    fn deref(&self) -> &Golden {
        &self.golden
    }
}

/// The first answers of a run to states whose golden outputs are not known.
#[derive(Debug, Default)]
pub struct Relations(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// By state: the first answer, and those that are like none before.
    by_sum: HashMap<i64, Vec<Arc<Sighting>>>,
    bytes: usize,
    counts: Repeated,
}

/// An answer, and its outputs.
type Sighting = (Answered, Gathered);

/// An answer to a step, and where it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// To which step.
    pub place: Place,
    /// When, in nanoseconds since the run began.
    pub at_ns: Nanos,
    /// What the step was sent over, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Whether the idle server answered so after the run.
    #[serde(default)]
    pub is_confirmed: bool,
}

/// How often a state came again whose golden outputs are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeated {
    /// Answers that were compared with the first one to the same steps.
    pub compared: u64,
    /// How many of them were equal to it in every bit.
    pub equal: u64,
}

/// What an answer is beside the first one to the same steps.
#[derive(Debug)]
pub(crate) enum Beside {
    /// It is the first, or no output of it can be compared.
    Nothing,
    /// They are the same.
    Same,
    /// They are further apart than they may be.
    Other(Box<(Answered, Misfit)>),
}

impl Relations {
    /// Compares an answer with the first one to the same steps, or keeps it as that one. The
    /// state is its sum, and how many steps lead to it.
    pub(crate) fn compare(
        &self,
        golden: &Golden,
        (sum, steps): (Number, u32),
        answered: Answered,
        seen: Gathered,
    ) -> Beside {
        let earlier = {
            let mut kept = self.locked();
            let Some(earlier) = kept.by_sum.get(&sum.value()).cloned() else {
                kept.keep(sum, answered, seen);
                return Beside::Nothing;
            };
            kept.counts.compared += 1;
            kept.counts.equal += u64::from(earlier[0].1 == seen);
            earlier
        };
        let first = &earlier[0];
        let outputs = repeatable(golden, steps);
        let differs =
            |from: &Sighting| read::misfit(&outputs, steps, &read::of_gathered(&from.1), &read::of_gathered(&seen));
        let Some(misfit) = differs(first) else {
            return if outputs.iter().any(Output::is_judged) { Beside::Same } else { Beside::Nothing };
        };
        // That the first was another has been said then.
        if earlier.iter().any(|other| differs(other).is_none()) {
            return Beside::Same;
        }
        let first = first.0.clone();
        self.locked().keep(sum, answered, seen);
        Beside::Other(Box::new((first, misfit)))
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the first answer to a state had.
    pub fn first(&self, sum: Number) -> Option<Gathered> {
        self.locked().by_sum.get(&sum.value()).map(|kept| kept[0].1.clone())
    }

    /// How often states came again so far.
    pub fn repeated(&self) -> Repeated {
        self.locked().counts
    }
}

impl Kept {
    fn keep(&mut self, sum: Number, answered: Answered, seen: Gathered) {
        let size: usize = seen.iter().flatten().map(|(_, bytes)| bytes.len()).sum();
        // What an entry takes beside its outputs.
        let size = size + ENTRY;
        let has_room = self.by_sum.get(&sum.value()).is_none_or(|kept| kept.len() < SIGHTINGS_MAX);
        if has_room && self.bytes + size <= KEPT_MAX {
            self.bytes += size;
            self.by_sum.entry(sum.value()).or_default().push(Arc::new((answered, seen)));
        }
    }
}

/// The outputs with how far two answers to the same steps may be apart. What was measured holds up to the last step that was measured, because
/// noise grows with steps.
pub(super) fn repeatable(golden: &Golden, steps: u32) -> Vec<Output> {
    let of = |output: &Output| {
        let tolerances = match output.compare {
            Compare::Exact => vec![0.0],
            Compare::Rtol(bound) | Compare::Atol(bound) | Compare::Cosine(bound) => vec![bound],
            Compare::Measured if output.is_judged() && output.tolerance(steps) == 0.0 => vec![0.0],
            Compare::Measured if output.is_judged() && steps <= golden.steps() => {
                vec![BOTH * output.tolerance(steps)]
            }
            Compare::Measured | Compare::Ignore => Vec::new(),
        };
        Output { tolerances, ..output.clone() }
    };
    golden.outputs.iter().map(of).collect()
}
