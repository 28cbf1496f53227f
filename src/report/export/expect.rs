//! What the answers to a conversation's steps have to be, as far as that follows from what was sent before.

use crate::{arithmetic::Arithmetic, number::Number};

/// What is known of the sequence of one correlation ID. It is less than the oracle knows: where the order of requests, a cut or the
/// idle limit may decide, it knows nothing.
#[derive(Debug)]
pub(super) struct Expecting {
    arithmetic: Arithmetic,
    state: State,
    /// What was cut may still arrive.
    has_strays: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// The ID has no sequence. So it is at first, because a script's IDs are its own.
    #[default]
    Nothing,
    Sum(Number),
    Unknown,
}

impl Expecting {
    /// Of an ID that is not used yet, of a model that computes like this.
    pub(super) fn new(arithmetic: Arithmetic) -> Self {
        Self { arithmetic, state: State::default(), has_strays: false }
    }

    /// A step is sent; returns what it has to be answered with, as Python has it. `elsewhere` says whether requests of the ID may be
    /// under way on other streams.
    pub(super) fn send(&mut self, start: bool, end: bool, value: i64, elsewhere: bool) -> Option<String> {
        let value = self.arithmetic.number(value);
        let answer = match self.state {
            _ if start => State::Sum(value),
            State::Sum(sum) => State::Sum(sum.wrapping_add(value)),
            other => other,
        };
        let is_open = elsewhere || (self.has_strays && !start);
        self.state = match answer {
            _ if elsewhere || self.has_strays => State::Unknown,
            State::Sum(_) if end => State::Nothing,
            other => other,
        };
        match answer {
            _ if is_open => None,
            State::Sum(sum) => self.arithmetic.known_answer(sum, value, (start, end)).map(|answer| answer.to_string()),
            State::Nothing => Some("REFUSED".to_owned()),
            State::Unknown => None,
        }
    }

    /// A step is sent that may be refused because its sequence waited for too long; then the whole sequence is.
    pub(super) fn may_expire(&mut self) {
        self.state = State::Unknown;
    }

    /// Nothing is sent for a while: the sequence may go idle.
    pub(super) fn pause(&mut self) {
        if matches!(self.state, State::Sum(_)) {
            self.state = State::Unknown;
        }
    }

    /// A stream was cut while so many requests may have been under way.
    pub(super) fn cut(&mut self, unanswered: u32) {
        self.has_strays |= unanswered > 0;
        if unanswered > 0 {
            self.state = State::Unknown;
        }
    }
}
