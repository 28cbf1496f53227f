//! What the server may hold for one correlation ID while nothing is under way on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Doubt;
use workload::{number::Number, sequence::Step};

/// What the server holds for a correlation ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No sequence.
    Absent,
    /// A sequence with this sum; none where it is not known.
    Live(Option<Number>),
}

/// The set of states that are possible for one correlation ID. It never grows beyond two known sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Possible {
    /// There may be no sequence, so that a step without START may be rejected.
    pub(super) absent: bool,
    /// There may be a sequence, with any sum.
    any: bool,
    /// There may be a sequence with this sum.
    sum: Option<Number>,
    /// Or with this one.
    other: Option<Number>,
}

/// What an answer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Right,
    /// Nothing definite had to come.
    Unjudged(Doubt),
    /// None of these sums came.
    Wrong(Vec<Number>),
    /// The step had to be rejected.
    NotRejected,
    /// The step had to be accepted.
    WronglyRejected,
}

impl Judged {
    pub(super) fn doubt(&self) -> Option<Doubt> {
        match self {
            Self::Unjudged(doubt) => Some(*doubt),
            _ => None,
        }
    }
}

impl Possible {
    /// Before the first START of an ID, when an earlier run's sequence may still live, and after a cut.
    pub(super) const UNKNOWN: Self = Self { absent: true, any: true, sum: None, other: None };
    /// After an answered END, and after a START error.
    pub(super) const ABSENT: Self = Self { absent: true, any: false, sum: None, other: None };

    fn live(sum: Number) -> Self {
        Self { absent: false, any: false, sum: Some(sum), other: None }
    }

    /// The set of these states. Of more than two sums none is kept.
    pub(super) fn of(states: impl Iterator<Item = State>) -> Self {
        let mut set = Self { absent: false, any: false, sum: None, other: None };
        for state in states {
            match state {
                State::Absent => set.absent = true,
                State::Live(None) => set.any = true,
                State::Live(sum) if set.sum.is_none_or(|known| Some(known) == sum) => set.sum = sum,
                State::Live(sum) if set.other.is_none_or(|known| Some(known) == sum) => set.other = sum,
                State::Live(_) => set.any = true,
            }
        }
        set
    }

    pub(super) fn states(&self) -> impl Iterator<Item = State> {
        let absent = self.absent.then_some(State::Absent);
        let any = self.any.then_some(State::Live(None));
        absent.into_iter().chain(any).chain(self.sums().map(|sum| State::Live(Some(sum))))
    }

    /// The sums that a sequence may have, as far as they are known.
    pub(super) fn sums(&self) -> impl Iterator<Item = Number> + use<> {
        self.sum.into_iter().chain(self.other)
    }

    /// The set where the sequence may be lost.
    pub(super) fn or_absent(self) -> Self {
        Self { absent: true, ..self }
    }

    /// The set without its sums: another sequence of the ID may change them.
    pub(super) fn with_any_sum(self) -> Self {
        Self { absent: self.absent, any: self.any || self.sum.is_some(), sum: None, other: None }
    }

    /// The set where there may be any sum in place of this one.
    pub(super) fn without(self, sum: Number) -> Self {
        Self::of(self.states().map(|state| if state == State::Live(Some(sum)) { State::Live(None) } else { state }))
    }

    /// The one sum that has to come where the step is accepted; none where it has to be rejected, or nothing is known.
    pub(super) fn expected(&self, step: &Step) -> Option<Number> {
        if step.start {
            return Some(step.value);
        }
        if self.any { None } else { self.sum.map(|sum| sum.wrapping_add(step.value)) }
    }

    pub(super) fn has_to_reject(&self, step: &Step) -> bool {
        !step.start && *self == Self::ABSENT
    }

    /// The set after a step was rejected that had to be accepted: it was rejected, and the sequence is there or not, or only the
    /// answer was wrong.
    pub(super) fn after_wrong_rejection(self, step: &Step) -> Self {
        let accepted = self.expected(step).filter(|_| !step.end).map(|sum| State::Live(Some(sum)));
        Self::of(self.states().chain([State::Absent]).chain(accepted))
    }

    pub(super) fn may_be_live(&self) -> bool {
        self.any || self.sum.is_some()
    }

    /// Narrows the set by the answer to an accepted step.
    pub(super) fn accept(&mut self, step: &Step, answer: Number) -> Judged {
        let (expected, judged) = (self.expected(step), self.judge(step, answer));
        *self = match judged {
            _ if step.end => Self::ABSENT,
            // Either the state is wrong now, or only the answer was: both may show in the next step.
            Judged::Wrong(_) => Self { other: expected, ..Self::live(answer) },
            Judged::NotRejected => Self { absent: true, ..Self::live(answer) },
            _ => Self::live(answer),
        };
        judged
    }

    fn judge(&self, step: &Step, answer: Number) -> Judged {
        let Some(expected) = self.expected(step) else {
            return if self.has_to_reject(step) { Judged::NotRejected } else { Judged::Unjudged(Doubt::State) };
        };
        let alternative = self.other.filter(|_| !step.start).map(|sum| sum.wrapping_add(step.value));
        let is_right = answer == expected || Some(answer) == alternative;
        if is_right { Judged::Right } else { Judged::Wrong(vec![expected]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::sequence::{Pattern, RequestId};

    fn step(start: bool, end: bool, value: i32) -> Step {
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        Step { request, pattern: Pattern::Valid, start, end, value: value.into(), of: 3, special: None }
    }

    #[test]
    fn a_start_is_determined_whatever_was_before() {
        for mut before in [Possible::UNKNOWN, Possible::ABSENT, Possible::live(7.into())] {
            assert_eq!(before.accept(&step(true, false, 5), 5.into()), Judged::Right);
            assert_eq!(before, Possible::live(5.into()));
        }
    }

    #[test]
    fn a_sum_goes_on_and_wraps() {
        let mut state = Possible::live(i32::MAX.into());
        assert_eq!(state.accept(&step(false, false, 1), i32::MIN.into()), Judged::Right);
        assert_eq!(
            state.accept(&step(false, true, 2), (i32::MIN + 3).into()),
            Judged::Wrong(vec![(i32::MIN + 2).into()])
        );
        assert_eq!(state, Possible::ABSENT);
    }

    #[test]
    fn after_a_wrong_answer_the_wrong_and_the_right_sum_may_go_on() {
        for continued in [105, 15] {
            let mut state = Possible::live(5.into());
            assert_eq!(state.accept(&step(false, false, 5), 100.into()), Judged::Wrong(vec![10.into()]));
            assert_eq!(state.accept(&step(false, false, 5), continued.into()), Judged::Right);
            assert_eq!(state, Possible::live(continued.into()));
        }
        let mut state = Possible::live(5.into());
        state.accept(&step(false, false, 5), 100.into());
        assert_eq!(state.accept(&step(false, false, 5), 16.into()), Judged::Wrong(vec![105.into()]));
        assert_eq!(state.accept(&step(true, false, 5), 105.into()), Judged::Wrong(vec![5.into()]));
    }

    #[test]
    fn without_a_sequence_a_step_without_start_has_to_be_rejected() {
        let mut state = Possible::ABSENT;
        assert!(state.has_to_reject(&step(false, false, 5)));
        assert_eq!(state.accept(&step(false, false, 5), 5.into()), Judged::NotRejected);
        // It may have a sequence now, or only the answer was wrong.
        assert_eq!(state, Possible { absent: true, ..Possible::live(5.into()) });
    }

    #[test]
    fn after_a_wrong_rejection_the_sequence_may_be_there_or_not_and_the_step_in_it_or_not() {
        let after = Possible::live(5.into()).after_wrong_rejection(&step(false, false, 2));
        assert!(after.absent && !after.has_to_reject(&step(false, false, 5)));
        for sum in [10, 12] {
            let mut state = after;
            assert_eq!(state.accept(&step(false, false, 5), sum.into()), Judged::Right);
            assert_eq!(state, Possible::live(sum.into()));
        }
    }

    #[test]
    fn where_nothing_is_known_the_answer_tells_the_sum() {
        let mut state = Possible::UNKNOWN;
        assert_eq!(state.accept(&step(false, false, 5), 1000.into()), Judged::Unjudged(Doubt::State));
        assert_eq!(state.accept(&step(false, false, 5), 1005.into()), Judged::Right);
    }
}
