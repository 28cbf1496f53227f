//! Says what may be the cause of a violation, from what else was sent and answered around it.
//!
//! `docs/CAUSES.md` and the pages beside it list the evidence of each cause. `docs/DIAGNOSIS.md` lists the causes that look alike,
//! and how often a cause is wrong.

mod cause;
mod clue;
mod errors;
mod hypothesis;
mod lost;
mod messages;
mod others;
mod pair;
mod rejections;
mod story;
mod streams;
mod sums;
mod suppositions;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::{
    cause::Cause,
    clue::{Clue, Left, Relation, SequenceId, WentOn},
    suppositions::{Readings, explain_as, right_inputs, suppositions, suppositions_after, suppositions_of_exchange},
};
use self::{
    hypothesis::{Fit, Hypothesis, in_order, ranked},
    story::{Asked, Spot, Story},
};
use super::{
    Evidence, Violation, ViolationKind,
    golden::{Differs, Misfit},
};
use crate::history::Entry;
use workload::{arithmetic::Arithmetic, model::Model, number::Number, sequence::IdForm};

/// What is known of the model.
#[derive(Clone, Debug, Default)]
pub struct ModelFacts {
    /// How long a sequence may get no request before the server ends it, where it is known.
    pub idle_limit: Option<Duration>,
    /// How many sequences can have a slot at a time, where it is known.
    pub slots: Option<u32>,
    /// Whether it may keep its state by correlation ID, so that it would mix two sequences of one ID.
    pub keyed_by_id: bool,
    /// Whether the server keeps the number of a sequence's steps in a state of its own.
    pub keeps_count: bool,
    /// What it computes.
    pub arithmetic: Arithmetic,
    /// The output in which it says what it saw of a request, where it does.
    pub controls: Option<String>,
    /// What correlation IDs are on the wire.
    pub id_forms: Vec<IdForm>,
    /// How many servers may have answered a step, where they are several and nothing tells which did; nought where nobody knows how many.
    pub untold_servers: Option<usize>,
}

impl ModelFacts {
    /// The same where correlation IDs have these forms.
    pub fn with_ids(self, forms: impl Iterator<Item = IdForm>) -> Self {
        Self { id_forms: forms.collect(), ..self }
    }

    /// The same where so many servers may have answered a step (nought: an unknown number), and nothing tells which did.
    #[must_use]
    pub fn with_untold_servers(self, untold_servers: Option<usize>) -> Self {
        Self { untold_servers, ..self }
    }

    /// What a run knows of its model.
    pub fn of(model: &Model) -> Self {
        Self {
            idle_limit: model.idle_limit,
            slots: model.slots.filter(|_| model.slots_in_phases.is_none()),
            keyed_by_id: model.mixes_pipelined.is_some(),
            keeps_count: model.keeps_count,
            arithmetic: model.arithmetic,
            controls: model.controls.as_ref().map(|controls| controls.output.clone()),
            id_forms: vec![IdForm::default()],
            untold_servers: None,
        }
    }
}

/// What may have gone wrong, and what speaks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What may have gone wrong.
    pub cause: Cause,
    /// What speaks for it.
    pub clues: Vec<Clue>,
    /// That quantities match as they do happens by chance in one of so many cases; none where it hardly ever does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_chance: Option<u64>,
}

impl Explanation {
    /// Names the ranks of the accused step's worker and of the other one, where these are two.
    pub fn name_ranks(&mut self, worker: u32, rank_of: impl Fn(u32) -> u32) {
        let Some(from_worker) = self.clues.iter().find_map(Clue::other_worker) else { return };
        let (rank, from_rank) = (rank_of(worker), rank_of(from_worker));
        if rank != from_rank {
            self.clues.push(Clue::AcrossRanks { rank, worker, from_rank, from_worker });
        }
    }

    /// A cause that needs no weighing.
    pub fn new(cause: Cause, clues: impl Into<Vec<Clue>>) -> Self {
        Self { cause, clues: clues.into(), by_chance: None }
    }
}

/// What may be the cause of a violation, most likely first.
///
/// `window` has what happened around it on all contexts, in the order of time: from some seconds before it until the
/// accused sequence was answered again, or longer. It has to have the accused request: where an answer is lost, that was sent
/// as long before as it was waited for.
pub fn explain(violation: &Violation, window: &[Entry], known: &ModelFacts) -> Vec<Explanation> {
    explain_in(&Story::new(window, known.arithmetic, &Readings::new()), violation, known)
}

/// Takes back what the explanations of a violation say of lost slots, where after the run all slots of the server were free.
pub fn know_that_slots_are_free(violation: &mut Violation, slots: u32) {
    if violation.kind == ViolationKind::Lost {
        lost::with_all_slots_free(&mut violation.explanations, slots);
    }
}

fn explain_in(story: &Story, violation: &Violation, known: &ModelFacts) -> Vec<Explanation> {
    // The step that the violation is about, where the window has it.
    let spot = violation.request().and_then(|request| story.find(request));
    let question = Question { violation, known, story, spot };
    ranked(question.hypotheses(), story.bits)
}

struct Question<'q> {
    violation: &'q Violation,
    known: &'q ModelFacts,
    story: &'q Story<'q>,
    spot: Option<Spot>,
}

impl Question<'_> {
    fn hypotheses(&self) -> Vec<Hypothesis> {
        self.split().into_iter().chain(self.of_one_server()).collect()
    }

    /// That the sequence's steps may have gone to several servers. A rejection is what they give then, and other sums follow from it.
    fn split(&self) -> Option<Hypothesis> {
        use ViolationKind as Kind;
        let servers = self.known.untold_servers?;
        let begins = self.violation.place.as_ref().and_then(|place| place.step).is_some_and(|step| step.start);
        let (rank, fit) = match self.violation.kind {
            Kind::SpuriousStartError if !begins => (1, Fit::Yes),
            Kind::WrongSum | Kind::WrongOutput | Kind::WrongSlot if !begins => (1, Fit::NotKnown),
            Kind::MissingStartError => (1, Fit::NotKnown),
            _ => return None,
        };
        Some(Hypothesis::of_rank(Cause::SequenceSplit, rank, fit, [Clue::SeveralServers { servers }]))
    }

    fn of_one_server(&self) -> Vec<Hypothesis> {
        use ViolationKind as Kind;
        let of_step =
            |explain: fn(&Self, Spot) -> Vec<Hypothesis>| self.spot.map(|spot| explain(self, spot)).unwrap_or_default();
        let seen = |causes: &[Cause]| in_order(causes, [Clue::Seen]);
        match self.violation.kind {
            Kind::WrongSum | Kind::WrongOutput => of_step(Self::wrong_sum),
            Kind::MissingStartError => of_step(rejections::missing),
            Kind::SpuriousStartError => of_step(rejections::spurious),
            Kind::FlawAccepted => of_step(rejections::of_flaw),
            Kind::SpuriousTimeout | Kind::MissingTimeout => of_step(rejections::of_limit),
            Kind::WrongControl => errors::control(self),
            Kind::WrongSlot => errors::slot(self),
            Kind::SequenceSplit => in_order(&[Cause::SequenceSplit], [Clue::SeenAndExpected]),
            Kind::UnexpectedError => of_step(errors::explain),
            Kind::Hang => lost::by_anybody(self),
            Kind::Lost => self.spot.map_or_else(lost::alone, |spot| lost::explain(self, spot)),
            Kind::Duplicate => messages::duplicate(self),
            Kind::Reordered => seen(&[Cause::ResponsesReordered]),
            Kind::Misaddressed => messages::misaddressed(self),
            Kind::WrongModel => seen(&[Cause::OtherModelsName]),
            Kind::WrongVersion => seen(&[Cause::OtherVersion]),
            Kind::WrongOutputName => messages::other_outputs(self),
            Kind::WrongOutputType => seen(&[Cause::OutputType]),
            Kind::WrongOutputShape => seen(&[Cause::OutputShape]),
            Kind::WrongOutputSize => seen(&[messages::size(self)]),
            Kind::StreamBroken => streams::broken(self),
            Kind::StreamNotClosed => seen(&[Cause::StreamKeptOpen]),
            Kind::Statistics => streams::statistics(self),
            Kind::ServerDied => seen(&[Cause::Crash]),
            Kind::SlotLeak => seen(&[Cause::SlotLeak, Cause::MissingReap]),
            // Where the state is the slot's, two sequences of one slot would have got wrong sums.
            Kind::SlotReleasedTwice if self.known.keyed_by_id => seen(&[Cause::SharedState, Cause::ExtraSlot]),
            Kind::SlotReleasedTwice => seen(&[Cause::ExtraSlot, Cause::SharedState]),
            Kind::SlotWithheld => seen(&[Cause::SlotKept, Cause::EndNotTold]),
            Kind::SlotOutOfTurn => seen(&[Cause::Starvation]),
            Kind::MissingReap => seen(&[Cause::MissingReap]),
            Kind::PendingLeft => streams::pending(self),
            Kind::NotReady | Kind::MemoryGrowth => Vec::new(),
        }
    }

    fn wrong_sum(&self, spot: Spot) -> Vec<Hypothesis> {
        // Where an answer depends on its request alone, no other request explains it.
        if self.known.arithmetic.formula.is_stateless() {
            return Vec::new();
        }
        // One of two answers is wrong then, and nobody knows which.
        if matches!(&self.violation.evidence, Evidence::Output { like: Some(like), .. } if !like.is_confirmed) {
            return Vec::new();
        }
        let asked = self.story.asked(spot);
        if let Some(wrong) = self.wrong_in_one_element(asked) {
            return vec![wrong];
        }
        let told = match &self.violation.evidence {
            Evidence::Sum { expected, .. } => <[Number; 1]>::try_from(expected.as_slice()).ok(),
            Evidence::Output { expected, .. } => match expected.as_slice() {
                [alone] => Some([alone.sum]),
                _ => None,
            },
            _ => None,
        };
        let sum = |[answer]: [Number; 1]| {
            // One that was read from a file has the widest type.
            let answer = asked.step.value.datatype().number(answer.value());
            self.known.arithmetic.sum(answer, &asked.step, self.story.told(spot).correlation_id)
        };
        let expected = told.map(sum).or(asked.right);
        expected.map(|expected| sums::explain(self.story, self.known, spot, expected)).unwrap_or_default()
    }

    /// Where outputs are right but for one element, the model computed wrongly: another state would show in all.
    fn wrong_in_one_element(&self, asked: &Asked) -> Option<Hypothesis> {
        let Evidence::Output { misfit: Some(misfit), .. } = &self.violation.evidence else { return None };
        let Misfit::Output(deviation) = &**misfit else { return None };
        let Differs::Number { element, differing: Some(1), of, .. } = deviation.what else { return None };
        let clue = Clue::OneElement { element: element + 1, of };
        let is_it = of > 1 && asked.sum().is_none();
        is_it.then(|| Hypothesis::new(Cause::WrongArithmetic, 1, Fit::NotKnown, [clue]))
    }
}

#[cfg(test)]
mod tests;
