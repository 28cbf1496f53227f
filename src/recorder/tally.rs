//! What is counted: of each pattern, and of all.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Executed, NotGood, Pacing, Times, Waits, packed::array};
use oracle::{Sent, ViolationKind};
use workload::{claim::Claims, sequence::Pattern};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What was sent and what became of it; files leave out what is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Requests sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Requests that the server executed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub completed: u64,
    /// Requests that the server rejected: for want of START, for a flaw, or because a time limit passed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected: u64,
    /// Of these, those whose time limit passed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expired: u64,
    /// Requests that the server answered with another error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Requests of which it is not known whether the server executed them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub indeterminate: u64,
    /// Answers whose sum or rejection was not determined, and so could not be judged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unjudged: u64,
    /// Sequences begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sequences: u64,
    /// Sequences each of whose steps was executed, or rejected where it had to be, without a violation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sequences_as_designed: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.completed += other.completed;
        self.rejected += other.rejected;
        self.expired += other.expired;
        self.failed += other.failed;
        self.indeterminate += other.indeterminate;
        self.unjudged += other.unjudged;
        self.sequences += other.sequences;
        self.sequences_as_designed += other.sequences_as_designed;
    }

    pub(crate) fn sent(&self) -> Sent {
        Sent { requests: self.requests, answered: self.answered() }
    }

    /// Requests that were answered in whatever way.
    pub fn answered(&self) -> u64 {
        self.completed + self.rejected + self.failed
    }
}

/// Everything that is counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Counts by pattern, in the order of [`Pattern::ALL`].
    #[serde(with = "array")]
    pub patterns: [Counts; Pattern::ALL.len()],
    /// How many violations there were in sequences of each pattern, in the same order.
    #[serde(with = "array")]
    pub(crate) wrong: [u64; Pattern::ALL.len()],
    /// From when a step was due, or where it has no time of its own from when it was sent, to its response.
    pub step: Times,
    /// Where the time of the steps went that the server executed.
    pub executed: Executed,
    /// From when a sequence's START was due, or was sent where it has no time of its own, to the first response to it. A history does not
    /// tell it of a model that gives several.
    pub first_response: Times,
    /// What was not good of responses and requests, where anything was.
    pub(crate) not_good: Option<Box<NotGood>>,
    /// Requests that were still waited for when the run was ended.
    pub(crate) unanswered: u64,
    /// What is measured only where steps or iterations have times of their own.
    pub pacing: Option<Box<Pacing>>,
    /// The times of all sequences.
    pub waits: Waits,
    /// Those of each population, where there are several.
    pub populations: Vec<Waits>,
    /// How often each kind of violation occurred.
    pub violations: BTreeMap<ViolationKind, u64>,
    /// Answers that took longer than the threshold.
    pub slow: u64,
    /// Whether a stream was cut, so that the server's counts are bounded and not determined.
    pub cut: bool,
    /// Whether a context lost a response and had no later request executed. The server may have stopped answering every client.
    pub stuck: bool,
    /// How often each claim was reached.
    pub reached: Claims,
    /// By what they were taken for the rejection of: the first error in words that are not known.
    pub other_words: BTreeMap<String, String>,
}

impl Tally {
    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.patterns.iter_mut().zip(&other.patterns) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.wrong.iter_mut().zip(&other.wrong) {
            *mine += theirs;
        }
        self.step.add(&other.step);
        self.executed.add(&other.executed);
        self.first_response.add(&other.first_response);
        self.unanswered += other.unanswered;
        if let Some(theirs) = &other.not_good {
            self.not_good.get_or_insert_default().add(theirs);
        }
        if let Some(theirs) = &other.pacing {
            self.pacing.get_or_insert_default().add(theirs);
        }
        self.waits.add(&other.waits);
        self.populations.resize_with(self.populations.len().max(other.populations.len()), Waits::default);
        for (mine, theirs) in self.populations.iter_mut().zip(&other.populations) {
            mine.add(theirs);
        }
        for (&kind, count) in &other.violations {
            *self.violations.entry(kind).or_default() += count;
        }
        self.slow += other.slow;
        self.cut |= other.cut;
        self.stuck |= other.stuck;
        self.reached.add(&other.reached);
        for (of, text) in &other.other_words {
            self.other_words.entry(of.clone()).or_insert_with(|| text.clone());
        }
    }

    /// All times that those of a population's sequences belong to.
    pub(super) fn waits_of(&mut self, population: usize) -> impl Iterator<Item = &mut Waits> {
        std::iter::once(&mut self.waits).chain(self.populations.get_mut(population))
    }

    /// The counts of all patterns together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.patterns.iter().for_each(|counts| total.add(counts));
        total
    }

    /// How many violations there were, of all kinds.
    pub fn violation_count(&self) -> u64 {
        self.violations.values().sum()
    }

    /// Counts a violation.
    pub fn violation(&mut self, kind: ViolationKind) {
        *self.violations.entry(kind).or_default() += 1;
    }
}
