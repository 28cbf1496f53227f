//! What a model without a formula answers: its outputs for each track, as a calibration saw them on an idle server.
//!
//! The oracle goes on to think in sums. The state behind some steps is the sum of their inputs' codes ([`InputSet`]), and here is which
//! outputs a state has. So an answer is read as the state that its outputs belong to, and all that is known of sums holds of it.

mod compare;
mod facts;
mod file;
mod index;
mod lineage;
mod read;
mod relations;

use std::{collections::HashMap, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use workload::{
    arithmetic::Arithmetic,
    inputs::{ElementType, InputSet},
    number::Number,
    tensor::TensorSpec,
};

pub use self::{
    compare::Compare,
    facts::{EndEffect, Facts, FaultKind, Fingerprints, Noise, Visible},
    file::Damaged,
    lineage::{Lineage, Named},
    read::{Deviation, Differs, Misfit, Reading, unlike},
    relations::{Answered, Expectation, Relations, Repeated},
};
pub(super) use self::{
    read::{Arranged, FormProblem},
    relations::Beside,
};

/// The golden outputs of a model.
#[derive(Debug)]
pub struct Golden {
    /// Of which model.
    pub identity: Identity,
    /// What is sent.
    pub inputs: Arc<InputSet>,
    /// The outputs that are compared.
    pub outputs: Vec<Output>,
    /// What the calibration found out.
    pub facts: Facts,
    /// The configuration that the model had then, as text; none where the server did not tell it.
    pub configuration: Option<String>,
    words: Vec<Word>,
    by_sum: HashMap<i64, usize>,
    index: index::Index,
}

/// Of which model and inputs golden outputs are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The model's name.
    pub model: String,
    /// Its version, where the server tells it.
    pub version: Option<String>,
    /// The server's name and version, where it tells them.
    pub server: Option<String>,
    /// The SHA-256 of its configuration, where the server tells that.
    pub configuration: Option<String>,
    /// The SHA-256 of the inputs.
    pub inputs: String,
}

/// An output that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// What the model declares of it.
    pub spec: TensorSpec,
    /// Its type.
    pub datatype: ElementType,
    /// How it is compared.
    pub compare: Compare,
    /// How far it may be from the golden one, by the number of steps from 1; more steps have the last. Empty where it is not deterministic
    /// enough to be judged.
    pub tolerances: Vec<f64>,
}

impl Output {
    /// Whether it is judged.
    pub fn is_judged(&self) -> bool {
        !self.tolerances.is_empty()
    }

    /// Whether the user set a rule by which it is compared.
    pub fn has_rule(&self) -> bool {
        !matches!(self.compare, Compare::Measured | Compare::Ignore)
    }

    /// Whether a tensor of it has elements that are no number.
    pub fn has_nan(&self, bytes: &[u8]) -> bool {
        compare::is_float(self.datatype) && compare::numbers(self.datatype, bytes).any(f64::is_nan)
    }

    /// How far it may be from the golden one after so many steps.
    pub fn tolerance(&self, steps: u32) -> f64 {
        let place = (steps.max(1) as usize - 1).min(self.tolerances.len().saturating_sub(1));
        self.tolerances.get(place).copied().unwrap_or(f64::INFINITY)
    }
}

/// A state whose outputs are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// How it comes about.
    pub lineage: Lineage,
    /// The responses to the step that leads to it.
    pub responses: Arc<Gathered>,
}

/// The responses to one step, in their order: for each its outputs, in the order of the golden's, as shape and bytes.
pub type Gathered = Vec<Vec<(Vec<i64>, Vec<u8>)>>;

impl Golden {
    /// The golden outputs of these states.
    pub fn new(
        identity: Identity,
        inputs: Arc<InputSet>,
        outputs: Vec<Output>,
        facts: Facts,
        seen: impl IntoIterator<Item = (Lineage, Arc<Gathered>)>,
    ) -> Self {
        let mut golden = Self {
            identity,
            inputs,
            outputs,
            facts,
            configuration: None,
            words: seen.into_iter().map(|(lineage, responses)| Word { lineage, responses }).collect(),
            by_sum: HashMap::new(),
            index: index::Index::default(),
        };
        // Several lineages may have the same inputs, and some of them in another order: what has no fault is the one that is meant.
        let is_right = |word: &Word| matches!(word.lineage, Lineage::Track { .. } | Lineage::Ended { .. });
        let (right, others): (Vec<_>, Vec<_>) = golden.words.iter().enumerate().partition(|(_, word)| is_right(word));
        for (place, word) in right.into_iter().chain(others) {
            golden.by_sum.entry(word.lineage.sum(&golden.inputs)).or_insert(place);
        }
        golden.index = index::Index::of(&golden);
        golden
    }

    /// The same golden outputs of another model, which answers as this one does.
    #[must_use]
    pub fn of_another(&self, identity: Identity) -> Self {
        let seen = self.words.iter().map(|word| (word.lineage, Arc::clone(&word.responses)));
        Self::new(identity, Arc::clone(&self.inputs), self.outputs.clone(), self.facts.clone(), seen)
    }

    /// The known states.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// The state with this sum, where its outputs are known.
    pub fn word(&self, sum: Number) -> Option<&Word> {
        self.by_sum.get(&sum.value()).map(|place| &self.words[*place])
    }

    /// Whether the outputs of the state with this sum are known.
    pub fn knows(&self, sum: Number) -> bool {
        self.by_sum.contains_key(&sum.value())
    }

    /// How many steps of each track are known.
    pub fn steps(&self) -> u32 {
        let of_track = |word: &Word| match word.lineage {
            Lineage::Track { steps, .. } => Some(steps),
            _ => None,
        };
        self.words.iter().filter_map(of_track).max().unwrap_or(0)
    }

    /// How many steps of each track are known with END, where that makes a difference.
    pub fn ended_steps(&self) -> u32 {
        let of_track = |word: &Word| match word.lineage {
            Lineage::Ended { steps, .. } => Some(steps),
            _ => None,
        };
        self.words.iter().filter_map(of_track).max().unwrap_or(0)
    }

    /// The most responses that any step has.
    pub fn most_responses(&self) -> usize {
        self.words.iter().map(|word| word.responses.len()).max().unwrap_or(1)
    }

    /// Whether this number stands for the answer to a step with END, which another one would not get.
    pub(super) fn has_end(&self, answer: Number) -> bool {
        self.word(answer).is_some_and(|word| matches!(word.lineage, Lineage::Ended { .. }))
    }

    /// The number that stands for the answer to a step, by the sum that the state has then.
    pub fn number_of(&self, sum: Number, has_end: bool) -> Number {
        let mark = if has_end && self.facts.at_end.matters() { Arithmetic::END_MARK } else { 0 };
        sum.wrapping_add(InputSet::DATATYPE.number(mark))
    }

    /// The state with this sum by its name: the track that leads to it, and how.
    pub fn named(&self, sum: Number) -> Named {
        Named::new(sum, self.word(sum).map(|word| word.lineage), &self.inputs)
    }

    /// The names of the outputs that are asked for.
    pub fn asked(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|output| output.spec.name.as_str())
    }

    /// Whether any output is judged.
    pub fn judges(&self) -> bool {
        self.outputs.iter().any(Output::is_judged)
    }

    /// Whether a run that is judged by it can be valid: the outputs tell states apart.
    pub fn is_enough(&self) -> bool {
        self.judges() && self.facts.fingerprints.are_enough() && self.facts.show_states()
    }
}

#[cfg(test)]
mod tests;
