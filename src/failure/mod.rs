//! A failure that can be had again: the conversations that led to it, small enough to be read.

mod facts;
mod file;
mod found;
mod server;
mod shrink;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use oracle::{Evidence, Violation, ViolationKind, golden::Golden};
use reference::ServerSetup;
use workload::{
    arithmetic::Arithmetic,
    conversation::{Act, Conversation},
    number::{Datatype, Number},
    scenario::Scenario,
    seed::Seed,
};

pub use facts::{Facts, Replayed, Tensors};
pub use found::Run;
pub(crate) use server::late_fault;
pub use shrink::{Shrunk, shrink};

/// What a failure file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The violation, in words.
    pub found: String,
    /// Its kind: what has to come again.
    pub kind: ViolationKind,
    /// The endpoint, the model, the limits, and how is sent; what would be drawn is not used.
    pub scenario: Scenario,
    /// The seed of the run in which it was found.
    pub seed: Seed,
    /// The reference server that it was found in; none for another server.
    pub embedded: Option<ServerSetup>,
    /// Whether it was seen while the slots were counted, after all conversations.
    pub at_the_slots: bool,
    /// What the model computes.
    pub arithmetic: Arithmetic,
    /// The step that the violation is about, in a conversation that is accused; none where no step is, or that is not known.
    pub accused: Option<Accused>,
    /// What is sent.
    pub conversations: Vec<Conversation>,
    /// What a bug report says besides.
    pub facts: Facts,
}

/// The step that a violation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accused {
    /// The step's index in its sequence.
    pub step: u32,
    /// What it sends.
    #[serde(with = "workload::wide")]
    pub value: Number,
    /// What it had to be answered with, where that is one thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
}

/// What a step has to be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Due {
    /// An error that says that it was not executed.
    Rejection,
    /// Any answer.
    Answer,
    /// This answer.
    Sum(#[serde(with = "workload::wide")] Number),
}

impl Accused {
    /// The same with numbers of this type; those that are read have the widest one.
    fn in_type(self, datatype: Datatype) -> Self {
        let number = |number: Number| datatype.number(number.value());
        let due = self.due.map(|due| match due {
            Due::Sum(sum) => Due::Sum(number(sum)),
            due => due,
        });
        Self { value: number(self.value), due, ..self }
    }

    pub(super) fn of(violation: &Violation) -> Option<Self> {
        let step = violation.place.as_ref()?.step?;
        let due = match &violation.evidence {
            Evidence::NotRejected { .. } | Evidence::Failed { has_to_be_rejected: true, .. } => Some(Due::Rejection),
            Evidence::Rejected { .. } | Evidence::Failed { has_to_be_rejected: false, .. } => Some(Due::Answer),
            Evidence::Sum { expected, .. } => match expected.as_slice() {
                [expected] => Some(Due::Sum(*expected)),
                _ => None,
            },
            Evidence::Output { expected, .. } => match expected.as_slice() {
                [expected] => Some(Due::Sum(expected.sum)),
                _ => None,
            },
            _ => None,
        };
        Some(Self { step: step.request.step, value: step.value, due })
    }
}

impl Failure {
    /// How many requests are sent.
    pub fn messages(&self) -> usize {
        self.conversations.iter().map(Conversation::messages).sum()
    }

    /// Why these are not the golden outputs that the run was judged by, in one line; none where they may be.
    pub fn rejects(&self, golden: &Golden) -> Option<String> {
        const WHICH: &str = "name the golden file that the run was judged by (--golden FILE)";
        let (model, of) = (&self.scenario.target.model, &golden.identity.model);
        if !self.arithmetic.formula.is_golden() {
            return Some("the run was not judged by golden outputs: leave out --golden".to_owned());
        }
        if of != model {
            return Some(format!("the golden file is of model '{of}', and the failure of model '{model}': {WHICH}"));
        }
        let is_known = |act: &Act| match act {
            Act::Send { value, .. } => golden.inputs.tensors(*value).is_some(),
            _ => true,
        };
        let mut acts = self.conversations.iter().flat_map(|conversation| &conversation.acts);
        let unknown = acts.find(|act| !is_known(act))?;
        Some(format!("the golden file does not have the input of '{unknown}', so it is of other inputs: {WHICH}"))
    }

    /// The same conversations with workers and contexts numbered from 0, so that no more of them are made than needed. Where there are
    /// several versions of the model, workers whose correlation IDs are the same in all versions stay so.
    pub(crate) fn renumbered(mut self) -> Self {
        let width = self.scenario.workers_of_a_version().unwrap_or(u32::MAX);
        let mut places: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
        for conversation in &self.conversations {
            let contexts = conversation.others().into_iter().chain([conversation.context]);
            places.entry(conversation.worker % width).or_default().extend(contexts.map(|context| (context, 0)));
        }
        for contexts in places.values_mut() {
            contexts.values_mut().zip(0..).for_each(|(number, new)| *number = new);
        }
        let numbers: BTreeMap<u32, u32> = places.keys().copied().zip(0..).collect();
        let renumber = |its: Conversation| {
            let place = its.worker % width;
            let contexts = &places[&place];
            Conversation {
                worker: its.worker - place + numbers[&place],
                ..its.with_contexts(|context| contexts[&context])
            }
        };
        self.conversations = self.conversations.into_iter().map(renumber).collect();
        let first = self.conversations.iter().map(|conversation| conversation.at_us).min().unwrap_or(0);
        self.conversations.iter_mut().for_each(|conversation| conversation.at_us -= first);
        // In the order in which a run has them, so that sequences have the same numbers.
        self.conversations.sort_by_key(|conversation| conversation.at_us);
        self
    }

    /// The same without any waiting but for answers.
    pub fn at_once(self) -> Self {
        let conversations = self.conversations.into_iter().map(Conversation::at_once).collect();
        Self { conversations, ..self }
    }

    /// The same as a run has shown it last: with these words, and with the conversation in which that was seen.
    pub fn as_seen(mut self, violation: &Violation, found: String) -> Self {
        self.found = found;
        self.accused = Accused::of(violation);
        if let Some(request) = violation.request() {
            let mut begun = 0;
            for conversation in &mut self.conversations {
                conversation.accused = false;
                if conversation.worker == request.worker {
                    let sequences = begun..begun + conversation.sequences();
                    begun = sequences.end;
                    conversation.accused = sequences.contains(&request.sequence);
                }
            }
        }
        self
    }

    /// How many workers, and how many contexts of each, its conversations need.
    pub(crate) fn size(&self) -> (u32, u32) {
        let most =
            |number: fn(&Conversation) -> u32| self.conversations.iter().map(number).max().map_or(1, |most| most + 1);
        let last = |conversation: &Conversation| conversation.others().last().copied().unwrap_or(conversation.context);
        (most(|conversation| conversation.worker), most(last))
    }
}

#[cfg(test)]
pub(crate) mod tests;
