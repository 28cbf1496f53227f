//! Whether some order of steps that were submitted at once explains all their answers: linearizability of a counter.
//!
//! A step that was answered before another one was sent came before it; else either may have come first. A sum names the sum
//! before it, so the next step of an order is looked up and seldom searched for.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{evidence::Disorder, states::State};
use workload::{
    event::Nanos,
    number::Number,
    sequence::{RequestId, Step},
};

/// How many orders' beginnings are looked at.
const LOOKS_MAX: usize = 500_000;

/// A step, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) step: Step,
    pub(super) sent_at: Nanos,
    /// When its answer came, and what it was; none where it may or may not have been executed.
    pub(super) answer: Option<(Nanos, Answer)>,
}

/// What a step was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A sum.
    Sum(Number),
    /// A rejection for want of START.
    Rejected,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrderFound {
    /// In this order the answers are right; steps without an answer that are not in it were not executed.
    Explained(Vec<Taken>),
    /// No order explains all answers.
    Contradiction(Disorder),
    /// There are more orders than can be looked at.
    Undecided,
}

/// A step, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// The step's request.
    pub request: RequestId,
    /// The answer; none where none has come.
    pub answer: Option<Answer>,
}

/// Decides whether some order explains the answers, from this state on.
pub(super) fn decide(operations: &[Operation], from: State) -> OrderFound {
    Search::new(operations).run(from)
}

#[derive(Default)]
struct Search<'o> {
    operations: &'o [Operation],
    /// Steps that go on from this sum.
    by_sum_before: HashMap<Number, Vec<usize>>,
    starts: Vec<usize>,
    rejected: Vec<usize>,
    unanswered: Vec<usize>,
    /// The answered ones, in the order of their answers.
    by_answer: Vec<usize>,
    /// All of `by_answer` before this are placed.
    first_open: usize,
    is_placed: Vec<bool>,
    open: usize,
    path: Vec<Position>,
    longest: Vec<usize>,
    /// How many steps with an answer the longest beginning does not have.
    least_open: usize,
    unexplained: Vec<usize>,
    seen: HashSet<(u64, State)>,
    digest: u64,
    /// How many steps `run` has looked at.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

/// A step of the order that is tried, and what else could stand in its place.
struct Position {
    operation: usize,
    before: State,
    first_open_before: usize,
    others: Vec<usize>,
}

impl<'o> Search<'o> {
    fn new(operations: &'o [Operation]) -> Self {
        let mut search =
            Self { operations, is_placed: vec![false; operations.len()], least_open: usize::MAX, ..Self::default() };
        for (index, Operation { step, answer, .. }) in operations.iter().enumerate() {
            match answer {
                None => search.unanswered.push(index),
                Some((_, Answer::Rejected)) => search.rejected.push(index),
                Some((_, Answer::Sum(_))) if step.start => search.starts.push(index),
                Some((_, Answer::Sum(sum))) => {
                    search.by_sum_before.entry(sum.wrapping_sub(step.value)).or_default().push(index);
                }
            }
        }
        let answered = |index: &usize| operations[*index].answer.map(|(at, _)| at);
        search.by_answer = (0..operations.len()).filter(|index| answered(index).is_some()).collect();
        search.by_answer.sort_by_key(answered);
        search.open = search.by_answer.len();
        search
    }

    fn run(&mut self, from: State) -> OrderFound {
        let mut state = from;
        let mut candidates = self.candidates(state);
        let mut looks = 0;
        loop {
            if self.open == 0 {
                return OrderFound::Explained(self.taken(self.path.iter().map(|place| place.operation)));
            }
            looks += 1;
            if looks > LOOKS_MAX + self.operations.len() {
                return OrderFound::Undecided;
            }
            if let Some(operation) = candidates.pop() {
                let (before, first_open_before) = (state, self.first_open);
                state = self.place(operation, before);
                self.path.push(Position { operation, before, first_open_before, others: candidates });
                candidates = if self.seen.insert((self.digest, state)) { self.candidates(state) } else { Vec::new() };
                continue;
            }
            self.remember_the_longest();
            let Some(place) = self.path.pop() else {
                return OrderFound::Contradiction(Disorder {
                    before: from,
                    prefix: self.taken(self.longest.iter().copied()),
                    unexplained: self.taken(self.unexplained.iter().copied()),
                });
            };
            self.mark(place.operation, false);
            self.first_open = place.first_open_before;
            (state, candidates) = (place.before, place.others);
        }
    }

    /// The steps that may come next in this state, the likeliest last.
    fn candidates(&self, state: State) -> Vec<usize> {
        let may_come = |index: &usize| {
            #[cfg(test)]
            self.looked_at.update(|looked_at| looked_at + 1);
            !self.is_placed[*index] && self.may_be_next(*index)
        };
        let right_start = |index: &usize| {
            let Operation { step, answer, .. } = &self.operations[*index];
            matches!(answer, Some((_, Answer::Sum(sum))) if *sum == step.value)
        };
        let is_start = |index: &&usize| self.operations[**index].step.start;
        if state == State::Absent {
            let rejected = |index: &usize| may_come(index) && !self.operations[*index].step.start;
            // It changes nothing, so no other order has to be tried.
            if let Some(&rejected) = self.rejected.iter().find(|index| rejected(index)) {
                return vec![rejected];
            }
        }
        let starts = self.starts.iter().filter(|index| right_start(index));
        let unanswered = self.unanswered.iter().filter(|index| state != State::Absent || is_start(index));
        let mut all: Vec<_> = unanswered.chain(starts).copied().filter(may_come).collect();
        match state {
            State::Live(Some(sum)) => {
                all.extend(self.by_sum_before.get(&sum).into_iter().flatten().copied().filter(may_come));
            }
            State::Live(None) => all.extend(self.by_sum_before.values().flatten().copied().filter(may_come)),
            State::Absent => {}
        }
        all
    }

    /// Whether no step that is not placed was answered before this one was sent.
    fn may_be_next(&self, index: usize) -> bool {
        let first_answer = self.by_answer.get(self.first_open).and_then(|&first| self.operations[first].answer);
        first_answer.is_none_or(|(at, _)| self.operations[index].sent_at <= at)
    }

    fn place(&mut self, index: usize, before: State) -> State {
        self.mark(index, true);
        while self.by_answer.get(self.first_open).is_some_and(|&first| self.is_placed[first]) {
            self.first_open += 1;
        }
        let Operation { step, answer, .. } = &self.operations[index];
        let sum = match (answer, before) {
            (Some((_, Answer::Sum(sum))), _) => Some(*sum),
            (None, _) if step.start => Some(step.value),
            (None, State::Live(sum)) => sum.map(|sum| sum.wrapping_add(step.value)),
            (Some((_, Answer::Rejected)), _) | (None, State::Absent) => return before,
        };
        if step.end { State::Absent } else { State::Live(sum) }
    }

    fn mark(&mut self, index: usize, placed: bool) {
        self.is_placed[index] = placed;
        self.digest ^= mixed(index as u64);
        if self.operations[index].answer.is_some() {
            self.open = if placed { self.open - 1 } else { self.open + 1 };
        }
    }

    fn remember_the_longest(&mut self) {
        if (self.open, self.path.len()) < (self.least_open, self.longest.len()) || self.least_open == usize::MAX {
            self.least_open = self.open;
            self.longest = self.path.iter().map(|place| place.operation).collect();
            #[cfg(test)]
            self.looked_at.update(|looked_at| looked_at + self.path.len() + self.by_answer.len());
            let open = self.by_answer.iter().copied().filter(|index| !self.is_placed[*index]);
            self.unexplained = open.filter(|index| self.may_be_next(*index)).collect();
        }
    }

    fn taken(&self, order: impl Iterator<Item = usize>) -> Vec<Taken> {
        let taken = |index: usize| {
            let Operation { step, answer, .. } = &self.operations[index];
            Taken { request: step.request, answer: answer.map(|(_, answer)| answer) }
        };
        order.map(taken).collect()
    }
}

/// A number's bits, mixed, so that sets of numbers can be told apart by the exclusive or of theirs (splitmix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
pub(super) mod tests;
