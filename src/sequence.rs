//! What the tool and the server talk about: correlation IDs, patterns, sequences and their steps.

use std::{fmt, num::NonZeroU64, str::FromStr};

use serde::{Deserialize, Serialize};

/// The number that makes requests one sequence. Zero would mean 'no sequence', so it cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CorrelationId(pub NonZeroU64);

impl CorrelationId {
    /// The ID as the wire's `int64_param` has it: one of 2^63 and more turns negative.
    #[must_use]
    pub fn to_wire(self) -> i64 {
        self.0.get().cast_signed()
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! patterns {
    ($($pattern:ident $name:literal $leaves_none:literal $what:literal;)*) => {
        /// The life cycle of what one pass of a worker sends on one correlation ID.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Pattern {
            $(#[doc = $what] #[serde(rename = $name)] $pattern,)*
        }

        impl Pattern {
            /// All patterns, in the order of [`Pattern::index`].
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$pattern),*];

            /// The names of all patterns, in the order of [`Pattern::index`].
            pub const NAMES: &[&str] = &[$($name),*];

            /// The pattern's name, as scenario files and reports have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$pattern => $name,)* }
            }

            /// What is sent, in a sentence.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$pattern => $what,)* }
            }

            /// Whether the ID certainly has no sequence on a correct server once all answers to this pattern are there.
            #[must_use]
            pub fn leaves_no_sequence(self) -> bool {
                match self { $(Self::$pattern => $leaves_none,)* }
            }
        }
    };
}

patterns! {
    Valid "valid" true "START … END.";
    ValidValid "valid-valid" true "START … END, START … END, back to back: a slot, and an ID, used again.";
    ValidNoEnd "valid-no-end" false "START … END, START … with no END: the server has to reclaim the slot by its idle limit.";
    NoStart "no-start" true "One step with no START on an ID that has no sequence: it has to be refused.";
    NoEnd "no-end" false "START … with no END: the server has to end the sequence itself and use its slot again.";
    Pause "pause" false "A pause around the idle limit in the middle of a sequence.";
    CancelQueued "cancel-queued" false "The stream is cancelled while one step executes and others, END among them or not, are queued.";
    CancelExecuting "cancel-executing" false "The stream is cancelled while a step executes, all before it answered.";
    CancelIdle "cancel-idle" false "The stream is cancelled when all that was sent is answered.";
    CancelRestart "cancel-restart" false "The stream is cancelled with END queued, and the ID is started at once over another connection.";
    HalfClose "half-close" true "START … END, half-closed while answers are due: all of them have to come.";
    Reset "reset" false "The TCP connection is reset while steps are under way.";
    ContinueElsewhere "continue-elsewhere" true "The sequence is continued over another connection.";
    ContinueByNeighbour "continue-by-neighbour" true "The sequence is continued over another worker's connection.";
    RestartElsewhere "restart-elsewhere" false "The ID is started again over another connection while its sequence is under way.";
    Concurrent "concurrent" true "One sequence is submitted over several connections at once.";
}

impl Pattern {
    /// Whether it is about steps that are queued in the server, so that no window holds them back.
    #[must_use]
    pub fn needs_a_queue(self) -> bool {
        matches!(self, Self::CancelQueued | Self::CancelRestart | Self::HalfClose | Self::Reset)
    }

    /// The pattern's place in [`Pattern::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A run of steps on one correlation ID, from a START to an END unless one of them is left out on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sequence {
    /// Whether the first step carries START.
    pub start: bool,
    /// Whether the last step carries END.
    pub end: bool,
    /// The input of each step; never empty.
    pub values: Vec<i32>,
}

/// The name of one request, unlike that of any other request of the run. On the wire:
/// `worker-context-sequence-step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    /// The worker's index.
    pub worker: u32,
    /// The context's index in the worker.
    pub context: u32,
    /// The how-manieth sequence of the worker this is, from 0.
    pub sequence: u32,
    /// The step's index in its sequence.
    pub step: u32,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.worker, self.context, self.sequence, self.step)
    }
}

impl FromStr for RequestId {
    type Err = NotARequestId;

    fn from_str(text: &str) -> Result<Self, NotARequestId> {
        let mut numbers = text.split('-').map(|part| part.parse().map_err(|_| NotARequestId));
        let mut next = || numbers.next().unwrap_or(Err(NotARequestId));
        let id = Self { worker: next()?, context: next()?, sequence: next()?, step: next()? };
        if numbers.next().is_some() { Err(NotARequestId) } else { Ok(id) }
    }
}

/// The text is not a [`RequestId`] as this tool writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARequestId;

/// One request of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The request's own ID.
    pub request: RequestId,
    /// The pattern that the step's sequence is part of.
    pub pattern: Pattern,
    /// Whether the step carries START.
    pub start: bool,
    /// Whether the step carries END.
    pub end: bool,
    /// The element of the INPUT tensor.
    pub value: i32,
    /// How many steps the sequence has.
    pub of: u32,
}

impl Step {
    /// Whether this is its sequence's first step.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.request.step == 0
    }

    /// Whether this is its sequence's last step.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.request.step + 1 == self.of
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = match (self.start, self.end) {
            (true, true) => " START END",
            (true, false) => " START",
            (false, true) => " END",
            (false, false) => "",
        };
        write!(f, "{} step {}/{}{flags} value {}", self.pattern, self.request.step + 1, self.of, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_read_back_from_the_wire() {
        let id = RequestId { worker: 7, context: 3, sequence: 4_000_000_000, step: 15 };
        assert_eq!(id.to_string(), "7-3-4000000000-15");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn other_texts_are_no_request_ids() {
        for text in ["", "7", "7-4-15", "7-3-4-15-1", "a-3-4-15", "7-3--15", "7-3-4-15 ", "-7-3-4-15"] {
            assert_eq!(text.parse::<RequestId>(), Err(NotARequestId), "{text:?}");
        }
    }

    #[test]
    fn large_correlation_ids_are_negative_on_the_wire() {
        let id = CorrelationId(NonZeroU64::MAX);
        assert_eq!(id.to_wire(), -1);
    }

    #[test]
    fn the_patterns_know_their_places() {
        for (index, pattern) in Pattern::ALL.into_iter().enumerate() {
            assert_eq!(pattern.index(), index);
            assert_eq!(serde_json::to_value(pattern).expect("a name"), pattern.name());
        }
    }
}
